"""Adapters: small sets of parameters that the first session tunes inside a frozen backbone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from layup.adapters.adapted import AdaptedBackbone
from layup.adapters.adapter import Adapter
from layup.adapters.adaptformer import AdaptFormer
from layup.adapters.full import Full
from layup.adapters.lora import LoRA
from layup.adapters.ssf import SSF
from layup.adapters.transformers import has_reachable_mlps
from layup.adapters.vpt import VPT
from layup.backbones import Backbone, Preprocessing
from layup.errors import ConsentError, InputError
from layup.formats import brief
from layup.registry import Registry, subclass_of, unknown_name

ADAPTERS: Registry[Adapter] = Registry("adapter", "layup.adapters", subclass_of(Adapter))
for _adapter in (AdaptFormer, SSF, VPT, LoRA, Full):
    ADAPTERS.register(_adapter.name)(_adapter)


def adapter_from(values: Mapping[str, Any]) -> Adapter:
    """The adapter with this name and these settings: the inverse of `to_dict`.

    Such values come from files, and a file must not load a plug-in: the user has to load it by name first.

    >>> adapter_from({"name": "vpt", "tokens": 10})
    VPT(tokens=10, depth='deep', start='uniform')
    """
    settings = dict(values)
    name = settings.pop("name")
    if not ADAPTERS.is_loaded(name) and (package := ADAPTERS.packages.get(name)):
        raise ConsentError(
            f"The adapter {name!r} comes from the installed package {package!r}, which no file may load. If "
            f"you know where the file comes from, load it first: layup.adapters.ADAPTERS[{name!r}].",
            about="allow_backbone",
        )
    make = ADAPTERS[name]
    usual = {setting: value for setting, value in make().to_dict().items() if setting != "name"}
    for setting, value in settings.items():
        if setting not in usual:
            raise unknown_name(f"setting of {name!r}", setting, usual)
        like = (int, float) if isinstance(usual[setting], float) else type(usual[setting])
        if not isinstance(value, like) or (isinstance(value, bool) and like is not bool):
            raise InputError(
                f"{name} with {setting} = {brief(repr(value))} is impossible. Usual is {usual[setting]!r}."
            )
    return make(**settings)


def reattached(base: Backbone, values: Mapping[str, Any], state: Mapping[str, Tensor]) -> AdaptedBackbone:
    """The backbone with a saved adapter in it: from what `to_dict` and `state` returned."""
    adapted = AdaptedBackbone(
        base,
        adapter_from(values["adapter"]),
        preprocessing=Preprocessing.from_dict(values["preprocessing"]),
    )
    adapted.load_state(state)
    adapted.record = values["record"]
    return adapted


def usual_adapter(network: nn.Module) -> str:
    """The name of the default adapter for a network, by its architecture.

    >>> from layup.backbones import load_backbone
    >>> usual_adapter(load_backbone("vit-nano").network), usual_adapter(load_backbone("bundled").network)
    ('adaptformer', 'ssf')
    """
    return AdaptFormer.name if has_reachable_mlps(network) else SSF.name


__all__ = [
    "ADAPTERS",
    "SSF",
    "VPT",
    "AdaptFormer",
    "AdaptedBackbone",
    "Adapter",
    "Full",
    "LoRA",
    "adapter_from",
    "reattached",
    "usual_adapter",
]
