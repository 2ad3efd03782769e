"""What commands print about a model after a change: the batch, the log, and how good it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from layup.cli import console
from layup.formats import plural

if TYPE_CHECKING:
    from pathlib import Path

    from layup.images import ImageSource
    from layup.model import BatchReport, Conflict, Entry, ImageModel

FEW = 10
"""Conflicts, missing photos and classes that are named one by one."""


def batch(done: BatchReport, model: ImageModel, images: Sequence[ImageSource], planned: bool = False) -> None:
    """What a batch changed, or is planned to change, class by class, and what it left out."""
    if done.changed:
        _changes(done, _after(done, model.counts_) if planned else model.counts_)
    new = sum(done.learned.values()) - done.moved
    gone = sum(done.forgotten.values()) - done.moved
    counts = {"new": new, "known": done.known, "moved": done.moved, "forgotten": gone}
    always = "new" if done.learned or not done.forgotten else None
    words = [f"{count:,} {what}" for what, count in counts.items() if count or what == always]
    console.say(f"{', '.join(words)}.")
    conflicts(done.conflicts, images)
    _listed(done.missing, "cannot be forgotten, because the cache does not have the features")
    if done.kept:
        console.remark(
            f"{plural(done.kept, 'photo')} no longer in the folder, but kept: there are files that cannot be "
            "read, which may be these."
        )
    if not done.exact and done.learned == done.forgotten == {}:
        console.remark("The Gram matrix still holds photos of a class that was forgotten without them.")
    if done.missing:
        console.remark(
            "Give these photos to `layup forget`. Or make a new model of the folder: that is fast, because "
            "the features of all other photos are in the cache."
        )
    console.report_bad(done.bad, images)


def _after(done: BatchReport, counts: Mapping[str, int]) -> Mapping[str, int]:
    return Counter(counts) + Counter(done.learned) - Counter(done.forgotten)


def _changes(done: BatchReport, totals: Mapping[str, int]) -> None:
    rows = [
        [
            label,
            *(f"{counts.get(label, 0):,}" for counts in (done.learned, done.forgotten)),
            f"{totals.get(label, 0):,}",
        ]
        for label in sorted({*done.learned, *done.forgotten})
    ]
    if done.forgotten and done.learned:
        console.table(["class", "learned", "forgotten", "now holds"], rows)
    else:
        verb, column = ("forgotten", 2) if done.forgotten else ("learned", 1)
        console.table(["class", verb, "now holds"], [[row[0], row[column], row[3]] for row in rows])


def known_as_others(found: Sequence[Conflict], images: Sequence[ImageSource], left: str) -> None:
    """Photos that are known as another class than they are given as, and how they were left."""
    _listed(
        [f"{images[each.index]!s}: given as {each.label}, known as {each.other}" for each in found],
        f"known as another class, and {left}",
    )


def conflicts(found: Sequence[Conflict], images: Sequence[ImageSource]) -> None:
    """Photos that were not learned, because they are known, or given as well, as another class."""
    known = [each for each in found if each.twin is None]
    known_as_others(known, images, "left so (--relabel moves photos)")
    _listed(
        [
            f"{images[each.twin]!s} and {images[each.index]!s}"
            for each in found
            if each.twin is not None and each.twin < each.index
        ],
        "given as two classes, and left out; delete one of the two files",
    )


def _listed(lines: Sequence[str], what: str) -> None:
    if lines:
        console.remark(f"{plural(len(lines), 'photo')} {what}:")
        for line in lines[:FEW]:
            console.remark(f"  {line}")
        if len(lines) > FEW:
            console.remark(f"  … and {len(lines) - FEW:,} more.")


def log(entries: Sequence[Entry]) -> None:
    """One row per entry, the oldest first."""
    rows = []
    for number, entry in enumerate(entries, start=1):
        changed = [f"+{sum(entry.learned.values()):,}"] if entry.learned else []
        changed += [f"−{sum(entry.forgotten.values()):,}"] if entry.forgotten else []
        lam = entry.chosen.get("lambda")
        rows.append(
            [
                str(number),
                entry.date[:16].replace("T", " "),
                entry.action,
                entry.note or _named(sorted({*entry.learned, *entry.forgotten})),
                " ".join(changed),
                "" if lam is None else f"{lam:g}",
                "" if entry.expected is None else interval(entry.expected),
            ]
        )
    console.table(["#", "date (UTC)", "what", "classes", "photos", "λ", "accuracy to expect"], rows, texts=4)


def _named(labels: Sequence[str], most: int = 4) -> str:
    """A few labels, and how many more there are.

    >>> _named(["ant", "bee", "cat", "dog", "eel", "fox"])
    'ant, bee, cat, dog and 2 more'
    """
    shown = ", ".join(labels[:most])
    return f"{shown} and {len(labels) - most:,} more" if len(labels) > most else shown


def interval(expected: Mapping[str, Any]) -> str:
    """An accuracy with its interval.

    >>> interval({"accuracy": 0.93, "low": 0.9, "high": 0.951, "tested": 600})
    '0.930 (0.900 to 0.951)'
    """
    return f"{expected['accuracy']:.3f} ({expected['low']:.3f} to {expected['high']:.3f})"


def expectation(expected: Mapping[str, Any] | None, log: Sequence[Entry]) -> None:
    """How often a model will be right, and which classes need more photos."""
    if expected is None:
        if log:
            console.say(
                "Accuracy to expect: not known. It takes photos of every class that count once, with their "
                "features in the cache."
            )
        return
    low, high, tested = expected["low"], expected["high"], plural(expected["tested"], "photo")
    console.say(
        f"Accuracy to expect on photos like these: {expected['accuracy']:.3f} (95 % interval: {low:.3f} to "
        f"{high:.3f}), from {tested}, each predicted by a model without it. With few photos per class, this "
        "is rather too low."
    )
    if labels := expected["needs_more"]:
        console.say(f"Classes that need more photos (few, or often wrong): {_named(labels, FEW)}.")


def saved(path: Path, model: ImageModel) -> None:
    """What a model knows after a change, and how good it is."""
    from layup.model import last_expected

    console.knowledge(path, model.counts_, model.classifier_.chosen())
    expectation(last_expected(model.log), model.log)


def unchanged(path: Path, header: Mapping[str, Any]) -> None:
    """That a model knows all photos that were given, and how good it is."""
    from layup.model import Entry, last_expected

    counts = dict(zip(header["labels"], header["counts"], strict=True))
    console.say(f"0 new, {sum(counts.values()):,} known.")
    console.knowledge(path, counts, header["chosen"])
    log = [Entry.from_dict(entry) for entry in header["log"]]
    expectation(last_expected(log), log)
