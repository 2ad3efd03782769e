"""Random changes of training images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image

from layup.backbones import Preprocessing
from layup.errors import UnknownNameError
from layup.tuning.augmentation import AUGMENTATIONS, augmented

OWN = Preprocessing((16, 16), (18, 18), "center", "bicubic", (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


@pytest.fixture(scope="module")
def wide_photo():
    """Twice as wide as high."""
    return Image.fromarray(load_sample_image("china.jpg")[100:130, 200:260])


def positions(side):
    """A square image whose every pixel says where it is."""
    down, across = np.mgrid[:side, :side].astype(np.uint8)
    return Image.fromarray(np.dstack([down, across, across]))


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_augmented_images_have_the_shape_of_the_networks_input(name, wide_photo):
    pixels = augmented(replace(OWN, size=(12, 20)), name)(wide_photo)
    assert pixels.shape == (3, 12, 20)
    assert pixels.dtype == torch.float32


def test_augmentation_follows_torchs_seed(wide_photo):
    def drawn(seed):
        torch.manual_seed(seed)
        return augmented(OWN, "mild")(wide_photo)

    assert torch.equal(drawn(0), drawn(0))
    assert len({drawn(seed).sum().item() for seed in range(10)}) == 10


def test_augmented_values_are_scaled_as_the_networks_own():
    black = augmented(OWN, "mild")(Image.new("RGB", (20, 20)))
    np.testing.assert_allclose(black[:, 3, 5], -np.array(OWN.mean) / OWN.std, rtol=1e-5)
    for seed in range(20):
        torch.manual_seed(seed)
        white = (
            augmented(OWN, "mild")(Image.new("RGB", (20, 20), "white"))[:, 0, 0].numpy() * OWN.std + OWN.mean
        )
        assert (white > 0.89).all()
        assert (white < 1.0001).all()


@pytest.mark.parametrize(
    ("name", "least"), [("mild", 0.7), ("wide", 0.05), ("standard", 0.08), ("bright", 0.08)]
)
def test_crops_have_the_area_that_the_name_says_between_3_to_4_and_4_to_3_and_half_are_flipped(name, least):
    side, seen = 200, 50
    own = replace(OWN, size=(seen, seen), interpolation="nearest")
    crop, flip, *_ = augmented(own, name).transforms
    areas, ratios, flipped = [], [], 0
    torch.manual_seed(0)
    for _ in range(300):
        pixels = np.asarray(flip(crop(positions(side)))).astype(float)
        height, width = (
            abs(pixels[-1, -1, axis] - pixels[0, 0, axis]) * seen / (seen - 1) for axis in (0, 1)
        )
        areas.append(height * width / side**2)
        ratios.append(width / height)
        flipped += pixels[0, 0, 1] > pixels[0, -1, 1]
        assert pixels[0, 0, 0] < pixels[-1, 0, 0]
    assert least - 0.02 < min(areas) < least + 0.03
    assert 0.96 < max(areas) < 1.02
    assert 0.70 < min(ratios) < 0.80
    assert 1.25 < max(ratios) < 1.40
    assert 110 < flipped < 190


def test_a_stretched_image_is_cropped_without_scaling():
    own = replace(OWN, size=(112, 112), interpolation="nearest")
    stretch, crop, *_ = augmented(own, "stretched").transforms
    stretched = stretch(positions(150))
    assert stretched.size == (150, 150)
    torch.manual_seed(0)
    corners = set()
    for _ in range(50):
        pixels = np.asarray(crop(stretched)).astype(int)
        assert (np.diff(pixels[:, 0, 0]) == 1).all()
        assert (np.diff(pixels[0, :, 1]) == 1).all()
        corners.add((pixels[0, 0, 0], pixels[0, 0, 1]))
    assert len(corners) > 40
    assert all(0 <= corner <= 38 for pair in corners for corner in pair)


def test_colours_change_by_up_to_10_percent():
    jitter = augmented(OWN, "mild").transforms[2]
    assert jitter.brightness == jitter.contrast == jitter.saturation == (0.9, 1.1)
    assert jitter.hue == (-0.1, 0.1)


def test_only_brightness_changes_where_the_name_says_so():
    jitter = augmented(OWN, "bright").transforms[2]
    assert jitter.brightness == pytest.approx((1 - 63 / 255, 1 + 63 / 255))
    assert jitter.contrast is jitter.saturation is jitter.hue is None
    for name in ("wide", "standard", "stretched"):
        assert not any(isinstance(step, type(jitter)) for step in augmented(OWN, name).transforms)


def test_an_unknown_augmentation_is_refused():
    with pytest.raises(UnknownNameError, match="mean 'wide'"):
        augmented(OWN, "wied")
