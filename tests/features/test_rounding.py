"""Steps are measured on fixed pictures, and rows are rounded to them wherever they are read."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch
from PIL import Image

from layup import FeatureCache, load_backbone
from layup.features import Extractor, LastLayers, NoCache, Rounded, RoundedRows, spec_from
from layup.features.rounding import FINENESS, PICTURES, measured_steps, pictures


@pytest.fixture(scope="module")
def nano():
    return load_backbone("vit-nano")


def noise(count):
    rng = np.random.default_rng(3)
    return [Image.fromarray(rng.integers(0, 256, (64, 64, 3), np.uint8)) for _ in range(count)]


def test_pictures_never_change():
    """Another picture may give another step, and models that cannot be merged."""
    found = hashlib.sha256(b"".join(picture.tobytes() for picture in pictures()))
    assert len(pictures()) == PICTURES
    assert found.hexdigest() == "526ee7466bb14e80345a500e1d90bef5edb6e1d7dce5c202f2a7e9fbbcf26e89"


@pytest.mark.parametrize("name", ["vit-nano", "bundled"])
def test_a_step_is_a_small_part_of_what_a_layer_gives(name):
    backbone = load_backbone(name)
    source = Extractor(backbone, cache=NoCache())
    steps = measured_steps(source, backbone)
    seen = backbone(torch.stack([backbone.preprocess(picture) for picture in pictures()]))
    for layer, exponent in zip((*seen.layers, seen.embedding), steps.values(), strict=True):
        size = float((layer.double() ** 2).mean().sqrt())
        assert 2**-0.5 <= size / 2.0 ** (exponent + FINENESS) <= 2**0.5


def test_unrounded_are_the_rows_before(nano):
    images = noise(2)
    source = Rounded(LastLayers(2)).build(nano, {"cache": False})
    plain = LastLayers(2).build(nano, {"cache": False})
    rows = source.unrounded.extract(images).rows
    np.testing.assert_array_equal(rows, plain.extract(images).rows)
    assert (rows != source.extract(images).rows).any()
    assert plain.unrounded is plain


def test_measuring_is_no_pass_of_an_image(nano):
    before = nano.passes.reading
    Rounded(LastLayers(3)).resolved(nano)
    assert nano.passes.reading == before


def test_rows_are_multiples_from_images_from_the_cache_and_past_it(nano, tmp_path):
    images = noise(3)
    spec = Rounded(LastLayers(2)).resolved(nano)
    source = spec.build(nano, {"cache": FeatureCache(tmp_path)})
    assert isinstance(source, RoundedRows)
    first = source.extract(images)
    again = source.extract(images)
    recalled = source.recall(first.digests)
    direct = source.rows_of(torch.stack([nano.preprocess(image) for image in images]))
    units = first.rows / np.repeat(2.0 ** np.array(spec.steps), 128)
    np.testing.assert_array_equal(units, np.rint(units))
    np.testing.assert_array_equal(again.rows, first.rows)
    np.testing.assert_array_equal([recalled[digest] for digest in first.digests], first.rows)
    np.testing.assert_allclose(direct, first.rows, atol=2.0 ** max(spec.steps))
    assert (first.forwarded, again.forwarded) == (3, 0)


def test_the_cache_keeps_what_is_not_rounded(nano, tmp_path):
    images, reading = noise(1), {"cache": FeatureCache(tmp_path)}
    Rounded(LastLayers(2)).build(nano, reading).extract(images)
    plain = LastLayers(2).build(nano, reading).extract(images)
    assert plain.forwarded == 0
    assert (plain.rows != Rounded(LastLayers(2)).build(nano, reading).extract(images).rows).any()


def test_given_steps_are_taken(nano):
    spec = spec_from({"kind": "rounded", "of": {"kind": "last layers", "k": 1}, "steps": [3]})
    assert spec.resolved(nano) == spec == Rounded(LastLayers(1), (3,))
    rows = spec.build(nano, {"cache": False}).extract(noise(2)).rows
    np.testing.assert_array_equal(rows % 8, np.zeros_like(rows))


@pytest.mark.parametrize("name", ["vit-nano", "bundled"])
def test_a_row_does_not_depend_on_the_images_beside_it(name):
    """Not in its last bit: batches are filled up to one shape."""
    images = noise(35)
    source = Extractor(load_backbone(name), cache=NoCache())
    whole = source.extract(images).rows
    for part in (slice(0, 1), slice(3, 12), slice(33, 35)):
        np.testing.assert_array_equal(source.extract(images[part]).rows, whole[part])
