"""What `layup evaluate` checks before, leaves out, and prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from layup import storage
from layup.cli import console
from layup.errors import InputError
from layup.tables import Table

if TYPE_CHECKING:
    from layup.benchmark import Evaluation
    from layup.export import OnnxModel
    from layup.images import ImageSource
    from layup.model import ImagePredictor

PAIRS = 20
"""So many of the pairs that are confused are printed."""
NAMES = 20
"""So many classes are listed in a sentence."""


@dataclass(frozen=True)
class Outputs:
    """The files that are written: the confusion matrix, the wrong photos as CSV, and their contact sheet."""

    picture: Path
    wrong: Path | None
    sheet: Path | None

    def to_dict(self) -> dict[str, str | None]:
        """As JSON has it."""
        return {name: None if path is None else str(path) for name, path in vars(self).items()}


def outputs(model: Path, picture: Path | None, wrong: Path | None) -> Outputs:
    """The files to write, each of which can be: that is checked before hours are spent."""
    from layup.benchmark import plots

    if wrong is not None and wrong.suffix.lower() != ".csv":
        raise InputError(f"Cannot list wrong photos in '{wrong}': its name must end with .csv.")
    found = Outputs(
        picture or model.with_name(f"{model.stem}-confusion.png"),
        wrong,
        None if wrong is None else wrong.with_suffix(".png"),
    )
    if found.picture == found.sheet:
        raise InputError(
            f"'{found.sheet}' would be both the confusion matrix and the contact sheet of '{wrong}'. "
            "Choose another name for one of them."
        )
    if picture is not None or model.exists():  # otherwise it is the model that is missing
        storage.require_writable(found.picture)
    for path in filter(None, (found.wrong, found.sheet)):
        storage.require_writable(path)
    plots.require_ending(found.picture)
    return found


@dataclass(frozen=True)
class Chosen:
    """The photos to evaluate, their true classes, and how many of all were learned, if that is known."""

    photos: Sequence[ImageSource]
    labels: Sequence[str]
    learned: int | None


def chosen(
    model: ImagePredictor | OnnxModel, photos: Sequence[ImageSource], labels: Sequence[str], unseen: bool
) -> Chosen:
    """All photos, or only those that were not learned; says how many were."""
    from layup.model import ImageModel

    if not isinstance(model, ImageModel):
        if unseen:
            raise InputError(
                "A model without sums does not know which photos were learned: leave --unseen out, or give "
                "the model that it was exported from."
            )
        return Chosen(photos, labels, None)
    if unseen:
        model.knowledge.require_all_known()
    if model.photos is None:
        return Chosen(photos, labels, None)
    new = [i for i, classes in enumerate(model.learned_as(photos)) if not classes]
    learned = len(photos) - len(new)
    if not unseen:
        _warn(learned, len(photos), model.photos.unreadable)
        return Chosen(photos, labels, learned)
    if not new:
        raise InputError(
            f"All {len(photos):,} photos were learned, so --unseen leaves none to evaluate. "
            "Give photos that this model has not seen."
        )
    if learned:
        console.remark(f"Left out: {learned:,} of {len(photos):,} photos, which were learned.")
    return Chosen([photos[i] for i in new], [labels[i] for i in new], learned)


def _warn(learned: int, photos: int, unreadable: int) -> None:
    if learned:
        were, them = ("was", "it") if learned == 1 else ("were", "them")
        console.remark(
            f"{learned:,} of these {photos:,} photos {were} learned: accuracy on {them} says little. "
            f"--unseen leaves {them} out."
        )
    if unreadable:
        console.remark(
            f"The model has learned {unreadable:,} photos that it cannot recognise on this machine: "
            "they may be among these."
        )


def report(found: Evaluation, files: Outputs) -> None:
    """The classes, the worst first; what is confused most; the accuracy; and where to see more."""
    scores = [
        [label, f"{score.images:,}", f"{score.right:,}", f"{score.accuracy:.3f}"]
        for label, score in found.per_class.items()
    ]
    table = Table.of(["class", "photos", "right", "accuracy"], scores)
    console.show(replace(table, title="Classes, the worst first:"))
    if found.pairs:
        pairs = [
            [pair.truth, pair.predicted, f"{pair.count:,}", f"{pair.of:,}"] for pair in found.pairs[:PAIRS]
        ]
        table = Table.of(["truth", "prediction", "photos", "of"], pairs, texts=2)
        more = len(found.pairs) - len(pairs)
        notes = [f"… and {more:,} more pairs (--json lists all)."] if more else []
        console.show(replace(table, title="Confused most often:", notes=notes))
    low, high = found.interval
    console.say(
        f"Accuracy {found.accuracy:.3f} on {len(found.truth):,} photos "
        f"(95 % interval: {low:.3f} to {high:.3f})."
    )
    if found.unknown and found.accuracy_known_classes is not None:
        console.say(
            f"Accuracy {found.accuracy_known_classes:.3f} on the {found.images_of_known_classes:,} photos "
            "of classes that the model knows."
        )
    console.say(f"Confusion matrix: {files.picture}")
    if files.wrong is not None:
        console.say(
            f"Wrong photos ({len(found.mistakes):,}): {files.wrong}; the worst of them: {files.sheet}"
        )


def report_unknown(labels: Sequence[str]) -> None:
    """Which classes cannot be right."""
    if labels:
        more = f" and {len(labels) - NAMES:,} more" if len(labels) > NAMES else ""
        console.remark(f"Never learned, so always wrong: {', '.join(labels[:NAMES])}{more}.")
