"""Networks of timm, by name."""

from __future__ import annotations

import layup.compat  # noqa: F401  # isort: skip  (before timm, which imports torchvision)

import pickle
import re
from pathlib import Path
from textwrap import shorten
from typing import Any

import timm
import torch
from safetensors import SafetensorError
from timm.models import load_state_dict
from torch import nn

from layup.backbones.backbone import Backbone
from layup.backbones.hub import unreachable
from layup.backbones.names import unknown_among_many
from layup.backbones.origins import WEIGHTS, timm_file
from layup.backbones.preprocessing import Preprocessing
from layup.errors import DamagedFileError, InputError, LayupError, StorageError, first_line

OFFLINE = "'bundled' and 'vit-nano' need no download"


def load_timm(
    name: str,
    *,
    weights: str | None = None,
    input_size: tuple[int, int] | None = None,
    device: torch.device | None = None,
    local_only: bool = False,
) -> Backbone:
    """A timm network by name, with timm's weights (downloaded once) or those of a local file."""
    architecture, tag = resolve_name(name)
    full_name = f"{architecture}.{tag}" if tag else architecture
    config: Any = timm.get_pretrained_cfg(full_name)
    arguments: dict[str, Any] = {"num_classes": 0}
    if input_size is not None and config.fixed_input_size:
        arguments["img_size"] = input_size  # the position embedding is then resampled when it is loaded
    try:
        file = str(_downloaded(full_name)) if weights is None and local_only else weights
        if file is None:
            network = _with_own_weights(full_name, config, arguments)
        else:
            network = _with_weights_of(file, full_name, config, arguments)
    except (TypeError, AssertionError, NotImplementedError, RuntimeError) as error:
        if input_size is None:
            raise
        height, width = input_size
        raise InputError(
            f"{full_name!r} cannot be built for images of {height} × {width} pixels: {first_line(error)} "
            "Leave input_size out to use the network's own."
        ) from error
    return timm_backbone(
        network,
        Preprocessing.from_timm(config.to_dict(), input_size),
        name=full_name,
        spec={
            "name": full_name,
            "weights": weights,
            "input_size": None if input_size is None else list(input_size),
        },
        device=device,
    )


def timm_backbone(
    network: nn.Module,
    preprocessing: Preprocessing,
    *,
    name: str,
    spec: dict[str, Any] | None,
    architecture: str | None = None,
    default_k: int | None = None,
    device: torch.device | None = None,
) -> Backbone:
    """A backbone of a network made with timm's classes, without its classifier."""
    return Backbone(
        network,
        block_names(network, name),
        preprocessing,
        name=name,
        # The tag names weights, which are in the fingerprint themselves.
        architecture=name.partition(".")[0] if architecture is None else architecture,
        spec=spec,
        head_is_layer=True,
        default_k=default_k,
        device=device,
    )


def architectures() -> list[str]:
    """The architectures that timm has, without names that it has deprecated.

    >>> "vit_base_patch16_224" in architectures()
    True
    """
    return list(timm.list_models())


def resolve_name(name: str) -> tuple[str, str]:
    """Architecture, which timm must know, and tag; timm's default tag if the name has none.

    >>> resolve_name("vit_base_patch16_224.augreg_in21k")
    ('vit_base_patch16_224', 'augreg_in21k')
    >>> resolve_name("resnet18")[1]
    'a1_in1k'
    """
    architecture, _, tag = name.partition(".")
    known = [full.partition(".")[2] for full in timm.list_models(f"{architecture}.*", include_tags=True)]
    if tag and tag not in known:
        raise unknown_among_many(
            f"{architecture} weights", tag, known, f"see `timm.list_pretrained('{architecture}.*')`"
        )
    preferred: Any = timm.get_pretrained_cfg(architecture)
    return architecture, tag or preferred.tag or ""


def timm_names(part: str) -> list[str]:
    """The full names of all pre-trained networks of timm whose name contains this.

    >>> timm_names("base_patch16_224.augreg_in21k")[:1]
    ['vit_base_patch16_224.augreg_in21k']
    """
    return list(timm.list_pretrained(f"*{part}*"))


def block_names(network: nn.Module, name: str) -> list[str]:
    """The modules of a timm network that are its layers: the blocks of timm's layer map.

    >>> block_names(timm.create_model("test_vit"), "test_vit")
    ['blocks.0', 'blocks.1', 'blocks.2', 'blocks.3', 'blocks.4', 'blocks.5']
    """
    groups: Any = getattr(network, "group_matcher", dict)(coarse=False)
    matcher = groups.get("blocks") if isinstance(groups, dict) else None  # some return a function
    if isinstance(matcher, str):
        patterns = [matcher]
    elif isinstance(matcher, list | tuple):
        # Patterns with a fixed position are stems, downsamplings and norms.
        patterns = [pattern for pattern, place in matcher if place is None]
    else:
        patterns = []
    modules = [module for module, _ in network.named_modules()]
    blocks = [module for module in modules if any(re.fullmatch(pattern, module) for pattern in patterns)]
    if blocks:
        return blocks
    stages = [entry["module"] for entry in getattr(network, "feature_info", [])]
    stages = [stage for stage in stages if stage in modules]
    if stages:
        return stages
    raise InputError(
        f"timm does not say which modules of {name!r} are its layers. "
        "Name them yourself: Backbone.from_module(timm.create_model(…), layers=[…], preprocessing=…)."
    )


def _downloaded(name: str) -> Path:
    """The file with timm's own weights, which must have been downloaded before."""
    file = timm_file(name)
    if file is None:
        raise LayupError(
            f"The weights of {name!r} were not downloaded before. Give a local copy of them.", about="weights"
        )
    return file


def _with_own_weights(name: str, config: Any, arguments: dict[str, Any]) -> nn.Module:
    """The network with the weights that timm downloads, or has downloaded before."""
    if not config.has_weights:
        raise InputError(f"timm has no weights of {name!r} to download. Give a file.", about="weights")
    if config.hf_hub_id and timm_file(name) is None:
        why = unreachable(config.hf_hub_id, config.hf_hub_filename or WEIGHTS[0])
        if why is not None:
            raise _not_downloaded(name, why)
    try:
        network: nn.Module = timm.create_model(name, pretrained=True, **arguments)
    except OSError as error:
        raise _not_downloaded(name, first_line(error)) from error
    return network


def _not_downloaded(name: str, why: str) -> LayupError:
    return LayupError(
        f"The weights of {name!r} could not be downloaded: {why} They are downloaded once, which needs the "
        f"internet. Give a local copy of the weights, or use a backbone that comes with layup: {OFFLINE}.",
        about="weights",
    )


def _with_weights_of(path: str, name: str, config: Any, arguments: dict[str, Any]) -> nn.Module:
    """The network with the weights in a file, all of them; a classifier in the file is left out."""
    if not Path(path).is_file():
        raise StorageError(f"There is no file {path!r} with weights for {name!r}. Check the path.")
    try:
        state = load_state_dict(path, weights_only=True)
    except (OSError, RuntimeError, ValueError, EOFError, pickle.UnpicklingError, SafetensorError) as error:
        raise DamagedFileError(
            f"{path!r} cannot be read as weights: {first_line(error)} "
            "Give a .safetensors file, or a .pth or .bin file with a state dict."
        ) from error
    classifiers = config.classifier or ()
    for classifier in [classifiers] if isinstance(classifiers, str) else classifiers:
        for part in ("weight", "bias"):
            state.pop(f"{classifier}.{part}", None)
    # When timm drops a classifier itself, it is not strict: weights that are not in the file would silently
    # stay random. Without a classifier to drop it is strict.
    try:
        network = _with_state(name, {"state_dict": state, "classifier": None}, arguments)
    except RuntimeError as error:
        if "Missing key" in str(error) or "size mismatch" in str(error):
            # Torch's first line says that something is wrong, the second what.
            misfit = str(error).strip().split("\n")[1].strip()
            raise InputError(
                f"The weights in {path!r} do not fit {name!r}: {shorten(misfit, 200)} "
                "Give weights of this network, made for this input size."
            ) from error
        # Only more than is needed, such as the rest of a head. With other classes, timm is not strict.
        network = _with_state(name, {"state_dict": state, "classifier": (), "num_classes": -1}, arguments)
    return network


def _with_state(name: str, overlay: dict[str, Any], arguments: dict[str, Any]) -> nn.Module:
    network: nn.Module = timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay, **arguments)
    config: Any = network.pretrained_cfg
    config["state_dict"] = None  # else it stays in memory twice
    return network
