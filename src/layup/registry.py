"""Names for things that can be made, with a guess at what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from layup.errors import UnknownNameError
from layup.formats import brief

T = TypeVar("T")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for a name that nobody registered: what is known, and the nearest of it.

    >>> print(unknown_name("method", "ranpack", ["layup", "nmc", "ranpac"]))
    Unknown method 'ranpack'. Known: layup, nmc, ranpac. Did you mean 'ranpac'?
    """
    names = list(known)
    guess = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {guess[0]!r}?" if guess else ""
    return UnknownNameError(f"Unknown {kind} {brief(repr(name))}. Known: {', '.join(names)}.{hint}")


class Registry(Mapping[str, Callable[..., T]], Generic[T]):
    """A mapping from name to factory whose misses are helpful.

    >>> shapes = Registry("shape")
    >>> @shapes.register("square")
    ... def square():
    ...     return 4
    >>> shapes["square"]()
    4
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._factories: dict[str, Callable[..., T]] = {}

    def register(self, name: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Decorate a factory to enter it under `name`."""

        def enter(factory: Callable[..., T]) -> Callable[..., T]:
            self._factories[name] = factory
            return factory

        return enter

    def __getitem__(self, name: str) -> Callable[..., T]:
        if name not in self._factories:
            raise unknown_name(self.kind, name, self._factories)
        return self._factories[name]

    def __contains__(self, name: object) -> bool:
        return name in self._factories

    def __iter__(self) -> Iterator[str]:
        return iter(self._factories)

    def __len__(self) -> int:
        return len(self._factories)
