"""Full fine-tuning: no adapter, every weight is tuned and stored."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from layup.adapters.adapter import Adapter, require_positive


@dataclass(frozen=True)
class Full(Adapter):
    """All weights of the network, at a fraction of the learning rate; only the head gets the full rate.

    A rate at which a new head learns in a few hundred steps would undo what the network has learned. Batch
    norms keep their statistics.

    >>> from layup.adapters import AdaptedBackbone
    >>> from layup.backbones import load_backbone
    >>> AdaptedBackbone(load_backbone("vit-nano"), Full()).tuned_values
    2412672
    """

    name = "full"
    shares_weights = False
    lr_multiplier: float = 0.03

    def attach(self, network: nn.Module) -> None:
        """Let every weight have a gradient."""
        require_positive(self, lr_multiplier=self.lr_multiplier)
        network.requires_grad_(True)
