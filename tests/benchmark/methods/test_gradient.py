"""Methods that train: what all of them obey, and the plain ones against plain loops."""

from __future__ import annotations

import gc
import math
import random
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from torch import nn

from layup import Backbone, FirstSession, progress, storage
from layup.backbones import Passes, Preprocessing
from layup.benchmark.datasets import Dataset, Part
from layup.benchmark.experiment import Experiment, run_tasks
from layup.benchmark.methods.gradient import _Task, own_classes_loss
from layup.benchmark.methods.head import GrowingHead
from layup.benchmark.methods.joint import JointMethod
from layup.benchmark.methods.joint_probe import JointProbeMethod
from layup.benchmark.methods.sequential import SequentialMethod
from layup.benchmark.scenarios import class_incremental, domain_incremental, online
from layup.errors import (
    BadImageError,
    DamagedFileError,
    DivergedError,
    InputError,
    MismatchError,
    StorageError,
)
from layup.seeds import seed_of
from layup.tuning.optimizers import optimizer_state
from layup.tuning.trainer import Trainer
from learners import (
    BACK,
    FIRST,
    QUICK,
    SECOND,
    TEST,
    assert_fine_tuned,
    equal,
    kept,
    learned,
    new_rows,
    pixels_of,
    plain_fine_tuning,
    scored,
    setup_of,
    small,
    tinted,
    tiny,
)

OFTEN = ("sequential", "slca", "l2p")
every_method = pytest.mark.parametrize(
    "method",
    [
        pytest.param(method, id=name, marks=() if name in OFTEN else pytest.mark.slow)
        for name, method in QUICK.items()
    ],
)
PROMPTS = ("l2p", "dualprompt", "coda-prompt")
FINE_TUNED = ("sequential", "joint", "slca")


class Interrupted(Exception):
    pass


@pytest.fixture
def steps(monkeypatch):
    """The losses of all steps so far, and which one of them is never taken."""
    taken = []
    take = Trainer.step

    def spy(trainer, *batch):
        if not isinstance(trainer.trained, _Task):  # what comes after the epochs of a task
            return take(trainer, *batch)
        if len(taken) == spied.stop:
            raise Interrupted
        taken.append(take(trainer, *batch))
        return taken[-1]

    class Spied:
        stop = None
        losses = taken

    spied = Spied()
    monkeypatch.setattr(Trainer, "step", spy)
    return spied


# The head


def test_a_head_grows_and_what_it_has_stays_as_it_is():
    torch.manual_seed(0)
    head = GrowingHead(5)
    assert (head.classes, head.values().shape) == ([], (0, 6))
    head.grow(["b", "a"])
    before = head.values()
    head.grow(["a", "c", "b"])
    assert head.classes == ["b", "a", "c"]
    assert torch.equal(head.values()[:2], before)
    assert head.values().abs().max() <= 1 / math.sqrt(5)
    assert len(set(head.values().flatten().tolist())) == 18


def test_a_head_scores_each_class_by_its_own_row():
    torch.manual_seed(0)
    head = GrowingHead(4)
    head.grow("abc")
    embedding = torch.randn(3, 4)
    values = head.values().numpy()
    every = np.array([[row[:-1] @ e + row[-1] for row in values] for e in embedding.numpy()])
    np.testing.assert_allclose(head(embedding).detach(), every, atol=1e-6)
    np.testing.assert_allclose(head(embedding, ["c", "a"]).detach(), every[:, [2, 0]], atol=1e-6)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam])
def test_only_the_rows_that_are_trained_move_whatever_momentum_and_decay_do(kind):
    torch.manual_seed(0)
    head = GrowingHead(4)
    head.grow("abc")
    options = {"momentum": 0.9} if kind is torch.optim.SGD else {}
    before = head.values()
    for trained in (["a", "b"], ["c"]):
        optimizer = kind(head.rows(trained), lr=0.1, weight_decay=0.1, **options)
        for _ in range(3):
            optimizer.zero_grad()
            (head(torch.ones(2, 4)) ** 2).sum().backward()  # all classes have a part in it
            optimizer.step()
        moved = (head.values() != before).any(dim=1).tolist()
        assert moved == [name in trained for name in "abc"]
        before = head.values()


def test_copies_of_a_head_and_of_its_values_are_their_own():
    head = GrowingHead(4)
    head.grow("ab")
    values = head.values()
    other, taken = head.copy(), GrowingHead(4)
    taken.take(["a", "b"], values)
    before = values.clone()
    with torch.no_grad():
        for row in head.rows("ab"):
            row.add_(1)
    for same in (values, other.values(), taken.values()):
        assert torch.equal(same, before)
    with torch.no_grad():
        values.zero_()
        other.rows("a")[0].zero_()
    assert torch.equal(taken.values(), before)
    assert torch.equal(head.values(), before + 1)
    assert all(row.requires_grad and row.is_leaf for each in (other, taken) for row in each.rows("ab"))


def test_the_loss_over_own_classes_is_that_over_all_with_the_others_at_minus_infinity():
    torch.manual_seed(0)
    head = GrowingHead(4)
    head.grow(["d", "b", "c", "a"])
    embedding = torch.randn(5, 4)
    targets = torch.tensor([1, 3, 3, 1, 1])
    scores = head(embedding).detach().clone()
    scores[:, [0, 2]] = -math.inf
    expected = nn.functional.cross_entropy(scores, targets)
    loss = own_classes_loss(head, embedding, targets, ["a", "b"])  # in another order than the head's
    assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
    loss.backward()
    assert [row.grad is None for row in head.rows("dbca")] == [True, False, True, False]


def test_a_margin_is_taken_from_the_score_of_the_right_class_before_the_scale():
    torch.manual_seed(0)
    head = GrowingHead(4, cosine=True)
    head.grow("abc")
    embedding, targets = torch.randn(3, 4), [2, 0, 2]
    total = 0.0
    for scores, target in zip(head(embedding, "ac").tolist(), targets, strict=True):
        right = {0: 0, 2: 1}[target]
        powers = [math.exp(20 * (score - 0.3 * (i == right))) for i, score in enumerate(scores)]
        total -= math.log(powers[right] / sum(powers))
    loss = own_classes_loss(head, embedding, torch.tensor(targets), ["a", "c"], scale=20, margin=0.3)
    assert loss.item() == pytest.approx(total / 3, rel=1e-4)


# Seeds


@every_method
def test_the_same_seed_gives_the_same_bits_and_another_one_others(method, setup):
    tasks = (FIRST, SECOND)
    learner = learned(method, setup, *tasks)
    torch.manual_seed(99)  # whatever was drawn before
    assert equal(kept(learned(method, setup, *tasks)), kept(learner))
    other = kept(learned(method, replace(setup, seed=1), *tasks))
    for name, value in kept(learner).items():
        assert not torch.equal(value, other[name]), name


@every_method
def test_other_code_that_draws_random_numbers_is_not_disturbed(method, setup):
    torch.manual_seed(5), np.random.seed(5), random.seed(5)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    learned(method, setup, FIRST)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.array_equal(np.random.get_state()[1], before[1])  # noqa: NPY002
    assert random.getstate() == before[2]


@pytest.mark.parametrize("name", ["slca", "joint-probe", "coda-prompt"])
def test_how_many_processes_decode_images_changes_nothing(name, setup, tmp_path):
    tasks = []
    for number, (images, labels) in enumerate((FIRST, SECOND)):
        files = [tmp_path / f"{number}-{index}.png" for index in range(len(images))]
        for file, image in zip(files, images, strict=True):
            Image.fromarray(image).save(file)
        tasks.append((files, labels))
    found = [
        kept(learned(QUICK[name], replace(setup, reading={"cache": False, "workers": workers}), *tasks))
        for workers in (0, 1)
    ]
    assert equal(*found)


@every_method
def test_callers_without_gradients_get_the_same(method, setup):
    learner = method.begin(setup)
    with torch.inference_mode():
        learner.learn(*FIRST)
        predictions = learner.predict(TEST)
    expected = learned(method, setup, FIRST)
    assert equal(kept(learner), kept(expected))
    assert predictions == expected.predict(TEST)


# Files


@every_method
def test_a_learner_goes_on_where_it_was_saved(method, setup, tmp_path):
    path = tmp_path / "l.layup"
    straight = learned(method, setup, FIRST)
    straight.save(path)
    for each in (SECOND, BACK):
        resumed = method.resume(setup, path)
        assert equal(kept(resumed), kept(straight))
        assert resumed.reports() == straight.reports()
        assert resumed.predict(TEST) == straight.predict(TEST)
        for learner in (resumed, straight):
            learner.learn(*each)
        assert equal(kept(resumed), kept(straight))
        assert resumed.predict(TEST) == straight.predict(TEST)
        assert (resumed.tasks, resumed.losses) == (straight.tasks, straight.losses)
        straight.save(path)


@every_method
def test_predictioning_changes_nothing(method, setup, tmp_path):
    learner = learned(method, setup, FIRST, SECOND)
    learner.save(tmp_path / "before")
    learner.predict(TEST)
    learner.reports()
    learner.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


@every_method
def test_a_learner_of_something_else_cannot_be_resumed(method, setup, tmp_path):
    path = tmp_path / "l.layup"
    learned(method, setup, FIRST).save(path)
    others = {
        "options": (replace(method, epochs=3), setup),
        "seed": (method, replace(setup, seed=1)),
        "setting": (method, replace(setup, setting="dil")),
        "backbone": (method, replace(setup, backbone=tiny(1))),
        "method": (QUICK["l2p" if method.name == "slca" else "slca"], setup),
    }
    for name, (other, elsewhere) in others.items():
        with pytest.raises(MismatchError, match=rf"holds a learner with {name} .*, and not "):
            other.resume(elsewhere, path)


def test_a_batch_begun_is_no_learner(setup, steps, tmp_path):
    method, scratch = QUICK["l2p"], tmp_path / "task"
    steps.stop = 3
    with pytest.raises(Interrupted):
        learned(method, replace(setup, scratch=scratch), FIRST)
    with pytest.raises(StorageError, match="is a file of kind 'task', not 'learner'"):
        method.resume(setup, scratch)


@every_method
def test_reports_tell_the_losses_and_the_size_of_all_that_is_kept(method, setup, tmp_path):
    learner = learned(method, setup, FIRST, SECOND)
    report = learner.reports()[""]
    assert report.state_bytes == sum(4 * value.numel() for value in kept(learner).values())
    assert len(report.chosen["losses"]) == 2
    before = [*report.chosen["losses"]]
    learner.learn(*BACK)
    assert report.chosen["losses"] == before  # a report stays as it was


# Interruptions


@pytest.mark.parametrize(("name", "stop"), [*((name, 3) for name in QUICK), ("slca", 1)])
def test_an_interrupted_batch_goes_on_as_if_nothing_had_been(name, stop, setup, steps, tmp_path):
    method = QUICK[name]
    saved, scratch = tmp_path / "l.layup", tmp_path / "task.layup"
    straight = learned(method, setup, FIRST)
    straight.save(saved)
    straight.learn(*SECOND)
    expected = steps.losses[4:]
    assert len(expected) == 4

    steps.losses.clear()
    steps.stop = stop
    setup = replace(setup, scratch=scratch)
    with pytest.raises(Interrupted):
        method.resume(setup, saved).learn(*SECOND)
    assert scratch.exists() == (stop > 2)
    steps.stop = None
    resumed = method.resume(setup, saved)
    resumed.learn(*SECOND)
    again = 0 if stop < 2 else 2
    assert steps.losses == expected[:stop] + expected[again:]
    assert equal(kept(resumed), kept(straight))
    assert resumed.losses == straight.losses
    assert resumed.predict(TEST) == straight.predict(TEST)
    assert scratch.exists()  # until what was learned is in a file
    resumed.save(saved)
    assert not scratch.exists()


@every_method
def test_a_batch_interrupted_after_its_last_epoch_is_finished_without_training(
    method, setup, steps, tmp_path, monkeypatch
):
    setup = replace(setup, scratch=tmp_path / "task")
    expected = kept(learned(method, setup, FIRST))
    with monkeypatch.context() as patched:

        def interrupted(*_):
            raise Interrupted

        patched.setattr(method.learner, "finish", interrupted)
        with pytest.raises(Interrupted):
            learned(method, setup, FIRST)
    steps.losses.clear()
    assert equal(kept(learned(method, setup, FIRST)), expected)
    assert steps.losses == []


@pytest.mark.parametrize("name", ["sequential", "coda-prompt"])
@pytest.mark.parametrize("other", ["images", "labels", "seed", "options", "backbone", "earlier"])
def test_what_another_batch_has_left_is_not_used(name, other, setup, steps, tmp_path):
    method, tasks = QUICK[name], [FIRST]
    setup = replace(setup, scratch=tmp_path / "task")
    steps.stop = 3
    with pytest.raises(Interrupted):
        learned(method, setup, FIRST)
    images, labels = FIRST
    if other == "images":
        tasks = [([*images[1:], images[0]], labels)]
    elif other == "labels":
        tasks = [(images, [labels[1], labels[0], *labels[2:]])]
    elif other == "seed":
        setup = replace(setup, seed=1)
    elif other == "options":
        method = replace(method, learning_rate=0.01)
    elif other == "backbone":
        setup = replace(setup, backbone=tiny(1))
    else:
        tasks = [SECOND, FIRST]
    steps.stop = None
    steps.losses.clear()
    found = kept(learned(method, setup, *tasks))
    assert len(steps.losses) == 4 * len(tasks)
    assert equal(found, kept(learned(method, replace(setup, scratch=None), *tasks)))


@pytest.mark.parametrize("damage", [lambda file: file[: len(file) // 2], lambda _: b""])
def test_a_damaged_scratch_is_told_about_in_one_sentence(setup, damage, steps, tmp_path):
    setup = replace(setup, scratch=tmp_path / "task")
    steps.stop = 3
    with pytest.raises(Interrupted):
        learned(QUICK["l2p"], setup, FIRST)
    setup.scratch.write_bytes(damage(setup.scratch.read_bytes()))
    with pytest.raises(DamagedFileError, match=r"not a checkpoint of a task, or is damaged\. Delete it"):
        learned(QUICK["l2p"], setup, FIRST)


def test_what_an_optimiser_cannot_remember_is_told_about_in_one_sentence(setup, steps, tmp_path):
    setup = replace(setup, scratch=tmp_path / "task")
    steps.stop = 3
    with pytest.raises(Interrupted):
        learned(QUICK["l2p"], setup, FIRST)
    header, arrays = storage.read(setup.scratch, "task")
    gone = next(name for name in arrays if name.endswith(".exp_avg"))
    storage.write(setup.scratch, "task", header, {name: a for name, a in arrays.items() if name != gone})
    says = r"not a checkpoint of a task, or is damaged\. Delete it"
    with pytest.raises(DamagedFileError, match=says) as error:
        learned(QUICK["l2p"], setup, FIRST)
    assert "of parameter 0 it remembers" in str(error.value.__cause__)


@pytest.mark.parametrize("kind", ["model", "learner"])
def test_a_file_that_is_no_scratch_is_not_written_over(setup, steps, kind, tmp_path):
    setup = replace(setup, scratch=tmp_path / "m.layup")
    storage.write(setup.scratch, kind, {"years": "of learning"}, {})
    before = setup.scratch.read_bytes()
    with pytest.raises(StorageError, match=f"kind '{kind}'"):
        learned(QUICK["l2p"], setup, FIRST)
    assert setup.scratch.read_bytes() == before
    assert steps.losses == []


def few(counts=(6, 4), digits=4, styles=()):
    train, test = (tinted(dict.fromkeys(range(digits), n), s) for n, s in zip(counts, (0, 100), strict=True))

    def part(images, labels):
        if not styles:
            return Part(images, labels)
        styled = [255 - image if style == "bright" else image for style in styles for image in images]
        return Part(styled, [*labels] * len(styles), [style for style in styles for _ in labels])

    return Dataset("few", tuple(sorted(set(train[1]))), part(*train), part(*test), tuple(styles))


@pytest.mark.parametrize("name", ["slca", "coda-prompt"])
def test_an_experiment_goes_on_in_the_middle_of_a_task(name, backbone, steps, tmp_path):
    def experiment(folder):
        scenario = class_incremental(few(), 2)
        return Experiment(scenario, QUICK[name], backbone, tmp_path / folder, reading={"cache": False})

    def done(records):
        return [(step.accuracies, step.chosen) for record in records.values() for step in record.steps]

    *_, straight = experiment("straight").go()
    expected = [*steps.losses]
    steps.losses.clear()
    steps.stop = 6 + 4  # in the second epoch of the second task
    broken = experiment("broken")
    with pytest.raises(Interrupted):
        list(broken.go())
    assert len(list((tmp_path / "broken").rglob("task.layup"))) == 1
    steps.stop = None
    *_, records = experiment("broken").go()
    assert done(records) == done(straight)
    assert steps.losses == expected[:10] + expected[9:]


# Lessons that cannot be learned


@every_method
def test_a_bad_image_ends_the_batch_before_anything_changes(method, setup, steps):
    learner = learned(method, setup, FIRST)
    before, tasks, taken = kept(learner), [*learner.tasks], len(steps.losses)
    passes = replace(setup.backbone.passes)
    for images, labels, error, says in (
        ([*SECOND[0], "no-such-file.png"], [*SECOND[1], "digit 3"], BadImageError, r"no-such-file\.png"),
        (SECOND[0], SECOND[1][:2], InputError, "There are 5 images but 2 labels"),
        ([], [], InputError, "no image in this task"),
    ):
        with pytest.raises(error, match=says):
            learner.learn(images, labels)
    assert equal(kept(learner), before)
    assert (learner.tasks, len(steps.losses), setup.backbone.passes) == (tasks, taken, passes)
    with pytest.raises(BadImageError, match=r"no-such-file\.png"):
        learner.predict([TEST[0], "no-such-file.png"])
    learner.learn(*SECOND)
    assert equal(kept(learner), kept(learned(method, setup, FIRST, SECOND)))


def test_embeddings_of_a_batch_that_was_broken_off_are_not_taken_for_those_of_the_next(setup, steps):
    learner = QUICK["joint-probe"].begin(setup)
    steps.stop = 1
    with pytest.raises(Interrupted):
        learner.learn(*FIRST)
    steps.stop = None
    learner.learn(*SECOND)
    learner.learn(*tinted({4: 5, 5: 2}))


@every_method
def test_a_learner_that_knows_nothing_has_no_predictions(method, setup):
    with pytest.raises(InputError, match="knows no class"):
        method.begin(setup).predict(TEST)


@every_method
def test_no_images_have_no_predictions(method, setup):
    assert learned(method, setup, FIRST).predict([]) == {"": []}


@every_method
def test_batches_of_one_image_and_of_one_class_can_be_learned(method, setup):
    images, labels = FIRST
    learner = learned(method, setup, (images[:1], labels[:1]), (images[1:2], labels[1:2]), SECOND)
    assert learner.head.classes == ["digit 0", "digit 1", "digit 2", "digit 3"]
    assert set(learner.predict(TEST)[""]) <= set(learner.head.classes)
    assert all(value.isfinite().all() for value in kept(learner).values())


@every_method
@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("epochs", value) for value in (0, -1, 1.5, "many", None, True)),
        *(("batch_size", value) for value in (0, 2.0)),
        *(("learning_rate", value) for value in (0, -0.1, math.inf, math.nan, "fast")),
    ],
)
def test_what_is_impossible_is_refused_before_anything_is_read(method, setup, option, value):
    says = rf"'{method.name}' with {option} = {value!r} is impossible\. Use a (whole )?number [≥>] [01]\."
    impossible = replace(method, **{option: value})
    for verb in (impossible.resolved, impossible.begin):
        with pytest.raises(InputError, match=says):
            verb(setup)


@pytest.mark.parametrize(
    ("name", "option", "value"),
    [
        *(("slca", option, 0) for option in ("alignment_epochs", "alignment_rate", "samples", "temperature")),
        *(("ssiat", option, 0) for option in ("first_factor", "width", "scale", "sigma", "samples")),
        ("ssiat", "margin", -0.1),
        *(("l2p", option, 0) for option in ("pool", "length", "top")),
        ("l2p", "pool", "abc"),
        ("l2p", "pull", -1.0),
        ("dualprompt", "expert_length", 0),
        ("dualprompt", "pull", "strong"),
        ("coda-prompt", "components", 0),
        ("coda-prompt", "length", "long"),
        ("coda-prompt", "orthogonality", -0.1),
    ],
)
def test_options_of_one_method_are_checked_as_well(name, option, value, setup):
    with pytest.raises(InputError, match=rf"'{name}' with {option} = {value!r} is impossible"):
        replace(QUICK[name], **{option: value}).resolved(setup)


@every_method
def test_a_method_that_trains_has_no_first_session(method, setup):
    with pytest.raises(InputError, match=rf"'{method.name}' trains on every task.*Leave the adapter out"):
        method.resolved(replace(setup, session=FirstSession("ssf")))


@every_method
def test_only_sequential_training_can_learn_from_a_stream(method, setup):
    stream = replace(setup, setting="ocl")
    if method.name == "sequential":
        assert method.resolved(stream) == method
    else:
        with pytest.raises(InputError, match=r"cannot run in the setting 'ocl'.*Use 'cil' or 'dil'"):
            method.begin(stream)


# Divergence


@every_method
def test_divergence_is_one_sentence(method, setup, tmp_path):
    wild = replace(method, learning_rate=1e36)
    what = "weights are" if method.name == "joint-probe" else "loss is"  # a probe has two steps per epoch
    says = rf"^'{method.name}' diverged in task 1: the {what} not finite.*below 1e\+36\.$"
    with pytest.raises(DivergedError, match=says):
        learned(wild, replace(setup, scratch=tmp_path / "task"), FIRST)
    assert list(tmp_path.iterdir()) == []  # what could only diverge again is not kept


@pytest.mark.parametrize("name", [*FINE_TUNED, "ssiat", "l2p", "dualprompt"])
def test_weights_that_explode_in_the_very_last_step_are_noticed(name, setup):
    wild = replace(QUICK[name], learning_rate=1e36, epochs=1, batch_size=99)

    def predicted():
        learned(wild, setup, FIRST).predict(TEST)

    with pytest.raises(DivergedError, match=r"task 1: the (scores|embeddings) are not finite"):
        predicted()


# What is kept, counted and shown


@every_method
def test_the_backbone_stays_as_it_is(method):
    backbone = tiny()
    before = {name: value.clone() for name, value in backbone.network.state_dict().items()}
    fingerprint = backbone.fingerprint
    structure = repr(backbone.network)
    learner = learned(method, setup_of(backbone), FIRST, SECOND)
    learner.predict(TEST)
    assert equal(backbone.network.state_dict(), before)
    backbone.refresh()
    assert (backbone.fingerprint, repr(backbone.network)) == (fingerprint, structure)
    for value in backbone.network.parameters():
        assert not value.requires_grad
        assert value.grad is None
    assert not any(module.training for module in backbone.network.modules())


@every_method
def test_neither_images_nor_gradients_are_kept(method, setup):
    images = [image.copy() for image in FIRST[0]]
    references = [weakref.ref(image) for image in images]
    learner = learned(method, setup, (images, FIRST[1]))
    del images
    gc.collect()
    assert [reference() for reference in references] == [None] * len(references)
    for value in [*learner.state().values(), *learner.head.rows(learner.head.classes)]:
        assert value.grad is None
        assert value.is_leaf


@every_method
def test_a_learner_reads_no_image_after_its_batch(method, setup):
    scenario = class_incremental(few(), 2)  # which takes every image back
    assert len(list(run_tasks(method.begin(setup), scenario))) == 2


@every_method
def test_every_image_that_goes_through_the_network_is_counted(method, setup):
    setup = replace(setup, backbone=setup.backbone.counted())
    learner = learned(method, setup, FIRST)
    images, epochs, tested = len(FIRST[0]), method.epochs, len(TEST)
    expected = {"joint-probe": (images, 0)}
    expected |= dict.fromkeys(("slca", "ssiat"), (images, images * epochs))
    expected |= dict.fromkeys(PROMPTS, (0, 2 * images * epochs))
    reading, training = expected.get(method.name, (0, images * epochs))
    assert setup.backbone.passes == Passes(reading, training)
    learner.predict(TEST)
    passes = 2 if method.name in PROMPTS else 1
    assert setup.backbone.passes == Passes(reading + passes * tested, training)


@every_method
def test_bars_are_shown_if_asked_for(method, setup, capsys, monkeypatch):
    monkeypatch.setattr(progress, "screen", Console(stderr=True, force_terminal=True, width=120))
    learner = learned(method, replace(setup, reading={"cache": False, "progress": True}), FIRST)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Checking images" in err
    assert "Training" in err
    assert "4/4" in err
    assert f"epoch 2 · loss {learner.losses[-1]:.3f}" in err
    learner.predict(TEST)
    assert "Predicting" in capsys.readouterr().err
    learner = learned(method, replace(setup, reading={"cache": False, "progress": False}), FIRST)
    learner.predict(TEST)
    assert capsys.readouterr() == ("", "")


def test_a_bar_goes_on_where_the_batch_does(setup, steps, capsys, monkeypatch, tmp_path):
    setup = replace(setup, scratch=tmp_path / "task", reading={"cache": False, "progress": True})
    steps.stop = 3
    with pytest.raises(Interrupted):
        learned(QUICK["sequential"], setup, FIRST)
    steps.stop = None
    monkeypatch.setattr(progress, "screen", Console(stderr=True, force_terminal=True, width=120))
    learned(QUICK["sequential"], setup, FIRST)
    err = capsys.readouterr().err
    assert "2/4" in err
    assert "epoch 1 · loss" in err


@every_method
def test_a_prediction_does_not_depend_on_the_other_images(method, setup):
    learner = learned(method, setup, FIRST, SECOND)
    predictions = learner.predict(TEST)[""]
    assert [learner.predict([image])[""][0] for image in TEST] == predictions
    assert learner.predict(TEST[::-1])[""] == predictions[::-1]
    pixels = pixels_of(setup.backbone, TEST)
    if method.name == "joint-probe":
        pixels = setup.backbone(pixels).embedding
    with torch.inference_mode():
        together = learner.scores(pixels)
        alone = torch.cat([learner.scores(each[None]) for each in pixels])
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)


# Classes that come again


@every_method
def test_classes_that_return_are_trained_and_others_rest(method, setup):
    learner = learned(method, replace(setup, setting="dil"), FIRST, SECOND)
    before = learner.head.values()
    learner.learn(*BACK)
    assert learner.head.classes == ["digit 0", "digit 1", "digit 2", "digit 3"]
    moved = (learner.head.values() != before).any(dim=1).tolist()
    own = method.name in ("slca", *PROMPTS)
    assert moved == ([True, False, True, False] if own else [True] * 4)
    assert set(learner.predict(TEST)[""]) <= set(learner.head.classes)


@every_method
def test_every_method_runs_through_domains(method, setup):
    scenario = domain_incremental(few(styles=("dark", "bright")))
    scenario = scenario.joint() if method.joint else scenario
    *_, last = run_tasks(method.begin(replace(setup, setting="dil")), scenario)
    assert len(last.steps[""].accuracies) == len(scenario.tasks)


# Sequential and joint fine-tuning


@pytest.mark.parametrize(
    ("method", "lr_multiplier"),
    [(QUICK["sequential"], 1.0), (QUICK["joint"], 0.01)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_fine_tuning_equals_a_plain_loop_over_all_classes_so_far(method, lr_multiplier, setup):
    tasks = [FIRST, SECOND, BACK]
    rates = [method.learning_rate] * method.epochs
    expected = plain_fine_tuning(setup.backbone, tasks, rates, lr_multiplier=lr_multiplier)
    assert_fine_tuned(learned(method, setup, *tasks), expected)


STREAM = [
    (images[start : start + 5], labels[start : start + 5])
    for images, labels in (tinted({0: 5, 1: 5}), tinted({2: 5, 3: 5}), BACK)
    for start in (0, 5)
    if labels[start:]
]


def test_on_a_stream_one_adam_goes_on_from_batch_to_batch():
    setup = setup_of(tiny(qkv_bias=False))  # the keys' bias has no gradient, and Adam makes steps of rounding
    method = SequentialMethod(learning_rate=0.003)
    learner = learned(method, replace(setup, setting="ocl"), *STREAM)
    assert [len(labels) for _, labels in STREAM] == [5, 5, 5, 5, 5, 1]
    expected = plain_fine_tuning(setup.backbone, STREAM, [0.003], size=128, stream=True)
    assert_fine_tuned(learner, expected)
    ages = {name.partition(".")[0]: int(value) for name, value in memory(learner).items() if "step" in name}
    weights = len(learner.body.state())
    assert [ages[str(index)] for index in range(weights, weights + 4)] == [6, 6, 4, 4]


def memory(learner):
    return dict(sorted(optimizer_state(learner._optimizer).items()))


@pytest.mark.parametrize("broken", [1, 3])  # before a class comes, and after
def test_on_a_stream_adam_survives_a_file(setup, broken, tmp_path):
    method = SequentialMethod(learning_rate=0.003)
    setup = replace(setup, setting="ocl")
    straight = learned(method, setup, *STREAM)
    learned(method, setup, *STREAM[:broken]).save(tmp_path / "l.layup")
    again = method.resume(setup, tmp_path / "l.layup")
    again.save(tmp_path / "again.layup")
    assert (tmp_path / "again.layup").read_bytes() == (tmp_path / "l.layup").read_bytes()
    resumed = method.resume(setup, tmp_path / "again.layup")
    for each in STREAM[broken:]:
        resumed.learn(*each)
    assert equal(kept(resumed), kept(straight))
    assert equal(memory(resumed), memory(straight))
    assert resumed.predict(TEST) == straight.predict(TEST)


def test_a_stream_whose_optimizer_lost_its_memory_is_told_about_in_one_sentence(setup, tmp_path):
    method, path = SequentialMethod(learning_rate=0.003), tmp_path / "l.layup"
    setup = replace(setup, setting="ocl")
    learned(method, setup, STREAM[0]).save(path)
    header, arrays = storage.read(path, "learner")
    gone = next(name for name in arrays if name.endswith(".exp_avg"))
    storage.write(path, "learner", header, {name: a for name, a in arrays.items() if name != gone})
    resumed = method.resume(setup, path)
    with pytest.raises(DamagedFileError, match="unfinished run cannot go on: of parameter 0 it remembers"):
        resumed.learn(*STREAM[1])


def test_a_stream_runs_without_bars_and_leaves_no_scratch(setup, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(progress, "screen", Console(stderr=True, force_terminal=True, width=120))
    reading = {"cache": False, "progress": True}
    setup = replace(setup, setting="ocl", scratch=tmp_path / "task", reading=reading)
    learner = SequentialMethod(learning_rate=0.003).begin(setup)
    assert len(list(run_tasks(learner, online(few(), 2, batch=5)))) == 2
    assert "Training" not in capsys.readouterr().err  # a bar of one step
    assert len(learner.losses) == 1
    assert list(tmp_path.iterdir()) == []


def convolutions():
    torch.manual_seed(0)
    network = nn.Sequential(
        nn.Conv2d(3, 6, 3, 2), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 8, 3, 2), nn.Dropout(0.5)
    )
    return Backbone.from_module(network, ["2", "3"], Preprocessing((16, 16), (16, 16), "squash"))


@pytest.mark.parametrize("name", FINE_TUNED)
def test_any_network_can_be_fine_tuned_and_batch_norms_keep_their_statistics(name, setup, tmp_path):
    backbone = convolutions()
    setup = replace(setup, backbone=backbone, scratch=tmp_path / "task")
    learner = learned(QUICK[name], setup, FIRST)
    statistics = dict(learner.body.network.named_buffers())
    assert equal(statistics, dict(backbone.network.named_buffers()))
    assert not any(module.training for module in learner.body.network.modules())
    assert not any(value.requires_grad for value in learner.body.network.parameters())
    learner.save(tmp_path / "l.layup")
    resumed = QUICK[name].resume(setup, tmp_path / "l.layup")
    for each in (learner, resumed):
        each.learn(*SECOND)
    assert equal(kept(resumed), kept(learner))


# The joint probe


def test_the_joint_probe_equals_a_plain_loop_over_embeddings(setup):
    images, labels = tinted({0: 4, 1: 3, 2: 4})
    method = JointProbeMethod(epochs=3, learning_rate=0.1, batch_size=4)
    embeddings = setup.backbone(pixels_of(setup.backbone, images)).embedding.clone()
    classes = sorted(set(labels))
    targets = torch.tensor([classes.index(label) for label in labels])
    rows = new_rows(24, 1, 3)
    optimizer = torch.optim.SGD(rows, lr=0.1, momentum=0.9, weight_decay=5e-4)
    losses = []
    for epoch in range(3):
        order = np.random.default_rng(seed_of(0, 1, epoch, "order")).permutation(len(images))
        total = 0.0
        for start in range(0, len(order), 4):
            batch = order[start : start + 4]
            loss = nn.functional.cross_entropy(scored(rows, embeddings[batch]), targets[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(batch)
        losses.append(total / len(images))
    learner = learned(method, setup, (images, labels))
    torch.testing.assert_close(learner.head.values(), torch.stack(rows).detach(), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(learner.losses, losses, rtol=1e-4)
    assert learner._rows is None


def test_the_joint_probe_reads_every_image_once_also_by_way_of_the_cache(setup, own_cache):
    cached = replace(setup, backbone=setup.backbone.counted(), reading={})
    method = QUICK["joint-probe"]
    learner = learned(method, cached, FIRST)
    predictions = learner.predict(FIRST[0])
    assert cached.backbone.passes == Passes(reading=len(FIRST[0]))
    again = learned(method, cached, FIRST)
    assert cached.backbone.passes == Passes(reading=len(FIRST[0]))
    assert equal(kept(again), kept(learner))
    assert predictions == learned(method, setup, FIRST).predict(FIRST[0])


# It learns


def outcome(method, seed=0):
    """The accuracies on every task after the last one, and after each its own."""
    scenario = class_incremental(few((16, 10)), 2, shuffled=False)
    scenario = scenario.joint() if method.joint else scenario
    setup = setup_of(small(), tasks=len(scenario.tasks), seed=seed)
    done = list(run_tasks(method.begin(setup), scenario))
    own = [event.steps[""].accuracies[event.task] for event in done]
    return done[-1].steps[""].accuracies, own


LONGER = {"epochs": 4, "learning_rate": 0.01, "batch_size": 8}


@pytest.mark.parametrize(
    "name", ["slca", *(pytest.param(each, marks=pytest.mark.slow) for each in ("ssiat", *PROMPTS))]
)
def test_what_should_remember_does(name):
    options = {"components": 20, "length": 8} if name == "coda-prompt" else {}
    method = type(QUICK[name])(**LONGER, **options)
    last, own = outcome(method)
    assert min(own) > 0.7
    assert min(last) > 0.7


@pytest.mark.parametrize("method", [JointMethod(**LONGER), JointProbeMethod(**LONGER)], ids=["all", "probe"])
def test_all_tasks_at_once_are_learned(method):
    (accuracy,), _ = outcome(method)
    assert accuracy > 0.8


def test_sequential_training_forgets():
    last, own = outcome(SequentialMethod(epochs=3, learning_rate=0.003, batch_size=8))
    assert min(own) > 0.8
    assert last[0] < 0.2
    assert last[1] > 0.8
