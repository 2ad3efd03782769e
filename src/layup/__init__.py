"""Teach a frozen pre-trained network new classes, one after another.

No forgetting, no training, no stored images.

>>> import layup
>>> model = layup.LayUP("vit-nano", lam="gcv")
"""

import lazy_loader

__version__ = "0.2.0"

# Loaded on first use: `layup.storage` and `layup --help` must work without waiting for PyTorch.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
