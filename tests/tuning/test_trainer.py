"""The trainer, on the smallest thing that can be trained."""

from __future__ import annotations

import math
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from layup import storage
from layup.errors import DamagedFileError, DivergedError, StorageError
from layup.seeds import seed_of
from layup.tuning.trainer import (
    Checkpoint,
    Epoch,
    Recipe,
    Trainable,
    Trainer,
    all_finite,
    as_arrays,
    as_tensors,
    split_off,
)

CPU = torch.device("cpu")


class Interrupted(Exception):
    pass


class Line(Trainable):
    """A slope and an offset, fitted to points with noise from dropout."""

    device, steps = CPU, 3

    def __init__(self, stop=None, accuracies=()):
        self.slope, self.offset = nn.Parameter(torch.tensor(2.0)), nn.Parameter(torch.tensor(-1.0))
        self.stop, self.taken = stop, []
        self.accuracies = accuracies  # of each epoch, of four samples
        self.epoch = 0
        self.noise, self.kept, self.states = [], None, []

    def groups(self):
        return [(0.1, [self.slope]), (1.0, [self.offset])]

    def batches(self, epoch):
        self.epoch = epoch
        points = torch.linspace(-1, 1, 5) + epoch
        yield from ((part, 3 * part + 1) for part in points.split(2))

    def loss(self, inputs, targets):
        if len(self.taken) == self.stop:
            raise Interrupted
        self.noise.append(torch.rand(()).item())
        self.taken.append(self.epoch)
        error = self.slope * inputs + self.offset - targets
        return ((error * (0.5 + self.noise[-1])) ** 2).mean()

    @contextmanager
    def learning(self):
        self.states.append("learning")
        try:
            yield
        finally:
            self.states.append("resting")

    def held_out(self):
        if self.accuracies:
            right = round(4 * self.accuracies[self.epoch])
            yield torch.eye(2)[[1] * right + [0] * (4 - right)], torch.ones(4, dtype=torch.int64)

    def keep(self):
        self.kept = {name: value.detach().clone() for name, value in self.values().items()}

    def values(self):
        return {"slope": self.slope, "offset": self.offset}

    def tensors(self, finished):
        last = {} if finished else self.values()
        return {**{f"kept.{name}": value for name, value in self.kept.items()}, **last}

    def load(self, tensors, finished):
        tensors = dict(tensors)
        self.kept = split_off("kept.", tensors)
        with torch.no_grad():
            for name, value in self.values().items():
                value.copy_(self.kept[name] if finished else tensors.pop(name))
        if tensors:
            raise ValueError(f"nobody knows {sorted(tensors)}")

    def diverged(self, what, epoch):
        return DivergedError(f"{what} not finite in epoch {epoch}")


def recipe(**changes):
    values = {"optimizer": "adam", "epochs": 4, "rate": lambda epoch: 0.1 / (epoch + 1), "seeds": (7, 1)}
    return Recipe(**{**values, **changes})


def trained(line=None, checkpoint=None, *, scaled=False, **changes):
    trainer = Trainer(line or Line(), recipe(**changes), scaled=scaled)
    trainer.run("Fitting", progress=False, checkpoint=checkpoint)
    return trainer


@pytest.fixture
def checkpoint(tmp_path):
    return Checkpoint(tmp_path / "line", "line", "0123456789abcdef", "a line", "Draw another.")


def state(trainer):
    return {name: value.item() for name, value in trainer.trained.values().items()}


# Steps


@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_training_equals_a_plain_loop(kind, clip):
    line = Line()
    groups = [{"params": [line.slope], "share": 0.1}, {"params": [line.offset], "share": 1.0}]
    kinds = {
        "sgd": lambda: torch.optim.SGD(groups, lr=1.0, momentum=0.9, weight_decay=0.01),
        "adam": lambda: torch.optim.Adam(groups, weight_decay=0.01),
        "adamw": lambda: torch.optim.AdamW(groups, weight_decay=0.01),
    }
    optimizer = kinds[kind]()
    means = []
    for epoch in range(4):
        for group in optimizer.param_groups:
            group["lr"] = group["share"] * 0.1 / (epoch + 1)
        torch.manual_seed(seed_of(7, 1, epoch, "dropout"))
        total = 0.0
        for inputs, targets in line.batches(epoch):
            loss = line.loss(inputs, targets)
            optimizer.zero_grad()
            loss.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_([line.slope, line.offset], clip)
            optimizer.step()
            total += loss.item() * len(inputs)
        means.append(total / 5)
    trainer = trained(optimizer=kind, clip=clip, weight_decay=0.01)
    assert [epoch.loss for epoch in trainer.epochs] == means
    assert state(trainer) == {"slope": line.slope.item(), "offset": line.offset.item()}
    assert trainer.trained.noise == line.noise
    assert trainer.trained.slope.grad is None


def test_nobody_elses_random_numbers_are_disturbed():
    before = torch.get_rng_state()
    trained()
    assert torch.equal(torch.get_rng_state(), before)


def test_it_learns_in_an_epoch_and_rests_after_it_whatever_happens():
    assert trained(epochs=2).trained.states == ["learning", "resting"] * 2
    line = Line(stop=4)
    with pytest.raises(Interrupted):
        trained(line)
    assert line.states == ["learning", "resting"] * 2


@pytest.mark.parametrize("clip", [None, 0.5])
def test_gradients_that_are_scaled_up_make_the_same_steps(clip):
    scaled, plain = trained(scaled=True, clip=clip), trained(clip=clip)
    assert (state(scaled), scaled.epochs) == (state(plain), plain.epochs)  # by a power of two
    assert scaled.scaler.get_scale() > 1


def test_an_optimizer_that_has_made_steps_goes_on():
    line = Line()
    first = trained(line, epochs=1)
    second = Trainer(line, recipe(epochs=1), optimizer=first.optimizer)
    second.run("Fitting", progress=False)
    assert second.optimizer is first.optimizer
    assert second.optimizer.state[line.slope]["step"] == 6


# Which epoch is kept, and when to stop


@pytest.mark.parametrize(
    ("patience", "accuracies", "done", "kept"),
    [
        (2, [0.5, 0.75, 0.75, 0.5, 1.0], 4, 2),
        (1, [0.0, 0.0, 1.0, 1.0, 1.0], 2, 1),
        (9, [0.25, 0.5, 0.75, 1.0, 1.0], 5, 4),
        (None, [0.5, 0.75, 0.75, 0.5, 1.0], 5, 5),
    ],
)
def test_patience(patience, accuracies, done, kept):
    trainer = trained(Line(accuracies=accuracies), epochs=5, patience=patience)
    measured = accuracies[:done] if patience else [None] * done
    assert [epoch.accuracy for epoch in trainer.epochs] == measured
    assert trainer.kept == kept
    assert trainer.trained.kept == trained(epochs=kept, rate=trainer.recipe.rate).trained.kept


def test_the_summary_tells_the_last_epoch():
    trainer = Trainer(Line(), recipe())
    assert trainer.summary() == ""
    trainer.epochs = [Epoch(9.0), Epoch(0.25, 0.5)]
    assert trainer.summary() == "epoch 2 · loss 0.250 · held-out 0.500"
    trainer.epochs = [Epoch(9.0)]
    assert trainer.summary() == "epoch 1 · loss 9.000"


# Divergence


def test_a_loss_that_is_not_finite_ends_it(checkpoint):
    with pytest.raises(DivergedError, match=r"^the loss is not finite in epoch 2$"):
        trained(checkpoint=checkpoint, rate=lambda epoch: [0.1, 1e38, 0.1][epoch])
    assert not checkpoint.path.exists()


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_weights_that_are_not_finite_after_the_last_step_end_it(wrong):
    class OneStep(Line):
        def batches(self, epoch):
            yield torch.ones(1), torch.ones(1)

    with pytest.raises(DivergedError, match=r"^the weights are not finite in epoch 1$"):
        trained(OneStep(), epochs=1, rate=lambda epoch: wrong, optimizer="sgd")


def test_what_the_optimizer_remembers_must_be_finite_too():
    class Steep(Line):
        def loss(self, inputs, targets):
            return super().loss(inputs, targets) * 1e25

    line = Steep()
    with pytest.raises(DivergedError, match=r"^the weights are not finite in epoch 1$"):
        trained(line)
    assert all_finite(line.values().values())  # of so large gradients the squares alone overflow


def test_scores_that_are_not_finite_end_it():
    class Blind(Line):
        def held_out(self):
            yield torch.tensor([[1.0, math.nan]]), torch.tensor([0])

    with pytest.raises(DivergedError, match=r"^the scores are not finite in epoch 1$"):
        trained(Blind())


# Checkpoints


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("accuracies", [(), [0.75, 0.5, 0.25, 0.5]])
def test_an_interrupted_training_goes_on_as_if_nothing_had_been(kind, accuracies, checkpoint):
    changes = {"optimizer": kind, "patience": 4 if accuracies else None}
    whole = trained(Line(accuracies=accuracies), **changes)
    for stop in (4, 4, 3):  # in the second epoch, in the third, and in the last one
        with pytest.raises(Interrupted):
            trained(Line(stop, accuracies), checkpoint, **changes)
    last = Line(accuracies=accuracies)
    trainer = trained(last, checkpoint, **changes)
    assert last.taken == [3, 3, 3]
    assert (trainer.epochs, trainer.kept, state(trainer)) == (whole.epochs, whole.kept, state(whole))
    assert last.kept == whole.trained.kept


def test_the_scale_of_gradients_survives_an_interruption(checkpoint):
    class Steep(Line):
        def loss(self, inputs, targets):
            return (
                super().loss(inputs, targets) * 1e36
            )  # times the scale it is infinite, until that is halved

    whole = trained(Steep(), scaled=True, optimizer="sgd", rate=lambda epoch: 1e-38)
    assert whole.scaler.get_scale() < 65536
    with pytest.raises(Interrupted):
        trained(Steep(7), checkpoint, scaled=True, optimizer="sgd", rate=lambda epoch: 1e-38)
    line = Steep()
    again = trained(line, checkpoint, scaled=True, optimizer="sgd", rate=lambda epoch: 1e-38)
    assert line.taken == [2, 2, 2, 3, 3, 3]
    assert (state(again), again.scaler.state_dict()) == (state(whole), whole.scaler.state_dict())


def test_a_finished_training_is_not_repeated_and_holds_its_result_alone(checkpoint):
    whole = trained(checkpoint=checkpoint)
    written = checkpoint.path.read_bytes()
    _, arrays = storage.read(checkpoint.path, "line")
    assert sorted(arrays) == ["kept.offset", "kept.slope"]
    line = Line()
    trainer = trained(line, checkpoint)
    assert (line.taken, trainer.epochs, state(trainer)) == ([], whole.epochs, state(whole))
    assert checkpoint.path.read_bytes() == written


def test_what_another_training_has_left_is_not_used(checkpoint):
    with pytest.raises(Interrupted):
        trained(Line(5), checkpoint)
    other = Checkpoint(checkpoint.path, "line", "fedcba9876543210", "a line", "")
    line = Line()
    assert state(trained(line, other)) == state(trained())
    assert line.taken == sorted([*range(4)] * 3)


def test_a_file_of_another_kind_is_not_written_over(checkpoint):
    storage.write(checkpoint.path, "model", {}, {})
    before = checkpoint.path.read_bytes()
    with pytest.raises(StorageError, match="kind 'model'"):
        trained(checkpoint=checkpoint)
    assert checkpoint.path.read_bytes() == before


FORGED = {
    "no epochs": lambda header, arrays: header.pop("epochs"),
    "not one epoch": lambda header, arrays: header.update(epochs=[]),
    "more epochs": lambda header, arrays: header.update(epochs=header["epochs"] * 9),
    "a loss that is none": lambda header, arrays: header.update(epochs=[{"loss": "low", "accuracy": None}]),
    "no weights": lambda header, arrays: arrays.pop("slope"),
    "more weights": lambda header, arrays: arrays.update(bend=arrays["slope"]),
    "NaN": lambda header, arrays: arrays.update(slope=arrays["slope"] * math.nan),
    "no memory": lambda header, arrays: arrays.pop("optimizer.0.exp_avg"),
    "an infinite memory": lambda header, arrays: arrays.update(
        {"optimizer.0.exp_avg": arrays["slope"] * math.inf}
    ),
    "finished and yet not": lambda header, arrays: header.update(epochs=header["epochs"] * 4),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED)
def test_a_forged_checkpoint_is_refused_in_a_sentence(forge, checkpoint):
    with pytest.raises(Interrupted):
        trained(Line(4), checkpoint)
    header, arrays = storage.read(checkpoint.path, "line")
    forge(header, arrays)
    storage.write(checkpoint.path, "line", header, arrays)
    line = Line()
    says = r"^'.*line' is not a checkpoint of a line, or is damaged\. Draw another\.$"
    with pytest.raises(DamagedFileError, match=says):
        trained(line, checkpoint)
    assert line.taken == []


def test_tensors_are_themselves_again_after_a_file():
    tensors = {"a": torch.arange(3.0, requires_grad=True), "b": torch.tensor(2)}
    again = as_tensors(as_arrays(tensors))
    assert list(again) == ["a", "b"]
    assert all(torch.equal(again[name], tensors[name]) for name in tensors)
