"""The labels of classes: any sortable values of one type, kept sorted, each once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from layup.errors import ForgetError, InputError, MismatchError
from layup.registry import unknown_name

Label: TypeAlias = Hashable
T = TypeVar("T")


def united(labels: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """All labels of both, without duplicates, sorted.

    >>> united(["cat", "dog"], ["ant", "dog"])
    ['ant', 'cat', 'dog']
    """
    try:
        return sorted({*labels, *others})
    except TypeError:
        raise MismatchError(
            f"Labels of one model must be of one type, unlike {list(labels[:2])} and {list(others[:2])}."
        ) from None


def distinct(labels: NDArray[Any]) -> tuple[list[Any], NDArray[np.int64]]:
    """The labels of a batch, sorted, and the index of each sample's."""
    try:
        names, index = np.unique(labels, return_inverse=True)
    except TypeError:
        raise InputError(
            f"Labels of one batch must be of one type, not a mix: {labels.tolist()[:4]}."
        ) from None
    return names.tolist(), index


def moved(parts: Mapping[Any, T], old: Label, new: Label, both: Callable[[T, T], T]) -> dict[Any, T]:
    """The parts by label, sorted, with that of `old` under `new`; `both` adds it to one that is there.

    >>> moved({"cat": 1, "dog": 2, "kitten": 4}, "kitten", "cat", int.__add__)
    {'cat': 5, 'dog': 2}
    """
    if old not in parts:
        raise unknown_class(old, [*parts])
    rest, name = {label: part for label, part in parts.items() if label != old}, np.asarray(new).item()
    found = {**rest, name: both(rest[name], parts[old]) if name in rest else parts[old]}
    return {label: found[label] for label in united([*rest], [name])}


def require_learned(part: Mapping[Any, int], learned: Mapping[Any, int]) -> None:
    """Refuse to forget more samples of a class than were learned."""
    for label, count in part.items():
        if (have := learned.get(label, 0)) < count:
            reason = f"only {have} were learned" if have else "that class was never learned"
            images = "1 image" if count == 1 else f"{count} images"
            raise ForgetError(f"Cannot forget {images} of {label!r}: {reason}.")


def require_writable(labels: Iterable[Any]) -> None:
    """Refuse labels that no file can hold."""
    for label in labels:
        if not isinstance(label, str | int | float | bool):
            raise InputError(f"Cannot save the label {label!r}: labels in files are strings or numbers.")


def unknown_class(label: Label, known: Sequence[Any]) -> ForgetError:
    """The error for a class that was never learned, with the nearest one.

    >>> print(unknown_class("tabbi", ["dog", "tabby"]))
    Unknown class 'tabbi'. Known: dog, tabby. Did you mean 'tabby'?
    """
    return ForgetError(str(unknown_name("class", str(label), [str(each) for each in known])))
