"""Reasons are exact: parts of layers add up to the scores, and the heat map is where the difference is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from layup import Backbone, LayNMC, LayUP, NoCache, Preprocessing
from layup.algebra import AutoClassifier, DiscriminantClassifier, RidgeClassifier
from layup.backbones import load_backbone
from layup.errors import BadImageError, InputError
from layup.features import Extractor, FourierRows, JoinedRows, LastLayers, NormalisedRows, ProjectedRows
from layup.model import Explanation, Heat, ImageModel, Part
from layup.model.explain import AVERAGE
from layup.model.occlusion import SIDE, STEPS, occlusion
from models import picture, small_model, small_network
from photos import batch, digits, name

PHOTOS = [(number, "abc"[number % 3]) for number in range(24)]
CLASSIFIERS = [AutoClassifier(), RidgeClassifier(1.0), RidgeClassifier("gcv", balance=True)]


@pytest.fixture(params=[*CLASSIFIERS, DiscriminantClassifier(0.1)], ids=lambda each: f"{each.kind}")
def model(request):
    """A model of two layers and three classes, for every classifier with linear scores."""
    made = ImageModel(small_model().features, request.param, backbone=small_network(), cache=False)
    made.learn([picture(number) for number, _ in PHOTOS], [label for _, label in PHOTOS])
    return made


def test_linear_scores_are_the_scores(model):
    rows = model.extractor_.extract([picture(30), picture(31)]).rows
    weights, offsets = model.classifier_.linear()
    np.testing.assert_allclose(rows @ weights + offsets, model.classifier_.scores_of(rows), atol=1e-9)


def test_parts_add_up_to_what_the_scores_say(model):
    scores = dict(zip(model.classes_, model.scores([picture(30)])[0], strict=True))
    found = model.explain(picture(30))
    (first, label), (next_best, second), _ = sorted((score, name) for name, score in scores.items())[::-1]
    mean = np.mean([*scores.values()])
    assert (found.label, found.second) == (label, second)
    assert [part.layer for part in found.parts] == ["1", "2", AVERAGE]
    assert sum(part.label for part in found.parts) == pytest.approx(first - mean, abs=1e-9)
    assert sum(part.second for part in found.parts) == pytest.approx(next_best - mean, abs=1e-9)
    assert sum(part.lead for part in found.parts) == pytest.approx(first - next_best, abs=1e-9)
    assert (found.score, found.lead) == pytest.approx((first - mean, first - next_best), abs=1e-9)


def test_parts_are_those_of_a_slow_sum(model):
    """Column by column, from the weights."""
    weights, _ = model.classifier_.linear()
    rows = model.extractor_.extract([picture(number) for number, _ in PHOTOS]).rows.astype(np.float64)
    means = [rows[[i for i, (_, each) in enumerate(PHOTOS) if each == label]].mean(axis=0) for label in "abc"]
    x = model.extractor_.unrounded.extract([picture(30)]).rows[0]
    found = model.explain(picture(30), heat=False)
    best = model.classes_.index(found.label)
    for part, columns in zip(found.parts, (range(6), range(6, 14)), strict=False):
        said = [
            sum((x[i] - np.mean([m[i] for m in means])) * weights[i, y] for i in columns) for y in range(3)
        ]
        assert part.label == pytest.approx(said[best] - sum(said) / 3, abs=1e-6)


class RedAndBlue(nn.Module):
    """Two layers, none of which sees what the other does: how red a picture is, and how blue."""

    def __init__(self):
        super().__init__()
        self.red, self.blue = nn.Conv2d(3, 1, 1, bias=False), nn.Conv2d(3, 1, 1, bias=False)
        for layer, channel in ((self.red, 0), (self.blue, 2)):
            layer.weight.data = torch.eye(3)[channel].reshape(1, 3, 1, 1)

    def forward(self, x):
        return torch.cat([self.red(x), self.blue(x)], dim=1)


def coloured(red, blue):
    return np.full((8, 8, 3), (red, 128, blue), np.uint8)


@pytest.mark.parametrize(
    "classifier", [*CLASSIFIERS, DiscriminantClassifier(0.1)], ids=lambda each: each.kind
)
def test_the_layer_that_tells_classes_apart_gets_the_credit(classifier):
    """Photos of both classes are red to any degree; only one class is blue."""
    preprocessing = Preprocessing((8, 8), (8, 8), "squash")
    network = Backbone.from_module(RedAndBlue(), ["red", "blue"], preprocessing)
    model = ImageModel(LastLayers(2), classifier, backbone=network, cache=False)
    reds = range(0, 256, 8)
    for label, blue in (("sea", 200), ("sand", 50)):
        model.learn([coloured(red, blue + red // 64) for red in reds], [label] * len(reds))
    for red in (20, 230):
        found = model.explain(coloured(red, 190), heat=False)
        leads = {part.layer: part.lead for part in found.parts}
        assert found.label == "sea"
        assert leads["blue"] > 0.9 * found.lead
        assert abs(leads["red"]) < 0.1 * found.lead


SQUARES = {"upper left": (0, 0), "upper right": (0, 64), "lower left": (64, 0), "lower right": (64, 64)}


def squared(colour, corner, seed):
    """Noise, with a square of this colour in a corner: the only thing that tells photos apart."""
    pixels = np.random.default_rng(seed).integers(90, 166, (96, 96, 3)).astype(np.uint8)
    top, left = SQUARES[corner]
    pixels[top : top + 32, left : left + 32] = colour
    return pixels


@pytest.mark.parametrize("corner", SQUARES)
def test_the_heat_map_is_highest_where_the_difference_is(corner):
    model = LayUP("vit-nano", cache=False)
    colours = {"red": (220, 20, 20), "blue": (20, 20, 220)}
    photos = [
        (squared(colour, corner, seed), label) for label, colour in colours.items() for seed in range(8)
    ]
    model.learn([photo for photo, _ in photos], [label for _, label in photos])
    found = model.explain(squared(colours["red"], corner, 99))
    assert (found.label, found.second) == ("red", "blue")
    assert found.heat.where == corner
    assert corner in found.summary
    top, left = SQUARES[corner]
    hottest = np.unravel_index(np.nanargmax(found.heat.over(96, 96)), (96, 96))
    assert (hottest[0] // 48, hottest[1] // 48) == (top // 48, left // 48)


def brightness(pixels):
    """A lead that is the mean of the right half of the picture."""
    return pixels[:, :, :, 16:].mean(dim=(1, 2, 3)).numpy().astype(np.float64)


def test_drops_are_those_of_covering_parts_one_by_one():
    pixels = torch.rand(3, 32, 32, generator=torch.Generator().manual_seed(0)) + 0.5
    found = occlusion(pixels, brightness, (0.0, 0.0, 32.0, 32.0))
    for row in range(STEPS):
        for column in range(STEPS):
            top, left = round(24 * row / 7), round(24 * column / 7)
            covered = pixels.clone()
            covered[:, top : top + 8, left : left + 8] = 0
            drop = brightness(pixels[None])[0] - brightness(covered[None])[0]
            assert found.drops[row, column] == pytest.approx(drop, abs=1e-7)
    assert SIDE * 32 == 8


def test_the_heat_map_lies_on_what_the_network_sees():
    heat = Heat(np.ones((STEPS, STEPS)), (30.0, 0.0, 90.0, 60.0))
    over = heat.over(120, 60)
    assert over.shape == (60, 120)
    assert np.isnan(over[:, :30]).all()
    assert np.isnan(over[:, 90:]).all()
    np.testing.assert_allclose(over[:, 30:90], 1.0)


@pytest.mark.parametrize("crop", ["center", "squash", "border"])
@pytest.mark.parametrize("size", [(120, 60), (60, 120), (61, 60), (300, 170)])
def test_a_mark_in_a_photo_is_seen_where_its_region_says(crop, size):
    """A white dot: where it is in the region of the photo, it is in what the network sees."""
    preprocessing = Preprocessing((32, 32), (36, 36), crop, "bilinear")
    x, y = size[0] // 2 + size[1] // 8, size[1] // 2 - size[1] // 6
    photo = Image.new("RGB", size, (128, 128, 128))  # so is what is added at the sides
    photo.paste((255, 255, 255), (x - 4, y - 4, x + 4, y + 4))
    left, top, right, bottom = preprocessing.region(photo)
    light = preprocessing.transform(photo).sum(dim=0).numpy()
    light -= light.min()
    at = [(light.sum(axis=axis) * (np.arange(32) + 0.5)).sum() / light.sum() / 32 for axis in (0, 1)]
    assert at[0] == pytest.approx((x - left) / (right - left), abs=0.02)
    assert at[1] == pytest.approx((y - top) / (bottom - top), abs=0.02)


def test_rows_of_pixels_are_those_of_the_images():
    nano = load_backbone("vit-nano")
    one = Extractor(nano, ["blocks.11"], cache=NoCache())
    images = [Image.fromarray(digits(4, 2)[i]).convert("RGB") for i in range(2)]
    pixels = torch.stack([nano.preprocess(image) for image in images])
    for source in (
        one,
        ProjectedRows(one, 20, 1),
        NormalisedRows(one, 0.5),
        FourierRows(one, 20, 0.01, 1),
        JoinedRows({"a": one, "b": one}),
    ):
        np.testing.assert_allclose(source.rows_of(pixels), source.extract(images).rows, rtol=1e-5, atol=1e-5)


def test_classifiers_without_linear_scores_have_a_heat_map():
    model = LayNMC("vit-nano", cache=False)
    model.learn(*batch({0: 3, 1: 3}))
    found = model.explain(digits(0, 1, start=20)[0])
    assert (found.label, found.second, found.parts) == (name(0), name(1), None)
    assert found.heat.drops.shape == (STEPS, STEPS)
    assert "layer" not in found.summary


def test_one_class_has_nothing_to_be_compared_with():
    model = small_model([(0, "a"), (1, "a")])
    found = model.explain(picture(2))
    assert (found.label, found.second, found.parts, found.heat) == ("a", None, None, None)
    assert found.summary == "'a' is the only class that this model knows: there is none to compare it with."
    assert found.to_dict()["lead"] is None


def test_what_is_explained_is_what_is_predicted_and_nothing_changes():
    model = small_model(PHOTOS)
    before = model.scores([picture(40)])
    found = model.explain(picture(40))
    assert found.label == model.predict([picture(40)])[0]
    assert found.heat is not None
    assert model.explain(picture(40), heat=False) == Explanation(**{**vars(found), "heat": None})
    np.testing.assert_array_equal(model.scores([picture(40)]), before)


def test_explanations_are_json():
    found = small_model(PHOTOS).explain(picture(40))
    again = json.loads(json.dumps(found.to_dict()))
    assert again["label"] == found.label
    assert np.shape(again["heat"]["drops"]) == (STEPS, STEPS)
    assert again["heat"]["region"] == [0, 0, 8, 8]
    assert sum(part["lead"] for part in again["parts"]) == pytest.approx(again["lead"])


@pytest.mark.parametrize(
    ("drop", "said"),
    [
        (0.2, "Covering the upper left of what the network sees costs most (0.20)."),
        (0.9, "Covering the upper left of what the network sees costs most (0.90): 'b' would be ahead."),
        (-0.1, "Whatever part of the photo is covered, none of it is lost."),
    ],
)
def test_the_summary_says_what_the_heat_map_shows(drop, said):
    drops = np.full((STEPS, STEPS), -0.5)
    drops[0, 0] = drop
    found = Explanation("a", "b", 0.5, 0.0, None, Heat(drops, (0.0, 0.0, 1.0, 1.0)))
    assert found.summary == f"'a' is 0.50 ahead of 'b'. {said}"


def test_the_summary_says_if_no_layer_speaks_most():
    parts = (Part("1", 0.1, 0.0), Part(AVERAGE, 0.3, 0.0))
    assert "comes from what any photo gets (+0.30)" in Explanation("a", "b", 0.4, 0.0, parts, None).summary


def test_bad_images_and_empty_models_are_refused_in_a_sentence(tmp_path: Path):
    with pytest.raises(BadImageError, match=r"no-such\.jpg': there is no such file\."):
        small_model(PHOTOS).explain(tmp_path / "no-such.jpg")
    with pytest.raises(InputError, match="knows no class"):
        small_model().explain(picture(0))
