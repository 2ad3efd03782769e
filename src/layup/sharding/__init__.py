"""One model from many machines: a plan cut into slices, a file of sums for each, and their union."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
