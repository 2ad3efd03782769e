"""Which λ are searched: the paper's sixteen, and more beyond the best of them.

A search is a dialogue. `Grid.rounds` asks for the accuracies of some λ, is told them, and may ask for more;
who measures them, and where the samples are, is none of its business.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf, log10
from typing import TypeAlias

from layup.algebra.samples import Floats

LAMBDAS: tuple[float, ...] = (1e-8, *(10.0 ** (exponent / 2) for exponent in range(-8, 7)))
"""The sixteen values that the paper searches (appendix A.1)."""
STRIDE = 2
"""How many half decades beyond the best λ are tried together: accuracy often stays the same for one."""
SAME = 1e-6
"""Half decades that are nearer to each other are the same: their logarithms are rounded."""
LARGEST = 10.0
"""The largest λ beyond a grid, in traces of G: there (G + λI)⁻¹ is I/λ within a tenth, as for any larger."""


@dataclass(frozen=True)
class LambdaSearch:
    """The result of the search: the mean accuracy over folds of every λ, and the winner.

    It lists no λ that was tried beyond the grid and was not better. Of equal accuracies the larger λ wins, or
    the `first` that was tried. `weights` are those of the winner, for the history and the batch; None where
    the search did not make them.
    """

    accuracies: dict[float, Fraction]
    first: bool = False
    weights: Floats | None = field(default=None, compare=False, repr=False)

    @property
    def highest(self) -> Fraction:
        """The highest accuracy."""
        return max(self.accuracies.values())

    @property
    def best(self) -> float:
        """The λ with the highest accuracy."""
        return max(self.accuracies, key=lambda lam: (self.accuracies[lam], 0 if self.first else lam))


Rounds: TypeAlias = Generator[Sequence[float], Iterable[Fraction], LambdaSearch]
"""Gives the λ to measure, is sent their accuracies, and returns the search."""


@dataclass(frozen=True)
class Grid:
    """The values of λ that are tried.

    widen: where the best λ is at an end of the grid, or beside a gap in it, the next half decades are tried
        too, two at a time, and so on while that makes the accuracy higher. Equal accuracies never widen it.
    first: of equal accuracies, the first of the grid wins, and not the largest.
    """

    lams: tuple[float, ...] = LAMBDAS
    widen: bool = False
    first: bool = False

    def rounds(self, trace: float, rounding: float) -> Rounds:
        """The search, round by round, given the trace of G, and ε.

        A further λ counts only if it is better than all before it: nothing is widened by equal accuracies.
        """
        accuracies = yield self.lams
        found = LambdaSearch(dict(zip(self.lams, accuracies, strict=True)), self.first)
        while self.widen and found.highest < 1:
            more = next_lambdas(found.accuracies, found.best, rounding * trace, LARGEST * trace)
            further = dict(zip(more, (yield more), strict=True)) if more else {}
            if max(further.values(), default=0) <= found.highest:
                break
            found = LambdaSearch({**found.accuracies, **further}, self.first)
        return found

    def searched(
        self, measured: Callable[[Sequence[float]], Iterable[Fraction]], trace: float, rounding: float
    ) -> LambdaSearch:
        """The search, given what measures accuracies."""
        rounds = self.rounds(trace, rounding)
        lams = next(rounds)
        while True:
            try:
                lams = rounds.send(measured(lams))
            except StopIteration as end:
                found: LambdaSearch = end.value
                return found


SEARCHES = {
    "wide": Grid(widen=True),
    "paper": Grid(),
    "official": Grid((*LAMBDAS[1:], LAMBDAS[0]), first=True),
}
"""By the option `grid` of the ridge classifiers."""


def next_lambdas(tried: Iterable[float], best: float, least: float, most: float) -> list[float]:
    """The half decades nearest to the best λ, two below and two above it, up to the next that was tried.

    None is below `least` or above `most`.

    >>> next_lambdas([1e-8, 1e-4, 1e-3], best=1e-8, least=1e-12, most=1e4)
    [1e-09, 3.1622776601683795e-09, 3.162277660168379e-08, 1e-07]
    >>> next_lambdas([1.0, 10**0.5, 10.0], best=10.0, least=1e-12, most=50.0)
    [31.622776601683793]
    """
    known = [2 * log10(lam) for lam in tried]
    at = 2 * log10(best)
    low = max((each for each in known if each < at), default=-inf)
    high = min((each for each in known if each > at), default=inf)
    near = range(round(at) - STRIDE, round(at) + STRIDE + 1)
    free = [10.0 ** (step / 2) for step in near if low + SAME < step < high - SAME and abs(step - at) > SAME]
    return [lam for lam in free if least <= lam <= most]
