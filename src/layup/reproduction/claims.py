"""The paper's claims, and whether they hold: by paired differences and their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import cleandoc

import numpy as np

from layup.benchmark.comparison import Difference
from layup.formats import percent, points
from layup.reproduction.characteristics import MEASURES, characteristics, correlations
from layup.reproduction.figures import Characteristics
from layup.reproduction.results import Pairing, Results, interval, seeded
from layup.reproduction.runner import Runner, Wanted
from layup.reproduction.shown import Shown
from layup.reproduction.spec import ADAPTERS, NETWORKS, PLAIN, RULES, SEEDS, USUAL, Spec
from layup.tables import Row, Table

HOLDS, MIXED, FAILS, OPEN, NOT_RUN = "holds", "mixed", "does not hold", "cannot be told", "not run"

SETTINGS = ("cil", "dil")
CLOSE = 0.01
"""A point: what counts as about equal."""
LOW = (5, 20)
"""Images a class where data are said to be few."""
FEW = 5
"""Datasets below which no correlation is told from chance."""
CHANCE = 0.05


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
    judge: Callable[[Results, Sequence[Pair]], Judgement]
    pairs: tuple[Pair, ...] = ()
    further: tuple[Spec, ...] = ()

    @property
    def rule(self) -> str:
        """By what it is judged, as the function that does so says."""
        return cleandoc(self.judge.__doc__ or "").partition("\n\n")[0].replace("\n", " ")

    def wanted(self, runner: Runner) -> Wanted:
        """Every run that it looks at."""
        specs = [spec for pair in self.pairs for spec in (pair.spec, pair.over)] + list(self.further)
        return [
            (column, spec.on(network))
            for spec in specs
            for column in runner.config.of(spec.setting)
            for network in NETWORKS
        ]


@dataclass(frozen=True)
class Gain:
    """A difference with its place, to be told."""

    pairing: Pairing
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
    def row(self) -> Row:
        """A row of a table."""
        low, high = self.found.low, self.found.high
        ends = "" if low is None or high is None else f"[{points(low)}, {points(high)}]"
        sure = "gain" if self.above else "loss" if self.below else ""
        return Row(f"{self.pairing.label}: {self.pair.what}", [points(self.found.mean), ends, sure])


def gains(results: Results, pairs: Iterable[Pair]) -> list[Gain]:
    """The differences of all pairs that were run, wherever that was."""
    return [
        Gain(pairing, pair, found)
        for pair in pairs
        for pairing in results.pairings(results.config.of(pair.spec.setting))
        if pair.spec.network in (None, pairing.network)
        and (
            found := results.gain(
                pairing.column, pair.spec.on(pairing.network), pair.over.on(pairing.network)
            )
        )
    ]


def _planned(results: Results, pairs: Iterable[Pair]) -> int:
    """How many comparisons there would be had everything been run."""
    return sum(
        pair.spec.network in (None, pairing.network)
        for pair in pairs
        for pairing in results.pairings(results.config.of(pair.spec.setting))
    )


def _mean(found: Sequence[Gain]) -> float:
    return float(np.mean([each.found.mean for each in found]))


def _tally(found: Sequence[Gain], planned: int) -> str:
    above, below = sum(each.above for each in found), sum(each.below for each in found)
    lacking = f" ({planned} planned)" if planned > len(found) else ""
    return (
        f"Of {len(found)}{lacking}, gains beyond their intervals: {above}, losses: {below}; the mean "
        f"difference is {points(_mean(found))} points."
    )


def more(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Half of the differences or more are gains beyond their intervals, and none is a loss.

    Cannot be told where none is either, or where less than half of all comparisons were run.
    """
    found, planned = gains(results, pairs), _planned(results, pairs)
    if not found:
        return Judgement(NOT_RUN)
    above, below = sum(each.above for each in found), sum(each.below for each in found)
    if 2 * len(found) < planned or not above + below:
        verdict = OPEN
    elif not above:
        verdict = FAILS
    else:
        verdict = HOLDS if 2 * above >= len(found) and not below else MIXED
    return Judgement(verdict, [_tally(found, planned)], found)


def only_with_gram(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Without G, less than half are gains beyond their intervals; with G, half or more, and no losses."""
    without = [pair for pair in pairs if pair.spec.method == "laynmc"]
    bare = gains(results, without)
    full = more(results, [pair for pair in pairs if pair.spec.method != "laynmc"])
    if not bare or full.verdict == NOT_RUN:
        return Judgement(NOT_RUN)
    inconsistent = 2 * sum(each.above for each in bare) < len(bare)
    said = [f"Without G: {_tally(bare, _planned(results, without))}", f"With G: {full.said[0]}"]
    return Judgement(full.verdict if inconsistent else FAILS, said, [*bare, *full.gains])


def shared_gram(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Shared over averaged, half or more are gains beyond their intervals, and none is a loss; and averaged
    is within a point of the last layer, or not told from it, in half of the cases or more.
    """
    shared = more(results, [pair for pair in pairs if pair.spec.method == "layup"])
    averaged = gains(results, [pair for pair in pairs if pair.spec.method != "layup"])
    if shared.verdict == NOT_RUN or not averaged:
        return Judgement(NOT_RUN)
    alike = sum(abs(each.found.mean) <= CLOSE or not (each.above or each.below) for each in averaged)
    said = [
        f"Shared over averaged: {shared.said[0]}",
        f"Averaged over the last layer: {alike} of {len(averaged)} are within a point or not told apart.",
    ]
    return Judgement(_both(shared, 2 * alike >= len(averaged)), said, [*shared.gains, *averaged])


def adaptation(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Half of the differences or more are gains beyond their intervals, and none is a loss; and AdaptFormer
    is the best of three on half of the networks and datasets that all three fit.
    """
    added = more(results, pairs)
    if added.verdict == NOT_RUN:
        return added
    winners: dict[str, str] = {}
    for setting in SETTINGS:
        for pairing in results.pairings(results.config.of(setting)):
            specs = [Spec("layup", pairing.network, each, setting).having(k=6) for each in ADAPTERS]
            scores = {
                spec.adapter: interval(each).value
                for spec, each in results.records(pairing.column, specs).items()
            }
            if len(scores) == len(ADAPTERS):
                best = [str(name) for name, score in scores.items() if score == max(scores.values())]
                winners[pairing.label] = " = ".join(best)
    if not winners:
        said = "No network was run with all three adapters."
        return Judgement(OPEN if added.verdict == HOLDS else added.verdict, [*added.said, said], added.gains)
    most = sum(best == ADAPTERS[0] for best in winners.values())
    names = "; ".join(f"{label}: {best}" for label, best in winners.items())
    said = f"AdaptFormer alone is the best of three, by test accuracy, in {most} of {len(winners)} ({names})."
    return Judgement(_both(added, 2 * most >= len(winners)), [*added.said, said], added.gains)


def low_data(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """With few images half of the differences or more are gains beyond their intervals, none is a loss, and
    half or more are as large as with all images.
    """
    found = gains(results, pairs)
    few = [each for each in found if each.pair.spec.per_class is not None and _cut(results, each)]
    full = {(each.pairing, each.pair.over.method): each for each in found if each.pair.spec.per_class is None}
    if not few:
        return Judgement(NOT_RUN)
    grown = sum(
        each.found.mean >= other.found.mean
        for each in few
        if (other := full.get((each.pairing, each.pair.over.method)))
    )
    above, below = sum(each.above for each in few), sum(each.below for each in few)
    strong = 2 * above >= len(few) and not below and 2 * grown >= len(few)
    said = (
        f"With {LOW[0]} and {LOW[1]} images a class, of {len(few)}, gains beyond their intervals: {above}, "
        f"losses: {below}; as large as with all images or larger: {grown}."
    )
    verdict = HOLDS if strong else MIXED if above else FAILS if below else OPEN
    return Judgement(verdict, [said], found)


def saturation(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """K = 6 gains over 1, and 12 over 6 less than half of that, on average over the same places."""
    early, late = (gains(results, [pair]) for pair in pairs)
    pairings = {each.pairing for each in early} & {each.pairing for each in late}
    early, late = ([each for each in found if each.pairing in pairings] for found in (early, late))
    if not pairings:
        return Judgement(NOT_RUN)
    first, second = _mean(early), _mean(late)
    said = f"On average {points(first)} from k = 1 to 6, and {points(second)} from 6 to 12 (paper: 2.7, 0.4)."
    if not any(each.above for each in early):
        return Judgement(OPEN, [said, "There is no gain to begin with."], [*early, *late])
    return Judgement(HOLDS if second < first / 2 else FAILS, [said], [*early, *late])


def spread(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Over all five seeds, A_T has a standard deviation of a point at most."""
    del pairs
    said, small = [], []
    for pairing in results.pairings(results.config.of("cil")):
        specs = seeded(Spec("layup", pairing.network, USUAL).having(k=6), SEEDS)
        found = [interval(record) for record in results.records(pairing.column, specs).values()]
        if len(found) < len(SEEDS):
            said.append(f"{pairing.label}: {len(found)} of {len(SEEDS)} seeds were run, which is not judged.")
            continue
        scatter = float(np.std([each.value for each in found], ddof=1))
        error = float(np.mean([each.standard_error for each in found]))
        small.append(scatter <= CLOSE)
        said.append(
            f"{pairing.label}: standard deviation {percent(scatter, 2)} points over {len(found)} seeds (and "
            f"{percent(error, 2)} over test images)."
        )
    if not small:
        return Judgement(NOT_RUN)
    return Judgement(HOLDS if all(small) else MIXED if any(small) else FAILS, said)


def without_search(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """On a stream with λ = 1, LayUP loses two points at most against a search; RanPAC is shown beside it."""
    found = gains(results, pairs)
    ours = [each for each in found if each.pair.spec == _streamed(_layup(6), 1.0)]
    if not ours:
        return Judgement(NOT_RUN)
    kept = sum(each.found.mean >= -2 * CLOSE for each in ours)
    said = f"LayUP with λ = 1 loses two points at most in {kept} of {len(ours)}."
    return Judgement(HOLDS if kept == len(ours) else MIXED if kept else FAILS, [said], found)


def similarity(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """The best k rises with both similarities, beyond chance, and does not go with MMD²."""
    del pairs
    known = characteristics(results)
    found = correlations(known)
    if not known:
        return Judgement(NOT_RUN)
    datasets = len({each.pairing.column for each in known})
    few = f", and at least {FEW} are needed" if datasets < FEW else ""
    said = [
        f"{datasets} datasets{few}; the best k is by test accuracy.",
        *(
            f"{network}, {MEASURES[name]}: rank correlation {each.value:+.2f}, chance {each.chance:.2f}."
            for (network, name), each in found.items()
        ),
    ]
    alike = [each for (_, name), each in found.items() if name != "mmd"]
    distances = [each for (_, name), each in found.items() if name == "mmd"]
    if datasets < FEW or not distances or not any(each.chance < CHANCE for each in found.values()):
        return Judgement(OPEN, said)
    rises = all(each.value > 0 and each.chance < CHANCE for each in alike)
    apart = not any(each.chance < CHANCE for each in distances)
    falls = all(each.value < 0 for each in alike)
    return Judgement(HOLDS if rises and apart else FAILS if falls or not (rises or apart) else MIXED, said)


def _cut(results: Results, gain: Gain) -> bool:
    """Whether there are more images than so many a class, so that it is another run than with all."""
    spec = gain.pair.spec.on(gain.pairing.network)
    ours, whole = (
        results.record(gain.pairing.column, each) for each in (spec, replace(spec, per_class=None))
    )
    if ours is None or whole is None:
        return True
    return sum(task.train for task in ours.tasks) < sum(task.train for task in whole.tasks)


def _both(first: Judgement, second: bool) -> str:
    """The verdict on two statements, of which the first has one already."""
    return first.verdict if second or first.verdict != HOLDS else MIXED


def _streamed(spec: Spec, lam: float | str) -> Spec:
    return replace(spec, setting="ocl").having(lam=lam)


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
                f"{name} on a stream, {rule}, over search",
                _streamed(spec, lam),
                spec,
            )
            for name, spec in {"LayUP": _layup(6), "RanPAC": Spec("ranpac")}.items()
            for rule, lam in RULES.items()
        ),
    ),
    Claim("Similarity, not the distance to the training data, goes with the best k.", similarity),
)


@dataclass(frozen=True)
class Claims:
    """All claims, judged."""

    def wanted(self, runner: Runner) -> Wanted:
        """Every run that a claim looks at; the last one looks at those of Figure 4."""
        return [
            *(each for claim in CLAIMS for each in claim.wanted(runner)),
            *Characteristics().wanted(runner),
        ]

    def show(self, results: Results) -> Shown:
        """All claims with their verdicts, and below the differences that decide."""
        judgements = {claim: claim.judge(results, claim.pairs) for claim in CLAIMS}
        summary = Table(
            ["claim", "here", "why", "it holds if"],
            [
                Row(str(number), [claim.text, found.verdict, " ".join(found.said), claim.rule])
                for number, (claim, found) in enumerate(judgements.items(), start=1)
            ],
            notes=[
                "A comparison is of two runs of one seed on the same test images: points of A_T with the "
                "95 % interval of a paired bootstrap. Those of one dataset are not independent of each other."
            ],
        )
        details = [
            Table(
                ["difference of A_T", "95 % interval", "beyond it"],
                [each.row for each in found.gains],
                f"{number}. {claim.text}",
            )
            for number, (claim, found) in enumerate(judgements.items(), start=1)
            if found.gains
        ]
        return Shown([summary, *details])
