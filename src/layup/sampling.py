"""Some indices of each class: a number per class, or a share that is held out, drawn by a seed.

Each class draws from its own generator, or all from one, as the caller chooses. Labels can be anything
hashable and sortable: a name, a number, or a class together with its domain.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Label = TypeVar("Label", bound=Hashable)
Indices: TypeAlias = NDArray[np.int64]


def by_class(labels: Iterable[Label]) -> dict[Label, list[int]]:
    """The indices of each class, in order; the classes in the order of their first index.

    >>> by_class(["tabby", "lynx", "tabby"])
    {'tabby': [0, 2], 'lynx': [1]}
    """
    members: dict[Label, list[int]] = {}
    for index, label in enumerate(labels):
        members.setdefault(label, []).append(index)
    return members


def sample(labels: Iterable[Any], per_class: int, seed: int) -> Indices:
    """At most `per_class` indices per class, sorted; a smaller sample of the same seed is part of a larger.

    A class draws by the seed and its index among the sorted classes.

    >>> sample(["tabby", "lynx", "tabby", "tabby"], 2, seed=0).tolist()
    [0, 1, 3]
    """
    members = by_class(labels)
    chosen = [
        np.random.default_rng([seed, number]).permutation(members[label])[:per_class]
        for number, label in enumerate(sorted(members))
    ]
    return _sorted(chosen)


def split(
    labels: Iterable[Any], share: float, generator: Callable[[Any], np.random.Generator]
) -> tuple[Indices, Indices]:
    """Indices to train on and to hold out, sorted: the share of every class, at least one, never its last.

    `generator` returns the generator for a class; it is called for the sorted classes in order.

    >>> rng = np.random.default_rng(0)
    >>> training, held_out = split(["tabby"] * 4 + ["lynx"], 0.25, lambda label: rng)
    >>> len(training), len(held_out)
    (4, 1)
    """
    members = by_class(labels)
    training, held_out = [], []
    for label in sorted(members):
        indices = generator(label).permutation(members[label])
        count = min(max(1, round(share * len(indices))), len(indices) - 1)
        held_out.append(indices[:count])
        training.append(indices[count:])
    return _sorted(training), _sorted(held_out)


def _sorted(parts: list[Indices]) -> Indices:
    return np.sort(np.concatenate([np.zeros(0, np.int64), *parts]))
