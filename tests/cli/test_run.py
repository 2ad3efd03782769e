"""`layup run` on the command line: the table, the records, and an error for every impossible request."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from rich.console import Console

from layup import load_backbone, memory
from layup.benchmark import run_spec
from layup.benchmark.methods.closed_form import ModelLearner
from layup.benchmark.results import Record
from layup.cli import console
from photos import name, write_photos

QUICK = ("--backbone", "vit-nano")
CLASSES = 4


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """photos/{train,test}/CLASS, styles/DOMAIN/{train,test}/CLASS, loose/CLASS; and their features."""
    folder = tmp_path_factory.mktemp("shelf")
    for part, count, start in (("train", 4, 0), ("test", 2, 100)):
        write_photos(folder / "photos" / part, dict.fromkeys(range(CLASSES), count), start)
        for i, style in enumerate(("ink", "chalk")):
            write_photos(folder / "styles" / style / part, {0: count, 1: count}, start + 10 * i)
    write_photos(folder / "loose", {0: 5, 1: 5})
    return folder


@pytest.fixture
def here(shelf, tmp_path, monkeypatch):
    """The working directory, with photos/, styles/ and loose/."""
    for each in ("photos", "styles", "loose"):
        (tmp_path / each).symlink_to(shelf / each)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LAYUP_CACHE", str(shelf / "cache"))
    monkeypatch.delenv("LAYUP_DATA", raising=False)
    return tmp_path


@pytest.fixture
def run(layup, here):
    """Run `layup run`."""
    return partial(layup, "run")


@pytest.fixture
def quick(run):
    """Run something quick that has to succeed."""

    def command(dataset, *arguments):
        result = run("--dataset", dataset, *QUICK, *arguments)
        assert result.code == 0, result.err
        return result

    return command


@pytest.fixture
def batches(monkeypatch):
    """How many batches were learned."""
    seen = []
    original = ModelLearner.learn
    monkeypatch.setattr(ModelLearner, "learn", lambda self, *given: (seen.append(1), original(self, *given)))
    return seen


def records(folder):
    return {path.name: Record.read(path) for path in sorted(folder.glob("*.json"))}


def the_record(folder):
    [record] = records(folder).values()
    return record


PHOTOS = ("folder:photos", "--tasks", 2, "--k", 1)


# What comes out


def test_a_run_shows_a_line_for_each_task_and_leaves_a_record(quick, here, own_cache, monkeypatch):
    monkeypatch.setenv("LAYUP_CACHE", str(own_cache))
    result = quick(*PHOTOS)
    record = the_record(here / "results")
    assert result.err == ""
    assert "folder:photos, cil, layup, seed 1993" in result.out
    for title in ("task", "images", "A_t", "F_t", "λ", "learn s", "predict s", "passes"):
        assert title in result.out
    rows = re.findall(r"│ (\d) +│ (\d+) +│ ([\d.]+) +│ ([\d.-]*) +│ (\S+)", result.out)
    assert [(row[0], row[1]) for row in rows] == [("1", "8"), ("2", "8")]
    matrix = record.matrix
    assert [float(row[2]) for row in rows] == pytest.approx([matrix[0, 0], matrix[1].mean()], abs=1e-3)
    assert [row[3] for row in rows] == ["", f"{matrix[0, 0] - matrix[1, 0]:.3f}"]
    assert [float(row[4]) for row in rows] == pytest.approx(
        [step.chosen["lambda"] for step in record.steps], rel=1e-2
    )
    assert f"average accuracy {record.summary['average_accuracy']:.3f}" in result.out
    assert f"Record: results/{record.name}.json" in result.out
    # A learner that passes every test image after every task: 8 + 4 and 8 + 8.
    assert "through the network: 24." in result.out
    assert "would need 28." in result.out


def test_a_run_that_is_tested_once_shows_no_accuracy_before_the_last_task(quick, here):
    result = quick(*PHOTOS, "--tested-once")
    rows = re.findall(r"│ (\d) +│ \d+ +│ ([\d.]*) +│ ([\d.-]*) +│", result.out)
    found = the_record(here / "results").summary["average_accuracy"]
    assert rows == [("1", "", ""), ("2", f"{found:.3f}", "")]
    assert f"average accuracy {found:.3f}" in result.out
    assert result.err == ""


def test_a_record_names_its_engine(quick, here, refused):
    quick(*PHOTOS, "--out", "usual")
    quick(*PHOTOS, "--out", "other", "--engine", "folded")
    usual, other = the_record(here / "usual"), the_record(here / "other")
    assert usual.run["backbone"]["engine"] == "eager"
    assert other.run["backbone"] == {**usual.run["backbone"], "engine": "folded"}
    np.testing.assert_array_equal(other.matrix, usual.matrix)
    refused(
        "run", "--dataset", *PHOTOS[:3], *QUICK, "--method", "l2p", "--engine", "folded", says=["--engine"]
    )


def test_where_nobody_looks_every_task_is_a_line_when_it_comes(quick):
    lines = quick(*PHOTOS).out.splitlines()
    assert lines[0].startswith("task: 1 · images: 8 · A_t: ")
    assert lines[1].startswith("task: 2 · images: 8 · A_t: ")


def test_on_a_terminal_the_table_grows(quick, monkeypatch):
    monkeypatch.setattr(console, "screen", Console(stderr=True, force_terminal=True, width=120))
    done = quick(*PHOTOS)
    assert "task: 1 · " not in done.out
    assert "0/2" in done.err
    assert "folder:photos, cil, layup, seed 1993" in done.err
    assert done.out.count("folder:photos, cil, layup, seed 1993") == 1


def test_a_finished_run_is_not_run_again_unless_asked(quick, here, batches):
    quick(*PHOTOS)
    [path] = (here / "results").glob("*.json")
    before = path.read_bytes()
    again = quick(*PHOTOS)
    assert len(batches) == 2
    assert again.out == ""
    assert "This run is finished already (--again repeats it)" in again.err
    assert f"results/{path.name}: average accuracy " in again.err
    assert path.read_bytes() == before
    assert "average accuracy" in quick(*PHOTOS, "--again").out
    assert len(batches) == 4


def test_a_run_that_failed_in_the_middle_goes_on_and_shows_what_was_done(quick, run, here, monkeypatch):
    original = ModelLearner.learn
    calls = []

    def fail_once(self, images, labels):
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device", "features.sqlite")
        original(self, images, labels)

    monkeypatch.setattr(ModelLearner, "learn", fail_once)
    failed = run("--dataset", *PHOTOS, *QUICK)
    assert failed.code == 1
    assert "Error: No space left on device: features.sqlite" in failed.err
    assert not records(here / "results")
    lines = quick(*PHOTOS).out.splitlines()
    assert [line.split(" · ")[0] for line in lines[:2]] == ["task: 1", "task: 2"]
    assert len(calls) == 3


def test_several_k_are_one_run_and_several_records(quick, here, batches):
    result = quick("folder:photos", "--tasks", 2, "--k", "1,3-4")
    assert len(batches) == 2
    found = records(here / "results")
    assert sorted(record.run["options"]["k"] for record in found.values()) == [1, 3, 4]
    for k in (1, 3, 4):
        assert f"A_t, k = {k}" in result.out
        assert re.search(
            rf"k = {k}: average accuracy [\d.]+, .*Record: results/\S*-k{k}-T2-\S+\.json", result.out
        )
    assert "folder:photos, cil, layup, seed" in result.out
    assert "finished already" in quick("folder:photos", "--tasks", 2, "--k", 3).err
    assert len(batches) == 2


def test_several_seeds_are_several_runs(quick, here):
    result = quick(*PHOTOS, "--seed", "1,3-4")
    seeds = [record.run["seed"] for record in records(here / "results").values()]
    assert sorted(seeds) == [1, 3, 4]
    for seed in seeds:
        assert f"seed {seed}" in result.out
    orders = {tuple(record.class_order) for record in records(here / "results").values()}
    assert len(orders) > 1


def test_a_loose_folder_is_split_alike_for_all_seeds_but_by_a_seed_of_its_own(quick, here):
    quick("folder:loose", "--tasks", 2, "--k", 1, "--seed", "0-1")
    first, second = records(here / "results").values()
    assert first.run["data"] == second.run["data"]
    assert first.run["seed"] != second.run["seed"]
    quick("folder:loose", "--tasks", 2, "--k", 1, "--seed", 0, "--split-seed", 1, "--out", "other")
    assert the_record(here / "other").run["data"] != first.run["data"]


@pytest.mark.parametrize("method", ["nmc", "laynmc", "layup"])
def test_every_method_runs(quick, here, method):
    result = quick("folder:photos", "--tasks", 2, "--method", method)
    record = the_record(here / "results")
    assert record.run["method"] == method
    assert f"cil, {method}, seed" in result.out


def test_options_of_a_method_are_given_by_name(quick, here):
    quick("folder:photos", "--tasks", 2, "--method", "ranpac", "--adapt", "none", "--option", "width=32")
    options = the_record(here / "results").run["options"]
    assert (options["width"], options["lam"]) == (32, "search")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "adapter"),
    [
        (("--method", "nmc"), None),
        (("--method", "nmc+fsa"), "adaptformer"),
        (("--method", "nmc+fsa", "--adapt", "ssf"), "ssf"),
        (("--method", "adam"), "adaptformer"),
        (("--method", "fsa+lda"), "adaptformer"),
        (("--method", "fsa+lda", "--adapt", "none"), None),
        (("--method", "fsa+lda", "--setting", "ocl"), None),
    ],
)
def test_a_method_adapts_as_is_usual_for_it_unless_told_otherwise(quick, here, arguments, adapter):
    tuning = ("--epochs", 1) if adapter else ()
    quick("folder:photos", "--tasks", 2, *arguments, *tuning)
    session = the_record(here / "results").run["adapter"]
    assert (session and session["adapter"]["name"]) == adapter
    assert session is None or (session["epochs"], session["seed"]) == (1, 1993)


def test_epochs_and_rate_of_a_method_that_trains_are_its_own(quick, here):
    result = quick("folder:photos", "--tasks", 2, "--method", "l2p", "--epochs", 1, "--learning-rate", 0.01)
    record = the_record(here / "results")
    assert (record.run["options"]["epochs"], record.run["options"]["learning_rate"]) == (1, 0.01)
    assert record.run["adapter"] is None
    assert all(len(step.chosen["losses"]) == 1 for step in record.steps)
    assert record.steps[0].training_passes == 2 * 8
    assert "folder:photos, cil, l2p, seed 1993" in result.out


def test_a_method_that_learns_at_once_has_one_task_however_they_are_cut(quick, here):
    for tasks in (2, 4):
        quick("folder:photos", "--tasks", tasks, "--method", "joint-probe", "--epochs", 2)
    record = the_record(here / "results")  # the second run found the first one's record
    assert [task.name for task in record.tasks] == ["all"]
    assert record.tasks[0].train == 4 * CLASSES
    assert "tasks" not in record.run


def test_domains_are_run_one_after_another_by_default(quick, here):
    result = quick("domains:styles", "--k", 1)
    record = the_record(here / "results")
    assert (record.run["setting"], record.run["order"]) == ("dil", "chalk,ink")
    assert re.findall(r"│ (ink|chalk) ", result.out) == ["chalk", "ink"]
    assert not np.isnan(record.matrix).any()
    quick("domains:styles", "--k", 1, "--order", "ink,chalk", "--out", "other")
    assert [task.name for task in the_record(here / "other").tasks] == ["ink", "chalk"]
    quick("domains:styles", "--k", 1, "--order", "shuffled", "--tasks", 2, "--out", "mixed")
    assert the_record(here / "mixed").run["order"] == "shuffled"


def test_a_stream_is_run_in_small_batches(quick, here, batches):
    quick(*PHOTOS, "--setting", "ocl", "--batch", 3)
    record = the_record(here / "results")
    assert (record.run["setting"], record.run["batch"]) == ("ocl", 3)
    assert record.run["options"]["lam"] == "gcv"
    assert len(batches) == 2 * 3


def test_options_reach_the_record(quick, here):
    quick(
        *PHOTOS,
        *("--lam", 0.5, "--balance", "--first", 3, "--no-shuffle", "--per-class", 3),
        *("--seed", 5, "--out", "here", "--no-cache", "--workers", 0),
    )
    record = the_record(here / "here")
    assert record.run["options"] == {"k": 1, "lam": 0.5, "balance": True, "precision": "float64"}
    assert [len(task.classes) for task in record.tasks] == [3, 1]
    assert record.class_order == [name(i) for i in range(CLASSES)]
    assert [task.train for task in record.tasks] == [9, 3]
    assert (record.run["seed"], record.run["per_class"], record.run["first"]) == (5, 3, 3)
    assert sum(step.forward_passes for step in record.steps) == 12 + 6 + 8
    quick(*PHOTOS, "--tasks", 3, "--uneven", "first", "--out", "uneven")
    assert [len(task.classes) for task in the_record(here / "uneven").tasks] == [2, 1, 1]


def test_a_preset_decides_how_images_are_made_ready_and_how_the_network_is_tuned(quick, here):
    tune = ("--adapt", "ssf", "--epochs", 1, "--preset", "official")
    quick(*PHOTOS, *tune)
    record = the_record(here / "results")
    assert record.run["preset"] == record.run["adapter"]["preset"] == "official"
    assert record.run["backbone"]["fingerprint"] != load_backbone("vit-nano").fingerprint
    assert record.run["adapter"]["seed"] == record.run["seed"] == 1993
    assert record.steps[0].training_passes > 0
    quick(*PHOTOS, *tune, "--adapter-seed", 3, "--learning-rate", 0.001, "--out", "other")
    adapter = the_record(here / "other").run["adapter"]
    assert (adapter["seed"], adapter["learning_rate"], adapter["epochs"]) == (3, 0.001, 1)


def test_a_cache_that_is_too_small_is_told(quick, monkeypatch):
    monkeypatch.setenv("LAYUP_CACHE_LIMIT", "100kB")
    assert "images will pass the network more than once" in quick(*PHOTOS).err
    assert "more than once" not in quick(*PHOTOS, "--no-cache", "--again").err


def test_a_run_that_needs_much_memory_says_so(quick, monkeypatch):
    monkeypatch.setattr(console, "MUCH", 0)
    monkeypatch.setattr(memory, "available", lambda: 21_000_000_000)
    [line] = quick(*PHOTOS).err.splitlines()
    assert re.fullmatch(r"Memory: about [\d.]+ kB \(G .*\) besides the network, 21\.0 GB free\.", line)
    monkeypatch.setattr(memory, "available", lambda: None)
    assert quick(*PHOTOS, "--again").err.endswith(") besides the network.\n")


def test_a_run_that_would_not_fit_is_one_sentence(run, here, batches, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 9_000_000)
    result = run("--dataset", "folder:photos", *QUICK, "--k", 6)
    assert result.code == 1
    assert re.match(r"Error: This run would take about .* of memory, .*What would fit: k = [1-5]", result.err)
    assert not batches
    assert not records(here / "results")


def test_the_official_preset_shuffles_what_is_usually_not(quick, here, monkeypatch):
    """VTAB, that is: a dataset whose usual order is its own."""
    original = run_spec.load_dataset
    monkeypatch.setattr(
        run_spec,
        "load_dataset",
        lambda *given, **options: replace(original(*given, **options), shuffled=False),
    )
    for preset, shuffled in (("default", False), ("official", True)):
        quick(*PHOTOS, "--preset", preset, "--out", preset)
        assert the_record(here / preset).run["shuffled"] is shuffled
    quick(*PHOTOS, "--preset", "official", "--no-shuffle", "--out", "own")
    assert the_record(here / "own").run["shuffled"] is False


def test_data_is_found_where_the_option_or_the_variable_says(run, here, monkeypatch):
    tree = here / "trees" / "cub"
    shutil.copytree(here / "photos", tree)
    for found in (("--data", here / "trees"), ()):
        result = run(
            "--dataset", "cub200", *QUICK, "--tasks", 2, "--k", 1, "--out", f"out{len(found)}", *found
        )
        assert result.code == 0, result.err
        monkeypatch.setenv("LAYUP_DATA", str(here / "trees"))


def test_a_record_says_nothing_of_where_the_photos_are(quick, here):
    quick(f"folder:{here / 'photos'}", "--tasks", 2, "--k", 1)
    text = json.dumps(the_record(here / "results").to_dict())
    assert str(here) not in text
    assert "folder:photos" in text


# What cannot be


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--dataset", "digit"), ["Unknown dataset 'digit'", "Did you mean 'digits'?"]),
        (("--dataset", "folder:nowhere"), ["nowhere"]),
        (("--dataset", "domains:photos"), ["folder:photos"]),
        (("--method", "layupp"), ["Unknown method 'layupp'", "Did you mean 'layup'?"]),
        (("--setting", "oc"), ["Unknown setting 'oc'", "cil, dil, ocl", "Did you mean 'ocl'?"]),
        (("--setting", "dil"), ["'folder:photos' has no domains"]),
        (("--backbone", "vit-nana"), ["vit-nana"]),
        (("--input-size", "32"), ["'vit-nano' cannot read images of 32 × 32"]),
        (("--weights", "no.safetensors"), ["weights"]),
        (("--k", "0"), ["k = 0", "between 1 and 12"]),
        (("--k", "13"), ["k = 13", "between 1 and 12"]),
        (("--k", "1-13"), ["k = 13", "between 1 and 12"]),
        (("--k", "abc"), ["--k 'abc' cannot be read", "6 or 1,6 or 1-12"]),
        (("--k", "3-1"), ["--k '3-1' cannot be read"]),
        (("--k", "1,,2"), ["--k '1,,2' cannot be read"]),
        (("--k", ""), ["--k '' cannot be read"]),
        (("--k", "1.5"), ["--k '1.5' cannot be read"]),
        (("--k", "3", "--method", "nmc"), ["The method 'nmc' has no option 'k'"]),
        (("--k", "1,2", "--method", "laynmc"), ["Several values of k are for the method 'layup'"]),
        (("--lam", "serach"), ["Unknown rule for λ 'serach'", "Did you mean 'search'?"]),
        (("--lam", "-1"), ["λ = -1.0 cannot be used"]),
        (("--lam", "nan"), ["λ = nan cannot be used"]),
        (("--lam", "1", "--method", "laynmc"), ["The method 'laynmc' has no option 'lam'"]),
        (("--balance", "--method", "nmc"), ["The method 'nmc' has no option 'balance'"]),
        (("--seed", "x"), ["--seed 'x' cannot be read"]),
        (("--seed=-1",), ["--seed '-1' cannot be read"]),
        (("--seed", str(2**32)), [f"The seed {2**32}", "from 0 to 2^32 - 1"]),
        (("--tasks", "5"), ["4 classes cannot be divided among 5 tasks", "from 1 to 4"]),
        (("--tasks", "0"), ["among 0 tasks"]),
        (
            ("--first", "4", "--tasks", "2"),
            ["The first of 2 tasks cannot have 4 of 4 classes", "from 1 to 3"],
        ),
        (("--first", "0"), ["--first"]),
        (("--uneven", "lst"), ["'lst'", "Did you mean 'last'?"]),
        (("--batch", "5"), ["batch is for 'ocl', and the setting is 'cil'", "The option is --batch."]),
        (("--batch", "0", "--setting", "ocl"), ["--batch"]),
        (("--order", "shuffled"), ["order is for 'dil', and the setting is 'cil'", "The option is --order."]),
        (("--order", "ink"), ["no domains"]),
        (("--per-class", "0"), ["--per-class"]),
        (("--adapt", "ssf", "--setting", "ocl"), ["cannot be adapted in the online setting", "--adapt"]),
        (("--lam", "search", "--setting", "ocl"), ["λ cannot be searched in the online setting"]),
        (("--adapt", "sfs"), ["'sfs'", "Did you mean 'ssf'?"]),
        (
            ("--epochs", "3"),
            ["epochs says how to tune the network", "Choose an adapter. The option is --adapt."],
        ),
        (("--learning-rate", "3"), ["learning_rate says how to tune", "The option is --adapt."]),
        (("--adapter-seed", "3"), ["seed says how to tune", "The option is --adapt."]),
        (("--adapt", "ssf", "--learning-rate", "-1"), ["learning_rate = -1.0 is impossible"]),
        (("--preset", "papr"), ["Unknown preset 'papr'", "Did you mean 'paper'?"]),
        (("--out", "photos/train/digit 0/000.png"), ["Cannot make the folder", "Choose another one"]),
        (("--dataset", "domains:styles", "--order", "ink,chlk"), ["Unknown domain 'chlk'", "'chalk'"]),
        (("--dataset", "domains:styles", "--order", "ink"), ["leaves out: chalk"]),
        (("--dataset", "domains:styles", "--order", "ink,chalk,ink"), ["twice"]),
        (("--setting", "dil", "--tasks", "3"), ["has no domains"]),
        (("--dataset", "domains:styles", "--tasks", "3"), ["each of 2 domains is a task", "--tasks"]),
        (
            ("--dataset", "domains:styles", "--first", "1"),
            ["first is for 'cil' and 'ocl', and the setting is 'dil'", "The option is --first."],
        ),
        (
            ("--dataset", "domains:styles", "--no-shuffle"),
            ["shuffled is for 'cil' and 'ocl', and the setting is 'dil'", "The option is --shuffle."],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_one_sentence(run, here, arguments, says):
    usual = {"--dataset": "folder:photos", "--backbone": "vit-nano"}
    missing = [each for pair in usual.items() if pair[0] not in arguments for each in pair]
    result = run(*missing, *arguments)
    said = " ".join(re.sub("[│╭╮╰╯─]", " ", result.err).split())
    assert result.code not in (0, None)
    assert "Error" in said
    for words in says:
        assert words in said
    if result.code == 1:
        assert result.err.startswith("Error: ")
        assert result.out == ""
    assert not (here / "results").exists()


def test_a_bad_photo_ends_the_run_with_its_name(run, here):
    shutil.copytree(here / "photos", here / "mine")
    (here / "mine" / "train" / name(0) / "bad.png").write_text("no image")
    result = run("--dataset", "folder:mine", *QUICK, "--k", 1, "--tasks", 2)
    assert result.code == 1
    assert "bad.png" in result.err
    assert "Error: " in result.err
    assert not records(here / "results")


def test_a_class_without_tests_is_refused_where_it_would_be_a_task(run, here):
    shutil.copytree(here / "photos", here / "mine")
    shutil.rmtree(here / "mine" / "test" / name(0))
    result = run("--dataset", "folder:mine", *QUICK, "--tasks", CLASSES)
    assert result.code == 1
    assert "There are no test images for task" in result.err


def test_a_damaged_unfinished_run_is_one_sentence_that_says_what_to_do(run, quick, here, monkeypatch):
    def fail(self, path):
        raise OSError(28, "No space left on device", str(path))

    with monkeypatch.context() as patch:
        calls = []
        original = ModelLearner.save
        patch.setattr(
            ModelLearner,
            "save",
            lambda self, path: (fail if calls else original)(self, path) or calls.append(1),
        )
        assert run("--dataset", *PHOTOS, *QUICK).code == 1
    [progress] = (here / "results" / "unfinished").rglob("progress.json")
    progress.write_text("{")
    result = run("--dataset", *PHOTOS, *QUICK)
    assert result.code == 1
    assert "progress.json is damaged. Begin it anew. The option is --again." in result.err
    quick(*PHOTOS, "--again")


def test_help_says_what_to_type(run):
    result = run("--help")
    assert result.code == 0
    for words in (
        "layup run --dataset digits",
        "--setting",
        "--k",
        "--again",
        "resumes an interrupted run",
    ):
        assert words in result.out


def test_a_sample_is_a_run_of_its_own(quick, here):
    result = quick("folder:photos", "--sample", "2x3", "--method", "nmc", "--tasks", "2")
    record = Record.read(here / re.search(r"results/\S+json", result.out)[0])
    assert [task.train for task in record.tasks] == [3, 3]
    assert "2 classes, up to 3 images each" in record.layout


@pytest.mark.parametrize("sample", ["20", "axb", "2x3x4"])
def test_a_sample_that_cannot_be_read_is_refused(refused, here, sample):
    refused("run", "--dataset", "folder:photos", "--sample", sample, says="Write CLASSESxIMAGES")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray has its own
def test_runs_are_spread_over_workers(local, run):
    command = ("--dataset", "folder:photos", *QUICK, "--tasks", "2", "--seed", "1-3", "--ray")
    first = run(*command)
    assert first.code == 0, first.err
    assert first.out.count("average accuracy") == 3
    assert all(f"Seed {seed}:" in first.out for seed in (1, 2, 3))
    assert run(*command).err.count("finished already") == 3
    failed = run(*command, "--tasks", "7")
    assert failed.code == 1
    assert failed.err.count("failed: 4 classes cannot be divided among 7 tasks") == 3
    assert "3 of 3 runs failed" in failed.err
