"""The paper's claims, and whether they hold: by paired differences and their intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import cleandoc

from layup.reproduction.complexity import RUNS
from layup.reproduction.contenders import CONTENDERS
from layup.reproduction.figures import Characteristics
from layup.reproduction.judgement import NOT_RUN, OPEN, Judgement, Pair
from layup.reproduction.results import Results, seeded
from layup.reproduction.rules import (
    LOW,
    SETTINGS,
    adaptation,
    headline,
    low_data,
    more,
    only_with_gram,
    saturation,
    savings,
    shared_gram,
    similarity,
    spread,
    without_search,
)
from layup.reproduction.runner import Runner, Wanted
from layup.reproduction.shown import Shown
from layup.reproduction.spec import ADAPTERS, NETWORKS, PLAIN, RULES, SEEDS, USUAL, Spec
from layup.tables import Row, Table


@dataclass(frozen=True)
class Claim:
    """What the paper says, the pairs of runs that it is about, and how to judge their differences.

    further: other runs that the judgement uses.
    """

    text: str
    judge: Callable[[Results, Sequence[Pair]], Judgement]
    pairs: tuple[Pair, ...] = ()
    further: tuple[Spec, ...] = ()

    @property
    def rule(self) -> str:
        """The rule by which it is judged: the docstring of the function that does so."""
        return cleandoc(self.judge.__doc__ or "").partition("\n\n")[0].replace("\n", " ")

    @property
    def specs(self) -> list[Spec]:
        """Every run that it uses, with the network of each pairing where it has none."""
        return [spec for pair in self.pairs for spec in (pair.spec, pair.over)] + list(self.further)

    def wanted(self, runner: Runner) -> Wanted:
        """Every run that it uses, on every dataset."""
        return [
            (column, spec.on(network))
            for spec in self.specs
            for column in runner.config.of(spec.setting)
            for network in NETWORKS
        ]

    def judged(self, results: Results) -> Judgement:
        """The verdict; never that it holds or fails if runs are equal, or a method is cut below its size."""
        found = self.judge(results, self.pairs)
        if found.verdict == NOT_RUN:
            return found
        if found.gains and all(each.nothing for each in found.gains):
            return replace(found, verdict=OPEN, said=[*found.said, "All differences are exactly zero."])
        if width := next(filter(None, map(results.runner.narrow, self.specs)), None):
            said = f"RanPAC has {width:,} random projections here, too few to be compared with."
            return replace(found, verdict=OPEN, said=[*found.said, said])
        return found


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
                f"LayUP over {name}, {'all' if images is None else images} images per class",
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
            if name == "LayUP" or not isinstance(lam, str)  # at RanPAC's size, gcv takes 9 · 10¹² operations
        ),
    ),
    Claim("Similarity, not the distance to the training data, goes with the best k.", similarity),
    Claim(
        "It surpasses all others on four of seven datasets with new classes, on all three with new domains, "
        "and on six of seven streams.",
        headline,
        further=tuple(
            spec for methods in CONTENDERS.values() for specs in methods.values() for spec in specs
        ),
    ),
    Claim(
        "It saves 81, 82 and 75 % of the memory of RanPAC, SLCA and ADAM, and 90 % of RanPAC's operations.",
        savings,
        further=tuple(RUNS.values()),
    ),
)


@dataclass(frozen=True)
class Claims:
    """All claims, judged."""

    def wanted(self, runner: Runner) -> Wanted:
        """Every run that a claim uses; that on similarities uses those of Figure 4."""
        return [
            *(each for claim in CLAIMS for each in claim.wanted(runner)),
            *Characteristics().wanted(runner),
        ]

    def show(self, results: Results) -> Shown:
        """All claims with their verdicts, and below the differences that decide."""
        judgements = {claim: claim.judged(results) for claim in CLAIMS}
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
