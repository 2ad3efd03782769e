"""After a sync, a model is that of the images given; a second one does nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given as given_, settings, strategies as st
from PIL import Image

import layup.model.network
from layup import FeatureCache, LayUP, load
from layup.errors import InputError
from layup.features import cache as cache_module
from layup.model import BatchReport, Conflict
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
from photos import write_photos

CATS: list[Photo] = [(number, "cat") for number in range(5)]
DOGS: list[Photo] = [(number, "dog") for number in range(5, 9)]
photos_once = st.dictionaries(st.integers(0, 11), st.sampled_from(["cat", "dog", "owl"]), min_size=1)


@settings(max_examples=12)
@given_(photos_once, photos_once, st.booleans())
def test_a_synced_model_is_a_new_one_of_the_same_images(
    before: dict[int, str], now: dict[int, str], per_class: bool
) -> None:
    model = small_model([*before.items()], per_class=per_class)
    seen = model.sync(*given(now.items()), dry_run=True)
    assert_holds(model, before.items())
    assert model.sync(*given(now.items())) == seen
    assert_holds(model, now.items())
    assert sum(seen.learned.values()) - sum(seen.forgotten.values()) == len(now) - len(before)
    after = snapshot(model)
    assert model.sync(*given(now.items())) == BatchReport(known=len(now))
    assert_unchanged(model, after)


def test_a_photo_that_was_counted_twice_counts_once() -> None:
    model = small_model(CATS)
    model.learn(*given(CATS[:2]), again=True)
    report = model.sync(*given([*CATS, CATS[0]]))
    assert report == BatchReport(learned={"cat": 2}, forgotten={"cat": 4}, moved=2, known=4)
    assert_holds(model, CATS)


def test_a_photo_of_two_classes_stays_as_it_is_known() -> None:
    model = small_model(CATS)
    report = model.sync(*given([*CATS, (0, "dog"), (20, "dog")]))
    assert report.conflicts == [Conflict(0, "cat", "dog", 5), Conflict(5, "dog", "cat", 0)]
    assert report.learned == {"dog": 1}
    assert_holds(model, [*CATS, (20, "dog")])


def test_a_folder_that_grew_shrank_and_was_tidied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Photos that were added, deleted, moved to another class, renamed and edited; twice."""
    monkeypatch.setattr(cache_module, "SECONDS_TO_SETTLE", -3600)
    folder, file = write_photos(tmp_path / "photos", {0: 4, 1: 4}), tmp_path / "m.layup"

    def listed() -> tuple[list[Path], list[str]]:
        paths = sorted(folder.glob("*/*.png"))
        return paths, [path.parent.name for path in paths]

    model = LayUP("vit-nano", k=1, lam=1.0)
    model.learn(*listed())
    model.save(file)
    write_photos(folder, {0: 1, 2: 2}, start=40)
    (folder / "digit 0/000.png").unlink()
    (folder / "digit 0/001.png").rename(folder / "digit 1/moved.png")
    (folder / "digit 0/002.png").rename(folder / "digit 0/renamed.png")
    Image.fromarray(picture(3)).save(folder / "digit 1/003.png")
    loaded = load(file)
    report = loaded.sync(*listed())
    assert (report.learned, report.forgotten) == (
        {"digit 0": 1, "digit 1": 2, "digit 2": 2},
        {"digit 0": 2, "digit 1": 1},
    )
    assert (report.moved, report.known, report.missing, report.exact) == (1, 5, [], True)
    fresh = LayUP("vit-nano", k=1, lam=1.0)
    fresh.learn(*listed())
    assert loaded.counts_ == fresh.counts_
    assert loaded.learned_as(listed()[0]) == [(label,) for label in listed()[1]]
    loaded.save(file)
    monkeypatch.setattr(layup.model.network, "load_backbone", None)
    monkeypatch.setattr("layup.features.digests.image_digest", None)
    again = load(file)
    assert again.sync(*listed()) == BatchReport(known=10)  # without the network, and without reading a photo
    assert len(again.log) == 2


def test_what_the_cache_does_not_have_stays_and_is_named(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    model = small_model(CATS, DOGS, cache=cache)
    cache.clear()
    before = snapshot(model)
    report = model.sync(*given(CATS))
    assert report.missing == [f"a photo (dog, learned {model.log[1].date[:10]})"] * 4
    assert (report.forgotten, report.changed) == ({}, False)
    assert_unchanged(model, before)
    report = model.sync(*given([*CATS, (20, "owl")]))
    assert (len(report.missing), report.learned) == (4, {"owl": 1})
    model.extractor_.extract([picture(number) for number, _ in DOGS])
    assert model.sync(*given(CATS)).forgotten == {"dog": 4, "owl": 1}
    assert_holds(model, CATS)


def test_an_image_that_cannot_be_read_may_be_one_that_is_known(tmp_path: Path) -> None:
    """A drive that is away for a moment must not cost what was learned."""
    model = small_model(CATS, DOGS)
    images, labels = given(CATS)
    for dry_run in (True, False):
        report = model.sync([*images, tmp_path / "away.png"], [*labels, "dog"], dry_run=dry_run)
        assert (report.kept, report.learned, report.forgotten) == (4, {}, {})
    assert [bad.index for bad in report.bad] == [5]
    assert_holds(model, [*CATS, *DOGS])
    with pytest.raises(InputError, match="None of the 0 given"):
        model.sync([], [])
    assert_holds(model, [*CATS, *DOGS])


def test_what_came_from_an_anonymous_model_cannot_be_synced() -> None:
    model = small_model(CATS).merge(small_model(DOGS, anonymous=True))
    before = snapshot(model)
    with pytest.raises(InputError, match=r"4 images that it cannot recognise.*anonymous"):
        model.sync(*given(CATS))
    assert_unchanged(model, before)


def test_a_sync_says_if_g_still_holds_a_class_that_was_dropped(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    model = small_model(CATS, DOGS, cache=cache)
    cache.clear()
    assert not model.forget_class("dog").exact
    assert not model.sync(*given(CATS)).exact
    assert not model.sync(*given([*CATS, (20, "owl")])).exact


def test_syncing_an_empty_model_is_learning() -> None:
    model = small_model()
    assert model.sync(*given(CATS)) == BatchReport(learned={"cat": 5})
    assert model.log[0].action == "sync"
    assert model.undo().forgotten == {"cat": 5}


def test_reports_of_a_sync_of_files_of_a_small_network(tmp_path: Path) -> None:
    model = small_model(CATS)
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup", backbone=small_network())
    assert loaded.sync(*given(CATS[1:])) == BatchReport(forgotten={"cat": 1}, known=4)
    assert loaded.log[-1].forgotten == {"cat": 1}
    assert FeatureCache().completed([loaded.photos.digests_at([0])[0]])
