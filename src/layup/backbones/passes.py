"""How many images have passed a network."""

from __future__ import annotations

import threading
from dataclasses import dataclass

_counting = threading.Lock()  # not in a counter: those can be copied


@dataclass
class Passes:
    """How many images a backbone has passed: to read them, and to train something. Threads may share one.

    The latter are those that were embedded in training, also to see how well it does.

    >>> passes = Passes()
    >>> passes.count(3, training=False)
    >>> passes
    Passes(reading=3, training=0)
    """

    reading: int = 0
    training: int = 0

    def count(self, images: int, *, training: bool) -> None:
        """Enter so many images."""
        with _counting:
            if training:
                self.training += images
            else:
                self.reading += images
