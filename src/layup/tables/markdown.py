"""Tables as Markdown, as GitHub renders it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from layup.tables.table import Cell, Table, parts_of, text_of

# Not everything that is special somewhere: A_T and [67.3, 71.4] are not, and are easier to read unescaped.
_SPECIAL = re.compile(r"[\\`*~<>|]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|\](?=[(\[:])")


def to_markdown(table: Table) -> str:
    """A title, the table, the reasons for empty cells, and the notes: one paragraph each.

    >>> print(to_markdown(Table.of(["way", "correct"], [["ours", "1"], ["a|b", "0"]])))
    | way | correct |
    |---|---:|
    | ours | 1 |
    | a\\|b | 0 |
    """
    rows = [_row(map(plain, table.headings))]
    rows.append("|---|" + "".join("---:|" if right else "---|" for right in table.numeric))
    for number, (part, members) in enumerate(table.parts):
        if part or number:  # rows without a part are separated by an empty row
            rows.append(_row([f"**{plain(part)}**" if part else "", *("" for _ in table.columns)]))
        rows += [_row([plain(row.label), *(_cell(cell, table) for cell in row.cells)]) for row in members]
    title = f"### {plain(table.title)}" if table.title else ""
    reasons = bullets(f"({letter}) {plain(reason)}" for reason, letter in table.letters.items())
    return "\n\n".join(filter(None, [title, "\n".join(rows), reasons, *map(plain, table.notes)]))


def plain(text: str) -> str:
    """A text on one line that Markdown renders literally, also within a table."""
    return _SPECIAL.sub(r"\\\g<0>", re.sub(r"\s*\n\s*", " ", text))


def bullets(texts: Iterable[str]) -> str:
    """A list."""
    return "\n".join(f"- {text}" for text in texts)


def _cell(cell: Cell | str, table: Table) -> str:
    told = []
    for part in parts_of(cell):
        text = plain(text_of(part, table.letters.get(part.why, "")))
        change = plain(part.change)
        if change:
            text = f"{text.removesuffix(change)}**{change}**"
        told.append(text + (f" ({plain(part.detail)})" if part.detail else ""))
    return "; ".join(told)


def _row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell or " " for cell in cells) + " |"
