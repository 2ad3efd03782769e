"""Cells of the table of methods: kept, found again, and not lost when two processes add some."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.cells import Cell, Cells

CELL = Cell("nmc", "bundled", "birds", 0, 0.5, 0.01, 1.0, 0.0, 1200, 4096)


def test_cells_are_found_again_by_the_name_of_their_run(tmp_path):
    path = tmp_path / "cells.json"
    Cells(path).add("one", CELL)
    assert Cells(path).get("one") == CELL
    assert Cells(path).get("other") is None


def test_what_another_process_added_is_kept(tmp_path):
    path = tmp_path / "cells.json"
    here, there = Cells(path), Cells(path)
    there.add("theirs", replace(CELL, seed=1))
    here.add("ours", CELL)
    assert here.get("theirs") == Cells(path).get("theirs") == replace(CELL, seed=1)


def test_a_cell_is_a_line_and_the_order_of_measuring_does_not_matter(tmp_path):
    names = {"b": replace(CELL, row="ranpac"), "a": replace(CELL, seed=2), "c": CELL}
    for order in (names, dict(reversed(names.items()))):
        cells = Cells(tmp_path / f"{next(iter(order))}.json")
        for name, cell in order.items():
            cells.add(name, cell)
    first, second = (sorted(tmp_path.glob("*.json"))[i].read_text("utf-8") for i in (0, 1))
    assert first == second
    assert [line.strip().split(":")[0] for line in first.splitlines()[1:-1]] == ['"c"', '"a"', '"b"']
