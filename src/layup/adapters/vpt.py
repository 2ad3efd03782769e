"""VPT, visual prompt tuning (Jia et al., 2022): learned tokens in addition to those of the image."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from layup.adapters.adapter import Adapter, replace_module, require_positive
from layup.adapters.transformers import blocks_of, width_of
from layup.errors import InputError
from layup.registry import unknown_name

Depth = Literal["deep", "shallow", "shared"]
Start = Literal["uniform", "zero"]


@dataclass(frozen=True)
class VPT(Adapter):
    """Prompts that every block attends to, and that are removed from its output.

    - `deep`: every block has its own prompts, and its output for them is dropped;
    - `shallow`: the first block has prompts, and each block passes its output for them to the next;
    - `shared`: like deep, but with one set for all blocks (what the authors' released code does).

    `start` is VPT's uniform initialisation, or zero, from which the tokens of a block get equal gradients
    and so stay equal.

    >>> from layup.adapters import AdaptedBackbone
    >>> from layup.backbones import load_backbone
    >>> nano = load_backbone("vit-nano")
    >>> AdaptedBackbone(nano, VPT()).tuned_values, AdaptedBackbone(nano, VPT(depth="shallow")).tuned_values
    (7680, 640)
    """

    name = "vpt"
    tokens: int = 5
    depth: Depth = "deep"
    start: Start = "uniform"

    def attach(self, network: nn.Module) -> None:
        """Wrap every block."""
        require_positive(self, tokens=self.tokens)
        for setting, value, known in (
            ("VPT depth", self.depth, get_args(Depth)),
            ("VPT start", self.start, get_args(Start)),
        ):
            if value not in known:
                raise unknown_name(setting, value, known)
        blocks = blocks_of(network, self.name)
        own = self._prompts(network)
        for index, (name, block) in enumerate(blocks):
            _make_room(block, name, network, self.tokens)
            first, last = index == 0, index == len(blocks) - 1
            if self.depth == "shallow":
                wrapper = Prompted(block, self.tokens, own if first else None, hands_on=not last)
            else:
                wrapper = Prompted(block, self.tokens, own, hands_on=False)
                if self.depth == "deep" and not last:
                    own = self._prompts(network)
            replace_module(network, name, wrapper)

    def _prompts(self, network: nn.Module) -> nn.Parameter:
        dim = width_of(network)
        prompts = torch.zeros(self.tokens, dim)
        if self.start == "uniform":
            projection: Any = network.get_submodule("patch_embed.proj")
            weight = getattr(projection, "weight", None)  # None if a stem returns tokens as they are
            patch = dim if weight is None else weight[0].numel()  # values in a patch
            bound = math.sqrt(6 / (patch + dim))
            prompts.uniform_(-bound, bound)
        return nn.Parameter(prompts)


class Prompted(nn.Module):
    """A block with prompts in front of its tokens: its own, or those from the block before.

    Its output has no prompts among the tokens, so that only the image is read. Prompts for the next block are
    passed next to the tokens, as a pair.
    """

    def __init__(self, block: nn.Module, count: int, prompts: nn.Parameter | None, hands_on: bool) -> None:
        super().__init__()
        self.block = block
        self.count = count
        self.prompts = prompts
        self.hands_on = hands_on

    def forward(
        self, given: Tensor | tuple[Tensor, Tensor], *args: Any, **kwargs: Any
    ) -> Tensor | tuple[Tensor, Tensor]:
        """(B, N, d) → (B, N, d), or pairs of it with prompts (B, count, d)."""
        if isinstance(given, tuple):
            tokens, prompts = given
        else:
            assert self.prompts is not None
            tokens, prompts = given, self.prompts.expand(len(given), -1, -1)
        output = self.block(torch.cat([prompts, tokens], dim=1), *args, **kwargs)
        seen, image = output[:, : self.count], output[:, self.count :]
        return (image, seen) if self.hands_on else image


def _make_room(block: Any, name: str, network: nn.Module, count: int) -> None:
    """Let a block expect `count` more tokens that have no position in the image."""
    attention: Any = getattr(block, "attn", None)
    by_index = getattr(attention, "relative_position_bias_table", None) is not None
    if by_index or getattr(network, "rel_pos_bias", None) is not None:
        raise InputError(
            f"'vpt' cannot add tokens to {name!r}: its attention has a bias for every pair of positions in "
            "the image, and prompts have no position. Use 'lora', 'ssf' or 'full', or another backbone."
        )
    if hasattr(attention, "num_prefix_tokens"):  # these first tokens get no rotary position
        attention.num_prefix_tokens += count
