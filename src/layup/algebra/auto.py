"""The classifier that needs no settings: all that it chooses follows from the sums.

Layers of a network differ in scale, and with few samples the deepest of them says most. One λ for all values
punishes some layers and not others. So λ is multiplied by D, one number per value, which is larger for layers
that vary more, and for shallow ones. It follows from the sums of N samples of C classes and d values:

    D_l = v_l γ^(layers after l)      v_l: the mean variance within classes of the values of layer l
                                      γ = 1 + 4 / (n̄ + 1) for n̄ = N / C samples per class
    λ = t · tr(D⁻¹ S_W) / d           t = min(d / N, 10) for N ≤ d, else (d / N)³

where d / N makes λ the mean squared distance of a sample from the mean of its class. Two classifiers are then
solved from one factorisation of Σ = S_W + λD, and vote with equal weight (`whitening` explains S_W, A, b, R):

    ridge       r(x) = (I / n̄ + A)⁻¹ b(x): the paper's classifier, with λD for λI, and balanced classes
    cosine      q_y(x) = (x − m)ᵀ R (μ_y − m) / ‖μ_y − m‖_R: the nearest class mean by cosine, after whitening

m is N / (N + 5) of the mean of all class means: with few samples, the centre is uncertain. Each vote is
divided by its mean margin between classes at the class means, so that both have the same scale, whatever the
network.

On photos this is as good as any λ that could be searched, and whatever was learned, merged and forgotten, in
whatever order, the classifier is that of the sums. Some pictures are unlike photos: of handwritten digits, a
hundredth of this λ is better. So λ has a `strength`, 1 at first, which a batch may change: if, judged by all
others, clearly more of its samples are right with another (`stronger`). docs/choices.md has the measurements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from layup.algebra.classifier import SumsClassifier
from layup.algebra.held_out import HeldOut, judged
from layup.algebra.parameters import KINDS
from layup.algebra.readout import Nearness, Readout, level, rank_for
from layup.algebra.samples import Floats, Samples, drawn
from layup.algebra.statistics import GramStatistics
from layup.algebra.whitening import LeftOut, Whitening
from layup.errors import InputError

DEPTH = 4.0
"""How much more each layer counts than the one before it, with few samples: γ − 1 is this over n̄ + 1."""
MOST = 10.0
"""The largest t."""
FALL = 3.0
"""How fast λ falls with more samples than dimensions: with this power of d / N."""
CENTRE = 5.0
"""How many samples it takes to trust half of the centre."""
CONSTANT = 1e-10
"""A layer that varies less than this, as a share of its squares, is the same for all samples."""
CLEAR = 1.5
"""By how many standard errors another strength must be better."""
JUDGED = 1000
"""How many samples of a batch are drawn at most, to choose the strength."""
FEWEST = 200
"""How many samples it takes to judge at all."""
ENOUGH = 5
"""How many samples their classes must have: with fewer, leaving one out makes another problem of it."""
STEP = 10**0.5
STRENGTHS = (1e-4, 1e2)
"""The range of strengths that are tried."""
ROUNDING = 1e-13
"""Differences of inner products that are smaller than this, as a share of them, are rounding."""
NOTHING = 1e-100
"""Inner products of whitened vectors that are smaller are none: samples of photos never have them."""


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
        classes, total, widths = len(sums.labels), sums.total, [*sums.layers.values()]
        scatter, size = _scatter(sums), total / classes
        variances = _by_layer(scatter, widths) / max(total - classes, 1)
        discount = (1 + DEPTH / (size + 1)) ** np.arange(len(widths))[::-1]
        prior = np.repeat(np.where(variances > 0, variances, 1.0) * discount, widths)
        ratio = sums.dim / total
        amount = min(ratio, MOST) if ratio > 1 else ratio**FALL
        lam = amount * float((scatter / prior).mean()) or 1.0  # any will do where all samples are zero
        return cls(np.sqrt(prior), lam, total / (total + CENTRE), size)

    def times(self, strength: float) -> Self:
        """With another λ."""
        return replace(self, lam=strength * self.lam)

    def whitening(self, sums: GramStatistics) -> Whitening:
        """Σ of these sums, factorised."""
        return Whitening(sums, self.scale, self.lam)


def _scatter(sums: GramStatistics) -> Floats:
    """How far the values of samples are from their class means, squared and summed, one number per column.

    With fewer than two samples per class, they are mostly their own class means: the distance is then from
    the mean of those. And where a layer is the same for all samples, the distance is from zero.
    """
    squares, means = sums.diagonal, sums.means
    if sums.total >= 2 * len(sums.labels):
        scatter = squares - sums.counts @ means**2
    else:
        centre = means.mean(axis=0)
        scatter = squares - 2 * centre * sums.prototypes.sum(axis=0) + sums.total * centre**2
    scatter, widths = np.maximum(scatter, 0.0), [*sums.layers.values()]
    varies = _by_layer(scatter, widths) > CONSTANT * _by_layer(squares, widths)
    return np.where(np.repeat(varies, widths), scatter, squares)


def _by_layer(values: Floats, widths: list[int]) -> Floats:
    """The mean of the values of each layer."""
    return np.array([layer.mean() for layer in np.split(values, np.cumsum(widths)[:-1])])


@dataclass(frozen=True)
class Votes:
    """The two classifiers of sums: solved when first used, since learning alone needs no solving.

    `known` is the prior, if it is not to follow from the sums. They must not change once it was used.
    """

    statistics: GramStatistics
    known: Prior | None = None
    strength: float = 1.0

    @property
    def solved(self) -> bool:
        """Whether the weights are known already."""
        return "weights_and_offsets" in vars(self)

    @cached_property
    def prior(self) -> Prior:
        """What the sums say before they are solved."""
        return self.known or Prior.of(self.statistics).times(self.strength)

    @cached_property
    def whitening(self) -> Whitening:
        """Σ, factorised."""
        return self.prior.whitening(self.statistics)

    @cached_property
    def weights_and_offsets(self) -> tuple[Floats, Floats]:
        """W (d × C) and what is added to x W, C: the scores of x."""
        ridge, cosine = self._mix
        around, _, _ = self._centred
        b = self.whitening.weights
        weights = ridge * b @ self._inverse + cosine * (b - (b @ self._centre)[:, None]) / self._lengths
        return weights, -cosine * around / self._lengths

    def familiarity(self, x: Floats) -> Floats:
        """How like any class each row is: its largest cosine with a class mean, after whitening; −1 to 1."""
        cross, own = self.whitening.of(x)
        return self._nearest(cross, own, *self._centred)

    def nearness(self, rank: int) -> Nearness:
        """What familiarity takes without the sums, with so many projections. Costs d³ operations."""
        b, lengths, sums = self.whitening.weights, self._lengths, self.statistics
        return Nearness.of(
            self.whitening.whitened,
            self._centre @ sums.means,
            (b - (b @ self._centre)[:, None]) / lengths,
            self._centred[0] / lengths,
            rank=rank,
            key=sums.digest(),
        )

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
        distance = self._roots(own - 2 * towards + middle)
        cosines = (cross - towards[:, None] - around) / lengths / distance[:, None]
        return np.asarray(cosines.max(axis=1).clip(-1, 1))  # beyond is rounding

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
        return towards - own, self._roots(np.diagonal(between) - 2 * towards + own), own

    def _centred_without(self, found: LeftOut) -> tuple[Floats, Floats, Floats]:
        """The same for each sample without itself."""
        towards = found.times(self._centre)
        own = towards @ self._centre
        return towards - own[:, None], self._roots(found.diagonal() - 2 * towards + own[:, None]), own

    def _roots(self, squares: Floats) -> Floats:
        """Lengths; infinite where only rounding is left, so that dividing by it gives zero."""
        least = max(ROUNDING * np.diagonal(self.whitening.between).max(), NOTHING)
        return np.sqrt(np.where(squares > least, squares, np.inf))

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


def _in_span(earlier: Samples, batch: Samples, prior: Prior) -> tuple[GramStatistics, Floats, Prior]:
    """Sums, samples of the batch and prior in coordinates of what all samples span, in units of √D.

    Products are the same there. With fewer samples than dimensions, it is smaller.
    """
    both = [each for each in (earlier, batch) if len(each[1])]
    x, labels = (np.concatenate(parts) for parts in zip(*both, strict=True))
    inside = torch.linalg.qr(torch.from_numpy(x / prior.scale).mT, mode="r").R.mT.numpy()
    sums = GramStatistics(len(inside))
    sums.update(inside, labels)
    return sums, inside[len(earlier[1]) :], replace(prior, scale=np.ones(sums.dim))


def _margin(scores: Floats) -> float:
    """By how much class means score higher for their own class than for others, on average; 1 if not.

    Of a single class, its score.
    """
    others = len(scores) - 1
    margin = float(np.diagonal(scores).mean())
    if others:
        margin -= float((scores.sum(axis=1) - np.diagonal(scores)).mean()) / others
    return margin if margin > max(ROUNDING * np.abs(scores).max(), NOTHING) else 1.0


def stronger(right: Callable[[float], NDArray[np.bool_]], now: float = 1.0) -> float:
    """The strength under which clearly more samples are right than under the present one; else that one.

    right: which samples are right, for any strength. Tried are half decades below and above the present one,
    as long as each is better than the one before.

    >>> stronger(lambda strength: np.arange(100) < (90 if strength < 0.2 else 70 - 10 * np.log10(strength)))
    0.1
    >>> stronger(lambda strength: np.arange(100) < 70 + (strength > 1))  # one more is not clear
    1.0
    """
    before = right(now)
    best, most = now, before
    for step in (1 / STEP, STEP):
        at, here = now, before
        while STRENGTHS[0] <= at * step <= STRENGTHS[1] and (found := right(at * step)).sum() > here.sum():
            at, here = at * step, found
        gained, lost = int((here & ~before).sum()), int((before & ~here).sum())
        if gained - lost > CLEAR * np.sqrt(gained + lost) and here.sum() > most.sum():
            best, most = at, here
    return float(f"{best:.12g}")


class AutoClassifier(SumsClassifier):
    """The classifier of `LayUP`: ridge and cosine votes of scaled layers; its choices follow from the sums.

    Learning costs d² operations per sample, and about three solves per batch of 200 samples or more to see
    whether the strength of λ is right; the first prediction after a batch one solve (d³/3).

    Args:
        strength: what the λ of the sums is multiplied by. "search": 1, unless the samples of a batch clearly
            say otherwise; or a number > 0. With a number, the classifier is a function of the sums alone.

    >>> X = np.array([[1.0, 0.1], [0.9, 0.0], [0.1, 1.0], [0.0, 0.8]])
    >>> model = AutoClassifier().partial_fit(X[:2], ["cat", "cat"])
    >>> model.partial_fit(X[2:], ["dog", "dog"]).predict([[0.8, 0.2], [0.1, 0.7]]).tolist()
    ['cat', 'dog']
    >>> model.familiarity(np.array([[0.8, 0.1], [-1.0, -1.0]])).round(2).tolist()
    [1.0, 0.42]
    """

    kind = "auto"
    votes_: Votes

    def __init__(self, strength: float | str = "search") -> None:
        self.strength = strength

    def check(self) -> None:
        """Refuse what is not a strength."""
        if not KINDS[self.kind].parameters["strength"].holds(self.strength):
            raise InputError(f"strength = {self.strength!r} cannot be used: give a number > 0, or 'search'.")

    @property
    def needs_samples(self) -> bool:
        """Whether the samples of each batch are asked about the strength."""
        return self.strength == "search"

    @property
    def needs_few(self) -> bool:
        """Only samples that are drawn are asked."""
        return True

    def adopt(self, statistics: GramStatistics, strength: float | None = None) -> None:
        """Continue from these sums; `strength` is what a batch has said about it."""
        super().adopt(statistics)
        if not self.needs_samples:
            strength = float(self.strength)
        elif strength is None:
            strength = self.votes_.strength if hasattr(self, "votes_") else 1.0
        self.votes_ = Votes(statistics, strength=strength)

    def adopt_merged(self, statistics: GramStatistics, other: Self) -> None:
        """Continue from sums that include another's, with the strength of the one with more samples."""
        both = (
            (self.statistics_.total, self.votes_.strength),
            (other.statistics_.total, other.votes_.strength),
        )
        self.adopt(statistics, max(both)[1])

    def chosen(self) -> dict[str, Any]:
        """The strength."""
        return {"strength": self.votes_.strength}

    def _restore(self, sums: Any, chosen: Mapping[str, Any]) -> None:
        self.adopt(sums, float(chosen["strength"]))

    def _go_on_from(self, other: Self) -> None:
        self.adopt(other.statistics_, other.votes_.strength)

    def search_values(self, width: int, classes: int, samples: int, known: int) -> int:
        """How many values judging a batch holds: S_W twice, its factor, and the samples, whitened."""
        return 4 * width**2 + 3 * min(samples, JUDGED) * width if self.needs_samples else 0

    def _search(self, x: NDArray[Any], labels: NDArray[Any], batch: GramStatistics) -> tuple[float] | None:
        """The strength that fits a batch which is about to be learned; None if it is too small to tell."""
        sums = self.statistics_ + batch
        index, rows = np.searchsorted(sums.labels, labels), drawn(x, JUDGED)
        rows = rows[sums.counts[index[rows]] >= ENOUGH]
        if len(rows) < FEWEST:
            return None
        own, prior, earlier = index[rows].astype(np.int64), Prior.of(sums), self.statistics_.rows
        if earlier is not None and sums.total < sums.dim:
            sums, x, prior = _in_span(earlier, (x, labels), prior)
        chosen = x[rows].astype(np.float64)

        def right(strength: float) -> NDArray[np.bool_]:
            scores, _ = Votes(sums, prior.times(strength)).left_out(chosen, own)
            return np.asarray(scores.argmax(axis=1) == own)

        return (stronger(right, self.votes_.strength),)

    @property
    def ready(self) -> bool:
        """Whether the votes are solved."""
        return self.votes_.solved

    @property
    def votes(self) -> Votes:
        """The two classifiers of the sums; solved when first used."""
        self._require_classes()
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

    def linear(self) -> tuple[Floats, Floats]:
        """The weights of both votes together, and what is added to the scores."""
        return self.votes.weights_and_offsets

    def readout(self) -> Readout | None:
        """As in the base class, with how familiar samples are."""
        found = self.linear_readout()
        return found and replace(found, nearness=self.votes.nearness(rank_for(self.statistics_.dim)))

    def _score(self, x: Floats) -> Floats:
        """Classes that are equal but for rounding have equal scores, where they are the highest."""
        weights, offsets = self.linear()
        return level(x @ weights + offsets)
