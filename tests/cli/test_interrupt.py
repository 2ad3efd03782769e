from __future__ import annotations

import signal
import time

import pytest

from layup.cli.interrupt import Interrupt


class Last:
    """Is interrupted at the end of its life, where Python ignores what is raised."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_ignores_is_raised_at_the_next_sleep() -> None:
    interrupt, before = Interrupt(), signal.getsignal(signal.SIGINT)
    interrupt.sleep(0.0)
    with interrupt:
        last = Last()
        del last
        with pytest.raises(KeyboardInterrupt):
            interrupt.sleep(60.0)
    assert signal.getsignal(signal.SIGINT) == before


def test_it_is_raised_at_once_where_python_does_not() -> None:
    with Interrupt(), pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
