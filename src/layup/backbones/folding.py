"""The same network in fewer steps: what a frozen network computes for every image is computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_weights

from layup.backbones.efficientnet import same_padding
from layup.backbones.modules import around_same_weights
from layup.backbones.pooling import first_tensor

Pair = tuple[nn.Conv2d, nn.BatchNorm2d]

# Only these classes, not their subclasses, which may use their weights differently. By name, because timm
# takes seconds to import, and a network that has no part of it does not need it.
PADDING_BY_SIZE = {"timm.layers.conv2d_same.Conv2dSame", "layup.backbones.efficientnet.SameConv2d"}
CONVOLUTIONS = {"torch.nn.modules.conv.Conv2d", *PADDING_BY_SIZE}
ACTIVATING = {"timm.layers.norm_act.BatchNormAct2d", "layup.backbones.efficientnet.BatchNormAct2d"}
NORMS = {"torch.nn.modules.batchnorm.BatchNorm2d", *ACTIVATING}


def _kind(module: nn.Module) -> str:
    """The full name of a module's class."""
    return f"{type(module).__module__}.{type(module).__qualname__}"


def folded(network: nn.Module, batch: Tensor, read: Collection[str]) -> nn.Module:
    """A network with the same output: batch norms are part of the convolutions before them, padding is fixed.

    Costs one forward pass of the batch, which shows the order of modules, and a copy of those convolutions;
    everything else is shared with the given network. `read` names the modules whose outputs must stay.

    >>> network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    >>> folded(network, torch.zeros(1, 3, 8, 8), ["2"])
    Sequential(
      (0): Conv2d(3, 4, kernel_size=(3, 3), stride=(1, 1))
      (1): Identity()
      (2): ReLU()
    )
    """
    tree = around_same_weights(network)
    pairs, sizes = _watched(tree, batch, read)
    names = {module: name for name, module in tree.named_modules()}
    for convolution, norm in pairs:
        _absorb(convolution, norm)
        rest = nn.Sequential(*norm.children()) if _kind(norm) in ACTIVATING else nn.Identity()
        _replace(tree, names[norm], rest)
    for same, size in sizes.items():
        _replace(tree, names[same], _padded(same, size))
    return tree


def _watched(
    network: nn.Module, batch: Tensor, read: Collection[str]
) -> tuple[list[Pair], dict[nn.Conv2d, tuple[int, int]]]:
    """Which norm is the only one after which convolution, and the input sizes of those that pad by size."""
    made: dict[int, tuple[nn.Conv2d, Tensor]] = {}  # with the tensor, so that no other gets its id
    pairs: list[Pair] = []
    sizes: dict[nn.Conv2d, tuple[int, int]] = {}
    needed: set[nn.Module] = set()

    def after_convolution(module: Any, inputs: Any, output: Tensor) -> None:
        made[id(output)] = (module, output)
        if _kind(module) in PADDING_BY_SIZE:
            sizes[module] = (inputs[0].shape[-2], inputs[0].shape[-1])

    def before_norm(module: Any, inputs: Any) -> None:
        if id(inputs[0]) in made and module.running_mean is not None:
            pairs.append((made[id(inputs[0])][0], module))

    def after_read(_module: nn.Module, _inputs: Any, output: Any) -> None:
        tensor = first_tensor(output)
        if id(tensor) in made:
            needed.add(made[id(tensor)][0])

    handles = []
    for module in network.modules():
        if _kind(module) in CONVOLUTIONS:
            handles.append(module.register_forward_hook(after_convolution))
        elif _kind(module) in NORMS:
            handles.append(module.register_forward_pre_hook(before_norm))
    handles += [network.get_submodule(name).register_forward_hook(after_read) for name in read]
    with torch.no_grad():
        network(batch)
    for handle in handles:
        handle.remove()
    times = Counter(module for pair in pairs for module in pair)
    alone = [pair for pair in pairs if all(times[module] == 1 for module in pair) and pair[0] not in needed]
    return alone, sizes


def _absorb(convolution: nn.Conv2d, norm: nn.BatchNorm2d) -> None:
    """Let a convolution do what the norm after it does: γ (w·x + b − μ) / σ + β, in float64."""
    weight, bias, mean, variance, gamma, beta = (
        None if values is None else values.detach().cpu().double()
        for values in (
            convolution.weight,
            convolution.bias,
            norm.running_mean,
            norm.running_var,
            norm.weight,
            norm.bias,
        )
    )
    assert weight is not None and mean is not None and variance is not None  # noqa: PT018
    like = convolution.weight
    fused = fuse_conv_bn_weights(weight, bias, mean, variance, norm.eps, gamma, beta)
    convolution.weight, convolution.bias = (
        nn.Parameter(values.detach().to(like), requires_grad=False) for values in fused
    )


def _padded(same: nn.Conv2d, size: tuple[int, int]) -> nn.Module:
    """A convolution that pads by the size of its input, for inputs of only this size."""
    high, wide = (
        same_padding(*numbers)
        for numbers in zip(size, same.kernel_size, same.stride, same.dilation, strict=True)
    )
    plain = nn.Conv2d(
        same.in_channels,
        same.out_channels,
        same.kernel_size,  # type: ignore[arg-type]
        same.stride,  # type: ignore[arg-type]
        0,
        same.dilation,  # type: ignore[arg-type]
        same.groups,
        device="meta",
    )
    plain.weight, plain.bias = same.weight, same.bias
    return nn.Sequential(nn.ZeroPad2d((wide // 2, wide - wide // 2, high // 2, high - high // 2)), plain)


def _replace(network: nn.Module, name: str, module: nn.Module) -> None:
    parent, _, own = name.rpartition(".")
    setattr(network.get_submodule(parent), own, module.eval())
