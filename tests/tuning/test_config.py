"""Presets are the recipes' very values, and splits, schedules and preprocessing what they are called."""

from __future__ import annotations

import copy
import json
import math
import pickle
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import nn

from layup.adapters import ADAPTERS, SSF, VPT, AdaptFormer, Full, LoRA
from layup.backbones import Backbone, Preprocessing
from layup.backbones.timm_models import timm_backbone
from layup.errors import InputError, UnknownNameError
from layup.tuning.config import PRESETS, FirstSession, split
from layup.tuning.optimizers import annealed

from timm.models.vision_transformer import VisionTransformer  # isort: skip  # after layup

OWN = Preprocessing((16, 16), (18, 18), "center", "bicubic", (0.5, 0.4, 0.3), (0.2, 0.3, 0.4))


def transformer(preprocessing=OWN):
    torch.manual_seed(0)
    network = VisionTransformer(img_size=16, patch_size=4, embed_dim=32, depth=2, num_heads=2, num_classes=0)
    return timm_backbone(network, preprocessing, name="tiny", spec=None)


def convnet():
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3))
    return Backbone.from_module(network, ["1", "2"], OWN)


@pytest.fixture(scope="module")
def wide_photo():
    """Twice as wide as high."""
    return Image.fromarray(load_sample_image("china.jpg")[100:130, 200:260])


# Presets


@pytest.mark.parametrize(
    ("preset", "values"),
    [
        ("paper", ("adam", 0.03, 0.0, 48, 20, None, 0.0, "linear", "squash", "mild")),
        ("official", ("adamw", 0.003, 5e-4, 48, 20, None, 0.0, "cosine", "crop", "mild")),
        ("default", ("adamw", 0.003, 5e-4, 48, 20, 5, 0.2, "cosine", "own", "mild")),
        ("ranpac", ("sgd", 0.01, 5e-4, 48, 20, None, 0.0, "learned cosine", "crop256", "wide")),
    ],
)
def test_presets_train_as_the_recipes_say(preset, values):
    session = FirstSession(preset=preset)
    assert values == (
        session.optimizer,
        session.learning_rate,
        session.weight_decay,
        session.batch_size,
        session.epochs,
        session.patience,
        session.held_out,
        session.head,
        session.preprocessing,
        session.augmentation,
    )
    assert (session.preset, session.adapter, session.seed) == (preset, "auto", 0)


@pytest.mark.parametrize(
    ("preset", "adapters"),
    [
        ("paper", [AdaptFormer(width=16), VPT(5, "deep", "uniform"), SSF(final_norm=True)]),
        ("official", [AdaptFormer(width=64), VPT(10, "shared", "zero"), SSF(final_norm=False)]),
        ("default", [AdaptFormer(width=64), VPT(5, "deep", "uniform"), SSF(final_norm=True)]),
        ("ranpac", [AdaptFormer(width=64), VPT(5, "deep", "zero"), SSF(final_norm=True)]),
    ],
)
def test_presets_have_the_adapters_of_the_recipes(preset, adapters):
    for adapter in [*adapters, LoRA(), Full()]:
        assert FirstSession(adapter.name, preset).adapter == adapter


def test_every_preset_is_in_the_recipes():
    assert set(PRESETS) == {"paper", "official", "default", "ranpac"}
    assert FirstSession() == FirstSession() == FirstSession("auto", "default")


def test_changes_go_before_the_preset():
    changes = {"learning_rate": 0.1, "patience": 2, "held_out": 0.3, "seed": 7}
    changed = FirstSession("ssf", "paper", **changes)
    assert changed == replace(FirstSession("ssf", "paper"), **changes)
    assert (changed.optimizer, changed.head) == ("adam", "linear")


def test_a_session_is_a_frozen_value():
    session = FirstSession("vpt", epochs=5)
    with pytest.raises(FrozenInstanceError):
        session.epochs = 6
    assert (replace(session, epochs=6), session.epochs) == (FirstSession("vpt", epochs=6), 5)
    assert len({session, FirstSession("vpt", epochs=5), FirstSession("vpt")}) == 2
    assert pickle.loads(pickle.dumps(session)) == copy.deepcopy(session) == session
    assert repr(session).startswith(
        "FirstSession(adapter=VPT(tokens=5, depth='deep', start='uniform'), preset="
    )
    assert repr(session).endswith("preprocessing='own', augmentation='mild', trial=False, seed=0)")


def test_values_that_there_are_not_are_refused_by_name():
    with pytest.raises(TypeError, match="epoch"):
        FirstSession("vpt", epoch=5)


def test_an_adapter_with_settings_keeps_them():
    assert FirstSession(VPT(tokens=3), "official").adapter == VPT(tokens=3)


# Refusals


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"adapter": "adaptfromer"}, r"adapter 'adaptfromer'.*auto, adaptformer.*mean 'adaptformer'"),
        ({"adapter": "atuo"}, "mean 'auto'"),
        ({"adapter": VPT}, "Unknown adapter.*VPT.*auto, adaptformer"),
        ({"preset": "offical"}, r"preset 'offical'.*mean 'official'"),
        ({"optimizer": "adamm"}, r"optimizer 'adamm'.*adam, adamw, sgd"),
        ({"augmentation": "wied"}, "augmentation 'wied'.*mean 'wide'"),
        ({"head": "cosin"}, "mean 'cosine'"),
        ({"preprocessing": "squish"}, "mean 'squash'"),
    ],
)
def test_unknown_names_get_a_guess(given, message):
    with pytest.raises(UnknownNameError, match=message):
        FirstSession(**given)


@pytest.mark.parametrize(
    "impossible",
    [
        {"epochs": 0},
        {"epochs": 2.5},
        {"batch_size": 0},
        {"batch_size": 4.5},
        {"seed": -1},
        {"seed": 0.5},
        {"weight_decay": -0.1},
        {"learning_rate": 0.0},
        {"learning_rate": -0.1},
        {"learning_rate": math.nan},
        {"learning_rate": math.inf},
        {"patience": 0},
        {"held_out": 0.0},
        {"held_out": 1.0},
        {"held_out": math.nan},
    ],
    ids=str,
)
def test_impossible_values_are_refused_by_name_and_value(impossible):
    ((name, value),) = impossible.items()
    with pytest.raises(InputError, match=rf"{name} = {value}\b.* is impossible\. Use"):
        FirstSession("vpt", **impossible)


def test_without_patience_nothing_is_held_out_and_any_share_will_do():
    assert FirstSession("vpt", patience=None, held_out=0.0).held_out == 0.0


# Plain values


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("adapter", ["auto", *ADAPTERS, VPT(3, "shallow", "zero"), LoRA(2, 5.0)], ids=str)
def test_sessions_survive_json(adapter, preset):
    session = FirstSession(adapter, preset, epochs=3, patience=2, held_out=0.3, seed=11)
    assert FirstSession.from_dict(json.loads(json.dumps(session.to_dict()))) == session


def test_a_session_can_be_asked_for_in_every_way():
    full = FirstSession("lora", "paper", seed=3)
    assert FirstSession.wanted(None) is None
    assert FirstSession.wanted(full) is full
    assert FirstSession.wanted("auto") == FirstSession()
    assert FirstSession.wanted("vpt") == FirstSession(adapter=VPT())
    assert FirstSession.wanted(LoRA(rank=2)) == FirstSession(adapter=LoRA(rank=2))
    with pytest.raises(UnknownNameError, match="mean 'lora'"):
        FirstSession.wanted("loro")


# Attaching


@pytest.mark.parametrize(
    ("preset", "make", "adapter"),
    [
        ("paper", transformer, AdaptFormer(width=16)),
        ("default", transformer, AdaptFormer(width=64)),
        ("default", convnet, SSF()),
        ("official", convnet, SSF(final_norm=False)),
    ],
)
def test_auto_is_what_suits_the_network_with_the_presets_settings(preset, make, adapter):
    session = FirstSession("auto", preset)
    assert session.attach(make()).adapter == adapter
    assert session.adapter == "auto"


def test_the_seed_decides_the_first_values():
    backbone = transformer()
    first, same, other = (FirstSession("lora", seed=seed).attach(backbone) for seed in (0, 0, 1))
    assert first.fingerprint == same.fingerprint != other.fingerprint


# Preprocessing


def numbers(picture, mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0)):
    scaled = (np.asarray(picture) / 255 - mean) / std
    return scaled.transpose(2, 0, 1)


def expected_squash(photo):
    return numbers(photo.resize((16, 16), Image.Resampling.BICUBIC), OWN.mean, OWN.std)


def expected_crop(photo):
    return numbers(photo.resize((32, 16), Image.Resampling.BILINEAR).crop((8, 0, 24, 16)))


def expected_own(photo):
    middle = photo.resize((36, 18), Image.Resampling.BICUBIC).crop((10, 1, 26, 17))
    return numbers(middle, OWN.mean, OWN.std)


@pytest.mark.parametrize(
    ("way", "expected"), [("squash", expected_squash), ("crop", expected_crop), ("own", expected_own)]
)
def test_preprocessing_is_what_it_is_called(way, expected, wide_photo):
    seen = FirstSession("vpt", preprocessing=way).attach(transformer()).preprocess(wide_photo)
    assert seen.dtype == torch.float32
    np.testing.assert_allclose(seen.numpy(), expected(wide_photo), atol=1e-6)


def test_cropped_values_are_between_0_and_1_and_squashed_images_are_whole(wide_photo):
    cropped = FirstSession("vpt", "official").attach(transformer()).preprocess(wide_photo)
    assert 0 <= cropped.min() < cropped.max() <= 1
    left_marked = wide_photo.copy()
    left_marked.paste("red", (0, 0, 3, 30))
    squash, crop = (
        FirstSession("vpt", preprocessing=way).attach(transformer()) for way in ("squash", "crop")
    )
    assert not torch.equal(squash.preprocess(left_marked), squash.preprocess(wide_photo))
    assert torch.equal(crop.preprocess(left_marked), crop.preprocess(wide_photo))


def test_the_preprocessing_is_part_of_the_fingerprint():
    backbone = transformer()
    ways = {way: FirstSession("vpt", preprocessing=way) for way in ("own", "squash", "crop")}
    assert len({session.attach(backbone).fingerprint for session in ways.values()}) == 3
    squashed = transformer(replace(OWN, resize=(16, 16), crop="squash"))
    own, squash = (ways[way].attach(squashed).fingerprint for way in ("own", "squash"))
    assert own == squash


# The split


TARGETS = np.random.default_rng(0).permutation(np.repeat([0, 1, 2, 3, 4], [40, 20, 7, 2, 1]))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("share", "counts"),
    [(0.2, [8, 4, 1, 1, 0]), (0.5, [20, 10, 4, 1, 0]), (0.01, [1, 1, 1, 1, 0]), (0.99, [39, 19, 6, 1, 0])],
)
def test_a_share_of_every_class_is_held_out_but_never_its_last_image(share, counts, seed):
    training, held_out = split(TARGETS, share, seed)
    assert sorted([*training, *held_out]) == list(range(len(TARGETS)))
    assert np.bincount(TARGETS[held_out], minlength=5).tolist() == counts


def test_the_seed_decides_the_split():
    first, same, other = (split(TARGETS, 0.2, seed) for seed in (0, 0, 1))
    assert [half.tolist() for half in first] == [half.tolist() for half in same]
    assert first[1].tolist() != other[1].tolist()


def test_the_split_takes_any_image_of_a_class():
    held_out = {place for seed in range(60) for place in split(np.array([0] * 5 + [1] * 5), 0.2, seed)[1]}
    assert held_out == set(range(10))


def test_classes_of_one_image_each_cannot_be_split():
    with pytest.raises(InputError, match=r"one image each.*without an adapter"):
        split(np.arange(4), 0.2, seed=0)


# The schedule


@pytest.mark.parametrize("epochs", [1, 2, 20])
def test_the_learning_rate_is_torchs_cosine(epochs):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.03)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(epochs):
        assert annealed(0.03, epoch, epochs) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-9)
        optimizer.step()
        schedule.step()
    assert annealed(0.03, epochs, epochs) == 0
