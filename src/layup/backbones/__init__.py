"""Backbones: frozen networks that give one vector per layer.

`load_backbone` takes a name: one that comes with layup (`BACKBONES`), any of timm, or `hf:` with a model of
Hugging Face. `Backbone.from_module` takes your own network. `ENGINES` are the ways to compute them.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
