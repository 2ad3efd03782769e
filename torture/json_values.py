"""JSON values turned into ones that nobody wrote: other types, other numbers, gone, twice, or without end."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

KeyPath = tuple[str | int, ...]
"""How to get to a value inside others: keys and indices."""


class Raw(str):
    """Text that stands in a file as it is, where a value should be."""

    __slots__ = ()


class Twice(list[tuple[str, Any]]):
    """An object some of whose keys are there twice."""


DEEP = 100_000
NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 2, 1.5, -0.0, 255, 2**31, 2**53 + 1, 2**62, 2**63, 2**64, -(2**63), 10**30, 10**400),
    *(1e-320, 1e-160, 1e200, 1.7e308, float("nan"), float("inf"), float("-inf")),
)
TEXTS: tuple[Any, ...] = (
    *(
        "",
        " ",
        "a",
        "nan",
        "0",
        "true",
        "None",
        "../../etc/passwd",
        "/",
        ".",
        "con",
        "a\x00b",
        "\x1b[31mred\x1b[0m",
    ),
    *("line\nline", "\r", "=1+1", "\ud800", "é", "é", "\u202egpj", "🐝" * 50, "x" * 100_000, "__class__"),
)
OTHERS: tuple[Any, ...] = (None, True, False, [], {}, [[]], [None], {"": None}, {"a": {"b": []}})
RAW = (
    Raw("[" * DEEP + "]" * DEEP),
    Raw('{"a":' * DEEP + "1" + "}" * DEEP),
    Raw("NaN"),
    Raw("-Infinity"),
    Raw("1e999999"),
    Raw("9" * 5000),
    Raw("01"),
    Raw("'a'"),
    Raw("[1,]"),
    Raw(""),
    Raw('"\\ud800"'),
    Raw("[" + ",".join("1" * 20_000) + "]"),
)


def text_of(value: Any) -> str:
    """A value as JSON, also one that is none.

    >>> text_of({"a": [1, Raw("NaN")], "b": Twice([("c", 1), ("c", 2)])})
    '{"a": [1, NaN], "b": {"c": 1, "c": 2}}'
    """
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Twice):
        return "{" + ", ".join(f"{json.dumps(key)}: {text_of(item)}" for key, item in value) + "}"
    if isinstance(value, dict):
        return text_of(Twice(value.items()))
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(text_of, value)) + "]"
    return json.dumps(value)


def paths(value: Any, here: KeyPath = ()) -> list[KeyPath]:
    """All paths in a value; of long lists, the first, the middle and the last ones."""
    found = [here]
    if isinstance(value, dict):
        inner: Sequence[str | int] = list(value)
    elif isinstance(value, list):
        inner = sorted({0, 1, len(value) // 2, len(value) - 1} & set(range(len(value))))
    else:
        inner = ()
    for key in inner:
        found += paths(value[key], (*here, key))
    return found


def mutated(value: Any, chance: Random, baits: Sequence[str] = ()) -> tuple[Any, str]:
    """A copy in which one to three things are wrong, and what they are. Baits are further texts."""
    changed, said = deepcopy(value), []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        # Shallow paths are few, but as important as the many deep ones.
        candidates = paths(changed)[1:] or [()]
        depth = chance.choice(sorted({len(path) for path in candidates}))
        path = chance.choice([path for path in candidates if len(path) == depth])
        if not path:
            return chance.choice((*OTHERS, *RAW)), "all of it replaced"
        change = chance.choice(CHANGES)
        home = changed
        for key in path[:-1]:
            home = home[key]
        if isinstance(home, Twice):
            continue
        change(home, path[-1], chance, baits)
        said.append(f"{change.__name__.strip('_')} {'.'.join(map(str, path))}")
        if isinstance(home, dict) and chance.random() < 0.02:
            return _doubled(changed, path[:-1], chance), f"{', '.join(said)}, a key twice"
    return changed, ", ".join(said)


def _doubled(value: Any, path: KeyPath, chance: Random) -> Any:
    """The value, with a key of the object at a path twice."""
    if path:
        value[path[0]] = _doubled(value[path[0]], path[1:], chance)
        return value
    items = list(value.items())
    return Twice([*items, (chance.choice(items)[0] if items else "a", chance.choice((*NUMBERS, *OTHERS)))])


# ---- changes of the value at a key of a dict or list


def _replaced(home: Any, key: Any, chance: Random, baits: Sequence[str]) -> None:
    kind = chance.choice((NUMBERS, TEXTS, OTHERS, RAW, tuple(baits) or TEXTS))
    home[key] = chance.choice(kind)


def _retyped(home: Any, key: Any, chance: Random, _baits: Sequence[str]) -> None:
    value = home[key]
    ways: list[Any] = [[value], {"value": value}, str(value), [value, value], not value]
    if isinstance(value, str):
        ways += [list(value[:20]), value.upper(), value + " ", value[:-1], value + "\x00"]
    if isinstance(value, int | float):
        # A whole number may be larger than any float.
        ways += [float(value) if abs(value) < 1e300 else "1e300", str(value), bool(value)]
    home[key] = chance.choice(ways)


def _nudged(home: Any, key: Any, chance: Random, _baits: Sequence[str]) -> None:
    value = home[key]
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        home[key] = chance.choice(
            (value + 1, value - 1, -value, value * 2, value * 1000, value + 0.5, value / 3)
        )
    else:
        home[key] = chance.choice(NUMBERS)


def _removed(home: Any, key: Any, _chance: Random, _baits: Sequence[str]) -> None:
    del home[key]


def _moved(home: Any, key: Any, chance: Random, _baits: Sequence[str]) -> None:
    """Swapped with a neighbour, or under another name."""
    if isinstance(home, list):
        other = chance.randrange(len(home))
        home[key], home[other] = home[other], home[key]
    else:
        home[chance.choice((f"{key}2", key.upper(), "", "__proto__"))] = home.pop(key)


def _repeated(home: Any, key: Any, chance: Random, _baits: Sequence[str]) -> None:
    if isinstance(home, list):
        home.insert(key, deepcopy(home[key]))
    else:
        home[key] = [deepcopy(home[key]) for _ in range(chance.choice(_times(home[key])))]


def _enlarged(home: Any, key: Any, chance: Random, _baits: Sequence[str]) -> None:
    value = home[key]
    if isinstance(value, list):
        times = chance.choice((1, *_times(value)))
        home[key] = value[: len(value) // 2] if times == 1 else [deepcopy(item) for item in value * times]
    elif isinstance(value, dict):
        home[key] = {**value, chance.choice(("workers", "cache", "progress", "unknown", "")): 100_000}
    else:
        home[key] = str(value) * chance.choice(_times(value))


def _times(value: Any) -> tuple[int, ...]:
    """How often something may be there: many times if it is small, as files are not to fill the memory."""
    return (0, 2, 1000) if len(text_of(value)) < 2000 else (0, 2)


Change = Callable[[Any, Any, Random, Sequence[str]], None]
CHANGES: tuple[Change, ...] = (
    _replaced,
    _replaced,
    _retyped,
    _nudged,
    _removed,
    _moved,
    _repeated,
    _enlarged,
)
