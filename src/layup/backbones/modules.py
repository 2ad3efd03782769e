"""Trees of modules: reading outputs inside of them, and making others with the same weights."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain
from typing import Any, TypeVar

from torch import Tensor, nn

T = TypeVar("T")

# Hooks stay on the shared modules during a forward pass, where another thread's pass would also trigger
# them. One pass keeps the whole device busy, so one pass at a time costs nothing.
_one_pass_at_a_time = threading.Lock()


def read(network: nn.Module, readers: Mapping[str, Callable[[object], T]], batch: Tensor) -> dict[str, T]:
    """Each reader's result for the output of the module of its name, in one forward pass.

    A module that runs twice keeps its last output.
    """
    found: dict[str, T] = {}

    def keep(name: str, reader: Callable[[object], T]) -> Callable[[nn.Module, Any, Any], None]:
        def hook(_module: nn.Module, _inputs: Any, output: Any) -> None:
            found[name] = reader(output)

        return hook

    with _one_pass_at_a_time:
        # Looked up by name each time, so that a module wrapped later is read with its wrapping.
        handles = [
            network.get_submodule(name).register_forward_hook(keep(name, reader))
            for name, reader in readers.items()
        ]
        try:
            network(batch)
        finally:
            for handle in handles:
                handle.remove()
    return found


@contextmanager
def weighed(network: nn.Module) -> Iterator[Callable[[], int]]:
    """Watch the passes in the block; yields a function: the bytes of the largest input plus output so far."""
    largest = 0

    def hook(_module: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal largest
        tensors = [each for each in (*inputs, output) if isinstance(each, Tensor)]
        largest = max(largest, sum(each.nbytes for each in tensors))

    handles = [module.register_forward_hook(hook) for module in network.modules()]
    try:
        yield lambda: largest
    finally:
        for handle in handles:
            handle.remove()


def around_same_weights(network: nn.Module) -> nn.Module:
    """A new tree of modules around the same weights; the network itself gets none of the wrappers."""
    tensors = chain(network.parameters(), network.buffers())
    return deepcopy(network, {id(tensor): tensor for tensor in tensors})
