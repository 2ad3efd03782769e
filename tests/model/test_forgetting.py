"""What was forgotten leaves no trace in sums, roots, photos and cache."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as given_, settings, strategies as st
from PIL import Image

import layup.model.network
from layup import FeatureCache, LayUP, load, memory
from layup.errors import BadImageError, ForgetError, InputError, NotEnoughMemoryError, UnknownNameError
from layup.features import cache as cache_module, digests_of
from layup.images import image_digest
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
from photos import batch

CATS: list[Photo] = [(number, "cat") for number in range(5)]
DOGS: list[Photo] = [(number, "dog") for number in range(5, 9)]
photos_once = st.dictionaries(st.integers(0, 11), st.sampled_from(["cat", "dog", "owl"]), min_size=1)


# ---- photos


@settings(max_examples=12)
@given_(photos_once, st.data(), st.booleans(), st.booleans())
def test_what_is_forgotten_is_as_if_it_had_never_been_learned(
    photos: dict[int, str], data: st.DataObject, with_labels: bool, per_class: bool
) -> None:
    gone = data.draw(st.sets(st.sampled_from(sorted(photos)), min_size=1))
    model = small_model([*photos.items()], per_class=per_class)
    images, labels = given((number, photos[number]) for number in sorted(gone))
    report = model.forget(images, labels if with_labels else None)
    left = {number: label for number, label in photos.items() if number not in gone}
    assert_holds(model, left.items())
    assert sum(report.forgotten.values()) == len(gone)
    assert model.log[-1].forgotten == report.forgotten
    assert model.learn(images, labels).learned == report.forgotten  # it is new again
    assert_holds(model, photos.items())


def test_an_image_given_twice_is_forgotten_once_and_one_counted_twice_is_forgotten_whole() -> None:
    model = small_model(CATS)
    model.learn(*given(CATS[:2]), again=True)
    assert model.forget(*given([CATS[0], CATS[0]])) == BatchReport(forgotten={"cat": 2})
    assert_holds(model, [*CATS[1:], CATS[1]])


def test_with_labels_only_what_was_learned_under_these() -> None:
    model = small_model(CATS)
    model.learn(*given([(0, "dog"), (1, "dog")]), again=True)
    assert model.forget(*given([(0, "dog")])).forgotten == {"dog": 1}
    assert model.forget([picture(1)]).forgotten == {"cat": 1, "dog": 1}
    assert_holds(model, [(0, "cat"), *CATS[2:]])


def test_features_of_photos_that_are_still_known_stay_in_the_cache() -> None:
    model, cache = small_model(CATS), FeatureCache()
    model.learn(*given([(0, "dog")]), again=True)
    (digest,) = digests_of([picture(0)], {})
    assert digest is not None
    model.forget(*given([(0, "dog")]))
    assert cache.completed([digest[:16]]) == {digest[:16]: digest}
    model.forget(*given([(0, "cat")]))
    assert cache.completed([digest[:16]]) == {}


def test_a_photo_that_was_never_learned_changes_nothing() -> None:
    model = small_model(CATS)
    before = snapshot(model)
    with pytest.raises(ForgetError, match="never learned"):
        model.forget([picture(0), picture(30)])
    with pytest.raises(InputError, match="None of the 0"):
        model.forget([])
    assert_unchanged(model, before)


# ---- classes


@settings(max_examples=10)
@given_(photos_once, st.sampled_from(["cat", "dog", "owl"]), st.booleans())
def test_a_class_is_forgotten_as_its_photos_are(photos: dict[int, str], label: str, per_class: bool) -> None:
    """From its root, or from the cache."""
    model = small_model([*photos.items()], per_class=per_class)
    if label not in photos.values():
        with pytest.raises(UnknownNameError, match=f"Unknown class '{label}'"):
            model.forget_class(label)
        return
    gone = [number for number, of in photos.items() if of == label]
    report = model.forget_class(label)
    assert report == BatchReport(forgotten={label: len(gone)})
    assert_holds(model, [(number, of) for number, of in photos.items() if of != label])
    assert FeatureCache().completed([d[:16] for d in digests_of([picture(n) for n in gone], {}) if d]) == {}
    assert model.log[-1].note == ""


@pytest.mark.parametrize("per_class", [True, False])
def test_a_class_without_photos_at_hand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, per_class: bool
) -> None:
    """With a root it is exact, and no network is loaded; without, G keeps it, and the model says so."""
    model = small_model(CATS, DOGS, per_class=per_class, cache=False)
    model.save(tmp_path / "m.layup")
    monkeypatch.setattr(layup.model.network.Network, "backbone", None)
    loaded = load(tmp_path / "m.layup", backbone=small_network(), cache=False)
    assert loaded.per_class is per_class
    before = loaded.statistics_.gram
    report = loaded.forget_class("dog")
    assert report == BatchReport(forgotten={"dog": 4}, exact=per_class)
    assert (loaded.counts_, len(loaded.photos)) == ({"cat": 5}, 5)
    monkeypatch.undo()
    cats = small_model(CATS)
    np.testing.assert_allclose(loaded.statistics_.prototypes, cats.statistics_.prototypes, rtol=1e-5)
    if per_class:
        np.testing.assert_allclose(loaded.statistics_.gram, cats.statistics_.gram, rtol=1e-5, atol=1e-3)
        assert loaded.log[-1].note == ""
    else:
        np.testing.assert_array_equal(loaded.statistics_.gram, before)
        assert (loaded.statistics_.leftover, loaded.log[-1].note) == (4, "G keeps dog")
    loaded.save(tmp_path / "m.layup")
    again = load(tmp_path / "m.layup", backbone=small_network(), cache=False)
    np.testing.assert_array_equal(again.scores([picture(0)]), loaded.scores([picture(0)]))
    assert again.statistics_.leftover == loaded.statistics_.leftover


def test_when_the_last_class_is_forgotten_nothing_is_left() -> None:
    model = small_model(CATS, cache=False)
    assert model.forget_class("cat") == BatchReport(forgotten={"cat": 5})
    assert not model.statistics_.gram.any()
    assert model.learn(*given(CATS)).learned == {"cat": 5}
    assert_holds(model, CATS)


def test_a_photo_of_two_classes_stays_in_the_other() -> None:
    model = small_model(CATS)
    model.learn(*given([(0, "dog")]), again=True)
    model.forget_class("dog")
    assert_holds(model, CATS)
    assert model.extractor_.extract([picture(0)]).forwarded == 0


def test_nearest_means_forget_a_class_exactly_without_anything() -> None:
    from layup import NMC

    model = NMC(small_network(), cache=False)
    model.learn(*given([*CATS, *DOGS]))
    assert model.forget_class("dog").exact
    assert model.counts_ == {"cat": 5}


def test_forgetting_in_a_model_that_does_not_use_a_cache_empties_the_users() -> None:
    small_model(CATS, DOGS)
    model = small_model(CATS, DOGS, cache=False)
    model.forget_class("dog")
    model.forget(*given(CATS[:2]))
    digests = [digest for digest in digests_of([picture(n) for n in range(9)], {}) if digest]
    assert FeatureCache().completed([digest[:16] for digest in digests]).keys() == {
        d[:16] for d in digests[2:5]
    }


# ---- roots


def test_roots_go_through_files_merges_and_names(tmp_path: Path) -> None:
    model = small_model(CATS, per_class=True)
    model.learn(*given([*DOGS, (20, "owl")]))
    model.rename("owl", "dog")
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup", backbone=small_network())
    assert_holds(loaded, [*CATS, *DOGS, (20, "dog")])
    loaded.merge(small_model([*DOGS, (21, "owl")], per_class=True))
    assert_holds(loaded, [*CATS, *DOGS, (20, "dog"), (21, "owl")])
    loaded.forget(*given([(21, "owl")]))
    loaded.learn(*given([(22, "cat")]))
    loaded.undo() if loaded.log[-1].action == "learn" else None
    assert_holds(loaded, [*CATS, *DOGS, (20, "dog")])
    assert loaded.roots is not None
    assert loaded.roots.labels == ["cat", "dog"]


def test_a_merge_with_a_model_without_roots_drops_them_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "layup.model.image_model"):
        model = small_model(CATS, per_class=True).merge(small_model(DOGS))
    assert (model.per_class, model.roots) == (False, None)
    assert "keeps no root per class" in caplog.text
    assert_holds(model, [*CATS, *DOGS])


def test_what_roots_take_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    images, labels = batch({0: 30, 1: 30})
    plain = LayUP("vit-nano", k=12, lam=1.0)
    with_roots = small_model(per_class=True)
    dim = with_roots.statistics_.dim
    more = with_roots.forecast(60, 2).parts
    assert more["roots per class"] >= 8 * min(60, 2 * dim) * dim
    assert "roots per class" not in plain.forecast(60, 2).parts
    needed = with_roots.forecast(60, 2).total
    monkeypatch.setattr(memory, "available", lambda: needed - 1)
    with pytest.raises(NotEnoughMemoryError):
        with_roots.learn(images, labels)


def test_a_model_in_a_file_keeps_features_until_the_file_has_forgotten(tmp_path: Path) -> None:
    """If it is killed before it is saved, all can be done again."""
    small_model(CATS, DOGS).save(tmp_path / "m.layup")
    for forget in (
        lambda model: model.forget(*given(CATS[:2])),
        lambda model: model.sync(*given([*CATS[2:], *DOGS])),
        lambda model: model.forget_class("cat"),
    ):
        model = load(tmp_path / "m.layup", backbone=small_network())
        forget(model)  # and is killed now
        assert model.extractor_.extract(given(CATS)[0]).forwarded == 0
    model = load(tmp_path / "m.layup", backbone=small_network())
    assert model.sync(*given([*CATS[2:], *DOGS])).missing == []
    model.save(tmp_path / "m.layup")
    assert model.extractor_.extract(given(CATS)[0]).forwarded == 2


def test_what_is_learned_again_before_it_is_saved_stays_in_the_cache(tmp_path: Path) -> None:
    model = small_model(CATS)
    model.save(tmp_path / "m.layup")
    model.forget(*given(CATS[:2]))
    model.learn(*given(CATS[:1]))
    model.save(tmp_path / "m.layup")
    assert model.extractor_.extract(given(CATS)[0]).forwarded == 1


def test_features_of_what_cannot_be_opened_are_not_asked_for(tmp_path: Path) -> None:
    """A HEIC file, say, that was read while its package was installed, and was never learned."""
    odd = tmp_path / "odd.jpg"
    odd.write_bytes(b"no image")
    model = small_model(CATS)
    cached = np.ones((1, LayUP("vit-nano", exact=False).extractor_._full_width), np.float32)
    FeatureCache().put_many(model.backbone_.features_key, [image_digest(odd)], cached)
    report = model.forget([picture(0), odd])
    assert (report.forgotten, [each.index for each in report.bad]) == ({"cat": 1}, [1])
    with pytest.raises(BadImageError, match=r"odd\.jpg"):
        model.forget([picture(1), odd], strict=True)
    assert_holds(model, CATS[1:])


def test_where_photos_of_a_forgotten_class_were_is_forgotten_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if their features are no longer in the cache."""
    path = tmp_path / "cat.png"
    Image.fromarray(picture(0)).save(path)
    monkeypatch.setattr(cache_module, "SECONDS_TO_SETTLE", -3600)  # remember files that just changed
    model = small_model(DOGS)
    model.learn([path], ["cat"])
    cache = FeatureCache()
    beginnings = model.photos.digests_at(model.photos.of_class("cat"))
    assert list(cache.paths_of(beginnings).values()) == [str(path)]
    cache.delete_many(model.backbone_.features_key, [image_digest(path)])
    model.forget_class("cat")
    assert cache.paths_of(beginnings) == {}
