"""A table is the same on a terminal, in Markdown and in HTML."""

from __future__ import annotations

import io
import subprocess
import sys
from dataclasses import dataclass

import pytest
from rich.console import Console

from layup.benchmark.plots import BETTER, WORSE
from layup.tables import Part, Row, Table, style_sheet, to_html, to_markdown, to_rich
from layup.tables.table import letter

HOSTILE = "<b>[red]\x1b[2J|"


@dataclass(frozen=True)
class Number:
    parts: list[Part]
    side: str = ""


BETTER_NUMBER = Number([Part("± 1", "5", detail="k = 6"), Part("paper 4,", change="+1 ▲")], "above")
TABLE = Table(
    ["found", "elsewhere"],
    [
        Row(
            "first",
            [BETTER_NUMBER, "1"],
            "A",
        ),
        Row("second", [Number([Part("–", why="No data.")]), "2"], "B"),
        Row(HOSTILE, ["long " * 9, "3"], "B"),
    ],
    title="Numbers",
    notes=["Measured."],
    corner="run",
    extra=1,
)


def printed(table, **options):
    console = Console(width=200, file=io.StringIO(), **options)
    console.print(to_rich(table))
    return console.file.getvalue()


def test_letters_go_on_after_z():
    assert [letter(number) for number in (0, 1, 25, 26, 27, 51, 52)] == [
        "a",
        "b",
        "z",
        "aa",
        "ab",
        "az",
        "ba",
    ]


def test_a_terminal_shows_all_but_the_columns_for_pages():
    text = printed(TABLE)
    for word in ("run", "found", "A", "B", "5 ± 1 (k = 6); paper 4, +1 ▲", "– (a)", "second"):
        assert word in text
    assert "elsewhere" not in text
    assert "<b>[red]\\x1b[2J|" in text


def test_a_terminal_has_colours_where_it_can():
    text = printed(TABLE, force_terminal=True, color_system="truecolor")
    assert "\x1b[38;2;86;180;233m" in text


def test_a_long_table_is_cut_after_so_many_rows():
    table = Table(["x"], [Row(f"row {n}", ["1"], "first" if n < 3 else "second") for n in range(6)])
    labels = [cell.plain for cell in to_rich(table, 4).columns[0].cells]
    assert labels == ["first", "row 0", "row 1", "row 2", "second", "row 3"]
    labels = [cell.plain for cell in to_rich(table, 3).columns[0].cells]
    assert labels == ["first", "row 0", "row 1", "row 2"]


def test_markdown_has_title_parts_reasons_and_notes():
    assert to_markdown(TABLE) == "\n".join(
        [
            "### Numbers",
            "",
            "| run | found | elsewhere |",
            "|---|---|---:|",
            "| **A** |   |   |",
            "| first | 5 ± 1 (k = 6); paper 4, **+1 ▲** | 1 |",
            "| **B** |   |   |",
            "| second | – (a) | 2 |",
            f"| \\<b\\>[red]\x1b[2J\\| | {'long ' * 9} | 3 |",
            "",
            "- (a) No data.",
            "",
            "Measured.",
        ]
    )


def test_html_escapes_and_links_reasons():
    text = to_html(TABLE, anchor="numbers")
    for piece in (
        '<th scope="col">run</th><th scope="col">found</th><th scope="col" class="number">elsewhere</th>',
        '<td class="above"><span class="line"><b>5</b> ± 1</span><span class="which">k = 6</span>'
        '<span class="line">paper 4, <b>+1 ▲</b></span></td>',
        '<td><span class="line">– <a href="#numbers-a">(a)</a></span></td>',
        '<li id="numbers-a">(a) No data.</li>',
        '<th scope="row">&lt;b&gt;[red]',
        '<td class="long">long ',
    ):
        assert piece in text
    assert "<b>[red]" not in text


def test_rows_and_headings_must_be_equally_many():
    with pytest.raises(IndexError):
        to_html(Table(["a", "b"], [Row("x", ["1"])]))


def test_pages_have_the_colours_of_pictures():
    assert f"--above: {BETTER}; --below: {WORSE};" in style_sheet()


def test_whoever_shows_no_page_needs_no_templates():
    code = "import sys, layup.tables as t; t.Table, t.to_rich; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
