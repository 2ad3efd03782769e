"""Checks of plain values from a file: types, bounds and fields, with a message that says what is wrong.

A shape is a `Rule`, a dict of the shapes of its fields, or a list with the one shape that all items have.
Fields whose name ends in "?" may be missing; unknown fields are refused.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from layup.formats import brief, has_controls

Shape: TypeAlias = "Rule | Mapping[str, Shape] | list[Shape]"


@dataclass(frozen=True)
class Rule:
    """What a value must be, in words, and a check."""

    words: str
    holds: Callable[[Any], bool]

    def or_none(self) -> Rule:
        """The same, or null."""
        return Rule(f"{self.words}, or null", lambda value: value is None or self.holds(value))

    def __or__(self, other: Rule) -> Rule:
        return Rule(f"{self.words}, or {other.words}", lambda value: self.holds(value) or other.holds(value))


def require(value: Any, shape: Shape, name: str) -> None:
    """Refuse a value that does not have the shape, with a `ValueError` that says where and why.

    >>> require({"k": 6, "names": ["a"]}, {"k": whole(1), "names": [TEXT], "seed?": whole()}, "settings")
    >>> require({"k": 0, "names": []}, {"k": whole(1), "names": [TEXT]}, "settings")
    Traceback (most recent call last):
    ValueError: settings.k is 0, not a whole number from 1 to 9223372036854775807
    """
    if isinstance(shape, Rule):
        if not shape.holds(value):
            raise ValueError(f"{name} is {shown(value)}, not {shape.words}")
    elif isinstance(shape, list):
        if not isinstance(value, list):
            raise ValueError(f"{name} is {shown(value)}, not a list")
        for index, item in enumerate(value):
            require(item, shape[0], f"{name}[{index}]")
    else:
        _require_fields(value, shape, name)


def _require_fields(value: Any, shape: Mapping[str, Shape], name: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {shown(value)}, not a set of fields")
    known = {field.removesuffix("?"): inner for field, inner in shape.items()}
    for field in value:
        if field not in known:
            raise ValueError(f"{name} has a field {shown(field)}, which is unknown")
    for field, inner in shape.items():
        if field.removesuffix("?") in value:
            require(value[field.removesuffix("?")], inner, f"{name}.{field.removesuffix('?')}")
        elif not field.endswith("?"):
            raise ValueError(f"{name} has no field {field!r}")


def shown(value: Any) -> str:
    """Any value, shortened.

    >>> shown("x" * 1000)
    "'xxxxxxxxxxxx...xxxxxxxxxxxxx'"
    """
    return brief(reprlib.repr(value))


def whole(least: int = 0, most: int = 2**63 - 1) -> Rule:
    """A whole number; not True or False, which are numbers in Python.

    >>> whole(1).holds(1), whole(1).holds(True), whole().holds(1.0)
    (True, False, False)
    """
    return Rule(f"a whole number from {least} to {most}", lambda v: type(v) is int and least <= v <= most)


def one_of(*known: str) -> Rule:
    """One of the known words."""
    return Rule(f"one of {', '.join(known)}", lambda value: isinstance(value, str) and value in known)


def _is_number(value: Any) -> bool:
    try:
        return type(value) in (int, float) and math.isfinite(value)
    except OverflowError:  # a whole number too large for a float
        return False


NUMBER = Rule("a finite number", _is_number)
AMOUNT = Rule("a finite number ≥ 0", lambda value: _is_number(value) and value >= 0)
POSITIVE = Rule("a number > 0", lambda value: _is_number(value) and value > 0)
TRUTH = Rule("true or false", lambda value: type(value) is bool)
TEXT = Rule("text", lambda value: type(value) is str)
LABEL = Rule(
    "non-empty text without control characters",
    lambda value: type(value) is str and bool(value) and not has_controls(value),
)
NAME = Rule(f"{LABEL.words}, not too long", lambda value: LABEL.holds(value) and len(value) <= 255)
HASH = Rule(
    "a hexadecimal hash",
    lambda value: type(value) is str and 8 <= len(value) <= 128 and not {*value} - {*"0123456789abcdef"},
)
FIELDS = Rule("a set of fields", lambda value: isinstance(value, dict))


def fields_of(rule: Rule) -> Rule:
    """Any names, with values of one kind.

    >>> fields_of(NUMBER).holds({"a": 1, "b": "two"})
    False
    """
    return Rule(
        f"a set of fields, each {rule.words}",
        lambda value: isinstance(value, dict) and all(rule.holds(inner) for inner in value.values()),
    )


def listed(rule: Rule, *lengths: int) -> Rule:
    """A list of values of one kind; of one of the `lengths`, if given.

    >>> listed(NUMBER, 2).holds([1, 2.5]), listed(NUMBER, 2).holds([1])
    (True, False)
    """
    return Rule(
        f"a list of {' or '.join(map(str, lengths)) or 'any number of'} values, each {rule.words}",
        lambda value: (
            isinstance(value, list)
            and (not lengths or len(value) in lengths)
            and all(rule.holds(inner) for inner in value)
        ),
    )
