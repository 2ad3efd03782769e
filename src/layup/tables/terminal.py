"""Tables for a terminal, drawn by rich."""

from __future__ import annotations

from rich import table as drawing

from layup.progress import shown
from layup.tables.table import Cell, Table, one_line

STYLES = {"": "", "above": "#56b4e9", "below": "#d55e00"}
"""Colours that can be distinguished on a dark and on a light screen, also by colour-blind people."""


def to_rich(table: Table, most: int | None = None) -> drawing.Table:
    """The table without title and notes, for a console to print: at most `most` of its rows.

    >>> [column.header.plain for column in to_rich(Table.of(["way", "time"], [["ours", "1 s"]])).columns]
    ['way', 'time']
    """
    drawn = drawing.Table()
    width = len(table.columns) - table.extra
    for number, heading in enumerate(table.headings[: width + 1]):
        side = "left" if number < table.texts else "right"
        drawn.add_column(shown(heading), justify=side, overflow="fold")  # type: ignore[arg-type]
    left = len(table.rows) if most is None else most
    for part, rows in table.parts:
        if left <= 0:
            break
        drawn.add_section()
        if part:
            drawn.add_row(shown(part, "bold"))
        for row in rows[:left]:
            cells = (shown(one_line(cell, table), _style(cell)) for cell in row.cells[:width])
            drawn.add_row(shown(row.label), *cells)
        left -= len(rows)
    return drawn


def _style(cell: Cell | str) -> str:
    return "" if isinstance(cell, str) else STYLES[cell.side]
