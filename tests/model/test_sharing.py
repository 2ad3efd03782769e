"""Models that are merged, and files that come to a machine without their key: what works, what is refused."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given as given_, settings, strategies as st

from layup import FeatureCache, ImageModel, LayUP, load
from layup.errors import InputError, MismatchError
from layup.model import BatchReport
from models import (
    Photo,
    assert_holds,
    assert_unchanged,
    given,
    picture,
    small_model,
    small_network,
    snapshot,
)

CATS: list[Photo] = [(number, "cat") for number in range(5)]
DOGS: list[Photo] = [(number, "dog") for number in range(5, 9)]
OWLS: list[Photo] = [(number, "owl") for number in range(9, 13)]
photos_once = st.dictionaries(st.integers(0, 11), st.sampled_from(["cat", "dog", "owl"]))


def read(path: Path, **reading: Any) -> ImageModel:
    return load(path, backbone=small_network(), **reading)


# ---- merging by photo


@settings(max_examples=12)
@given_(photos_once, photos_once, st.booleans())
def test_merged_models_are_their_union_learned_once(
    mine: dict[int, str], theirs: dict[int, str], per_class: bool
) -> None:
    def made(photos: dict[int, str]) -> ImageModel:
        return small_model(*([[*photos.items()]] if photos else []), per_class=per_class)

    one, other = made(mine).merge(made(theirs)), made(theirs).merge(made(mine))
    assert_holds(one, {**theirs, **mine}.items())
    assert_holds(other, {**mine, **theirs}.items())


@settings(max_examples=10)
@given_(photos_once, photos_once, photos_once)
def test_models_of_one_base(base: dict[int, str], mine: dict[int, str], theirs: dict[int, str]) -> None:
    """A photo of the base goes where one of them moved it; what both learned since is in the cache."""
    if not base:
        return
    root, one, other = (small_model([*base.items()]) for _ in range(3))
    for model, more in ((one, mine), (other, theirs)):
        model.knowledge.log = list(root.log)  # grown from the base
        if more:
            model.learn(*given(more.items()), relabel=True)
    left, right = {**base, **mine}, {**base, **theirs}
    changed = {number for number in base if left[number] != base[number] and right[number] != base[number]}
    if changed:
        with pytest.raises(MismatchError, match=f"base has {len(changed)} photos"):
            one.merge(other, root)
        return
    moved = {number: right[number] for number in base if right[number] != base[number]}
    one.merge(other, root)
    assert_holds(one, {**right, **left, **moved}.items())


def test_a_merge_says_what_it_counted_once() -> None:
    model = small_model(CATS).merge(small_model([*CATS[:3], (3, "dog"), *OWLS]))
    assert model.log[-1].note == "4 photos that both had learned count once, 1 of them with two classes"
    assert_holds(model, [*CATS, *OWLS])


def test_a_photo_of_two_classes_keeps_that_of_the_model_that_is_merged_into() -> None:
    assert_holds(small_model(CATS).merge(small_model([(0, "dog"), (20, "dog")])), [*CATS, (20, "dog")])


def test_merging_an_anonymous_model() -> None:
    model = small_model(CATS).merge(small_model(DOGS, anonymous=True))
    assert (model.counts_, len(model.photos), model.knows_all) == ({"cat": 5, "dog": 4}, 5, False)
    assert model.learn(*given([*CATS, (30, "dog")])) == BatchReport(learned={"dog": 1}, known=5)
    assert model.forget(*given(CATS[:2])).forgotten == {"cat": 2}
    anonymous = small_model(DOGS, anonymous=True).merge(small_model(CATS))
    assert (anonymous.photos, anonymous.counts_) == (None, {"cat": 5, "dog": 4})


def test_batches_of_anonymous_models_do_not_count_twice(tmp_path: Path) -> None:
    small_model(CATS, anonymous=True).save(tmp_path / "m.layup")
    base, left, right = (read(tmp_path / "m.layup") for _ in range(3))
    left.learn(*given(DOGS))
    right.learn(*given(OWLS))
    before = snapshot(left)
    with pytest.raises(MismatchError, match=r"share 1 of their batches.*cannot recognise"):
        left.merge(right)
    with pytest.raises(MismatchError, match="exactly the 1 batches that both models share"):
        left.merge(right, right)
    assert_unchanged(left, before)
    assert_holds(left.merge(right, base), [*CATS, *DOGS, *OWLS])


def test_what_g_keeps_of_a_dropped_class_is_not_added_twice(tmp_path: Path) -> None:
    small_model(CATS, DOGS, cache=False).save(tmp_path / "m.layup")
    root = read(tmp_path / "m.layup", cache=False)
    assert not root.forget_class("dog").exact
    root.save(tmp_path / "m.layup")
    base, left, right = (read(tmp_path / "m.layup") for _ in range(3))
    left.learn(*given(OWLS))
    right.learn(*given([(30, "owl")]))
    with pytest.raises(MismatchError, match="share 3 of their batches"):
        left.merge(right)
    left.merge(right, base)
    expected = small_model([*CATS, *DOGS, *OWLS, (30, "owl")])
    np.testing.assert_allclose(left.statistics_.gram, expected.statistics_.gram, rtol=1e-5, atol=1e-3)
    assert (left.statistics_.leftover, left.counts_) == (4, {"cat": 5, "owl": 5})


# ---- without the key


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that has come to another machine."""
    monkeypatch.setenv("LAYUP_KEYS", str(tmp_path / "here"))
    small_model(CATS, DOGS).save(tmp_path / "m.layup")
    monkeypatch.setenv("LAYUP_KEYS", str(tmp_path / "elsewhere"))
    return tmp_path / "m.layup"


def test_what_works_without_the_key(copied: Path, tmp_path: Path) -> None:
    whole, model = small_model(CATS, DOGS), read(copied)
    np.testing.assert_allclose(model.scores([picture(3)]), whole.scores([picture(3)]), atol=1e-6)
    assert (model.counts_, model.photos.unreadable, model.knows_all) == (whole.counts_, 9, False)
    assert model.learned_as([picture(0)]) == [()]
    model.merge(small_model(OWLS))
    assert model.learn(*given([(30, "owl"), CATS[0]]), again=True).learned == {"cat": 1, "owl": 1}
    model.rename("dog", "wolf")
    assert model.forget_class("wolf").forgotten == {"wolf": 4}
    model.save(tmp_path / "later.layup")
    later = read(tmp_path / "later.layup")
    assert later.counts_ == {"cat": 6, "owl": 5}
    assert (later.photos.unreadable, len(later.photos)) == (5, 6)


def test_what_is_refused_without_the_key(copied: Path) -> None:
    model = read(copied)
    before = snapshot(model)
    for refused in (
        lambda: model.learn(*given(OWLS)),
        lambda: model.sync(*given(CATS)),
        lambda: model.forget(*given(CATS)),
        model.undo,
    ):
        with pytest.raises(InputError, match=r"9 of them were learned by somebody else.*\.key from there to"):
            refused()
        assert_unchanged(model, before)
    with pytest.raises(MismatchError, match="share 2 of their batches"):
        model.merge(read(copied))
    assert_unchanged(model, before)


def test_with_the_key_all_works_also_in_a_model_that_was_loaded_before(copied: Path, tmp_path: Path) -> None:
    early = read(copied)
    early.learn(*given(OWLS), again=True)
    shutil.copytree(tmp_path / "here", tmp_path / "elsewhere", dirs_exist_ok=True)
    assert early.learn(*given([*CATS, *DOGS, *OWLS])) == BatchReport(known=13)
    assert_holds(early, [*CATS, *DOGS, *OWLS])
    early.forget(*given(DOGS))
    early.save(tmp_path / "early.layup")  # and deletes their features
    assert_holds(early, [*CATS, *OWLS])
    late = read(copied)
    assert late.sync(*given([*CATS, *OWLS])) == BatchReport(
        learned={"owl": 4}, known=5, missing=[f"a photo (dog, learned {late.log[1].date[:10]})"] * 4
    )
    late.merge(early)
    assert_holds(late, [*CATS, *DOGS, *OWLS])


def test_two_strangers_merge_with_their_base(copied: Path, tmp_path: Path) -> None:
    """Also if one of them has dropped a class of it: what is saved can be loaded, and agrees with the key."""
    base, left, right = (read(copied) for _ in range(3))
    left.learn(*given([*OWLS, (40, "dog")]), again=True)
    right.forget_class("dog")
    right.learn(*given([*OWLS[:2], (30, "owl")]), again=True)
    left.merge(right, base)
    assert left.counts_ == {"cat": 5, "dog": 1, "owl": 5}
    left.save(tmp_path / "merged.layup")
    merged = read(tmp_path / "merged.layup")
    assert (merged.counts_, merged.photos.unreadable, len(merged.photos)) == (left.counts_, 5, 6)
    shutil.copytree(tmp_path / "here", tmp_path / "elsewhere", dirs_exist_ok=True)
    known = read(tmp_path / "merged.layup").learned_as(given([*CATS, *DOGS, *OWLS, (40, ""), (30, "")])[0])
    assert known == [("cat",)] * 5 + [()] * 4 + [("owl",)] * 4 + [("dog",), ("owl",)]


def test_a_file_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    model = small_model(CATS)
    model.knowledge.photos = model.photos.with_photos([b"x" * 16], ["cat"], 0)
    with pytest.raises(InputError, match=r"knows 6 photos of 'cat', but has learned 5\. Nothing was written"):
        model.save(tmp_path / "m.layup")
    assert not (tmp_path / "m.layup").exists()


def test_another_machine_has_another_cache(tmp_path: Path) -> None:
    """Then a base is what makes a merge possible."""
    small_model(CATS).save(tmp_path / "m.layup")
    base, left, right = (read(tmp_path / "m.layup", cache=FeatureCache(tmp_path / name)) for name in "abc")
    left.learn(*given(DOGS))
    right.learn(*given(OWLS))
    with pytest.raises(MismatchError, match=r"share 5 photos.*of 5 are not in the cache"):
        left.merge(right)
    assert_holds(left.merge(right, base), [*CATS, *DOGS, *OWLS])


def test_photos_of_a_third_model_are_recognised_after_a_merge_with_a_base(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody here can read its part of the list, but it must not be lost."""
    small_model(CATS).save(tmp_path / "base.layup")
    here, elsewhere = os.environ["LAYUP_KEYS"], tmp_path / "elsewhere"
    monkeypatch.setenv("LAYUP_KEYS", str(elsewhere))
    small_model(OWLS).save(tmp_path / "owls.layup")
    monkeypatch.setenv("LAYUP_KEYS", here)
    base, one, other = (read(tmp_path / "base.layup") for _ in range(3))
    other.merge(read(tmp_path / "owls.layup"))
    one.merge(other, base)
    assert one.photos.unreadable == len(OWLS)
    for key in elsewhere.iterdir():
        shutil.copy(key, here)
    assert one.learn(*given([*CATS, *OWLS])) == BatchReport(known=len(CATS) + len(OWLS))


def test_what_a_merge_brings_back_is_logged(tmp_path: Path) -> None:
    model = small_model(CATS)
    model.save(tmp_path / "before.layup")
    model.forget(*given(CATS[:1]))
    LayUP(small_network(), 2).extractor_.extract([picture(0)])
    model.merge(read(tmp_path / "before.layup"))
    assert_holds(model, CATS)
    assert [entry.action for entry in model.log] == ["learn", "forget", "merge"]
