"""A lesson is a value: done again, also from a file, it makes an equal model, and what a model alone does."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given as given_, settings, strategies as st

from layup import ImageModel, LayUP
from layup.model import (
    Draft,
    GivenPhotos,
    Knowledge,
    Lesson,
    forgot,
    forgot_class,
    renamed,
    taught,
    undone,
)
from live import new_model, photos
from models import assert_unchanged, small_network, snapshot

Deed = tuple[str, Any, Any]
numbers = st.lists(st.integers(0, 9), min_size=1, max_size=4, unique=True)
names = st.sampled_from(["cat", "dog", "owl"])
deeds = st.one_of(
    st.tuples(st.just("learn"), numbers, names),
    st.tuples(st.just("move"), numbers, names),
    st.tuples(st.just("forget"), numbers, names),
    st.tuples(st.just("drop"), names, names),
    st.tuples(st.just("rename"), names, names),
    st.tuples(st.just("undo"), names, names),
)


def draft(model: ImageModel, deed: Deed) -> Draft:
    """A lesson for a model as it is; a `LookupError` if there is nothing that could be done."""
    action, what, name = deed
    knowledge, features = model.knowledge, model.photo_features
    given = None
    if action in ("learn", "move", "forget"):
        images = photos(what)
        given = GivenPhotos.of(len(images), model.extractor_.extract(images))
    if action in ("drop", "rename") and what not in model.counts_:
        raise LookupError
    if action == "undo" and not (
        model.log and model.log[-1].action == "learn" and not model.log[-1].forgotten
    ):
        raise LookupError
    makers: dict[str, Callable[[], Draft]] = {
        "learn": lambda: taught(knowledge, given, [name] * len(what)),  # type: ignore[arg-type]
        "move": lambda: taught(knowledge, given, [name] * len(what), relabel=True),  # type: ignore[arg-type]
        "forget": lambda: forgot(knowledge, given),  # type: ignore[arg-type]
        "drop": lambda: forgot_class(knowledge, what, features),
        "rename": lambda: renamed(knowledge, what, name),
        "undo": lambda: undone(knowledge, features),
    }
    return makers[action]()


def do_alone(model: ImageModel, deed: Deed) -> None:
    """The same by the methods of a model."""
    action, what, name = deed
    if action in ("learn", "move"):
        model.learn(photos(what), [name] * len(what), relabel=action == "move")
    elif action == "forget":
        known = model.learned_as(photos(what))
        model.forget([image for image, labels in zip(photos(what), known, strict=True) if labels])
    elif action == "drop":
        model.forget_class(what)
    elif action == "rename":
        model.rename(what, name)
    else:
        model.undo()


def filed(lesson: Lesson) -> Lesson:
    """A lesson as a file gives it back."""
    every = lesson.photos
    return Lesson.from_state(json.loads(json.dumps(lesson.state())), every.rows, every.digests)


@settings(max_examples=25)
@given_(st.lists(deeds, min_size=1, max_size=8), st.booleans())
def test_lessons_done_again_make_an_equal_model_and_that_of_a_model_alone(
    history: list[Deed], rooted: bool
) -> None:
    def fresh() -> ImageModel:
        model = new_model()
        return ImageModel(model.features, model.classifier, backbone=small_network(), per_class=rooted)

    live, again, alone = fresh(), fresh(), fresh()
    for deed in history:
        try:
            drafted = draft(live, deed)
        except LookupError:
            continue
        lesson, outcome = drafted.apply(live.knowledge, 1)
        if lesson is None:
            assert outcome.learned == outcome.forgotten == {}
            continue
        do_alone(alone, deed)
        filed(lesson).apply(again.knowledge)
        again.knowledge.photos = again.knowledge.known.under(live.knowledge.known.key)
        assert_unchanged(again, snapshot(live))
        if live.counts_:
            scores = [model.predictions(photos(range(9))).scores for model in (live, again)]
            np.testing.assert_array_equal(*scores)
        assert live.state_hash == alone.state_hash
        assert [(each.action, each.learned, each.forgotten, each.chosen) for each in live.log] == [
            (each.action, each.learned, each.forgotten, each.chosen) for each in alone.log
        ]
        assert outcome.counts == alone.counts_


def test_a_replayed_lesson_searches_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    live, again = (LayUP(small_network(), 2, lam="search") for _ in range(2))
    lesson, _ = draft(live, ("learn", [*range(9)], "cat")).apply(live.knowledge, 1)
    other, _ = draft(live, ("learn", [*range(10, 19)], "dog")).apply(live.knowledge, 2)
    assert lesson is not None
    assert other is not None
    monkeypatch.setattr(type(again.classifier_), "_search", lambda *_: 1 / 0)
    filed(lesson).apply(again.knowledge)
    filed(other).apply(again.knowledge)
    assert_unchanged(again, snapshot(live))


def test_a_lesson_that_does_not_fit_changes_nothing() -> None:
    live = new_model()
    lesson, _ = draft(live, ("learn", [1, 2], "cat")).apply(live.knowledge, 1)
    gone, _ = draft(live, ("forget", [1], "cat")).apply(live.knowledge, 2)
    assert lesson is not None
    assert gone is not None
    other = new_model()
    other.learn(photos([5]), ["dog"])
    before = snapshot(other)
    with pytest.raises(ValueError, match="cat"):
        gone.apply(other.knowledge)
    assert_unchanged(other, before)


def test_a_frozen_copy_stays_as_it_was() -> None:
    live = new_model()
    draft(live, ("learn", [1, 2], "cat")).apply(live.knowledge, 1)
    frozen: Knowledge = live.knowledge.frozen()
    before = frozen.parts.sums.digest()
    draft(live, ("learn", [3, 4], "dog")).apply(live.knowledge, 2)
    draft(live, ("rename", "cat", "owl")).apply(live.knowledge, 3)
    assert frozen.counts == {"cat": 2}
    assert frozen.parts.sums.digest() == before
    assert len(frozen.log) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"action": "merge"},
        {"new": ["cat", "dog", "owl"]},
        {"label": "cat"},
        {"name": "cat"},
        {"action": "rename"},
        {"id": "no hash"},
        {"more": 1},
    ],
)
def test_what_a_file_cannot_say_of_a_lesson_is_refused(change: dict[str, Any]) -> None:
    live = new_model()
    lesson, _ = draft(live, ("learn", [1, 2], "cat")).apply(live.knowledge, 1)
    assert lesson is not None
    every = lesson.photos
    with pytest.raises(ValueError, match="lesson"):
        Lesson.from_state({**lesson.state(), **change}, every.rows, every.digests)
