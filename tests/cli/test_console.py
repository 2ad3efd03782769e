"""Whatever names come from outside, a screen shows them, and obeys none of them."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from layup import progress
from layup.algebra import RidgeClassifier
from layup.benchmark import Evaluation
from layup.cli import console, findings, reports
from layup.features.reader import BadImage
from layup.formats import has_controls, printable
from layup.model import BatchReport, Conflict, Entry, Predictions
from layup.progress import progress_bar

TITLE = "\x1b]0;owned\x07"
CLEAR = "\x9b2J"
EVIL = f"{TITLE}[red]x[/red] :cat: {CLEAR}\u202egnp\u2028\udcff\r\n\tend"
SHOWN = printable(EVIL)
FORMULA = "=cmd|' /C calc'!A0"
HEADER = {
    "features": {"kind": EVIL, "k": 1},
    "classifier": {"kind": EVIL, "lam": EVIL},
    "chosen": {"lambda": 1.0},
    "backbone": {"name": EVIL, "fingerprint": TITLE + "0" * 12, "engine": EVIL, "depth": 12},
    "layers": [[EVIL, 3]],
    "labels": [EVIL],
    "counts": [1],
    "log": [],
    "versions": {EVIL: EVIL},
}
ANSWERS = Predictions([EVIL, FORMULA], np.array([[0.75, -0.25], [-0.5, 0.5]]), [0, 1], [])
DETAILS = console.PredictionDetails(scores=True)
WRONG = Evaluation([Path(EVIL), Path(EVIL)], [FORMULA, EVIL], ANSWERS)


DONE = BatchReport({EVIL: 1}, {EVIL: 1}, conflicts=[Conflict(0, EVIL, EVIL)], missing=[EVIL])
EXPECTED = {"accuracy": 0.5, "low": 0.4, "high": 0.6, "tested": 9, "needs_more": [EVIL]}


class Known:
    """What `knowledge` asks of a model."""

    classes_, counts_ = [EVIL], {EVIL: 1}
    classifier_ = RidgeClassifier("gcv").fit([[1.0]], [EVIL])


def printings(path: Path) -> dict[str, tuple[object, ...]]:
    """Each way to print, with what it is given."""
    return {
        "say": (console.say, EVIL),
        "remark": (console.remark, EVIL),
        "fail": (console.fail, EVIL),
        "table": (console.table, [EVIL], [[EVIL]]),
        "facts": (console.facts, {EVIL: EVIL}),
        "report_bad": (console.report_bad, [BadImage(0, EVIL)], [path]),
        "predictions": (console.predictions, [Path(EVIL), path], ANSWERS, "table", DETAILS),
        "batch": (reports.batch, DONE, Known(), [Path(EVIL)]),
        "conflicts": (reports.conflicts, DONE.conflicts, [Path(EVIL)]),
        "log": (reports.log, [Entry("learn", {EVIL: 1}), Entry("rename", note=EVIL)]),
        "expectation": (reports.expectation, EXPECTED, []),
        "knowledge": (console.knowledge, Path(EVIL), {EVIL: 1}, {"lambda": None}),
        "report": (findings.report, WRONG, findings.Outputs(Path(EVIL), Path(EVIL), Path(EVIL))),
        "report_unknown": (findings.report_unknown, [EVIL]),
        "information": (console.information, HEADER, path, EVIL),
    }


def seen(text: str) -> str:
    """All that was printed, without what draws a table and the breaks of its lines."""
    return "".join(text.split()).translate(dict.fromkeys(map(ord, "│┃┏┓┡┩└┘━─┳╇┴┌┐├┤┼┬")))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "m.layup"
    path.touch()
    return path


@pytest.mark.parametrize("name", printings(Path()))
def test_what_is_printed_is_shown_and_not_obeyed(name, file, capsys, monkeypatch):
    monkeypatch.setattr(console, "WIDE", 500)  # so that no cell is wrapped
    print_it, *given = printings(file)[name]
    print_it(*given)
    printed = "".join(capsys.readouterr())
    assert not has_controls(printed.replace("\n", "")), printed
    assert seen("[red]x[/red] :cat: ") in seen(printed)
    if name != "fail":  # which may be of several lines
        assert seen(SHOWN) in seen(printed)


def test_a_table_that_grows(capsys, monkeypatch):
    monkeypatch.setattr(console, "WIDE", 500)  # so that no cell is wrapped
    with console.live_table(EVIL, ["task", EVIL], 1) as (add_row, advance):
        add_row("1", EVIL)
        advance()
    printed = capsys.readouterr().out
    assert not has_controls(printed.replace("\n", ""))
    assert seen(printed).count(seen(SHOWN)) == 5  # title, heading and cell; the line has a heading and a cell


def test_a_bar(capsys, monkeypatch):
    monkeypatch.setattr(progress, "screen", Console(stderr=True, width=500, force_terminal=True))
    with progress_bar(True, EVIL) as bar:
        bar.add_task(EVIL, total=1, note=EVIL)
    printed = capsys.readouterr().err
    assert TITLE not in printed
    assert CLEAR not in printed
    assert printed.count(SHOWN) >= 3


def test_errors_of_several_lines_stay_so(capsys):
    console.fail("Expected:\n  a/b\n  c/d")
    assert capsys.readouterr().err == "Error: Expected:\n  a/b\n  c/d\n"


def test_json_is_safe_to_show_and_loses_nothing(capsys):
    value = {EVIL: [EVIL, "é 犬 👩‍👩‍👧", 0.5]}
    console.print_json(value)
    printed = capsys.readouterr().out
    assert not has_controls(printed.replace("\n", ""))
    assert "é 犬 👩‍👩‍👧" in printed
    assert json.loads(printed) == value


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_json_loses_nothing_where_letters_are_missing(encoding, monkeypatch):
    """Windows' pipes, for one."""
    code = (
        "import sys; from layup.cli.console import print_json\n"
        "sys.stdout.reconfigure(errors='replace')\n"
        "print_json(['λ é 犬 \\udcff'])"
    )
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert json.loads(done.stdout.decode(encoding)) == ["λ é 犬 \udcff"]


def test_csv_has_a_row_an_image_and_no_formulas(capsys):
    console.predictions([Path(EVIL), Path("-rf\n.png")], ANSWERS, "csv", DETAILS)
    printed = capsys.readouterr().out
    assert not has_controls(printed.replace("\n", ""))
    head, *rows = csv.reader(io.StringIO(printed))
    names = ["path", "label", "confidence", "unknown", "none_of_these", "score", "second", "margin"]
    assert head == [*names, f"score:{SHOWN}", f"score:{FORMULA}"]
    assert rows == [
        [SHOWN, SHOWN, "", "", "", "0.75", f"'{FORMULA}", "1.0", "0.75", "-0.25"],
        [r"'-rf\n.png", f"'{FORMULA}", "", "", "", "0.5", SHOWN, "1.0", "-0.5", "0.5"],
    ]


def test_warnings_of_the_library_are_shown_and_not_obeyed(tmp_path):
    (tmp_path / f"{TITLE}\n.json").write_text("{}")
    code = "import sys; from layup.cli import main; sys.argv = ['layup', 'compare', '.']; main()"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 1
    passed, error = done.stderr.splitlines()
    assert printable(TITLE + "\n.json") in passed
    assert error.startswith("Error: There is no record")
    assert not has_controls(passed + error)
