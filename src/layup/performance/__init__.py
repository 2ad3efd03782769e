"""Speed and memory, measured beside the literal procedure in one run: what `layup bench` shows.

`timing` times things in turn; `sample` makes features to learn; `literal` is the twin to beat, `oracle` says
what is right. `search`, `streaming`, `runs`, `sweep` and `growth` each measure one thing as rows of numbers,
and a `Report` (`report`) is such rows as a table, with what they were measured on.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
