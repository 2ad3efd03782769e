"""Tables as values, and three ways to render them: on a terminal, as Markdown, as HTML."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
