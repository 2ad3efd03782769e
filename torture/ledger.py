"""The oracle of histories: it keeps all the data, and says what sums, labels and predictions must be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layup import GramStatistics
from torture.promise import require
from torture.shared import from_tests

Floats = NDArray[np.floating[Any]]
Sample = tuple[int, str]
"""The number of a feature vector, and its label."""
Held = Counter[Sample]
"""How often each sample counts."""


@dataclass
class Rows:
    """Feature vectors by number; what a ledger holds are numbers."""

    dim: int
    values: list[Floats] = field(default_factory=list)

    def add(self, row: Floats) -> int:
        """Keep one more."""
        self.values.append(row)
        return len(self.values) - 1

    def of(self, samples: Iterable[Sample]) -> tuple[Floats, NDArray[Any]]:
        """Feature vectors and labels, as a classifier is given them."""
        listed = list(samples)
        x = np.array([self.values[number] for number, _ in listed]).reshape(len(listed), self.dim)
        return x, np.array([label for _, label in listed], dtype=np.str_)


@dataclass
class Ledger:
    """Which samples a model has learned and not forgotten, and the most that it ever held."""

    rows: Rows
    held: Held = field(default_factory=Counter)
    peak: float = 0.0

    def copy(self) -> Ledger:
        """One to go on from."""
        return Ledger(self.rows, self.held.copy(), self.peak)

    def take(self, samples: Iterable[Sample], sign: int = 1) -> None:
        """Learn (+1) or forget (−1)."""
        for sample in samples:
            self.held[sample] += sign
        self.held = +self.held
        self.peak = max(self.peak, self._size())

    def hold(self, held: Held, peaks: Iterable[Ledger] = ()) -> None:
        """Hold exactly these from now on; what others held on the way counts as held here too."""
        self.held = +held
        self.peak = max(self.peak, self._size(), *(other.peak for other in peaks), 0.0)

    def merged(self, other: Ledger, base: Ledger | None = None) -> Ledger:
        """What both have learned, and what their base had, once."""
        held = self.held + other.held
        if base is not None:
            held = held - base.held
        both = Ledger(self.rows, held)
        both.peak = max(self.peak, other.peak, both._size())
        return both

    def samples(self) -> list[Sample]:
        """All of them, in order."""
        return sorted(self.held.elements())

    def counts(self) -> dict[str, int]:
        """How many there are of each label."""
        found: Counter[str] = Counter()
        for (_, label), count in self.held.items():
            found[label] += count
        return dict(sorted(found.items()))

    def _size(self) -> float:
        """The sum of squares of all values."""
        return float(
            sum(count * (self.rows.values[number] ** 2).sum() for (number, _), count in self.held.items())
        )

    def require_counts(self, sums: GramStatistics) -> None:
        """Labels and counts are those of the data."""
        have = dict(zip(sums.labels, sums.counts.tolist(), strict=True))
        require(have == self.counts(), "labels or counts are not those of the data", have)
        require(sums.labels == sorted(sums.labels), "labels are not sorted", sums.labels)

    def require_sums(
        self, sums: GramStatistics, rounding: float, columns: NDArray[np.int64] | None = None
    ) -> None:
        """G and c are those of the data, of these columns, to rounding."""
        x, y = self.rows.of(self.samples())
        if columns is not None:
            x = x[:, columns]
        gram, prototypes, _ = from_tests("oracle").sums(x, y)
        slack = rounding * max(self.peak, 1e-300)
        require(_near(sums.gram, gram, slack), "G is not that of the data")
        wanted = np.array([prototypes[label] for label in sums.labels]).reshape(len(sums.labels), x.shape[1])
        require(
            _near(sums.prototypes, wanted, np.sqrt(slack * rounding * max(1, len(x)))),
            "c is not that of the data",
        )

    def require_scores(
        self, scores: Floats, tested: Floats, lam: float, balance: bool, rounding: float
    ) -> None:
        """Scores are those of the ridge regression on all the data."""
        x, y = self.rows.of(self.samples())
        _, weights = from_tests("oracle").classifier(x, y, lam, balance)
        wanted = tested @ weights
        slack = rounding * (1 + np.abs(wanted).max()) * (1 + self.peak / lam) ** 0.5
        require(_near(scores, wanted, slack), "scores are not those of a regression on the data")


def _near(some: Floats, others: Floats, slack: float) -> bool:
    return some.shape == others.shape and bool((np.abs(some - others) <= slack).all())
