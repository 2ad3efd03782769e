"""Commands for records of runs: compare them, and draw them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layup import storage
from layup.cli import console
from layup.cli.app import RESEARCH, app
from layup.cli.options import AsJson
from layup.errors import InputError
from layup.formats import DASH, size_of
from layup.registry import unknown_name

if TYPE_CHECKING:
    from layup.benchmark.comparison import Comparison, Difference, Group, Measured

STDOUT = Path("-")
DEFAULT_METRICS = (
    "average_accuracy",
    "mean_of_average_accuracy_curve",
    "forgetting",
    "seconds",
    "forward_passes",
    "authors_forward_passes",
    "state_bytes",
)
# Short headings, explained below the table: eight columns have to fit on a screen.
HEADINGS = {
    "average_accuracy": "A_T",
    "mean_of_average_accuracy_curve": "mean A_t",
    "forgetting": "F_T",
    "forward_passes": "passes",
    "authors_forward_passes": "authors'",
    "state_bytes": "state",
}
MEANINGS = {
    "average_accuracy": "A_T: average accuracy after the last task",
    "mean_of_average_accuracy_curve": "mean A_t: the mean of the average accuracies after each task",
    "forgetting": "F_T: average forgetting",
    "forward_passes": "passes: images through the network in that run (cached images do not pass again)",
    "authors_forward_passes": "authors': the passes of their code, which has no cache",
}
ONE_RUN, JOINT = "ᵇ", "ˢ"
SHARED = {"seconds", "learn_seconds", "predict_seconds", "forward_passes", "training_passes", "peak_memory"}
"""Costs that a run with several k has for all of them together."""

Results = Annotated[
    list[Path],
    typer.Argument(help="Records of runs, or folders of them, such as results/.", metavar="RESULTS"),
]


class Format(StrEnum):
    """The format of pictures."""

    png = "png"
    svg = "svg"
    both = "both"

    @property
    def endings(self) -> list[str]:
        """The endings of the files."""
        return ["png", "svg"] if self is Format.both else [self.value]


@app.command(rich_help_panel=RESEARCH)
def compare(
    results: Results,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Show this metric instead of the usual ones; may be given several times."),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help="Also show the difference from this row: its label, or its number, from 1."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Also write CSV to this file; - prints CSV instead of the table.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs in a table: the mean over seeds ± its standard error.

    layup compare results/
    layup compare results/ --against nmc           paired differences
    layup compare results/ --metric backward_transfer --metric peak_memory
    layup compare results/ --csv table.csv         every number, by its full name

    There is one table per dataset and setting. Runs that differ only in their
    seeds are one row. If a row has a single run, or several with the same final
    predictions, its error is from a bootstrap over the test images, marked ᵇ.
    Differences are between runs of the same seed.

    In CSV, names that a spreadsheet would take for a formula (they begin with
    =, +, - or @) get a ' in front.
    """
    from layup.benchmark import comparison, find_records

    if as_json and csv == STDOUT:
        raise InputError("Give --json or --csv -, not both.")
    for name in metric or ():
        if name not in comparison.METRICS:
            raise unknown_name("metric", name, comparison.METRICS)
    parts = comparison.compare_to(find_records(results), against)
    if as_json or csv is not None:
        names = tuple(metric or comparison.METRICS)
        rows = [row for found, baseline in parts for row in comparison.to_json(found, names, baseline)]
        if csv == STDOUT:
            console.print_csv(comparison.to_csv(rows))
        elif csv is not None:
            storage.write_text(csv, comparison.to_csv(rows))
            console.remark(f"CSV: {csv}")
        if as_json:
            console.print_json(rows)
    if not as_json and csv != STDOUT:
        marks: set[str] = set()
        names = tuple(metric or DEFAULT_METRICS)
        for found, baseline in parts:
            marks |= _table(found, names, baseline)
        _legend(names, marks)
    for note in dict.fromkeys(note for found, _ in parts for note in found.notes):
        console.remark(note)


@app.command(rich_help_panel=RESEARCH)
def plot(
    results: Results,
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("plots"),
    against: Annotated[
        str | None,
        typer.Option(help="The row to compare classes with: its label or number. Default: the first."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="Format of the pictures.")] = Format.png,
) -> None:
    """Draw runs: accuracy and forgetting over tasks, confusion matrices, and which classes gain or lose.

    layup plot results/ --out pictures/
    layup plot results/ --against nmc --format svg

    Runs that differ only in their seeds are one row, as in `layup compare`. Lines
    are means over seeds, shaded areas the standard error. With several rows, the
    accuracy per class is compared with that of the first row (or --against). With
    a single row, it is compared with the accuracy when the class was new.
    """
    from layup.benchmark import comparison, figures, find_records

    records = find_records(results)
    for path in figures(records, out, against=against, formats=form.endings):
        console.say(str(path))
    for found in comparison.compare(records):
        for note in found.notes:
            console.remark(note)


def _table(found: Comparison, names: Sequence[str], baseline: Group | None) -> set[str]:
    """Print the table; return what its errors are over."""
    from layup.benchmark.comparison import difference

    headings = [HEADINGS.get(name, name.replace("_", " ")) for name in names]
    columns = ["run", "seeds", *headings]
    columns += [] if baseline is None else [f"A_T − {baseline.label}"]
    rows = []
    overs: set[str | None] = set()
    for group in found.groups:
        measured = {name: group.measure(name) for name in names}
        row = [group.label, str(len(group.records))]
        joint = any(step.shared_by > 1 for record in group.records for step in record.steps)
        row += [_cell(name, value, joint) for name, value in measured.items()]
        overs |= {value.over for value in measured.values()}
        if joint and SHARED & {*names}:
            overs.add("joint")
        if baseline is not None:
            gap = None if group is baseline else difference(group, baseline)
            row.append("" if gap is None else _gap(gap))
            overs.add(None if gap is None else gap.over)
        rows.append(row)
    console.say(found.subject)
    console.table(columns, rows)
    return {over for over in overs if over}


def _legend(names: Sequence[str], marks: set[str]) -> None:
    """What headings and marks mean."""
    if meanings := [MEANINGS[name] for name in names if name in MEANINGS]:
        console.say("; ".join(meanings) + ".")
    if "seeds" in marks:
        console.say("± is the standard error over seeds.")
    if "images" in marks:
        console.say(
            f"{ONE_RUN} One run, or several with the same predictions: the standard error (and 95 % "
            "interval) over its test images, by bootstrap."
        )
    if "joint" in marks:
        console.say(f"{JOINT} One run for several k: for all of them together.")


def _cell(name: str, value: Measured, joint: bool) -> str:
    """A number with its error, marked if it is of several experiments together."""
    return _number(name, value) + (JOINT if joint and name in SHARED else "")


def _number(name: str, value: Measured) -> str:
    from layup.benchmark.comparison import COSTS

    if value.mean is None:
        return DASH
    if name.endswith(("_bytes", "_memory")):
        return size_of(value.mean)
    if name.endswith("seconds"):
        return f"{value.mean:,.1f}" if value.mean < 100 else f"{value.mean:,.0f}"
    if name in COSTS:
        return f"{value.mean:,.0f}"
    return f"{value.mean:.3f}{_error(value.error, value.over)}"


def _gap(gap: Difference) -> str:
    interval = "" if gap.low is None or gap.high is None else f" [{gap.low:+.3f}, {gap.high:+.3f}]"
    return f"{gap.mean:+.3f}{_error(gap.error, gap.over)}{interval}"


def _error(error: float | None, over: str | None) -> str:
    return "" if error is None else f" ± {error:.3f}{ONE_RUN if over == 'images' else ''}"
