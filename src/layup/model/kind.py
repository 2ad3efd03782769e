"""Which files are models. Imports next to nothing, so that a wrong path is noticed at once."""

from __future__ import annotations

from layup import storage

KIND = "model"
"""What storage calls the files of models."""


def require_model(*paths: storage.AnyPath) -> None:
    """Refuse what is not a model file, by its header alone: reading one checks the rest.

    >>> require_model("nothing.layup")
    Traceback (most recent call last):
    layup.errors.StorageError: Cannot read 'nothing.layup' (No such file or directory): check the path and \
its permissions
    """
    for path in paths:
        storage.read_header(path, KIND)
