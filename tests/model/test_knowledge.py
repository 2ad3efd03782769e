"""What a model has learned, without images: changes of it are whole, or did not happen."""

from __future__ import annotations

import json

import numpy as np
import pytest

from layup.algebra import ClassRoots, RidgeClassifier
from layup.errors import ForgetError, InputError, LayupError
from layup.model.knowledge import Knowledge
from layup.model.parts import Parts

ROWS = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
LABELS = ["cat"] * 4 + ["dog"] * 4
DIGESTS = [bytes([number]) * 16 for number in range(1, 9)]


def fresh() -> RidgeClassifier:
    classifier = RidgeClassifier(1.0)
    classifier.adopt(classifier.empty(3))
    return classifier


def parts_of(rows: slice, per_class: bool = False) -> Parts:
    parts = Parts(fresh().statistics_, ClassRoots(3) if per_class else None)
    parts.update(ROWS[rows], LABELS[rows])
    return parts


def learned(*batches: slice, per_class: bool = False, anonymous: bool = False) -> Knowledge:
    knowledge = Knowledge(fresh, anonymous=anonymous, per_class=per_class)
    for number, rows in enumerate(batches):
        knowledge.adopt(knowledge.parts + parts_of(rows, per_class))
        if knowledge.photos is not None:
            knowledge.photos = knowledge.photos.with_photos(DIGESTS[rows], LABELS[rows], number)
        knowledge.note("learn", {label: LABELS[rows].count(label) for label in {*LABELS[rows]}})
    return knowledge


def held(knowledge: Knowledge) -> str:
    """All of it, as text; log entries without their random ids and dates."""
    header, arrays = knowledge.state()
    log = [{**entry, "id": "", "date": ""} for entry in header["log"]]
    known = knowledge.photos
    photos = "anonymous" if known is None else str((known.rows.digests.tobytes(), known.counts))
    sums = {name: np.round(each, 5).tolist() for name, each in arrays.items() if "photos" not in name}
    if knowledge.roots is not None:  # a root is one of many
        sums["roots"] = [np.round(knowledge.roots.gram(label), 5).tolist() for label in knowledge.counts]
    return json.dumps([{**header, "log": log, "photos": photos}, sums]).replace("-0.0,", "0.0,")


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("per_class", [False, True])
def test_an_interrupted_change_did_not_happen(per_class: bool, error: type[BaseException]) -> None:
    knowledge = learned(slice(0, 8), per_class=per_class)
    before, scores = held(knowledge), knowledge.classifier.scores_of(ROWS)
    with pytest.raises(error), knowledge.changing():  # noqa: PT012
        knowledge.rename("dog", "owl")
        knowledge.forget_class("cat", None)
        knowledge.classifier.absorb(parts_of(slice(0, 2)).sums)
        knowledge.photos = None
        knowledge.keep(None)
        raise error
    assert held(knowledge) == before
    np.testing.assert_allclose(knowledge.classifier.scores_of(ROWS), scores)


def test_the_classifier_is_made_when_it_is_needed_and_once() -> None:
    made: list[RidgeClassifier] = []

    def start() -> RidgeClassifier:
        made.append(fresh())
        return made[-1]

    knowledge = Knowledge(start, per_class=True)
    assert (knowledge.log, len(made)) == ([], 0)
    assert (knowledge.counts, knowledge.roots is not None) == ({}, True)
    assert knowledge.classifier is made[0]
    assert len(made) == 1


@pytest.mark.parametrize("per_class", [False, True])
def test_forgetting_subtracts_and_no_longer_knows(per_class: bool) -> None:
    knowledge = learned(slice(0, 8), per_class=per_class)
    knowledge.forget(np.array([0, 1]), parts_of(slice(0, 2), per_class), {"cat": 2})
    other = learned(slice(2, 8), per_class=per_class)
    assert knowledge.counts == other.counts == {"cat": 2, "dog": 4}
    np.testing.assert_allclose(knowledge.parts.sums.gram, other.parts.sums.gram, atol=1e-6)
    assert knowledge.photos.labels_of(DIGESTS[:3]) == [(), (), ("cat",)]
    assert knowledge.knows_all
    before = held(knowledge)
    with pytest.raises(ForgetError, match="only 2 were learned"):
        knowledge.forget(np.array([0]), parts_of(slice(0, 4), per_class), {"cat": 4})
    assert held(knowledge) == before


@pytest.mark.parametrize("per_class", [False, True])
def test_undoing_a_batch_is_as_before_it(per_class: bool) -> None:
    knowledge = learned(slice(0, 3), slice(3, 8), per_class=per_class)
    knowledge.undo(np.arange(3, 8), parts_of(slice(3, 8), per_class))
    assert held(knowledge) == held(learned(slice(0, 3), per_class=per_class))
    knowledge.undo(np.arange(3), parts_of(slice(0, 3), per_class))
    assert held(knowledge) == held(learned(per_class=per_class))


def test_a_class_is_dropped_as_far_as_it_can_be() -> None:
    with_root, with_parts, with_neither = (
        learned(slice(0, 8), per_class=root) for root in (True, False, False)
    )
    assert with_root.forget_class("cat", None)
    assert with_parts.forget_class("cat", parts_of(slice(0, 4)))
    for exact in (with_root, with_parts):
        np.testing.assert_allclose(exact.parts.sums.gram, parts_of(slice(4, 8)).sums.gram, atol=1e-5)
        assert (exact.knows_all, exact.log[-1].note) == (True, "")
    assert not with_neither.forget_class("cat", None)
    np.testing.assert_allclose(with_neither.parts.sums.gram, parts_of(slice(0, 8)).sums.gram, atol=1e-5)
    assert (with_neither.knows_all, with_neither.log[-1].note) == (False, "G keeps cat")


def test_what_is_not_known_is_refused_with_a_guess() -> None:
    knowledge = learned(slice(0, 8))
    with pytest.raises(LayupError, match=r"Unknown class .dgo.*Did you mean .dog"):
        knowledge.rename("dgo", "owl")
    anonymous = learned(slice(0, 8), anonymous=True)
    assert not anonymous.knows_all
    with pytest.raises(InputError, match="anonymous"):
        anonymous.require_all_known()
    knowledge.require_all_known()
    knowledge.photos = knowledge.photos.without(np.array([0]))
    with pytest.raises(InputError, match="it knows 7 of 8"):
        knowledge.require_all_known()


@pytest.mark.parametrize("per_class", [False, True])
def test_a_file_holds_all_of_it(per_class: bool) -> None:
    knowledge = learned(slice(0, 5), slice(5, 8), per_class=per_class)
    header, _ = knowledge.state()
    again = Knowledge(fresh)
    again.restore(header, knowledge.parts.sums, knowledge.photos, knowledge.roots)
    assert held(again) == held(knowledge)
    assert again.log == knowledge.log
