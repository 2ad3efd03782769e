"""How LayUP searches λ on a batch that is about to be learned: by four folds of it.

The paper's search (appendix A.1) leaves out one fold v of the batch at a time, solves for the history and the
other three folds, and predicts v; for sixteen values of λ that makes 64 solves. None of them is needed. Let X
be all samples learned so far and those of the batch, row by row, Y their one-hot targets,
H = X (XᵀX + λI)⁻¹ Xᵀ the hat matrix of them all, and p = H Y. Then

    ŷ_v = y_v − (I − H_vv)⁻¹ (y_v − p_v)

is exactly what the rest would predict: with R the inverse for all rows and R' that for the rest, Woodbury's
identity gives X_v R' = (I − H_vv)⁻¹ X_v R. H_vv and p_v need only the rows of the fold, G and c: no row of
the history is needed, and one `Resolvent` of G serves every λ and fold.

While the rest has fewer samples than dimensions, I − H_vv goes to zero with λ, and would be lost to rounding.
Then K = X Xᵀ is used instead of G = XᵀX, since I − H = λ (K + λI)⁻¹, and λ cancels:

    ŷ_v = y_v − ([(K + λI)⁻¹]_vv)⁻¹ [(K + λI)⁻¹ Y]_v

The history takes part as the rows of a square root of its G, which are not samples, and as few as its rank.

Folds of more than a third of d samples cost more this way than one factorisation each. They are searched
separately: each has its own sums, and its samples are read in chunks, so that batches of any size fit in
memory.

A search may go on beyond its grid (`Grid.widen`): every further λ costs the same again, and nothing is
factorised again. All is kept that makes the accuracy of any λ: a `_Whole`, or the `_Apart` of large folds.

Balanced classes change G and c with every fold, but only along the means of the classes: see
`ridge.balancing`, which comes after all of this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from layup.algebra.fold_rests import Rest, mean_accuracies, rests
from layup.algebra.folds import FOLDS, Folds, chunks, stratified
from layup.algebra.labels import united
from layup.algebra.lambda_grid import LAMBDAS, SEARCHES, Grid, LambdaSearch
from layup.algebra.resolvent import Resolvent
from layup.algebra.ridge import balancing, square_root
from layup.algebra.statistics import GramStatistics
from layup.algebra.threads import single_threads

PAPER = SEARCHES["paper"]
SMALL = 2**22
"""How many values of samples are whitened together, for several λ."""
STRIP = 256
"""How many columns of a symmetric product are computed together."""
ONE_THREAD = 768
"""Rows of a matrix up to which one thread searches as fast as two, which would wait for each other."""
SIDE_BY_SIDE = 2048
"""Rows of matrices up to which several blocks are searched in parallel; more would take too much memory."""
LARGE_FOLD = 1 / 3
"""A share of the dimensions: beyond it, one factorisation per fold costs less than the products of all.

Then the other three folds still have as many samples as dimensions: three times a third of them.
"""


def search_lambda(
    history: GramStatistics,
    features: NDArray[Any],
    labels: NDArray[Any],
    *,
    balance: bool = False,
    grid: Grid = PAPER,
    batch: GramStatistics | None = None,
) -> LambdaSearch | None:
    """The paper's choice of λ (appendix A.1), on the current batch alone.

    The batch is split into four stratified folds in the order given. For each fold, G and c hold the history
    and the other three folds; every λ is scored by its accuracy on the fold left out, over all classes that
    these sums have seen. Accuracies are exact fractions, averaged over folds.
    None if no class of the batch has four samples: it cannot be split.

    `batch` are the sums of the batch, if known. With n samples in the batch and N in all, costs
    2 m³ + 2 m² n operations for m = d, or N while that is less, and |grid|·(n/4 + C)·m per sample; for large
    batches four times 2 d³, and d² + |grid|·C·d per sample. `search_values` says what memory it takes.
    """
    everything = {"": list(history.layers)}
    found = search_blocks(history, features, labels, everything, balance=balance, grid=grid, batch=batch)
    return found.get("")


def search_values(width: int, classes: int, samples: int, known: int) -> int:
    """How many values the search holds in addition to the sums (of `known` samples) and the samples."""
    fold = samples / FOLDS
    if fold > LARGE_FOLD * width:  # the sums of every fold, G without each, factorised; W of every λ
        return 9 * width**2 + 2 * len(LAMBDAS) * classes * width
    everything = known + samples
    if everything - fold < width:  # G and its square root; all rows, and two copies; K and what it becomes
        return 2 * width**2 + 2 * everything * width + 3 * everything**2
    return 3 * width**2 + 2 * samples * width  # G, and what it becomes; samples, rotated and whitened


def search_blocks(
    history: GramStatistics,
    features: NDArray[Any],
    labels: NDArray[Any],
    blocks: Mapping[str, Sequence[str]],
    *,
    balance: bool = False,
    grid: Grid = PAPER,
    batch: GramStatistics | None = None,
) -> dict[str, LambdaSearch]:
    """`search_lambda` for several blocks of layers, by name: each as if it had no other layers.

    The layers of a block must be contiguous. Blocks that lie within a wider one take their columns of its
    matrices, which are made once: columns of a square root of G are a root of that part of G. Small blocks
    are searched in parallel, one thread each.
    """
    if np.unique(labels, return_counts=True)[1].max(initial=0) < FOLDS:
        return {}
    task = _Task(history, batch, features, labels, stratified(labels, FOLDS))
    most = max(map(len, task.folds))
    found: dict[str, LambdaSearch] = {}
    kinds: dict[_Prepare, dict[str, Sequence[str]]] = {_by_kernel: {}, _by_gram: {}}
    for name, layers in blocks.items():
        width = len(history.columns(layers))
        if most > LARGE_FOLD * width:
            found[name] = _Apart.of(task.part(layers), balance).searched(grid)
        else:
            few = history.samples + len(labels) - most < width
            kinds[_by_kernel if few else _by_gram][name] = layers
    for prepare, alike in kinds.items():
        for nested in _nests(alike):
            found |= _searched_together(task, nested, prepare, balance, grid)
    return {name: found[name] for name in blocks}


def _nests(blocks: Mapping[str, Sequence[str]]) -> Iterator[dict[str, Sequence[str]]]:
    """Each block that is not within another, with all blocks within it, the widest first."""
    left = dict(sorted(blocks.items(), key=lambda block: -len(block[1])))
    while left:
        widest = {*next(iter(left.values()))}
        yield {name: layers for name, layers in left.items() if {*layers} <= widest}
        left = {name: layers for name, layers in left.items() if not {*layers} <= widest}


@dataclass(frozen=True)
class _Task:
    """A batch, split into folds, its sums if known, and the sums of what was learned before it."""

    history: GramStatistics
    batch: GramStatistics | None
    features: NDArray[Any]
    labels: NDArray[Any]
    folds: Folds

    def part(self, layers: Sequence[str]) -> _Task:
        """With these layers only."""
        return replace(
            self,
            history=self.history.select(layers),
            batch=None if self.batch is None else self.batch.select(layers),
            features=self.features[:, self.history.span(layers)],
        )

    @cached_property
    def names(self) -> list[Any]:
        """All labels."""
        return united(self.history.labels, np.unique(self.labels).tolist())

    @cached_property
    def past(self) -> tuple[Tensor, Tensor]:
        """Counts and prototypes (C × d) of the history, with one row per name."""
        indices = [self.names.index(label) for label in self.history.labels]
        counts = torch.zeros(len(self.names), dtype=torch.int64)
        counts[indices] = torch.from_numpy(self.history.counts)
        prototypes = np.zeros((len(self.names), self.history.dim), self.history.precision)
        prototypes[indices] = self.history.prototypes
        return counts, torch.from_numpy(prototypes)

    @cached_property
    def x(self) -> Tensor:
        """The samples of the batch, fold after fold."""
        return torch.from_numpy(self.features[np.concatenate(self.folds)].astype(self.history.precision))

    @cached_property
    def y(self) -> Tensor:
        """Their one-hot targets."""
        unit = torch.eye(len(self.names), dtype=self.past[1].dtype)
        return unit[np.searchsorted(self.names, self.labels[np.concatenate(self.folds)])]


_Prepare: TypeAlias = Callable[[_Task], Callable[[slice], "_Whole"]]


def _by_gram(task: _Task) -> Callable[[slice], _Whole]:
    """By G, for at least as many samples as dimensions, without any one of the folds."""
    batch = task.batch
    if batch is None:
        batch = task.history.empty()
        batch.update(task.features, task.labels)
    gram = torch.from_numpy(task.history.gram + batch.gram)
    x, prototypes = task.x, task.past[1] + task.y.T @ task.x
    return lambda span: _Whole.of_many(gram[span, span], prototypes[:, span], x[:, span])


def _by_kernel(task: _Task) -> Callable[[slice], _Whole]:
    """By K, for fewer samples; the history takes part as the rows and targets of a square root."""
    root, targets = square_root(task.history.gram, task.past[1].numpy(), task.history.samples)
    rows, y = torch.cat([torch.from_numpy(root), task.x]), torch.cat([torch.from_numpy(targets), task.y])
    return lambda span: _Whole.of_few(rows[:, span], y, len(task.y))


def _searched_together(
    task: _Task,
    nested: Mapping[str, Sequence[str]],
    prepare: _Prepare,
    balance: bool,
    grid: Grid,
) -> dict[str, LambdaSearch]:
    """The searches on a block of a task's layers, which comes first, and on others within it."""
    part = task.part(next(iter(nested.values())))
    whole, counts = prepare(part), part.past[0] + part.y.sum(dim=0).to(torch.int64)
    truths = list(torch.split(part.y, [*map(len, part.folds)]))
    spans = [part.history.span(layers) for layers in nested.values()]
    with _workers(len(spans), min(part.history.dim, int(counts.sum()))) as mapped:
        searches = mapped(lambda span: _searched(whole(span), truths, counts, balance, grid), spans)
        return dict(zip(nested, searches, strict=True))


def _searched(whole: _Whole, truths: list[Tensor], counts: Tensor, balance: bool, grid: Grid) -> LambdaSearch:
    """The search by hat matrices of history and batch together."""
    # Many small matrices are faster together; large ones would need too much memory.
    together = max(1, SMALL // max(whole.samples.numel(), 1))

    def measured(lams: Sequence[float]) -> Iterator[Fraction]:
        for start in range(0, len(lams), together):
            yield from whole.accuracies(lams[start : start + together], truths, counts, balance)

    rounding = torch.finfo(whole.samples.dtype).eps
    found = grid.searched(measured, whole.resolvent.trace, rounding)
    if truths[0].dtype == torch.float32:  # there, weights must come from a plain solve: see `ridge.solve`
        return found
    return replace(found, weights=whole.weights(found.best, counts, balance).numpy())


@dataclass(frozen=True)
class _Whole:
    """History and batch together, ready for any λ: by their G, or by the kernel K of their rows.

    `samples` (fold after fold) and `targets` are rotated columns. For G they are the samples themselves, and
    c. For K they are the unit vectors of their rows, and Y; then `kernel_of` holds all rows and Y, unrotated.
    """

    # All in torch: NumPy's threads and torch's wait for each other when they alternate.
    resolvent: Resolvent
    samples: Tensor
    targets: Tensor
    kernel_of: tuple[Tensor, Tensor] | None = None

    @classmethod
    def of_many(cls, gram: Tensor, prototypes: Tensor, x: Tensor) -> _Whole:
        """By their G and c, and the samples of the batch."""
        resolvent = Resolvent(gram)
        return cls(resolvent, resolvent.rotated(x.T), resolvent.rotated(prototypes.T))

    @classmethod
    def of_few(cls, rows: Tensor, y: Tensor, new: int) -> _Whole:
        """By rows and targets, of which the last `new` are those of the batch."""
        resolvent = Resolvent(_inner(rows.T))
        unit = torch.eye(len(rows), dtype=rows.dtype)[:, len(rows) - new :]
        return cls(resolvent, resolvent.rotated(unit), resolvent.rotated(y), (rows, y))

    def accuracies(
        self, lams: Sequence[float], truths: list[Tensor], counts: Tensor, balance: bool
    ) -> list[Fraction]:
        """The mean accuracy over folds of every λ."""
        means = [Fraction(0)] * len(lams)
        for right in self.right(lams, truths, counts, balance):
            hits, tested = right.sum(dim=1).tolist(), FOLDS * right.shape[1]
            means = [mean + Fraction(hit, tested) for mean, hit in zip(means, hits, strict=True)]
        return means

    def right(
        self, lams: Sequence[float], truths: list[Tensor], counts: Tensor, balance: bool
    ) -> Iterator[Tensor]:
        """Of each fold, which samples are predicted right by what was learned without it, λ × samples.

        Truths are one-hot.
        """
        shifted = self.resolvent.at(lams)
        targets, samples = shifted.whitened(self.targets), shifted.whitened(self.samples)
        for fold, truth in zip(torch.split(samples, [*map(len, truths)], dim=2), truths, strict=True):
            own, cross = _inner(fold), fold.mT @ targets
            if self.kernel_of is None:
                predictions = truth - _solved(torch.eye(len(truth), dtype=own.dtype) - own, truth - cross)
            else:
                predictions = truth - _solved(own, cross)
            rest = counts - truth.sum(dim=0).to(counts.dtype)
            seen = rest.nonzero().ravel()  # the rest may lack classes of the fold: those are predicted wrong
            scores = predictions[..., seen]
            if balance:
                # The inner products without the fold: first its targets are subtracted, then its rows.
                crossed = truth.T @ cross
                without = targets.mT @ targets - crossed - crossed.mT + truth.T @ own @ truth
                without += (cross - own @ truth).mT @ predictions
                products = self._products(without, shifted.lams, counts - rest)
                scores = scores @ balancing(products[:, seen][..., seen], rest[seen])
            yield seen[scores.argmax(dim=2)] == truth.argmax(dim=1)

    def weights(self, lam: float, counts: Tensor, balance: bool) -> Tensor:
        """W of all samples."""
        shifted = self.resolvent.at([lam])
        targets = shifted.whitened(self.targets)
        weights = self.resolvent.rotated_back(shifted.solved(targets)[0])
        if self.kernel_of is not None:
            weights = self.kernel_of[0].T @ weights
        if balance:
            products = self._products(targets.mT @ targets, shifted.lams, torch.zeros_like(counts))
            weights = weights @ balancing(products[0], counts)
        return weights

    def _products(self, inner: Tensor, lams: Tensor, left_out: Tensor) -> Tensor:
        """cᵀ (G + λI)⁻¹ c, from the inner products of whitened targets, without `left_out` samples per class.

        For K, where these are Yᵀ (K + λI)⁻¹ Y, it is Yᵀ K (K + λI)⁻¹ Y = Yᵀ Y − λ Yᵀ (K + λI)⁻¹ Y.
        """
        if self.kernel_of is None:
            return inner
        y = self.kernel_of[1]
        return y.T @ y - torch.diag(left_out) - lams.to(y.dtype)[:, None, None] * inner


@dataclass(frozen=True)
class _Apart:
    """History and batch, ready for any λ: with the sums without each fold."""

    task: _Task
    balance: bool
    rests: list[Rest]
    trace: float

    @classmethod
    def of(cls, task: _Task, balance: bool) -> _Apart:
        """Sum and factorise."""
        sums = [task.history.empty() for _ in task.folds]
        for fold, rows in zip(sums, task.folds, strict=True):
            for chunk in chunks(rows):
                fold.update(task.features[chunk], task.labels[chunk])
        trace = task.history.trace + sum(fold.trace for fold in sums)
        return cls(task, balance, rests(sums, task.history), trace)

    def searched(self, grid: Grid) -> LambdaSearch:
        """The search."""
        rounding = float(np.finfo(self.task.history.precision).eps)
        return grid.searched(self.accuracies, self.trace, rounding)

    def accuracies(self, lams: Sequence[float]) -> list[Fraction]:
        """The mean accuracy over folds of every λ."""
        hits = np.zeros((len(lams), FOLDS), np.int64)
        for fold, (rest, rows) in enumerate(zip(self.rests, self.task.folds, strict=True)):
            weights = [rest.weights(lam, self.balance) for lam in lams]
            for chunk in chunks(rows):
                x = self.task.features[chunk].astype(self.task.history.precision)
                for at, w in enumerate(weights):
                    hits[at, fold] += rest.right(w, x, self.task.labels[chunk])
        return mean_accuracies(hits, [*map(len, self.task.folds)])


def _inner(columns: Tensor) -> Tensor:
    """All inner products of the columns; by symmetry, those right of the diagonal are copied."""
    count = columns.shape[-1]
    if count <= STRIP:
        return columns.mT @ columns
    found = columns.new_empty(*columns.shape[:-2], count, count)
    for start in range(0, count, STRIP):
        end = start + STRIP
        found[..., start:, start:end] = columns[..., start:].mT @ columns[..., start:end]
        found[..., start:end, end:] = found[..., end:, start:end].mT
    return found


def _solved(matrix: Tensor, right: Tensor) -> Tensor:
    """A⁻¹ b of positive matrices; where rounding has made one singular, the minimum-norm solutions."""
    factor, failed = torch.linalg.cholesky_ex(matrix)
    if failed.any():
        inverse: Tensor = torch.linalg.pinv(matrix, hermitian=True)
        return inverse @ right
    return torch.cholesky_solve(right, factor)


@contextmanager
def _workers(count: int, side: int) -> Iterator[Callable[..., Iterable[Any]]]:
    """`map` for `count` searches with matrices of `side` rows: one thread each, or all threads for each."""
    if side > (ONE_THREAD if count == 1 else SIDE_BY_SIDE):
        yield map
        return
    with single_threads() as pool:
        yield pool.map
