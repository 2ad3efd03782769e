"""The paper's tables: rows of runs, whose numbers are shown next to the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layup.benchmark import Record
from layup.errors import LayupError
from layup.formats import DASH, whole_percent
from layup.reproduction.config import Column
from layup.reproduction.paper import PRINTED, gap_closed
from layup.reproduction.results import Pairing, Results, chosen_of, interval
from layup.reproduction.runner import Missing, Runner, Wanted, first_line
from layup.reproduction.shown import Cell, Shown
from layup.reproduction.spec import NETWORKS, PLAIN, Spec
from layup.tables import Row, Table

BOUND = "Joint FT (full)"
OTHER_WEIGHTS = (
    "The paper's numbers of other methods are mostly those of their authors, whose code loads older weights "
    "of ViT-B/16-IN1K (augreg_in21k_ft_in1k) than LayUP's (augreg2_in21k_ft_in1k): another network."
)


@dataclass(frozen=True)
class PaperRow:
    """A row of a table: its label in the paper, the runs of which the best is shown, and where it belongs.

    own: whether it is not in the paper.
    like: the paper's row that it is shown next to, if that has another label.
    """

    label: str
    specs: tuple[Spec, ...]
    section: str = ""
    own: bool = False
    like: str = ""

    def shown(self, results: Results) -> str:
        """The label here: whose row it is, and how many random projections RanPAC has if it is cut."""
        width = results.runner.narrow(self.specs[0])
        cut = "" if width is None else f", M = {width:,}"
        return f"{self.label}{cut}{' (ours)' * self.own}"

    @property
    def printed(self) -> str:
        """The label in the paper of the row that it is shown next to."""
        return self.like or self.label


@dataclass(frozen=True)
class BestOf:
    """Tables 1 to 3: a column for each dataset; of the runs of a row the best by its test accuracy.

    choose: also show the combination that is chosen on held-out images of the first task.
    baselines: the rows whose best is compared with LayUP, for the share of the gap to joint training.
    same: pairs of runs that must have the same predictions.
    """

    printed: str
    setting: str
    rows: tuple[PaperRow, ...]
    choose: bool = False
    baselines: tuple[str, ...] = ()
    same: tuple[tuple[Spec, Spec], ...] = ()

    def wanted(self, runner: Runner) -> Wanted:
        """All runs that it shows."""
        specs = [spec for row in self.rows for spec in row.specs]
        specs += [spec for pair in self.same for spec in pair]
        return [(column, spec) for column in runner.config.of(self.setting) for spec in specs]

    def show(self, results: Results) -> Shown:
        """The table, and below it what was chosen and what is equal."""
        columns = results.config.of(self.setting)
        printed = PRINTED[self.printed]
        cells = {
            (row.label, column): self.cell(results, row, column) for row in self.rows for column in columns
        }
        lines = [
            Row(
                row.shown(results),
                [
                    *(cells[row.label, column] for column in columns),
                    *_printed_cells(results, self.printed, row.printed),
                ],
                row.section,
            )
            for row in self.rows
        ]
        if self.baselines:
            lines.append(self._gap_line(results, columns, cells))
        notes = [*self._choices(results, columns), *self._equalities(results, columns)]
        theirs = _printed_columns(results, self.printed)
        headings = [*(column.label for column in columns), *theirs]
        notes += _stars(printed.starred) if theirs else []
        notes += [*([OTHER_WEIGHTS] if self.baselines else []), *_narrow(results, self.rows)]
        return Shown([Table(headings, lines, notes=notes, extra=len(theirs))])

    def cell(self, results: Results, row: PaperRow, column: Column) -> Cell:
        """The best run of a row on a dataset, and the chosen one."""
        paper = _paper_value(results, self.printed, row.printed, column)
        found = {spec: each for spec in row.specs if (each := results.interval(column, spec)) is not None}
        if not found:
            return Cell(paper=paper, missing=_why(results, column, row.specs))
        best = max(found, key=lambda spec: found[spec].value)
        of = f"; best of {len(found)}, {len(row.specs)} planned" if len(found) < len(row.specs) else ""
        chosen = chosen_of(row.specs, results.choices(column, self.setting)) if self.choose else None
        return Cell(
            found[best],
            paper,
            which=results.combination(best) + of,
            chosen=found[chosen].value if chosen in found else None,
            chosen_which=results.combination(chosen) if chosen in found and chosen else "",
        )

    def _gap_line(
        self, results: Results, columns: Sequence[Column], cells: dict[tuple[str, Column], Cell]
    ) -> Row:
        """How much of the gap between the best other method and joint training LayUP closes."""

        def share(values: dict[str, float | None], complete: bool) -> str:
            ours, bound, *others = (values.get(name) for name in ("LayUP", BOUND, *self.baselines))
            known = [value for value in others if value is not None]
            # Without all of the others, the best of them is not known. (The paper itself lacks some.)
            if ours is None or bound is None or len(known) < complete * len(others):
                return DASH
            found = gap_closed(ours, max(known), bound)
            return "no gap" if found is None else whole_percent(found)

        printed = PRINTED[self.printed]
        names = (*self.baselines, "LayUP", BOUND)
        found = []
        for column in columns:
            ours = {name: _value(cells[name, column]) for name in names}
            text = share(ours, complete=True)
            if results.config.like_paper:
                theirs = {name: printed.rows[name].get(column.label) for name in names}
                text += f" (paper: {share(theirs, complete=False)})"
            found.append(text)
        if not results.config.like_paper:
            rows = ({name: printed.rows[name].get(column) for name in names} for column in printed.columns)
            found += [share(row, complete=False) for row in rows]
        return Row("gap to joint FT that LayUP closes, from the best other", found, "Share of the gap")

    def _choices(self, results: Results, columns: Sequence[Column]) -> list[str]:
        if not self.choose:
            return []
        said = {column.label: results.choices(column, self.setting) for column in columns}
        words = [
            f"{label}: {', tied with '.join(map(results.combination, specs))}"
            for label, specs in said.items()
            if specs
        ]
        chosen = f" Here: {'; '.join(words)}." if words else ""
        return [
            "The first number is the best combination of network and adapter by its accuracy on the test "
            "images, as the paper reports it: this is optimistic. 'Chosen' is the combination whose first "
            "session did best on held-out images of the first task, without looking at test images; methods "
            f"without a session take its network.{chosen}",
            *self._lacking(results, columns),
        ]

    def _lacking(self, results: Results, columns: Sequence[Column]) -> list[str]:
        """Why some combinations are not there, each reason once."""
        reasons = (
            found.why
            for column in columns
            for row in self.rows
            for spec in row.specs
            if isinstance(found := results.found(column, spec), Missing)
        )
        listed = " ".join(dict.fromkeys(reasons))
        return [f"Not all combinations could be run: {listed}"] if listed else []

    def _equalities(self, results: Results, columns: Sequence[Column]) -> list[str]:
        pairs = [
            (a, b)
            for column in columns
            for first, second in self.same
            if (a := results.record(column, first)) and (b := results.record(column, second))
        ]
        if not pairs:
            return []
        equal = sum(_named(a) == _named(b) for a, b in pairs)
        names = f"{self.same[0][0].method.upper()} in {self.same[0][0].setting} and {self.same[0][1].setting}"
        return [f"{names} must predict the same: all predictions are equal in {equal} of {len(pairs)} pairs."]


@dataclass(frozen=True)
class PerNetwork:
    """Tables 4, 5 and 7: a column for each dataset and network, one run per row.

    both: whether both networks are shown if they are not the paper's, which has only one of them.
    """

    printed: str
    rows: tuple[PaperRow, ...]
    setting: str = "cil"
    both: bool = False

    def wanted(self, runner: Runner) -> Wanted:
        """All runs that it shows."""
        return [
            (column, spec.on(network))
            for column in runner.config.of(self.setting)
            for network in self._networks(runner)
            for row in self._rows(runner)
            for spec in row.specs
        ]

    def show(self, results: Results) -> Shown:
        """The table."""
        pairings = results.pairings(results.config.of(self.setting), self._networks(results.runner))
        lines = []
        for row in self._rows(results.runner):
            cells = [self._cell(results, row, pairing) for pairing in pairings]
            if row.own and all(cell.missing for cell in cells):
                continue  # depths that no network has
            theirs = _printed_cells(results, self.printed, row.printed)
            lines.append(Row(row.shown(results), [*cells, *theirs], row.section))
        labels = [
            pairing.column.label if results.config.like_paper else pairing.label for pairing in pairings
        ]
        theirs = _printed_columns(results, self.printed)
        notes = _narrow(results, self.rows)
        return Shown([Table([*labels, *theirs], lines, notes=notes, extra=len(theirs))])

    def _rows(self, runner: Runner) -> list[PaperRow]:
        """The rows with numbers of tasks of this config."""
        return [row for row in self.rows if row.specs[0].tasks in (None, *runner.config.task_counts)]

    def _networks(self, runner: Runner) -> tuple[str, ...]:
        return NETWORKS[::-1] if self.both and not runner.config.like_paper else (PLAIN,)

    def _cell(self, results: Results, row: PaperRow, pairing: Pairing) -> Cell:
        paper = _paper_value(results, self.printed, row.label, pairing.column)
        spec = row.specs[0].on(pairing.network)
        found = results.found(pairing.column, spec)
        if isinstance(found, Missing):
            return Cell(paper=paper, missing=found.why)
        return Cell(interval(found), paper)


@dataclass(frozen=True)
class Datasets:
    """Table 6: the datasets as they are found on disk."""

    printed: str = "table6"

    def wanted(self, runner: Runner) -> Wanted:
        """Nothing is run."""
        return []

    def show(self, results: Results) -> Shown:
        """Tasks, images and classes of each, next to the paper's."""
        printed = PRINTED[self.printed]
        lines = []
        for column in results.config.everything if not results.config.like_paper else results.config.columns:
            paper = printed.rows.get(column.label, {}) if results.config.like_paper else {}
            try:
                dataset = results.runner.dataset(column)
            except LayupError as error:
                cells: list[Cell | str] = [Cell(missing=first_line(str(error))) for _ in printed.columns]
            else:
                sizes = (dataset.tasks, len(dataset.train), len(dataset.test), len(dataset.classes))
                cells = [
                    f"{ours:,}" + _compared(ours, paper.get(name))
                    for ours, name in zip(sizes, printed.columns, strict=True)
                ]
            lines.append(Row(column.label, cells, "Here" if not results.config.like_paper else ""))
        if not results.config.like_paper:
            lines += [
                Row(name, [f"{row[each]:,.0f}" for each in printed.columns], "The paper's")
                for name, row in printed.rows.items()
            ]
        return Shown([Table(printed.columns, lines)])


def _compared(ours: int, paper: float | None) -> str:
    if paper is None:
        return ""
    return " (as the paper)" if ours == paper else f" (paper: {paper:,.0f})"


def _paper_value(results: Results, name: str, row: str, column: Column) -> float | None:
    """What the paper prints for a dataset, if this is that dataset, and this a row of the paper."""
    return PRINTED[name].rows.get(row, {}).get(column.label) if results.config.like_paper else None


def _printed_columns(results: Results, name: str) -> list[str]:
    """The paper's datasets, unless these are its datasets: then its numbers are next to ours."""
    return [] if results.config.like_paper else [f"paper: {column}" for column in PRINTED[name].columns]


def _printed_cells(results: Results, name: str, row: str) -> list[str]:
    if results.config.like_paper:
        return []
    values = PRINTED[name].rows.get(row, {})
    cells = ((values.get(column), (row, column) in PRINTED[name].starred) for column in PRINTED[name].columns)
    return [DASH if value is None else f"{value:.1f}{'*' * star}" for value, star in cells]


def _narrow(results: Results, rows: Sequence[PaperRow]) -> list[str]:
    """A note if RanPAC is cut."""
    widths = {results.runner.narrow(row.specs[0]) for row in rows} - {None}
    return [
        f"RanPAC has M = {width:,} random projections here, not the 10,000 of its authors: no comparison."
        for width in widths
    ]


def _stars(starred: frozenset[tuple[str, str]]) -> list[str]:
    return ["* SLCA as the paper's authors reproduced it."] if starred else []


def _why(results: Results, column: Column, specs: Sequence[Spec]) -> str:
    """Why no run has a record: the reason of the last, whose plain transformer every adapter fits."""
    found = results.found(column, specs[-1])
    return found.why if isinstance(found, Missing) else ""


def _value(cell: Cell) -> float | None:
    """In percent, like the paper's."""
    return None if cell.ours is None else 100 * cell.ours.value


def _named(record: Record) -> list[str]:
    return [record.class_order[pairing] for pairing in record.predictions]
