"""What the command line prints: tables for people on standard output, remarks on standard error.

Names come from outside: all text goes through `shown`, `json_text` or `csv_text`, and no command stays in it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table as Drawn
from rich.text import Text

from layup import memory
from layup.formats import (
    csv_text,
    json_text,
    printable_lines,
    size_of,
    whole_percent,
)
from layup.progress import screen, shown
from layup.tables import Table, to_rich

if TYPE_CHECKING:
    from layup.benchmark import Record
    from layup.features import BadImage
    from layup.model import ImageModel, Predictions

MANY = 40
"""Tables on a screen stop here; piped ones do not."""
WIDE = 160
"""Columns of a table that is piped: nobody's screen is too narrow for it."""

MUCH = 100_000_000
"""Bytes of memory that are worth a word."""

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A sentence of the result."""
    out.print(shown(text), soft_wrap=True)


def remark(text: str) -> None:
    """A sentence beside the result."""
    err.print(shown(text), soft_wrap=True)


def fail(text: str) -> None:
    """Why it did not work, in a line or several."""
    err.print(Text.assemble(("Error:", "bold red"), " ", printable_lines(text)), soft_wrap=True)


class Remarks(logging.Handler):
    """Makes a remark of whatever the library logs."""

    def emit(self, record: logging.LogRecord) -> None:
        """One record, in a line."""
        remark(record.getMessage())


def print_json(value: object) -> None:
    """Exactly one JSON value on standard output."""
    text = json_text(value, indent=2)
    if not _can_be_written(text):
        text = json_text(value, indent=2, ascii_only=True)
    sys.stdout.write(f"{text}\n")


def _can_be_written(text: str) -> bool:
    """Whether standard output has all of these letters: of others it makes question marks."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def print_csv(text: str) -> None:
    """CSV on standard output; letters that it lacks are written out."""
    encoding = sys.stdout.encoding or "utf-8"  # what is no file has none
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> None:
    """A table: as many columns of text on the left, numbers and answers on the right."""
    show(Table.of(columns, rows, texts))


def show(table: Table) -> None:
    """A table with its title, why cells are empty, and its notes."""
    if table.title:
        say(table.title)
    most = MANY if out.is_terminal else len(table.rows)  # a file can hold them all
    _print_table(to_rich(table, most))
    if len(table.rows) > most:
        say(f"… and {len(table.rows) - most:,} more rows.")
    for reason, letter in table.letters.items():
        say(f"({letter}) {reason}")
    for note in table.notes:
        say(note)


def _print_table(drawn: Drawn) -> None:
    sheet = out if out.is_terminal else Console(highlight=False, file=out.file, width=max(WIDE, out.width))
    sheet.print(drawn)


@contextmanager
def live_table(
    title: str, columns: Sequence[str], steps: int
) -> Iterator[tuple[Callable[..., None], Callable[[], None]]]:
    """A table that grows, above a bar of so many steps: gives `add_row` and `advance`.

    Where nobody is looking (a log file, say), each row is a line when it comes, and the table follows.
    """
    drawn = Drawn(title=shown(title), title_justify="left", title_style="bold")
    for column in columns:
        drawn.add_column(shown(column))
    bar = Progress(BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(), console=screen)
    task = bar.add_task("", total=steps)

    def add_row(*cells: str) -> None:
        drawn.add_row(*map(shown, cells))
        if not screen.is_terminal:
            say(" · ".join(f"{name}: {cell}" for name, cell in zip(columns, cells, strict=True)))

    with Live(Group(drawn, bar), console=screen, transient=True):
        yield add_row, lambda: bar.advance(task)
    _print_table(drawn)


def facts(values: Mapping[str, object]) -> None:
    """Names and values, one pair a line."""
    drawn = Drawn.grid(padding=(0, 2))
    for name, value in values.items():
        drawn.add_row(shown(name, "bold"), shown(str(value)))
    out.print(drawn)


def report_bad(bad: Sequence[BadImage], paths: Sequence[Path]) -> None:
    """How many files were skipped, which, and why."""
    if not bad:
        return
    remark(f"Skipped {len(bad)} of {len(paths)} files (--strict stops instead):")
    for one in bad[:MANY]:
        remark(f"  {one.reason}")
    if len(bad) > MANY:
        remark(f"  … and {len(bad) - MANY:,} more.")


def predictions(paths: Sequence[Path], found: Predictions, style: str) -> None:
    """One row per image; `style` is table, json or csv."""
    classes = found.classes
    rows = zip(paths, found.labels, found.scores.tolist(), strict=True)
    if style == "json":
        print_json(
            [
                {"path": str(path), "label": label, "scores": dict(zip(classes, row, strict=True))}
                for path, label, row in rows
            ]
        )
    elif style == "csv":
        head = ["path", "label", *(f"score:{label}" for label in classes)]
        print_csv(csv_text([head, *([path, label, *row] for path, label, row in rows)]))
    else:
        lines = []
        for path, label, row in rows:
            best, *others = sorted(
                zip(row, classes, strict=True), key=lambda pair: (pair[0], pair[1] == label)
            )[::-1]
            second = f"{others[0][1]} {others[0][0]:.2f}" if others else ""
            lines.append([str(path), label, f"{best[0]:.2f}", second])
        table(["image", "label", "score", "next best"], lines)


def changes(counts: Mapping[str, int], totals: Mapping[str, int], verb: str) -> None:
    """What a batch changed, class by class."""
    rows = [[label, f"{count:,}", f"{totals.get(label, 0):,}"] for label, count in counts.items()]
    table(["class", verb, "now holds"], rows)


def knowledge(path: Path, model: ImageModel) -> None:
    """What a model knows after a change, in a line."""
    classes, photos = len(model.classes_), sum(model.counts_.values())
    chosen = model.classifier_.chosen()
    lam = ""
    if "lambda" in chosen:
        lam = f"; {'λ follows from the sums' if chosen['lambda'] is None else f'λ = {model.lambda_:g}'}"
    knows = (
        f"{classes:,} class{'es' if classes != 1 else ''} from {photos:,} photo{'s' if photos != 1 else ''}"
    )
    say(f"{path} now knows {knows}{lam}.")


def accuracies(per_class: Mapping[str, float], sizes: Mapping[str, int]) -> None:
    """Accuracy by class, the worst first: that is what people look for."""
    worst_first = sorted(per_class.items(), key=lambda item: (item[1], item[0]))
    rows = [[label, f"{sizes[label]:,}", f"{value:.3f}"] for label, value in worst_first]
    table(["class", "images", "accuracy"], rows)


def measured(records: Mapping[str, Record], paths: Mapping[str, Path], authors_passes: int) -> None:
    """What a run has measured, and where its records are."""
    for name, record in records.items():
        found = record.summary
        forgetting = found["forgetting"]
        words = [f"average accuracy {found['average_accuracy']:.3f}"]
        words += [] if forgetting is None else [f"forgetting {forgetting:.3f}"]
        say(f"{f'k = {name}: ' if name else ''}{', '.join(words)}. Record: {paths[name]}")
    ours = sum(step.forward_passes for step in next(iter(records.values())).steps)
    say(
        f"Images through the network: {ours:,}. In the authors' code, which passes the tests of all tasks so "
        f"far again after every task, it would be {authors_passes:,}."
    )


def forecast(found: memory.Forecast) -> None:
    """How much memory it will take, and how much there is, where that is worth a word."""
    if found.total < MUCH:
        return
    free = memory.available()
    remark(f"Memory: {found} beside the network{'' if free is None else f', {size_of(free)} free'}.")


def share(k: int, depth: int) -> str:
    """K as a count and as a share of the depth.

    >>> share(6, 17)
    '6 of 17 layers (35 %)'
    """
    return f"{k} of {depth} layers ({whole_percent(k / depth)})"


def adaptation(adapted: Mapping[str, Any], picture: Path) -> None:
    """What the first session did to the backbone, in a line."""
    found = _adaptation(adapted)
    say(f"Adapted with {found['adapter']}; {found['first session']}. Picture: {picture}")


def _adaptation(adapted: Mapping[str, Any]) -> dict[str, object]:
    """An adapter and how it was tuned, in words."""
    settings = dict(adapted["adapter"])
    name = settings.pop("name")
    values: dict[str, object] = {
        "adapter": f"{name} ({_listed({**settings, 'tuned values': adapted['tuned_values']})})"
    }
    if record := adapted["record"]:
        epochs, kept = record["epochs"], record["kept"]
        held_out = epochs[kept - 1]["accuracy"]
        ending = "" if held_out is None else f", held-out accuracy {held_out:.3f}"
        values["first session"] = (
            f"epoch {kept} of {len(epochs)} kept, loss {epochs[kept - 1]['loss']:.3f}{ending}"
        )
        values["its settings"] = _listed({k: v for k, v in record["session"].items() if k != "adapter"})
    return values


def _listed(settings: Mapping[str, object]) -> str:
    """Names and values in a line.

    >>> _listed({"batch_size": 48, "tuned values": 1189632, "patience": None})
    'batch size 48, tuned values 1,189,632, patience none'
    """
    words = {True: "yes", False: "no", None: "none"}

    def text(value: object) -> object:
        if isinstance(value, bool | None):
            return words[value]
        return f"{value:,}" if isinstance(value, int) else value

    return ", ".join(f"{name.replace('_', ' ')} {text(value)}" for name, value in settings.items())


def information(header: Mapping[str, Any], path: Path) -> None:
    """All that a model file says of itself."""
    counts = dict(zip(header["labels"], header["counts"], strict=True))
    layers = [name for name, _ in header["layers"]]
    width = sum(width for _, width in header["layers"])
    classifier, features = dict(header["classifier"]), dict(header["features"])
    values: dict[str, object] = {
        "file": f"{path} ({size_of(path.stat().st_size)})",
        "classifier": classifier["kind"],
        "features": features.pop("kind"),
        "backbone": f"{header['backbone']['name']} (fingerprint {header['backbone']['fingerprint'][:12]})",
        "engine": header["backbone"]["engine"],
        "layers": f"{', '.join(layers)}; {width:,} values",
    }
    if adapted := header["backbone"].get("adapted"):
        values |= _adaptation(adapted)
    if "k" in features:
        values["k"] = share(features["k"], header["backbone"]["depth"])
    if "lambda" in header["chosen"]:
        lam = header["chosen"]["lambda"]
        chosen = "from the sums, when needed" if lam is None else f"{lam:g}"
        values["λ"] = f"{chosen} (rule: {classifier['lam']})"
    if "balance" in classifier:
        values["balance"] = "on" if classifier["balance"] else "off"
    values["learned"] = (
        f"{sum(counts.values()):,} images of {len(counts):,} classes; batches: {len(header['batches'])}"
    )
    values["versions"] = ", ".join(f"{name} {number}" for name, number in header["versions"].items())
    facts(values)
    table(["class", "images"], [[label, f"{count:,}"] for label, count in counts.items()])
    single = [label for label, count in counts.items() if count == 1]
    if single:
        remark(
            f"Classes of one photo only: {len(single)}. "
            "For such a class the file holds that photo's feature vector."
        )
