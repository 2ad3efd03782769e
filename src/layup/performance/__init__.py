"""Speed and memory, measured in one run with the literal procedure: what `layup bench` shows.

`timing` times things in turn; `sample` generates features; `literal` is the procedure to compare with, and
`oracle` the exact result. `search`, `streaming`, `runs`, `sweep` and `growth` each measure one thing as rows
of numbers; a `Report` (`report`) shows such rows as a table, with the machine they were measured on.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
