"""Which features: values that are built, written down, and refused where they cannot be."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from layup import load_backbone
from layup.adapters import AdaptedBackbone, AdaptFormer
from layup.backbones import Backbone
from layup.errors import InputError
from layup.features import (
    EMBEDDING,
    Embedding,
    FeatureSpec,
    Fourier,
    FrozenAndTuned,
    LastLayers,
    MeanOfLayers,
    Normalised,
    OneLayer,
    Projected,
    spec_from,
)
from photos import crops

SPECS: list[FeatureSpec] = [
    LastLayers(3),
    OneLayer(2),
    Embedding(),
    Projected(Embedding(), 20, 1),
    MeanOfLayers(3),
    Projected(MeanOfLayers(12), 20, 1, "sigmoid", "uniform"),
    FrozenAndTuned(LastLayers(2)),
    Projected(FrozenAndTuned(OneLayer(1)), 5, 0),
    Normalised(LastLayers(2), 0.5),
    Fourier(Normalised(Embedding()), 20, 0.5, 1),
]


@pytest.fixture(scope="module")
def nano() -> Backbone:
    return load_backbone("vit-nano")


@pytest.mark.parametrize("spec", SPECS, ids=repr)
def test_what_is_written_down_is_read_again(spec: FeatureSpec, nano: Backbone) -> None:
    assert spec_from(json.loads(json.dumps(spec.to_dict()))) == spec
    assert spec.resolved(nano) == spec


@pytest.mark.parametrize(
    ("spec", "layers"),
    [
        (LastLayers(2), ["blocks.10", "blocks.11"]),
        (LastLayers(), [f"blocks.{i}" for i in range(6, 12)]),
        (OneLayer(), ["blocks.11"]),
        (OneLayer(12), ["blocks.0"]),
        (Embedding(), [EMBEDDING]),
        (FrozenAndTuned(OneLayer(3)), ["frozen blocks.9", "tuned blocks.9"]),
        (Projected(LastLayers(2), 7, 3), ["random projection (seed 3) of blocks.10, blocks.11"]),
        (
            Projected(MeanOfLayers(2), 7, 3, "tanh", "uniform"),
            ["random projection (seed 3, tanh, uniform) of mean of blocks.10, blocks.11"],
        ),
        (Normalised(LastLayers(2)), ["normalised blocks.10", "normalised blocks.11"]),
        (
            Fourier(Normalised(Embedding(), 0.5), 7, 2, 3),
            [f"random Fourier features (γ 2.0, seed 3) of normalised (power 0.5) {EMBEDDING}"],
        ),
    ],
    ids=repr,
)
def test_specs_build_what_reads_these_layers(spec: FeatureSpec, layers: list[str], nano: Backbone) -> None:
    assert list(spec.build(nano, {"cache": False}).layers) == layers


def test_layers_can_be_told_without_the_network() -> None:
    names = ["a", "b", "c", "d"]
    assert LastLayers(2).layers_of(names) == ["c", "d"]
    assert OneLayer(1).layers_of(names) == ["d"]
    assert OneLayer(3).layers_of(names) == ["b"]
    assert Embedding().layers_of(names) is None


def test_an_open_choice_is_made_for_the_network(nano: Backbone) -> None:
    assert LastLayers().resolved(nano) == LastLayers(6)
    assert MeanOfLayers().resolved(nano) == MeanOfLayers(12)
    assert Projected(LastLayers(), 9, 0).resolved(nano) == Projected(LastLayers(6), 9, 0)
    assert Fourier(Normalised(LastLayers())).resolved(nano) == Fourier(Normalised(LastLayers(6)))
    assert type(LastLayers(np.int64(2)).resolved(nano).k) is int  # type: ignore[arg-type]


def test_both_networks_are_read_side_by_side(nano: Backbone) -> None:
    tuned = AdaptedBackbone(nano, AdaptFormer(width=4))
    with_values = {name: value + 0.1 for name, value in tuned.state().items()}
    tuned.load_state(with_values)
    rows = FrozenAndTuned(OneLayer(1)).build(tuned, {"cache": False}).extract(crops(2)).rows
    for spec_of, half in ((nano, rows[:, :128]), (tuned, rows[:, 128:])):
        expected = OneLayer(1).build(spec_of, {"cache": False}).extract(crops(2)).rows
        np.testing.assert_array_equal(half, expected)
    assert not np.allclose(rows[:, :128], rows[:, 128:])


@pytest.mark.parametrize(
    "spec", [LastLayers(13), OneLayer(0), LastLayers(0), MeanOfLayers(13), Projected(LastLayers(13), 5)]
)
def test_layers_that_a_network_does_not_have_are_refused(spec: FeatureSpec, nano: Backbone) -> None:
    with pytest.raises(InputError, match="Use k between 1 and 12"):
        spec.resolved(nano)


def test_layers_of_different_widths_have_no_mean() -> None:
    bundled = load_backbone("bundled")
    for refuse in (MeanOfLayers().resolved, lambda each: MeanOfLayers().build(each, {"cache": False})):
        with pytest.raises(InputError, match=r"needs layers of the same width, but those of 'bundled' have"):
            refuse(bundled)
    assert MeanOfLayers(1).resolved(bundled) == MeanOfLayers(1)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        *(
            (kind(Embedding(), width), "width = .*a whole number from 1")
            for kind in (Projected, Fourier)
            for width in (0, -3, 2.5, "10")
        ),
        *((Fourier(Embedding(), 5, gamma), "gamma = .*a number > 0") for gamma in (0, -1.0, np.nan, "1")),
        *((Normalised(Embedding(), power), "power = .*a number > 0") for power in (0, -0.5, np.inf)),
    ],
    ids=repr,
)
def test_impossible_features_are_refused(spec: FeatureSpec, says: str, nano: Backbone) -> None:
    with pytest.raises(InputError, match=rf"{says}.*\.$"):
        spec.resolved(nano)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([], "features is"),
        ({}, r"features\.kind is None"),
        ({"kind": "oracle"}, r"features\.kind is 'oracle', not one of"),
        ({"kind": ["last layers"]}, r"features\.kind"),
        ({"kind": "last layers"}, "no field 'k'"),
        ({"kind": "last layers", "k": None}, r"features\.k is None"),
        ({"kind": "last layers", "k": True}, r"features\.k is True"),
        ({"kind": "embedding", "k": 1}, "'k', which is unknown"),
        ({"kind": "frozen and tuned", "of": {"kind": "x"}}, r"features\.kind"),
        ({**Projected(Embedding()).to_dict(), "width": 0}, r"features\.width"),
        ({**Projected(Embedding()).to_dict(), "activation": "sine"}, r"features\.activation is 'sine'"),
        ({**Projected(Embedding()).to_dict(), "drawn": 1}, r"features\.drawn is 1"),
        ({"kind": "projected", "of": {"kind": "embedding"}, "width": 0, "seed": 0}, r"features\.width"),
        ({"kind": "normalised", "of": {"kind": "embedding"}, "power": 0}, r"features\.power"),
        ({"kind": "normalised", "of": {"kind": "x"}, "power": 1}, r"features\.kind"),
        (
            {"kind": "fourier", "of": {"kind": "embedding"}, "width": 1, "gamma": -1, "seed": 0},
            r"features\.gamma",
        ),
    ],
)
def test_what_is_no_spec_is_refused(values: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        spec_from(values)
