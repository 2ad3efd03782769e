"""The accuracy to expect is that of the whole model, or it is not told."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from layup import FeatureCache, ImageModel, NoCache
from layup.model import last_expected
from models import Photo, given, picture, small_model

CATS: list[Photo] = [(number, "cat") for number in range(8)]
DOGS: list[Photo] = [(number, "dog") for number in range(8, 16)]


def by_leaving_one_out(photos: list[Photo], drop: int = 1) -> int:
    """How many photos are right for a model that never saw them, one by one: slow and obvious."""
    right = 0
    for index in range(0, len(photos), drop):
        rest = small_model([*photos[:index], *photos[index + drop :]], balance=True)
        images, labels = given(photos[index : index + drop])
        right += int((rest.predict(images) == np.array(labels)).sum())
    return right


def test_each_photo_is_predicted_by_a_model_without_it() -> None:
    photos = [photo for pair in zip(CATS, DOGS, strict=True) for photo in pair]
    expected = small_model(photos, balance=True).expect()
    assert expected is not None
    assert expected.tested == 16
    assert expected.accuracy == pytest.approx(by_leaving_one_out(photos) / 16)


def test_photos_that_count_twice_are_not_tested() -> None:
    """Their twin would stay in the sums, and they would all be right."""
    model = small_model(CATS, DOGS)
    model.learn(*given([*CATS[:3], *DOGS[:5]]), again=True)
    assert model.expect().tested == 8
    model.learn(*given([*CATS, *DOGS]), again=True)
    assert model.expect() is None


def without_features_of(photos: list[Photo], cache: FeatureCache) -> None:
    cache.delete_many(None, [cache_digest(number) for number, _ in photos])


def cache_digest(number: int) -> bytes:
    from layup.features import digests_of

    (digest,) = digests_of([picture(number)], {"cache": False})
    assert digest is not None
    return digest


def test_a_part_of_the_cache_will_do_if_it_has_every_class(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    model = small_model(CATS, DOGS, cache=cache)
    without_features_of([*CATS[:4], *DOGS[:3]], cache)
    assert model.expect().tested == 9
    without_features_of(DOGS[3:5], cache)  # fewer than half are left
    assert model.expect() is None


def test_a_class_that_the_cache_lacks_is_not_passed_over(tmp_path: Path) -> None:
    cache = FeatureCache(tmp_path)
    model = small_model(CATS, DOGS[:3], cache=cache)
    without_features_of(DOGS[:3], cache)
    assert model.expect() is None


@pytest.mark.parametrize("options", [{"anonymous": True}, {"cache": NoCache()}])
def test_models_without_digests_or_cache_cannot_tell(options: dict[str, object]) -> None:
    model = small_model(CATS, DOGS, **options)
    assert model.expect() is None
    assert model.log[-1].expected is None


def test_photos_of_an_anonymous_part_cannot_be_tested() -> None:
    assert small_model(CATS).merge(small_model(DOGS, anonymous=True)).expect() is None


def test_classes_of_one_photo_are_named_and_not_tested() -> None:
    expected = small_model([*CATS, (20, "owl")]).expect()
    assert (expected.tested, expected.needs_more) == (8, ["owl"])


def told(model: ImageModel) -> float | None:
    found = last_expected(model.log)
    return None if found is None else found["accuracy"]


def test_what_was_expected_holds_until_the_next_change() -> None:
    model = small_model(CATS, [*DOGS, (20, "owl")])
    accuracy = model.expect().accuracy
    assert told(model) == accuracy
    model.rename("owl", "bird")
    assert told(model) == accuracy  # only its name is another
    assert last_expected(model.log)["needs_more"] == ["bird"]
    model.rename("bird", "dog")
    assert told(model) is None  # two classes became one
    model.expect()
    assert told(model) is not None
    model.forget(*given(CATS[:2]))
    assert told(model) is None
    model.expect()
    model.merge(small_model([(30, "cat")]))
    assert told(model) is None
