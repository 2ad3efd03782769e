"""What a model says of photos that are of none of its classes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_sample_images

from layup import LayUP, load
from layup.errors import InputError
from layup.model import Predictions, Predictor
from photos import batch

DIGITS = [(255 / 16 * each).astype(np.uint8) for each in load_digits().images[:4]]


def squares(photo: np.ndarray, count: int, side: int = 300) -> list[np.ndarray]:
    """Parts of a photo, cut out at random."""
    height, width, _ = photo.shape
    rng = np.random.default_rng(0)
    corners = [(rng.integers(height - side), rng.integers(width - side)) for _ in range(count)]
    return [photo[y : y + side, x : x + side] for y, x in corners]


def model_of(*counts: int, **options: object) -> LayUP:
    """A model of so many photos of each digit."""
    model = LayUP("vit-nano", **options)
    model.learn(*batch(dict(enumerate(counts))))
    return model


@pytest.mark.parametrize("backbone", ["vit-nano", pytest.param("bundled", marks=pytest.mark.slow)])
@pytest.mark.parametrize("learned", [0, 1])
def test_one_photo_of_one_class_is_enough(backbone: str, learned: int) -> None:
    """A part of a photo is known by another one, and the other photo is stranger than all parts of it."""
    photos = load_sample_images().images
    model = LayUP(backbone, cache=False)
    first, *others = squares(photos[learned], 6)
    model.learn([first], ["this"])
    assert model.predictions([first]).none_of_these[0] < 0.02
    own, strange = (model.predictions(each) for each in (others, squares(photos[1 - learned], 4) + DIGITS))
    assert not own.unknown.any()
    assert own.none_of_these.max() < 0.2
    assert strange.none_of_these.min() > 0.4
    assert strange.unknown.mean() >= 0.5


@pytest.mark.parametrize("counts", [(1,), (3,), (1, 1), (2, 6), (12, 12)], ids=str)
@pytest.mark.parametrize("cache", [True, False])
def test_a_learned_photo_is_known_to_the_model(counts: tuple[int, ...], cache: bool) -> None:
    model = model_of(*counts, cache=cache)
    assert (model.expect() is not None) == (cache and len(counts) > 1 and max(counts) > 1)
    images, _ = batch(dict(enumerate(counts)))
    found = model.predictions(images)
    assert not found.unknown.any()
    assert ((found.none_of_these >= 0) & (found.none_of_these <= 1)).all()


def test_it_does_not_depend_on_the_other_photos() -> None:
    model = model_of(3, 3)
    images = batch({0: 2, 1: 2, 5: 2}, start=20)[0]
    together = model.predictions(images).none_of_these
    alone = [model.predictions([image]).none_of_these[0] for image in images]
    np.testing.assert_allclose(alone, together, rtol=0, atol=1e-9)


def test_photos_are_judged_from_the_second_of_a_class_on() -> None:
    model = model_of(2)
    before = model.predictions(DIGITS[1:]).none_of_these
    assert model.knowledge.calibration is None
    model.expect()
    assert model.knowledge.calibration.tested == 2
    assert (model.predictions(DIGITS[1:]).none_of_these != before).all()


def test_few_judged_photos_tell_no_confidence() -> None:
    model = model_of(2, 2)
    before = model.predictions(DIGITS)
    model.expect()
    after = model.predictions(DIGITS)
    np.testing.assert_array_equal(after.probabilities, before.probabilities)
    with pytest.raises(ValueError, match="fewer than ten of its own photos were judged"):
        after.sets(0.9)


def test_a_file_keeps_what_few_photos_said(tmp_path) -> None:
    model = model_of(2, 3)
    model.expect()
    model.save(tmp_path / "m.layup")
    again = load(tmp_path / "m.layup")
    assert again.knowledge.calibration == model.knowledge.calibration
    found = again.predictions(DIGITS).none_of_these
    np.testing.assert_allclose(found, model.predictions(DIGITS).none_of_these, rtol=1e-9)


def test_a_classifier_that_cannot_say_so_says_nothing() -> None:
    found = LayUP("vit-nano", lam=1.0)
    found.learn(*batch({0: 2, 1: 2}))
    seen = found.predictions(DIGITS)
    assert (seen.none_of_these, seen.unknown) == (None, None)
    assert {(each.unknown, each.none_of_these) for each in seen.each()} == {(None, None)}


def test_each_prediction_has_its_own() -> None:
    found = Predictions(["cat"], np.ones((3, 1)), [0, 1, 2], [], familiarity=np.array([0.9, 0.05, -0.5]))
    each = list(found.each())
    assert [one.none_of_these for one in each] == found.none_of_these.tolist()
    assert [one.unknown for one in each] == found.unknown.tolist() == [False, False, True]


def test_what_is_said_of_rows_together_is_said_of_each_part() -> None:
    model = model_of(3, 3)
    predictor = Predictor(model.classifier_, model.knowledge.calibration)
    parts = [model.extractor_.extract(batch({label: 3}, start=20)[0]) for label in (0, 1)]
    together = predictor.scored(np.concatenate([part.rows for part in parts]))
    for part, rows in zip(parts, (slice(0, 3), slice(3, 6)), strict=True):
        alone, found = predictor.scored(part.rows), together[rows]
        np.testing.assert_allclose(found.scores, alone.scores, rtol=1e-9)
        np.testing.assert_allclose(found.familiarity, alone.familiarity, rtol=1e-9)


def test_photos_that_cannot_be_used_leave_the_others_alone() -> None:
    model = model_of(3, 3)
    images = [*batch({0: 2}, start=20)[0], b"no image"]
    found = model.predictions(images)
    assert (found.kept, [bad.index for bad in found.bad]) == ([0, 1], [2])
    none = model.predictions([b"no image"])
    assert (none.kept, none.scores.shape, none.none_of_these.shape) == ([], (0, 2), (0,))


def test_a_model_that_knows_nothing_predicts_nothing() -> None:
    with pytest.raises(InputError, match="knows no class"):
        LayUP("vit-nano").predictions([])
