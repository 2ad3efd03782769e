"""Ridge classifiers of several blocks of layers, all from one Gram matrix.

The sums of some layers are a block of those of more layers, so one set of sums serves every block. Each has
its own λ, searched on its own part: it is the ridge classifier that would have been learned of it alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layup.algebra import (
    FIRST_LAMBDA,
    Floats,
    GramStatistics,
    Solution,
    SumsClassifier,
    require_rule,
    search_blocks,
)
from layup.model import ImageModel


class BlocksClassifier(SumsClassifier):
    """One ridge classifier for each block of layers, by the name of the block."""

    sums = GramStatistics

    def __init__(self, lam: float | str, balance: bool, precision: str = "float64") -> None:
        self.lam = lam
        self.balance = balance
        self.precision = precision
        self.lambdas_: dict[str, float] = {}
        self.solved_: dict[str, tuple[float, Floats]] = {}

    @property
    def blocks(self) -> dict[str, list[str]]:
        """The layers of each block."""
        raise NotImplementedError

    @property
    def needs_samples(self) -> bool:
        """Whether λ is searched on the samples of each lesson."""
        return self.lam == "search"

    def empty(self, layers: Mapping[str, int] | int) -> GramStatistics:
        """Sums of these layers, to begin with, in the precision that is asked for."""
        return GramStatistics(layers, self.precision)

    def adopt(
        self,
        statistics: GramStatistics,
        lambdas: Mapping[str, float] | None = None,
        weights: Mapping[str, Floats] | None = None,
    ) -> None:
        """Go on from these sums; `lambdas` are what searches found for them, `weights` W, if at hand."""
        super().adopt(statistics)
        self.lambdas_ |= lambdas or {}
        self.solved_ = {block: (self.lambdas_[block], w) for block, w in (weights or {}).items()}

    def solved(self, block: str) -> tuple[float, Floats]:
        """λ and the weights of a block. Its part of G is gone again afterwards."""
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

    def _check(self) -> None:
        require_rule(self.lam)

    def _search(
        self, x: NDArray[Any], labels: NDArray[Any], lesson: GramStatistics
    ) -> tuple[dict[str, float], dict[str, Floats]]:
        sums, blocks = self.statistics_, self.blocks
        found = search_blocks(sums, x, labels, blocks, balance=self.balance, lesson=lesson)
        lambdas = {block: search.best for block, search in found.items()}
        weights = {block: search.weights for block, search in found.items() if search.weights is not None}
        return lambdas, weights


class BlocksModel(ImageModel):
    """A model of such a classifier."""

    classifier_: BlocksClassifier
    lam: float | str
    balance: bool
    precision: str

    @property
    def in_force_(self) -> dict[str, Any]:
        """The λ of every block."""
        return {"lambdas": {block: self.classifier_.solved(block)[0] for block in self.classifier_.blocks}}

    def _settings(self) -> dict[str, Any]:
        own = {"lam": self.lam, "balance": bool(self.balance), "precision": self.precision}
        return {**super()._settings(), **own}

    def _chosen(self) -> dict[str, Any]:
        return {"lambdas": self.classifier_.lambdas_}

    def _adopt_loaded(self, sums: Any, header: dict[str, Any]) -> None:
        self.classifier_.adopt(sums, {block: float(lam) for block, lam in header["lambdas"].items()})
