"""What leaves a model: photos that are given, a class, or the last batch; with features from the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layup.errors import BadImageError, InputError
from layup.features import BadImage
from layup.images import ImageSource, described, open_image
from layup.model.knowledge import Knowledge
from layup.model.known import BYTES
from layup.model.log import require_undoable
from layup.model.outcome import counted
from layup.model.parts import Parts
from layup.model.photo_features import PhotoFeatures
from layup.model.plan import rows_to_forget
from layup.model.reports import BatchReport
from layup.model.visits import none_usable


def forget_photos(
    knowledge: Knowledge,
    features: PhotoFeatures,
    images: Sequence[ImageSource],
    labels: Sequence[str] | None,
    *,
    strict: bool,
) -> BatchReport:
    """Subtract photos, of those with these labels if given, and delete their cached features."""
    photos = knowledge.recognised("to be forgotten")
    digests = features.digests(images)
    rows = rows_to_forget(photos, images, digests, labels)
    place = {digest[:BYTES]: index for index, digest in enumerate(digests) if digest is not None}
    known = photos.digests_at(rows)
    indices = [place[digest] for digest in known]
    others = sorted({*range(len(images))} - {*indices} - {*_copies(digests, known)})
    bad = [_unusable(images[index], index) for index in others]
    if strict and bad:
        raise BadImageError(bad[0].reason)
    names, minus = photos.labels_at(rows), knowledge.parts.empty()
    seen = features.visit(
        images,
        indices,
        lambda rows, turns: minus.update(rows, [names[turn] for turn in turns]),
        [digests[index] for index in indices],
        strict=strict,
        title="Forgetting",
    )
    bad = sorted([*bad, *seen.bad], key=lambda each: each.index)
    if not seen.turns:
        raise none_usable(len(images), bad)
    report = BatchReport(forgotten=counted(names[turn] for turn in seen.turns), bad=bad)
    knowledge.forget(rows[seen.turns], minus, report.forgotten)
    features.delete(seen.digests, knowledge.photos)
    return report


def _copies(digests: Sequence[bytes | None], known: Sequence[bytes]) -> Iterator[int]:
    """The indices of all images that are photos which are forgotten, also of second copies."""
    held = {*known}
    return (index for index, digest in enumerate(digests) if digest is not None and digest[:BYTES] in held)


def _unusable(image: ImageSource, index: int) -> BadImage:
    """Why an image that was never learned could not have been."""
    try:
        open_image(image)
    except BadImageError as error:
        return BadImage(index, str(error))
    return BadImage(index, f"Cannot use {described(image)}: it changed while it was read.")


def forget_class(knowledge: Knowledge, features: PhotoFeatures, label: str) -> BatchReport:
    """Subtract a class, as far as that is possible without its images."""
    forgotten = {label: knowledge.counts[label]}
    photos = knowledge.known
    digests = features.whole_digests(photos.digests_at(photos.of_class(label)))
    exact = knowledge.forget_class(label, _cached_parts(knowledge, features, label))
    features.delete(digests, knowledge.photos)
    return BatchReport(forgotten=forgotten, exact=exact)


def _cached_parts(knowledge: Knowledge, features: PhotoFeatures, label: str) -> Parts | None:
    """The parts of a class from the cache, if they are needed, and all its images are known and in it."""
    photos, parts = knowledge.known, knowledge.parts.empty()
    rows = photos.of_class(label)
    needed = parts.roots is None and hasattr(parts.sums, "gram")
    if not needed or len(rows) != knowledge.counts[label]:
        return None
    return None if len(features.recall(photos, rows, parts.update).lost) else parts


def undo_batch(knowledge: Knowledge, features: PhotoFeatures) -> BatchReport:
    """Take the last batch back. Its features stay in the cache."""
    last = require_undoable(knowledge.log)
    photos = knowledge.recognised("learned last")
    rows, minus = photos.of_batch(len(knowledge.log) - 1), knowledge.parts.empty()
    lost = features.recall(photos, rows, minus.update).lost
    if len(lost):
        first = features.named(photos, lost[:1], knowledge.log)[0]
        raise InputError(
            f"The last batch cannot be undone: the features of {len(lost):,} of its {len(rows):,} photos "
            f"are not in the cache, such as {first}. Let the model forget these photos instead."
        )
    knowledge.undo(rows, minus)
    return BatchReport(forgotten=dict(last.learned))
