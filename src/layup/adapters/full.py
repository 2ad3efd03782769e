"""Full fine-tuning: no adapter at all, every weight is tuned and stored."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from layup.adapters.adapter import Adapter


@dataclass(frozen=True)
class Full(Adapter):
    """All weights of the network. Its batch norms keep the statistics that they came with.

    >>> from layup.adapters import AdaptedBackbone
    >>> from layup.backbones import load_backbone
    >>> AdaptedBackbone(load_backbone("vit-nano"), Full()).tuned_values
    2412672
    """

    name = "full"
    shares_weights = False

    def attach(self, network: nn.Module) -> None:
        """Let every weight have a gradient."""
        network.requires_grad_(True)
