"""SSF (Lian et al., 2022): scale and shift the output of every operation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from layup.adapters.adapter import Adapter, replace_module
from layup.adapters.transformers import blocks_of, called_projections, is_transformer, width_of
from layup.errors import InputError

SPREAD = 0.02  # of the initial scales around one and of the initial shifts around zero


@dataclass(frozen=True)
class SSF(Adapter):
    """y ↦ scale ⊙ y + shift after patch embedding, norms, projections, MLP layers and the final norm.

    Networks of other kinds get it after every convolution, linear layer and norm. Batch norms do not: in a
    frozen network they scale and shift themselves, and the convolution before them has it already.

    >>> from layup.adapters import AdaptedBackbone
    >>> from layup.backbones import load_backbone
    >>> AdaptedBackbone(load_backbone("vit-nano"), SSF()).tuned_values
    34304
    """

    name = "ssf"
    final_norm: bool = True

    def attach(self, network: nn.Module) -> None:
        """Wrap every operation by itself."""
        chosen = _transformer_parts(network, self.final_norm) if is_transformer(network) else _all(network)
        wrapped = [(name, network.get_submodule(name)) for name in chosen]
        if not wrapped:
            raise InputError(
                f"'ssf' finds no convolution, linear layer or norm in this {type(network).__name__}. "
                "Use 'full', or another backbone."
            )
        for name, module in wrapped:
            replace_module(network, name, Scaled(module))


class Scaled(nn.Module):
    """A module whose output channels are scaled and shifted."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        channels, self.innermost = _channels(inner)
        self.scale = nn.Parameter(torch.empty(channels).normal_(1.0, SPREAD))
        self.shift = nn.Parameter(torch.empty(channels).normal_(0.0, SPREAD))

    def forward(self, values: Tensor) -> Tensor:
        """(B, …, C) or (B, C, H, W), as the inner module gives."""
        output: Tensor = self.inner(values)
        if self.innermost:
            return torch.addcmul(self.shift, self.scale, output)
        return torch.addcmul(self.shift[:, None, None], self.scale[:, None, None], output)


def _channels(module: nn.Module) -> tuple[int, bool]:
    """How many channels a module gives, and whether they are the innermost of its output."""
    if isinstance(module, nn.Linear):
        return module.out_features, True
    if isinstance(module, nn.Conv2d):
        return module.out_channels, False
    weight: Tensor = module.get_parameter("weight")  # a norm
    says_so = "2d" in type(module).__name__ or getattr(module, "data_format", None) == "channels_first"
    return weight.numel(), not (says_so or isinstance(module, nn.GroupNorm))


def _is_norm(module: nn.Module) -> bool:
    """A layer or group norm with weights, from any library."""
    named = "Norm" in type(module).__name__ and not isinstance(module, _BatchNorm)
    return named and isinstance(getattr(module, "weight", None), nn.Parameter)


def _transformer_parts(network: nn.Module, final_norm: bool) -> Iterator[str]:
    if isinstance(network.get_submodule("patch_embed.proj"), nn.Conv2d | nn.Linear):  # or another stem
        yield "patch_embed.proj"
    for block_name, block in blocks_of(network, SSF.name):
        called_projections(getattr(block, "attn", None))
        for name, part in block.named_modules():
            # Not the norms within attention, on single heads, and not those within the MLP.
            within = not {"attn", "mlp"}.isdisjoint(name.split("."))
            own_norm = _is_norm(part) and not within and _channels(part)[0] == width_of(network)
            if isinstance(part, nn.Linear) or own_norm:
                yield f"{block_name}.{name}"
    if final_norm:  # networks that average have theirs after the average
        yield from (name for name in ("norm", "fc_norm") if _is_norm(getattr(network, name, nn.Identity())))


def _all(network: nn.Module) -> Iterator[str]:
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d | nn.Linear) or _is_norm(module):
            yield name
