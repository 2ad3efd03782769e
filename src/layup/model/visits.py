"""Reading images one batch at a time: what was seen of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

from layup.errors import BadImageError, InputError
from layup.features import BadImage, FeatureSource, Rows
from layup.images import ImageSource, chosen, described

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Seen:
    """Of the images that were to be read: which could be used, by their turn, and which could not."""

    turns: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    bad: list[BadImage] = field(default_factory=list)


def visit(
    source: FeatureSource,
    images: Sequence[ImageSource],
    indices: Sequence[int],
    take: Callable[[Rows, list[int]], object],
    *,
    expected: Sequence[bytes | None] | None = None,
    strict: bool,
    title: str,
) -> Seen:
    """Hand over the features of the images at these indices, and whose turn they are, batch by batch.

    The turn of an image is its place among the indices. With `strict`, the first bad image is an error.

    expected: the digest that each image had when it was decided what to do with it. A file that was replaced
    since then is bad: what is learned of it must be what is known of it.
    """
    seen = Seen()
    for part in source.stream(chosen(images, indices), title):
        turns = part.kept.tolist()
        same = [expected is None or expected[t] == d for t, d in zip(turns, part.digests, strict=True)]
        changed = [
            BadImage(turn, f"Cannot use {described(images[indices[turn]])}: it changed while it was read.")
            for turn, is_same in zip(turns, same, strict=True)
            if not is_same
        ]
        bad = sorted([*part.bad, *changed], key=lambda each: each.index)
        seen.bad.extend(replace(each, index=indices[each.index]) for each in bad)
        if strict and seen.bad:
            raise BadImageError(seen.bad[0].reason)
        turns = [*compress(turns, same)]
        take(part.rows[same] if changed else part.rows, turns)
        seen.turns.extend(turns)
        seen.digests.extend(compress(part.digests, same))
    if seen.bad:
        first = seen.bad[0].reason
        logger.warning("Skipped %d of %d images. The first: %s", len(seen.bad), len(indices), first)
    return seen


def none_usable(given: int, bad: Sequence[BadImage]) -> InputError:
    """The error for images of which none could be used."""
    first = f" The first: {bad[0].reason}" if bad else ""
    return InputError(f"None of the {given} given images can be used.{first}")
