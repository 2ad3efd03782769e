"""The small vision transformer that comes with layup: for trying things out, and for fast tests."""

from __future__ import annotations

from importlib.resources import as_file, files

import torch
from safetensors.torch import load_file

from layup.backbones.backbone import Backbone
from layup.backbones.preprocessing import Preprocessing
from layup.errors import InputError

SIZE = 64


def load_vit_nano(
    *, input_size: tuple[int, int] | None = None, device: torch.device | None = None
) -> Backbone:
    """Twelve blocks of 128 values, images of 64 × 64 pixels, class token.

    >>> load_vit_nano().embedding_width
    128
    """
    if input_size is not None and input_size != (SIZE, SIZE):
        raise InputError(
            f"'vit-nano' cannot read images of {input_size[0]} × {input_size[1]} pixels, only of "
            f"{SIZE} × {SIZE}. Leave input_size out."
        )
    from layup.backbones.timm_models import timm_backbone  # here, because importing timm takes seconds
    from timm.models.vision_transformer import VisionTransformer  # isort: skip  # after layup, for torchvision

    network = VisionTransformer(
        img_size=SIZE, patch_size=8, embed_dim=128, depth=12, num_heads=4, num_classes=0
    )
    with as_file(files("layup.backbones") / "vit-nano.safetensors") as file:
        # Stored as float16 to halve the package; the copy into the network's parameters makes it float32.
        network.load_state_dict(load_file(file))
    return timm_backbone(
        network,
        Preprocessing((SIZE, SIZE), (SIZE, SIZE), "squash", "bicubic"),
        name="vit-nano",
        spec={"name": "vit-nano", "weights": None, "input_size": None},
        device=device,
    )
