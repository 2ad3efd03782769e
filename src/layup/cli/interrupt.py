"""Ctrl-C that is never lost."""

from __future__ import annotations

import signal
import time
from typing import Any


class Interrupt:
    """Within its `with` block, Ctrl-C raises `KeyboardInterrupt` at once, and again at the next `sleep`.

    Python ignores exceptions where an object's life ends: what was raised there alone would be lost.
    """

    def __init__(self) -> None:
        self._pressed = False

    def sleep(self, seconds: float) -> None:
        """As `time.sleep`, if Ctrl-C was not pressed before."""
        if self._pressed:
            raise KeyboardInterrupt
        time.sleep(seconds)

    def __enter__(self) -> None:
        self._before = signal.signal(signal.SIGINT, self._press)

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _press(self, *_: Any) -> None:
        self._pressed = True
        raise KeyboardInterrupt
