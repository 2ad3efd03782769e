"""How each claim of the paper is judged: the first paragraph of a docstring says when it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from layup.benchmark.metrics import Interval
from layup.formats import percent, points, whole_percent
from layup.reproduction import costs
from layup.reproduction.characteristics import MEASURES, characteristics, correlations
from layup.reproduction.complexity import FORMULAS, RUNS, SAID
from layup.reproduction.config import Column
from layup.reproduction.contenders import CONTENDERS, OURS, others
from layup.reproduction.costs import Setup
from layup.reproduction.judgement import (
    FAILS,
    HOLDS,
    MIXED,
    NOT_RUN,
    OPEN,
    Gain,
    Judgement,
    Pair,
    all_of,
    gains,
    mostly,
    planned,
    reached,
    tally,
)
from layup.reproduction.results import Pairing, Results, interval, seeded
from layup.reproduction.spec import ADAPTERS, SEEDS, USUAL, Spec

SETTINGS = ("cil", "dil")
CLOSE = 0.01
"""A point: what counts as about equal."""
EQUIVALENCE = 0.9
"""The level of intervals that show two to be about equal: two one-sided tests of 5 % each."""
LOW = (5, 20)
"""Images per class that count as few."""
FEW = 5
"""With fewer datasets, no correlation can be told from chance."""
CHANCE = 0.05
HALF = Fraction(1, 2)
HEADLINE = {
    "cil": ("new classes", Fraction(4, 7)),
    "dil": ("new domains", Fraction(1)),
    "ocl": ("streams", Fraction(6, 7)),
}
"""By setting, on which share of the datasets LayUP is the best, according to the abstract."""


def more(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Half of the differences or more are gains beyond their intervals, and none is a loss.

    Cannot be told if no difference is beyond its interval, or if less than half of all comparisons were run.
    """
    found, expected = gains(results, pairs), planned(results, pairs)
    if not found:
        return Judgement(NOT_RUN)
    return Judgement(mostly(found, expected), [tally(found, expected)], found)


def only_with_gram(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Without G, less than half are gains beyond their intervals; with G, half or more, and no losses.

    Cannot be told if no difference without G is beyond its interval.
    """
    without = [pair for pair in pairs if pair.spec.method == "laynmc"]
    bare = gains(results, without)
    full = more(results, [pair for pair in pairs if pair.spec.method != "laynmc"])
    if not bare or full.verdict == NOT_RUN:
        return Judgement(NOT_RUN)
    above, below = sum(each.above for each in bare), sum(each.below for each in bare)
    said = [f"Without G: {tally(bare, planned(results, without))}", f"With G: {full.said[0]}"]
    if 2 * above >= len(bare):
        return Judgement(FAILS, said, [*bare, *full.gains])
    verdict = all_of(full.verdict, HOLDS if above + below else OPEN)
    return Judgement(verdict, said, [*bare, *full.gains])


def shared_gram(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Shared over averaged, half or more are gains beyond their intervals, and none is a loss; and in half or
    more of the cases the whole 90 % interval of averaged over the last layer is within ± 1 point.

    An interval that is wider than that shows nothing, and one that is wholly outside shows a difference.
    """
    shared = more(results, [pair for pair in pairs if pair.spec.method == "layup"])
    averaged = gains(results, [pair for pair in pairs if pair.spec.method != "layup"])
    if shared.verdict == NOT_RUN or not averaged:
        return Judgement(NOT_RUN)
    tight = [found for each in averaged if (found := _difference(results, each, EQUIVALENCE))]
    alike = sum(found.low >= -CLOSE and found.high <= CLOSE for found in tight)
    apart = sum(found.low > CLOSE or found.high < -CLOSE for found in tight)
    said = [
        f"Shared over averaged: {shared.said[0]}",
        f"Averaged over the last layer: the 90 % interval is within ± 1 point in {alike} of {len(tight)}, "
        f"and wholly outside in {apart}.",
    ]
    equal = reached(alike, apart, len(tight), HALF)
    return Judgement(all_of(shared.verdict, equal), said, [*shared.gains, *averaged])


def adaptation(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Half of the differences or more are gains beyond their intervals, and none is a loss; and on half of
    the networks and datasets that all three adapters fit, or more, AdaptFormer is ahead of both others,
    beyond the intervals.
    """
    added = more(results, pairs)
    if added.verdict == NOT_RUN:
        return added
    compared = [
        found
        for setting in SETTINGS
        for pairing in results.pairings(results.config.of(setting))
        if (found := _over_other_adapters(results, pairing, setting))
    ]
    won = sum(all(each.above for each in found) for found in compared)
    lost = sum(any(each.below for each in found) for found in compared)
    said = (
        f"AdaptFormer is ahead of both others in {won} of {len(compared)}, and behind one in {lost}."
        if compared
        else "No network was run with all three adapters."
    )
    verdict = all_of(added.verdict, reached(won, lost, len(compared), HALF))
    return Judgement(
        verdict, [*added.said, said], [*added.gains, *(each for found in compared for each in found)]
    )


def _over_other_adapters(results: Results, pairing: Pairing, setting: str) -> list[Gain]:
    """AdaptFormer over each of the others; empty if one of them is missing."""
    first, *rest = (Spec("layup", pairing.network, each, setting).having(k=6) for each in ADAPTERS)
    pairs = [Pair(f"{first.adapter} over {other.adapter}", first, other) for other in rest]
    found = [
        Gain(pairing, pair, each)
        for pair in pairs
        if (each := results.gain(pairing.column, pair.spec, pair.over))
    ]
    return found if len(found) == len(pairs) else []


def low_data(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """With few images half of the differences or more are gains beyond their intervals, and none is a loss;
    and in half of these gains or more, the whole interval of what they have over those with all images is
    above −1 point.

    An interval that reaches below that shows nothing, and one that is wholly below zero shows that the gain
    shrinks.
    """
    found = gains(results, pairs)
    few = [each for each in found if each.pair.spec.per_class is not None and _cut(results, each)]
    if not few:
        return Judgement(NOT_RUN)
    grown = [change for each in few if each.above and (change := _over_all_images(results, each))]
    kept = sum((each.found.low or 0.0) > -CLOSE for each in grown)
    lost = sum(each.below for each in grown)
    said = [
        f"With {LOW[0]} and {LOW[1]} images per class: {tally(few, len(few))}",
        f"Against the gain with all images: not smaller by a point in {kept} of {len(grown)}, and smaller, "
        f"beyond the interval, in {lost}.",
    ]
    verdict = mostly(few, len(few))
    if grown:
        verdict = all_of(verdict, reached(kept, lost, len(grown), HALF))
    return Judgement(verdict, said, [*found, *grown])


def _over_all_images(results: Results, gain: Gain) -> Gain | None:
    """A gain with few images over the same one with all."""
    ours, theirs = gain.pair.spec, gain.pair.over
    weights = {ours: 1.0, theirs: -1.0}
    weights |= {replace(ours, per_class=None): -1.0, replace(theirs, per_class=None): 1.0}
    what = replace(gain.pair, what=f"{gain.pair.what}, over that with all")
    return _contrast(results, gain.pairing, what, weights)


def saturation(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Where k = 6 gains over 1, beyond the interval, in half of the cases or more the gain of 12 over 6 is
    less than half of that, beyond the interval of their difference, and in none it is more.

    Cannot be told if there is no gain to begin with.
    """
    early, late = ({each.pairing: each for each in gains(results, [pair])} for pair in pairs)
    both = [pairing for pairing in early if pairing in late]
    if not both:
        return Judgement(NOT_RUN)
    first, second = (float(np.mean([found[pairing].value for pairing in both])) for found in (early, late))
    said = f"On average {points(first)} from k = 1 to 6, and {points(second)} from 6 to 12 (paper: 2.7, 0.4)."
    shown = [*early.values(), *late.values()]
    gained = [pairing for pairing in both if early[pairing].above]
    if not gained:
        return Judgement(OPEN, [said, "There is no gain to begin with."], shown)
    small, large = pairs
    # (A₆ − A₁) / 2 − (A₁₂ − A₆)
    weights = {small.spec: 1.5, small.over: -0.5, large.spec: -1.0}
    what = replace(small, what="half of 6 over 1, over 12 over 6")
    halves = [each for pairing in gained if (each := _contrast(results, pairing, what, weights))]
    told = f"Half of the first gain over the second, where there is a first: {tally(halves, len(gained))}"
    return Judgement(mostly(halves, len(gained)), [said, told], [*shown, *halves])


def spread(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """Over all five seeds, A_T has a standard deviation of a point at most.

    Equal scores of all seeds show nothing: then the seeds have changed nothing.
    """
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
        same = len({each.value for each in found}) == 1
        small.append(OPEN if same else HOLDS if scatter <= CLOSE else FAILS)
        said.append(
            f"{pairing.label}: standard deviation {percent(scatter, 2)} points over {len(found)} seeds (and "
            f"{percent(error, 2)} over test images)."
        )
    return Judgement(all_of(*small), said if small else [])


def without_search(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """On streams with λ = 1 the whole interval of LayUP's loss against a search is above −2 points; and in
    half of the cases or more RanPAC loses more than LayUP, beyond the interval of their difference, and never
    less.
    """
    found = gains(results, pairs)
    with_one = [pair for pair in pairs if dict(pair.spec.options).get("lam") == 1.0]
    ours = [each for each in found if each.pair in with_one and each.pair.spec.method == "layup"]
    if not ours:
        return Judgement(NOT_RUN)
    kept = sum((each.found.low or 0.0) > -2 * CLOSE for each in ours)
    lost = sum((each.found.high or 0.0) < -2 * CLOSE for each in ours)
    margin = reached(kept, lost, len(ours), Fraction(1))
    own = MIXED if margin == FAILS and kept else margin
    said = f"LayUP with λ = 1 loses less than two points in {kept} of {len(ours)}, and more in {lost}."
    layup, ranpac = (
        next(pair for pair in with_one if pair.spec.method == name) for name in ("layup", "ranpac")
    )
    weights = {layup.spec: 1.0, layup.over: -1.0, ranpac.spec: -1.0, ranpac.over: 1.0}
    what = replace(layup, what="LayUP's loss with λ = 1 over RanPAC's")
    less = [each for gain in ours if (each := _contrast(results, gain.pairing, what, weights))]
    told = f"{what.what}: {tally(less, len(ours))}" if less else "RanPAC was not run."
    return Judgement(all_of(own, mostly(less, len(ours))), [said, told], [*found, *less])


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


def headline(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """In every setting, on as large a share of the datasets as in the abstract (new classes: 4 of 7, new
    domains: all, streams: 6 of 7), LayUP is ahead of every other method, beyond the intervals.

    Each method has its best network and adapter by test accuracy, as in the paper, and of streams its best λ
    of 0 and 1. A dataset on which a method was not run cannot be won, but it can be lost.
    """
    del pairs
    verdicts, said, shown = [], [], []
    for setting, (words, share) in HEADLINE.items():
        compared = {
            column: found
            for column in results.config.of(setting)
            if (found := _over_others(results, column, setting))
        }
        whole = len(others(setting))
        won = sum(len(found) == whole and all(each.above for each in found) for found in compared.values())
        lost = sum(any(each.below for each in found) for found in compared.values())
        verdicts.append(reached(won, lost, len(compared), share))
        lacking = sum(len(found) < whole for found in compared.values())
        some = f"; on {lacking} not all methods were run" if lacking else ""
        said.append(
            f"{words.capitalize()}: ahead of all others on {won} of {len(compared)}, behind one on {lost} "
            f"(paper: ahead on {whole_percent(float(share))}){some}."
        )
        shown += [each for found in compared.values() for each in found]
    verdict = all_of(*verdicts)
    return Judgement(verdict, [] if verdict == NOT_RUN else said, shown)


def _over_others(results: Results, column: Column, setting: str) -> list[Gain]:
    """LayUP over each other method that was run, each with its best network and adapter."""
    ours = _best(results, column, CONTENDERS[setting][OURS])
    if ours is None:
        return []
    pairing = Pairing(column, ours.network or "", results.combination(ours))
    found = []
    for name in others(setting):
        theirs = _best(results, column, CONTENDERS[setting][name])
        if theirs is not None and (gain := results.gain(column, ours, theirs)):
            what = f"{setting}, over {name} ({results.combination(theirs)})"
            found.append(Gain(pairing, Pair(what, ours, theirs), gain))
    return found


def _best(results: Results, column: Column, specs: Iterable[Spec]) -> Spec | None:
    """The run with the highest A_T, by test accuracy."""
    known = {spec: interval(record).value for spec, record in results.records(column, specs).items()}
    return max(known, key=lambda spec: known[spec], default=None)


def savings(results: Results, pairs: Sequence[Pair]) -> Judgement:
    """By formula at the paper's size, with every adapter counted, LayUP saves as large a share as the paper
    says, to a point, of the memory of RanPAC (81 %), SLCA (82 %) and ADAM (75 %) and of RanPAC's operations
    (90 %); and in the runs here it keeps less than each of them.

    Ours shares the frozen weights of ADAM's two networks, which the paper counts twice.
    """
    del pairs
    ours, counted, kept, said = costs.layup(Setup()), [], [], []
    for name, shares in SAID.items():
        cost = FORMULAS[name](Setup())
        saved = [costs.saving(ours.values, cost.values)]
        if ours.operations and cost.operations:
            saved.append(costs.saving(ours.operations, cost.operations))
        claimed = [(each, share) for each, share in zip(saved, shares, strict=False) if share is not None]
        counted += [each >= share - CLOSE for each, share in claimed]
        here = [
            costs.saving(mine, theirs)
            for column in results.config.of("cil")
            if (mine := _state(results, column, OURS)) and (theirs := _state(results, column, name))
        ]
        kept += [each > 0 for each in here]
        numbers = " and ".join(
            f"{percent(each)} % (paper: {whole_percent(share)})" for each, share in claimed
        )
        runs = ", ".join(whole_percent(each) for each in here) or "not run"
        said.append(f"{name}: {numbers} by formula; state of the runs here: {runs}.")
    if not kept:
        return Judgement(NOT_RUN)
    return Judgement(_all(counted + kept), said)


def _state(results: Results, column: Column, name: str) -> int | None:
    """Bytes that a method keeps at the end of its run."""
    record = results.record(column, RUNS[name])
    return None if record is None else record.steps[-1].state_bytes


def _all(facts: Sequence[bool]) -> str:
    return HOLDS if all(facts) else MIXED if any(facts) else FAILS


def _contrast(results: Results, pairing: Pairing, pair: Pair, weights: Mapping[Spec, float]) -> Gain | None:
    """A weighted sum of runs on a dataset and network, shown as a pair; None if one is missing."""
    own = {spec.on(pairing.network): weight for spec, weight in weights.items()}
    found = results.contrast(pairing.column, own)
    return None if found is None else Gain(pairing, pair, found)


def _difference(results: Results, gain: Gain, level: float) -> Interval | None:
    """The same difference with an interval of another level."""
    pair, network = gain.pair, gain.pairing.network
    return results.contrast(
        gain.pairing.column, {pair.spec.on(network): 1.0, pair.over.on(network): -1.0}, level
    )


def _cut(results: Results, gain: Gain) -> bool:
    """Whether the run has fewer images than the one with all: the dataset may not have more per class."""
    spec = gain.pair.spec.on(gain.pairing.network)
    ours, whole = (
        results.record(gain.pairing.column, each) for each in (spec, replace(spec, per_class=None))
    )
    if ours is None or whole is None:
        return True
    return sum(task.train for task in ours.tasks) < sum(task.train for task in whole.tasks)
