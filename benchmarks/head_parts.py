"""What does each part of the default classifier bring, and what would others bring that it does not have?

    python -m benchmarks.head_parts [--data ../shared/data] [--weights ../shared/data/vit-tiny.safetensors]
                                    [--networks bundled vit-tiny] [--seeds 0 1] [--per-class 1 5 30]

Needs what benchmarks.heads needs. Accuracy by variant, in points above or below the default. The first rows
build it: ridge on plain features, with layers scaled, then with deep layers counting more, then both votes.
The others change one thing: one vote alone, values scaled one by one, an intercept, random ReLU features of
the scaled layers (2 and 4 times as many as there are values), other numbers of layers, other λ.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np

from benchmarks.heads import NETWORKS, Split, datasets, load
from layup.algebra.auto import DEPTH, MOST, Prior, Votes
from layup.algebra.samples import Floats
from layup.tables import Table, to_markdown

DEEPEST = 12
"""The most layers that are compared."""
DEFAULT = "the default: both votes"


class Ridge(Votes):
    """Its vote alone."""

    @cached_property
    def _mix(self) -> tuple[float, float]:
        return 1.0, 0.0


class Cosine(Votes):
    """Its vote alone."""

    @cached_property
    def _mix(self) -> tuple[float, float]:
        return 0.0, 1.0


class Discriminants(Votes):
    """Linear discriminants, which vote in neither."""

    @cached_property
    def weights_and_offsets(self) -> tuple[Floats, Floats]:
        """Those of the nearest class mean, after whitening."""
        return self.whitening.weights, -np.diagonal(self.whitening.between) / 2


def accuracy(split: Split, prior: Prior, votes: type[Votes] = Votes) -> float:
    """With this prior; solved in the span of the scaled samples, which gives the same predictions."""
    scaled = replace(split, x=split.x / prior.scale, asked=split.asked / prior.scale).in_span()
    sums = scaled.sums()
    weights, offsets = votes(sums, replace(prior, scale=np.ones(sums.dim))).weights_and_offsets
    return scaled.accuracy(np.array(sums.labels)[(scaled.asked @ weights + offsets).argmax(axis=1)])


def shaped(split: Split, power: float = 1.0, depth: bool = True) -> Prior:
    """The prior with this power of the variances of layers, and with or without γ; λ by the same rule."""
    prior, widths = Prior.of(split.sums()), [*split.layers.values()]
    discount = np.repeat((1 + DEPTH / (prior.size + 1)) ** np.arange(len(widths))[::-1], widths)
    variances = prior.scale**2 / discount
    changed = variances**power * (discount if depth else 1.0)
    lam = prior.lam * float((variances / changed).mean() / (1 / discount).mean())
    return replace(prior, scale=np.sqrt(changed), lam=lam)


Variant = Callable[[Split], float]


def of(
    votes: type[Votes] = Votes, k: int = 6, power: float = 1.0, depth: bool = True, lam: float = 1.0
) -> Variant:
    """Votes of k layers, with so many times the λ of the rule."""

    def measured(split: Split) -> float:
        split = split.last(k)
        prior = shaped(split, power, depth)
        return accuracy(split, replace(prior, lam=lam * prior.lam), votes)

    return measured


def centred(split: Split) -> float:
    """An intercept: every sample without the mean of the class means."""
    split = split.last(6)
    mean = split.sums().means.mean(axis=0)
    split = replace(split, x=split.x - mean, asked=split.asked - mean)
    return accuracy(split, shaped(split))


def one_by_one(split: Split) -> float:
    """Every value in units of its own deviation within classes; of all samples, where each is a class."""
    split = split.last(6)
    means = split.sums().means
    alone = len(means) == len(split.x)
    around = means.mean(axis=0) if alone else means[np.unique(split.y, return_inverse=True)[1]]
    deviation = np.sqrt(((split.x - around) ** 2).mean(axis=0)) + 1e-6
    split = replace(split, x=split.x / deviation, asked=split.asked / deviation)
    return accuracy(split, shaped(split))


def widened(times: int) -> Variant:
    """Random ReLU features of the scaled layers, `times` as many."""

    def measured(split: Split) -> float:
        split = split.last(6)
        scale = Prior.of(split.sums()).scale
        width = times * len(scale)
        matrix = np.random.default_rng(0).standard_normal((len(scale), width), np.float32)
        x, asked = (
            np.maximum((each / scale).astype(np.float32) @ matrix, 0) for each in (split.x, split.asked)
        )
        rows = replace(split, layers={"random": width}, x=x, asked=asked).in_span()
        prior = shaped(rows)
        # In their span, samples are as many as dimensions: the largest λ of so many dimensions is not seen.
        return accuracy(rows, replace(prior, lam=prior.lam * min(1.0, MOST * len(x) / width)))

    return measured


VARIANTS: dict[str, Variant] = {
    "ridge, plain": of(Ridge, power=0.0, depth=False),
    "ridge, layers scaled half way": of(Ridge, power=0.5, depth=False),
    "ridge, layers scaled": of(Ridge, depth=False),
    "ridge, and deep layers count more": of(Ridge),
    "cosine, the same": of(Cosine),
    "LDA, the same": of(Discriminants),
    DEFAULT: of(),
    "without γ": of(depth=False),
    "values scaled one by one": one_by_one,
    "with an intercept": centred,
    "random features, 2 d": widened(2),
    "random features, 4 d": widened(4),
    "k = 1": of(k=1),
    "k = 12": of(k=12),
    "λ / 10": of(lam=0.1),
    "λ / 3": of(lam=1 / 3),
    "3 λ": of(lam=3.0),
    "10 λ": of(lam=10.0),
}


def compared(name: str, split: Split, count: int, seeds: Sequence[int]) -> tuple[str, dict[str, float]]:
    """The accuracy of every variant, as a mean over seeds."""
    drawn = [split.drawn(count, seed) for seed in seeds]
    found = {title: float(np.mean([variant(each) for each in drawn])) for title, variant in VARIANTS.items()}
    title = f"{name} {min(count, int(np.unique(split.y, return_counts=True)[1].max()))}"
    print(title, {variant: round(value, 3) for variant, value in found.items()}, flush=True)
    return title, found


def table(found: dict[str, dict[str, float]]) -> str:
    """A row per variant: points to the default, whose accuracy is given, and their mean."""
    rows = []
    for variant in VARIANTS:
        points = [100 * (each[variant] - each[DEFAULT]) for each in found.values()]
        if variant == DEFAULT:
            rows.append([variant, *(f"{each[variant]:.3f}" for each in found.values()), ""])
        else:
            rows.append([variant, *(f"{value:+.1f}" for value in points), f"{np.mean(points):+.1f}"])
    return to_markdown(Table.of(["", *found, "mean"], rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--weights", type=Path, default=Path("../shared/data/vit-tiny.safetensors"))
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=["bundled", "vit-tiny"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    parser.add_argument("--per-class", type=int, nargs="+", default=[1, 5, 30])
    options = parser.parse_args()
    for network in options.networks:
        if (backbone := load(network, options.weights)) is None:
            continue
        found = dict(
            compared(name, split, count, options.seeds)
            for name, split in datasets(backbone, options.data, DEEPEST)
            for count in options.per_class
        )
        print(f"\n{network}\n\n{table(found)}\n", flush=True)


if __name__ == "__main__":
    main()
