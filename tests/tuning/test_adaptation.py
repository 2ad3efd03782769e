"""Adaptation is plain training of the adapter alone, the same however often it is interrupted."""

from __future__ import annotations

import json
import math
import random
import signal
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from torch import nn

from layup import LayUP, progress, storage
from layup.adapters import ADAPTERS, AdaptFormer
from layup.backbones import Preprocessing
from layup.backbones.timm_models import timm_backbone
from layup.errors import (
    BadImageError,
    DamagedFileError,
    DivergedError,
    InputError,
    LayupError,
    StorageError,
)
from layup.features import extract as features
from layup.features.reader import survey
from layup.images import image_digest, open_image
from layup.seeds import seed_of
from layup.tuning import adaptation, pictures
from layup.tuning.adaptation import COSINE_SCALE, HEADS, CosineHead, adapt
from layup.tuning.augmentation import augmented
from layup.tuning.config import FirstSession, split
from layup.tuning.pictures import Pictures as Pixels
from layup.tuning.trainer import Trainer
from photos import batch, crops, digits
from processes import Quick

from timm.models.vision_transformer import VisionTransformer  # isort: skip  # after layup


def tiny(seed=0):
    """A vision transformer in a moment, of weights large enough to tell images apart."""
    torch.manual_seed(seed)
    network = VisionTransformer(img_size=16, patch_size=4, embed_dim=32, depth=2, num_heads=2, num_classes=0)
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Linear | nn.Conv2d):
                module.weight.mul_(4)
    return timm_backbone(network, Preprocessing((16, 16), (16, 16), "squash"), name="tiny", spec=None)


def coloured(digit_counts, start=0):
    """Digits, each class with a colour of its own: easy enough for a network that knows nothing."""
    images, labels = batch(digit_counts, start)
    classes = sorted(set(labels))
    coloured = []
    for image, label in zip(images, labels, strict=True):
        coloured.append(np.dstack([image // 3] * 3))
        coloured[-1][..., classes.index(label)] = image
    return coloured, labels


IMAGES, LABELS = coloured({0: 8, 1: 8, 2: 7})


def quick(adapter="adaptformer", **changes):
    values = {"epochs": 4, "batch_size": 8, "learning_rate": 0.01, "patience": 4, "held_out": 0.25}
    return FirstSession(adapter, **{**values, **changes})


@pytest.fixture(scope="module")
def backbone():
    return tiny()


def tuned(adapted):
    return {name: value.clone() for name, value in adapted.state().items()}


def equal(state, other):
    return list(state) == list(other) and all(torch.equal(state[name], other[name]) for name in state)


def assert_same(adapted, other):
    assert equal(adapted.state(), other.state())
    assert adapted.record == other.record
    assert adapted.fingerprint == other.fingerprint


def losses(adapted):
    return [epoch["loss"] for epoch in adapted.record["epochs"]]


@pytest.fixture
def scripted(monkeypatch):
    """Held-out accuracies as told, one for each epoch."""

    def script(accuracies):
        def told(trainer, _):
            return None if trainer.recipe.patience is None else accuracies[len(trainer.epochs)]

        monkeypatch.setattr(Trainer, "measure", told)

    return script


@pytest.fixture
def epochs(monkeypatch):
    """The tuned values after each epoch."""
    states = []
    note = Trainer.note

    def spy(trainer, epoch):
        note(trainer, epoch)
        states.append(tuned(trainer.trained.adapted))

    monkeypatch.setattr(Trainer, "note", spy)
    return states


@pytest.fixture
def trained(monkeypatch):
    """The numbers of the epochs that are trained, from 0."""
    numbers = []
    train = Trainer.train

    def spy(trainer, batches):
        numbers.append(len(trainer.epochs))
        return train(trainer, batches)

    monkeypatch.setattr(Trainer, "train", spy)
    return numbers


@pytest.fixture
def read(monkeypatch):
    """The indices that are read for training, and those that are read plainly, batch by batch."""
    augmented, plain = [], []
    get = Pixels.read

    def spy(pixels, places):
        (augmented if pixels.seeds else plain).append(places)
        return get(pixels, places)

    monkeypatch.setattr(Pixels, "read", spy)
    return augmented, plain


class Interrupted(Exception):
    pass


@pytest.fixture
def interrupt(monkeypatch):
    """End training in the middle of an epoch, once."""

    def at(epoch):
        get = Pixels.read

        def interrupting(pixels, places):
            if pixels.seeds[1:] == (epoch,) and next(batches) == 1:
                monkeypatch.setattr(Pixels, "read", get)
                raise Interrupted
            return get(pixels, places)

        batches = iter(range(99))
        monkeypatch.setattr(Pixels, "read", interrupting)

    return at


@pytest.fixture
def no_training(monkeypatch):
    def refuse(*_):
        raise AssertionError("something was trained")

    monkeypatch.setattr(Trainer, "train", refuse)


# Learning


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_adapter_learns(backbone, adapter):
    images, labels = coloured({0: 12, 1: 12, 2: 12})
    adapted = adapt(backbone, images, labels, quick(adapter, epochs=6, batch_size=9, patience=None))
    first, *_, last = losses(adapted)
    assert last < first / 5
    assert last < math.log(3) / 3


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_every_adapter_learns_under_a_head_that_does_not(backbone, adapter, monkeypatch):
    class Fixed(CosineHead):
        def __init__(self, *shape):
            super().__init__(*shape)
            self.requires_grad_(False)

    monkeypatch.setitem(HEADS, "cosine", Fixed)
    session = quick(adapter, epochs=6, learning_rate=0.02, patience=None)
    first, *_, last = losses(adapt(backbone, IMAGES, LABELS, session))
    assert last < first * 2 / 3


def test_held_out_accuracy_rises_far_above_chance(backbone):
    images, labels = coloured({0: 16, 1: 16, 2: 16})
    record = adapt(backbone, images, labels, quick("lora", epochs=6, held_out=0.4)).record
    accuracies = [epoch["accuracy"] for epoch in record["epochs"]]
    assert accuracies[-1] > 0.8
    assert record["kept"] == 1 + accuracies.index(max(accuracies))


def plain_training(backbone, images, labels, session):
    """The oracle: torch's own schedule over a loop of one image after the other."""
    adapted = session.attach(backbone)
    adapted.train()
    classes = sorted(set(labels))
    targets = torch.tensor([classes.index(label) for label in labels])
    torch.manual_seed(seed_of(session.seed, "head"))
    head = HEADS[session.head](32, len(classes))
    optimizer = {
        "adam": torch.optim.Adam,
        "adamw": torch.optim.AdamW,
        "sgd": partial(torch.optim.SGD, momentum=0.9),
    }[session.optimizer](
        [
            {
                "params": list(adapted.state().values()),
                "lr": session.adapter.lr_multiplier * session.learning_rate,
            },
            {"params": list(head.parameters()), "lr": session.learning_rate},
        ],
        weight_decay=session.weight_decay,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=session.epochs)
    transform = augmented(adapted.preprocessing, session.augmentation)
    means = []
    for epoch in range(session.epochs):
        order = np.random.default_rng(seed_of(session.seed, epoch, "order")).permutation(len(images))
        total = 0.0
        for start in range(0, len(order), session.batch_size):
            batch = order[start : start + session.batch_size]
            pixels = []
            for place in batch.tolist():
                torch.manual_seed(seed_of(session.seed, epoch, place))
                pixels.append(transform(open_image(images[place])))
            scores = head(adapted.network(torch.stack(pixels)))
            each = nn.functional.cross_entropy(scores, targets[batch], reduction="none")
            optimizer.zero_grad()
            each.mean().backward()
            optimizer.step()
            total += each.sum().item()
        schedule.step()
        means.append(total / len(order))
    return {name: value.detach() for name, value in adapted.state().items()}, means


@pytest.mark.parametrize(
    "session",
    [
        quick(AdaptFormer(dropout=0.0), patience=None, weight_decay=0.1),
        quick("lora", patience=None, optimizer="adam", head="linear", seed=5),
        quick("vpt", patience=None, optimizer="adam", weight_decay=0.1, batch_size=48),
        quick("vpt", patience=None, preprocessing="crop", head="linear"),
        quick("full", patience=None),
        quick("vpt", preset="ranpac", patience=None),
    ],
    ids=lambda session: f"{session.adapter.name}-{session.optimizer}-{session.head}",
)
def test_training_equals_a_plain_loop(backbone, session):
    adapted = adapt(backbone, IMAGES, LABELS, session)
    state, means = plain_training(backbone, IMAGES, LABELS, session)
    assert losses(adapted) == pytest.approx(means, rel=1e-4)
    for name, value in adapted.state().items():
        torch.testing.assert_close(value, state[name], rtol=1e-3, atol=1e-5)


# What is tuned, and what is not


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_all_that_was_put_in_is_tuned_and_the_backbone_stays_as_it_is(adapter):
    backbone = tiny()
    before = {name: value.clone() for name, value in backbone.network.state_dict().items()}
    fingerprint = backbone.fingerprint
    pixels = torch.stack([backbone.preprocess(open_image(image)) for image in IMAGES[:3]])
    embedding = backbone(pixels).embedding
    untrained = quick(adapter).attach(backbone)

    adapted = adapt(backbone, IMAGES, LABELS, quick(adapter))

    assert equal(backbone.network.state_dict(), before)
    backbone.refresh()
    assert backbone.fingerprint == fingerprint
    assert torch.equal(backbone(pixels).embedding, embedding)

    assert list(adapted.state()) == list(untrained.state())  # and no head among them
    for name, value in adapted.state().items():
        assert not torch.equal(value, untrained.state()[name]), name
    frozen = set(adapted.network.state_dict()) - set(adapted.state())
    for name in frozen:
        assert torch.equal(adapted.network.state_dict()[name], untrained.network.state_dict()[name]), name
    assert adapted.fingerprint != untrained.fingerprint
    assert not torch.equal(adapted(pixels).embedding, untrained(pixels).embedding)


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_afterwards_nothing_learns_any_more(backbone, adapter):
    adapted = adapt(backbone, IMAGES, LABELS, quick(adapter, epochs=1))
    for network in (adapted.network, backbone.network):
        assert not any(value.requires_grad for value in network.parameters())
        assert not any(module.training for module in network.modules())
    assert all(value.grad is None for value in adapted.network.parameters())


def test_the_fingerprint_is_that_of_the_kept_values(backbone, scripted):
    scripted([0.9, 0.5])
    adapted = adapt(backbone, IMAGES, LABELS, quick(epochs=2))
    found = adapted.fingerprint
    adapted.refresh()
    assert adapted.fingerprint == found


# Which epoch is kept, and when to stop


def test_the_first_of_the_best_epochs_is_kept_as_a_copy(backbone, scripted, epochs):
    scripted([0.2, 0.9, 0.9, 0.4])
    adapted = adapt(backbone, IMAGES, LABELS, quick())
    assert adapted.record["kept"] == 2
    assert equal(adapted.state(), epochs[1])
    assert not equal(adapted.state(), epochs[2])
    assert not equal(adapted.state(), epochs[3])


@pytest.mark.parametrize(
    ("patience", "accuracies", "run", "kept"),
    [
        (2, [0.5, 0.6, 0.6, 0.55, 0.9, 0.9], 4, 2),
        (1, [0.5, 0.5, 0.9, 0.9, 0.9, 0.9], 2, 1),
        (3, [0.0, 0.0, 0.0, 0.0, 0.9, 0.9], 4, 1),
        (3, [0.5, 0.4, 0.4, 0.6, 0.5, 0.5], 6, 4),
        (1, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], 6, 6),
    ],
)
def test_training_stops_after_so_many_epochs_without_a_gain(
    backbone, scripted, epochs, patience, accuracies, run, kept
):
    scripted(accuracies)
    adapted = adapt(backbone, IMAGES[:9], LABELS[:9], quick("vpt", epochs=6, patience=patience))
    assert [epoch["accuracy"] for epoch in adapted.record["epochs"]] == accuracies[:run]
    assert adapted.record["kept"] == kept
    assert equal(adapted.state(), epochs[kept - 1])


def test_without_patience_all_images_are_trained_on_to_the_end(backbone, epochs, read):
    adapted = adapt(backbone, IMAGES, LABELS, quick(patience=None))
    assert [epoch["accuracy"] for epoch in adapted.record["epochs"]] == [None] * 4
    assert adapted.record["kept"] == 4
    assert equal(adapted.state(), epochs[-1])
    augmented, plain = read
    assert sorted(place for batch in augmented for place in batch) == sorted([*range(len(IMAGES))] * 4)
    assert len(plain) == 4  # one batch an epoch, to see that the network still gives numbers


def test_weights_that_explode_in_the_very_last_step_are_noticed(backbone, monkeypatch):
    train = Trainer.train

    def exploding(trainer, batches):
        loss = train(trainer, batches)
        for value in trainer.trained.tuned.values():
            value.data.fill_(1e38)
        return loss

    monkeypatch.setattr(Trainer, "train", exploding)
    with pytest.raises(DivergedError, match="diverged in epoch 1"):
        adapt(backbone, IMAGES, LABELS, quick(patience=None, epochs=1))


def test_held_out_images_are_never_trained_on(backbone, read):
    adapt(backbone, IMAGES, LABELS, quick(epochs=3, seed=2))
    targets = np.array([sorted(set(LABELS)).index(label) for label in LABELS])
    training, held_out = (half.tolist() for half in split(targets, 0.25, seed=2))
    augmented, plain = ([place for batch in batches for place in batch] for batches in read)
    assert sorted(augmented) == sorted(training * 3)
    assert plain == held_out * 3
    assert not set(augmented) & set(plain)


def test_accuracy_is_the_share_of_held_out_images_as_they_are_that_the_head_gets_right(backbone, monkeypatch):
    targets = np.array([sorted(set(LABELS)).index(label) for label in LABELS])
    held_out = split(targets, 0.25, seed=0)[1]
    expected = []
    measure = Trainer.measure

    def by_hand(trainer, scored):
        tuning = trainer.trained
        pixels = torch.stack([backbone.preprocess(open_image(IMAGES[place])) for place in held_out])
        scores = tuning.head(tuning.adapted(pixels).embedding)
        right = [
            answer == targets[place]
            for answer, place in zip(scores.argmax(dim=1).tolist(), held_out, strict=True)
        ]
        expected.append(sum(right) / len(right))
        listed = list(scored)
        torch.testing.assert_close(torch.cat([scores for scores, _ in listed]), scores)
        return measure(trainer, iter(listed))

    monkeypatch.setattr(Trainer, "measure", by_hand)
    adapted = adapt(backbone, IMAGES, LABELS, quick(batch_size=4))
    assert [epoch["accuracy"] for epoch in adapted.record["epochs"]] == expected
    assert max(expected) > 0


def test_every_epoch_has_another_order_and_other_augmentations(backbone, monkeypatch):
    seen = []
    train = Trainer.train

    def spy(trainer, batches):
        listed = list(batches)
        seen.append(
            (torch.cat([pixels for pixels, _ in listed]), torch.cat([target for _, target in listed]))
        )
        return train(trainer, iter(listed))

    monkeypatch.setattr(Trainer, "train", spy)
    adapt(backbone, IMAGES, LABELS, quick(epochs=2, patience=None))
    (pixels, targets), (other_pixels, other_targets) = seen
    assert not torch.equal(targets, other_targets)
    assert torch.equal(targets.sort().values, other_targets.sort().values)
    assert len({image.sum().item() for image in [*pixels, *other_pixels]}) == 2 * len(IMAGES)


def test_no_other_images_are_read(backbone, monkeypatch):
    opened = set()

    def spy(image):
        opened.add(id(image))
        return open_image(image)

    for module in (pictures, features):
        monkeypatch.setattr(module, "open_image", spy)
    adapt(backbone, IMAGES[:12], LABELS[:12], quick(epochs=2))
    assert opened == {id(image) for image in IMAGES[:12]}


# Chance


@pytest.mark.parametrize("adapter", ["adaptformer", "ssf"])  # with dropout, and random at first
def test_the_seed_alone_decides(backbone, adapter):
    torch.manual_seed(1)
    first = adapt(backbone, IMAGES, LABELS, quick(adapter))
    torch.manual_seed(2)
    np.random.seed(2)  # noqa: NPY002
    assert_same(first, adapt(tiny(), IMAGES, LABELS, quick(adapter)))
    other = adapt(backbone, IMAGES, LABELS, quick(adapter, seed=1))
    assert not equal(first.state(), other.state())


def test_the_number_of_processes_changes_nothing(backbone, tmp_path):
    files = []
    for place, image in enumerate(IMAGES):
        files.append(tmp_path / f"{place}.png")
        Image.fromarray(image).save(files[-1])
    results = [adapt(backbone, files, LABELS, quick(epochs=2), workers=workers) for workers in (0, 2)]
    assert_same(*results)
    assert_same(results[0], adapt(backbone, IMAGES, LABELS, quick(epochs=2)))


def test_nobody_elses_random_numbers_are_disturbed(backbone):
    np.random.seed(3)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    adapt(backbone, IMAGES, LABELS, quick(epochs=1))
    assert torch.equal(torch.get_rng_state(), before[0])
    np.testing.assert_array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


# Interruptions


@pytest.mark.parametrize(
    "session",
    [*(quick(adapter) for adapter in ADAPTERS), quick("vpt", optimizer="adam", head="linear", patience=None)],
    ids=lambda session: f"{session.adapter.name}-{session.optimizer}",
)
def test_an_interrupted_run_goes_on_as_if_nothing_had_been(backbone, session, interrupt, trained, tmp_path):
    whole = adapt(backbone, IMAGES, LABELS, session)
    trained.clear()
    checkpoint = tmp_path / "session"
    for epoch in (0, 2, 3):
        interrupt(epoch)
        with pytest.raises(Interrupted):
            adapt(backbone, IMAGES, LABELS, session, checkpoint=checkpoint)
    assert_same(adapt(backbone, IMAGES, LABELS, session, checkpoint=str(checkpoint)), whole)
    assert trained == [0, 0, 1, 2, 2, 3, 3]


def test_patience_and_the_best_epoch_survive_an_interruption(
    backbone, scripted, interrupt, epochs, trained, tmp_path
):
    scripted([0.9, 0.5, 0.6, 0.7, 0.8, 0.8])
    session = quick(epochs=6, patience=3)
    interrupt(2)
    with pytest.raises(Interrupted):
        adapt(backbone, IMAGES, LABELS, session, checkpoint=tmp_path / "session")
    adapted = adapt(backbone, IMAGES, LABELS, session, checkpoint=tmp_path / "session")
    assert trained == [0, 1, 2, 2, 3]
    assert adapted.record["kept"] == 1
    assert equal(adapted.state(), epochs[0])


TRAIN_UNTIL_KILLED = """
import sys, time
from tuning.test_adaptation import IMAGES, LABELS, Trainer, quick, tiny
from layup.tuning.adaptation import adapt
train = Trainer.train

def halting(trainer, batches):
    def some():
        yield next(batches)
        if len(trainer.epochs) == 2:
            print("in the third epoch", flush=True)
            time.sleep(60)
        yield from batches
    return train(trainer, some())

Trainer.train = halting
adapt(tiny(), IMAGES, LABELS, quick(), checkpoint=sys.argv[1])
"""


def test_killed_while_training_then_finished(backbone, trained, tmp_path):
    checkpoint = tmp_path / "session"
    with Quick(TRAIN_UNTIL_KILLED, checkpoint, cwd=tmp_path) as child:
        assert child.stdout.readline() == b"in the third epoch\n"
        child.kill()
        assert child.wait() == -signal.SIGKILL
    resumed = adapt(backbone, IMAGES, LABELS, quick(), checkpoint=checkpoint)
    assert trained == [2, 3]
    assert_same(resumed, adapt(backbone, IMAGES, LABELS, quick()))


def test_a_finished_session_is_not_trained_again(backbone, trained, tmp_path):
    checkpoint = tmp_path / "session"
    first = adapt(backbone, IMAGES, LABELS, quick(), checkpoint=checkpoint)
    written = checkpoint.read_bytes()
    assert_same(adapt(tiny(), IMAGES, LABELS, quick(), checkpoint=checkpoint), first)
    assert trained == [0, 1, 2, 3]
    assert checkpoint.read_bytes() == written
    assert {name.partition(".")[0] for name in storage.read(checkpoint, "first-session")[1]} == {"best"}


SWAPPED = [LABELS[1], LABELS[0], *LABELS[2:]]


@pytest.mark.slow
@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize(
    ("images", "labels", "session", "seed"),
    [
        (IMAGES, LABELS, quick(seed=1), 0),
        (IMAGES, LABELS, quick(learning_rate=0.02), 0),
        (IMAGES, LABELS, quick(AdaptFormer(width=8)), 0),
        ([*IMAGES[:-1], 255 - IMAGES[-1]], LABELS, quick(), 0),
        (IMAGES, SWAPPED, quick(), 0),
        (IMAGES, LABELS, quick(), 1),
    ],
    ids=["seed", "rate", "adapter", "images", "labels", "backbone"],
)
def test_the_checkpoint_of_another_session_is_not_used(
    backbone, images, labels, session, seed, finished, interrupt, trained, tmp_path
):
    checkpoint = tmp_path / "session"
    if finished:
        adapt(backbone, IMAGES, LABELS, quick(), checkpoint=checkpoint)
    else:
        interrupt(2)
        with pytest.raises(Interrupted):
            adapt(backbone, IMAGES, LABELS, quick(), checkpoint=checkpoint)
    trained.clear()
    other = adapt(tiny(seed), images, labels, session, checkpoint=checkpoint)
    assert trained == [0, 1, 2, 3]
    assert_same(other, adapt(tiny(seed), images, labels, session))


@pytest.mark.parametrize("damage", [lambda file: file[: len(file) // 2], lambda _: b"", lambda _: b"{}" * 99])
def test_a_file_that_is_no_checkpoint_is_not_written_over(backbone, damage, no_training, tmp_path):
    checkpoint = tmp_path / "session"
    storage.write(checkpoint, "first-session", {"key": ""}, {})
    checkpoint.write_bytes(damage(checkpoint.read_bytes()))
    before = checkpoint.read_bytes()
    with pytest.raises(DamagedFileError, match=r"not a checkpoint .*, or is damaged\. Delete it"):
        adapt(backbone, IMAGES, LABELS, quick(), checkpoint=checkpoint)
    assert checkpoint.read_bytes() == before


FORGED_CHECKPOINTS = {
    "no epochs": lambda header, arrays: header.pop("epochs"),
    "epochs that are numbers": lambda header, arrays: header.update(epochs=[1]),
    "no first epoch": lambda header, arrays: header.update(epochs=[]),
    "epochs that were not": lambda header, arrays: header.update(epochs=header["epochs"] * 9),
    "another field": lambda header, arrays: header.update(kept=1),
    "unknown group": lambda header, arrays: arrays.update({"more.x": np.zeros(2, np.float32)}),
    "no best": lambda header, arrays: [arrays.pop(name) for name in [*arrays] if name.startswith("best")],
    "other shapes": lambda header, arrays: arrays.update({n: a[:1] for n, a in arrays.items() if a.ndim}),
    "optimiser of others": lambda header, arrays: arrays.update({"optimizer.999.exp_avg": np.zeros((2, 2))}),
    "NaN": lambda header, arrays: arrays.update({name: a * np.float32(np.nan) for name, a in arrays.items()}),
    "too large for float32": lambda header, arrays: arrays.update(
        {name: np.full(a.shape, 1e300) for name, a in arrays.items() if name.startswith("best")}
    ),
}


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("forge", FORGED_CHECKPOINTS.values(), ids=FORGED_CHECKPOINTS)
def test_a_forged_checkpoint_is_refused_in_a_sentence(backbone, forge, finished, interrupt, tmp_path):
    checkpoint = tmp_path / "session"
    session = quick(epochs=2, patience=2)
    if not finished:
        interrupt(1)
    with nullcontext() if finished else pytest.raises(Interrupted):
        adapt(backbone, IMAGES, LABELS, session, checkpoint=checkpoint)
    header, arrays = storage.read(checkpoint, "first-session")
    forge(header, arrays)
    storage.write(checkpoint, "first-session", header, arrays)
    with pytest.raises(DamagedFileError, match=r"not a checkpoint .*, or is damaged\. Delete it"):
        adapt(backbone, IMAGES, LABELS, session, checkpoint=checkpoint)


@pytest.mark.parametrize(
    "forge", ["removed", "NaN", pytest.param("infinite", marks=pytest.mark.slow), "zero"]
)
def test_all_that_a_run_goes_on_from_is_looked_at(backbone, forge, interrupt, trained, tmp_path):
    checkpoint, forged = tmp_path / "session", tmp_path / "forged"
    interrupt(1)
    with pytest.raises(Interrupted):
        adapt(backbone, IMAGES, LABELS, quick(), checkpoint=checkpoint)
    header, arrays = storage.read(checkpoint, "first-session")
    assert {name.partition(".")[0] for name in arrays} == {"best", "tuned", "head", "optimizer"}
    trained.clear()
    for name, array in arrays.items():
        if forge == "zero" and not name.endswith(".step"):
            continue  # a zero is as good as any other number there
        changed = {other: arrays[other] for other in arrays if other != name}
        if forge != "removed":
            changed[name] = np.full_like(array, {"NaN": np.nan, "infinite": np.inf, "zero": 0.0}[forge])
        storage.write(forged, "first-session", header, changed)
        with pytest.raises(DamagedFileError, match=r"not a checkpoint .*, or is damaged\. Delete it"):
            adapt(backbone, IMAGES, LABELS, quick(), checkpoint=forged)
    assert trained == []


def test_what_could_not_be_resumed_is_not_kept(backbone, monkeypatch, tmp_path):
    # Of gradients so large the squares overflow: what is tuned stays finite, what is remembered does not.
    loss = adaptation.functional.cross_entropy
    monkeypatch.setattr(adaptation.functional, "cross_entropy", lambda *given: loss(*given) * 1e25)
    with pytest.raises(DivergedError):
        adapt(backbone, IMAGES, LABELS, quick(), checkpoint=tmp_path / "session")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_diverged_leaves_no_checkpoint(backbone, tmp_path):
    with pytest.raises(DivergedError):
        adapt(backbone, IMAGES, LABELS, quick(learning_rate=1e30), checkpoint=tmp_path / "session")
    assert list(tmp_path.iterdir()) == []


def test_copies_of_what_is_trained_on_are_not_held_out(backbone, read):
    adapt(backbone, IMAGES + IMAGES[:9], LABELS + LABELS[:9], quick(epochs=1))
    augmented, plain = ({place % len(IMAGES) for batch in batches for place in batch} for batches in read)
    assert 0 < len(plain) < 8  # of 32 images a quarter
    assert not augmented & plain
    with pytest.raises(InputError, match="copies of others"):
        adapt(backbone, [IMAGES[0]] * 4 + [IMAGES[1]] * 4, ["a"] * 4 + ["b"] * 4, quick())


@pytest.mark.parametrize("workers", [0, 1])
def test_an_image_that_disappears_meanwhile_is_a_sentence(backbone, workers, tmp_path, monkeypatch):
    files = []
    for i, image in enumerate(IMAGES):
        files.append(tmp_path / f"{i}.png")
        Image.fromarray(image).save(files[-1])
    note = Trainer.note

    def deleting(trainer, epoch):
        note(trainer, epoch)
        for file in files:
            file.unlink(missing_ok=True)

    monkeypatch.setattr(Trainer, "note", deleting)
    with pytest.raises(LayupError, match="An image changed while") as error:
        adapt(backbone, files, LABELS, quick(), workers=workers)
    assert "Traceback" not in str(error.value)


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_callers_without_gradients_get_the_same(backbone, mode):
    expected = adapt(backbone, IMAGES, LABELS, quick())
    with mode():
        assert_same(adapt(backbone, IMAGES, LABELS, quick()), expected)


def test_a_model_is_not_taken_for_a_checkpoint(backbone, no_training, tmp_path):
    path = tmp_path / "m.layup"
    storage.write(path, "model", {"classes": ["years", "of", "learning"]}, {})
    before = path.read_bytes()
    with pytest.raises(StorageError, match="kind 'model'"):
        adapt(backbone, IMAGES, LABELS, quick(), checkpoint=path)
    assert path.read_bytes() == before


# Divergence


@pytest.mark.parametrize("adapter", ["adaptformer", "full"])
def test_divergence_ends_it_at_once_and_the_backbone_is_as_it_was(adapter, read):
    backbone = tiny()
    before = {name: value.clone() for name, value in backbone.network.state_dict().items()}
    with pytest.raises(DivergedError, match=r"diverged in epoch 1.*unchanged.*below 1e\+30"):
        adapt(backbone, IMAGES, LABELS, quick(adapter, learning_rate=1e30, batch_size=4))
    assert [len(batch) for batch in read[0]] == [4, 4]  # the second shows what the first has done
    assert equal(backbone.network.state_dict(), before)
    assert not any(value.requires_grad for value in backbone.network.parameters())


def test_a_model_whose_first_session_diverged_has_learned_nothing(backbone):
    model = LayUP(backbone, lam=1.0, adapter=quick(learning_rate=1e30), cache=False)
    with pytest.raises(DivergedError):
        model.learn(IMAGES, LABELS)
    assert (model.counts_, model.log, model.network.adapted) == ({}, [], False)


@pytest.mark.parametrize("patience", [4, None])
def test_the_very_last_step_is_watched_too(backbone, patience, monkeypatch):
    rates = [0.01, math.nan]
    monkeypatch.setattr(adaptation, "annealed", lambda _rate, epoch, _epochs: rates[epoch])
    with pytest.raises(DivergedError, match="epoch 2"):
        adapt(backbone, IMAGES, LABELS, quick(epochs=2, batch_size=99, patience=patience))


def test_weights_that_are_numbers_but_give_none_are_noticed_on_held_out_images(backbone):
    with pytest.raises(DivergedError, match="epoch 1"):
        adapt(backbone, IMAGES, LABELS, quick(epochs=1, batch_size=99, learning_rate=1e30))


# Batches that cannot be learned


@pytest.mark.parametrize("patience", [4, None])
def test_one_class_alone_is_refused(backbone, patience, no_training):
    with pytest.raises(InputError, match=r"a single class.*'digit 3'.*at least two"):
        adapt(backbone, digits(3, 4), ["digit 3"] * 4, quick(patience=patience))


def test_no_images_are_refused(backbone, no_training):
    with pytest.raises(InputError, match="cannot be adapted to no images"):
        adapt(backbone, [], [], quick())
    with pytest.raises(BadImageError, match=r"no-such\.jpg"):
        adapt(backbone, ["no-such.jpg", "nor-this.jpg"], ["a", "b"], quick())


def test_as_many_labels_as_images(backbone, no_training):
    with pytest.raises(InputError, match="There are 23 images but 5 labels"):
        adapt(backbone, IMAGES, LABELS[:5], quick())


def test_classes_of_one_image_each_need_a_session_without_patience(backbone):
    images, labels = coloured({0: 1, 1: 1, 2: 1})
    with pytest.raises(InputError, match="one image each"):
        adapt(backbone, images, labels, FirstSession("vpt"))
    adapted = adapt(backbone, images, labels, quick("vpt", patience=None, epochs=2))
    assert adapted.record["kept"] == 2


@pytest.fixture
def half_broken(tmp_path):
    """The images of the tests as files, and three more that cannot be used, with their labels."""
    files, labels = [], []
    for place, (image, label) in enumerate(zip(IMAGES, LABELS, strict=True)):
        if place in (0, 7):
            files.append(tmp_path / f"broken {place}.png")
            files[-1].write_bytes(b"\x89PNG, or so it says")
            labels.append("broken")
        files.append(tmp_path / f"{place}.png")
        Image.fromarray(image).save(files[-1])
        labels.append(label)
    return [*files, tmp_path / "gone.png"], [*labels, LABELS[0]]


def test_bad_files_are_left_out(backbone, half_broken):
    assert_same(
        adapt(backbone, *half_broken, quick(epochs=2)), adapt(backbone, IMAGES, LABELS, quick(epochs=2))
    )


def test_the_first_bad_file_ends_a_strict_session_before_any_training(backbone, half_broken, no_training):
    with pytest.raises(BadImageError, match=r"broken 0\.png.*not an image"):
        adapt(backbone, *half_broken, quick(), strict=True)


# Heads


def test_the_cosine_head_scores_30_times_the_cosine():
    torch.manual_seed(0)
    head = CosineHead(32, 5)
    embedding = torch.randn(7, 32) * torch.logspace(-3, 3, 7)[:, None]
    rows, directions = embedding.double().numpy(), head.weight.detach().double().numpy()
    expected = np.array(
        [[30 * r @ w / np.linalg.norm(r) / np.linalg.norm(w) for w in directions] for r in rows]
    )
    scores = head(embedding).detach().numpy()
    np.testing.assert_allclose(scores, expected, atol=1e-4)
    along = head(head.weight).detach().diagonal()
    np.testing.assert_allclose(along, COSINE_SCALE, rtol=1e-5)
    np.testing.assert_allclose(head(-head.weight).detach().diagonal(), -30, rtol=1e-5)
    assert head.weight.abs().max() <= 1 / math.sqrt(32)
    assert [name for name, _ in head.named_parameters()] == ["weight"]


def test_a_learned_scale_begins_at_one_and_is_trained(backbone):
    head = HEADS["learned cosine"](32, 5)
    assert {name for name, _ in head.named_parameters()} == {"weight", "scale"}
    embedding = torch.randn(7, 32)
    with torch.no_grad():
        torch.testing.assert_close(30 * head(embedding), _fixed(head)(embedding))
    session = quick("vpt", preset="ranpac", epochs=4, learning_rate=0.1)
    data = adaptation._TaskData(IMAGES, LABELS, survey(IMAGES), session)
    tuning = adaptation._Tuning(session.attach(backbone), session, data)
    tuning.trainer().run("Adapting", progress=False)
    assert abs(tuning.head.scale.item() - 1) > 0.01


def _fixed(head):
    fixed = CosineHead(32, 5)
    fixed.load_state_dict({"weight": head.weight})
    return fixed


@pytest.mark.parametrize(
    ("head", "kind"), [("cosine", CosineHead), ("learned cosine", CosineHead), ("linear", nn.Linear)]
)
def test_the_session_says_which_head(backbone, head, kind):
    session = quick("vpt", head=head)
    given = adaptation._TaskData(IMAGES, LABELS, survey(IMAGES), session)
    tuning = adaptation._Tuning(session.attach(backbone), session, given)
    assert type(tuning.head) is kind
    assert tuning.head(torch.ones(2, 32)).shape == (2, 3)


# What others see of it


def test_the_record_says_how_it_went_in_plain_values(backbone):
    session = FirstSession("auto", "paper", epochs=2, learning_rate=0.01)
    adapted = adapt(backbone, IMAGES, LABELS, session)
    assert json.loads(json.dumps(adapted.record)) == adapted.record
    assert set(adapted.record) == {"session", "epochs", "kept"}
    resolved = FirstSession(AdaptFormer(width=16), "paper", epochs=2, learning_rate=0.01)
    assert FirstSession.from_dict(adapted.record["session"]) == resolved


def test_a_bar_shows_loss_and_held_out_accuracy(backbone, scripted, capsys, monkeypatch):
    scripted([0.125, 0.5])
    monkeypatch.setattr(progress, "screen", Console(stderr=True, force_terminal=True, width=120))
    adapted = adapt(backbone, IMAGES, LABELS, quick(epochs=2), progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Adapting" in err
    assert "8/8" in err
    assert f"epoch 2 · loss {losses(adapted)[-1]:.3f} · held-out 0.500" in err
    adapt(backbone, IMAGES, LABELS, quick(epochs=2, patience=None), progress=True)
    err = capsys.readouterr().err
    assert "loss" in err
    assert "held-out" not in err
    adapt(backbone, IMAGES, LABELS, quick(epochs=2), progress=False)
    assert capsys.readouterr() == ("", "")


def test_all_images_are_learned_those_held_out_too(backbone):
    model = LayUP(backbone, lam=1.0, adapter=FirstSession("vpt", epochs=1), cache=False)
    model.learn(IMAGES, LABELS)
    assert model.network.adapted
    assert model.counts_ == {"digit 0": 8, "digit 1": 8, "digit 2": 7}
    model.learn(*coloured({1: 2, 3: 2, 5: 2}, start=20))
    assert model.counts_ == {"digit 0": 8, "digit 1": 10, "digit 2": 7, "digit 3": 2, "digit 5": 2}


# The survey before


@pytest.mark.parametrize("workers", [0, 2])
def test_a_survey_says_what_can_be_used_and_why_not(half_broken, workers):
    files, _ = half_broken
    found = survey(files, workers)
    assert [bad.index for bad in found.bad] == [0, 8, len(files) - 1]
    assert found.kept == [place for place in range(len(files)) if place not in (0, 8, len(files) - 1)]
    assert found.digests == [image_digest(files[place]) for place in found.kept]
    for bad, reason in zip(found.bad, ["not an image", "not an image", "no such file"], strict=True):
        assert str(files[bad.index]) in bad.reason
        assert reason in bad.reason


def test_a_survey_takes_arrays_and_reads_them_whole(tmp_path):
    path = tmp_path / "half.png"
    Image.fromarray(crops(1)[0]).save(path)
    path.write_bytes(path.read_bytes()[:-500])
    found = survey([path, *digits(4, 2), np.zeros((2, 2, 7), np.uint8)])
    assert found.kept == [1, 2]
    assert found.digests == [image_digest(image) for image in digits(4, 2)]
    assert [bad.index for bad in found.bad] == [0, 3]
    assert survey([]).kept == []
