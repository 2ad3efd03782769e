"""A backbone with an adapter in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from layup.adapters.adapter import Adapter
from layup.backbones import Backbone, Preprocessing, around_same_weights
from layup.errors import InputError, MismatchError, first_line


class AdaptedBackbone(Backbone):
    """A backbone with an adapter in its network; it is read in the same way.

    The network is a new tree of modules around the same weights as the given backbone, which stays as it is
    and can still be used: only what is tuned is held twice.

    >>> from layup.adapters import AdaptFormer
    >>> from layup.backbones import load_backbone
    >>> nano = load_backbone("vit-nano")
    >>> adapted = AdaptedBackbone(nano, AdaptFormer(width=4))
    >>> adapted
    AdaptedBackbone('vit-nano', 12 layers, 64 × 64 pixels, adaptformer)
    >>> adapted.fingerprint == nano.fingerprint
    False
    >>> list(adapted.state())[0]
    'blocks.0.mlp.down.weight'

    Args:
        base: the backbone to adapt.
        adapter: what to put into it.
        seed: decides the initial values of the adapter.
        preprocessing: how images are prepared, if not as for the given one.

    Attributes:
        base: the backbone that was adapted.
        adapter: what was put into it.
        record: how it was tuned, as plain JSON values; nothing here depends on it.
    """

    adapter: Adapter

    def __init__(
        self, base: Backbone, adapter: Adapter, *, seed: int = 0, preprocessing: Preprocessing | None = None
    ) -> None:
        if isinstance(base, AdaptedBackbone):
            raise InputError(
                f"{base.name!r} has an adapter already, {base.adapter.name!r}. "
                "Adapt the backbone that it was made from."
            )
        for name, value in vars(base).items():  # names, layers and poolings stay
            setattr(self, name, value)
        self.refresh()
        self.base = base
        self.adapter = adapter
        self.record: dict[str, Any] = {}
        self.preprocessing = preprocessing or base.preprocessing
        self.architecture = f"{base.architecture}\n{json.dumps(adapter.to_dict(), sort_keys=True)}"

        copied = around_same_weights if adapter.shares_weights else deepcopy
        self.network = copied(base.network)
        modules = set(self.network.modules())
        with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay the same
            torch.default_generator.manual_seed(seed)
            adapter.attach(self.network)
        self._added = [module for module in self.network.modules() if module not in modules]
        self.network.to(self.device)
        self._tuned = [name for name, value in self.network.named_parameters() if value.requires_grad]
        if not self._tuned:
            raise InputError(
                f"{adapter.name!r} finds nothing to tune in {base.name!r}, a {type(base.network).__name__}. "
                "Use another adapter, or another backbone."
            )
        self.train(False)
        try:
            self._dry_run()
        except (AttributeError, InputError, TypeError) as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise InputError(
                f"{adapter.name!r} does not fit into {base.name!r}, a {type(base.network).__name__}: "
                f"{first_line(cause)} Use another adapter ('full' fits all), or another backbone."
            ) from error

    @property
    def frozen(self) -> Backbone:
        """The backbone that was adapted."""
        return self.base

    @property
    def tuned_values(self) -> int:
        """How many numbers are tuned."""
        return sum(value.numel() for value in self.state().values())

    def train(self, mode: bool = True) -> None:
        """Let the adapter learn, dropout included, or freeze it.

        The network's own modules stay in eval mode: batch norms keep their statistics.
        """
        for module in self._added:
            module.training = mode
        for value in self.state().values():
            value.requires_grad_(mode)
        self.refresh()

    def state(self) -> dict[str, Tensor]:
        """The tuned tensors themselves, by name."""
        return {name: self.network.get_parameter(name) for name in self._tuned}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Load values for the tuned tensors."""
        wanted = {name: tuple(value.shape) for name, value in self.state().items()}
        given = {name: tuple(value.shape) for name, value in state.items()}
        if given != wanted:
            odd = sorted(name for name, _ in given.items() ^ wanted.items())
            raise MismatchError(
                f"These {len(given)} tensors are not those of {self.adapter.name!r} in {self.name!r}, "
                f"which has {len(wanted)}; the first that differs is {odd[0]!r}."
            )
        with torch.no_grad():
            for name, value in self.state().items():
                value.copy_(state[name])
        self.refresh()

    def __repr__(self) -> str:
        return f"Adapted{super().__repr__()[:-1]}, {self.adapter.name})"

    def to_dict(self) -> dict[str, Any]:
        """Everything except the tuned tensors, as plain JSON values; `reattached` is the inverse."""
        return {
            "adapter": self.adapter.to_dict(),
            "preprocessing": self.preprocessing.to_dict(),
            "tuned_values": self.tuned_values,
            "record": self.record,
        }
