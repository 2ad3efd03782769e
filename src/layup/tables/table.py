"""A table: headings, rows of cells, a title and notes. How it looks is up to the renderer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Protocol

SHORT = 24
"""Texts of up to this many letters stay on one line; longer ones are wrapped."""

# A number in a table, with a star or in percent; or the dash of a missing one.
_NUMBER = re.compile(r"[+−-]?\d[\d,]*(\.\d+)?\*?( ?%)?|–")


@dataclass(frozen=True)
class Part:
    """A statement of a cell, such as "69.4 [67.3, 71.4] (vit-nano)".

    value: a number before the text, in bold type on a page.
    change: the end of the text, in bold type where possible.
    detail: in brackets; on a page small, on a separate line.
    why: why the value is missing; explained below the table, next to a letter.
    """

    text: str
    value: str = ""
    change: str = ""
    detail: str = ""
    why: str = ""


class Cell(Protocol):
    """A cell of several statements; a plain text can be a `str`."""

    @property
    def parts(self) -> Sequence[Part]:
        """Its statements; on a page, one line each."""

    @property
    def side(self) -> str:
        """The colour: "above" or "below" what it is compared with, or an empty string."""


@dataclass(frozen=True)
class Row:
    """A row: its label, and its cells; `part` is the part of the table that it belongs to."""

    label: str
    cells: Sequence[Cell | str]
    part: str = ""


@dataclass(frozen=True)
class Table:
    """A table.

    columns: the headings of all columns except that of the labels, which is `corner`.
    notes: sentences below it.
    texts: how many columns on the left are words; on a terminal the others are right-aligned.
    extra: how many of the last columns are for pages only: a screen is too narrow for them.

    >>> Table.of(["way", "time"], [["ours", "1 s"]]).rows
    [Row(label='ours', cells=['1 s'], part='')]
    """

    columns: Sequence[str]
    rows: Sequence[Row]
    title: str = ""
    notes: Sequence[str] = ()
    corner: str = ""
    texts: int = 1
    extra: int = 0

    @classmethod
    def of(cls, columns: Sequence[str], rows: Sequence[Sequence[str]], texts: int = 1) -> Table:
        """A table of plain texts; the first of each row is its label."""
        corner, *others = columns
        return cls(others, [Row(label, cells) for label, *cells in rows], corner=corner, texts=texts)

    @property
    def headings(self) -> list[str]:
        """The headings of all columns."""
        return [self.corner, *self.columns]

    @cached_property
    def parts(self) -> list[tuple[str, list[Row]]]:
        """The rows by the part of the table that they are in; a part may occur again."""
        return [(part, list(rows)) for part, rows in groupby(self.rows, key=lambda row: row.part)]

    @cached_property
    def letters(self) -> dict[str, str]:
        """The letter of each reason for which values are missing, in the order of the rows."""
        parts = (part for row in self.rows for cell in row.cells for part in parts_of(cell))
        reasons = dict.fromkeys(part.why for part in parts if part.why)
        return {reason: letter(number) for number, reason in enumerate(reasons)}

    @cached_property
    def numeric(self) -> list[bool]:
        """Which columns hold mostly plain numbers: these are right-aligned."""
        indices = range(len(self.columns))
        filled = ([row.cells[index] for row in self.rows if row.cells[index]] for index in indices)
        return [
            all(isinstance(cell, str) and len(cell) <= SHORT for cell in column)
            and 2 * sum(_NUMBER.fullmatch(str(cell)) is not None for cell in column) > len(column)
            for column in filled
        ]


def parts_of(cell: Cell | str) -> Sequence[Part]:
    """The statements of a cell."""
    return [Part(cell)] if isinstance(cell, str) else cell.parts


def text_of(part: Part, letter: str = "") -> str:
    """A statement as text, without its detail.

    >>> text_of(Part("[67.3, 71.4]", value="69.4", detail="vit-nano")), text_of(Part("–"), "a")
    ('69.4 [67.3, 71.4]', '– (a)')
    """
    return " ".join(filter(None, (part.value, part.text, part.change, f"({letter})" if letter else "")))


def one_line(cell: Cell | str, table: Table | None = None) -> str:
    """A cell on one line, with the letters of its table for reasons.

    >>> one_line("80 %")
    '80 %'
    """
    letters = {} if table is None else table.letters
    told = ((text_of(part, letters.get(part.why, "")), part.detail) for part in parts_of(cell))
    return "; ".join(text + (f" ({detail})" if detail else "") for text, detail in told)


def letter(number: int) -> str:
    """The letter of a remark, by its number, from 0.

    >>> [letter(number) for number in (0, 25, 26, 27, 701, 702)]
    ['a', 'z', 'aa', 'ab', 'zz', 'aaa']
    """
    before, last = divmod(number, 26)
    return (letter(before - 1) if before else "") + chr(ord("a") + last)
