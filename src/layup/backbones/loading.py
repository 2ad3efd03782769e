"""From a name to a backbone."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import torch

from layup.backbones.backbone import Backbone, require_room
from layup.backbones.bundled import load_bundled
from layup.backbones.engines import EAGER
from layup.backbones.huggingface import full_source, load_huggingface
from layup.backbones.names import unknown_among_many
from layup.backbones.origins import PREFIX, origin_of
from layup.backbones.preprocessing import as_size
from layup.backbones.vit_nano import load_vit_nano
from layup.errors import InputError, LayupError, first_line
from layup.registry import Registry

BACKBONES: Registry[Backbone] = Registry("backbone", "layup.backbones")
BACKBONES.register("bundled")(load_bundled)
BACKBONES.register("vit-nano")(load_vit_nano)


def load_backbone(
    name: str = "bundled",
    *,
    weights: str | os.PathLike[str] | None = None,
    input_size: int | Sequence[int] | None = None,
    device: str | torch.device | None = None,
    engine: str = EAGER,
    local_only: bool = False,
) -> Backbone:
    """A backbone by name.

    Args:
        name: "bundled" or "vit-nano", which come with layup; any name of timm, such as
            "vit_base_patch16_224.augreg_in21k"; "hf:" and a name or folder of Hugging Face; or one that an
            installed package adds.
        weights: A file with the weights (timm) or a folder with the model (hf:), instead of a download.
        input_size: Pixels, one number or (height, width), instead of the network's default size.
        device: Such as "cpu" or "cuda:1"; by default a GPU if available.
        engine: What computes it, with the same results up to rounding: "eager", which is plain PyTorch;
            "folded", faster for networks with batch norms; "onnx", fastest on a CPU (an extra).
        local_only: Download nothing: use what comes with layup, is in a file, or was downloaded before.

    >>> load_backbone()
    Backbone('bundled', 17 layers, 160 × 160 pixels)
    >>> load_backbone(**load_backbone("vit-nano").spec)
    Backbone('vit-nano', 12 layers, 64 × 64 pixels)
    """
    size = None if input_size is None else as_size(input_size)
    if size is not None:
        require_room(size)
    loaded = _loaded(name, weights, size, device, local_only)
    return loaded if engine == loaded.engine else loaded.with_engine(engine)


def _loaded(
    name: str,
    weights: str | os.PathLike[str] | None,
    size: tuple[int, int] | None,
    device: str | torch.device | None,
    local_only: bool,
) -> Backbone:
    where = _choose_device(device)
    if not isinstance(name, str):
        raise InputError(
            f"A backbone is loaded by its name, not by a {type(name).__name__}. "
            "For your own network: Backbone.from_module(network, layers=[…], preprocessing=…)."
        )
    if name in BACKBONES.built_in:
        _require_no_weights(name, weights)
        return BACKBONES[name](input_size=size, device=where)
    if name.startswith(PREFIX):
        # Always a path: the folder that a model was made with may have moved.
        source = name if weights is None else f"{PREFIX}{Path(weights).absolute()}"
        return load_huggingface(source, input_size=size, device=where, local_only=local_only)
    from layup.backbones.timm_models import architectures, load_timm  # here, because timm takes seconds

    if name.partition(".")[0] not in architectures():
        if name in BACKBONES:
            _require_no_weights(name, weights)
            return _of_plugin(name, size, where, local_only)
        own = [*BACKBONES.built_in, *BACKBONES.packages]
        raise unknown_among_many(
            "backbone",
            name,
            [*own, *architectures()],
            f"{', '.join(own)}, hf:NAME, and the names of timm (see `layup backbones`)",
        )
    # The absolute path, so that the spec works in another working directory.
    file = None if weights is None else str(Path(weights).absolute())
    return load_timm(name, weights=file, input_size=size, device=where, local_only=local_only)


def _require_no_weights(name: str, weights: str | os.PathLike[str] | None) -> None:
    if weights is not None:
        raise InputError(
            f"{name!r} has its own weights and takes no file ({str(weights)!r}). "
            "Leave weights out, or use a timm name, such as 'tf_efficientnet_lite0'."
        )


def _of_plugin(name: str, size: tuple[int, int] | None, device: torch.device, local_only: bool) -> Backbone:
    """The backbone that an installed package makes, under the name that it is loaded by."""
    package = BACKBONES.packages[name]
    if local_only:
        raise InputError(
            f"{name!r} comes from the installed package {package!r}, which may download something. "
            "Leave local_only out."
        )
    try:
        made = BACKBONES[name](input_size=size, device=device)
        if not isinstance(made, Backbone):
            raise TypeError(f"it returned a {type(made).__name__}, not a Backbone")
    except LayupError:
        raise
    except Exception as error:
        raise InputError(
            f"The backbone {name!r} of the installed package {package!r} cannot be loaded: "
            f"{type(error).__name__}: {first_line(error)}"
        ) from error
    named = copy(made)
    named.name = name
    named.spec = {"name": name, "weights": None, "input_size": None if size is None else list(size)}
    return named


def elsewhere(spec: Mapping[str, Any]) -> str | None:
    """What loading a backbone of this `spec` opens or downloads, in words; None if it needs nothing else.

    >>> elsewhere({"name": "hf:facebook/dinov2-small", "weights": None})
    "a download of 'facebook/dinov2-small' from Hugging Face"
    """
    name = spec["name"]
    if spec["weights"] is None:
        if name in BACKBONES.built_in:
            return None
        if not _of_others(name) and (package := BACKBONES.packages.get(name)):
            return f"the network {name!r} of the installed package {package!r}"
    return origin_of(spec)


def full_name(name: str) -> str:
    """The name that a loaded backbone will have: with the tag of its weights, or its folder's absolute path.

    >>> full_name("bundled"), full_name("resnet18")
    ('bundled', 'resnet18.a1_in1k')
    """
    if name.startswith(PREFIX):
        return PREFIX + full_source(name)
    if name in BACKBONES.built_in or not _of_others(name):
        return name
    from layup.backbones.timm_models import resolve_name

    architecture, tag = resolve_name(name)
    return f"{architecture}.{tag}" if tag else architecture


def _of_others(name: str) -> bool:
    """Whether this is a network of Hugging Face or timm."""
    if name.startswith(PREFIX):
        return True
    from layup.backbones.timm_models import architectures

    return name.partition(".")[0] in architectures()


def _choose_device(device: str | torch.device | None) -> torch.device:
    if device is None:
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        return torch.zeros(0, device=device).device
    except (RuntimeError, AssertionError) as error:
        raise InputError(
            f"The device {device!r} cannot be used: {first_line(error)} Use 'cpu', 'cuda', 'cuda:1' or 'mps'."
        ) from error
