"""What was measured, as a table for people, as JSON, and as Markdown."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from layup import machine
from layup.benchmark.plots import Trend
from layup.performance.timing import Ratio
from layup.tables import Table, to_markdown

BEGIN, END = "<!-- layup bench {} -->", "<!-- end -->"


@dataclass(frozen=True)
class Report:
    """A table and the rows of numbers that it was made of.

    notes: sentences below the table.
    speedups, trends: the ratios in it by name, or what grows with what, for the picture.
    texts: how many columns on the left are words.
    """

    name: str
    title: str
    columns: Sequence[str]
    cells: Sequence[Sequence[str]]
    notes: Sequence[str]
    rows: Sequence[Any]
    speedups: Mapping[str, Ratio] = field(default_factory=dict)
    trends: Mapping[str, Mapping[str, Trend]] = field(default_factory=dict)
    texts: int = 1

    @property
    def table(self) -> Table:
        """As people see it."""
        return replace(Table.of(self.columns, self.cells, self.texts), title=self.title, notes=self.notes)

    def to_json(self) -> str:
        """All of it, with the versions and the kind of machine that it was measured on."""
        measured_on = {**machine.describe(), "threads": torch.get_num_threads()}
        values = {
            "name": self.name,
            "title": self.title,
            "columns": list(self.columns),
            "cells": [list(row) for row in self.cells],
            "notes": list(self.notes),
            "rows": [asdict(row) for row in self.rows],
            "machine": measured_on,
            "versions": machine.versions(),
        }
        return json.dumps(values, ensure_ascii=False, indent=1) + "\n"


def agreement(predictions: ArrayLike, others: ArrayLike) -> float:
    """The share of equal answers.

    >>> agreement(["a", "b"], ["a", "c"])
    0.5
    """
    return float((np.asarray(predictions) == np.asarray(others)).mean())


def times(ratio: Ratio) -> str:
    """A ratio as people read it.

    >>> times(Ratio(23.456, 20.1, 31.0, 1.0, 0.04, 3)), times(Ratio(1.234, 1.234, 1.234, 1.0, 0.8, 1))
    ('23.5× (20.1 … 31)', '1.23×')
    """
    spread = "" if ratio.pairs == 1 else f" ({ratio.low:.3g} … {ratio.high:.3g})"
    return f"{ratio.median:.3g}×{spread}"


def spread_note(ratio: Ratio) -> str:
    """What the brackets behind ratios are.

    >>> spread_note(Ratio(2.0, 1.0, 3.0, 2.0, 1.0, pairs=3))
    'Times as fast: the median of 3 interleaved pairs (min … max).'
    """
    if ratio.pairs == 1:
        return "Times as fast: of a single pair."
    return f"Times as fast: the median of {ratio.pairs} interleaved pairs ({ratio.spread})."


def markdown(saved: Mapping[str, Any]) -> str:
    """The table of a saved report, its notes, what it was measured on, and its picture.

    >>> print(markdown({"name": "x", "title": "X", "columns": ["way", "time"], "cells": [["ours", "1 s"]],
    ...     "notes": ["Quick."], "machine": {"cores": 2, "threads": 1}, "versions": {"torch": "2.8"}}))
    | way | time |
    |---|---|
    | ours | 1 s |
    <BLANKLINE>
    Quick. 2 cores, 1 thread, PyTorch 2.8.
    <BLANKLINE>
    ![X](performance/x.png)
    """
    table = to_markdown(Table.of(saved["columns"], saved["cells"]))
    on = saved["machine"]
    cores, threads = (f"{on[what]} {what.rstrip('s')}{'s'[: on[what] != 1]}" for what in ("cores", "threads"))
    remarks = [*saved["notes"], f"{cores}, {threads}, PyTorch {saved['versions']['torch']}."]
    picture = f"![{saved['title']}](performance/{saved['name']}.png)"
    return f"{table}\n\n{' '.join(remarks)}\n\n{picture}"


def filled(page: str, saved: Mapping[str, Mapping[str, Any]]) -> str:
    """A page whose marked places hold the tables of saved reports, by name; others stay as they are.

    >>> filled("<!-- layup bench x -->\\nold\\n<!-- end -->", {})
    '<!-- layup bench x -->\\nold\\n<!-- end -->'
    """
    for name, report in saved.items():
        begin = BEGIN.format(name)
        marked = re.compile(f"{re.escape(begin)}.*?{re.escape(END)}", flags=re.DOTALL)
        text = f"{begin}\n{markdown(report)}\n{END}"
        page = marked.sub(lambda _, text=text: text, page)  # type: ignore[misc]
    return page
