"""The paper's claims, and whether they hold in a world: by paired differences and their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from layup.comparison import Difference
from layup.suites.figures import MEASURES, characteristics, correlations
from layup.suites.items import SEEDS
from layup.suites.laboratory import Laboratory
from layup.suites.sheets import Line, Sheet, Shown, percent, points
from layup.suites.spec import ADAPTERS, NETWORKS, PLAIN, USUAL, Spec
from layup.suites.study import Place, Study, interval, seeded
from layup.suites.tables import Wanted

HOLDS, MIXED, FAILS, OPEN, NOT_RUN = "holds", "mixed", "does not hold", "cannot be told", "not run"

SETTINGS = ("cil", "dil")
CLOSE = 0.01
"""A point: what counts as about equal."""
LOW = (5, 20)
"""Images a class where data are said to be few."""
FEW = 5
"""Datasets below which no correlation is told from chance."""


@dataclass(frozen=True)
class Pair:
    """Two runs of which the paper says something, for every dataset of a setting and every network."""

    what: str
    spec: Spec
    over: Spec


@dataclass(frozen=True)
class Judgement:
    """Whether a claim holds, why in a few sentences, and the differences behind them."""

    verdict: str
    said: Sequence[str] = ()
    gains: Sequence[Gain] = ()


@dataclass(frozen=True)
class Claim:
    """What the paper says, the pairs of runs that it is about, and how to judge their differences.

    further: other runs that the judgement looks at.
    """

    text: str
    judge: Callable[[Study, Sequence[Pair]], Judgement]
    pairs: tuple[Pair, ...] = ()
    further: tuple[Spec, ...] = ()

    def wanted(self, laboratory: Laboratory) -> Wanted:
        """Every run that it looks at."""
        specs = [spec for pair in self.pairs for spec in (pair.spec, pair.over)] + list(self.further)
        return [
            (column, spec.on(network))
            for spec in specs
            for column in laboratory.world.of(spec.setting)
            for network in NETWORKS
        ]


@dataclass(frozen=True)
class Gain:
    """A difference with its place, to be told."""

    place: Place
    pair: Pair
    found: Difference

    @property
    def above(self) -> bool:
        """Whether the gain is beyond its interval."""
        return self.found.low is not None and self.found.low > 0

    @property
    def below(self) -> bool:
        """Whether the loss is beyond its interval."""
        return self.found.high is not None and self.found.high < 0

    @property
    def line(self) -> Line:
        """A row of a table."""
        low, high = self.found.low, self.found.high
        ends = "" if low is None or high is None else f"[{points(low)}, {points(high)}]"
        sure = "gain" if self.above else "loss" if self.below else ""
        return Line(f"{self.place.label}: {self.pair.what}", [points(self.found.mean), ends, sure])


def gains(study: Study, pairs: Iterable[Pair]) -> list[Gain]:
    """The differences of all pairs that were run, wherever that was."""
    return [
        Gain(place, pair, found)
        for pair in pairs
        for place in study.places(study.world.of(pair.spec.setting))
        if pair.spec.network in (None, place.network)
        and (found := study.gain(place.column, pair.spec.on(place.network), pair.over.on(place.network)))
    ]


def _tally(found: Sequence[Gain]) -> str:
    above, below = sum(each.above for each in found), sum(each.below for each in found)
    mean = float(np.mean([each.found.mean for each in found]))
    return (
        f"Of {len(found)}, gains beyond their intervals: {above}, losses: {below}; the mean difference is "
        f"{points(mean)} points."
    )


def more(study: Study, pairs: Sequence[Pair]) -> Judgement:
    """Holds if half of the differences or more are gains beyond their interval, and none is a loss."""
    found = gains(study, pairs)
    if not found:
        return Judgement(NOT_RUN)
    above, below = sum(each.above for each in found), sum(each.below for each in found)
    verdict = HOLDS if 2 * above >= len(found) and not below else MIXED if above else FAILS
    return Judgement(verdict, [_tally(found)], found)


def only_with_gram(study: Study, pairs: Sequence[Pair]) -> Judgement:
    """The pairs without G must not all gain, those with G must."""
    bare = gains(study, [pair for pair in pairs if pair.spec.method == "laynmc"])
    full = more(study, [pair for pair in pairs if pair.spec.method != "laynmc"])
    if not bare or full.verdict == NOT_RUN:
        return Judgement(NOT_RUN)
    inconsistent = any(not each.above for each in bare)
    said = [f"Without G: {_tally(bare)}", f"With G: {full.said[0]}"]
    return Judgement(full.verdict if inconsistent else FAILS, said, [*bare, *full.gains])


def shared_gram(study: Study, pairs: Sequence[Pair]) -> Judgement:
    """Shared beats averaged; averaged is within a point of the last layer, or not told from it."""
    shared = more(study, [pair for pair in pairs if pair.spec.method == "layup"])
    averaged = gains(study, [pair for pair in pairs if pair.spec.method != "layup"])
    if shared.verdict == NOT_RUN or not averaged:
        return Judgement(NOT_RUN)
    alike = sum(abs(each.found.mean) <= CLOSE or not (each.above or each.below) for each in averaged)
    said = [
        f"Shared over averaged: {shared.said[0]}",
        f"Averaged over the last layer: {alike} of {len(averaged)} are within a point or not told apart.",
    ]
    return Judgement(_both(shared, 2 * alike >= len(averaged)), said, [*shared.gains, *averaged])


def adaptation(study: Study, pairs: Sequence[Pair]) -> Judgement:
    """A first session adds, and AdaptFormer's is the best of three wherever it fits, more often than not."""
    added = more(study, pairs)
    winners = []
    for setting in SETTINGS:
        for place in study.places(study.world.of(setting)):
            specs = [Spec("layup", place.network, each, setting).having(k=6) for each in ADAPTERS]
            records = study.records(place.column, specs)
            if len(records) == len(ADAPTERS):
                best = max(records, key=lambda spec: interval(records[spec]).value)
                winners.append(f"{place.label}: {best.adapter}")
    if added.verdict == NOT_RUN or not winners:
        return added
    most = sum(each.endswith(ADAPTERS[0]) for each in winners)
    said = f"AdaptFormer is the best of three in {most} of {len(winners)} ({'; '.join(winners)})."
    return Judgement(_both(added, 2 * most >= len(winners)), [*added.said, said], added.gains)


def low_data(study: Study, pairs: Sequence[Pair]) -> Judgement:
    """The gain with few images is there, and no smaller than with all of them."""
    found = gains(study, pairs)
    few = [each for each in found if each.pair.spec.per_class is not None]
    full = {(each.place, each.pair.over.method): each for each in found if each.pair.spec.per_class is None}
    if not few:
        return Judgement(NOT_RUN)
    grown = sum(
        each.found.mean >= other.found.mean
        for each in few
        if (other := full.get((each.place, each.pair.over.method)))
    )
    gained = sum(each.above for each in few)
    verdict = HOLDS if 2 * gained >= len(few) and 2 * grown >= len(few) else MIXED if gained else FAILS
    said = (
        f"With {LOW[0]} and {LOW[1]} images a class, {gained} of {len(few)} differences are gains beyond "
        f"their interval, and {grown} are as large as with all images or larger."
    )
    return Judgement(verdict, [said], found)


def saturation(study: Study, pairs: Sequence[Pair]) -> Judgement:
    """From k = 6 to 12 less than half of what k = 1 to 6 brings, on average."""
    early, late = (gains(study, [pair]) for pair in pairs)
    if not early or not late:
        return Judgement(NOT_RUN)
    first, second = (float(np.mean([each.found.mean for each in found])) for found in (early, late))
    said = f"On average {points(first)} from k = 1 to 6, and {points(second)} from 6 to 12 (paper: 2.7, 0.4)."
    return Judgement(HOLDS if second < first / 2 else FAILS, [said], [*early, *late])


def spread(study: Study, pairs: Sequence[Pair]) -> Judgement:
    """Seeds scatter no more than the choice of test images would."""
    del pairs
    said, small = [], []
    for place in study.places(study.world.of("cil")):
        specs = seeded(Spec("layup", place.network, USUAL).having(k=6), SEEDS)
        found = [interval(record) for record in study.records(place.column, specs).values()]
        if len(found) < 2:
            continue
        scatter = float(np.std([each.value for each in found], ddof=1))
        error = float(np.mean([each.standard_error for each in found]))
        small.append(scatter <= error)
        said.append(
            f"{place.label}: standard deviation {percent(scatter, 2)} points over {len(found)} seeds, and "
            f"{percent(error, 2)} over test images."
        )
    if not small:
        return Judgement(NOT_RUN)
    return Judgement(HOLDS if all(small) else MIXED if any(small) else FAILS, said)


def without_search(study: Study, pairs: Sequence[Pair]) -> Judgement:
    """On a stream with λ = 1, LayUP loses two points at most against a search; RanPAC is shown beside it."""
    found = gains(study, pairs)
    ours = [each for each in found if each.pair.spec.method == "layup" and "λ = 1" in each.pair.what]
    if not ours:
        return Judgement(NOT_RUN)
    kept = sum(each.found.mean >= -2 * CLOSE for each in ours)
    said = f"LayUP with λ = 1 loses two points at most in {kept} of {len(ours)}."
    return Judgement(HOLDS if kept == len(ours) else MIXED if kept else FAILS, [said], found)


def similarity(study: Study, pairs: Sequence[Pair]) -> Judgement:
    """The best k rises with both similarities, beyond chance; how it goes with MMD² is shown beside it."""
    del pairs
    known = characteristics(study)
    found = correlations(known)
    if not found:
        return Judgement(NOT_RUN)
    datasets = len({each.place.column for each in known})
    said = [
        f"{datasets} datasets; the best k is by test accuracy.",
        *(
            f"{network}, {MEASURES[name]}: rank correlation {each.value:+.2f}, chance {each.chance:.2f}."
            for (network, name), each in found.items()
        ),
    ]
    alike = [each for (_, name), each in found.items() if name != "mmd"]
    if datasets < FEW or all(not each.chance < 0.05 for each in alike):
        return Judgement(OPEN, said)
    return Judgement(HOLDS if all(each.value > 0 for each in alike) else MIXED, said)


def _both(first: Judgement, second: bool) -> str:
    """The verdict on two statements, of which the first has one already."""
    return first.verdict if second or first.verdict != HOLDS else MIXED


def _layup(k: int, setting: str = "cil", adapter: str | None = None) -> Spec:
    return Spec("layup", setting=setting, adapter=adapter).having(k=k)


CLAIMS = (
    Claim(
        "Several layers beat the last one alone.",
        more,
        tuple(
            Pair(
                f"k = 6 over 1{'' if adapter is None else ', adapted'}",
                _layup(6, setting, adapter),
                _layup(1, setting, adapter),
            )
            for setting in SETTINGS
            for adapter in (None, USUAL)
        ),
    ),
    Claim(
        "Without G, more layers bring no consistent gain; with G they do.",
        only_with_gram,
        tuple(
            pair
            for setting in SETTINGS
            for pair in (
                Pair(
                    "LayNMC over NMC",
                    Spec("laynmc", setting=setting).having(k=6),
                    Spec("nmc", setting=setting),
                ),
                Pair("k = 6 over 1", _layup(6, setting), _layup(1, setting)),
            )
        ),
    ),
    Claim(
        "A shared Gram matrix beats averaged classifiers, which are about as good as the last layer alone.",
        shared_gram,
        (
            *(
                Pair(f"shared over averaged, k = {k}", _layup(k), Spec("layup-average").having(k=k))
                for k in (4, 6, 12)
            ),
            *(
                Pair(f"averaged k = {k} over k = 1", Spec("layup-average").having(k=k), _layup(1))
                for k in (4, 6)
            ),
        ),
    ),
    Claim(
        "A first session adds; AdaptFormer's most often the most.",
        adaptation,
        tuple(
            Pair(
                "adapted over not",
                _layup(6, setting, USUAL),
                _layup(6, setting),
            )
            for setting in SETTINGS
        ),
        tuple(_layup(6, setting, adapter) for setting in SETTINGS for adapter in ADAPTERS),
    ),
    Claim(
        "As a plug-in it adds to ADAM and RanPAC.",
        more,
        tuple(
            Pair(
                f"{method} + LayUP, k = {k}, over {method}",
                Spec(f"{method}+layup", PLAIN, USUAL).having(k=k),
                Spec(method, PLAIN, USUAL),
            )
            for method in ("adam", "ranpac")
            for k in (4, 6, 12)
        ),
    ),
    Claim(
        "It is strong where data are few.",
        low_data,
        tuple(
            Pair(
                f"LayUP over {name}, {'all' if images is None else images} images a class",
                replace(_layup(6), per_class=images),
                replace(over, per_class=images),
            )
            for name, over in {"k = 1": _layup(1), "RanPAC": Spec("ranpac")}.items()
            for images in (*LOW, None)
        ),
    ),
    Claim(
        "From k = 6 to 12 there is little more to gain.",
        saturation,
        (
            Pair("k = 6 over 1", _layup(6, adapter=USUAL), _layup(1, adapter=USUAL)),
            Pair("k = 12 over 6", _layup(12, adapter=USUAL), _layup(6, adapter=USUAL)),
        ),
    ),
    Claim(
        "Seeds make little difference.",
        spread,
        further=tuple(seeded(_layup(6, adapter=USUAL), SEEDS)),
    ),
    Claim(
        "It is robust without a search of λ.",
        without_search,
        tuple(
            Pair(
                f"{name}, stream with {rule}, over search",
                replace(spec, setting="ocl").having(lam=lam),
                spec,
            )
            for name, spec in {"LayUP": _layup(6), "RanPAC": Spec("ranpac")}.items()
            for rule, lam in {"λ = 0": 0.0, "λ = 1": 1.0, "gcv": "gcv"}.items()
        ),
    ),
    Claim("Similarity, not the distance to the training data, goes with the best k.", similarity),
)


def wanted(laboratory: Laboratory) -> Wanted:
    """Every run that a claim looks at."""
    return [each for claim in CLAIMS for each in claim.wanted(laboratory)]


def judged(study: Study) -> Shown:
    """All claims with their verdicts, and below the differences that decide."""
    judgements = {claim: claim.judge(study, claim.pairs) for claim in CLAIMS}
    summary = Sheet(
        ["claim", "here", "why"],
        [
            Line(str(number), [claim.text, found.verdict, " ".join(found.said)])
            for number, (claim, found) in enumerate(judgements.items(), start=1)
        ],
        notes=[
            "A comparison is of two runs of one seed on the same test images: points of A_T with the 95 % "
            "interval of a paired bootstrap. 'Holds': half of the comparisons or more are gains beyond "
            "their interval, and none is a loss; where a claim says more than that, the reason does too."
        ],
    )
    details = [
        Sheet(
            ["difference of A_T", "95 % interval", "beyond it"],
            [each.line for each in found.gains],
            f"{number}. {claim.text}",
        )
        for number, (claim, found) in enumerate(judgements.items(), start=1)
        if found.gains
    ]
    return Shown([summary, *details])
