"""Whether an adapter is worth keeping."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import layup
from layup import FirstSession, ImageModel, LayUP
from layup.adapters import AdaptedBackbone, Full
from layup.algebra import RidgeClassifier
from layup.features import LastLayers
from layup.model.trial import Trial, try_out
from layup.tuning import parts
from learners import tinted, tiny

IMAGES, LABELS = tinted({0: 15, 1: 15, 2: 15})
SESSION = FirstSession("full", patience=2, held_out=0.4, trial=True)


def blank(backbone):
    return ImageModel(LastLayers(2), RidgeClassifier(1.0), backbone=backbone, anonymous=True, cache=False)


def numbed(backbone):
    """The backbone with an adapter that makes all its features the same."""
    adapted = AdaptedBackbone(backbone, Full())
    adapted.load_state({name: torch.zeros_like(value) for name, value in adapted.state().items()})
    return adapted


def test_the_trial_counts_right_predictions_of_held_out_images_by_either_network():
    tuned = numbed(tiny())
    trial = try_out(blank, tuned, IMAGES, LABELS, SESSION)
    training, held_out = parts(IMAGES, LABELS, SESSION)
    assert trial.images == len(held_out) == 18
    assert not set(training) & set(held_out)
    for backbone, accuracy in ((tuned.frozen, trial.frozen), (tuned, trial.tuned)):
        model = blank(backbone)
        model.learn([IMAGES[i] for i in training], [LABELS[i] for i in training])
        right = sum(model.predict([IMAGES[i]])[0] == LABELS[i] for i in held_out)
        assert accuracy == right / 18
    assert trial.frozen > 0.8
    assert trial.tuned < 0.5
    assert not trial.kept


@pytest.mark.parametrize(("frozen", "tuned", "kept"), [(0.5, 0.6, True), (0.6, 0.5, False), (0.5, 0.5, True)])
def test_an_adapter_is_kept_unless_it_is_worse(frozen, tuned, kept):
    trial = Trial(frozen, tuned, 10)
    assert trial.kept is kept
    assert str(trial).startswith(f"The adapter was {'kept' if kept else 'dropped'}: on 10 images")


def test_a_dropped_adapter_leaves_the_model_that_never_had_one(tmp_path):
    session = FirstSession("auto", epochs=1, learning_rate=30.0)  # this ruins the network
    model = LayUP(tiny(), adapter=session, lam=1.0, k=2, cache=False)
    plain = LayUP(tiny(), lam=1.0, k=2, cache=False)
    for each in (model, plain):
        each.learn(IMAGES, LABELS)
    assert not model.trial.kept
    assert not model.network.adapted
    np.testing.assert_array_equal(model.statistics_.gram, plain.statistics_.gram)
    model.save(tmp_path / "m.layup")
    again = layup.load(tmp_path / "m.layup", backbone=tiny())
    again.learn(IMAGES[:3], ["new"] * 3, again=True)
    assert not again.network.adapted  # it is only tried with the first batch


def test_an_adapter_that_is_chosen_by_name_is_not_tried():
    model = LayUP(tiny(), adapter=FirstSession("vpt", epochs=1), k=2, cache=False)
    model.learn(IMAGES, LABELS)
    assert model.trial is None
    assert model.network.adapted


def test_only_auto_with_held_out_images_is_tried_by_default():
    assert FirstSession().trial
    assert not FirstSession("vpt").trial
    assert not FirstSession("auto", "official").trial
    assert not FirstSession("auto", patience=None, trial=True).trial
