"""The ridge classifiers, which solve G with a λ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from layup.algebra import held_out_search, lambda_search
from layup.algebra.classifier import SumsClassifier
from layup.algebra.folds import Folds
from layup.algebra.held_out import HeldOut, judged
from layup.algebra.held_out_search import search_lambda_by_error
from layup.algebra.lambda_grid import SEARCHES, Grid
from layup.algebra.lambda_search import search_lambda
from layup.algebra.parameters import GRIDS, require_rule
from layup.algebra.recursive import RecursiveLeastSquares
from layup.algebra.ridge import FIRST_LAMBDA, Solution, rounding_limit
from layup.algebra.samples import Floats, require_precision
from layup.algebra.statistics import GramStatistics
from layup.algebra.whitening import Whitening
from layup.registry import unknown_name

FEW = 64
"""The largest batch (in samples) that is followed recursively: for more samples, one solve costs no more."""
TURNS = 2
"""How often a few samples must have outdated a solution before starting the recursion pays off."""


class LambdaClassifier(SumsClassifier):
    """What classifiers share that solve G with a λ: how it is chosen, `balance`, `precision` and `grid`."""

    def __init__(
        self,
        lam: float | str = "search",
        *,
        balance: bool = False,
        precision: str = "float64",
        grid: str = "wide",
    ) -> None:
        self.lam = lam
        self.balance = balance
        self.precision = precision
        self.grid = grid

    @property
    def needs_samples(self) -> bool:
        """Whether λ is searched on the samples of each batch."""
        return isinstance(self.lam, str) and self.lam == "search"

    def empty(self, layers: Mapping[str, int] | int) -> GramStatistics:
        """Empty sums of these layers, in the chosen precision."""
        return GramStatistics(layers, self.precision)

    def search_values(self, width: int, classes: int, samples: int, known: int) -> int:
        """How many values the search for λ holds."""
        return lambda_search.search_values(width, classes, samples, known) if self.needs_samples else 0

    def check(self) -> None:
        """Refuse impossible parameters."""
        require_rule(self.lam)
        require_precision(self.precision)
        if self.grid not in GRIDS:
            raise unknown_name("grid of λ", self.grid, GRIDS)


class RidgeClassifier(LambdaClassifier):
    """LayUP's classifier: argmax over classes of Φᵀ (G + λI)⁻¹ c_y, without intercept.

    Args:
        lam: how λ is chosen. "search": the paper's four-fold search on each batch alone; "gcv": from the
            sums by generalised cross-validation, so independent of the order of batches; or a number ≥ 0,
            where 0 means the minimum-norm solution.
        balance: solve as if all classes had equally many samples, from the same sums.
        precision: of new sums and of solving with them. "float32" is there to compare with other code: it
            halves the memory, and ruins predictions where λ is small and samples are fewer than dimensions.
        grid: which values of λ are searched: "paper", its sixteen; "wide", these and more beyond the best of
            them, where they end, or lie far apart (`Grid`); or "official", the sixteen, and if
            several are equally good the first in the order of the authors' code: 1e-4 to 1e3, then 1e-8.

    Learning costs d² operations per sample, and about two solves per batch where λ is searched, see
    `search_lambda`; the first prediction after a batch costs one solve (d³/3; about 9 d³ with "gcv"). Where
    batches of a few samples and predictions alternate, `RecursiveLeastSquares` takes over: then both cost
    2 d² per sample.

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.1], [0.9, 0.0], [0.1, 1.0], [0.0, 0.8]])
    >>> model = RidgeClassifier(lam=0.1).partial_fit(X[:2], ["cat", "cat"])
    >>> model.partial_fit(X[2:], ["dog", "dog"]).predict([[0.8, 0.2], [0.1, 0.7]]).tolist()
    ['cat', 'dog']
    """

    kind = "ridge"
    solution_: Solution
    recursive_: RecursiveLeastSquares | None
    turns_: int

    @property
    def lambda_(self) -> float:
        """The λ in force."""
        return self.solution_.lambda_

    @property
    def ready(self) -> bool:
        """Whether W is known, or a recursion that follows it."""
        return self.solution_.solved or self.recursive_ is not None

    @property
    def fold_grid(self) -> Grid | None:
        """As in the base class."""
        return SEARCHES[self.grid] if self.needs_samples else None

    def absorb(self, batch: GramStatistics) -> None:
        """Learn a batch from its sums alone; a recursion, if there is one, follows a batch of few samples."""
        samples, recursion = batch.rows if batch.total <= FEW else None, self.recursive_
        turns = self.turns_ + self.solution_.solved
        super().absorb(batch)  # this drops the recursion: if interrupted below, it is half changed
        if samples is None:
            return
        self.turns_ = turns
        if recursion is not None:
            recursion.learn(*samples)
            self.recursive_ = recursion if recursion.sound else None

    def adopt(
        self, statistics: GramStatistics, lam: float | None = None, weights: Floats | None = None
    ) -> None:
        """Continue from these sums; `lam` is the λ that a search found for them, `weights` is W, if known."""
        super().adopt(statistics)
        if self.needs_samples:
            if lam is None:
                lam = self.lambda_ if hasattr(self, "solution_") else FIRST_LAMBDA
        else:
            lam = None if isinstance(self.lam, str) else float(self.lam)
        self.solution_ = Solution(statistics, lam, self.balance, weights)
        self.recursive_ = None
        self.turns_ = 0

    def right_without_fold(self, x: NDArray[Any], labels: NDArray[Any], folds: Folds) -> NDArray[np.bool_]:
        """As in the base class, with the λ in force."""
        fixed = self.with_parameters(lam=self.lambda_)
        return super(RidgeClassifier, fixed).right_without_fold(x, labels, folds)

    def held_out(self, x: NDArray[Any], labels: NDArray[Any]) -> HeldOut | None:
        """As in the base class; None where λ is so small that only rounding would be left."""
        lam, sums = self.lambda_, self.statistics_
        if sums.precision != "float64" or lam <= rounding_limit(sums.trace):
            return None
        whitening = Whitening(sums, np.ones(sums.dim), lam)
        # G = S_W + M N Mᵀ, so that W = R M (N⁻¹ + A)⁻¹; balanced, each class counts as much as the mean does.
        counts = sums.counts.astype(np.float64)
        sizes = np.full(len(counts), max(sums.total - 1, 1) / len(counts)) if self.balance else counts
        inverse = np.linalg.inv(np.diag(1 / sizes) + whitening.between)

        def left_out(rows: Floats, index: NDArray[np.int64]) -> tuple[Floats, None]:
            change = 0.0 if self.balance else 1 / (counts[index] - 1) - 1 / counts[index]
            return whitening.left_out(rows, index).solved(inverse, change), None

        return judged(sums, x, labels, left_out)

    def linear(self) -> tuple[Floats, Floats]:
        """W, and nothing that is added. Costs a solve, also where a recursion predicts without one."""
        weights = self.solution_.weights
        return weights, np.zeros(weights.shape[1])

    def adopt_merged(self, statistics: GramStatistics, other: Self) -> None:
        """Continue from sums that include another's. Of two searched λ, that of more samples is kept."""
        searched = [(one.statistics_.total, one.lambda_) for one in (self, other) if one.needs_samples]
        self.adopt(statistics, max(searched)[1] if searched else None)

    def _go_on_from(self, other: Self) -> None:
        self.adopt(other.statistics_, other.lambda_ if self.needs_samples else None)

    def chosen(self) -> dict[str, Any]:
        """λ, if it was chosen already."""
        return {"lambda": self.solution_.lam}

    def in_force(self) -> dict[str, Any]:
        """λ."""
        return {"lambda": self.lambda_}

    def _restore(self, sums: Any, chosen: Mapping[str, Any]) -> None:
        self.adopt(sums, None if chosen["lambda"] is None else float(chosen["lambda"]))

    def _search(
        self, x: NDArray[Any], labels: NDArray[Any], batch: GramStatistics
    ) -> tuple[float, Floats | None] | None:
        """λ for a batch that is about to be learned, if it can be searched on it; with W, if known."""
        grid = SEARCHES[self.grid]
        found = search_lambda(self.statistics_, x, labels, balance=self.balance, batch=batch, grid=grid)
        return None if found is None else (found.best, found.weights)

    def _score(self, x: Floats) -> Floats:
        if (
            self.recursive_ is None
            and self.turns_ >= TURNS
            and not self.solution_.solved
            and self._can_recurse
        ):
            self.recursive_ = RecursiveLeastSquares.begun(self.statistics_, self.lambda_)
            self.turns_ = 0  # if this attempt fails, another would fail too
        if self.recursive_ is not None:
            return self.recursive_.scores(x, balance=self.balance)
        return x @ self.solution_.weights

    @property
    def _can_recurse(self) -> bool:
        """Whether λ stays the same from one sample to the next, and rounding can be kept small."""
        return self.solution_.lam is not None and self.statistics_.precision == "float64"


class HeldOutRidgeClassifier(RidgeClassifier):
    """RanPAC's classifier: the same scores, but another search for λ, see `search_lambda_by_error`.

    Args:
        lam: "search" (on a fifth of each batch alone, by squared error), "gcv" or a number ≥ 0.
        seed: decides which fifth.
        precision: as in `RidgeClassifier`.

    >>> import numpy as np
    >>> X, y = np.eye(6)[[0, 1, 2] * 4], ["a", "b", "c"] * 4
    >>> model = HeldOutRidgeClassifier(seed=1).fit(X, y)
    >>> model.lambda_, model.predict(X[:3]).tolist()
    (1e-08, ['a', 'b', 'c'])
    """

    kind = "held-out ridge"

    def __init__(self, lam: float | str = "search", *, seed: int = 0, precision: str = "float64") -> None:
        super().__init__(lam, precision=precision)
        self.seed = seed

    @property
    def fold_grid(self) -> None:
        """None: it searches on a fifth of the samples, not on folds."""

    def search_values(self, width: int, classes: int, samples: int, known: int) -> int:
        """How many values the search for λ holds."""
        return held_out_search.search_values(width, samples) if self.needs_samples else 0

    def _search(
        self, x: NDArray[Any], labels: NDArray[Any], batch: GramStatistics
    ) -> tuple[float, Floats | None] | None:
        found = search_lambda_by_error(x, labels, self.seed, precision=batch.precision)
        return None if found is None else (found.best, None)
