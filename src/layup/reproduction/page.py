"""The paper's tables and figures as one page: numbers next to the paper's, and what the paper says of them.

The HTML page is a single file: its style and its pictures are in it, nothing is fetched, nothing is executed.
The same page is written as Markdown.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from layup.benchmark.metrics import Interval
from layup.cluster import Cluster
from layup.errors import InputError
from layup.features import Reading
from layup.formats import DASH, printable_lines
from layup.reproduction.config import ReproductionConfig
from layup.reproduction.introduction import introduction
from layup.reproduction.paper import FOOTNOTES, SAYS
from layup.reproduction.plan import items_of, wanted_by
from layup.reproduction.results import Results
from layup.reproduction.runner import RUNNING, Job, Runner
from layup.reproduction.shown import MARKS, Cell, Picture, Shown
from layup.storage import make_folder, write_text
from layup.tables import Row, Table, bullets, environment, one_line, plain, to_markdown

TITLE = "LayUP, reproduced"
PAGE = "reproduction"
"""The name of both files, without their endings."""
FIGURES = "figures"
PAPER_SAYS, CONTRADICTS = "The paper says", "Where the paper contradicts itself"
CONTENTS, READING = "Contents", "How to read a cell"

EXAMPLE = Cell(Interval(0.694, 0.673, 0.714, 0.0105), 92.0, "vit-nano, ssf", 0.689, "vit-nano, vpt")
LEGEND = (
    ("69.4 [67.3, 71.4]", "Ours in percent, with its 95 % interval over the test images."),
    ("vit-nano, ssf", "What gave it, where it is the best of several by its test accuracy."),
    (
        "chosen 68.9",
        "The value of the one that is chosen without looking at the test images, and which that is.",
    ),
    ("paper 92.0", "What the paper prints."),
    ("−22.6", "Ours minus the paper's, in points."),
    (MARKS["above"], "Ours is above the paper's, which is outside of our interval."),
    (MARKS["below"], "Ours is below the paper's, which is outside of our interval."),
    (f"{DASH} (a)", "There is no value; the letter below the table says why."),
)
"""The parts of a cell, those of the example first, and what they are."""


@dataclass(frozen=True)
class Section:
    """A table or figure of the paper, as reproduced.

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


@dataclass(frozen=True)
class Page:
    """What was reproduced: a few sentences on how, and a section for each table and figure.

    >>> page = Page("Ours & theirs", ["As the paper has it."])
    >>> page.to_markdown().splitlines()[0], "<h1>Ours &amp; theirs</h1>" in page.to_html()
    ('# Ours & theirs', True)
    """

    title: str = TITLE
    introduction: Sequence[str] = ()
    sections: Sequence[Section] = ()

    def to_html(self) -> str:
        """The page as one file, with all pictures in it."""
        with TemporaryDirectory() as folder:
            return self._drawn(Path(folder))._html(Path(folder))

    def to_markdown(self, figures: str = FIGURES) -> str:
        """The page as GitHub shows it; its pictures are files in the folder `figures`."""
        contents = [f"[{plain(each.title)}](#{_slug(each.title)})" for each in self.sections]
        blocks = [f"# {plain(self.title)}", *map(plain, self.introduction)]
        blocks += [f"## {CONTENTS}", bullets(contents)] if contents else []
        blocks += [f"## {READING}", one_line(EXAMPLE)]
        blocks.append(bullets(f"`{part}`: {plain(meaning)}" for part, meaning in LEGEND))
        for section in self.sections:
            blocks += _markdown(section, figures)
        return printable_lines("\n\n".join(block for block in blocks if block) + "\n")

    def save(self, folder: str | Path) -> tuple[Path, Path]:
        """Write the page and its pictures into a folder; gives the paths of its HTML and its Markdown."""
        folder = Path(folder)
        figures = folder / FIGURES
        make_folder(figures)
        drawn = self._drawn(figures)
        page, text = folder / f"{PAGE}.html", folder / f"{PAGE}.md"
        write_text(page, drawn._html(figures))
        write_text(text, drawn.to_markdown())
        return page, text

    def _drawn(self, folder: Path) -> Page:
        """The same page, its pictures drawn as PNG and as SVG."""
        return replace(self, sections=[_drawn(section, folder) for section in self.sections])

    def _html(self, figures: Path) -> str:
        def data(picture: Picture) -> str:
            return base64.b64encode((figures / f"{picture.name}.svg").read_bytes()).decode()

        example = Table(["Digits"], [Row("LayUP", [EXAMPLE])], "An example")
        template = environment("layup.reproduction").get_template("page.html.j2")
        sides = {mark: side for side, mark in MARKS.items()}
        words = {
            "CONTENTS": CONTENTS,
            "READING": READING,
            "PAPER_SAYS": PAPER_SAYS,
            "CONTRADICTS": CONTRADICTS,
        }
        text = template.render(page=self, example=example, legend=LEGEND, sides=sides, data=data, **words)
        return printable_lines(text + "\n")


def reproduce(
    items: Sequence[str],
    config: ReproductionConfig,
    *,
    records: str | Path = "results",
    reading: Reading | None = None,
    only_finished: bool = False,
    cluster: Cluster | None = None,
    say: Callable[[str], None] | None = None,
) -> Page:
    """Reproduce tables and figures of the paper: run what is missing, and show it next to its numbers.

    items: names of `ITEMS`, or "all".
    config: which datasets and networks, and how large: `quick_config`, `local_config` or `paper_config`.
    records: the folder of the records. Finished runs are not repeated; interrupted ones are resumed.
    reading: how images are read, such as {"workers": 2}.
    only_finished: run nothing, and make the page from the finished runs.
    cluster: do the runs on many processors, independently; by default one after another, in this process.
    say: called with a line about each run, such as `print`.

    If something cannot be run, its cell says why. Costs what the runs cost: see `forecast`.

    >>> from layup.reproduction import quick_config
    >>> page = reproduce(["table6"], quick_config(None))
    >>> [row.label for row in page.sections[0].shown.tables[0].rows][:2]
    ['digits', 'digits-styles']
    """
    chosen = items_of(items)
    config.require_source()  # now rather than after hours
    runner = Runner(config, Path(records), reading or Reading(), only_finished, cluster)
    wanted = wanted_by(chosen, runner)
    total, done = len(runner.jobs(wanted)), 0

    def on_job(job: Job, what: str) -> None:
        nonlocal done
        done += what != RUNNING
        if say is not None:
            say(f"[{min(done + (what == RUNNING), total)}/{total}] {job.title(config)}: {what}")

    results = Results(runner, runner.gather(wanted, on_job))
    sections = [
        Section(
            item.name,
            item.title,
            item.about,
            item.kind.show(results),
            SAYS.get(item.name, ()),
            FOOTNOTES.get(item.name, ()),
        )
        for item in chosen
    ]
    return Page(TITLE, introduction(results), sections)


def _drawn(section: Section, folder: Path) -> Section:
    """Draw a section's pictures; if one cannot be drawn, a sentence says why."""
    done, about = [], section.about
    for picture in section.shown.pictures:
        try:
            for ending in ("png", "svg"):
                picture.draw(folder / f"{picture.name}.{ending}")
        except InputError as error:
            about = f"{about} There is no picture '{picture.name}': {error}"
        else:
            done.append(picture)
    return replace(section, about=about, shown=replace(section.shown, pictures=done))


def _markdown(section: Section, figures: str) -> list[str]:
    blocks = [f"## {plain(section.title)}", plain(section.about)]
    if section.says:
        said = f"**{PAPER_SAYS}**\n\n{bullets(map(plain, section.says))}"
        blocks.append("\n".join(f"> {line}".rstrip() for line in said.splitlines()))
    for picture in section.shown.pictures:
        alternative = re.sub(r"[\[\]]", r"\\\g<0>", plain(picture.caption))
        blocks += [f"![{alternative}]({figures}/{picture.name}.png)", plain(picture.caption)]
    blocks += map(to_markdown, section.shown.tables)
    if section.footnotes:
        blocks += [f"**{CONTRADICTS}**", bullets(map(plain, section.footnotes))]
    return blocks


def _slug(title: str) -> str:
    """GitHub's anchor of a heading.

    >>> _slug("Table 1: new classes (CIL)")
    'table-1-new-classes-cil'
    """
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
