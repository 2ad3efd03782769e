"""Whose a network is: its licence, and where it is on the hub, as far as that is known without asking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from layup.backbones.origins import PREFIX, looks_like_path

OWN = {"bundled": "apache-2.0", "vit-nano": "mit"}
"""The licences of the networks that come with layup."""


def licence_of(name: str) -> str | None:
    """The licence of a network's weights; None if it is not known here.

    >>> licence_of("bundled"), licence_of("hf:facebook/dinov2-small")
    ('apache-2.0', None)
    """
    if name in OWN:
        return OWN[name]
    return getattr(_timm_config(name), "license", None)


def repository_of(spec: Mapping[str, Any] | None) -> str | None:
    """The repository on the hub that a network comes from. `spec` are arguments of `load_backbone`.

    >>> repository_of({"name": "hf:facebook/dinov2-small@main", "weights": None})
    'facebook/dinov2-small'
    """
    if spec is None or spec["weights"] is not None or spec["name"] in OWN:
        return None
    name = str(spec["name"])
    if name.startswith(PREFIX):
        repository = name.removeprefix(PREFIX).partition("@")[0]
        return None if looks_like_path(repository) else repository
    return getattr(_timm_config(name), "hf_hub_id", None)


def _timm_config(name: str) -> Any:
    """What timm says of a network that it knows."""
    if name in OWN or name.startswith(PREFIX):
        return None
    import layup.compat  # noqa: F401, I001  # before timm
    import timm  # here, because it takes seconds

    try:
        return timm.get_pretrained_cfg(name, allow_unregistered=True)
    except RuntimeError:  # a name that timm does not know
        return None
