"""What the command line prints: tables on standard output, remarks on standard error.

Names come from outside: `shown`, `json_text` and `csv_text` remove terminal commands from all text.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
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
    plural,
    printable_lines,
    size_of,
    whole_percent,
)
from layup.progress import screen, shown
from layup.tables import Table, to_rich

if TYPE_CHECKING:
    from layup.benchmark import Record
    from layup.export import About
    from layup.features import BadImage
    from layup.model import Predictions

SURE = 0.995
"""The largest confidence that is shown as a number."""
MANY = 40
"""Tables on a screen stop here; piped ones do not."""
WIDE = 160
"""The width of a table that is piped, in characters."""

MUCH = 100_000_000
"""Bytes of memory that are worth a remark."""

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def say(text: str) -> None:
    """A sentence of the result."""
    out.print(shown(text), soft_wrap=True)


def remark(text: str) -> None:
    """A sentence in addition to the result, on standard error."""
    err.print(shown(text), soft_wrap=True)


def fail(text: str) -> None:
    """Why it did not work, in a line or several."""
    err.print(Text.assemble(("Error:", "bold red"), " ", printable_lines(text)), soft_wrap=True)


def remarks(texts: Iterable[str]) -> None:
    """Several remarks."""
    for text in texts:
        remark(text)


class Remarks(logging.Handler):
    """Prints what the library logs as remarks."""

    def emit(self, record: logging.LogRecord) -> None:
        """One record, in a line."""
        remark(record.getMessage())


def print_json(value: object, indent: int | None = 2) -> None:
    """Exactly one JSON value on standard output; without an indent, on one line."""
    text = json_text(value, indent=indent)
    if not _can_be_written(text):
        text = json_text(value, indent=indent, ascii_only=True)
    sys.stdout.write(f"{text}\n")


def _can_be_written(text: str) -> bool:
    """Whether standard output can encode this text; it would print other letters as question marks."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True


def print_csv(text: str) -> None:
    """CSV on standard output; letters that it cannot encode are escaped."""
    encoding = sys.stdout.encoding or "utf-8"  # a stream that is not a file has none
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> None:
    """A table with `texts` columns of text on the left, and numbers on the right."""
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
    """A table that grows, above a progress bar of `steps` steps: gives `add_row` and `advance`.

    Where the output is not a terminal (a log file, say), each row is a line, and the table comes at the end.
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
    """Names and values, one pair per line."""
    drawn = Drawn.grid(padding=(0, 2))
    for name, value in values.items():
        drawn.add_row(shown(name, "bold"), shown(str(value)))
    out.print(drawn)


def report_bad(bad: Sequence[BadImage], paths: Sequence[object]) -> None:
    """How many files were skipped, which, and why."""
    if not bad:
        return
    remark(f"Skipped {len(bad)} of {len(paths)} files (--strict stops instead):")
    for one in bad[:MANY]:
        remark(f"  {one.reason}")
    if len(bad) > MANY:
        remark(f"  … and {len(bad) - MANY:,} more.")


def predictions(photos: Sequence[object], found: Predictions, style: str, details: PredictionDetails) -> None:
    """One row per image; `style` is table, json or csv."""
    rows = list(prediction_rows(photos, found, details))
    if style == "json":
        print_json(rows)
    elif style == "csv":
        print_csv(csv_text(_prediction_cells(rows, found.classes)))
    else:
        table(*_prediction_table(rows, found.probabilities is not None), texts=2)


@dataclass(frozen=True)
class PredictionDetails:
    """What is printed of a prediction besides its label: all scores, and the labels of this coverage."""

    scores: bool = False
    coverage: float | None = None


def prediction_rows(
    photos: Sequence[object], found: Predictions, details: PredictionDetails
) -> Iterator[dict[str, Any]]:
    """What is printed of each prediction, by name."""
    sets = None if details.coverage is None else found.sets(details.coverage)
    for i, (photo, prediction) in enumerate(zip(photos, found.each(), strict=True)):
        row = {"path": str(photo), **asdict(prediction)}
        if sets is not None:
            row["labels"] = sets[i]
        if details.scores:
            row["scores"] = dict(zip(found.classes, found.scores[i].tolist(), strict=True))
        yield row


def _prediction_cells(rows: Sequence[Mapping[str, Any]], classes: Sequence[str]) -> Iterator[list[object]]:
    """The head and the rows of a CSV file: sets of labels in one cell, each score in its own."""
    names = ("path", "label", "confidence", "unknown", "none_of_these", "score", "second", "margin")
    sets = ["labels"] if rows and "labels" in rows[0] else []
    yield [*names, *sets, *(f"score:{label}" for label in classes if rows and "scores" in rows[0])]
    for row in rows:
        labels = [" | ".join(row["labels"])] if sets else []
        yield [*(row[name] for name in names), *labels, *row.get("scores", {}).values()]


def _prediction_table(rows: Sequence[Mapping[str, Any]], probable: bool) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of the table: confidence, or, where there is none, the score."""
    heads = ["image", "label", "confidence" if probable else "score"]
    sets = bool(rows) and "labels" in rows[0]
    cells = []
    for row in rows:
        label = f"unknown ({row['label']}?)" if row["unknown"] else row["label"]
        second = "" if row["second"] is None else row["second"]
        cells.append([row["path"], label, _sure(row), ", ".join(row["labels"]) if sets else second])
    return [*heads, "labels" if sets else "next best"], cells


def _sure(row: Mapping[str, Any]) -> str:
    """How sure the label is, or that it is of none of the classes: nobody is completely sure.

    >>> _sure({"confidence": 0.998, "unknown": False}), _sure({"confidence": None, "score": 0.25})
    ('> 99 %', '0.25')
    >>> _sure({"confidence": 0.998, "unknown": True, "none_of_these": 0.8})
    '80 %'
    """
    if row["confidence"] is None:
        return f"{row['score']:.2f}"
    sure = row["none_of_these" if row["unknown"] else "confidence"]
    return "> 99 %" if sure > SURE else whole_percent(sure)


def knowledge(path: Path, counts: Mapping[str, int], chosen: Mapping[str, Any]) -> None:
    """What a model knows, and its λ, in a line."""
    lam = ""
    if "lambda" in chosen:
        lam = "; λ follows from the sums" if chosen["lambda"] is None else f"; λ = {chosen['lambda']:g}"
    classes, photos = plural(len(counts), "class", "es"), plural(sum(counts.values()), "photo")
    say(f"{path} knows {classes} from {photos}{lam}.")


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
        f"Images through the network: {ours:,}. The authors' code, which passes the test images of all "
        f"tasks so far again after every task, would need {authors_passes:,}."
    )


def forecast(found: memory.Forecast) -> None:
    """How much memory a run will take, and how much is free, if that is worth a remark."""
    if found.total < MUCH:
        return
    free = memory.available()
    remark(f"Memory: {found} besides the network{'' if free is None else f', {size_of(free)} free'}.")


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


def _known(photos: Mapping[str, Any]) -> str:
    """How many photos a file would recognise."""
    return f"{sum(section['photos'] for section in photos['sections']):,} digests, encrypted"


def predict_only_information(header: Mapping[str, Any], path: Path) -> None:
    """All that a predict-only file says of itself."""
    facts(
        {
            **_network(header, path),
            "holds": "weights: it predicts, and cannot be taught",
            "confidence": _sureness("calibration" in header),
            "versions": _versions(header),
        }
    )
    table(["class"], [[label] for label in header["labels"]])


def graph_information(about: About, path: Path) -> None:
    """All that an exported graph says of itself."""
    facts(
        {
            "file": f"{path} ({size_of(path.stat().st_size)})",
            "classifier": about.classifier,
            "features": about.features,
            "backbone": f"{about.backbone['name']} (fingerprint {about.backbone['fingerprint'][:12]})",
            "precision": about.precision,
            "holds": "pixels to labels: it predicts, and cannot be taught",
            "confidence": _sureness(about.calibration is not None),
            "versions": _versions(vars(about)),
        }
    )
    table(["class"], [[label] for label in about.labels])


def _sureness(measured: bool) -> str:
    return "measured on its photos" if measured else "a rule of thumb, if any"


def _network(header: Mapping[str, Any], path: Path) -> dict[str, object]:
    """What any model file says of its classifier, features and network."""
    layers = [name for name, _ in header["layers"]]
    width = sum(width for _, width in header["layers"])
    features = dict(header["features"])
    rounded = features["kind"] == "rounded"
    if rounded:
        features = dict(features["of"])
    values: dict[str, object] = {
        "file": f"{path} ({size_of(path.stat().st_size)})",
        "classifier": header["classifier"]["kind"],
        "features": features.pop("kind") + (", rounded: sums are exact" if rounded else ""),
        "backbone": f"{header['backbone']['name']} (fingerprint {header['backbone']['fingerprint'][:12]})",
        "engine": header["backbone"]["engine"],
        "layers": f"{', '.join(layers)}; {width:,} values",
    }
    if adapted := header["backbone"].get("adapted"):
        values |= _adaptation(adapted)
    if "k" in features:
        values["k"] = share(features["k"], header["backbone"]["depth"])
    return values


def _versions(header: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {number}" for name, number in header["versions"].items())


def information(header: Mapping[str, Any], path: Path, state_hash: str | None) -> None:
    """All that a model file says of itself."""
    counts = dict(zip(header["labels"], header["counts"], strict=True))
    classifier = header["classifier"]
    values = _network(header, path)
    if "lambda" in header["chosen"]:
        lam = header["chosen"]["lambda"]
        chosen = "from the sums, when needed" if lam is None else f"{lam:g}"
        values["λ"] = f"{chosen} (rule: {classifier['lam']})"
    if "strength" in header["chosen"]:
        values["strength of λ"] = f"{header['chosen']['strength']:g} (rule: {classifier['strength']})"
    if "balance" in classifier:
        values["balance"] = "on" if classifier["balance"] else "off"
    values["learned"] = f"{sum(counts.values()):,} images of {len(counts):,} classes"
    if state_hash is not None:
        values["state hash"] = state_hash
    values["log"] = f"{len(header['log']):,} entries; `layup log` shows them"
    values["photos"] = "anonymous: no digests" if "photos" not in header else _known(header["photos"])
    if "roots" in header:
        values["roots"] = "one per class: a class can be forgotten exactly without its photos"
    values["versions"] = _versions(header)
    facts(values)
    table(["class", "images"], [[label, f"{count:,}"] for label, count in counts.items()])
    single = [label for label, count in counts.items() if count == 1]
    if single:
        remark(
            f"Classes with only one photo: {len(single)}. "
            "For such a class the file holds that photo's feature vector."
        )
