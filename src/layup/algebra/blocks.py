"""Ridge classifiers of several blocks of layers, all from one Gram matrix.

The sums of some layers are a block of those of more layers, so one set of sums serves every block. Each has
its own λ, searched on its own part: it is the ridge classifier that would have been learned from it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layup.algebra.lambda_grid import SEARCHES
from layup.algebra.lambda_search import search_blocks
from layup.algebra.ridge import FIRST_LAMBDA, Solution
from layup.algebra.ridge_classifier import LambdaClassifier
from layup.algebra.samples import Floats
from layup.algebra.statistics import GramStatistics


class BlocksClassifier(LambdaClassifier):
    """One ridge classifier per block of layers, by the name of the block."""

    lambdas_: dict[str, float]
    solved_: dict[str, tuple[float, Floats]]

    @property
    def blocks(self) -> dict[str, list[str]]:
        """The layers of each block."""
        raise NotImplementedError

    def adopt(
        self,
        statistics: GramStatistics,
        lambdas: Mapping[str, float] | None = None,
        weights: Mapping[str, Floats] | None = None,
    ) -> None:
        """Continue from these sums; `lambdas` are what searches found for them, `weights` W, if known."""
        super().adopt(statistics)
        self.lambdas_ = {**getattr(self, "lambdas_", {}), **(lambdas or {})}
        self.solved_ = {block: (self.lambdas_[block], w) for block, w in (weights or {}).items()}

    def chosen(self) -> dict[str, Any]:
        """The λ of every block for which it was searched."""
        return {"lambdas": self.lambdas_}

    def in_force(self) -> dict[str, Any]:
        """The λ of every block."""
        return {"lambdas": {block: self.solved(block)[0] for block in self.blocks}}

    def solved(self, block: str) -> tuple[float, Floats]:
        """λ and the weights of a block. Its part of G is not kept."""
        if block not in self.solved_:
            rule = self.lam
            if isinstance(rule, str):
                lam = self.lambdas_.get(block, FIRST_LAMBDA) if self.needs_samples else None
            else:
                lam = float(rule)
            solution = Solution(self.statistics_.select(self.blocks[block]), lam, self.balance)
            self.solved_[block] = solution.lambda_, solution.weights
        return self.solved_[block]

    def scores_by_block(self, x: NDArray[Any]) -> dict[str, Floats]:
        """The scores of every row, by block."""
        return {
            block: x[:, self.statistics_.span(layers)].astype(np.float64) @ self.solved(block)[1]
            for block, layers in self.blocks.items()
        }

    def labels_by_block(self, x: NDArray[Any]) -> dict[str, list[Any]]:
        """The label of every row, by block."""
        return {
            block: [self.statistics_.labels[best] for best in scores.argmax(axis=1)]
            for block, scores in self.scores_by_block(x).items()
        }

    def nbytes_alone(self, block: str) -> int:
        """How many bytes a classifier of this block alone would keep."""
        sums = self.statistics_
        alone = GramStatistics({name: sums.layers[name] for name in self.blocks[block]}, sums.precision)
        prototypes = len(sums.labels) * alone.prototypes.itemsize * alone.dim
        return alone.nbytes + prototypes + int(sums.counts.nbytes)

    def _restore(self, sums: Any, chosen: Mapping[str, Any]) -> None:
        self.adopt(sums, {block: float(lam) for block, lam in chosen["lambdas"].items()})

    def _search(
        self, x: NDArray[Any], labels: NDArray[Any], batch: GramStatistics
    ) -> tuple[dict[str, float], dict[str, Floats]]:
        sums, grid = self.statistics_, SEARCHES[self.grid]
        found = search_blocks(sums, x, labels, self.blocks, balance=self.balance, batch=batch, grid=grid)
        lambdas = {block: search.best for block, search in found.items()}
        weights = {block: search.weights for block, search in found.items() if search.weights is not None}
        return lambdas, weights


class AverageClassifier(BlocksClassifier):
    """One ridge classifier per layer; the score of a class is the mean of their scores."""

    kind = "average of ridges"

    @property
    def blocks(self) -> dict[str, list[str]]:
        """Every layer by itself."""
        return {name: [name] for name in self.statistics_.layers}

    def solved_width(self, widths: Sequence[int]) -> int:
        """The width of the widest layer: each is solved by itself."""
        return max(widths)

    def _score(self, x: Floats) -> Floats:
        return np.asarray(np.mean(list(self.scores_by_block(x).values()), axis=0))


class DepthsClassifier(BlocksClassifier):
    """One ridge classifier for each of several numbers of last layers, with predictions for each."""

    kind = "ridge per depth"
    several = True

    def __init__(
        self,
        depths: Sequence[int] = (1,),
        lam: float | str = "search",
        *,
        balance: bool = False,
        precision: str = "float64",
        grid: str = "wide",
    ) -> None:
        super().__init__(lam, balance=balance, precision=precision, grid=grid)
        self.depths = depths

    @property
    def blocks(self) -> dict[str, list[str]]:
        """The last k layers, by k."""
        return {str(k): list(self.statistics_.layers)[-k:] for k in self.depths}


class LayersClassifier(DepthsClassifier):
    """One ridge classifier for each of several layers, counted from the last."""

    kind = "ridge per layer"

    @property
    def blocks(self) -> dict[str, list[str]]:
        """One layer each."""
        return {str(layer): [list(self.statistics_.layers)[-layer]] for layer in self.depths}
