"""How many images have passed through a network."""

from __future__ import annotations

import threading
from dataclasses import dataclass

_counting = threading.Lock()  # not in a counter: counters can be copied


@dataclass
class Passes:
    """How many images have passed through a backbone: to be read, and in training. Threads may share one.

    Training includes the held-out images that measure it.

    >>> passes = Passes()
    >>> passes.count(3, training=False)
    >>> passes
    Passes(reading=3, training=0)
    """

    reading: int = 0
    training: int = 0

    def count(self, images: int, *, training: bool) -> None:
        """Count more images."""
        with _counting:
            if training:
                self.training += images
            else:
                self.reading += images
