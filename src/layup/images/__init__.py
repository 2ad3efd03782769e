"""Files, folders and arrays → RGB images, with an error for every way in which one can be bad."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
