"""What an item of the paper runs, in the paper's terms; a config says which dataset and network that is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

FIRST_SEED = 1993
SEEDS = range(FIRST_SEED, FIRST_SEED + 5)
RULES: dict[str, float | str] = {"λ = 0": 0.0, "λ = 1": 1.0, "λ by gcv": "gcv"}
"""How λ is chosen in online learning, where it cannot be searched."""
NETWORKS = ("IN21K", "IN1K")
"""The paper's two networks, by what they were trained on."""
PLAIN = "IN1K"
"""The one network of its tables of depths, plug-ins and task counts."""
ADAPTERS = ("adaptformer", "ssf", "vpt")
USUAL = "auto"
"""AdaptFormer, or what suits a network that it does not fit."""

SWEPT = {"layup": "k", "ridge": "layer"}
"""Methods that predict with several values of an option in one run, and that option."""


@dataclass(frozen=True)
class Spec:
    """A run without its dataset.

    network: one of `NETWORKS`; None for the one of the column that it stands in.
    adapter: that of the first session, if there is one.
    tasks: how many; None for the dataset's default.
    per_class: learn only this many images per class.
    options: of the method, as pairs.

    >>> Spec("layup", "IN1K", USUAL).having(k=6).options
    (('k', 6),)
    """

    method: str
    network: str | None = None
    adapter: str | None = None
    setting: str = "cil"
    tasks: int | None = None
    seed: int = FIRST_SEED
    per_class: int | None = None
    options: tuple[tuple[str, Any], ...] = ()

    def having(self, **options: Any) -> Spec:
        """The same with these options of its method."""
        return replace(self, options=tuple(sorted({**dict(self.options), **options}.items())))

    def on(self, network: str) -> Spec:
        """The same with this network, if it has none of its own."""
        return self if self.network is not None else replace(self, network=network)

    @property
    def depth(self) -> int | None:
        """The value of the option that one run can have several of, if there is one."""
        return dict(self.options).get(SWEPT.get(self.method, ""))

    @property
    def whole(self) -> Spec:
        """The run that it is a part of: the spec without its depth."""
        swept = SWEPT.get(self.method)
        return replace(self, options=tuple(pair for pair in self.options if pair[0] != swept))


def each_network(spec: Spec) -> tuple[Spec, ...]:
    """With both networks, and nothing adapted.

    >>> [spec.network for spec in each_network(Spec("nmc"))]
    ['IN21K', 'IN1K']
    """
    return tuple(replace(spec, network=network) for network in NETWORKS)


def each_combination(spec: Spec) -> tuple[Spec, ...]:
    """The paper's six: three adapters, two networks.

    >>> len(each_combination(Spec("nmc")))
    6
    """
    return tuple(replace(both, adapter=adapter) for both in each_network(spec) for adapter in ADAPTERS)


def together(specs: Iterable[Spec]) -> Mapping[Spec, tuple[int, ...]]:
    """The runs that give all of these, each with its depths.

    >>> found = together(Spec("layup").having(k=k) for k in (6, 1, 6))
    >>> list(found.values())
    [(1, 6)]
    """
    found: dict[Spec, set[int]] = {}
    for spec in specs:
        found.setdefault(spec.whole, set()).update([] if spec.depth is None else [spec.depth])
    return {whole: tuple(sorted(depths)) for whole, depths in found.items()}
