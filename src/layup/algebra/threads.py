"""Threads for small matrices: each computes with one thread of torch, and no other thread notices.

`torch.set_num_threads` sets two numbers: that of the thread that calls it, and that which every thread has
from the first time it uses torch. Here the first is wanted without the second.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

_one_change_at_a_time = threading.Lock()


def single_threads() -> ThreadPoolExecutor:
    """A pool of as many threads as torch has here, each of which computes with one.

    >>> with single_threads() as pool:
    ...     pool.submit(torch.get_num_threads).result()
    1
    """
    with _one_change_at_a_time:  # a thread that is new to torch must not begin in the midst of a change
        count = torch.get_num_threads()
    return ThreadPoolExecutor(count, initializer=_compute_alone)


def _compute_alone() -> None:
    """Have this new thread compute with one, and leave those that come after it their number."""
    with _one_change_at_a_time:
        number = torch.get_num_threads()  # that of every new thread
        torch.set_num_threads(1)
        keeper = threading.Thread(target=torch.set_num_threads, args=[number])
        keeper.start()
        keeper.join()
