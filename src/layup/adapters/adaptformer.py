"""AdaptFormer (Chen et al., 2022): a narrow second MLP next to the MLP of every block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from layup.adapters.adapter import Adapter, replace_module, require_positive
from layup.adapters.transformers import blocks_of, width_of
from layup.errors import InputError


@dataclass(frozen=True)
class AdaptFormer(Adapter):
    """x' + MLP(norm(x')) + scale · up(dropout(ReLU(down(x')))), where x' is the output of attention.

    `up` starts at zero, so that at first nothing changes. Tunes blocks × (2 · width · d + width + d) values.

    >>> from layup.adapters import AdaptedBackbone
    >>> from layup.backbones import load_backbone
    >>> AdaptedBackbone(load_backbone("vit-nano"), AdaptFormer()).tuned_values
    198912
    """

    name = "adaptformer"
    width: int = 64
    scale: float = 0.1
    dropout: float = 0.1

    def attach(self, network: nn.Module) -> None:
        """Wrap the MLP of every block, with its norm and scale: the branch reads their input."""
        require_positive(self, width=self.width, scale=self.scale)
        if not 0 <= self.dropout < 1:
            raise InputError(
                f"{self.name} with dropout = {self.dropout!r} is impossible. Use a share from 0 to below 1."
            )
        for name, block in blocks_of(network, self.name):
            place, mlp = _mlp_branch(block, name)
            branch = Beside(mlp, width_of(network), self.width, self.scale, self.dropout)
            replace_module(network, ".".join(filter(None, (name, place))), branch)


class Beside(nn.Module):
    """A module and a bottleneck, side by side on the same tokens."""

    def __init__(self, inner: nn.Module, dim: int, width: int, scale: float, dropout: float) -> None:
        super().__init__()
        self.inner = inner
        self.down = nn.Linear(dim, width)
        self.up = nn.Linear(width, dim)
        self.dropout = nn.Dropout(dropout)
        self.scale = scale
        nn.init.kaiming_uniform_(self.down.weight, a=math.sqrt(5))
        for zero in (self.down.bias, self.up.weight, self.up.bias):
            nn.init.zeros_(zero)

    def forward(self, tokens: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """(B, N, d) → (B, N, d)."""
        narrow: Tensor = self.dropout(torch.relu(self.down(tokens)))  # (B, N, width)
        wide: Tensor = self.inner(tokens, *args, **kwargs)
        return wide.add(self.up(narrow), alpha=self.scale)


class Times(nn.Module):
    """A layer scale that a block kept as a bare parameter."""

    def __init__(self, gamma: nn.Parameter) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, d) → (B, N, d)."""
        return self.gamma * tokens


def _mlp_branch(block: Any, name: str) -> tuple[str, nn.Module]:
    """What a block does between two residual sums for its MLP, as one module, and the name to put it under.

    Norms and scales move from the block into that module, unchanged.
    """
    from timm.models.eva import EvaBlock, EvaBlockPostNorm  # here, because importing timm takes seconds
    from timm.models.vision_transformer import (
        Block,
        DiffParallelScalingBlock,
        ParallelScalingBlock,
        ParallelThingsBlock,
        ResPostBlock,
    )

    if isinstance(block, Block):
        branch = nn.Sequential(block.norm2, block.mlp, block.ls2)
        block.norm2, block.ls2 = nn.Identity(), nn.Identity()
        return "mlp", branch
    if isinstance(block, EvaBlock):
        branch = nn.Sequential(block.norm2, block.mlp)
        if block.gamma_2 is not None:
            branch.append(Times(block.gamma_2))
        block.norm2, block.gamma_2 = nn.Identity(), None
        return "mlp", branch
    if isinstance(block, ResPostBlock | EvaBlockPostNorm):
        branch = nn.Sequential(block.mlp, block.norm2)
        block.norm2 = nn.Identity()
        return "mlp", branch
    if isinstance(block, ParallelThingsBlock):
        return "ffns.0", block.ffns[0]
    if isinstance(block, ParallelScalingBlock | DiffParallelScalingBlock):
        return "", block  # attention and MLP read the same tokens: so does the bottleneck
    raise InputError(
        f"'adaptformer' does not know how {name!r}, a {type(block).__module__}.{type(block).__name__}, uses "
        "its MLP. Use 'ssf', 'lora' or 'full', or another backbone."
    )
