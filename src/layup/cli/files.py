"""Model files, as commands read and change them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layup import storage
from layup.cli import console
from layup.errors import InputError

if TYPE_CHECKING:
    from layup.cluster import Cluster
    from layup.images import ImageSource
    from layup.model import ImageModel, Predictions


def held(path: Path) -> AbstractContextManager[None]:
    """Locks the model while the block runs; a process that has to wait is told who holds it."""
    storage.require_writable(path)
    return storage.locked(
        path, on_wait=lambda holder: console.remark(f"Waiting: '{path}' is in use by {holder} …")
    )


def changed_model(path: Path) -> AbstractContextManager[None]:
    """As `held`, for a model that must be there: no lock is left beside a misspelt name."""
    require_model(path)
    return held(path)


def loaded_model(
    path: Path, weights: Path | None = None, allow_backbone: bool = False, **reading: Any
) -> ImageModel:
    """The model in a file, with the options of the command."""
    require_model(path)
    from layup.model import load

    return load(path, weights=weights, allow_backbone=allow_backbone, **reading)


def predicted(
    model: ImageModel,
    path: Path,
    photos: Sequence[ImageSource],
    cluster: Cluster | None,
    loading: Mapping[str, Any],
) -> Predictions:
    """What a model predicts, here or by workers that load it from its file (options of `layup.load`)."""
    from layup.model import spread_predictions

    if cluster is None or not photos:
        return model.predictions(photos)
    return spread_predictions(path, photos, cluster, **loading)


def labelled(photos: Path, allow_addresses: bool = False) -> tuple[Sequence[ImageSource], list[str]]:
    """Photos and their labels; what is odd about them is remarked."""
    from layup.images import labelled_photos

    found = labelled_photos(photos, allow_addresses=allow_addresses)
    console.remarks(found.remarks)
    return found.images, found.labels


def streamed(photos: Path, allow_addresses: bool) -> tuple[Iterator[tuple[ImageSource, str]], list[str]]:
    """Photos and their labels one after another, and a list to which remarks about them will be added.

    What is wrong with the first ones is said now.
    """
    from layup.images import labelled_parts

    parts = labelled_parts(photos, allow_addresses=allow_addresses)
    first = next(parts)
    remarks: list[str] = []

    def pairs() -> Iterator[tuple[ImageSource, str]]:
        for part in chain([first], parts):
            remarks.extend(part.remarks)
            yield from part

    return pairs(), remarks


def require_model(*paths: Path) -> None:
    """Refuse what is not a model file, before NumPy and PyTorch are imported: that takes seconds."""
    from layup.model import require_model

    require_model(*paths)


def require_model_first(command: str, model: Path, *others: Path) -> None:
    """Notice, before anything is loaded, that the model was given after the photos."""
    models = [each for each in others if each.suffix == ".layup"]
    if models and model.suffix != ".layup":
        rest = [str(each) for each in (model, *others) if each != models[0]]
        meant = shlex.join(["layup", command, str(models[0]), *rest])
        raise InputError(f"The model comes first, but '{model}' is not one. Did you mean: {meant}?")


def require_usable(found: Predictions, paths: Sequence[object], strict: bool) -> None:
    """Refuse predictions of nothing, and bad files if `strict`."""
    if not paths:
        raise InputError("There are no image files among the given paths.")
    if found.bad and (strict or not found.kept):
        raise InputError(found.bad[0].reason)
