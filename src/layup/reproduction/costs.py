"""What methods keep besides the backbone, and their largest computation, as the paper's Section 4.3 counts.

Values are numbers of any type. Matrices count in full, although a triangle of a symmetric one is enough.
The backbone, the head and the prototypes are left out, and so are constant factors of operations, such as
the 1/3 of a Cholesky factorisation. `python -m benchmarks.costs` measures layup's own objects in bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Setup:
    """What the counts depend on; the defaults are the paper's ViT-B/16, k, C, M and AdaptFormer.

    The paper has a bottleneck of 16 in one place and about a million values in another, which means 64.
    """

    width: int = 768  # d, of every layer
    blocks: int = 12
    patch: int = 16
    image: int = 224
    k: int = 6
    classes: int = 200  # C
    projection: int = 10_000  # M
    bottleneck: int = 64


@dataclass(frozen=True)
class Cost:
    """The values that a method keeps, by part, and its operations (None where it only trains).

    >>> cost = Cost({"Gram matrix": 16, "adapter": 5}, operations=64)
    >>> cost.values, cost.without("adapter").values
    (21, 16)
    """

    parts: Mapping[str, int]
    operations: int | None = None

    @property
    def values(self) -> int:
        """All parts together."""
        return sum(self.parts.values())

    def without(self, *parts: str) -> Cost:
        """The same, some parts left out."""
        return Cost({name: n for name, n in self.parts.items() if name not in parts}, self.operations)


def adapter_values(setup: Setup) -> int:
    """AdaptFormer: two matrices and two biases next to the MLP of every block.

    >>> adapter_values(Setup()), adapter_values(Setup(bottleneck=16))
    (1189632, 304320)
    """
    return setup.blocks * (2 * setup.width * setup.bottleneck + setup.bottleneck + setup.width)


def backbone_values(setup: Setup) -> int:
    """A plain ViT without head: patches, class token, positions, blocks (12 d² + 13 d each), final norm.

    >>> backbone_values(Setup())
    85798656
    """
    d = setup.width
    patches = (setup.image // setup.patch) ** 2
    block = (4 * d * d + 4 * d) + (8 * d * d + 5 * d) + 4 * d  # attention, MLP, two norms
    return (3 * setup.patch**2 * d + d) + d + (patches + 1) * d + setup.blocks * block + 2 * d


def layup(setup: Setup) -> Cost:
    """LayUP: G of the last k layers, inverted, and the adapter.

    >>> layup(Setup()).parts, f"{layup(Setup()).operations:.2g}"
    ({'Gram matrix': 21233664, 'adapter': 1189632}, '9.8e+10')
    """
    d = setup.k * setup.width
    return Cost({"Gram matrix": d**2, "adapter": adapter_values(setup)}, d**3)


def ranpac(setup: Setup, *, prototypes: bool = False) -> Cost:
    """RanPAC: G of M random projections, inverted, the projection and the adapter; optionally its prototypes.

    >>> ranpac(Setup()).values, ranpac(Setup(), prototypes=True).parts["prototypes"]
    (108869632, 2000000)
    """
    m = setup.projection
    parts = {"Gram matrix": m**2, "projection": setup.width * m, "adapter": adapter_values(setup)}
    if prototypes:
        parts["prototypes"] = setup.classes * m
    return Cost(parts, m**3)


def slca(setup: Setup) -> Cost:
    """SLCA: a covariance matrix of the last layer for every class, each factorised.

    >>> slca(Setup()).values, f"{slca(Setup()).operations:.2g}"
    (117964800, '9.1e+10')
    """
    return Cost({"covariances": setup.classes * setup.width**2}, setup.classes * setup.width**3)


def adam(setup: Setup, *, shared: bool = False) -> Cost:
    """ADAM: a second, tuned backbone; of which, if the frozen weights are shared, only the adapter is new.

    >>> adam(Setup()).values, adam(Setup(), shared=True).values
    (85798656, 1189632)
    """
    return Cost({"adapter": adapter_values(setup)} if shared else {"second backbone": backbone_values(setup)})


def saving(ours: int, theirs: int) -> float:
    """The share that ours saves of theirs; negative if ours is more.

    >>> f"{saving(layup(Setup()).operations, ranpac(Setup()).operations):.0%}"
    '90%'
    """
    return 1 - ours / theirs
