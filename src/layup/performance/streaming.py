"""One sample at a time: learn it and predict, beside re-solving; and how exact it still is after many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from layup.algebra import Floats, GramStatistics, RidgeClassifier
from layup.formats import floored_percent, seconds
from layup.performance.literal import LiteralClassifier
from layup.performance.report import Report, agreement, spread_note, times
from layup.performance.sample import Population
from layup.performance.timing import Ratio, Work, interleaved, ratio
from layup.progress import progress_bar

LAMBDA = 1.0
"""What the paper uses on streams, besides 0."""
ASKED = 2000
FIRST = 2
"""Samples of each class that are known before the stream begins."""
STEPS = 10
"""Samples that ours learns in the time that is compared with one of the literal procedure."""
SAMPLES = 10_000
PART = 500
"""Samples of the stream made at a time."""


@dataclass(frozen=True)
class StreamRow:
    """What was measured on a stream.

    step: seconds of learning one sample and predicting one by re-solving, over ours.
    error: ‖(G + λI)W − c‖ / (‖G + λI‖ ‖W‖ + ‖c‖) after all samples, in 2-norms; G and c are summed anew.
    as_fresh: the share of held-out samples that are answered as by one solve of all samples at once.
    """

    dim: int
    classes: int
    samples: int
    lam: float
    step: Ratio
    error: float
    as_fresh: float


def measure(dim: int, classes: int, pairs: int, samples: int = SAMPLES) -> list[StreamRow]:
    """One row. Costs so many steps, and as many dense solves as there are pairs."""
    population = Population(dim, classes)
    first = population.batch(FIRST * classes, range(classes), seed=1)
    streaming, sums = RidgeClassifier(LAMBDA).partial_fit(*first), GramStatistics(dim)
    sums.update(*first)
    with progress_bar(None, "samples") as bar:
        task = bar.add_task("One sample at a time", total=samples, note="")
        for start in range(0, samples, PART):
            x, y = population.batch(min(PART, samples - start), range(classes), seed=10 + start)
            sums.update(x, y)
            for i in range(len(y)):
                streaming.partial_fit(x[i : i + 1], y[i : i + 1]).predict(x[i : i + 1])
                bar.advance(task)
    asked, _ = population.batch(ASKED, range(classes), seed=2)
    fresh = RidgeClassifier(LAMBDA)
    fresh.adopt(sums)
    as_fresh = agreement(streaming.predict(asked), fresh.predict(asked))
    error = backward_error(sums, streaming.scores(np.eye(dim)), LAMBDA)
    step = compared(streaming, LiteralClassifier.after(sums), population, pairs)
    return [StreamRow(dim, classes, samples, LAMBDA, step, error, as_fresh)]


def compared(
    streaming: RidgeClassifier, literal: LiteralClassifier, population: Population, pairs: int
) -> Ratio:
    """The seconds of learning one sample and predicting one: by re-solving, over ours."""
    x, y = population.batch(STEPS, range(population.classes), seed=3)

    def re_solve() -> None:
        literal.add(x[:1], y[:1], LAMBDA)
        literal.predict(x[:1])

    def steps() -> None:
        for i in range(STEPS):
            streaming.partial_fit(x[i : i + 1], y[i : i + 1]).predict(x[i : i + 1])

    timed = interleaved({"literal": Work(re_solve), "ours": Work(steps)}, pairs)
    return ratio(timed["literal"].seconds, timed["ours"].seconds / STEPS)


def backward_error(sums: GramStatistics, weights: Floats, lam: float) -> float:
    """‖(G + λI)W − c‖ / (‖G + λI‖ ‖W‖ + ‖c‖), 2-norms: how little another problem W would solve exactly.

    >>> sums = GramStatistics(2)
    >>> sums.update([[3.0, 0.0], [0.0, 1.0]], ["a", "b"])
    >>> backward_error(sums, np.diag([0.3, 0.5]), 1.0)
    0.0
    """
    shifted = torch.from_numpy(sums.gram + lam * np.eye(sums.dim))
    w, c = torch.from_numpy(np.asarray(weights)), torch.from_numpy(sums.prototypes.T.copy())
    size = torch.linalg.eigvalsh(shifted)[-1]  # G + λI is positive definite

    residual, weight, right = (torch.linalg.matrix_norm(each, ord=2) for each in (shifted @ w - c, w, c))
    return float(residual / (size * weight + right))


def report(rows: Sequence[StreamRow]) -> Report:
    """The rows as a table."""
    columns = ["stream", "re-solving, a sample", "ours", "times as fast", "backward error", "labels as fresh"]
    cells = [
        [
            f"{row.samples:,} samples, d = {row.dim:,}, {row.classes:,} classes",
            *(seconds(value) for value in (row.step.first_seconds, row.step.second_seconds)),
            times(row.step),
            f"{row.error:.1e}",
            floored_percent(row.as_fresh),
        ]
        for row in rows
    ]
    notes = [
        f"A step: learn one sample and predict one, λ = {LAMBDA:g}.",
        spread_note(rows[0].step),
        "Backward error: ‖(G + λI)W − c‖ / (‖G + λI‖ ‖W‖ + ‖c‖) after the stream, with sums made anew.",
        f"Labels as fresh: {ASKED:,} held-out samples answered as by one solve of all samples.",
    ]
    ratios = {f"one sample, after {row.samples:,}": row.step for row in rows}
    return Report("stream", "Learning one sample and predicting one", columns, cells, notes, rows, ratios)
