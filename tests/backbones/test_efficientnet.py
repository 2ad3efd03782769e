"""The bundled network is timm's, to the bit, without timm."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import layup.compat  # noqa: F401  # isort: skip  (before timm)
import timm
from timm.layers.padding import get_same_padding

from layup.backbones.bundled import ARCHITECTURE, imagenet_network
from layup.backbones.efficientnet import EfficientNetLite0, same_padding
from layup.backbones.folding import folded
from layup.backbones.timm_models import block_names


@pytest.fixture
def theirs() -> Any:
    """timm's network with the same weights."""
    network = timm.create_model(ARCHITECTURE)
    network.load_state_dict(imagenet_network().state_dict())
    return network.eval()


def batch_of(height: int, width: int) -> torch.Tensor:
    return torch.randn(2, 3, height, width, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("size", [(160, 160), (64, 64), (97, 131)])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_every_block_gives_what_timms_gives_to_the_bit(
    theirs: Any, size: tuple[int, int], layout: torch.memory_format
) -> None:
    ours = imagenet_network().eval().to(memory_format=layout)  # type: ignore[call-overload]
    theirs = theirs.to(memory_format=layout)
    found: dict[str, list[torch.Tensor]] = {}
    names = [*ours.block_names, "conv_head", "global_pool", "classifier"]
    for network in (ours, theirs):
        for name in names:

            def keep(_module: Any, _inputs: Any, output: torch.Tensor, name: str = name) -> None:
                found.setdefault(name, []).append(output.clone())

            handle = network.get_submodule(name).register_forward_hook(keep)
            network.register_forward_hook(lambda *_, handle=handle: handle.remove())
        with torch.inference_mode():
            network(batch_of(*size).to(memory_format=layout))
    assert list(found) == names
    for name, (mine, other) in found.items():
        assert torch.equal(mine, other), name


def test_its_tensors_and_blocks_have_timms_names(theirs: Any) -> None:
    ours = imagenet_network()
    assert {name: value.shape for name, value in ours.state_dict().items()} == {
        name: value.shape for name, value in theirs.state_dict().items()
    }
    assert ours.block_names == block_names(theirs, ARCHITECTURE)


def test_folding_takes_it_apart_as_it_does_timms(theirs: Any) -> None:
    batch = batch_of(64, 64)
    trees = [folded(network, batch, []) for network in (imagenet_network().eval(), theirs)]
    with torch.inference_mode():
        mine, other = (tree(batch) for tree in trees)
    assert torch.equal(mine, other)
    assert not any(isinstance(part, torch.nn.BatchNorm2d) for part in trees[0].modules())


def test_without_classes_it_gives_the_embedding() -> None:
    network = EfficientNetLite0(classes=0).eval()
    assert network(batch_of(32, 32)).shape == (2, 1280)


@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("kernel", [1, 3, 5])
def test_same_padding_is_timms(kernel: int, stride: int) -> None:
    for size in range(1, 30):
        for dilation in (1, 2):
            expected = get_same_padding(size, kernel, stride, dilation)
            assert same_padding(size, kernel, stride, dilation) == expected
