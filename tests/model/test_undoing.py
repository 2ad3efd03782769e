"""Undo takes the last batch back: what is left is what was before it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as given_, settings, strategies as st

from layup import FeatureCache, FirstSession, LayUP, load, load_backbone
from layup.adapters import AdaptedBackbone
from layup.errors import InputError
from layup.model import BatchReport
from layup.tuning import adapt
from models import (
    Photo,
    assert_holds,
    assert_unchanged,
    given,
    photos_of,
    small_model,
    small_network,
    snapshot,
)
from photos import batch

CATS: list[Photo] = [(number, "cat") for number in range(5)]
DOGS: list[Photo] = [(number, "dog") for number in range(5, 9)]
OWLS: list[Photo] = [(number, "owl") for number in range(9, 16)]
photos_once = st.dictionaries(st.integers(0, 11), st.sampled_from(["cat", "dog", "owl"]), min_size=1)


@settings(max_examples=10)
@given_(photos_once, photos_once, st.booleans(), st.booleans())
def test_learning_and_undoing_leaves_what_was_before(
    before: dict[int, str], more: dict[int, str], again: bool, per_class: bool
) -> None:
    model = small_model([*before.items()], per_class=per_class)
    log, photos, lam = list(model.log), photos_of(model), model.lambda_
    report = model.learn(*given(more.items()), again=again)
    if not report.changed:
        return
    assert model.undo() == BatchReport(forgotten=report.learned)
    assert_holds(model, before.items())
    assert (model.log, photos_of(model), model.lambda_) == (log, photos, lam)


def test_lambda_becomes_what_it_was(tmp_path: Path) -> None:
    model = small_model([*CATS, *DOGS], lam="search")
    model.classifier_.adopt(model.statistics_, 0.25)
    model.log[-1] = type(model.log[-1]).from_dict({**model.log[-1].to_dict(), "chosen": {"lambda": 0.25}})
    model.learn(*given([*OWLS, (30, "cat"), (31, "cat")]))
    assert model.lambda_ != 0.25
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup", backbone=small_network())
    for each in (model, loaded):
        each.undo()
        assert each.lambda_ == 0.25
        assert len(each.log) == 1


def test_the_first_batch_can_be_undone_and_the_features_stay_cached() -> None:
    model = small_model(CATS, DOGS)
    model.undo()
    model.undo()
    assert (model.classes_, model.log, len(model.photos)) == ([], [], 0)
    with pytest.raises(InputError, match="nothing to undo"):
        model.undo()
    with pytest.raises(InputError, match="knows no class"):
        model.predict(given(CATS)[0])
    assert model.extractor_.extract(given([*CATS, *DOGS])[0]).forwarded == 0
    model.learn(*given(CATS))
    assert_holds(model, CATS)


def test_the_first_batch_of_a_loaded_model_can_be_undone(tmp_path: Path) -> None:
    small_model(CATS).save(tmp_path / "m.layup")
    model = load(tmp_path / "m.layup", backbone=small_network())
    model.undo()
    assert (model.classes_, model.log) == ([], [])
    model.learn(*given(DOGS))
    assert_holds(model, DOGS)


def test_what_is_no_longer_in_the_cache_cannot_be_undone(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    model = small_model(CATS, DOGS, cache=cache)
    cache.clear()
    before = snapshot(model)
    with pytest.raises(
        InputError, match=r"features of 4 of its 4 photos are not in the cache, such as a photo"
    ):
        model.undo()
    assert_unchanged(model, before)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda model: model.forget(*given(CATS[:1])), "'forget'. What was forgotten cannot be brought back"),
        (lambda model: model.forget_class("dog"), "'forget'. What was forgotten cannot be brought back"),
        (lambda model: model.rename("dog", "wolf"), "'rename'. Rename the class back"),
        (lambda model: model.merge(small_model(OWLS)), "'merge'. A merge cannot be undone"),
        (lambda model: model.sync(*given(CATS[1:])), "The last sync also forgot or moved 5 photos"),
        (
            lambda model: model.learn(*given([(0, "dog")]), relabel=True),
            "The last learn also forgot or moved 1",
        ),
    ],
)
def test_what_did_more_than_learn_cannot_be_undone(change, why: str) -> None:
    model = small_model(CATS, DOGS)
    change(model)
    before = snapshot(model)
    with pytest.raises(InputError, match=why):
        model.undo()
    assert_unchanged(model, before)


def test_photos_that_were_renamed_since_are_not_lost() -> None:
    model = small_model(CATS, DOGS)
    model.rename("dog", "cat")
    model.learn(*given(OWLS))
    model.undo()
    assert_holds(model, [*CATS, *((number, "cat") for number, _ in DOGS)])


# ---- first sessions

SESSION = FirstSession("vpt", epochs=1)
FIRST, SECOND = batch({0: 3, 1: 3}), batch({2: 3, 3: 2})


@pytest.mark.parametrize("through_a_file", [True, False])
def test_the_first_session_is_undone_with_its_batch(tmp_path: Path, through_a_file: bool) -> None:
    model = LayUP("vit-nano", 1, 1.0, adapter=SESSION)
    model.learn(*FIRST)
    if through_a_file:
        model.save(tmp_path / "m.layup")
        model = load(tmp_path / "m.layup")
    model.undo()
    assert not model.network.adapted
    model.save(tmp_path / "m.layup")
    model = load(tmp_path / "m.layup")
    model.learn(*SECOND)
    assert model.network.adapted
    other = LayUP(load_backbone("vit-nano"), 1, 1.0, adapter=SESSION)
    other.learn(*SECOND)
    assert model.backbone_.fingerprint == other.backbone_.fingerprint
    np.testing.assert_array_equal(model.scores(FIRST[0]), other.scores(FIRST[0]))


def test_an_adapter_that_was_given_is_not_undone() -> None:
    tuned = adapt(load_backbone("vit-nano"), *FIRST, SESSION)
    model = LayUP(tuned, 1, 1.0)
    model.learn(*SECOND)
    model.undo()
    assert isinstance(model.backbone_, AdaptedBackbone)


def test_the_rule_for_lambda_is_undone_too() -> None:
    model = small_model(CATS, DOGS, lam="gcv")
    before = model.lambda_, model.classifier.get_params()
    model.configure(lam=10.0, balance=False)
    model.learn(*given([(20, "owl"), (21, "owl")]))
    assert model.lambda_ == 10
    model.undo()
    assert (model.lambda_, model.classifier.get_params()) == before
    assert model.classifier_.get_params() == before[1]
