"""The paper's tables and figures by name: each a title, what is run, and how it is shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from layup.registry import unknown_name
from layup.reproduction.claims import Claims
from layup.reproduction.complexity import Complexity
from layup.reproduction.contenders import CONTENDERS, others
from layup.reproduction.figures import (
    Characteristics,
    Depths,
    Integrations,
    OverTasks,
    PerLayer,
    Series,
    Universality,
)
from layup.reproduction.results import Results, seeded
from layup.reproduction.runner import Runner, Wanted
from layup.reproduction.shown import Shown
from layup.reproduction.spec import (
    ADAPTERS,
    NETWORKS,
    RULES,
    SEEDS,
    USUAL,
    Spec,
    each_combination,
    each_network,
)
from layup.reproduction.tables import BestOf, Datasets, PaperRow, PerNetwork

ALL = "all"
DEEPEST = 17
"""As many layers as the bundled network has; the paper's have twelve."""
ABLATIONS, BOUNDS = "Ablations", "Upper bounds"


class Kind(Protocol):
    """What an item is: which runs it needs, and what it shows of them."""

    def wanted(self, runner: Runner) -> Wanted:
        """The runs."""

    def show(self, results: Results) -> Shown:
        """Tables and pictures."""


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper."""

    name: str
    title: str
    about: str
    kind: Kind


def _of(setting: str, method: str, **options: object) -> Spec:
    return Spec(method, setting=setting).having(**options)


def _bounds(setting: str) -> tuple[PaperRow, ...]:
    return (
        PaperRow("Joint FT (full)", each_network(_of(setting, "joint")), BOUNDS),
        PaperRow("Joint FT (linear probe)", each_network(_of(setting, "joint-probe")), BOUNDS),
    )


def _methods(setting: str) -> tuple[PaperRow, ...]:
    return tuple(PaperRow(label, specs, "Methods") for label, specs in CONTENDERS[setting].items())


def _ablations(setting: str) -> tuple[PaperRow, ...]:
    return (
        PaperRow("k = 1", each_combination(_of(setting, "layup", k=1)), ABLATIONS),
        PaperRow("w/o FSA", each_network(_of(setting, "layup", k=6)), ABLATIONS),
        PaperRow("k = 1, w/o FSA", each_network(_of(setting, "layup", k=1)), ABLATIONS),
        PaperRow("LayNMC", each_network(_of(setting, "laynmc", k=6)), ABLATIONS),
        PaperRow("NMC", each_network(_of(setting, "nmc")), ABLATIONS),
    )


TABLE1 = BestOf(
    "table1",
    "cil",
    (
        *_bounds("cil"),
        *_methods("cil"),
        *_ablations("cil"),
    ),
    choose=True,
    baselines=others("cil"),
)

TABLE2 = BestOf(
    "table2",
    "dil",
    (
        *_bounds("dil"),
        *_methods("dil"),
        *_ablations("dil"),
    ),
    choose=True,
    baselines=others("dil"),
)


def _streamed(
    label: str, method: str, section: str = "Methods", *, gcv: bool = True, **options: object
) -> list[PaperRow]:
    """A row for λ = 0 and 1, as in the paper; the same in float32, as its authors ran it; and λ by gcv."""
    spec = _of("ocl", method, **options)
    fixed = {rule: spec.having(lam=lam) for rule, lam in RULES.items() if not isinstance(lam, str)}
    rows = [PaperRow(f"{label}, {rule}", each_network(each), section) for rule, each in fixed.items()]
    rows += [
        PaperRow(
            f"{label}, {rule}, float32",
            each_network(each.having(precision="float32")),
            section,
            own=True,
            like=f"{label}, {rule}",
        )
        for rule, each in fixed.items()
    ]
    if gcv:
        rows.append(PaperRow(f"{label}, λ by gcv", each_network(spec.having(lam="gcv")), section, own=True))
    return rows


TABLE3 = BestOf(
    "table3",
    "ocl",
    (
        PaperRow("Sequential FT", each_network(_of("ocl", "sequential")), "Methods"),
        PaperRow("NMC", each_network(_of("ocl", "nmc")), "Methods"),
        *_streamed("RanPAC", "ranpac", gcv=False),
        *_streamed("LayUP", "layup", k=6),
        *_streamed("k = 1", "layup", ABLATIONS, k=1),
    ),
    same=tuple(
        zip(each_network(_of("cil", "nmc")), each_network(_of("ocl", "nmc")), strict=True),
    ),
)

TABLE4 = Depths(
    "table4",
    tuple(
        PaperRow(f"k = {k}", (Spec("layup", adapter=USUAL).having(k=k),), own=k > 12)
        for k in range(1, DEEPEST + 1)
    ),
    both=True,
)


def _plugged(label: str, method: str) -> list[PaperRow]:
    plain = Spec(method, adapter=USUAL)
    layered = [
        PaperRow(f"{label} + LayUP, k = {k}", (replace(plain, method=f"{method}+layup").having(k=k),), label)
        for k in (4, 6, 12)
    ]
    return [PaperRow(label, (plain,), label), *layered]


TABLE5 = PerNetwork("table5", (*_plugged("ADAM", "adam"), *_plugged("RanPAC", "ranpac")))

TABLE7 = PerNetwork(
    "table7",
    tuple(
        PaperRow(
            f"k = {k}, T = {tasks}", (Spec("layup", adapter=USUAL, tasks=tasks).having(k=k),), own=tasks == 2
        )
        for k in (1, 6, 12)
        for tasks in (2, 5, 10, 20)
    ),
)

FIGURE6 = OverTasks(
    "figure6",
    tuple(Series(role, tuple(seeded(Spec("layup", role, USUAL).having(k=6), SEEDS))) for role in NETWORKS),
    "Seeds 1993 to 1997: the mean over orders of classes (of VTAB, of its datasets) and first sessions, "
    "shaded by its standard error.",
)
FIGURE7 = OverTasks(
    "figure7",
    tuple(Series(f"k = {k}", (Spec("layup", adapter=USUAL).having(k=k),)) for k in (1, 6, 12)),
    "LayUP of the last 1, 6 and 12 layers over time.",
)
FIGURE8 = OverTasks(
    "figure8",
    tuple(
        Series(f"{role}, {adapter}", (Spec("layup", role, adapter).having(k=6),))
        for role in NETWORKS
        for adapter in ADAPTERS
    ),
    "LayUP with each adapter and network over time.",
)

ADAPTED = "AdaptFormer in a first session (SSF where AdaptFormer does not fit the network)"
ITEMS = {
    item.name: item
    for item in (
        Item(
            "claims",
            "Which claims hold here",
            "The paper's claims, judged by paired differences between runs of this page.",
            Claims(),
        ),
        Item(
            "table1",
            "Table 1: new classes with every task (CIL)",
            "Every method with both networks and, where it adapts, all three adapters; seed 1993. A_T in "
            "percent.",
            TABLE1,
        ),
        Item(
            "table2",
            "Table 2: new domains with every task (DIL)",
            "As Table 1, one domain per task. A_T in percent, over all domains.",
            TABLE2,
        ),
        Item(
            "table3",
            "Table 3: a stream, seen once (OCL)",
            "Ten images at a time, no adaptation, no search of λ; the best of two networks by test accuracy. "
            "Rows with λ by gcv are ours: λ follows from the sums alone. Rows in float32 compute as the "
            "authors' codes do, all others in float64.",
            TABLE3,
        ),
        Item("table4", "Table 4: how many layers", f"LayUP of every k, {ADAPTED}; seed 1993.", TABLE4),
        Item(
            "table5",
            "Table 5: LayUP as a plug-in",
            f"ADAM and RanPAC by themselves and on the last 4, 6 and 12 layers, {ADAPTED}; seed 1993.",
            TABLE5,
        ),
        Item("table6", "Table 6: the datasets", "As they are found on disk.", Datasets()),
        Item(
            "table7",
            "Table 7: how many tasks",
            f"LayUP of k = 1, 6, 12 in 5, 10 and 20 tasks (in miniature 2, 5 and 10), {ADAPTED}; seed 1993.",
            TABLE7,
        ),
        Item(
            "figure2",
            "Figure 2: what single layers predict",
            "A ridge classifier of every layer by itself, both networks, nothing adapted; seed 1993.",
            PerLayer(("CIFAR", "IN-R")),
        ),
        Item(
            "figure3",
            "Figure 3: one Gram matrix, or the average of several classifiers",
            "The last 1, 4, 6 and 12 layers either way, both networks, nothing adapted; seed 1993.",
            Integrations(("CIFAR", "IN-R")),
        ),
        Item(
            "figure4",
            "Figure 4: which k is best for which data",
            f"LayUP of every k, both networks, {ADAPTED}; seed 1993.",
            Characteristics(),
        ),
        Item(
            "figure5",
            "Figure 5: which classes gain",
            f"LayUP of k = 6 against k = 1, both networks, {ADAPTED}; seed 1993.",
            Universality(),
        ),
        Item("figure6", "Figure 6: five seeds", f"LayUP of k = 6, both networks, {ADAPTED}.", FIGURE6),
        Item(
            "figure7",
            "Figure 7: k = 1, 6, 12 over time",
            f"Both networks, {ADAPTED}; seed 1993.",
            FIGURE7,
        ),
        Item(
            "figure8",
            "Figure 8: adapters and networks over time",
            "LayUP of k = 6 with all six combinations; seed 1993.",
            FIGURE8,
        ),
        Item(
            "complexity",
            "Section 4.3: memory and operations",
            "By formula at the paper's size, and measured with the networks at hand.",
            Complexity(),
        ),
    )
}


def items_of(names: Sequence[str]) -> list[Item]:
    """Items by name, each once, the claims first and then in the paper's order; "all" stands for every one.

    >>> [item.name for item in items_of(["figure2", "table1"])]
    ['table1', 'figure2']
    """
    for name in names:
        if name != ALL and name not in ITEMS:
            raise unknown_name("table or figure", name, [ALL, *ITEMS])
    return [item for name, item in ITEMS.items() if name in names or ALL in names]


def wanted_by(items: Sequence[Item], runner: Runner) -> Wanted:
    """Every run that these items need, once."""
    return list(dict.fromkeys(each for item in items for each in item.kind.wanted(runner)))
