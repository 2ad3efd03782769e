"""Threads for small matrices: each computes with one thread of torch, without changing other threads.

`torch.set_num_threads` sets two numbers: that of the calling thread, and that of every thread that later uses
torch for the first time. Only the first is wanted here.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import torch

_one_change_at_a_time = threading.Lock()


def single_threads() -> ThreadPoolExecutor:
    """A pool of as many threads as torch has here, each of which computes with one torch thread.

    >>> with single_threads() as pool:
    ...     pool.submit(torch.get_num_threads).result()
    1
    """
    with _one_change_at_a_time:  # a thread that is new to torch must not begin during a change
        count = torch.get_num_threads()
    return ThreadPoolExecutor(count, initializer=_compute_alone)


def _compute_alone() -> None:
    """Let this new thread compute with one torch thread, and keep the number for later threads."""
    with _one_change_at_a_time:
        number = torch.get_num_threads()  # the number for every new thread
        torch.set_num_threads(1)
        keeper = threading.Thread(target=torch.set_num_threads, args=[number])
        keeper.start()
        keeper.join()
