"""`layup compare` and `layup plot` on synthetic records: what they print, and errors."""

from __future__ import annotations

import csv
import io
import json
import re

import pytest
from PIL import Image

from fake_records import fake_record
from layup.benchmark.results import SCHEMA
from layup.formats import has_controls, printable

SEEDS = (1993, 1994, 1995)


def put(folder, *records):
    folder.mkdir(exist_ok=True)
    for record in records:
        record.write(folder / f"{record.name}.json")
    return folder


@pytest.fixture
def results(tmp_path):
    """A folder of three experiments of three seeds."""
    return put(
        tmp_path / "results",
        *(
            fake_record(method, options, seed=seed, skill=skill, tests_per_class=20)
            for seed in SEEDS
            for method, options, skill in (
                ("layup", {"k": 6}, 0.9),
                ("layup", {"k": 1}, 0.8),
                ("nmc", {}, 0.6),
            )
        ),
    )


def rows(text):
    """The cells of a drawn table, without its heading."""
    lines = [line for line in text.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


# Compare


def test_a_table_with_means_and_errors(results, ok):
    done = ok("compare", results)
    found = rows(done.out)
    assert [row[:2] for row in found] == [["layup k=1", "3"], ["layup k=6", "3"], ["nmc", "3"]]
    for row in found:
        for cell in row[2:5]:
            assert re.fullmatch(r"-?0\.\d{3} ± 0\.\d{3}", cell)
        assert [row[5], row[6], row[8]] == ["7.5", "300", "3.0 kB"]
        assert row[7] == str(60 + 40 * (3 + 2 + 1))  # the authors'
    for heading in ("A_T", "mean A_t", "F_T", "seconds", "passes", "state"):
        assert heading in done.out
    assert "standard error over seeds" in done.out
    assert "ᵇ" not in done.out
    assert done.err == ""


def test_one_run_has_the_error_of_its_test_images_and_says_so(tmp_path, ok):
    folder = put(tmp_path / "one", fake_record())
    done = ok("compare", folder)
    (row,) = rows(done.out)
    assert re.fullmatch(r"0\.\d{3} ± 0\.\d{3}ᵇ", row[2])
    assert re.fullmatch(r"0\.\d{3}", row[3])  # earlier predictions are not in a record
    assert "over its test images, by bootstrap" in done.out
    assert "over seeds" not in done.out


def test_both_kinds_of_errors_in_a_table_are_told_apart(results, ok):
    put(results, fake_record("other", seed=1994, tests_per_class=20))
    done = ok("compare", results, "--against", "nmc")
    found = {row[0]: row for row in rows(done.out)}
    assert "ᵇ" in found["other"][2]
    assert "ᵇ" not in found["layup k=6"][2] + found["layup k=6"][-1]
    assert re.fullmatch(r"[+-]0\.\d{3} ± 0\.\d{3}ᵇ \[[+-]0\.\d{3}, [+-]0\.\d{3}\]", found["other"][-1])
    assert "over seeds" in done.out
    assert "by bootstrap" in done.out
    assert "same seeds" in done.err


@pytest.mark.parametrize("baseline", ["nmc", "3"])
def test_differences_to_a_row(baseline, results, ok):
    done = ok("compare", results, "--against", baseline)
    found = {row[0]: row[-1] for row in rows(done.out)}
    assert "A_T − nmc" in done.out
    assert re.fullmatch(r"\+0\.\d{3} ± 0\.\d{3}", found["layup k=6"])
    assert found["nmc"] == ""


def test_metrics_by_name(results, ok):
    done = ok("compare", results, "--metric", "backward_transfer", "--metric", "peak_memory")
    assert "backward transfer" in done.out
    assert rows(done.out)[0][3] == "5.0 MB"
    assert len(rows(done.out)[0]) == 4


def test_what_is_undefined_is_a_dash(tmp_path, ok):
    folder = put(tmp_path / "one", fake_record(tasks=1))
    assert rows(ok("compare", folder, "--metric", "forgetting").out)[0][2] == "–"


def test_files_and_folders_may_be_mixed_and_repeated(results, ok):
    again = sorted(results.glob("*.json"))[0]
    assert rows(ok("compare", results, again, results).out) == rows(ok("compare", results).out)


def test_each_setting_has_a_table_of_its_own(results, ok):
    put(results, fake_record("nmc", setting="dil"))
    done = ok("compare", results, "--against", "layup k=1")  # which only one of them has
    headings = [line for line in done.out.splitlines() if line.startswith("digits, ")]
    assert headings == ["digits, cil", "digits, dil"]
    assert [row[0] for row in rows(done.out)] == ["layup k=1", "layup k=6", "nmc", "nmc"]
    assert done.out.count("A_T − layup k=1") == 1
    assert done.out.count("F_T: average forgetting") == 1
    exported = ok("compare", results, "--csv", "-", "--against", "layup k=1")
    lines = list(csv.DictReader(io.StringIO(exported.out)))
    assert [line["subject"] for line in lines] == ["digits, cil"] * 3 + ["digits, dil"]
    assert [bool(line["difference"]) for line in lines] == [False, True, True, False]


def test_what_a_run_of_several_k_took_is_marked(tmp_path, ok):
    folder = put(tmp_path / "r", fake_record(shared_by=2, options={"k": 1}), fake_record("nmc"))
    done = ok("compare", folder)
    assert [row[6] for row in rows(done.out)] == ["300ˢ", "300"]
    assert "for all of them together" in done.out
    assert "together" not in ok("compare", folder, "--metric", "average_accuracy").out


def test_json_is_one_value_with_full_names(results, ok):
    done = ok("compare", results, "--json", "--against", "nmc")
    value = json.loads(done.out)
    assert [row["label"] for row in value] == ["layup k=1", "layup k=6", "nmc"]
    assert value[0]["metrics"]["average_accuracy"]["over"] == "seeds"
    assert value[0]["metrics"]["mean_of_all_tasks_curve"]["mean"] is None
    assert value[0]["against"] == "nmc"


def test_csv_on_the_screen_or_in_a_file(results, ok, tmp_path):
    done = ok("compare", results, "--csv", "-")
    lines = list(csv.DictReader(io.StringIO(done.out)))
    assert [line["run.options.k"] for line in lines] == ["1", "6", ""]
    file = tmp_path / "table.csv"
    with_table = ok("compare", results, "--csv", file)
    assert file.read_text() == done.out
    assert len(rows(with_table.out)) == 3
    assert str(file) in with_table.err
    fewer = ok("compare", results, "--csv", "-", "--metric", "forgetting")
    assert "average_accuracy" not in fewer.out
    both = ok("compare", results, "--csv", file, "--json")
    assert len(json.loads(both.out)) == 3


def test_names_in_records_are_shown_and_neither_obeyed_nor_computed(tmp_path, ok):
    title, formula = "\x1b]0;owned\x07", "=cmd|' /C calc'!A0"
    records = (fake_record(f"[red]{title}\u202e", dataset=formula), fake_record(formula, dataset=formula))
    folder = put(tmp_path / "odd", *records)
    shown = printable(f"[red]{title}\u202e")
    for done in (ok("compare", folder), ok("compare", folder, "--against", "1")):
        assert not has_controls((done.out + done.err).replace("\n", ""))
        assert shown in done.out
        assert formula in done.out
    exported = ok("compare", folder, "--csv", "-").out
    assert not has_controls(exported.replace("\n", ""))
    lines = list(csv.DictReader(io.StringIO(exported)))
    assert {line["run.method"] for line in lines} == {shown, f"'{formula}"}
    assert all(line["run.dataset"] == f"'{formula}" for line in lines)
    assert all(float(line["forgetting"]) == float(line["forgetting"].strip("'")) for line in lines)
    ok("compare", folder, "--csv", tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == exported
    assert len(json.loads(ok("compare", folder, "--json").out)) == 2


# Plot


def opened(path):
    with Image.open(path) as picture:
        picture.load()
        return picture.size


@pytest.mark.slow
def test_pictures_of_several_experiments(results, ok, tmp_path):
    done = ok("plot", results, "--out", tmp_path / "deep" / "pictures", "--against", "nmc")
    names = {
        "over-tasks.png",
        "confusion-layup-k=1.png",
        "confusion-layup-k=6.png",
        "confusion-nmc.png",
        "per-class-layup-k=1-vs-nmc.png",
        "per-class-layup-k=6-vs-nmc.png",
    }
    made = list((tmp_path / "deep" / "pictures").iterdir())
    assert {path.name for path in made} == names
    for path in made:
        assert str(path) in done.out
        assert min(opened(path)) > 400


def test_pictures_of_one_experiment_in_both_formats(tmp_path, ok, monkeypatch):
    put(tmp_path / "one", fake_record())
    monkeypatch.chdir(tmp_path)
    ok("plot", "one", "--format", "both")
    names = {"over-tasks", "confusion-layup", "per-class-layup"}
    made = {path.name for path in (tmp_path / "plots").iterdir()}
    assert made == {f"{name}.{ending}" for name in names for ending in ("png", "svg")}


def test_in_dil_there_is_a_panel_for_all_domains(tmp_path, ok):
    put(tmp_path / "dil", fake_record(setting="dil"))
    ok("plot", tmp_path / "dil", "--out", tmp_path / "out", "--format", "svg")
    assert "mean accuracy of all domains" in (tmp_path / "out" / "over-tasks.svg").read_text()


@pytest.mark.slow
def test_each_dataset_has_pictures_of_its_own(tmp_path, ok):
    folder = put(tmp_path / "r", fake_record(), fake_record("nmc"), fake_record(dataset="other", data="2"))
    done = ok("plot", folder, "--out", tmp_path / "out")
    names = [line.removeprefix(f"{tmp_path}/out/") for line in done.out.splitlines()]
    assert "digits--cil/per-class-nmc-vs-layup.png" in names
    assert "other--cil/per-class-layup.png" in names
    assert not any("other" in name and "nmc" in name for name in names)


# What goes wrong


@pytest.mark.parametrize("command", ["compare", "plot"])
def test_results_that_cannot_be_used(command, tmp_path, refused, layup):
    empty = tmp_path / "empty"
    empty.mkdir()
    refused(command, empty, says=["no record of a finished run", "layup run"])
    refused(command, tmp_path / "missing.json", says=["There is no record", "missing.json"])
    unfinished = tmp_path / "unfinished.json"
    fake_record(finished=False).write(unfinished)
    refused(command, unfinished, says=["not finished: 2 of 3 tasks"])
    damaged = tmp_path / "damaged.json"
    damaged.write_text(unfinished.read_text()[:500])
    refused(command, damaged, says=["damaged.json", "is damaged"])
    newer = tmp_path / "newer.json"
    newer.write_text(json.dumps({**fake_record().to_dict(), "schema": SCHEMA + 1}))
    refused(command, newer, says=["later layup", "Update layup"])
    assert layup(command).code == 2


@pytest.mark.parametrize("command", ["compare", "plot"])
def test_an_unknown_row(command, results, refused):
    refused(command, results, "--against", "layup k=7", says=["Unknown row", "Did you mean 'layup k="])
    refused(command, results, "--against", "4", says=["Unknown row", "numbers from 1 to 3"])


def test_an_unknown_metric(results, refused):
    says = ["Unknown metric 'average_acuracy'", "Did you mean 'average_accuracy'?"]
    refused("compare", results, "--metric", "average_acuracy", says=says)


def test_rows_that_cannot_be_paired(results, refused):
    put(results, fake_record("other", seed=1993))  # of fewer test images
    refused("compare", results, "--json", "--against", "other", says=["tested on different images"])
    put(results, fake_record("another", seed=7, tests_per_class=20))
    refused("compare", results, "--against", "another", says=["no seed in common"])


def test_places_that_cannot_be_written(results, refused, tmp_path):
    (tmp_path / "file").touch()
    refused("plot", results, "--out", tmp_path / "file" / "x", says=["Cannot make the folder", "another"])
    refused("compare", results, "--csv", tmp_path / "nowhere" / "t.csv", says=["t.csv"])


def test_two_outputs_at_once(results, refused):
    refused("compare", results, "--json", "--csv", "-", says=["not both"])


def test_an_unknown_format(results, layup):
    result = layup("plot", results, "--format", "gif")
    assert result.code == 2
    assert "png" in result.err


@pytest.mark.parametrize("command", ["compare", "plot"])
def test_help_shows_what_to_type(command, ok):
    assert f"layup {command} results/" in ok(command, "--help").out
