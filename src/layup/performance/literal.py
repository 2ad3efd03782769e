"""The procedure to compare with: the paper's, step by step, as the authors' code does it.

All features of a task are kept. Each of four folds and sixteen λ is a dense LU solve of (G + λI) in float32,
where G holds all earlier samples and the other three folds; then the weights are solved from scratch.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.model_selection import StratifiedKFold
from torch import Tensor

from layup.algebra import FIRST_LAMBDA, FOLDS, LAMBDAS, GramStatistics


class LiteralClassifier:
    """Ridge classification by dense float32 solves, 65 per task.

    Only classes that were seen can be predicted, and of equally accurate λ the larger is chosen, as in layup:
    in the authors' code it is the first in their list, and future classes score zero.

    A task costs 65 LU factorisations, 65·(2/3)·d³ operations, and 4·2·n·d² for the folds' sums.

    >>> X, y = np.eye(6)[[0, 1, 2] * 4], np.array(["a", "b", "c"] * 4)
    >>> model = LiteralClassifier(6)
    >>> model.learn(X, y)
    >>> model.predict(X[:3]).tolist()
    ['a', 'b', 'c']
    """

    def __init__(self, dim: int) -> None:
        self.labels: list[Any] = []
        self.gram = torch.zeros(dim, dim)
        self.prototypes = torch.zeros(dim, 0)
        self.lam = FIRST_LAMBDA
        self.weights = torch.zeros(dim, 0)

    @classmethod
    def after(cls, history: GramStatistics) -> LiteralClassifier:
        """A classifier with these sums learned."""
        model = cls(history.dim)
        model.labels = list(history.labels)
        model.gram = torch.from_numpy(history.gram.astype(np.float32))
        model.prototypes = torch.from_numpy(history.prototypes.T.astype(np.float32))
        return model

    def learn(self, x: NDArray[Any], y: NDArray[Any]) -> None:
        """Search λ on a task's data, add it to the sums, and solve for the weights."""
        found = self.search(x, y)
        self.add(x, y, self.lam if found is None else found)

    def search(self, x: NDArray[Any], y: NDArray[Any]) -> float | None:
        """The λ of the highest mean accuracy over folds; None if no class has a sample for every fold."""
        if np.unique(y, return_counts=True)[1].max(initial=0) < FOLDS:
            return None
        accuracies = dict.fromkeys(LAMBDAS, Fraction(0))
        for train, test in folds(x, y):
            labels, gram, prototypes = self._with(x[train], y[train])
            held_out = torch.from_numpy(x[test].astype(np.float32))
            for lam in LAMBDAS:
                scores = held_out @ solve(gram, prototypes, lam)
                right = np.array(labels)[scores.argmax(dim=1).numpy()] == y[test]
                accuracies[lam] += Fraction(int(right.sum()), FOLDS * len(test))
        return max(LAMBDAS, key=lambda lam: (accuracies[lam], lam))

    def add(self, x: NDArray[Any], y: NDArray[Any], lam: float) -> None:
        """Add a task's data to the sums, and solve for the weights."""
        self.labels, self.gram, self.prototypes = self._with(x, y)
        self.lam, self.weights = lam, solve(self.gram, self.prototypes, lam)

    def predict(self, x: NDArray[Any]) -> NDArray[Any]:
        """The label of the highest score."""
        scores = torch.from_numpy(x.astype(np.float32)) @ self.weights
        return np.asarray(np.array(self.labels)[scores.argmax(dim=1).numpy()])

    def _with(self, x: NDArray[Any], y: NDArray[Any]) -> tuple[list[Any], Tensor, Tensor]:
        """Labels, G and c (d × C) of all so far and these samples."""
        labels = sorted({*self.labels, *y.tolist()})
        features = torch.from_numpy(x.astype(np.float32))
        targets = torch.from_numpy((y[:, None] == np.array(labels)).astype(np.float32))
        prototypes = features.T @ targets
        prototypes[:, [labels.index(label) for label in self.labels]] += self.prototypes
        return labels, self.gram + features.T @ features, prototypes


def folds(x: NDArray[Any], y: NDArray[Any]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Four stratified folds in the order given, as indices for training and for testing."""
    with warnings.catch_warnings():  # the paper allows classes that miss some folds
        warnings.filterwarnings("ignore", message="The least populated class")
        yield from StratifiedKFold(FOLDS).split(x, y)


def solve(gram: Tensor, prototypes: Tensor, lam: float) -> Tensor:
    """W = (G + λI)⁻¹ c by LU, without checks; NaN and infinite values are replaced."""
    weights, _ = torch.linalg.solve_ex(gram + lam * torch.eye(len(gram)), prototypes)
    return torch.nan_to_num(weights)
