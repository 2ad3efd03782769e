"""Rows made of other rows: projected, scaled and joined."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from layup import Backbone, NoCache, Preprocessing, load_backbone
from layup.backbones import BATCH
from layup.features import (
    EMBEDDING,
    Extractor,
    FourierRows,
    JoinedRows,
    MeanRows,
    NormalisedRows,
    ProjectedRows,
)
from photos import crops

IMAGES = crops(5)


@pytest.fixture(scope="module")
def nano():
    return load_backbone("vit-nano")


@pytest.fixture
def read(nano):
    def extractor(*layers, backbone=nano):
        return Extractor(backbone, layers, cache=NoCache(), workers=0)

    return extractor


class Layer(nn.Conv2d):
    """Four values an image; a broken one gives NaN for those that are all black."""

    broken = False

    def forward(self, x):
        black = self.broken & (x.amax(dim=(1, 2, 3)) == 0)
        return super().forward(x).masked_fill(black[:, None, None, None], torch.nan)


def tiny(broken=False):
    torch.manual_seed(0)
    layer = Layer(3, 4, 3)
    zero_to_one = {"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
    backbone = Backbone.from_module(
        nn.Sequential(layer), ["0"], Preprocessing((8, 8), (8, 8), "squash", **zero_to_one)
    )
    layer.broken = broken
    return backbone


# Projected


def test_rows_are_projected_by_a_matrix_that_follows_from_the_seed(read):
    plain = read("blocks.3", EMBEDDING)
    projected = ProjectedRows(plain, 40, seed=7)
    assert projected.width == 40
    assert projected.matrix.shape == (256, 40)
    rows = plain.extract(IMAGES).rows.astype(np.float64)
    expected = np.array([[max(0.0, row @ column) for column in projected.matrix.T] for row in rows])
    found = projected.extract(IMAGES)
    assert found.rows.dtype == np.float32
    np.testing.assert_allclose(found.rows, expected, rtol=1e-5, atol=1e-5)
    assert 0.2 < (found.rows == 0).mean() < 0.8
    assert found.kept.tolist() == list(range(5))
    again, other = ProjectedRows(read("blocks.3", EMBEDDING), 40, 7), ProjectedRows(plain, 40, 8)
    np.testing.assert_array_equal(again.matrix, projected.matrix)
    assert not np.allclose(other.matrix, projected.matrix)


def test_the_matrix_is_standard_normal_and_the_same_on_every_machine(read):
    matrix = ProjectedRows(read(EMBEDDING), 500, seed=0).matrix
    assert abs(matrix.mean()) < 0.02
    assert abs(matrix.std() - 1) < 0.02
    assert abs(np.corrcoef(matrix[:, :20].T) - np.eye(20)).max() < 0.4
    # Written down once: files of models depend on it.
    assert matrix[0, :3].tolist() == MATRIX_OF_SEED_0
    np.testing.assert_array_equal(matrix, matrix.astype(np.float32))


def test_a_uniform_matrix_is_as_a_linear_layer_begins(read):
    projected = ProjectedRows(read(EMBEDDING), 500, seed=0, drawn="uniform")
    assert abs(projected.matrix).max() == pytest.approx(1 / np.sqrt(128), rel=1e-3)
    assert projected.matrix.std() == pytest.approx(torch.nn.Linear(128, 500).weight.std().item(), rel=0.02)
    assert projected.matrix[0, :3].tolist() == UNIFORM_OF_SEED_0


@pytest.mark.parametrize(
    ("activation", "of"),
    [("relu", torch.relu), ("sigmoid", torch.sigmoid), ("tanh", torch.tanh)],
)
def test_activations_are_those_of_pytorch(read, activation, of):
    projected = ProjectedRows(read("blocks.3"), 40, 7, activation)
    z = 1000 * np.random.default_rng(0).normal(size=(3, 128)).astype(np.float32)
    z[1] /= 1e5
    expected = of(torch.from_numpy(z.astype(np.float64) @ projected.matrix)).numpy()
    np.testing.assert_allclose(projected.mapped(z), expected, rtol=1e-6, atol=1e-15)


UNIFORM_OF_SEED_0 = [0.07611022144556046, -0.03613140434026718, -0.006189282983541489]
MATRIX_OF_SEED_0 = [-0.18779443204402924, 0.3955859839916229, -1.1936731338500977]


def test_a_row_does_not_depend_on_the_batch_that_it_is_in(read):
    projected = ProjectedRows(read("blocks.3"), 40, seed=7)
    rows = projected.source.extract(IMAGES).rows
    for i in range(5):
        np.testing.assert_allclose(projected.mapped(rows[[i]])[0], projected.mapped(rows)[i], rtol=1e-6)


def test_projections_of_other_layers_or_seeds_have_other_names(read):
    sources = [
        ProjectedRows(read("blocks.3"), 9, 1),
        ProjectedRows(read("blocks.3"), 9, 2),
        ProjectedRows(read("blocks.2", "blocks.3"), 9, 1),
        ProjectedRows(read("blocks.3"), 9, 1, "tanh"),
        ProjectedRows(read("blocks.3"), 9, 1, drawn="uniform"),
    ]
    assert len({tuple(source.layers) for source in sources}) == 5
    assert all(list(source.layers.values()) == [9] for source in sources)


# Averaged


def test_layers_are_averaged_and_normalised_as_by_a_layer_norm(read):
    source = read("blocks.3", "blocks.7", "blocks.11")
    mean = MeanRows(source)
    assert mean.layers == {"mean of blocks.3, blocks.7, blocks.11": 128}
    found = mean.extract(IMAGES)
    norm = nn.LayerNorm(128, eps=1e-6, elementwise_affine=False)
    for row, own in zip(source.extract(IMAGES).rows, found.rows, strict=True):
        expected = norm(torch.from_numpy((row[:128] + row[128:256] + row[256:]) / 3)).numpy()
        np.testing.assert_allclose(own, expected, atol=1e-5)
    assert found.rows.dtype == np.float32


# Scaled


@pytest.mark.parametrize("power", [1, 0.5, 3.0])
def test_rows_are_raised_to_a_power_and_scaled_to_length_one(read, power):
    plain = read("blocks.3", EMBEDDING)
    scaled = NormalisedRows(plain, power)
    raised = [
        [np.sign(value) * abs(value) ** power for value in row]
        for row in plain.extract(IMAGES).rows.astype(np.float64)
    ]
    expected = [np.array(row) / np.sqrt(sum(value**2 for value in row)) for row in raised]
    found = scaled.extract(IMAGES)
    assert found.rows.dtype == np.float32
    np.testing.assert_allclose(found.rows, expected, rtol=1e-5)
    assert scaled.width == plain.width
    zeros = np.zeros((2, plain.width), np.float32)
    np.testing.assert_array_equal(scaled.mapped(zeros), zeros)


def test_layers_that_are_scaled_in_another_way_have_other_names(read):
    sources = [read("blocks.3"), *(NormalisedRows(read("blocks.3"), power) for power in (1, 0.5, 2))]
    assert len({tuple(source.layers) for source in sources}) == 4


# Fourier


def test_fourier_features_are_waves_that_follow_from_the_seed(read):
    plain = read("blocks.3", EMBEDDING)
    fourier = FourierRows(plain, 40, 0.01, seed=7)
    frequencies, phases = fourier.waves
    assert (frequencies.shape, phases.shape) == ((256, 40), (40,))
    rows = plain.extract(IMAGES).rows.astype(np.float64)
    expected = [
        [
            np.sqrt(2 / 40) * np.cos(row @ wave + phase)
            for wave, phase in zip(frequencies.T, phases, strict=True)
        ]
        for row in rows
    ]
    found = fourier.extract(IMAGES)
    assert found.rows.dtype == np.float32
    np.testing.assert_allclose(found.rows, expected, rtol=1e-5, atol=1e-6)
    again, other = FourierRows(plain, 40, 0.01, 7), FourierRows(plain, 40, 0.01, 8)
    np.testing.assert_array_equal(again.waves[0], frequencies)
    assert not np.allclose(other.waves[0], frequencies)
    assert not np.allclose(other.waves[1], phases)
    # Written down once: files of models depend on it.
    first = FourierRows(plain, 3, 0.5, seed=0).waves
    assert (first[0][0].tolist(), first[1].tolist()) == WAVES_OF_SEED_0


WAVES_OF_SEED_0 = (
    [-0.3965004086494446, -0.23109275102615356, 0.31337815523147583],
    [4.4302778244018555, 5.170003890991211, 3.471748113632202],
)


@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_products_of_fourier_features_are_the_gaussian_kernel(read, gamma):
    scaled = NormalisedRows(read("blocks.3"))
    rows = scaled.extract(IMAGES).rows.astype(np.float64)
    found = FourierRows(scaled, 100_000, gamma, seed=0).mapped(rows)
    kernel = [[np.exp(-gamma * ((one - other) ** 2).sum()) for other in rows] for one in rows]
    np.testing.assert_allclose(found @ found.T, kernel, atol=0.02)
    assert np.min(kernel) < 0.98


def test_waves_of_another_seed_width_or_kernel_have_other_names(read):
    plain = read("blocks.3")
    sources = [FourierRows(plain, 9, *each) for each in ((1.0, 1), (1.0, 2), (1.5, 1))]
    assert len({tuple(source.layers) for source in sources}) == 3
    assert all(list(source.layers.values()) == [9] for source in sources)


# Joined


def test_rows_are_joined_in_the_order_of_the_sources(read):
    first, second = read("blocks.3"), read("blocks.7", EMBEDDING)
    joined = JoinedRows({"a": first, "b": second})
    assert joined.layers == {"a blocks.3": 128, "b blocks.7": 128, f"b {EMBEDDING}": 128}
    assert joined.width == 384
    found = joined.extract(IMAGES)
    expected = np.concatenate([each.extract(IMAGES).rows for each in (first, second)], axis=1)
    np.testing.assert_allclose(found.rows, expected, rtol=1e-5, atol=1e-5)
    assert found.digests == first.extract(IMAGES).digests
    assert found.forwarded == 10
    assert joined.cache is first.cache


def test_an_image_that_one_source_cannot_use_is_used_by_none(read):
    images = [np.full((8, 8, 3), 1 + i, np.uint8) for i in range(BATCH + 8)]
    black = 4, BATCH + 3
    for place in black:
        images[place] = np.zeros((8, 8, 3), np.uint8)
    images[7] = "no-such-file.png"
    joined = JoinedRows({"whole": read("0", backbone=tiny()), "broken": read("0", backbone=tiny(True))})
    found = joined.extract(images)
    assert [bad.index for bad in found.bad] == [4, 7, BATCH + 3]
    assert "NaN" in found.bad[0].reason
    assert "no-such-file.png" in found.bad[1].reason
    assert found.kept.tolist() == [i for i in range(BATCH + 8) if i not in (*black, 7)]
    np.testing.assert_array_equal(found.rows[:, :4], found.rows[:, 4:])
    whole = read("0", backbone=tiny()).extract([images[place] for place in found.kept])
    np.testing.assert_allclose(found.rows[:, :4], whole.rows, rtol=1e-5)
    assert found.digests == whole.digests


def test_no_images_no_rows(read):
    for source in (
        ProjectedRows(read("blocks.3"), 9, 1),
        MeanRows(read("blocks.2", "blocks.3")),
        FourierRows(NormalisedRows(read("blocks.3")), 9, 1.0, 1),
        JoinedRows({"a": read("blocks.3"), "b": read("blocks.3")}),
    ):
        assert source.extract([]).rows.shape == (0, source.width)
