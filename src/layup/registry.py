"""Names for things that can be made, with suggestions for typos; installed packages may add names."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from layup.errors import UnknownNameError
from layup.formats import brief

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
Requirement: TypeAlias = Callable[[str, Any], object]
"""Raises an error if what a package registers under a name is not of the required kind."""

logger = logging.getLogger(__name__)

LISTED = 1000
"""How many characters of known names an error lists."""


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """The error for an unknown name: known names (of many, the first and last), and the nearest.

    >>> print(unknown_name("method", "ranpack", ["layup", "nmc", "ranpac"]))
    Unknown method 'ranpack'. Known: layup, nmc, ranpac. Did you mean 'ranpac'?
    """
    names = list(known)
    guess = difflib.get_close_matches(str(name), names, n=1)
    hint = f" Did you mean {guess[0]!r}?" if guess else ""
    listed = brief(", ".join(names), LISTED)
    return UnknownNameError(f"Unknown {kind} {brief(repr(name))}. Known: {listed}.{hint}")


def subclass_of(base: type) -> Requirement:
    """The requirement that it is a subclass of `base`, with the name that it is registered under."""

    def require(name: str, given: Any) -> None:
        if not (isinstance(given, type) and issubclass(given, base)):
            raise TypeError(f"it is not a subclass of {base.__name__}")
        if given.name != name:  # type: ignore[attr-defined]
            raise ValueError(f"it calls itself {given.name!r}")  # type: ignore[attr-defined]

    return require


class Registry(Mapping[str, Callable[..., T]], Generic[T]):
    """A mapping from name to factory, with helpful errors for unknown names.

    Installed packages add names by entry points of the `group`, if it has one (docs/extending.md). They are
    only looked up for a name that is not built in, or to list all names. Built-in names cannot be replaced. A
    plug-in that does not work is left out, with one warning that names its package.

    >>> shapes = Registry("shape")
    >>> @shapes.register("square")
    ... def square():
    ...     return 4
    >>> shapes["square"]()
    4
    """

    def __init__(self, kind: str, group: str | None = None, require: Requirement | None = None) -> None:
        self.kind = kind
        self.group = group
        self._require = require
        self._factories: dict[str, Callable[..., T]] = {}
        self._found: dict[str, EntryPoint] | None = None  # None: not looked up yet
        self._loaded: dict[str, Callable[..., T]] = {}

    def register(self, name: str) -> Callable[[Callable[..., T]], Callable[..., T]]:
        """Decorate a factory to register it under `name`, as built in."""

        def enter(factory: Callable[..., T]) -> Callable[..., T]:
            self._factories[name] = factory
            return factory

        return enter

    def __getitem__(self, name: str) -> Callable[..., T]:
        factory = self._factory(name)
        if factory is None:
            raise unknown_name(self.kind, name, [*self._factories, *self._plugins])
        return factory

    def __contains__(self, name: object) -> bool:
        return self._factory(name) is not None

    def __iter__(self) -> Iterator[str]:
        yield from self._factories
        yield from [name for name in list(self._plugins) if self._factory(name) is not None]

    def __len__(self) -> int:
        return len(list(iter(self)))

    @property
    def built_in(self) -> tuple[str, ...]:
        """The names that come with layup."""
        return tuple(self._factories)

    @property
    def packages(self) -> dict[str, str]:
        """The names that installed packages add, and the package of each. Nothing is loaded."""
        return {name: _package(point) for name, point in self._plugins.items()}

    def is_loaded(self, name: str) -> bool:
        """Whether the name is built in, or was loaded by this process."""
        return name in self._factories or name in self._loaded

    @property
    def _plugins(self) -> dict[str, EntryPoint]:
        """The names that installed packages add, without loading them; those that failed are removed."""
        if self._found is None:
            from importlib.metadata import entry_points  # here, because it is slow

            self._found = {}
            given = entry_points(group=self.group) if self.group else ()
            for point in sorted(given, key=lambda point: (point.name, _package(point))):
                if point.name in self._factories:
                    self._leave_out(point, "layup itself has one of that name")
                elif point.name in self._found:
                    other = _package(self._found[point.name])
                    self._leave_out(point, f"the package {other!r} has one of that name, too")
                else:
                    self._found[point.name] = point
        return self._found

    def _factory(self, name: object) -> Callable[..., T] | None:
        """What is registered under this name; loads a plug-in."""
        for factories in (self._factories, self._loaded):
            if name in factories:
                return factories[name]
        if not isinstance(name, str) or (point := self._plugins.get(name)) is None:
            return None
        try:
            factory = point.load()
            if self._require is not None:
                self._require(name, factory)
        except (Exception, SystemExit) as error:  # importing a plug-in may raise anything
            self._plugins.pop(name, None)
            self._leave_out(point, f"{type(error).__name__}: {error}")
            return None
        self._loaded[name] = factory
        return factory  # type: ignore[no-any-return]

    def _leave_out(self, point: EntryPoint, why: str) -> None:
        logger.warning(
            "The %s %r of the installed package %r is left out: %s.",
            self.kind,
            point.name,
            _package(point),
            brief(why).rstrip("."),
        )


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module
