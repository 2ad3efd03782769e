"""Commands for people with results: compare runs, and draw them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layup import storage
from layup.cli import console
from layup.cli.app import app
from layup.cli.options import AsJson
from layup.errors import InputError
from layup.registry import unknown_name

if TYPE_CHECKING:
    from layup.benchmark import Record
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
# Short headings, and below the table what they stand for: eight columns have to fit on a screen.
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
    "mean_of_average_accuracy_curve": "mean A_t: the mean of those after each task",
    "forgetting": "F_T: average forgetting",
    "forward_passes": "passes: images through the network in that run; what the cache had did not pass again",
    "authors_forward_passes": "authors': those of their code, which has no cache",
}
ONE_RUN, JOINT = "ᵇ", "ˢ"
SHARED = {"seconds", "learn_seconds", "predict_seconds", "forward_passes", "training_passes", "peak_memory"}
"""What a run that answers in several ways takes for all of them together."""

Results = Annotated[
    list[Path],
    typer.Argument(help="Records of runs, or folders of them, such as results/.", metavar="RESULTS"),
]


class Format(StrEnum):
    """In which format to draw."""

    png = "png"
    svg = "svg"
    both = "both"


@app.command()
def compare(
    results: Results,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Show this number instead of the usual ones; may be given several times."),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Also the difference to this row: its label, or its number from 1.")
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Write CSV to this file; - for CSV on the screen instead of a table.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare runs in a table: the mean over seeds ± its standard error.

    layup compare results/
    layup compare results/ --against nmc           paired differences
    layup compare results/ --metric backward_transfer --metric peak_memory
    layup compare results/ --csv table.csv         every number, by its full name

    In CSV, a ' goes before names that begin with =, +, - or @, which spreadsheets
    would compute.

    Each dataset and setting has a table of its own, and runs that differ in
    nothing but seeds are one row. A row of a single run, or of several that
    end with the same answers, has the error of a bootstrap over its test
    images, marked ᵇ. Differences are between runs of the same seed, so what
    both share cancels.
    """
    from layup.benchmark import comparison, find_records

    if as_json and csv == STDOUT:
        raise InputError("Give --json or --csv -, not both: each prints something else.")
    for name in metric or ():
        if name not in comparison.METRICS:
            raise unknown_name("metric", name, comparison.METRICS)
    parts = _parts(find_records(results), against)
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


@app.command()
def plot(
    results: Results,
    out: Annotated[Path, typer.Option(help="Folder for the pictures.")] = Path("plots"),
    against: Annotated[
        str | None,
        typer.Option(help="The row to which classes are compared: its label or number. Default: the first."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="Of the pictures.")] = Format.png,
) -> None:
    """Draw runs: accuracy and forgetting over tasks, what is confused, and which classes change.

    layup plot results/ --out pictures/
    layup plot results/ --against nmc --format svg

    Lines are means over seeds, shades the standard error. Of several experiments,
    each class is compared to that of the first (or --against); of a single one,
    the end is compared to when the class was new.
    """
    from layup.benchmark import find_records

    parts = _parts(find_records(results), against)
    folders = [out / name for name in _file_names(found.subject for found, _ in parts)]
    for (found, baseline), folder in zip(parts, folders if len(parts) > 1 else [out], strict=True):
        storage.make_folder(folder)
        for name, draw in _pictures(found, baseline or found.groups[0]):
            for ending in ("png", "svg") if form is Format.both else (form.value,):
                path = folder / f"{name}.{ending}"
                draw(path)
                console.say(str(path))
        for note in found.notes:
            console.remark(note)


def _parts(records: Sequence[Record], against: str | None) -> list[tuple[Comparison, Group | None]]:
    """The comparison within each dataset and setting, and its baseline, if it has one of that label."""
    from layup.benchmark.comparison import compare

    parts: list[tuple[Comparison, Group | None]] = []
    unknown: InputError | None = None
    for found in compare(records):
        baseline = None
        if against is not None:
            try:
                baseline = found.find(against)
            except InputError as error:
                unknown = error
        parts.append((found, baseline))
    if unknown and not any(baseline for _, baseline in parts):
        raise unknown
    return parts


def _pictures(found: Comparison, baseline: Group) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """The name of each picture, and what draws it to a path."""
    from layup.benchmark import plots
    from layup.benchmark.comparison import accuracy_curve, forgetting_curve, over_all_curve

    groups = found.groups
    curves = {"average accuracy Aₜ": accuracy_curve, "forgetting Fₜ": forgetting_curve}
    if any(group.run.get("setting") == "dil" for group in groups):
        curves["mean accuracy of all domains"] = over_all_curve
    panels = {what: {group.label: group.curve(of) for group in groups} for what, of in curves.items()}
    yield "over-tasks", partial(plots.over_tasks, panels=panels, title=found.subject)
    names = _file_names(group.label for group in groups)
    for group, name in zip(groups, names, strict=True):
        labels, table = group.confusion()
        learned = labels == group.records[0].class_order and group.run.get("setting") != "dil"
        order = (
            "of learning"
            if learned
            else "of the dataset"
            if labels == group.records[0].class_order
            else "of names"
        )
        title = f"{group.label}, after the last task; classes in the order {order}"
        yield f"confusion-{name}", partial(plots.confusion_matrix, labels=labels, table=table, title=title)
    base = names[groups.index(baseline)]
    ends = baseline.per_class()
    if len(groups) == 1:
        title = f"{baseline.label}: from when a class was new to the end"
        first = baseline.per_class(first=True)
        yield f"per-class-{base}", partial(plots.per_class_change, before=first, after=ends, title=title)
    for group, name in zip(groups, names, strict=True):
        after = group.per_class()
        if group is not baseline and ends.keys() & after.keys():  # not those of other data
            title = f"{group.label}, compared to {baseline.label}"
            draw = partial(plots.per_class_change, before=ends, after=after, title=title)
            yield f"per-class-{name}-vs-{base}", draw


def _file_names(labels: Iterable[str]) -> list[str]:
    """A file name for each label, all different; also where upper and lower case are the same.

    >>> _file_names(["layup k=6", "nmc/a", "nmc a", "NMC a"])
    ['layup-k=6', 'nmc-a', 'nmc-a-2', 'NMC-a-3']
    """
    found: list[str] = []
    seen: dict[str, int] = {}
    for label in labels:
        name = "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in label)
        count = seen[name.lower()] = seen.get(name.lower(), 0) + 1
        found.append(name if count == 1 else f"{name}-{count}")
    return found


def _table(found: Comparison, names: Sequence[str], baseline: Group | None) -> set[str]:
    """The table; gives back what its errors are over."""
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
            f"{ONE_RUN} One run, or several with the same answers: the standard error (and 95 % interval) "
            "over its test images, by bootstrap."
        )
    if "joint" in marks:
        console.say(f"{JOINT} Of a run that answered for several k at once: for all of them together.")


def _cell(name: str, value: Measured, joint: bool) -> str:
    """A number as people read it, with its error, and marked where it is of several experiments."""
    return _number(name, value) + (JOINT if joint and name in SHARED else "")


def _number(name: str, value: Measured) -> str:
    from layup.benchmark.comparison import COSTS

    if value.mean is None:
        return "–"
    if name.endswith(("_bytes", "_memory")):
        return console.size_of(value.mean)
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
