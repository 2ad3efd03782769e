"""The parts of timm's plain vision transformers, for the adapters that wrap them."""

from __future__ import annotations

from typing import Any

from torch import nn

from layup.errors import InputError

BEIT = "timm.models.beit.Beit"
TRANSFORMERS = {"timm.models.vision_transformer.VisionTransformer", "timm.models.eva.Eva", BEIT}
"""By name, because importing timm takes seconds, and a network that has no part of it does not need it."""


def _kinds(network: nn.Module) -> set[str]:
    """The full names of the classes that this is an instance of."""
    return {f"{each.__module__}.{each.__qualname__}" for each in type(network).__mro__}


def is_transformer(network: nn.Module) -> bool:
    """Whether this is one of timm's plain vision transformers: equal blocks of tokens, one after another.

    >>> import layup.compat, timm
    >>> is_transformer(timm.create_model("test_vit")), is_transformer(timm.create_model("test_resnet"))
    (True, False)
    """
    return not _kinds(network).isdisjoint(TRANSFORMERS)


def has_reachable_mlps(network: nn.Module) -> bool:
    """Whether it is one whose MLPs can be wrapped: BEiT's blocks scale theirs themselves."""
    return is_transformer(network) and BEIT not in _kinds(network)


def blocks_of(network: nn.Module, adapter: str) -> list[tuple[str, Any]]:
    """The blocks of a plain vision transformer with their names, shallow to deep."""
    if not is_transformer(network):
        raise InputError(
            f"{adapter!r} attaches to timm's plain vision transformers (ViT, DeiT, DINO, CLIP, EVA, BEiT), "
            f"not to {type(network).__name__}. Use 'ssf' or 'full', or another backbone."
        )
    return [(f"blocks.{index}", block) for index, block in network.get_submodule("blocks").named_children()]


def width_of(network: Any) -> int:
    """How many values each of its tokens has."""
    width: int = network.embed_dim
    return width


def attention_of(block: nn.Module, name: str, adapter: str) -> nn.Module:
    """The attention of a block, ready for wrappers around its projections."""
    attention = getattr(block, "attn", None)
    if attention is None:
        raise InputError(
            f"{adapter!r} does not find the attention of {name!r}, a {type(block).__name__}: it has several, "
            "or is itself one. Use 'adaptformer', 'ssf', 'vpt' or 'full', or another backbone."
        )
    called_projections(attention)
    return attention  # type: ignore[no-any-return]


def called_projections(attention: Any) -> None:
    """Let the projections be called like any module.

    EVA and BEiT otherwise use the weights directly, to add biases that they keep separately. Both ways give
    the same values, up to rounding.
    """
    if hasattr(attention, "qkv_bias_separate"):
        attention.qkv_bias_separate = True
