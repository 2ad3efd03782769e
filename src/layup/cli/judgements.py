"""What `layup audit` writes and prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from layup import storage
from layup.cli import console, reports
from layup.errors import InputError
from layup.formats import plural
from layup.tables import Table

if TYPE_CHECKING:
    from layup.benchmark import Mistake
    from layup.images import ImageSource
    from layup.model import Audit

FIRST = 20
"""So many of each list are printed."""


def require_files(sheet: Path | None, move: Path | None) -> None:
    """Refuse files that cannot be written, before hours are spent."""
    for path, ending, what in ((sheet, ".png", "draw a contact sheet"), (move, ".csv", "list photos")):
        if path is not None:
            if path.suffix.lower() != ending:
                raise InputError(f"Cannot {what} in '{path}': its name must end with {ending}.")
            storage.require_writable(path)


def mistakes(found: Audit, images: Sequence[ImageSource]) -> list[Mistake]:
    """Suspects as a contact sheet shows them: the given label is the truth, the suggested the prediction."""
    from layup.benchmark import Mistake

    return [
        Mistake(images[each.index], each.label, each.suggested, each.score, each.score - each.margin)
        for each in found.suspects
    ]


def manifest(found: Audit, images: Sequence[ImageSource], labels: Sequence[str]) -> str:
    """All photos with the suggested labels: first the suspects, the surest first, with what they were."""
    from layup.images import manifest_text

    margins = {each.index: f"{each.margin:.4f}" for each in found.suspects}
    order = [*margins, *(index for index in range(len(images)) if index not in margins)]
    suggested = found.suggested(labels)
    more = {
        "was": [labels[index] if index in margins else "" for index in order],
        "margin": [margins.get(index, "") for index in order],
    }
    return manifest_text([images[index] for index in order], [suggested[index] for index in order], more)


def report(found: Audit, images: Sequence[ImageSource]) -> None:
    """The first of each list, and how good the model is without each photo."""
    _listed(
        "Labels that are probably wrong, the surest first:",
        ["photo", "label", "suggested", "margin"],
        [
            [str(images[each.index]), each.label, each.suggested, f"{each.margin:.2f}"]
            for each in found.suspects
        ],
    )
    _listed(
        "Photos that are nearly the same, the most alike first:",
        ["photo", "nearly the same as", "labels", "likeness"],
        [
            [
                str(images[each.index]),
                str(images[each.twin]),
                f"{each.twin_label} and {each.label}" if each.across else each.label,
                f"{each.likeness:.3f}",
            ]
            for each in found.duplicates
        ],
    )
    if found.redundant:
        console.say(
            f"Photos that teach nothing: {len(found.redundant):,}. Each is nearly the same as another of its "
            "class, and predicted right without itself (--json lists them)."
        )
    if found.expected is not None:
        reports.expectation(found.expected.to_dict(), [])


def _listed(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        console.say(f"{title} none.")
        return
    more = len(rows) - FIRST
    notes = [f"… and {more:,} more (--json lists all)."] if more > 0 else []
    console.show(replace(Table.of(columns, rows[:FIRST], texts=3), title=title, notes=notes))


def report_files(found: Audit, model: Path, sheet: Path | None, move: Path | None) -> None:
    """Where to see more, and what to do next."""
    if sheet is not None:
        console.say(f"The labels that are most probably wrong: {sheet}")
    if move is not None:
        console.say(
            f"All photos, {len(found.suspects):,} of them with another label than before, the surest first: "
            f"{move}. Look through it, then: layup sync {move} --to {model}"
        )


def report_left_out(found: Audit, images: Sequence[ImageSource]) -> None:
    """Which photos were not judged, and why."""
    if found.unknown:
        console.remark(f"Left out: {plural(found.unknown, 'photo')} that the model has not learned.")
    if found.alone:
        console.remark(
            f"Not judged, being the only one of its class: {plural(found.alone, 'photo')}. Without it there "
            "is nothing to predict."
        )
    reports.known_as_others(found.conflicts, images, "not judged")
    console.report_bad(found.bad, images)
