"""A frozen vision transformer that is given prompts with every image, and what prompt methods share.

Prompts come in two forms: tokens, which are added to those of the image from the first block on, and
prefixes, keys and values that are added to those of a block's attention. Every image has its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from timm.layers.attention import Attention
from timm.models.vision_transformer import Block, VisionTransformer
from torch import Tensor, nn
from torch.nn import functional

from layup.backbones import Backbone, around_same_weights
from layup.benchmark.methods.gradient import GradientLearner, GradientMethod
from layup.benchmark.methods.learner import Setup
from layup.errors import InputError


class PrefixAttention(nn.Module):
    """Attention with additional keys and values: `prefix` (B, 2, length, d), if it is set."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.attention = attention
        self.prefix: Tensor | None = None

    def forward(self, tokens: Tensor, **_: Any) -> Tensor:
        """(B, N, d) → (B, N, d)."""
        inner = self.attention
        batch, count, _dim = tokens.shape
        heads = (inner.num_heads, inner.head_dim)
        query, key, value = inner.qkv(tokens).reshape(batch, count, 3, *heads).permute(2, 0, 3, 1, 4)
        if self.prefix is not None:
            split = self.prefix.reshape(batch, 2, -1, *heads)  # (B, 2, length, heads, d / heads)
            more_keys, more_values = split.permute(1, 0, 3, 2, 4)
            key, value = torch.cat([more_keys, key], dim=2), torch.cat([more_values, value], dim=2)
        query, key = inner.q_norm(query), inner.k_norm(key)
        seen = functional.scaled_dot_product_attention(query, key, value)
        return inner.proj(inner.norm(seen.transpose(1, 2).flatten(2)))  # type: ignore[no-any-return]


class TokensBefore(nn.Module):
    """The first block, with more tokens behind the class token: `tokens` (B, count, d), if they are set."""

    def __init__(self, block: nn.Module) -> None:
        super().__init__()
        self.block = block
        self.tokens: Tensor | None = None

    def forward(self, tokens: Tensor, **options: Any) -> Tensor:
        """(B, N, d) → (B, N + count, d)."""
        if self.tokens is not None:
            tokens = torch.cat([tokens[:, :1], self.tokens, tokens[:, 1:]], dim=1)
        return self.block(tokens, **options)  # type: ignore[no-any-return]


class PromptedTransformer:
    """The frozen network of a backbone, with room for prompts; the backbone itself stays as it is.

    >>> from layup.backbones import load_backbone
    >>> network = PromptedTransformer(load_backbone("vit-nano"), "l2p")
    >>> pixels = torch.zeros(2, 3, 64, 64)
    >>> network.embed(pixels, {0: torch.zeros(2, 2, 5, 128)}).shape
    torch.Size([2, 128])
    >>> network.read_tokens(pixels, torch.zeros(2, 25, 128)).shape
    torch.Size([2, 25, 128])
    """

    def __init__(self, backbone: Backbone, method: str) -> None:
        self.backbone = backbone
        network = _fit_for_prompts(backbone, method)
        prompted: Any = around_same_weights(network)
        self._attentions = [PrefixAttention(block.attn) for block in prompted.blocks]
        for block, attention in zip(prompted.blocks, self._attentions, strict=True):
            block.attn = attention
        self._first = prompted.blocks[0] = TokensBefore(prompted.blocks[0])
        self._network = prompted
        self.width: int = network.embed_dim
        self.depth = len(self._attentions)

    @property
    def token_position(self) -> Tensor:
        """The position embedding of the class token (d), which prompt tokens share."""
        position: Tensor | None = self._network.pos_embed
        if position is None or self._network.no_embed_class:
            return torch.zeros(self.width, device=self.backbone.device)
        return position[0, 0].detach()

    def query(self, pixels: Tensor, *, training: bool = True) -> Tensor:
        """The embedding of the bare network (B, d), by which prompts are chosen; it gets no gradient."""
        with torch.no_grad():
            return self.backbone.embed(pixels, training=training)

    def embed(self, pixels: Tensor, prefixes: Mapping[int, Tensor], *, training: bool = True) -> Tensor:
        """The embedding (B, d), where the blocks of these indices have prefixes, (B, 2, length, d) each."""
        self.backbone.passes.count(len(pixels), training=training)
        for position, prefix in prefixes.items():
            self._attentions[position].prefix = prefix
        try:
            embedding: Tensor = self._network(self._ready(pixels))
        finally:
            for attention in self._attentions:
                attention.prefix = None
        return embedding

    def read_tokens(self, pixels: Tensor, tokens: Tensor, *, training: bool = True) -> Tensor:
        """The outputs of additional tokens (B, count, d), after the final norm."""
        self.backbone.passes.count(len(pixels), training=training)
        self._first.tokens = tokens
        try:
            seen: Tensor = self._network.forward_features(self._ready(pixels))
        finally:
            self._first.tokens = None
        return seen[:, 1 : 1 + tokens.shape[1]]

    def _ready(self, pixels: Tensor) -> Tensor:
        return pixels.to(self.backbone.device, torch.float32)


def _fit_for_prompts(backbone: Backbone, method: str) -> Any:
    """The network, if prompts can be put into it."""
    network: Any = backbone.network
    plain = (
        isinstance(network, VisionTransformer)
        and network.cls_token is not None
        and network.global_pool == "token"
        and isinstance(network.head, nn.Identity)
        and all(
            type(block) is Block and type(block.attn) is Attention and block.attn.gate is None
            for block in network.blocks
        )
    )
    if not plain:
        raise InputError(
            f"{method!r} puts prompts into a plain vision transformer with a class token and no classifier "
            f"(timm's ViT or DeiT), and {backbone.name!r} is of another kind ({type(network).__name__}). Use "
            "another backbone, or a method that needs no transformer, such as 'layup', 'ranpac' or 'slca'."
        )
    return network


@dataclass(frozen=True)
class PromptMethod(GradientMethod):
    """What methods that put prompts into a frozen transformer share."""

    optimizer = "adam"
    blocks: ClassVar[tuple[int, ...]] = (0,)
    """The indices of the blocks that are given prompts."""

    def resolved(self, setup: Setup) -> Self:
        """The method itself, if the network has room for its prompts."""
        depth = len(_fit_for_prompts(setup.backbone, self.name).blocks)
        if max(self.blocks) >= depth:
            raise InputError(
                f"{self.name!r} puts prompts into the blocks up to number {max(self.blocks) + 1}, and "
                f"{setup.backbone.name!r} has {depth}. Use a deeper backbone."
            )
        return super().resolved(setup)


class PromptLearner(GradientLearner):
    """A learner with its own prompts in the frozen network, and rows of the head for each task."""

    def __init__(self, method: Any, setup: Setup) -> None:
        super().__init__(method, setup)
        self.network = PromptedTransformer(setup.backbone, method.name)

    def new(self, *shape: int) -> nn.Parameter:
        """Values from U(−1, 1)."""
        return nn.Parameter(torch.empty(*shape).uniform_(-1, 1).to(self.backbone.device))


def cosine(queries: Tensor, keys: Tensor) -> Tensor:
    """(B, d), (P, d) → (B, P)."""
    return functional.normalize(queries, dim=-1) @ functional.normalize(keys, dim=-1).T
