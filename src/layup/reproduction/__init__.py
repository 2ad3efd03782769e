"""The paper's tables and figures as data: what to run, what the paper says, how to draw it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
