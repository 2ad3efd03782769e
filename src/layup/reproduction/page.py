"""A reproduction as one page: every number beside the paper's, and what the paper says of them.

The HTML page is a single file that a reviewer reads from top to bottom: its style and its pictures are in it,
nothing is fetched, nothing is executed. The same is there in Markdown, and a cell as a line for terminals.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from itertools import groupby
from pathlib import Path

from layup.benchmark.metrics import Interval
from layup.benchmark.plots import BETTER, WORSE
from layup.errors import InputError
from layup.reproduction.sheets import DASH, Cell, Line, Picture, Sheet, Shown, percent, points
from layup.storage import make_folder, write_text
from layup.texts import printable_lines

PAGE = "reproduction"
"""The name of both files, but for their endings."""
FIGURES = "figures"
SHORT = 24
"""Texts of up to so many letters stay in one line; longer ones have room for a few words in each."""
ABOVE, BELOW = "▲", "▼"
SAYS, CONTRADICTS = "The paper says", "Where the paper contradicts itself"
CONTENTS, READING = "Contents", "How to read a cell"

EXAMPLE = Cell(Interval(0.694, 0.673, 0.714, 0.0105), 92.0, "vit-nano, ssf", 0.689, "vit-nano, vpt")
LEGEND = (
    ("69.4 [67.3, 71.4]", "Ours in percent, with its 95 % interval over the test images."),
    ("vit-nano, ssf", "What gave it, where it is the best of several by its test accuracy."),
    ("chosen 68.9", "The value of the one that is chosen without a look at the tests, and which that is."),
    ("paper 92.0", "What the paper prints."),
    ("−22.6", "Ours minus the paper's, in points."),
    (ABOVE, "Ours is above the paper's, which is outside of our interval."),
    (BELOW, "Ours is below the paper's, which is outside of our interval."),
    (f"{DASH} (a)", "There is no value; below the table, beside the letter, is why."),
)
"""The parts of a cell, those of the example first, and what they are."""


@dataclass(frozen=True)
class Section:
    """A table or figure of the paper, as it came out.

    about: what was run.
    says: what the paper says of it.
    footnotes: where the paper contradicts itself.
    """

    name: str
    title: str
    about: str
    shown: Shown
    says: Sequence[str] = ()
    footnotes: Sequence[str] = ()


def write(
    folder: Path, title: str, introduction: Sequence[str], sections: Sequence[Section]
) -> tuple[Path, Path]:
    """Draw all pictures, as PNG and as SVG, then write the page; gives the paths of its HTML and Markdown.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page, text = write(Path(folder), "LayUP", ["As the paper has it."], [])
    ...     page.name, text.name, text.read_text().splitlines()[0]
    ('reproduction.html', 'reproduction.md', '# LayUP')
    """
    drawn = folder / FIGURES
    make_folder(drawn)
    pictures: dict[str, bytes] = {}
    sections = [_drawn(section, drawn, pictures) for section in sections]
    page, text = folder / f"{PAGE}.html", folder / f"{PAGE}.md"
    write_text(page, printable_lines(html_page(title, introduction, sections, pictures)))
    write_text(text, printable_lines(markdown(title, introduction, sections)))
    return page, text


def _drawn(section: Section, folder: Path, pictures: dict[str, bytes]) -> Section:
    """Draw a section's pictures; one that cannot be drawn leaves a sentence, and the page goes on."""
    done, about = [], section.about
    for picture in section.shown.pictures:
        try:
            for ending in ("png", "svg"):
                picture.draw(folder / f"{picture.name}.{ending}")
        except InputError as error:
            about = f"{about} There is no picture '{picture.name}': {error}"
            continue
        pictures[picture.name] = (folder / f"{picture.name}.svg").read_bytes()
        done.append(picture)
    return replace(section, about=about, shown=replace(section.shown, pictures=done))


# ---- cells


def cell_text(cell: Cell | str) -> str:
    """A cell in one line.

    >>> cell_text(EXAMPLE)
    '69.4 [67.3, 71.4] (vit-nano, ssf); chosen 68.9 (vit-nano, vpt); paper 92.0, −22.6 ▼'
    >>> cell_text(Cell(paper=92.0, missing="The dataset 'cub200' was not found."))
    '–; paper 92.0'
    """
    if isinstance(cell, str):
        return cell
    return f"{'; '.join(_parts(cell, DASH))} {_mark(cell)}".rstrip()


def _parts(cell: Cell, dash: str) -> list[str]:
    """The value, what was chosen, and what the paper has; `dash` stands where there is no value."""
    ours = _ours(cell)
    parts = [dash if ours is None else f"{percent(ours.value)} {_interval(ours)}{_bracketed(cell.which)}"]
    if cell.chosen is not None:
        parts.append(f"chosen {percent(cell.chosen)}{_bracketed(cell.chosen_which)}")
    if cell.paper is not None:
        difference = _difference(cell)
        parts.append(f"{_paper(cell)}, {difference}" if difference else _paper(cell))
    return parts


def _ours(cell: Cell) -> Interval | None:
    """Our value, if there is one: that of a run which asked nothing is NaN."""
    return None if cell.ours is None or math.isnan(cell.ours.value) else cell.ours


def _interval(ours: Interval) -> str:
    return f"[{percent(ours.low)}, {percent(ours.high)}]"


def _paper(cell: Cell) -> str:
    return f"paper {cell.paper:.1f}"


def _difference(cell: Cell) -> str:
    return "" if _ours(cell) is None or cell.difference is None else points(cell.difference / 100)


def _mark(cell: Cell) -> str:
    """On which side of the paper's value ours is, if that is more than chance."""
    if _ours(cell) is None or cell.difference is None or not cell.beyond:
        return ""
    return ABOVE if cell.difference > 0 else BELOW


def _bracketed(which: str) -> str:
    return f" ({which})" if which else ""


def letter(number: int) -> str:
    """The sign of a remark, by its place from 0 on.

    >>> [letter(number) for number in (0, 25, 26, 27, 701, 702)]
    ['a', 'z', 'aa', 'ab', 'zz', 'aaa']
    """
    before, last = divmod(number, 26)
    return (letter(before - 1) if before else "") + chr(ord("a") + last)


def lettered(sheet: Sheet) -> dict[str, str]:
    """The letter of each reason for which values of a table are missing, in the order of its lines.

    >>> lettered(Sheet(["x", "y"], [Line("k", [Cell(missing="No x."), Cell(missing="No y.")])]))
    {'No x.': 'a', 'No y.': 'b'}
    """
    reasons = (
        cell.missing
        for line in sheet.lines
        for cell in line.cells
        if isinstance(cell, Cell) and _ours(cell) is None and cell.missing
    )
    return {reason: letter(number) for number, reason in enumerate(dict.fromkeys(reasons))}


# A number as tables have it, with a star or in percent; or the dash that stands for one.
_NUMBER = re.compile(r"[+−-]?\d[\d,]*(\.\d+)?\*?( ?%)?|–")


def _numeric(sheet: Sheet) -> list[bool]:
    """Which columns hold plain numbers, but for a word or two: these are aligned at the right."""
    places = range(len(sheet.columns))
    filled = ([line.cells[place] for line in sheet.lines if line.cells[place]] for place in places)
    return [
        all(isinstance(cell, str) and len(cell) <= SHORT for cell in column)
        and 2 * sum(_NUMBER.fullmatch(str(cell)) is not None for cell in column) > len(column)
        for column in filled
    ]


def _parted(sheet: Sheet) -> list[tuple[str, list[Line]]]:
    """The lines by the part of the table that they are in; a part may come again."""
    return [(part, list(lines)) for part, lines in groupby(sheet.lines, key=lambda line: line.section)]


# ---- Markdown


def markdown(
    title: str, introduction: Sequence[str], sections: Sequence[Section], figures: str = FIGURES
) -> str:
    """The page as GitHub shows it; its pictures are files in the folder `figures`.

    >>> sheet = Sheet(["Digits"], [Line("LayUP", [Cell(Interval(0.9, 0.88, 0.92, 0.01), paper=93.0)])])
    >>> page = markdown("LayUP", [], [Section("table1", "Table 1", "Seed 1993.", Shown([sheet]))])
    >>> print(page.partition("## Table 1")[2])
    <BLANKLINE>
    <BLANKLINE>
    Seed 1993.
    <BLANKLINE>
    |   | Digits |
    |---|---|
    | LayUP | 90.0 [88.0, 92.0]; paper 93.0, **−3.0 ▼** |
    <BLANKLINE>
    """
    contents = [f"[{_plain(section.title)}](#{_slug(section.title)})" for section in sections]
    legend = [f"`{part}`: {_plain(meaning)}" for part, meaning in LEGEND]
    blocks = [f"# {_plain(title)}", *map(_plain, introduction)]
    blocks += [f"## {CONTENTS}", _bullets(contents)] if sections else []
    blocks += [f"## {READING}", cell_text(EXAMPLE), _bullets(legend)]
    for section in sections:
        blocks += [f"## {_plain(section.title)}", _plain(section.about)]
        if section.says:
            said = f"**{SAYS}**\n\n{_bullets(_all_plain(section.says))}"
            blocks.append("\n".join(f"> {line}".rstrip() for line in said.splitlines()))
        for picture in section.shown.pictures:
            blocks += [_markdown_picture(picture, figures), _plain(picture.caption)]
        for sheet in section.shown.sheets:
            blocks += _markdown_sheet(sheet)
        if section.footnotes:
            blocks += [f"**{CONTRADICTS}**", _bullets(_all_plain(section.footnotes))]
    return "\n\n".join(block for block in blocks if block) + "\n"


def _markdown_sheet(sheet: Sheet) -> list[str]:
    """A title, the table, why cells are empty, and the notes: a block each."""
    letters = lettered(sheet)
    rows = [_row(["", *_all_plain(sheet.columns)])]
    rows.append("|---|" + "".join("---:|" if right else "---|" for right in _numeric(sheet)))
    for number, (part, lines) in enumerate(_parted(sheet)):
        if part or number:  # lines that are in no part are set off by an empty row
            rows.append(_row([f"**{_plain(part)}**" if part else "", *("" for _ in sheet.columns)]))
        for line in lines:
            rows.append(_row([_plain(line.label), *(_markdown_cell(cell, letters) for cell in line.cells)]))
    title = [f"### {_plain(sheet.title)}"] if sheet.title else []
    reasons = _bullets([f"({sign}) {_plain(reason)}" for reason, sign in letters.items()])
    return [*title, "\n".join(rows), reasons, *_all_plain(sheet.notes)]


def _markdown_cell(cell: Cell | str, letters: Mapping[str, str]) -> str:
    if isinstance(cell, str):
        return _plain(cell)
    sign = letters.get(cell.missing)
    text = _plain("; ".join(_parts(cell, f"{DASH} ({sign})" if sign else DASH)))
    mark, difference = _mark(cell), _difference(cell)
    # Where there is a difference, it is the end of the text.
    return f"{text.removesuffix(difference)}**{difference} {mark}**" if mark else text


def _markdown_picture(picture: Picture, figures: str) -> str:
    alternative = re.sub(r"[\[\]]", r"\\\g<0>", _plain(picture.caption))
    return f"![{alternative}]({figures}/{picture.name}.png)"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell or " " for cell in cells) + " |"


def _bullets(texts: Sequence[str]) -> str:
    return "\n".join(f"- {text}" for text in texts)


def _all_plain(texts: Sequence[str]) -> list[str]:
    return [_plain(text) for text in texts]


# Not all that could mean something: A_T and [67.3, 71.4] mean nothing, and are easier to read as they are.
_SPECIAL = re.compile(r"[\\`*~<>|]|(?<!\w)_|_(?!\w)|&(?=#?\w+;)|\](?=[(\[:])")


def _plain(text: str) -> str:
    """A text in one line that Markdown shows as it is, also within a table."""
    return _SPECIAL.sub(r"\\\g<0>", re.sub(r"\s*\n\s*", " ", text))


def _slug(title: str) -> str:
    """How GitHub calls the place of a heading.

    >>> _slug("Table 1: new classes (CIL)")
    'table-1-new-classes-cil'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


# ---- HTML

# Two colours that colour-blind people can tell apart; the triangles say the same without any.
_STYLE = (
    f":root {{ --above: {BETTER}; --below: {WORSE}; }}"
    + """
:root {
  color-scheme: light dark;
  --ink: #222; --soft: #5c6066; --page: #fff; --panel: #f4f5f7; --line: #d8dbe0; --link: #0b5ea8;
  --above-tint: #dcebf7; --below-tint: #fce5d6;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e7e9; --soft: #a6abb3; --page: #16181c; --panel: #20242a; --line: #3a3f47; --link: #7db8ee;
    --above-tint: #15344b; --below-tint: #4b2c17;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem clamp(1rem, 3vw, 2.5rem) 4rem; max-width: 84rem;
  background: var(--page); color: var(--ink); font: 1rem/1.5 system-ui, sans-serif;
  overflow-wrap: break-word;
}
h1, h2, h3 { line-height: 1.25; }
h1 { font-size: 1.9rem; margin: 0.5rem 0 1rem; }
h2 { font-size: 1.4rem; margin: 0 0 0.5rem; }
h3 { font-size: 1rem; margin: 0 0 0.4rem; }
p, aside, dl, .notes { max-width: 48rem; }
a { color: var(--link); }
section { margin-top: 3rem; padding-top: 1.5rem; border-top: 1px solid var(--line); }
nav ul { columns: 22rem; padding-left: 1.2rem; }
nav li { break-inside: avoid; }
.legend { display: flex; flex-wrap: wrap; gap: 1rem 2rem; align-items: flex-start; }
.legend table { width: auto; }
dl { flex: 1 1 18rem; margin: 0; display: grid; grid-template-columns: max-content 1fr; gap: 0.25rem 1rem; }
dt { font-weight: 600; font-variant-numeric: tabular-nums; }
dd { margin: 0; }
dt span { padding: 0 0.5rem; }
aside { margin: 1rem 0; padding: 0.75rem 1rem; background: var(--panel); border-left: 4px solid var(--line); }
aside.says { border-left-color: var(--link); }
aside.contradicts { border-left-color: var(--below); }
aside ul { margin: 0; padding-left: 1.2rem; }
figure { margin: 1rem 0; }
figure img { display: block; max-width: 100%; height: auto; background: #fff; padding: 0.5rem;
  border: 1px solid var(--line); border-radius: 0.4rem; }
figcaption { margin-top: 0.4rem; max-width: 48rem; color: var(--soft); font-size: 0.9rem; }
.scroll { margin: 1rem 0 0.5rem; max-width: 100%; overflow-x: auto; }
table { border-collapse: separate; border-spacing: 0; font-size: 0.9rem; line-height: 1.35;
  font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: 0.4rem; }
caption span { position: sticky; left: 0; }
caption.unseen { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }
th, td { padding: 0.35rem 0.7rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); }
thead tr > * { vertical-align: bottom; border-bottom: 2px solid var(--ink); }
tbody th { font-weight: 500; }
thead td, th[scope=row] { position: sticky; left: 0; z-index: 1; background: var(--page);
  min-width: 9rem; max-width: 16rem; border-right: 1px solid var(--line); }
th[scope=rowgroup] { background: var(--panel); color: var(--soft); font-weight: 600; }
th[scope=rowgroup] span { position: sticky; left: 0.7rem; }
.number { text-align: right; }
td.number, .short { white-space: nowrap; }
.long { min-width: 12rem; }
.above { background: var(--above-tint); box-shadow: inset 3px 0 var(--above); }
.below { background: var(--below-tint); box-shadow: inset 3px 0 var(--below); }
.line { display: block; white-space: nowrap; }
.which { display: block; color: var(--soft); font-size: 0.8rem;
  width: max-content; max-width: 11rem; }
.notes { margin: 0.4rem 0; color: var(--soft); font-size: 0.9rem; }
ul.notes { list-style: none; padding: 0; }
@media (max-width: 40rem) {
  table { font-size: 0.82rem; }
  th, td { padding: 0.3rem 0.5rem; }
  thead td, th[scope=row] { min-width: 5rem; max-width: 7.5rem; }
  th[scope=rowgroup] span { left: 0.5rem; }
}
@media print {
  :root {
    color-scheme: light;
    --ink: #000; --soft: #444; --page: #fff; --panel: #f4f5f7; --line: #ccc; --link: #000;
    --above-tint: #dcebf7; --below-tint: #fce5d6;
  }
  @page { size: A4 landscape; margin: 12mm; }
  body { padding: 0; max-width: none; font-size: 10pt; print-color-adjust: exact;
    -webkit-print-color-adjust: exact; }
  section { break-before: page; border: 0; margin: 0; padding: 0; }
  .scroll { overflow: visible; }
  table { font-size: 7pt; }
  th, td { padding: 2pt 4pt; }
  .which { font-size: 6pt; width: auto; }
  thead td, th[scope=row] { position: static; min-width: 0; }
  thead { display: table-header-group; }
  tr, figure, aside { break-inside: avoid; }
  h2, h3, caption { break-after: avoid; }
  a { text-decoration: none; }
}
"""
)


def html_page(
    title: str, introduction: Sequence[str], sections: Sequence[Section], pictures: Mapping[str, bytes]
) -> str:
    """The page as one file; `pictures` are SVG by name, for every picture of the sections.

    >>> page = html_page("Ours & theirs", [], [], {})
    >>> page.splitlines()[0], "<h1>Ours &amp; theirs</h1>" in page
    ('<!DOCTYPE html>', True)
    """
    contents = "".join(
        f'<li><a href="#{escape(section.name)}">{escape(section.title)}</a></li>\n' for section in sections
    )
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title>",
            f"<style>{_STYLE}</style>",
            "</head>",
            "<body>",
            "<header>",
            f"<h1>{escape(title)}</h1>",
            *(f"<p>{escape(text)}</p>" for text in introduction),
            f'<nav aria-label="{CONTENTS}">\n<h2>{CONTENTS}</h2>\n<ul>\n{contents}</ul>\n</nav>',
            _html_legend(),
            "</header>",
            "<main>",
            *(_html_section(section, pictures) for section in sections),
            "</main>",
            "</body>",
            "</html>",
            "",
        ]
    )


def _html_legend() -> str:
    """An example of a cell, and what its parts are."""
    sides = {ABOVE: "above", BELOW: "below"}
    parts = [
        f'<dt><span class="{sides[part]}">{part}</span></dt>' if part in sides else f"<dt>{escape(part)}</dt>"
        for part, _ in LEGEND
    ]
    meanings = [f"<dd>{escape(meaning)}</dd>" for _, meaning in LEGEND]
    rows = "\n".join(part + meaning for part, meaning in zip(parts, meanings, strict=True))
    sheet = Sheet(["Digits"], [Line("LayUP", [EXAMPLE])], "An example")
    table = _html_table(sheet, READING, "example")
    return f'<h2>{READING}</h2>\n<div class="legend">\n{table}\n<dl>\n{rows}\n</dl>\n</div>'


def _html_section(section: Section, pictures: Mapping[str, bytes]) -> str:
    name = escape(section.name)
    blocks = [
        f'<section id="{name}">',
        f"<h2>{escape(section.title)}</h2>",
        f"<p>{escape(section.about)}</p>",
    ]
    blocks += _html_aside("says", SAYS, section.says)
    blocks += [_html_picture(picture, pictures[picture.name]) for picture in section.shown.pictures]
    for number, sheet in enumerate(section.shown.sheets, 1):
        blocks.append(_html_table(sheet, section.title, f"{name}-{number}"))
        blocks += [f'<p class="notes">{escape(note)}</p>' for note in sheet.notes]
    blocks += _html_aside("contradicts", CONTRADICTS, section.footnotes)
    return "\n".join([*blocks, "</section>"])


def _html_aside(kind: str, heading: str, texts: Sequence[str]) -> list[str]:
    if not texts:
        return []
    rows = "\n".join(f"<li>{escape(text)}</li>" for text in texts)
    return [f'<aside class="{kind}">\n<h3>{heading}</h3>\n<ul>\n{rows}\n</ul>\n</aside>']


def _html_picture(picture: Picture, svg: bytes) -> str:
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    caption = escape(picture.caption)
    return f'<figure>\n<img src="{source}" alt="{caption}">\n<figcaption>{caption}</figcaption>\n</figure>'


def _html_table(sheet: Sheet, caption: str, anchor: str) -> str:
    """A table that scrolls by itself, and why cells are empty; without a title, `caption` is only heard."""
    letters = lettered(sheet)
    links = {reason: f'<a href="#{anchor}-{sign}">({sign})</a>' for reason, sign in letters.items()}
    kinds = [' class="number"' if right else "" for right in _numeric(sheet)]
    headings = "".join(
        f'<th scope="col"{kind}>{_html_heading(column)}</th>'
        for kind, column in zip(kinds, sheet.columns, strict=True)
    )
    heard = "" if sheet.title else ' class="unseen"'
    named = escape(sheet.title or caption)
    blocks = [
        # Who has no mouse scrolls with the arrows, if it can be reached.
        f'<div class="scroll" role="region" aria-label="{named}" tabindex="0">',
        f"<table>\n<caption{heard}><span>{named}</span></caption>",
        f"<thead>\n<tr><td></td>{headings}</tr>\n</thead>",
    ]
    for part, lines in _parted(sheet):
        blocks.append("<tbody>")
        if part:
            width = len(sheet.columns) + 1
            heading = f'<th scope="rowgroup" colspan="{width}"><span>{escape(part)}</span></th>'
            blocks.append(f"<tr>{heading}</tr>")
        for line in lines:
            cells = "".join(
                _html_cell(cell, kind, links) for cell, kind in zip(line.cells, kinds, strict=True)
            )
            blocks.append(f'<tr><th scope="row">{escape(line.label)}</th>{cells}</tr>')
        blocks.append("</tbody>")
    blocks.append("</table>\n</div>")
    if letters:
        reasons = "\n".join(
            f'<li id="{anchor}-{sign}">({sign}) {escape(reason)}</li>' for reason, sign in letters.items()
        )
        blocks.append(f'<ul class="notes">\n{reasons}\n</ul>')
    return "\n".join(blocks)


def _html_heading(column: str) -> str:
    """A heading in as many lines as it needs, none of which ends within a name such as IN-R."""
    return re.sub(r"\S+-\S+", r'<span class="short">\g<0></span>', escape(column))


def _html_cell(cell: Cell | str, kind: str, links: Mapping[str, str]) -> str:
    """A cell whose parts stand below each other; `links` lead to the reasons."""
    if isinstance(cell, str):
        kind = kind or (' class="short"' if len(cell) <= SHORT else ' class="long"')
        return f"<td{kind}>{escape(cell)}</td>"
    ours = _ours(cell)
    if ours is None:
        lines = [_html_line(f"{DASH} {links.get(cell.missing, '')}".rstrip())]
    else:
        lines = [_html_line(f"<b>{percent(ours.value)}</b> {_interval(ours)}"), _html_which(cell.which)]
    if cell.chosen is not None:
        lines += [_html_line(f"chosen {percent(cell.chosen)}"), _html_which(cell.chosen_which)]
    mark, difference = _mark(cell), _difference(cell)
    if cell.paper is not None:
        marked = f"<b>{difference} {mark}</b>" if mark else difference
        lines.append(_html_line(f"{_paper(cell)}, {marked}" if difference else _paper(cell)))
    side = {ABOVE: ' class="above"', BELOW: ' class="below"'}.get(mark, "")
    return f"<td{side}>{''.join(lines)}</td>"


def _html_line(markup: str) -> str:
    return f'<span class="line">{markup}</span>'


def _html_which(which: str) -> str:
    return f'<span class="which">{escape(which)}</span>' if which else ""
