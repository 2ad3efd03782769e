"""Independent work on many processors: a pool of processes that Ray starts, here or on a cluster."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
