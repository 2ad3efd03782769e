"""The classifier that needs no settings: all that it chooses follows from the sums.

Layers of a network differ in scale, and with few samples the deepest of them says most. One λ for all values
punishes some layers and not others. So every value gets a prior variance, D, that follows from the sums:

    D_l = v_l γ^(layers after l)      v_l: the mean variance within classes of the values of layer l
                                      γ = 1 + 4 / (n̄ + 1) for n̄ = N / C samples per class
    λ = t · tr(D⁻¹ S_W) / d           t = min(d / N, 10) for N ≤ d, else (d / N)³

where d / N makes λ the mean squared distance of a sample from the mean of its class. Two classifiers are then
solved from one factorisation of Σ = S_W + λD (`Whitening`), and vote with equal weight:

    ridge       r(x) = (I / n̄ + A)⁻¹ b(x): the paper's classifier, with λD for λI, and balanced classes
    cosine      q_y(x) = (x − m)ᵀ R (μ_y − m) / ‖μ_y − m‖_R: the nearest class mean by cosine, after whitening

m is N / (N + 5) of the mean of all class means: with few samples, the centre is uncertain. Each vote is
divided by its mean margin between classes at the class means, so that both have the same scale.

No λ is searched, no sample is needed twice, and the order of batches does not matter: whatever was learned,
merged and forgotten, the classifier is that of the sums. docs/choices.md compares it with others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from layup.algebra.class_sums import ClassSums
from layup.algebra.classifier import SumsClassifier
from layup.algebra.held_out import HeldOut, judged
from layup.algebra.samples import Floats
from layup.algebra.statistics import GramStatistics
from layup.algebra.whitening import LeftOut, Whitening
from layup.errors import InputError

DEPTH = 4.0
"""How much more the deepest layers count with few samples: γ − 1 is this over n̄ + 1."""
MOST = 10.0
"""The largest t."""
FALL = 3.0
"""How fast λ falls with more samples than dimensions: with this power of d / N."""
CENTRE = 5.0
"""How many samples it takes to trust half of the centre."""
LEAST = 1e-6
"""The least variance of a layer, as a share of the largest: a layer may be the same for all samples."""


@dataclass(frozen=True)
class Prior:
    """What follows from sums before anything is solved: √D, λ, the share of the centre, and n̄.

    >>> sums = GramStatistics({"shallow": 1, "deep": 1})
    >>> sums.update([[10.0, 1.0], [30.0, 3.0], [70.0, 5.0], [90.0, 7.0]], ["cat", "cat", "dog", "dog"])
    >>> prior = Prior.of(sums)
    >>> (prior.scale**2).round(3).tolist()  # variances of 200 and 2; γ = 1 + 4 / 3
    [466.667, 2.0]
    """

    scale: Floats
    lam: float
    centre: float
    size: float

    @classmethod
    def of(cls, sums: GramStatistics) -> Self:
        """The prior of sums that hold at least one sample. Costs one pass over the diagonal of G."""
        classes, total, size = len(sums.labels), sums.total, sums.total / len(sums.labels)
        scatter = _scatter(sums)
        layers = np.array_split(scatter, np.cumsum([*sums.layers.values()])[:-1])
        variances = np.array([layer.mean() for layer in layers]) / max(total - classes, 1)
        variances = np.maximum(variances, LEAST * variances.max()) if variances.max() else variances + 1
        discount = (1 + DEPTH / (size + 1)) ** np.arange(len(variances))[::-1]
        prior = np.repeat(variances * discount, [*sums.layers.values()])
        ratio = sums.dim / total
        amount = min(ratio, MOST) if ratio > 1 else ratio**FALL
        lam = amount * float((scatter / prior).mean()) or 1.0  # any will do where all samples are zero
        return cls(np.sqrt(prior), lam, total / (total + CENTRE), size)


def _scatter(sums: GramStatistics) -> Floats:
    """How far the values of samples are from their class means, squared and summed, one number per column.

    Classes of one sample have no spread: where they are most, the distance from the centre of all is taken,
    and of a single sample the distance from zero.
    """
    squares, means = sums.diagonal, sums.prototypes / sums.counts[:, None]
    if sums.total >= 2 * len(sums.labels):
        return np.maximum(squares - sums.counts @ means**2, 0.0)
    centre = means.mean(axis=0)
    around = squares - 2 * centre * sums.prototypes.sum(axis=0) + sums.total * centre**2
    return np.maximum(around, 0.0) if len(sums.labels) > 1 else squares


@dataclass(frozen=True)
class Votes:
    """The two classifiers of sums, solved; the statistics must not change while they are in use."""

    statistics: GramStatistics
    prior: Prior

    @classmethod
    def of(cls, statistics: GramStatistics) -> Self:
        """With the prior that follows from the sums."""
        return cls(statistics, Prior.of(statistics))

    @cached_property
    def whitening(self) -> Whitening:
        """Σ, factorised."""
        return Whitening(self.statistics, self.prior.scale, self.prior.lam)

    @cached_property
    def weights_and_offsets(self) -> tuple[Floats, Floats]:
        """W (d × C) and what is added to x W, C: the scores of x."""
        ridge, cosine = self._mix
        around, _, _ = self._centred
        b = self.whitening.weights
        weights = ridge * b @ self._inverse + cosine * (b - (b @ self._centre)[:, None]) / self._lengths
        return weights, -cosine * around / self._lengths

    @cached_property
    def means_solved(self) -> Floats:
        """Row y: the scores of the mean of class y."""
        weights, offsets = self.weights_and_offsets
        return self.whitening.means @ weights + offsets

    def familiarity(self, x: Floats) -> Floats:
        """How like any class each row is: its largest cosine with a class mean, after whitening; −1 to 1."""
        found = self.whitening.of(x)
        return self._nearest(found.cross, found.own, *self._centred)

    def left_out(self, x: NDArray[Any], index: NDArray[np.int64]) -> tuple[Floats, Floats]:
        """Scores and familiarity of learned samples, each without itself; `index` are their classes.

        The prior stays as it is. Costs d² operations per sample.
        """
        found = self.whitening.left_out(x, index)
        ridge, cosine = self._mix
        around, lengths, own = self._centred_without(found)
        numerator = found.cross - (found.cross @ self._centre)[:, None] - around
        scores = ridge * found.solved(self._inverse) + cosine * numerator / lengths
        return scores, self._nearest(found.cross, found.own, around, lengths, own)

    def _nearest(self, cross: Floats, own: Floats, around: Floats, lengths: Floats, middle: Any) -> Floats:
        towards = cross @ self._centre
        distance = np.sqrt(np.maximum(own - 2 * towards + middle, np.finfo(float).tiny))
        return np.asarray(((cross - towards[:, None] - around) / lengths).max(axis=1) / distance)

    @cached_property
    def _centre(self) -> Floats:
        """The centre m as a sum of class means."""
        classes = len(self.statistics.labels)
        return np.full(classes, self.prior.centre / classes)

    @cached_property
    def _inverse(self) -> Floats:
        """(I / n̄ + A)⁻¹."""
        between = self.whitening.between
        return np.asarray(np.linalg.inv(np.eye(len(between)) / self.prior.size + between))

    @cached_property
    def _centred(self) -> tuple[Floats, Floats, float]:
        """(μ_y − m)ᵀ R m, ‖μ_y − m‖_R, and mᵀ R m."""
        between = self.whitening.between
        towards = between @ self._centre
        own = float(self._centre @ towards)
        return towards - own, _lengths(np.diagonal(between) - 2 * towards + own), own

    def _centred_without(self, found: LeftOut) -> tuple[Floats, Floats, Floats]:
        """The same for each sample without itself."""
        towards = found.times(self._centre)
        own = towards @ self._centre
        return towards - own[:, None], _lengths(found.diagonal() - 2 * towards + own[:, None]), own

    @property
    def _lengths(self) -> Floats:
        return self._centred[1]

    @cached_property
    def _mix(self) -> tuple[float, float]:
        """What each vote is multiplied by."""
        between = self.whitening.between
        around, lengths, _ = self._centred
        cosine = (between - (between @ self._centre)[:, None] - around) / lengths
        return 0.5 / _margin(between @ self._inverse), 0.5 / _margin(cosine)


def _lengths(squares: Floats) -> Floats:
    """Roots; infinite where there is no length, so that dividing by it gives nothing."""
    return np.where(squares > 0, np.sqrt(np.maximum(squares, 0.0)), np.inf)


def _margin(scores: Floats) -> float:
    """By how much class means score higher for their own class than for others, on average; 1 if not."""
    classes, own = len(scores), np.diagonal(scores)
    if classes == 1:
        return float(own[0]) if own[0] > 0 else 1.0
    margin = float((own - (scores.sum(axis=1) - own) / (classes - 1)).mean())
    return margin if margin > 0 else 1.0


class AutoClassifier(SumsClassifier):
    """The classifier of `LayUP`: ridge and cosine votes of scaled layers, with all choices made by the sums.

    Learning costs d² operations per sample, the first prediction after a batch one solve (d³/3). It has no
    parameters: two models with the same sums give the same predictions.

    >>> X = np.array([[1.0, 0.1], [0.9, 0.0], [0.1, 1.0], [0.0, 0.8]])
    >>> model = AutoClassifier().partial_fit(X[:2], ["cat", "cat"])
    >>> model.partial_fit(X[2:], ["dog", "dog"]).predict([[0.8, 0.2], [0.1, 0.7]]).tolist()
    ['cat', 'dog']
    >>> model.familiarity(np.array([[0.8, 0.1], [-1.0, -1.0]])).round(2).tolist()
    [1.0, -0.03]
    """

    kind = "auto"
    votes_: Votes | None

    def __init__(self) -> None:
        pass

    def check(self) -> None:
        """There are no parameters that could be wrong."""

    def adopt(self, statistics: ClassSums) -> None:
        """Continue from these sums."""
        super().adopt(statistics)
        self.votes_ = None

    @property
    def ready(self) -> bool:
        """Whether the votes are solved."""
        return self.votes_ is not None

    @property
    def votes(self) -> Votes:
        """The two classifiers of the sums; solved when first used."""
        if self.votes_ is None:
            if not self.statistics_.labels:
                raise InputError("Cannot predict: no class was learned, or all classes were forgotten.")
            self.votes_ = Votes.of(self.statistics_)
        return self.votes_

    @property
    def steepness(self) -> float:
        """What fits most models, by their number of classes: see docs/answers.md."""
        return 1 + 2.5 * float(np.log(len(self.statistics_.labels)))

    def in_force(self) -> dict[str, Any]:
        """The λ that follows from the sums."""
        return {"lambda": self.votes.prior.lam} if self.statistics_.labels else {}

    def familiarity(self, x: NDArray[Any]) -> Floats:
        """How like anything learned each row is, from −1 to 1."""
        return self.votes.familiarity(x.astype(np.float64))

    def held_out(self, x: NDArray[Any], labels: NDArray[Any]) -> HeldOut:
        """Every sample, of those that were learned, as all the others see it: exact leave-one-out."""
        return judged(self.statistics_, x, labels, self.votes.left_out)

    def _score(self, x: Floats) -> Floats:
        weights, offsets = self.votes.weights_and_offsets
        return x @ weights + offsets
