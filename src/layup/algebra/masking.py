"""Sums as whole numbers modulo 2⁶⁴, and masks that cancel when they are added up.

Exact sums are whole multiples of their units (`steps`), so they can be written as whole numbers. Modulo 2⁶⁴,
a number plus a random one (each of the 2⁶⁴ as likely) is a random one: alone it says nothing. Two sites that
share a secret draw the same random numbers from it; one adds them, the other subtracts them. In the sum of
all sites every mask is gone, to the bit, which masks on floating-point numbers would not be.

Each value of a site's sums is at most 2⁵² units (`steps`), so those of `SITES` sites are at most 2⁶²: their
sum modulo 2⁶⁴, read as a signed number, is their sum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from layup.algebra.labels import Label
from layup.algebra.statistics import GramStatistics
from layup.algebra.steps import FULL, Steps
from layup.algebra.symmetric import Triangle, triangle_size
from layup.errors import InputError

Words: TypeAlias = NDArray[np.uint64]
"""Whole numbers modulo 2⁶⁴: arrays of them wrap around when they are added."""
SITES = 2**10
"""How many sites may be added up."""
SECRET = 32
"""Bytes of a secret."""


def mask(secret: bytes, purpose: str, size: int) -> Words:
    """Random words that two sites can make alike, and nobody else: SHAKE-256 of their secret and the purpose.

    A purpose must be used once: two sums under the same mask give their difference away.

    >>> first, second = (mask(bytes(32), name, 3) for name in ("spring", "autumn"))
    >>> (first == mask(bytes(32), "spring", 3)).all(), (first == second).any()
    (np.True_, np.False_)
    """
    # Of one length, so that no other secret and purpose have the same bytes.
    if not isinstance(secret, bytes) or len(secret) != SECRET:
        found = f"{len(secret)}" if isinstance(secret, bytes) else f"a {type(secret).__name__}"
        raise InputError(f"A secret must be {SECRET} bytes, not {found}: secrets.token_bytes({SECRET}).")
    return np.frombuffer(hashlib.shake_256(secret + purpose.encode()).digest(8 * size), "<u8")


def words_of(sums: GramStatistics, classes: Sequence[Label]) -> Words:
    """Exact sums as whole numbers of their units: G, then c and n of each class, zeros if it has no sample.

    >>> sums = GramStatistics(2, steps={"features": -1})
    >>> sums.update([[1.5, -0.5]], ["dog"])
    >>> words_of(sums, ["cat", "dog"]).view(np.int64).tolist()
    [9, -3, 1, 0, 0, 3, -1, 0, 1]
    """
    steps, index = _steps_of(sums), {label: number for number, label in enumerate(classes)}
    if strange := [label for label in sums.labels if label not in index]:
        raise InputError(
            f"{_named(strange)} not among the {len(classes)} classes that were agreed on. "
            "Agree on all classes, or rename or forget these first."
        )
    if sums.leftover:
        raise InputError(
            f"G still holds {sums.leftover:,} images of classes that were forgotten without their images. "
            "Learn the others in a new model."
        )
    gram = sums.state()[1]["gram"] / steps.units
    rows, counts = np.zeros((len(classes), sums.dim)), np.zeros(len(classes))
    at = [index[label] for label in sums.labels]
    rows[at], counts[at] = sums.prototypes / steps.columns, sums.counts
    return np.concatenate([gram, rows.ravel(), counts]).astype(np.int64).view(np.uint64)


def sums_of(words: Words, like: GramStatistics, classes: Sequence[Label]) -> GramStatistics:
    """The inverse of `words_of`, for sums like these.

    Refuses sums that no samples can have, or that are too large to be exact. Costs d³/3 operations.
    """
    steps, wide = _steps_of(like), triangle_size(like.dim)
    values = words.view(np.int64).astype(np.float64)
    gram, rows, counts = np.split(values, [wide, wide + len(classes) * like.dim])
    gram, rows = gram * steps.units, rows.reshape(len(classes), like.dim) * steps.columns
    steps.require_room(Triangle.from_packed(gram, like.dim))
    seen = counts != 0
    header = like.empty().state()[0] | {
        "labels": [label for label, count in zip(classes, counts, strict=True) if count],
        "counts": [int(count) for count in counts[seen]],
    }
    try:
        if np.abs(values).max() > FULL:
            raise ValueError("they are larger than any that are exact")
        if rows[~seen].any():
            raise ValueError("a class without images has a sum")
        return GramStatistics.from_state(header, {"prototypes": rows[seen], "gram": gram})
    except ValueError as error:
        raise InputError(f"No images can have these sums ({error}). Nothing was changed.") from error


def words_for(like: GramStatistics, classes: int) -> int:
    """How many words the sums of so many classes take.

    >>> words_for(GramStatistics(2), 2)
    9
    """
    return triangle_size(like.dim) + classes * (like.dim + 1)


def _steps_of(sums: GramStatistics) -> Steps:
    if type(sums) is not GramStatistics or sums.steps is None:
        raise InputError(
            "Only exact sums with a G are whole numbers, and these are not: use LayUP(exact=True)."
        )
    return sums.steps


def _named(labels: Sequence[Label]) -> str:
    """The first of some labels, and a verb.

    >>> _named(["cat"]), _named(["cat", "dog", "eel"])
    ("'cat' is", "'cat' and 2 others are")
    """
    others = len(labels) - 1
    return f"{labels[0]!r} is" if not others else f"{labels[0]!r} and {others} others are"
