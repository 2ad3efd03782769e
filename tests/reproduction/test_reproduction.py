"""The paper's items: what they run, what they show of it, and whether its claims hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import timm
from safetensors.torch import save_model

from fake_records import fake_record
from faked_results import DIGITS, QUIET, STYLES, faked, tiny_config
from layup.backbones import load_backbone
from layup.benchmark import class_incremental, metrics
from layup.benchmark.experiment import Experiment
from layup.cluster import Cluster
from layup.errors import InputError
from layup.reproduction import analysis, complexity, estimate
from layup.reproduction.config import (
    BUILT_IN,
    CIL,
    DIL,
    NARROW,
    SMALL,
    Column,
    local_config,
    on_disk,
    paper_config,
    quick_config,
    source_images,
)
from layup.reproduction.estimate import estimates, forecast
from layup.reproduction.introduction import introduction
from layup.reproduction.page import reproduce
from layup.reproduction.paper import FOOTNOTES, PRINTED, SAYS
from layup.reproduction.plan import ITEMS, items_of
from layup.reproduction.results import Results, held_out
from layup.reproduction.runner import Job, Missing, Runner, jobs_of
from layup.reproduction.shown import Cell
from layup.reproduction.spec import NETWORKS, USUAL, Spec, each_combination, together
from layup.reproduction.tables import BestOf
from photos import write_photos


@pytest.fixture
def runner(tmp_path):
    return Runner(tiny_config(), tmp_path / "results", QUIET)


def ignore(job, what):
    pass


# What is run


def test_a_run_predictions_for_all_depths_and_for_the_rest_by_itself():
    specs = [Spec("layup").having(k=k) for k in (6, 1)] + [Spec("nmc"), Spec("layup-average").having(k=4)]
    assert together(specs) == {
        Spec("layup"): (1, 6),
        Spec("nmc"): (),
        Spec("layup-average").having(k=4): (),
    }
    jobs = jobs_of((column, spec) for column in (DIGITS, STYLES) for spec in specs)
    assert [len(job.specs) for job in jobs] == [2, 1, 1, 2, 1, 1]
    assert {spec for job in jobs for spec in job.specs} == set(specs)


def test_a_spec_takes_the_network_of_its_column_only_if_it_has_none():
    assert Spec("nmc").on("IN1K").network == "IN1K"
    assert Spec("nmc", "IN21K").on("IN1K").network == "IN21K"


def test_records_are_those_of_layup_run(runner, ok, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ok("run", "--dataset", "digits", "--sample", "4x6", "--backbone", "vit-nano", "--k", "1,2")
    heard = []
    wanted = [(DIGITS, Spec("layup", "IN1K").having(k=k)) for k in (1, 2)]
    found = runner.gather(wanted, lambda job, what: heard.append(what))
    assert heard == ["finished before"]
    assert [record.run["options"]["k"] for record in found.values()] == [1, 2]


def test_runs_are_done_once_and_survive_the_process(runner):
    wanted = [(DIGITS, Spec("nmc", "IN1K")), (DIGITS, Spec("layup", "IN1K").having(k=2))]
    heard = []
    first = runner.gather(wanted, lambda job, what: heard.append(what))
    again = Runner(runner.config, runner.folder, QUIET, only_finished=True)
    second = again.gather(wanted, lambda job, what: heard.append(what))
    assert heard == ["running", "finished", "running", "finished", "finished before", "finished before"]
    assert first == second


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Ray has its own
def test_runs_are_spread_over_workers(local, runner, tmp_path):
    specs = [Spec("nmc", "IN1K"), *(Spec("layup", "IN1K").having(k=k) for k in (1, 2, 13))]
    specs += [Spec("layup", "IN1K", tasks=7).having(k=1)]
    wanted = [(DIGITS, spec) for spec in specs]
    spread = Runner(runner.config, tmp_path / "spread", QUIET, cluster=Cluster())
    heard, impossible = [], "4 classes cannot be divided among 7 tasks"
    many = spread.gather(wanted, lambda job, what: heard.append(what))
    one = runner.gather(wanted, ignore)
    assert heard[:2] == ["finished", "finished"]
    assert len(heard) == 3
    assert impossible in heard[2]
    assert {spec for spec, each in many.items() if isinstance(each, Missing)} == {
        spec for spec, each in one.items() if isinstance(each, Missing)
    }
    assert impossible in many[wanted[-1]].why
    assert many[wanted[0]].predictions == one[wanted[0]].predictions
    heard.clear()
    assert spread.gather(wanted, lambda job, what: heard.append(what)) == many
    assert heard[:2] == ["finished before"] * 2


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (Spec("l2p", "IN21K"), "plain vision transformer"),
        (Spec("layup", "IN21K", "vpt").having(k=1), "'vpt' attaches to"),
        (Spec("layup", "IN21K").having(k=18), "does not have that many layers"),
        (Spec("layup", "IN21K", tasks=7).having(k=1), "4 classes cannot be divided among 7 tasks"),
        (Spec("slca", "IN21K"), "'slca' is left out"),
        (Spec("nmc", "IN21K"), "It has not been run"),
    ],
)
def test_what_cannot_be_run_says_why(tmp_path, spec, why):
    config = tiny_config(networks=SMALL, without=("slca",))
    runner = Runner(config, tmp_path, QUIET, only_finished=True)
    found = runner.gather([(DIGITS, spec)], ignore)
    assert why in found[DIGITS, spec].why


def test_a_missing_dataset_or_network_leaves_its_reason_and_nothing_else(tmp_path):
    config = paper_config(tmp_path)
    runner = Runner(config, tmp_path / "results", QUIET)
    found = runner.gather([(config.columns[3], Spec("nmc", "IN1K"))], ignore)
    (missing,) = found.values()
    assert missing.why.startswith("The dataset 'cub200' (")
    assert "not found" in missing.why
    assert "\n" not in missing.why
    nowhere = Runner(tiny_config(networks=dict.fromkeys(NETWORKS, "no-such-net")), tmp_path, QUIET)
    (missing,) = nowhere.gather([(DIGITS, Spec("layup", "IN1K", USUAL).having(k=1))], ignore).values()
    assert "no-such-net" in missing.why
    assert not list(tmp_path.glob("*.json"))


def test_depths_that_a_network_lacks_do_not_keep_the_others_from_being_run(runner):
    specs = [Spec("layup", "IN1K").having(k=k) for k in (1, 13)]
    found = runner.gather([(DIGITS, spec) for spec in specs], ignore)
    assert found[DIGITS, specs[0]].finished
    assert found[DIGITS, specs[1]] == Missing("'vit-nano' does not have that many layers.")


def test_the_usual_adapter_and_number_of_tasks_are_no_second_run(runner):
    wanted = [
        (DIGITS, Spec("layup", "IN1K", USUAL).having(k=1)),
        (DIGITS, Spec("layup", "IN1K", "adaptformer").having(k=6)),
        (DIGITS, Spec("layup", "IN1K", USUAL, tasks=4).having(k=12)),
    ]
    (job,) = runner.jobs(wanted)
    assert job.depths == (1, 6, 12)


# The verb


def test_what_is_reproduced_is_a_page(tmp_path):
    heard = []
    records = tmp_path / "results"
    unfinished = reproduce(["table6", "figure2"], tiny_config(), records=records, only_finished=True)
    assert "It has not been run." in unfinished.to_markdown()
    assert not list(records.glob("*.json"))
    page = reproduce(["figure2", "table6"], tiny_config(), records=records, reading=QUIET, say=heard.append)
    assert [section.name for section in page.sections] == ["table6", "figure2"]
    assert page.sections[1].says == SAYS["figure2"]
    titles = [line.partition(" seed")[0] for line in heard]
    assert titles == [
        *["[1/2] digits, cil, ridge, vit-nano, layer 1 … 12, 4 tasks,"] * 2,
        "[2/2] digits, cil, ridge, vit-nano, layer 1 … 12, 4 tasks,",
    ]
    assert [line.rpartition(": ")[2] for line in heard] == ["running", "finished", "finished before"]
    assert "data:image/svg+xml" in page.to_html()
    again = reproduce(["figure2", "table6"], tiny_config(), records=records, only_finished=True)
    assert again.to_markdown() == page.to_markdown()


def test_a_forecast_has_a_row_for_each_run_and_runs_nothing(tmp_path):
    table = forecast(["figure2"], tiny_config(), records=tmp_path / "results")
    assert [row.label.split(", ")[2] for row in table.rows] == ["ridge", "ridge"]
    assert table.notes[0].startswith("2 of 2 runs are to be done, 0 cannot be: 48 images to read")
    assert not (tmp_path / "results").exists()


def test_what_cannot_be_is_refused_before_anything_is_run(tmp_path):
    with pytest.raises(InputError, match="no folder 'nowhere'"):
        reproduce(["figure4"], tiny_config(source="folder:nowhere"), records=tmp_path / "results")
    with pytest.raises(InputError, match="Did you mean 'figure4'"):
        reproduce(["figur4"], tiny_config(), records=tmp_path / "results")
    with pytest.raises(InputError, match="Did you mean 'paper'"):
        tiny_config(preset="papr")
    with pytest.raises(InputError, match="Did you mean 'slca'"):
        tiny_config(without=("slcaa",))
    assert not (tmp_path / "results").exists()


def test_errors_of_the_library_name_no_flags(tmp_path):
    for make in (local_config, quick_config):
        with pytest.raises(InputError) as nowhere:
            make(tmp_path / "nowhere")
        with pytest.raises(InputError) as empty:
            make(tmp_path)
        assert "--" not in f"{nowhere.value} {empty.value}"


# Configurations


def test_the_paper_world_has_its_ten_datasets_and_both_networks(tmp_path):
    config = paper_config(tmp_path)
    assert [column.label for column in config.of("cil")] == list(PRINTED["table1"].columns) == list(CIL)
    assert [column.label for column in config.of("dil")] == list(PRINTED["table2"].columns) == list(DIL)
    assert config.of("ocl") == config.of("cil") == config.everything
    assert config.like_paper
    assert config.networks["IN1K"] == "vit_base_patch16_224.augreg2_in21k_ft_in1k"


def test_what_is_on_disk_is_found_by_its_layout_and_the_papers_datasets_by_name(tmp_path):
    for part in ("train", "test"):
        write_photos(tmp_path / "pets" / part, {0: 2, 1: 2})
        write_photos(tmp_path / "cub" / part, {0: 2, 1: 2})
        write_photos(tmp_path / "styles" / "ink" / part, {0: 2, 1: 2})
        write_photos(tmp_path / "styles" / "oil" / part, {0: 2, 1: 2})
    (tmp_path / "empty").mkdir()
    (tmp_path / "notes.txt").write_text("no dataset")
    assert [(each.label, each.setting) for each in on_disk(tmp_path)] == [
        ("CUB", "cil"),
        ("pets", "cil"),
        ("styles", "dil"),
    ]
    local = local_config(tmp_path)
    assert local.everything == (*local.columns, *BUILT_IN)
    small = quick_config(tmp_path)
    assert [(each.label, each.sample) for each in small.columns] == [("CUB", (20, 30)), ("styles", (20, 10))]
    assert len(small.columns[1].load(tmp_path).train) == 8


def test_a_folder_may_be_the_dataset_itself_and_labels_are_unlike(tmp_path):
    for part in ("train", "test"):
        write_photos(tmp_path / "digits" / part, {0: 2, 1: 2})
        write_photos(tmp_path / "CUB" / part, {0: 2, 1: 2})
        write_photos(tmp_path / "cub" / part, {0: 2, 1: 2})
    assert [each.label for each in on_disk(tmp_path)] == ["CUB", "CUB (2)", "digits (2)"]
    assert [(each.label, each.dataset) for each in on_disk(tmp_path / "CUB")] == [
        ("CUB", f"folder:{tmp_path / 'CUB'}")
    ]
    assert [each.dataset for each in on_disk(tmp_path / "cub")] == ["cub200"]


def test_a_source_is_every_image_below_a_folder_whatever_its_parts(tmp_path):
    write_photos(tmp_path / "train", {0: 2})
    write_photos(tmp_path / "val", {1: 3})  # other classes, as miniImageNet has it
    assert len(source_images(f"folder:{tmp_path}", None)) == 5
    assert len(source_images("digits", None)) == 1078


def test_quick_is_digits_unless_there_is_data(tmp_path):
    assert [each.dataset for each in quick_config(None).columns] == ["digits", "digits-styles"]
    assert quick_config(None, epochs=7, session_epochs=None).epochs == 7
    assert quick_config(None, epochs=None).epochs == 1


def test_another_network_takes_the_place_of_the_plain_one(tmp_path):
    weights = tmp_path / "weights.safetensors"
    save_model(timm.create_model("test_vit", pretrained=False), weights)
    runner = Runner(tiny_config().with_network("test_vit", weights=weights, input_size=64), tmp_path, QUIET)
    assert runner.config.networks == {"IN21K": "vit-nano", "IN1K": "test_vit"}
    found = runner.network("IN1K")
    assert found.fingerprint == load_backbone("test_vit", weights=weights, input_size=64).fingerprint
    assert found.preprocessing.size == (64, 64)
    assert runner.network("IN21K").name == "vit-nano"
    spec = runner.run_spec(Job(DIGITS, Spec("nmc", "IN1K")))
    assert (spec.backbone, spec.weights, spec.input_size) == ("test_vit", weights, 64)
    theirs = paper_config(tmp_path)
    assert theirs.with_network(theirs.networks["IN1K"], weights=weights).like_paper
    assert not theirs.with_network("vit-nano").like_paper


@pytest.mark.parametrize("folder", ["nowhere", ""])
def test_a_folder_without_datasets_is_refused(tmp_path, folder):
    with pytest.raises(InputError, match=r"There is no (folder|dataset)"):
        local_config(tmp_path / folder)


# Items


def test_every_row_that_the_paper_prints_is_run_and_no_other_is_called_its_own():
    for name in ("table1", "table2", "table3", "table4", "table5", "table7"):
        rows = ITEMS[name].kind.rows
        assert [row.label for row in rows if not row.own] == list(PRINTED[name].rows), name


def test_items_are_those_of_the_paper_in_its_order():
    names = [f"table{n}" for n in range(1, 8)] + [f"figure{n}" for n in range(2, 9)] + ["complexity"]
    assert list(ITEMS) == ["claims", *names] == [item.name for item in items_of(["all"])]
    assert set(SAYS) == set(FOOTNOTES) == set(names)
    with pytest.raises(InputError, match="Did you mean 'figure2'"):
        items_of(["figur2"])


def test_the_best_of_six_is_run_with_every_combination():
    layup = next(row for row in ITEMS["table1"].kind.rows if row.label == "LayUP")
    combined = {(spec.network, spec.adapter) for spec in layup.specs}
    assert combined == {(n, a) for n in NETWORKS for a in ("adaptformer", "ssf", "vpt")}


# What is shown, of records that never were


def results_of(runner, name, skill=lambda column, spec: 0.7):
    return faked(runner, ITEMS[name].kind.wanted(runner), skill)


def cells_of(shown, label):
    (line,) = [line for line in shown.tables[0].rows if line.label == label]
    return dict(zip(shown.tables[0].columns, line.cells, strict=True))


def test_the_best_by_test_is_next_to_the_one_chosen_on_held_out_images(runner):
    def skill(column, spec):
        return 0.95 if spec.adapter == "vpt" and spec.network == "IN1K" else 0.6

    results = results_of(runner, "table1", skill)
    cell = cells_of(ITEMS["table1"].kind.show(results), "LayUP")["digits"]
    six = each_combination(Spec("layup").having(k=6))
    accuracies = {spec: results.record(DIGITS, spec).summary["average_accuracy"] for spec in six}
    best = max(accuracies, key=lambda spec: accuracies[spec])
    assert (best.network, best.adapter) == ("IN1K", "vpt")
    assert cell.ours.value == pytest.approx(accuracies[best])
    assert cell.which == "vit-nano, vpt"
    chosen = next(spec for spec in six if spec.adapter == "ssf")  # of two that are equal, the first
    assert cell.chosen == accuracies[chosen]
    assert cell.chosen_which == "vit-nano, ssf"
    assert cell.ours.low < cell.ours.value < cell.ours.high


def test_methods_without_a_session_take_the_network_of_the_chosen_one(runner):
    results = results_of(runner, "table1")
    cell = cells_of(ITEMS["table1"].kind.show(results), "NMC")["digits"]
    alone = results.record(DIGITS, Spec("nmc", "IN21K")).summary["average_accuracy"]
    assert cell.chosen == pytest.approx(alone)
    assert held_out(results.record(DIGITS, Spec("nmc", "IN21K"))) is None


def test_what_learns_all_at_once_is_scored_by_the_tasks_of_the_others(runner):
    spec = Spec("joint", "IN1K", tasks=3)
    record = fake_record("joint", tasks=1, classes_per_task=4, tests_per_class=6, skill=0.6)
    results = Results(runner, {(DIGITS, spec): record})
    tasks = class_incremental(runner.dataset(DIGITS), 3).test_tasks
    right = np.array(record.truth) == np.array(record.predictions)
    by_hand = np.mean([right[tasks == task].mean() for task in range(3)])
    assert results.interval(DIGITS, spec).value == pytest.approx(by_hand)
    assert by_hand != pytest.approx(right.mean())


def test_tasks_are_cut_as_in_the_runs_also_where_a_preset_shuffles(runner):
    runner._datasets[DIGITS] = replace(runner.dataset(DIGITS), shuffled=False)
    runner.config = replace(runner.config, preset="official")
    spec = Spec("nmc", "IN1K", tasks=2)
    expected = runner.experiment(Job(DIGITS, spec)).scenario
    assert expected.cut["shuffled"] is True
    assert runner.scenario(DIGITS, spec).test_tasks.tolist() == expected.test_tasks.tolist()


@pytest.mark.parametrize("preset", ["default", "official"])
def test_another_seed_is_another_order_also_where_classes_are_not_shuffled(runner, preset):
    runner.config = replace(runner.config, preset=preset)
    fixed = runner._datasets[DIGITS] = replace(runner.dataset(DIGITS), shuffled=False)
    specs = [Spec("layup", "IN1K", tasks=2, seed=seed).having(k=1) for seed in range(1993, 1998)]
    found = [runner.scenario(DIGITS, spec) for spec in specs]
    halves = [{*fixed.classes[:2]}, {*fixed.classes[2:]}]
    orders = [[{*task.classes} for task in scenario.tasks] for scenario in found]
    if preset == "default":
        assert orders[0] == halves
        assert all(sorted(map(sorted, order)) == sorted(map(sorted, halves)) for order in orders)
    assert any(order != orders[0] for order in orders)
    dil = Spec("layup", "IN1K", setting="dil", seed=1994).having(k=1)
    assert [task.name for task in runner.scenario(STYLES, dil).tasks] == list(runner.dataset(STYLES).domains)


def test_ranpac_has_its_own_size_unless_a_table_says_otherwise(tmp_path):
    spec = Spec("ranpac", "IN1K")
    whole, cut = (Runner(tiny_config(options=each), tmp_path, QUIET) for each in ({}, NARROW))
    assert (whole.narrow(spec), cut.narrow(spec), cut.narrow(Spec("nmc", "IN1K"))) == (None, 2000, None)
    write_photos(tmp_path / "pets" / "train", {0: 2, 1: 2})
    write_photos(tmp_path / "pets" / "test", {0: 2, 1: 2})
    assert Runner(local_config(tmp_path), tmp_path, QUIET).narrow(spec) is None
    assert Runner(quick_config(None), tmp_path, QUIET).narrow(spec) == 2000
    for name in ("table1", "table2", "table3", "table5"):
        for runner, said in ((whole, False), (cut, True)):
            (table,) = ITEMS[name].kind.show(Results(runner, {})).tables
            labels = [row.label for row in table.rows if row.label.startswith("RanPAC")]
            assert labels
            assert all((", M = 2,000" in label) == said for label in labels)
            assert any("not the 10,000 of its authors" in note for note in table.notes) == said


def test_table_3_is_also_computed_in_float32_next_to_the_papers_numbers(runner):
    results = results_of(runner, "table3", lambda c, s: 0.9 if dict(s.options).get("precision") else 0.5)
    shown = ITEMS["table3"].kind.show(results)
    for label in ("RanPAC, λ = 0", "LayUP, λ = 1", "k = 1, λ = 1"):
        double, single = (cells_of(shown, name) for name in (label, f"{label}, float32 (ours)"))
        assert single["digits"].ours.value > double["digits"].ours.value
        assert single["paper: VTAB"] == double["paper: VTAB"]


def test_tables_say_that_other_methods_had_other_weights(runner):
    for name, said in (("table1", True), ("table2", True), ("table3", False)):
        (table,) = ITEMS[name].kind.show(Results(runner, {})).tables
        assert any("augreg2_in21k_ft_in1k" in note for note in table.notes) == said


def test_the_best_of_fewer_than_all_says_so(runner):
    results = results_of(runner, "table1", lambda c, s: None if s.adapter == "vpt" else 0.7)
    shown = ITEMS["table1"].kind.show(results)
    assert cells_of(shown, "LayUP")["digits"].which.endswith("; best of 4, 6 planned")
    assert "Not all combinations could be run: It broke." in shown.tables[0].notes
    assert cells_of(shown, "NMC")["digits"].which == "vit-nano"


def test_the_share_of_the_gap_needs_all_of_the_others(runner):
    label = "gap to joint FT that LayUP closes, from the best other"
    full = results_of(runner, "table1", lambda c, s: 0.99 if s.method == "joint" else 0.6)
    assert cells_of(ITEMS["table1"].kind.show(full), label)["digits"].endswith("%")
    lacking = results_of(runner, "table1", lambda c, s: None if s.method == "slca" else 0.6)
    assert cells_of(ITEMS["table1"].kind.show(lacking), label)["digits"] == "–"


def test_data_of_another_size_than_the_papers_are_named(tmp_path):
    own = Column("CIFAR", "digits", "cil", (4, 6))
    runner = Runner(tiny_config(columns=(own,), like_paper=True), tmp_path, QUIET)
    assert any("24 training and 24 test images" in text for text in introduction(Results(runner, {})))


def test_numbers_are_next_to_the_papers_if_it_is_the_same_experiment(runner, tmp_path):
    own = Column("CIFAR", "digits", "cil", (4, 6))
    config = tiny_config(columns=(own,), like_paper=True)
    results = results_of(Runner(config, tmp_path, QUIET), "table1", lambda c, s: 0.9)
    shown = ITEMS["table1"].kind.show(results)
    cell = cells_of(shown, "LayUP")["CIFAR"]
    assert cell.paper == 92.0
    assert cell.difference == pytest.approx(100 * cell.ours.value - 92.0)
    assert list(shown.tables[0].columns) == ["CIFAR"]
    gap = cells_of(shown, "gap to joint FT that LayUP closes, from the best other")["CIFAR"]
    assert gap.endswith("(paper: −14 %)")  # LayUP is below RanPAC there


def test_elsewhere_the_papers_numbers_are_columns_of_their_own(runner):
    shown = ITEMS["table1"].kind.show(results_of(runner, "table1"))
    row = cells_of(shown, "SLCA")
    assert row["digits"].paper is None
    assert row["paper: Cars"] == "67.7"
    assert row["paper: IN-A"] == "59.8*"
    gap = cells_of(shown, "gap to joint FT that LayUP closes, from the best other")
    assert gap["paper: Cars"] == "80 %"
    assert gap["paper: VTAB"] == "no gap"


@pytest.mark.parametrize(("paper", "side"), [(70.0, ""), (74.04, ""), (74.06, "below"), (65.9, "above")])
def test_a_difference_counts_beyond_the_interval_and_the_papers_rounding(paper, side):
    assert Cell(metrics.Interval(0.7, 0.66, 0.74, 0.02), paper).side == side


def test_a_cell_without_any_run_says_why(runner):
    results = results_of(runner, "table1", lambda c, spec: None if spec.method == "l2p" else 0.7)
    cell = cells_of(ITEMS["table1"].kind.show(results), "L2P")["digits"]
    assert cell.ours is None
    assert cell.missing == "It broke."


def test_nmc_is_compared_between_settings_prediction_by_prediction(runner):
    kind = ITEMS["table3"].kind
    assert isinstance(kind, BestOf)
    alike = results_of(runner, "table3")
    assert "all predictions are equal in 2 of 2" in " ".join(kind.show(alike).tables[0].notes)
    other = results_of(runner, "table3", lambda c, spec: 0.7 if spec.setting == "cil" else 0.4)
    assert "all predictions are equal in 0 of 2" in " ".join(kind.show(other).tables[0].notes)


def test_nmc_really_predictions_alike_in_both_settings(runner):
    kind = ITEMS["table3"].kind
    wanted = [(DIGITS, spec) for pair in kind.same for spec in pair]
    results = Results(runner, runner.gather(wanted, ignore))
    assert "equal in 2 of 2" in " ".join(kind.show(results).tables[0].notes)


def test_depths_that_only_our_network_has_are_shown_only_where_it_is_used(runner):
    results = results_of(runner, "table4", lambda c, spec: None if (spec.depth or 0) > 12 else 0.7)
    labels = [line.label for line in ITEMS["table4"].kind.show(results).tables[0].rows]
    assert labels == [f"k = {k}" for k in range(1, 13)]
    deep = results_of(runner, "table4")
    assert ITEMS["table4"].kind.show(deep).tables[0].rows[-1].label == "k = 17 (ours)"


def test_table_6_has_what_is_on_disk(runner):
    shown = ITEMS["table6"].kind.show(Results(runner, {}))
    assert cells_of(shown, "digits") == {"T": "4", "train": "24", "test": "24", "C": "4"}
    assert cells_of(shown, "CIFAR")["train"] == "50,000"


def test_per_layer_shares_are_those_of_the_records(runner):
    results = results_of(runner, "figure2", lambda c, spec: 0.9 if spec.depth == 3 else 0.5)
    shown = ITEMS["figure2"].kind.show(results)
    last, third = (results.record(DIGITS, Spec("ridge", "IN21K").having(layer=n)) for n in (1, 3))
    found = analysis.class_change(last.steps[-1].per_class, third.steps[-1].per_class)
    rows = {line.label: line.cells[0] for line in shown.tables[0].rows}
    assert rows["last − 2"] == f"{100 * found.better:.1f}"
    assert list(rows) == ["highest", *(f"last − {n}" for n in range(1, 12))]
    assert float(rows["highest"]) == max(float(share) for label, share in rows.items() if label != "highest")


def test_universality_is_that_of_the_records(runner):
    results = results_of(runner, "figure5", lambda c, spec: 0.9 if spec.depth == 6 else 0.5)
    shown = ITEMS["figure5"].kind.show(results)
    one, six = (results.record(DIGITS, Spec("layup", "IN21K", USUAL).having(k=k)) for k in (1, 6))
    found = analysis.class_change(one.steps[-1].per_class, six.steps[-1].per_class)
    better, _, _, gain, _ = shown.tables[0].rows[0].cells
    assert better == f"{100 * found.better:.1f}"
    assert gain == f"{100 * found.gain:.1f}"


def test_five_seeds_have_their_mean_and_standard_error(runner):
    results = results_of(runner, "figure6")
    seeds = [Spec("layup", "IN21K", USUAL, seed=seed).having(k=6) for seed in range(1993, 1998)]
    ends = [results.record(DIGITS, spec).summary["average_accuracy"] for spec in seeds]
    line = ITEMS["figure6"].kind.show(results).tables[0].rows[0]
    mean, error = np.mean(ends), metrics.standard_error(ends)
    assert line.cells[:2] == ["5", f"{100 * mean:.1f} ± {100 * error:.1f}"]


@pytest.fixture
def only_small_solves(monkeypatch):
    """RanPAC's 10,000 rows take half a minute to be timed."""
    monkeypatch.setattr(complexity, "LARGEST", 1000)


@pytest.mark.parametrize("name", ITEMS)
def test_every_item_shows_something_with_all_runs_and_says_so_with_none(
    runner, name, tmp_path, only_small_solves
):
    full = results_of(runner, name)
    shown = ITEMS[name].kind.show(full)
    assert shown.tables[0].rows
    assert all(len(line.cells) == len(table.columns) for table in shown.tables for line in table.rows)
    for picture in shown.pictures:
        picture.draw(tmp_path / f"{picture.name}.png")
    without = ("claims", "table1", "table2", "table3", "table5", "table6", "table7", "complexity")
    pictures = 0 if name in without else 1
    assert len(shown.pictures) == pictures + (name == "figure3")
    bare = ITEMS[name].kind.show(results_of(runner, name, lambda c, s: None))
    assert not bare.pictures
    reasons = {
        cell.missing
        for table in bare.tables
        for line in table.rows
        for cell in line.cells
        if isinstance(cell, Cell)
    }
    assert reasons == (set() if name in ("claims", "table6") else {"It broke."})
    assert all(len(line.cells) == len(table.columns) for table in bare.tables for line in table.rows)


@pytest.mark.slow
@pytest.mark.usefixtures("few_digits")
def test_figure_4_takes_the_best_depth_and_needs_a_source_for_the_distance(runner, tmp_path):
    def skill(column, spec):
        return 0.9 if spec.depth == 5 else 0.5

    kind = ITEMS["figure4"].kind
    line = kind.show(results_of(runner, "figure4", skill)).tables[0].rows[0]
    assert line.cells[0] == "5 of 12"
    assert line.cells[2] == "–"
    sourced = Runner(tiny_config(source="digits"), tmp_path, QUIET)
    lines = kind.show(results_of(sourced, "figure4", skill)).tables[0].rows
    assert max(float(line.cells[2]) for line in lines) == 1.0


def test_measured_costs_are_those_of_the_records(runner, only_small_solves):
    results = results_of(runner, "complexity")
    formula, measured = ITEMS["complexity"].kind.show(results).tables
    saved = {line.label: line.cells[1] for line in formula.rows}
    assert (saved["RanPAC"], saved["SLCA"], saved["ADAM"]) == ("79 %", "81 %", "74 %")
    layup = next(line for line in measured.rows if line.label == "LayUP")
    assert layup.cells[1] == "3.0 kB"
    assert layup.cells[2] == "6.0"
    assert layup.cells[5].endswith(" ms")


# What there is to do


def test_a_forecast_counts_what_is_shared_once(runner):
    jobs = runner.jobs(
        [
            (DIGITS, Spec("nmc", "IN1K")),
            (DIGITS, Spec("laynmc", "IN1K").having(k=6)),
            (DIGITS, Spec("nmc", "IN1K", "ssf")),
            (DIGITS, Spec("adam", "IN1K", "ssf")),
            (DIGITS, Spec("sequential", "IN1K")),
        ]
    )
    plain, again, adapted, both, trained = estimates(runner, jobs)
    assert (plain.passes, plain.training) == (48, 0)
    assert (again.passes, again.training) == (0, 0)
    # One class of six images in the first task, for one epoch.
    assert (adapted.passes, adapted.training) == (48, 6)
    assert (both.passes, both.training) == (0, 0)
    assert (trained.passes, trained.training) == (6 * (1 + 2 + 3 + 4), 24)
    assert all(each.seconds > 0 for each in (plain, adapted, trained))


def test_a_forecast_times_each_network_once(runner, monkeypatch):
    timed = []
    monkeypatch.setattr(estimate, "seconds_per_pass", lambda backbone: timed.append(backbone.name) or 1.0)
    estimates(runner, runner.jobs([(DIGITS, Spec(name, "IN1K")) for name in ("nmc", "fsa+lda", "ridge")]))
    assert len(timed) == 1


def test_a_forecast_knows_what_is_finished_and_what_cannot_be(runner):
    runner.gather([(DIGITS, Spec("nmc", "IN1K"))], ignore)
    jobs = runner.jobs([(DIGITS, Spec("nmc", "IN1K")), (DIGITS, Spec("nmc", "IN1K", tasks=9))])
    done, impossible = estimates(runner, jobs)
    assert done.finished
    assert done.passes == 0
    assert "cannot be divided among 9 tasks" in impossible.why


@pytest.mark.slow
def test_a_forecast_of_passes_is_what_a_run_then_takes(runner):
    job = Job(DIGITS, replace(Spec("nmc", "IN1K", "ssf"), tasks=2))
    (before,) = estimates(runner, [job])
    experiment = runner.experiment(job)
    assert isinstance(experiment, Experiment)
    *_, records = experiment.go()
    steps = records[""].steps
    assert before.training == sum(step.training_passes for step in steps)
    assert before.passes == sum(step.forward_passes for step in steps)


def test_the_introduction_says_what_was_cut(runner):
    text = " ".join(introduction(Results(runner, {})))
    assert "not the paper's experiment" in text
    assert "1 × over their images" in text
    assert "digits 4 × 6" in text
