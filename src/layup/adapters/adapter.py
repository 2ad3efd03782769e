"""The base of all adapters: a few plain settings, and how they are attached to a network."""

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

    Only the settings are here. `attach` makes the parameters, which from then on belong to the network.
    """

    name: ClassVar[str]
    shares_weights: ClassVar[bool] = True
    """Whether the network's own weights stay as they are, so that both networks share one copy."""

    @abstractmethod
    def attach(self, network: nn.Module) -> None:
        """Wrap modules of a frozen network, in place, so that only what is to be tuned requires gradients.

        Raises an InputError for a network that it cannot be attached to: why not, and what to use instead.
        """

    @property
    def lr_multiplier(self) -> float:
        """The tuned values learn at this multiple of the head's learning rate."""
        return 1.0

    def to_dict(self) -> dict[str, Any]:
        """Name and settings as plain JSON values; `adapter_from` is the inverse."""
        return {"name": self.name, **asdict(self)}


def replace_module(network: nn.Module, name: str, module: nn.Module) -> None:
    """Replace the module of that name."""
    parent, _, leaf = name.rpartition(".")
    setattr(network.get_submodule(parent), leaf, module)


def require_positive(adapter: Adapter, **settings: float) -> None:
    """Refuse settings that are not positive, or not whole where whole numbers are needed."""
    for name, value in settings.items():
        whole = isinstance(getattr(type(adapter), name), int)
        kind = "a whole number ≥ 1" if whole else "a number > 0"
        if not isinstance(value, int if whole else int | float) or not 0 < value < math.inf:
            raise InputError(f"{adapter.name} with {name} = {value!r} is impossible. Use {kind}.")
