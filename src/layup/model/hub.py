"""Models on the Hugging Face hub, or in a folder like it: `model.layup`, and its card `README.md`.

Only these two files are written, and only `model.layup` is ever fetched. What is fetched is checked like any
model file from a stranger. Needs the extra `hf`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layup import memory, storage
from layup.backbones import unreachable
from layup.errors import InputError, LayupError, MissingPackageError, StorageError, first_line
from layup.formats import brief
from layup.memory import Forecast
from layup.model.card import Card

if TYPE_CHECKING:
    from layup.model.image_predictor import ImagePredictor

FILE = "model.layup"
CARD = "README.md"
MARK = 'library_name: "layup"'
"""In every card that was generated, and by which another README.md is told from one."""


def push(
    model: ImagePredictor,
    repository: str | Path,
    *,
    whole: bool = False,
    private: bool | None = None,
    token: str | None = None,
    licence: str | None = None,
) -> str:
    """Write a model and its card to a repository of the hub, or into a folder; returns where they are."""
    shared = model if whole else model.predict_only()
    if whole and shared.predict_only() is shared:
        raise InputError("This model is predict-only: there is no whole model in it. Leave whole=True out.")
    if _is_folder(repository):
        folder = Path(repository).expanduser().absolute()
        return _write(shared, Card.of(model, folder.name, whole=whole, licence=licence), folder)
    card = Card.of(model, str(repository), whole=whole, licence=licence)
    with tempfile.TemporaryDirectory(prefix="layup-") as there:
        _write(shared, card, Path(there))
        return _upload(Path(there), str(repository), private, token)


def fetched(source: str | Path, revision: str | None = None, token: str | None = None) -> Path:
    """The model file of a folder, or of a repository: downloaded, unless the cache of the hub has it.

    A file that would not fit into memory is refused before it is downloaded.
    """
    folder = Path(source).expanduser()
    if _is_folder(source) or folder.is_dir():
        if revision is not None:
            raise InputError(f"{str(source)!r} is a folder, which has no revisions. Leave revision out.")
        if not (folder / FILE).is_file():
            raise InputError(f"There is no {FILE} in the folder {str(source)!r}. Give one that has it.")
        return folder / FILE
    return _download(str(source), revision, token)


def _is_folder(source: str | Path) -> bool:
    """Whether this is meant as a folder, by its looks: what is there does not matter."""
    return isinstance(source, Path) or source.startswith((".", "/", "~")) or "\\" in source


def _write(model: ImagePredictor, card: Card, folder: Path) -> str:
    text = folder / CARD
    if text.exists() and MARK not in text.read_text("utf-8", "replace"):
        raise InputError(f"'{text}' is there already, and is no card of a model. Give another folder.")
    storage.make_folder(folder)
    model.save(folder / FILE)
    storage.write_text(text, str(card))
    return str(folder)


def _upload(folder: Path, repository: str, private: bool | None, token: str | None) -> str:
    api = _api(repository)
    try:
        url = api.create_repo(repository, private=private, token=token, exist_ok=True)
        found: Any = api.upload_folder(
            repo_id=url.repo_id,
            folder_path=folder,
            allow_patterns=[FILE, CARD],
            token=token,
            commit_message="A model of layup",
        )
    except Exception as error:  # of the hub's library, and of the HTTP libraries that it has had
        raise LayupError(
            f"The model could not be pushed to {repository!r}: {_reason(error)} Nothing but a new repository "
            "may have been left there. A token that may write is needed: log in to the hub, or give token=."
        ) from error
    return str(found.repo_url)


def _download(repository: str, revision: str | None, token: str | None) -> Path:
    _api(repository)
    from huggingface_hub import get_hf_file_metadata, hf_hub_download, hf_hub_url, try_to_load_from_cache
    from huggingface_hub.errors import EntryNotFoundError, RepositoryNotFoundError, RevisionNotFoundError

    where = repository if revision is None else f"{repository}@{revision}"
    if reason := unreachable(where, FILE):
        kept = try_to_load_from_cache(repository, FILE, revision=revision)
        if isinstance(kept, str):
            return Path(kept)
        raise StorageError(
            f"{repository!r} could not be downloaded: {reason} It was not downloaded before, either. "
            "Check the connection, or give a folder."
        )
    try:
        size = get_hf_file_metadata(hf_hub_url(repository, FILE, revision=revision), token=token).size
        memory.require(Forecast({"its file": size or 0}), f"Loading {repository!r}")
        return Path(hf_hub_download(repository, FILE, revision=revision, token=token))
    except LayupError:
        raise
    except RevisionNotFoundError as error:
        raise InputError(
            f"{repository!r} has no revision {revision!r}. Give a branch, a tag or a commit."
        ) from error
    except EntryNotFoundError as error:
        raise InputError(f"{repository!r} has no {FILE}: it is no model of layup's.") from error
    except RepositoryNotFoundError as error:
        raise InputError(
            f"There is no repository {repository!r} on the hub, or it is private. Check the name, and log "
            "in to the hub, or give token=, if it is yours."
        ) from error
    except Exception as error:
        raise StorageError(f"{repository!r} could not be downloaded: {_reason(error)}") from error


def _api(repository: str) -> Any:
    """The hub's library, and a name that it accepts."""
    try:
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HFValidationError
        from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]
    except ImportError as error:
        raise MissingPackageError("The hub needs another package. Run pip install 'layup-cl[hf]'.") from error
    try:
        validate_repo_id(repository)
    except HFValidationError as error:
        raise InputError(
            f"{brief(repr(repository))} is no name of a repository on the hub. Give user/name; or a folder, "
            "such as './name'."
        ) from error
    return HfApi(library_name="layup")


def _reason(error: Exception) -> str:
    return brief(first_line(error))
