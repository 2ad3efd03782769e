"""Model files, as commands read and change them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layup import storage
from layup.cli import console
from layup.errors import InputError, StorageError
from layup.model import is_onnx, require_no_graph

if TYPE_CHECKING:
    from layup.cluster import Cluster
    from layup.export import OnnxModel
    from layup.images import ImageSource
    from layup.model import ImageModel, ImagePredictor, Predictions, PredictOnly

MODELS = (".layup", ".onnx")
"""How the names of files that predict end."""


HUB = "hf:"
"""Before the name of a repository of the Hugging Face hub, as for networks."""


def held(path: Path) -> AbstractContextManager[None]:
    """Locks the model while the block runs; a process that has to wait is told who holds it."""
    require_no_graph(path)
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
    """The model in a file that can be taught, with the options of the command."""
    require_model(path)
    from layup.model import ImageModel

    return ImageModel.load(path, weights=weights, allow_backbone=allow_backbone, **reading)


def here(model: Path) -> Path:
    """The model's file; one of the hub's (hf:user/name, maybe with @revision) is downloaded first."""
    text = str(model)
    if not text.startswith(HUB) or model.exists():
        return model
    from layup.model import fetched

    repository, _, revision = text.removeprefix(HUB).partition("@")
    return fetched(repository, revision or None)


def predictor(
    path: Path, weights: Path | None = None, allow_backbone: bool = False, **reading: Any
) -> ImagePredictor | OnnxModel:
    """What predicts: a model, or an exported graph, for which PyTorch is not imported."""
    if not is_onnx(path):
        return loaded_predictor(path, weights, allow_backbone, **reading)
    if weights is not None:
        raise InputError(f"'{path}' has the weights of its network in it: leave --weights out.")
    from layup.export import OnnxModel

    return OnnxModel(path, progress=reading.get("progress"))


def loaded_predictor(
    path: Path, weights: Path | None = None, allow_backbone: bool = False, **reading: Any
) -> ImageModel | PredictOnly:
    """The model in a file, also if it can only predict."""
    require_no_graph(path)
    require_predictor(path)
    from layup.model import load

    return load(path, weights=weights, allow_backbone=allow_backbone, **reading)


def predicted(
    model: ImagePredictor | OnnxModel,
    path: Path,
    photos: Sequence[ImageSource],
    cluster: Cluster | None,
    loading: Mapping[str, Any],
) -> Predictions:
    """What a model predicts, here or by workers that load it from its file (options of `layup.load`)."""
    if cluster is None or not photos:
        return model.predictions(photos)
    if is_onnx(path):
        raise InputError("A .onnx file is computed by this process alone: leave --ray out, or give a .layup.")
    from layup.model import spread_predictions

    return spread_predictions(path, photos, cluster, **loading)


def labelled(
    photos: Path, allow_addresses: bool = False, label: str | None = None, root: Path | None = None
) -> tuple[Sequence[ImageSource], list[str]]:
    """Photos and their labels; what is odd about them is remarked."""
    from layup.images import labelled_photos

    found = labelled_photos(photos, label=label, root=root, allow_addresses=allow_addresses)
    console.remarks(found.remarks)
    return found.images, found.labels


def unlabelled(
    images: Sequence[Path], allow_addresses: bool = False, root: Path | None = None
) -> list[ImageSource]:
    """All photos of several files, folders, archives and lists."""
    from layup.images import unlabelled_photos

    found = (unlabelled_photos(each, root=root, allow_addresses=allow_addresses) for each in images)
    return [*chain.from_iterable(found)]


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
    """Refuse what cannot be taught, before NumPy and PyTorch are imported: that takes seconds."""
    from layup.model import require_model

    require_model(*paths)


def require_predictor(path: Path) -> None:
    """Refuse what is no model file, as early; a model that can only predict is one, and so is a graph."""
    if is_onnx(path):
        try:
            storage.require_file(path)
        except OSError as error:
            raise storage.unreadable(path, error) from error
        return
    from layup.model import require_predictor

    require_predictor(path)


def require_new(path: Path, overwrite: bool) -> None:
    """Refuse to replace a file, unless that is wanted; a model with sums is never replaced by one without."""
    storage.require_writable(path)
    if not path.exists():
        return
    if not overwrite:
        raise InputError(f"'{path}' is there already. Give another name, or --overwrite.")
    with suppress(StorageError):
        if storage.kind_of(path) == "model":
            raise InputError(
                f"'{path}' is a model that can be taught, and what it has learned would be lost. "
                "Give another name, or delete it first."
            )


def require_model_first(command: str, model: Path, *others: Path) -> None:
    """Notice, before anything is loaded, that the model was given after the photos."""
    models = [each for each in others if each.suffix in MODELS]
    if models and model.suffix not in MODELS:
        rest = [str(each) for each in (model, *others) if each != models[0]]
        meant = shlex.join(["layup", command, str(models[0]), *rest])
        raise InputError(f"The model comes first, but '{model}' is not one. Did you mean: {meant}?")


def require_usable(found: Predictions, paths: Sequence[object], strict: bool) -> None:
    """Refuse predictions of nothing, and bad files if `strict`."""
    if not paths:
        raise InputError("There are no image files among the given paths.")
    if found.bad and (strict or not found.kept):
        raise InputError(found.bad[0].reason)
