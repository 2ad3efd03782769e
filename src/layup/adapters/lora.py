"""LoRA (Hu et al., 2022): a product of two narrow matrices added to the attention's projections."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from layup.adapters.adapter import Adapter, replace_module, require_positive
from layup.adapters.transformers import attention_of, blocks_of

PROJECTIONS = ("qkv", "q_proj", "k_proj", "v_proj", "proj")  # fused or separate


@dataclass(frozen=True)
class LoRA(Adapter):
    """W x + (alpha / rank) · B A x for the projections of every block's attention, in and out.

    B starts at zero, so that at first nothing changes.

    >>> from layup.adapters import AdaptedBackbone
    >>> from layup.backbones import load_backbone
    >>> AdaptedBackbone(load_backbone("vit-nano"), LoRA()).tuned_values
    73728
    """

    name = "lora"
    rank: int = 8
    alpha: float = 8.0

    def attach(self, network: nn.Module) -> None:
        """Wrap the projections, whether query, key and value are one or three."""
        require_positive(self, rank=self.rank, alpha=self.alpha)
        for block_name, block in blocks_of(network, self.name):
            attention = attention_of(block, block_name, self.name)
            for name in PROJECTIONS:
                projection = getattr(attention, name, None)
                if isinstance(projection, nn.Linear):
                    wrapper = LowRank(projection, self.rank, self.alpha / self.rank)
                    replace_module(network, f"{block_name}.attn.{name}", wrapper)


class LowRank(nn.Module):
    """A linear layer plus a narrow one of two steps."""

    def __init__(self, inner: nn.Linear, rank: int, scale: float) -> None:
        super().__init__()
        self.inner = inner
        self.down = nn.Parameter(torch.empty(rank, inner.in_features))
        self.up = nn.Parameter(torch.zeros(inner.out_features, rank))
        self.scale = scale
        nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, N, in) → (B, N, out)."""
        narrow = nn.functional.linear(tokens, self.down)  # (B, N, rank)
        wide: Tensor = self.inner(tokens)
        return wide + self.scale * nn.functional.linear(narrow, self.up)
