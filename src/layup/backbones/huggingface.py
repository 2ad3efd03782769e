"""Vision networks of Hugging Face's transformers, by `hf:` and a name or folder."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from layup.backbones.backbone import Backbone
from layup.backbones.hub import unreachable
from layup.backbones.origins import PREFIX, looks_like_path, origin_of
from layup.backbones.pooling import Pooling
from layup.backbones.preprocessing import Crop, Preprocessing, as_size
from layup.errors import InputError, LayupError, MissingPackageError, StorageError, first_line

SQUASHED_FROM = 384  # ConvNeXt crops below this size and squashes from it on
RESAMPLE = {
    0: "nearest",
    1: "lanczos",
    2: "bilinear",
    3: "bicubic",
    4: "box",
    5: "hamming",
}  # Pillow's numbers


class VisionTower(nn.Module):
    """A transformers network as a function from images to its pre-trained embedding."""

    def __init__(self, vision: nn.Module) -> None:
        super().__init__()
        pooler = getattr(vision, "pooler", None)
        # A pooler with a linear layer (ViT, DeiT) serves a pre-training task; most files do not hold it, and
        # then it is random. Poolers without one (Swin, BEiT) are the network's own final norm or mean.
        if pooler is not None and any(isinstance(part, nn.Linear) for part in pooler.modules()):
            vision.register_module("pooler", None)
        self.vision = vision

    def forward(self, pixels: Tensor) -> Tensor:
        """The pooled output, which is after the final norm; else the last hidden state, which then is."""
        output = self.vision(pixels)
        pooled: Tensor | None = getattr(output, "pooler_output", None)
        if pooled is None:
            return output.last_hidden_state  # type: ignore[no-any-return]
        return pooled.flatten(1)  # some convolutional networks keep (B, C, 1, 1)


def load_huggingface(
    name: str,
    *,
    input_size: tuple[int, int] | None = None,
    device: torch.device | None = None,
    local_only: bool = False,
) -> Backbone:
    """The network in a folder, or of that name on the hub; of CLIP and similar ones, the vision half."""
    source = full_source(name)
    if looks_like_path(source) and not os.path.isdir(source):  # noqa: PTH112
        raise StorageError(f"There is no folder {source!r} with a model. Check the path after {PREFIX!r}.")
    trusted = {"trust_remote_code": False, "local_files_only": local_only}
    vision = _load_vision(source, trusted)
    network = VisionTower(vision)
    return Backbone(
        network,
        block_names(network, source),
        preprocessing_of(_load_processor(source, trusted), source, input_size),
        name=PREFIX + source,
        architecture=PREFIX + type(vision).__name__,
        spec={
            "name": PREFIX + source,
            "weights": None,
            "input_size": None if input_size is None else list(input_size),
        },
        pooling=Pooling(class_token=_has_class_token(vision)),
        head_is_layer=True,
        device=device,
    )


def full_source(name: str) -> str:
    """The name on the hub, or the absolute path of a folder: a model must find it from anywhere."""
    source = name.removeprefix(PREFIX)
    is_folder = os.path.isdir(source)  # noqa: PTH112 - a name may be too long for a path: then it is not one
    return str(Path(source).absolute()) if is_folder else source


def block_names(network: nn.Module, source: str) -> list[str]:
    """The modules that are the network's layers: its most frequent kind of block.

    Transformers keeps blocks in module lists, all in one or one per stage, and stages in a list too.
    """
    listed = [
        (f"{list_name}.{index}", type(block))
        for list_name, blocks in network.named_modules()
        if isinstance(blocks, nn.ModuleList)
        or (isinstance(blocks, nn.Sequential) and list_name.endswith(".layers"))
        for index, block in blocks.named_children()
        if any(True for _ in block.children())  # a block is made of parts, a convolution in a list is not
    ]
    if not listed:
        raise InputError(
            f"{source!r} ({type(network).__name__}) has no list of blocks to read. Name its layers yourself: "
            "Backbone.from_module(model, layers=[…], preprocessing=…)."
        )
    counts = Counter(kind for _, kind in listed)
    # Lists come before the lists within them: at a tie the later kind is the inner one: blocks, not stages.
    most = max(reversed(counts), key=lambda kind: counts[kind])
    return [block for block, kind in listed if kind is most]


def preprocessing_of(
    settings: Mapping[str, Any], source: str, input_size: tuple[int, int] | None = None
) -> Preprocessing:
    """What an image processor with these settings does: resize, crop from the centre, scale.

    >>> settings = {"size": {"shortest_edge": 256}, "do_center_crop": True, "resample": 3,
    ...             "crop_size": {"height": 224, "width": 224}, "do_normalize": False}
    >>> preprocessing_of(settings, "example")
    ... # doctest: +NORMALIZE_WHITESPACE
    Preprocessing(size=(224, 224), resize=(256, 256), crop='center', interpolation='bicubic',
                  mean=(0.0, 0.0, 0.0), std=(1.0, 1.0, 1.0))
    """
    size = settings.get("size") or {}
    crop: Crop
    if "height" in size and "width" in size:
        resize, crop = as_size((size["height"], size["width"])), "squash"
    elif "shortest_edge" in size:
        resize, crop = as_size(size["shortest_edge"]), "center"
    else:
        raise InputError(
            f"The image processor of {source!r} resizes to {size}, which gives images of many sizes. "
            "Layup reads images of one size: {'height', 'width'} or {'shortest_edge'}."
        )
    seen = resize
    if settings.get("crop_pct") and crop == "center":  # ConvNeXt: the size after its own crop
        if seen[0] < SQUASHED_FROM:
            resize = as_size(int(seen[0] / settings["crop_pct"]))
        else:
            crop = "squash"
    if settings.get("do_center_crop") and settings.get("crop_size"):
        seen = as_size((settings["crop_size"]["height"], settings["crop_size"]["width"]))
    if input_size is not None:  # the same part of the image, at another size
        resize = (round(resize[0] * input_size[0] / seen[0]), round(resize[1] * input_size[1] / seen[1]))
        seen = input_size
    normalizes = settings.get("do_normalize", True)
    mean = settings["image_mean"] if normalizes else (0.0, 0.0, 0.0)
    std = settings["image_std"] if normalizes else (1.0, 1.0, 1.0)
    # Layup scales pixels to 0…1 before mean and std; a processor may scale them otherwise, or not at all.
    factor = settings.get("rescale_factor", 1 / 255) if settings.get("do_rescale", True) else 1.0
    unit = 1.0 if math.isclose(factor, 1 / 255) else factor * 255
    return Preprocessing(
        size=seen,
        resize=resize,
        crop=crop,
        interpolation=RESAMPLE[int(settings.get("resample", 2))],
        mean=tuple(value / unit for value in mean),
        std=tuple(value / unit for value in std),
    )


def _load_vision(source: str, trusted: Mapping[str, bool]) -> nn.Module:
    """The network that reads images, with all of its weights."""
    transformers = _transformers()
    if not trusted["local_files_only"]:
        _require_reachable(source)
    try:
        model, report = transformers.AutoModel.from_pretrained(source, output_loading_info=True, **trusted)
    except Exception as error:  # anything may be wrong with a folder
        raise LayupError(
            f"The Hugging Face model {source!r} could not be loaded: {first_line(error)} "
            "Give the name of a vision model on the hub, or a folder made with save_pretrained; "
            "'bundled' and 'vit-nano' need no download."
        ) from error
    vision: nn.Module = getattr(model, "vision_model", model)
    if getattr(vision, "main_input_name", "pixel_values") != "pixel_values":
        raise InputError(
            f"{source!r} is a {type(model).__name__}, which does not read images. "
            "Give a vision model, such as 'hf:facebook/dinov2-small'."
        )
    own = "" if vision is model else "vision_model."
    missing = [key for key in report["missing_keys"] if key.startswith(own) and "pooler" not in key]
    if missing:
        raise InputError(
            f"{source!r} lacks {len(missing)} of the weights of its {type(vision).__name__}, "
            f"such as {sorted(missing)[0]!r}. Give a complete model."
        )
    return vision


def _require_reachable(source: str) -> None:
    """Refuse at once what would have to be downloaded, if it cannot be."""
    if looks_like_path(source) or origin_of({"name": PREFIX + source, "weights": None}) is None:
        return
    why = unreachable(source, "config.json")
    if why is not None:
        raise LayupError(
            f"The Hugging Face model {source!r} could not be downloaded: {why} It is downloaded once, which "
            "needs the internet. Give a folder made with save_pretrained, or use a backbone that comes with "
            "layup: 'bundled' and 'vit-nano' need no download."
        )


def _load_processor(source: str, trusted: Mapping[str, bool]) -> dict[str, Any]:
    """The settings of the network's image processor."""
    transformers = _transformers()
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(source, **trusted)
        settings: dict[str, Any] = processor.to_dict()
    except Exception as error:
        raise LayupError(
            f"The Hugging Face model {source!r} does not say how to prepare images: {first_line(error)} "
            "It needs a preprocessor_config.json, as an image processor's save_pretrained writes it."
        ) from error
    return settings


def _transformers() -> Any:
    try:
        import layup.compat  # noqa: F401, I001  # before transformers, which imports torchvision
        import transformers
    except ImportError as error:
        raise MissingPackageError(
            "Backbones 'hf:…' need the package transformers. Install it: pip install 'layup-cl[hf]'."
        ) from error
    return transformers


def _has_class_token(vision: nn.Module) -> bool:
    return any(name.endswith(("cls_token", "class_embedding")) for name, _ in vision.named_parameters())
