"""Where a backbone comes from: from layup itself, from an earlier download, or from elsewhere.

A model file names its backbone. Following the name in a stranger's file would open any path, or download from
anywhere: the user has to allow that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import torch

PREFIX = "hf:"
WEIGHTS = ("model.safetensors", "pytorch_model.bin")
INDEX = ("", ".index.json")
"""Suffixes of weights: nothing, or the index of the several files of large ones."""
STATE_DICTS = (".safetensors", ".bin", ".pth", ".pt")
"""Files of tensors by name; some networks of timm come as arrays in another layout."""


def origin_of(spec: Mapping[str, Any]) -> str | None:
    """What loading a backbone that does not come with layup opens or downloads, in words.

    None if it was downloaded before. `spec` are arguments of `load_backbone`.

    >>> origin_of({"name": "resnet18.a1_in1k", "weights": "/tmp/x.safetensors"})
    "the file or folder '/tmp/x.safetensors'"
    """
    name, weights = str(spec["name"]), spec["weights"]
    if weights is not None:
        return f"the file or folder {str(weights)!r}"
    if name.startswith(PREFIX):
        source = name.removeprefix(PREFIX)
        if looks_like_path(source):
            return f"the folder {source!r}"
        weights_there = any(_in_hub_cache(source, f"{file}{index}") for file in WEIGHTS for index in INDEX)
        known = weights_there and _in_hub_cache(source, "config.json")
        return None if known else f"a download of {source!r} from Hugging Face"
    return None if timm_file(name) else f"a download of timm's {name!r}"


def looks_like_path(source: str) -> bool:
    """Whether this names a folder, not a repository on the hub.

    >>> looks_like_path("facebook/dinov2-small"), looks_like_path("./dinov2"), looks_like_path("C:\\\\models")
    (False, True, True)
    """
    return (
        source.count("/") > 1
        or "\\" in source
        or source.startswith((".", "/", "~"))
        or Path(source).is_absolute()
        or os.path.exists(source)  # noqa: PTH110 - a name may be too long for a path: then it is not one
    )


def timm_file(name: str) -> Path | None:
    """The file with timm's own weights of a network, if they were downloaded before."""
    import layup.compat  # noqa: F401, I001  # before timm
    import timm  # here, because it takes seconds

    try:
        config: Any = timm.get_pretrained_cfg(name, allow_unregistered=True)
    except RuntimeError:  # weights that this timm does not know
        return None
    if config is None or not config.has_weights:
        return None
    names = [config.hf_hub_filename] if config.hf_hub_filename else WEIGHTS
    for file in names if config.hf_hub_id else ():
        if found := _in_hub_cache(config.hf_hub_id, file):
            return found
    if config.url:
        kept = Path(torch.hub.get_dir()) / "checkpoints" / Path(urlparse(config.url).path).name
        return kept if kept.is_file() and kept.suffix in STATE_DICTS else None
    return None


def _in_hub_cache(repository: str, file: str) -> Path | None:
    """A file of a repository of Hugging Face, if it was downloaded before."""
    from huggingface_hub import try_to_load_from_cache  # here, because it is slow to import
    from huggingface_hub.errors import HFValidationError

    repository, _, revision = repository.partition("@")
    try:
        found = try_to_load_from_cache(repository, file, revision=revision or None)
    except HFValidationError:  # an impossible name of a repository
        return None
    return Path(found) if isinstance(found, str) else None
