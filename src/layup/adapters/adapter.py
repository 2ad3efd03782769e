"""What all adapters share: a few plain settings, and a way into a network."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from torch import nn

from layup.errors import InputError


@dataclass(frozen=True)
class Adapter(ABC):
    """A small set of parameters that is tuned in the first session, and how it is put into a network.

    Only the settings live here. `attach` makes the parameters, which from then on belong to the network.
    """

    name: ClassVar[str]
    shares_weights: ClassVar[bool] = True
    """The network's own weights stay as they are, so that one copy of them serves with and without."""

    @abstractmethod
    def attach(self, network: nn.Module) -> None:
        """Wrap modules of a frozen network, in place, so that only what is to be tuned wants gradients.

        A network that it cannot be attached to raises an InputError which says why, and what can be.
        """

    @property
    def lr_multiplier(self) -> float:
        """What is tuned learns at this multiple of the head's learning rate."""
        return 1.0

    def to_dict(self) -> dict[str, Any]:
        """Name and settings as plain JSON values; `adapter_from` is the inverse."""
        return {"name": self.name, **asdict(self)}


def replace_module(network: nn.Module, name: str, module: nn.Module) -> None:
    """Put another module in the place of that name."""
    parent, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(parent), leaf, module)


def require_positive(adapter: Adapter, **settings: float) -> None:
    """Refuse settings that are no positive numbers, or, where whole ones are meant, no whole numbers."""
    for name, value in settings.items():
        whole = isinstance(getattr(type(adapter), name), int)
        kind = "a whole number ≥ 1" if whole else "a number > 0"
        if not isinstance(value, int if whole else int | float) or not 0 < value < math.inf:
            raise InputError(f"{adapter.name} with {name} = {value!r} is impossible. Use {kind}.")
