"""What came out: a table of promises, tries and failures, for the screen, for a page, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from layup import __version__, storage
from torture.runner import Outcome
from torture.worker import Failure

MORE = 8
"""How many further tries are named for failures of one kind."""
COLUMNS = ("promise", "what it says", "tries", "failures", "time")
BEGIN, END = "<!-- python -m torture -->", "<!-- end -->"


def replay(name: str, seed: int, index: int) -> str:
    """The command that makes one try again.

    >>> replay("mutations", 7, 4711)
    'python -m torture mutations --seed 7 --only 4711'
    """
    return f"python -m torture {name} --seed {seed} --only {index}"


def rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """The cells of the table."""
    return [
        [
            outcome.promise.name,
            outcome.promise.says,
            f"{outcome.tries:,}",
            f"{len(outcome.failures):,}",
            f"{outcome.seconds:,.0f} s",
        ]
        for outcome in outcomes
    ]


def explained(outcome: Outcome, seed: int) -> Iterator[str]:
    """Failures, those that seem to be of one cause together, each with the command that repeats it."""

    def kind(failure: Failure) -> str:
        return failure.kind

    for name, group in groupby(sorted(outcome.failures, key=lambda one: (one.kind, one.index)), kind):
        first, *others = group
        more = ", ".join(str(other.index) for other in others[:MORE])
        left = f" … {len(others) - MORE:,} more" if len(others) > MORE else ""
        also = f" Also --only {more}{left}." if others else ""
        yield f"{outcome.promise.name}: {1 + len(others):,} × {name}"
        yield f"    {first.what}"
        yield f"    {replay(outcome.promise.name, seed, first.index)}{also}"


def as_json(outcomes: Sequence[Outcome], seed: int) -> dict[str, Any]:
    """All of it, with every failure."""
    return {
        "layup": __version__,
        "seed": seed,
        "promises": [
            {
                "name": outcome.promise.name,
                "says": outcome.promise.says,
                "tries": outcome.tries,
                "seconds": round(outcome.seconds, 1),
                "failures": [
                    {**failure.to_dict(), "replay": replay(outcome.promise.name, seed, failure.index)}
                    for failure in outcome.failures
                ],
            }
            for outcome in outcomes
        ],
    }


def markdown(outcomes: Sequence[Outcome], command: str) -> str:
    """The table as Markdown, with the command that makes it again."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows(outcomes)]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{table}\n\nlayup {__version__}, `{command}`."


def write_json(path: Path, outcomes: Sequence[Outcome], seed: int) -> None:
    """Keep all of it in a file."""
    storage.write_text(path, json.dumps(as_json(outcomes, seed), indent=1, ensure_ascii=False) + "\n")


def write_markdown(path: Path, outcomes: Sequence[Outcome], command: str) -> None:
    """Keep the table: between its markers, if the file has them, else as the whole file."""
    text = markdown(outcomes, command)
    page = path.read_text("utf-8") if path.exists() else ""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    marked = f"{before}{BEGIN}\n{text}\n{END}{after}" if begin and end else f"{text}\n"
    storage.write_text(path, marked)
