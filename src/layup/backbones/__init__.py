"""Backbones: frozen networks that give one vector per layer.

`load_backbone` takes a name: one that comes with layup (`BACKBONES`), any of timm, or `hf:` with a model of
Hugging Face. `Backbone.from_module` takes your own network. `ENGINES` are the ways to compute them.
"""

import layup.compat  # noqa: F401  # first, for all modules here: timm imports torchvision
from layup.backbones.backbone import BATCH, Activations, Backbone, Layer, first_line
from layup.backbones.engines import EAGER, ENGINES
from layup.backbones.folding import folded
from layup.backbones.loading import BACKBONES, elsewhere, full_name, load_backbone
from layup.backbones.modules import around_same_weights
from layup.backbones.passes import Passes
from layup.backbones.pooling import Pooling
from layup.backbones.preprocessing import Preprocessing
from layup.backbones.timm_models import timm_backbone, timm_names

__all__ = [
    "BACKBONES",
    "BATCH",
    "EAGER",
    "ENGINES",
    "Activations",
    "Backbone",
    "Layer",
    "Passes",
    "Pooling",
    "Preprocessing",
    "around_same_weights",
    "elsewhere",
    "first_line",
    "folded",
    "full_name",
    "load_backbone",
    "timm_backbone",
    "timm_names",
]
