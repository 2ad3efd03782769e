"""λ search and task update, against the literal procedure: how much faster, and whether they are right."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from layup.algebra import FIRST_LAMBDA, GramStatistics, RidgeClassifier, search_lambda
from layup.formats import floored_percent, seconds
from layup.performance.literal import LiteralClassifier
from layup.performance.oracle import ENOUGH, Oracle
from layup.performance.report import Report, agreement, spread_note, times
from layup.performance.sample import Labels, Population, Rows
from layup.performance.timing import Ratio, Work, interleaved, ratio
from layup.progress import progress_bar

PAPER_DIM = 4608
"""What the cases are sized for: six layers of 768 values. At other dimensions they keep their proportions."""
TEST = 2000
PART = 4096
"""Earlier samples generated at a time."""


@dataclass(frozen=True)
class Case:
    """A task after earlier ones, its history: samples of each, and the share of classes that it brings."""

    name: str
    history: int
    new: int
    classes: float = 1.0
    brings: float = 0.1

    def at(self, dim: int, classes: int) -> Situation:
        """The case with this many dimensions and classes."""
        total = max(2, round(self.classes * classes))
        new = max(2, round(self.brings * total))
        fewest = 8 * new  # two per fold

        def sized(count: int) -> int:
            return round(count * dim / PAPER_DIM)

        return Situation(self.name, dim, total, new, sized(self.history), max(sized(self.new), fewest))


CASES = (
    Case("a small task", 7200, 800),
    Case("a large task", 45000, 5000),
    Case("fewer samples than d, as in VTAB", 1437, 359, classes=0.25, brings=0.2),
    Case("a first task", 0, 800),
    Case("a large first task", 0, 5000, brings=1.0),
)


@dataclass(frozen=True)
class Situation:
    """A case in numbers: all classes and those of the task, and how many samples come when."""

    name: str
    dim: int
    classes: int
    new_classes: int
    history: int
    new: int

    @property
    def samples(self) -> str:
        """How many samples are new, and after how many, as text."""
        return f"{self.new:,} after {self.history:,}" if self.history else f"{self.new:,}"

    def old(self) -> range:
        """The classes of the history, if there is one."""
        return range(self.classes - self.new_classes if self.history else 0)

    def batch(self) -> range:
        """The classes of the task."""
        first = len(self.old())
        return range(first, first + self.new_classes)


@dataclass(frozen=True)
class SearchRow:
    """What was measured in one situation.

    search, update: the literal procedure's seconds over ours, of the search alone, and of the whole way from
        a task's features to new weights.
    lam, literal_lam, oracle_lam: the λ that each has chosen.
    as_literal: the share of held-out samples for which ours and the literal procedure predict the same;
        as_oracle, literal_as_oracle: the same with the float64 oracle, if it was run.
    """

    situation: Situation
    search: Ratio
    update: Ratio
    lam: float
    literal_lam: float
    accuracy: float
    literal_accuracy: float
    as_literal: float
    oracle_lam: float | None = None
    as_oracle: float | None = None
    literal_as_oracle: float | None = None


def measure(
    dim: int, classes: int, pairs: int, check: bool = False, cases: Sequence[Case] = CASES
) -> list[SearchRow]:
    """A row for each case. At d = 4,608, a pair takes a minute or two, and so does the check."""
    rows = []
    with progress_bar(None, "cases") as bar:
        task = bar.add_task("λ search and task update", total=len(cases), note="")
        for case in cases:
            bar.update(task, note=case.name)
            rows.append(measured(case.at(dim, classes), pairs, check))
            bar.advance(task)
    return rows


def measured(situation: Situation, pairs: int, check: bool) -> SearchRow:
    """Both procedures in turn on one task, and their predictions."""
    population = Population(situation.dim, situation.classes)
    history, samples = learned_before(situation, population)
    x, y = population.batch(situation.new, situation.batch(), seed=1)
    test, truth = population.batch(TEST, [*situation.old(), *situation.batch()], seed=2)
    twin = LiteralClassifier.after(history)

    def update(model: RidgeClassifier) -> RidgeClassifier:
        model.partial_fit(x, y).predict(test[:1])  # weights are computed when first used
        return model

    # Solving takes the same time for every λ. Neither work of the twin changes its sums.
    works = {
        "literal search": Work(twin.search, lambda: (x, y)),
        "literal weights": Work(lambda model: model.add(x, y, FIRST_LAMBDA), lambda: (copy(twin),)),
        "search": Work(search_lambda, lambda: (history, x, y)),
        "update": Work(update, lambda: (after(history),)),
    }
    timed = interleaved(works, pairs, untimed=0)
    ours, literal_lam = timed["update"].result, timed["literal search"].result
    twin.add(x, y, literal_lam)
    predictions, literal_predictions = ours.predict(test), twin.predict(test)
    literal_update = timed["literal search"].seconds + timed["literal weights"].seconds
    row = SearchRow(
        situation,
        ratio(timed["literal search"].seconds, timed["search"].seconds),
        ratio(literal_update, timed["update"].seconds),
        ours.lambda_,
        literal_lam,
        accuracy=agreement(predictions, truth),
        literal_accuracy=agreement(literal_predictions, truth),
        as_literal=agreement(predictions, literal_predictions),
    )
    if not check:
        return row
    oracle = Oracle(history, samples, x, y)
    right = oracle.predict(test)
    return replace(
        row,
        oracle_lam=oracle.best,
        as_oracle=agreement(predictions, right),
        literal_as_oracle=agreement(literal_predictions, right),
    )


def learned_before(
    situation: Situation, population: Population
) -> tuple[GramStatistics, tuple[Rows, Labels]]:
    """The sums of the history; its samples as well, if the oracle needs them."""
    sums = GramStatistics(situation.dim)
    parts: list[tuple[Rows, Labels]] = [population.batch(0, range(1), seed=0)]
    for start in range(0, situation.history, PART):
        count = min(PART, situation.history - start)
        batch = population.batch(count, situation.old(), seed=10 + start)
        sums.update(*batch)
        if situation.history < ENOUGH * situation.dim:
            parts.append(batch)
    rows, labels = zip(*parts, strict=True)
    return sums, (np.concatenate(rows), np.concatenate(labels))


def after(history: GramStatistics) -> RidgeClassifier:
    """Our classifier with these sums learned."""
    model = RidgeClassifier("search", grid="paper")  # what the literal search does
    model.adopt(history.copy())
    return model


def report(rows: Sequence[SearchRow]) -> Report:
    """The rows as a table."""
    columns = [
        *("task", "samples", "classes: new, known", "literal search", "ours", "times as fast"),
        *("literal update", "ours", "times as fast", "λ: literal, ours, oracle"),
        *("accuracy: literal, ours", "labels as the oracle's: literal, ours"),
    ]
    cells = []
    for row in rows:
        lambdas = [row.literal_lam, row.lam, *([] if row.oracle_lam is None else [row.oracle_lam])]
        cells.append(
            [
                row.situation.name,
                row.situation.samples,
                f"{len(row.situation.batch()):,}, {row.situation.batch().stop:,}",
                *(seconds(value) for value in (row.search.first_seconds, row.search.second_seconds)),
                times(row.search),
                *(seconds(value) for value in (row.update.first_seconds, row.update.second_seconds)),
                times(row.update),
                ", ".join(f"{lam:.3g}" for lam in lambdas),
                f"{row.literal_accuracy:.3f}, {row.accuracy:.3f}",
                f"{floored_percent(row.literal_as_oracle)}, {floored_percent(row.as_oracle)}",
            ]
        )
    notes = [
        spread_note(rows[0].search),
        "Update: search, sums and weights, from features to the first prediction.",
        "Literal: 4 folds × 16 λ, each an LU solve in float32. Oracle: the same in float64"
        + (" (not run)." if rows[0].oracle_lam is None else "."),
        f"Accuracy and labels: of {TEST:,} held-out samples of all classes so far.",
    ]
    ratios: dict[str, Ratio] = {}
    for row in rows:
        samples = row.situation.samples
        ratios |= {f"{samples} samples: search": row.search, f"{samples} samples: update": row.update}
    title = f"λ search and task update, d = {rows[0].situation.dim:,}"
    return Report("search", title, columns, cells, notes, rows, ratios, texts=2)
