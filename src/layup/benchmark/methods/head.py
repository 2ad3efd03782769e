"""A classifier on embeddings that grows as classes arrive, for methods that train."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

UNIFORM, TRUNCATED = "uniform", "truncated normal"
"""How new rows begin: as torch initialises linear layers, or as timm initialises heads."""


class GrowingHead:
    """A row of weights and a bias for each class, in order of arrival; for cosines, without a bias.

    Each row is a separate parameter, so that a task can train the rows of its own classes and no others:
    no momentum and no decay moves the rest.

    >>> head = GrowingHead(4)
    >>> head.grow(["cat", "dog"])
    >>> head.grow(["cat", "ant"])
    >>> head.classes, head(torch.ones(3, 4), ["dog", "ant"]).shape
    (['cat', 'dog', 'ant'], torch.Size([3, 2]))

    Args:
        width: of embeddings.
        initial: how new rows begin.
        cosine: the scores are the cosines between embedding and rows, from −1 to 1.
    """

    def __init__(
        self,
        width: int,
        device: torch.device | None = None,
        initial: str = UNIFORM,
        *,
        cosine: bool = False,
    ) -> None:
        self.width, self.device, self.initial, self.cosine = width, device, initial, cosine
        self._rows: dict[str, nn.Parameter] = {}

    @property
    def classes(self) -> list[str]:
        """All classes, in order of arrival."""
        return list(self._rows)

    def grow(self, classes: Iterable[str]) -> None:
        """Make rows for new classes, at random."""
        for name in classes:
            if name not in self._rows:
                self._rows[name] = nn.Parameter(self._new_row().to(self.device))

    @property
    def _length(self) -> int:
        """How many values a row has."""
        return self.width if self.cosine else self.width + 1

    def _new_row(self) -> Tensor:
        """Weights and bias up to 1/√width; or weights of a standard deviation of 0.02, and a bias of 0."""
        if self.initial == TRUNCATED:
            row = torch.zeros(self._length)
            nn.init.trunc_normal_(row[: self.width], std=0.02)
            return row
        bound = self.width**-0.5
        return torch.empty(self._length).uniform_(-bound, bound)

    def rows(self, classes: Sequence[str]) -> list[nn.Parameter]:
        """The parameters of these classes."""
        return [self._rows[name] for name in classes]

    def __call__(self, embedding: Tensor, classes: Sequence[str] | None = None) -> Tensor:
        """(B, width) → (B, classes): scores of these classes, by default of all."""
        rows = torch.stack([*self.rows(self.classes if classes is None else classes)])
        if self.cosine:
            return functional.linear(
                functional.normalize(embedding, dim=1), functional.normalize(rows, dim=1)
            )
        return functional.linear(embedding, rows[:, :-1], rows[:, -1])

    def values(self) -> Tensor:
        """All rows (C, width + 1), weights and then the bias; without a bias (C, width)."""
        rows = [row.detach() for row in self._rows.values()]
        return torch.stack(rows) if rows else torch.zeros(0, self._length)

    def take(self, classes: Sequence[str], values: Tensor) -> None:
        """Become a head of these classes with these values."""
        self._rows = {
            name: nn.Parameter(row.clone().to(self.device)) for name, row in zip(classes, values, strict=True)
        }

    def copy(self) -> GrowingHead:
        """Another head with the same values, which can be trained separately."""
        other = GrowingHead(self.width, self.device, self.initial, cosine=self.cosine)
        other.take(self.classes, self.values())
        return other
