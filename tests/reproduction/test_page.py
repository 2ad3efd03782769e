"""All numbers, reasons and sentences are on the page, none is taken for markup, and the page is one file."""

from __future__ import annotations

import base64
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from layup.benchmark.metrics import Interval
from layup.errors import InputError
from layup.formats import has_controls
from layup.reproduction.page import EXAMPLE, LEGEND, Page, Section
from layup.reproduction.shown import Cell, Picture, Shown
from layup.tables import Row, Table, one_line

VOID = {"meta", "img", "br"}
NOT_FOUND = "The dataset 'cub200' was not found."
TOO_LONG = "It takes longer than <2 h> & more."


def interval(value, half=0.02):
    return Interval(value, value - half, value + half, half / 2)


BELOW = Cell(interval(0.694), 92.0, "vit-nano, ssf", 0.689, "vit-nano, vpt")
ABOVE = Cell(interval(0.5), 43.2)
WITHIN = Cell(interval(0.801), 81.0)
ALONE = Cell(interval(0.333))


def draw(path):
    path.write_bytes(b"<svg>a picture</svg>" if path.suffix == ".svg" else b"PNG")


TABLE = Table(
    ["CIFAR", "CUB", "paper: Cars"],
    [
        Row("Joint FT", [BELOW, Cell(paper=91.1, missing=NOT_FOUND), "83.7*"], "Bounds"),
        Row("LayUP", [ABOVE, Cell(missing=NOT_FOUND), "82.5"], "Methods"),
        Row("k = 1 | A_T", [WITHIN, Cell(missing=TOO_LONG), "–"], "Methods"),
        Row("NMC", [ALONE, "no gap (paper: 80 %), and much more of it", ""]),
    ],
    "Here & there",
    ["* Of SLCA, <reproduced>.", "Numbers of a|b."],
)
SECTIONS = [
    Section(
        "table1",
        "Table 1: new <classes> (CIL)",
        "Every method & network.",
        Shown([TABLE, Table(["k"], [Row("x", ["1"])])]),
        ["LayUP is the best.", "Gains are < 5 %."],
        ["On IN-A it is not."],
    ),
    Section(
        "figure2", "Figure 2: layers", "By itself.", Shown([], [Picture("figure2", draw, 'Of [k] "layers"')])
    ),
]
PICTURES = {"figure2": b"<svg>a picture</svg>"}
MADE = Page("LayUP & co", ["Small <networks>.", "Two cores."], SECTIONS)
TEXT = MADE.to_markdown()
PAGE = MADE.to_html()


class Tree(HTMLParser):
    """Whether tags are balanced; all attributes; and the text of each element, by tag."""

    def __init__(self, page):
        super().__init__()
        self.open: list[tuple[str, list[str]]] = []
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, []))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        opened, words = self.open.pop()
        assert opened == tag, f"</{tag}> closes <{opened}>"
        text = " ".join(words)
        self.texts.append((tag, text))
        if self.open:
            self.open[-1][1].append(text)

    def handle_data(self, data):
        if self.open and data.strip():
            self.open[-1][1].append(data.strip())

    def all(self, tag):
        return [text for name, text in self.texts if name == tag]

    def values(self, attribute):
        return [found[attribute] for _, found in self.attributes if attribute in found]


TREE = Tree(PAGE)


# ---- cells


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (EXAMPLE, "69.4 [67.3, 71.4] (vit-nano, ssf); chosen 68.9 (vit-nano, vpt); paper 92.0, −22.6 ▼"),
        (ABOVE, "50.0 [48.0, 52.0]; paper 43.2, +6.8 ▲"),
        (WITHIN, "80.1 [78.1, 82.1]; paper 81.0, −0.9"),
        (ALONE, "33.3 [31.3, 35.3]"),
        (Cell(interval(0.5), chosen=0.4), "50.0 [48.0, 52.0]; chosen 40.0"),
        (Cell(missing=NOT_FOUND), "–"),
        (Cell(paper=91.1, missing=NOT_FOUND), "–; paper 91.1"),
        (Cell(), "–"),
        ("80 %", "80 %"),
        ("", ""),
    ],
)
def test_a_cell_in_one_line(cell, text):
    assert one_line(cell) == text


def test_a_value_that_is_not_a_number_is_no_difference():
    cell = Cell(interval(math.nan), 92.0)
    assert one_line(cell) == "–; paper 92.0"
    sections = [Section("t", "T", "About.", Shown([Table(["x"], [Row("y", [cell])])]))]
    assert "| y | –; paper 92.0 |" in Page("T", [], sections).to_markdown()
    assert "nan" not in Page("T", [], sections).to_html().partition("<main>")[2]


def test_equal_reasons_have_one_letter():
    assert TABLE.letters == {NOT_FOUND: "a", TOO_LONG: "b"}


def test_many_reasons_are_all_told():
    cells = [Cell(missing=f"Reason {number}.") for number in range(28)]
    shown = Shown([Table([f"c{number}" for number in range(28)], [Row("x", cells)])])
    sections = [Section("t", "T", "About.", shown)]
    text, tree = Page("T", [], sections).to_markdown(), Tree(Page("T", [], sections).to_html())
    assert "- (z) Reason 25.\n- (aa) Reason 26.\n- (ab) Reason 27." in text
    assert "(ab) Reason 27." in tree.all("li")
    assert "– (ab)" in tree.all("td")


def test_reasons_of_cells_that_have_a_value_are_not_told():
    assert Table(["x"], [Row("y", [Cell(interval(0.5), missing="No.")])]).letters == {}


def test_the_legend_explains_its_example():
    for part, _ in LEGEND[:5]:
        assert part in one_line(EXAMPLE)
    for part, meaning in LEGEND:
        assert f"- `{part}`: {meaning}" in TEXT
        assert part in TREE.all("dt")
        assert meaning in TREE.all("dd")


# ---- Markdown


def test_a_table_in_markdown():
    rows = [
        "### Here & there\n",
        "|   | CIFAR | CUB | paper: Cars |",
        "|---|---|---|---:|",
        "| **Bounds** |   |   |   |",
        "| Joint FT | 69.4 [67.4, 71.4] (vit-nano, ssf); chosen 68.9 (vit-nano, vpt); paper 92.0, "
        "**−22.6 ▼** | – (a); paper 91.1 | 83.7\\* |",
        "| **Methods** |   |   |   |",
        "| LayUP | 50.0 [48.0, 52.0]; paper 43.2, **+6.8 ▲** | – (a) | 82.5 |",
        "| k = 1 \\| A_T | 80.1 [78.1, 82.1]; paper 81.0, −0.9 | – (b) | – |",
        "|   |   |   |   |",
        "| NMC | 33.3 [31.3, 35.3] | no gap (paper: 80 %), and much more of it |   |",
        "",
        "- (a) The dataset 'cub200' was not found.",
        "- (b) It takes longer than \\<2 h\\> & more.",
        "",
        "\\* Of SLCA, \\<reproduced\\>.",
        "",
        "Numbers of a\\|b.",
    ]
    assert "\n".join(rows) in TEXT


def test_the_rest_in_markdown():
    head = "# LayUP & co\n\nSmall \\<networks\\>.\n\nTwo cores.\n\n## Contents\n\n"
    assert TEXT.startswith(f"{head}- [Table 1: new \\<classes\\> (CIL)](#table-1-new-classes-cil)\n")
    assert "\n## Table 1: new \\<classes\\> (CIL)\n\nEvery method & network.\n" in TEXT
    assert "\n> **The paper says**\n>\n> - LayUP is the best.\n> - Gains are \\< 5 %.\n" in TEXT
    assert "\n**Where the paper contradicts itself**\n\n- On IN-A it is not.\n" in TEXT
    assert '\n![Of \\[k\\] "layers"](figures/figure2.png)\n\nOf [k] "layers"\n' in TEXT
    assert "](there/figure2.png)" in Page("T", [], SECTIONS).to_markdown("there")
    assert "\n\n\n" not in TEXT


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a|b", "a\\|b"),
        ("x\\y", "x\\\\y"),
        ("*bold* `code` ~5 and ~6", "\\*bold\\* \\`code\\` \\~5 and \\~6"),
        ("A_T and _this_", "A_T and \\_this\\_"),
        ("R&D, &lt;", "R&D, \\&lt;"),
        ("two\n lines", "two lines"),
        ("[see](https://x.test)", "[see\\](https://x.test)"),
        ("![x][y]", "![x\\][y]"),
    ],
)
def test_nothing_is_taken_for_markdown(text, shown):
    page = Page(
        "T", [], [Section("t", "T", "About.", Shown([Table(["x"], [Row(text, ["1"])])]))]
    ).to_markdown()
    assert f"| {shown} | 1 |" in page


# ---- HTML


def test_tags_are_balanced():
    assert TREE.open == []
    assert PAGE.startswith("<!DOCTYPE html>\n")


def test_an_unbalanced_page_would_be_seen():
    with pytest.raises(AssertionError, match="closes"):
        Tree("<p><b>x</p></b>")


def test_ids_are_unique_and_links_lead_to_them():
    ids = TREE.values("id")
    assert len(set(ids)) == len(ids)
    assert {"table1", "figure2", "table1-1-a", "table1-1-b"} == set(ids)
    assert {link.removeprefix("#") for link in TREE.values("href")} == set(ids)


def test_the_page_needs_no_other_file():
    tags = {tag for tag, _ in TREE.attributes}
    assert not tags & {"script", "link", "iframe", "object", "base"}
    assert all(link.startswith("#") for link in TREE.values("href"))
    (source,) = TREE.values("src")
    kind, _, data = source.partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(data) == PICTURES["figure2"]
    assert not re.search(r"https?://|url\(|@import", PAGE)


def test_the_page_says_what_it_is():
    assert TREE.all("title") == TREE.all("h1") == ["LayUP & co"]
    assert ("html", {"lang": "en"}) in TREE.attributes
    assert "viewport" in TREE.values("name")
    for condition in ("prefers-color-scheme: dark", "@media print", "max-width: 40rem"):
        assert condition in PAGE


def test_a_table_in_html():
    cells = TREE.all("td")
    for text in (
        "69.4 [67.4, 71.4] vit-nano, ssf chosen 68.9 vit-nano, vpt paper 92.0, −22.6 ▼",
        "50.0 [48.0, 52.0] paper 43.2, +6.8 ▲",
        "80.1 [78.1, 82.1] paper 81.0, −0.9",
        "33.3 [31.3, 35.3]",
        "– (a) paper 91.1",
        "– (a)",
        "– (b)",
        "83.7*",
        "no gap (paper: 80 %), and much more of it",
    ):
        assert text in cells
    headings = TREE.all("th")
    for text in ("CIFAR", "CUB", "paper: Cars", "Joint FT", "LayUP", "k = 1 | A_T", "NMC"):
        assert text in headings
    assert [headings.count(part) for part in ("Bounds", "Methods", "")] == [1, 1, 0]
    assert f"(a) {NOT_FOUND}" in TREE.all("li")
    assert f"(b) {TOO_LONG}" in TREE.all("li")
    for note in TABLE.notes:
        assert note in TREE.all("p")
    assert TREE.all("caption") == ["An example", "Here & there", "Table 1: new <classes> (CIL)"]


def test_cells_are_marked_by_colour_and_by_sign():
    main = PAGE.partition("<main>")[2]
    assert re.findall(r'<td class="(above|below)">', main) == ["below", "above"]
    assert [main.count(mark) for mark in "▲▼"] == [1, 1]


@pytest.mark.parametrize(
    ("cells", "right"),
    [
        (["-14 %", "−1.5", "+2", "1,234", "no gap"], True),
        (["1", "2", "69.4 [67.3, 71.4]"], True),
        (["1", "no gap"], False),
        (["1", "2", "3", "a sentence that needs some room"], False),
        (["1", "2", "3", ALONE], False),
    ],
)
def test_a_word_among_numbers_does_not_move_them(cells, right):
    shown = Shown([Table(["x"], [Row("y", [cell]) for cell in cells])])
    sections = [Section("t", "T", "About.", shown)]
    assert ("|---|---:|" in Page("T", [], sections).to_markdown()) is right
    assert ('<th scope="col" class="number">x</th>' in Page("T", [], sections).to_html()) is right


def test_names_in_headings_are_not_broken():
    shown = Shown([Table(["paper: IN-R"], [Row("y", ["1"])])])
    page = Page("T", [], [Section("t", "T", "About.", shown)]).to_html()
    assert 'paper: <span class="short">IN-R</span></th>' in page
    assert "paper: IN-R" in Tree(page).all("th")


def test_columns_of_numbers_are_at_the_right():
    assert re.findall(r'class="number">([^<]*)<', PAGE) == [
        "paper: Cars",
        *("83.7*", "82.5", "–", ""),
        *("k", "1"),
    ]


def test_the_rest_in_html():
    assert [text for text in TREE.all("a") if text.startswith(("Table", "Figure"))] == [
        section.title for section in SECTIONS
    ]
    for text in ("Small <networks>.", "Two cores.", "Every method & network.", "By itself."):
        assert text in TREE.all("p")
    said, contradicted = TREE.all("aside")
    assert said == "The paper says LayUP is the best. Gains are < 5 %."
    assert contradicted == "Where the paper contradicts itself On IN-A it is not."
    assert TREE.values("alt") == TREE.all("figcaption") == ['Of [k] "layers"']


@pytest.mark.parametrize("hostile", ["<script>x</script>", '"><b>', "&amp;"])
def test_nothing_is_taken_for_html(hostile):
    cell = Cell(interval(0.5), which=hostile, chosen=0.5, chosen_which=hostile)
    table = Table(
        [hostile, "b", "c"],
        [Row(hostile, [cell, Cell(missing=hostile), hostile], hostile)],
        hostile,
        [hostile],
    )
    picture = Picture("p", draw, hostile)
    section = Section("t", hostile, hostile, Shown([table], [picture]), [hostile], [hostile])
    tree = Tree(Page(hostile, [hostile], [section]).to_html())
    assert tree.open == []
    assert "script" not in {tag for tag, _ in tree.attributes}
    assert tree.values("alt") == [hostile]
    for tag in ("title", "h1", "h2", "p", "a", "li", "caption", "th", "td", "span", "figcaption"):
        assert any(hostile in text for text in tree.all(tag)), tag


# ---- files


def test_all_files_are_written(tmp_path):
    folder = tmp_path / "new" / "folder"
    page, text = MADE.save(folder)
    assert (page, text) == (folder / "reproduction.html", folder / "reproduction.md")
    assert page.read_text() == PAGE
    assert text.read_text() == TEXT
    assert sorted(path.name for path in (folder / "figures").iterdir()) == ["figure2.png", "figure2.svg"]


def test_names_command_no_terminal(tmp_path):
    table = Table(["x"], [Row("\x1b]0;owned\x07\u202e\udcff", ["1"])])
    for path in Page("T", [], [Section("t", "T", "About.", Shown([table]))]).save(tmp_path):
        text = path.read_text()
        assert "\\x1b]0;owned\\x07\\u202e\\udcff" in text.replace("\\\\", "\\")
        assert not has_controls(text.replace("\n", ""))


def test_written_again_it_is_the_new_one(tmp_path):
    Page("Old", [], SECTIONS).save(tmp_path)
    page, text = Page("New", [], SECTIONS).save(tmp_path)
    assert "Old" not in page.read_text() + text.read_text()


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Cannot make the folder"):
        Page("T", [], []).save(tmp_path / "file")


DOCS = Path(__file__).parents[2] / "docs"


def claims_in(page: Path) -> list[list[str]]:
    """Number, claim, verdict and reason of each row of a page's table of claims."""
    rows = [line.strip("| ").split(" | ") for line in page.read_text().splitlines() if line.startswith("| ")]
    return [row[:4] for row in rows if row[0].isdecimal()]


def test_the_claims_in_the_docs_are_those_of_the_page_that_was_made():
    told = claims_in(DOCS / "reproduction.md")
    assert [row[0] for row in told] == [str(number) for number in range(1, 11)]
    assert told == claims_in(DOCS / "reproduction" / "reproduction.md")


def test_every_picture_of_the_page_in_the_docs_is_there():
    text = (DOCS / "reproduction" / "reproduction.md").read_text()
    pictures = re.findall(r"\]\((figures/[^)]+)\)", text)
    assert len(pictures) == 9
    assert all((DOCS / "reproduction" / picture).stat().st_size > 10_000 for picture in pictures)
