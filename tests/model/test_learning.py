"""A photo counts once, however often, in whatever order and in whatever batches it is given."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as given_, settings, strategies as st
from PIL import Image

from layup import FeatureCache, FirstSession, ImageModel, LayUP, load, load_backbone
from layup.algebra import RidgeClassifier
from layup.errors import BadImageError, InputError, StorageError
from layup.model import BatchReport, Conflict, photo_features, visits
from layup.model.knowledge import Knowledge
from models import (
    Photo,
    assert_holds,
    assert_unchanged,
    given,
    photos_of,
    picture,
    small_model,
    small_network,
    snapshot,
)
from photos import batch

CATS: list[Photo] = [(number, "cat") for number in range(5)]
DOGS: list[Photo] = [(number, "dog") for number in range(5, 9)]
numbers = st.integers(0, 11)
photos_once = st.dictionaries(numbers, st.sampled_from(["cat", "dog", "owl"]), min_size=1)


# ---- known photos


def test_learning_twice_is_learning_once() -> None:
    model = small_model(CATS, DOGS)
    before = snapshot(model)
    assert model.learn(*given([*CATS, *DOGS])) == BatchReport(known=9)
    assert_unchanged(model, before)  # not even the log


@settings(max_examples=12)
@given_(photos_once, st.data())
def test_batches_that_overlap_in_any_order_are_their_union(
    photos: dict[int, str], data: st.DataObject
) -> None:
    every = sorted(photos.items())
    batches = data.draw(st.lists(st.lists(st.sampled_from(every), min_size=1), max_size=4))
    model = small_model(*batches, every)
    assert_holds(model, every)
    assert sum(sum(entry.learned.values()) for entry in model.log) == len(every)


def test_only_what_is_new_is_learned_and_the_rest_is_counted() -> None:
    model = small_model(CATS)
    report = model.learn(*given([*CATS, *DOGS[:2], DOGS[0]]))
    assert report == BatchReport(learned={"dog": 2}, known=6)
    assert_holds(model, [*CATS, *DOGS[:2]])
    assert [dict(entry.learned) for entry in model.log] == [{"cat": 5}, {"dog": 2}]


def test_a_photo_is_known_by_its_content(tmp_path: Path) -> None:
    for name in ("one.png", "copy.png", "other.png"):
        Image.fromarray(picture(name == "other.png")).save(tmp_path / name)
    model = small_model()
    paths = [tmp_path / name for name in ("one.png", "copy.png", "other.png")]
    assert model.learn(paths, ["cat"] * 3) == BatchReport(learned={"cat": 2}, known=1)
    assert model.learn([path.read_bytes() for path in paths], ["cat"] * 3).known == 3
    (tmp_path / "one.png").write_bytes((tmp_path / "other.png").read_bytes())
    assert model.learned_as([*paths, picture(9)]) == [("cat",), ("cat",), ("cat",), ()]


def test_again_counts_every_image() -> None:
    model = small_model(CATS)
    report = model.learn(*given([*CATS[:2], CATS[0], (20, "cat")]), again=True)
    assert report == BatchReport(learned={"cat": 4})
    assert_holds(model, [*CATS, *CATS[:2], CATS[0], (20, "cat")])
    model.learn(*given([(0, "dog")]), again=True)
    assert model.learned_as([picture(0)]) == [("cat", "cat", "cat", "dog")]


# ---- conflicts


def test_a_photo_that_is_known_as_another_class_is_a_conflict() -> None:
    model = small_model(CATS)
    before = snapshot(model)
    report = model.learn(*given([(0, "dog"), (1, "cat")]))
    assert report == BatchReport(known=1, conflicts=[Conflict(0, "dog", "cat")])
    assert_unchanged(model, before)


def test_a_photo_given_as_two_classes_is_a_conflict_of_both() -> None:
    model = small_model()
    report = model.learn(*given([(0, "cat"), (1, "cat"), (0, "dog")]))
    assert report.learned == {"cat": 1}
    assert report.conflicts == [Conflict(0, "cat", "dog", 2), Conflict(2, "dog", "cat", 0)]
    assert_holds(model, [(1, "cat")])


@settings(max_examples=12)
@given_(photos_once, photos_once)
def test_relabelling_is_forgetting_and_learning(before: dict[int, str], now: dict[int, str]) -> None:
    model, twin = small_model([*before.items()]), small_model([*before.items()])
    report = model.learn(*given(now.items()), relabel=True)
    moved = [number for number, label in now.items() if before.get(number, label) != label]
    if moved:
        twin.forget([picture(number) for number in moved])
    twin.learn(*given(now.items()))
    for each in (model, twin):
        assert_holds(each, {**before, **now}.items())
    assert report.moved == len(moved)
    assert sum(report.forgotten.values()) == len(moved)
    assert report.known == sum(before.get(number) == label for number, label in now.items())


def test_a_photo_that_counts_several_times_is_moved_whole() -> None:
    model = small_model(CATS)
    model.learn(*given(CATS[:1]), again=True)
    report = model.learn(*given([(0, "dog")]), relabel=True)
    assert report == BatchReport(learned={"dog": 1}, forgotten={"cat": 2}, moved=1)
    assert_holds(model, [*CATS[1:], (0, "dog")])


# ---- bad images


def test_files_that_change_while_they_are_read_are_not_learned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the model would know another photo than the one that it has learned."""
    path = tmp_path / "a.png"
    Image.fromarray(picture(0)).save(path)
    Image.fromarray(picture(1)).save(tmp_path / "later.png")
    stream = visits.visit

    def changed(*arguments: Any, **options: Any) -> Any:
        path.write_bytes((tmp_path / "later.png").read_bytes())
        return stream(*arguments, **options)

    monkeypatch.setattr(photo_features, "visit", changed)
    model = small_model()
    with pytest.raises(InputError, match=r"None of the 1 .*'.*a\.png': it changed while it was read"):
        model.learn([path], ["cat"])
    report = model.learn([path, picture(5)], ["cat", "dog"])  # as it is now
    assert report.learned == {"cat": 1, "dog": 1}
    Image.fromarray(picture(2)).save(path)
    with pytest.raises(BadImageError, match="changed while it was read"):
        model.learn([path], ["cat"], strict=True)


def test_a_batch_of_known_and_bad_images_says_so(tmp_path: Path) -> None:
    model = small_model(CATS)
    before = snapshot(model)
    report = model.learn([picture(0), tmp_path / "none.jpg"], ["cat", "cat"])
    assert (report.known, [bad.index for bad in report.bad], report.changed) == (1, [1], False)
    assert_unchanged(model, before)


# ---- anonymous models


def test_an_anonymous_model_counts_each_time_and_refuses_what_needs_digests(tmp_path: Path) -> None:
    model = small_model(CATS, CATS[:2], anonymous=True)
    assert_holds(model, [*CATS, *CATS[:2]])
    assert model.learned_as([picture(0)]) == [()]
    before = snapshot(model)
    for refused, why in (
        (lambda: model.forget(*given(CATS[:1])), "which were to be forgotten"),
        (lambda: model.sync(*given(CATS)), "which were to be forgotten"),
        (model.undo, "which were learned last"),
    ):
        with pytest.raises(InputError, match=rf"anonymous: it keeps no digests.*{why}"):
            refused()
        assert_unchanged(model, before)
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup", backbone=small_network())
    assert loaded.photos is None
    assert loaded.rename("cat", "lynx").counts_ == {"lynx": 7}
    assert loaded.forget_class("lynx").forgotten == {"lynx": 7}


# ---- interruptions


class Interruption(KeyboardInterrupt):
    pass


def teach(model: ImageModel) -> None:
    model.learn(*given([(0, "dog"), (20, "cat"), (21, "owl"), (22, "owl")]), relabel=True)


def make_equal(model: ImageModel) -> None:
    model.sync(*given([*CATS[2:], (5, "cat"), (30, "owl")]))


CHANGES: dict[str, Callable[[ImageModel], object]] = {
    "learn": teach,
    "sync": make_equal,
    "forget": lambda model: model.forget(*given(CATS[:2])),
    "forget a class": lambda model: model.forget_class("dog"),
    "rename": lambda model: model.rename("cat", "dog"),
    "undo": lambda model: model.undo(),
    "merge": lambda model: model.merge(small_model([*CATS, (40, "owl")])),
}


def fail_at(patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
    """Let a step be done, and then be interrupted: once."""
    whole = getattr(owner, name)

    def interrupted(*arguments: Any, **options: Any) -> None:
        patch.setattr(owner, name, whole)
        whole(*arguments, **options)
        raise Interruption

    patch.setattr(owner, name, interrupted)


@pytest.mark.parametrize("lam", [1.0, "search"])
@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("step", ["adopt", "absorb", "keep", "note"])
def test_an_interrupted_change_is_not_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, lam: float | str, what: str, step: str
) -> None:
    """Sums, roots, photos, λ and log stay those of before; and the change can then be made."""
    model, twin = (
        small_model(CATS, DOGS, lam=lam, per_class=True, cache=FeatureCache(tmp_path / name))
        for name in ("mine", "its")
    )
    before = snapshot(model)
    with monkeypatch.context() as patch:
        fail_at(patch, Knowledge if step in ("keep", "note") else RidgeClassifier, step)
        try:
            CHANGES[what](model)
            made = True
        except Interruption:
            made = False
    if made:
        return  # this change does not take that step
    assert_unchanged(model, before)
    CHANGES[what](model)
    CHANGES[what](twin)
    assert model.counts_ == twin.counts_
    assert [photo[:2] for photo in photos_of(model)] == [photo[:2] for photo in photos_of(twin)]
    assert model.lambda_ == pytest.approx(twin.lambda_)
    np.testing.assert_allclose(model.statistics_.gram, twin.statistics_.gram, rtol=1e-6, atol=1e-6)


def test_a_search_that_fails_leaves_what_was_to_be_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_model(CATS, DOGS, lam="search")
    before = snapshot(model)

    def fail(*_: Any, **__: Any) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(RidgeClassifier, "_search", fail)
        with pytest.raises(MemoryError):
            teach(model)
    assert_unchanged(model, before)


# ---- first sessions


def test_a_first_batch_with_duplicates_tunes_to_each_photo_once() -> None:
    session = FirstSession("vpt", epochs=1)
    images, labels = batch({0: 3, 1: 3})
    models = [LayUP(load_backbone("vit-nano"), 1, 1.0, adapter=session, cache=False) for _ in range(2)]
    models[0].learn(images, labels)
    models[1].learn([*images, images[0]], [*labels, labels[0]])
    assert models[0].backbone_.fingerprint == models[1].backbone_.fingerprint
    assert models[0].counts_ == models[1].counts_


def test_a_model_whose_key_cannot_be_kept_is_not_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could never recognise its photos again. An anonymous one needs no key, nor does one of no photos."""
    model = small_model(CATS)
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAYUP_KEYS", str(tmp_path / "file" / "keys"))
    with pytest.raises(StorageError, match="key of this model cannot be kept"):
        model.save(tmp_path / "m.layup")
    assert not (tmp_path / "m.layup").exists()
    small_model(CATS, anonymous=True).save(tmp_path / "m.layup")
    small_model().save(tmp_path / "m.layup")
