"""Which files are models. Imports next to nothing, so that a wrong path is noticed at once."""

from __future__ import annotations

from pathlib import Path

from layup import storage
from layup.errors import InputError

KIND = "model"
"""What storage calls the files of models."""
PREDICT_ONLY = "predict-only"
"""The same for models without sums."""


def require_model(*paths: storage.AnyPath) -> None:
    """Refuse what is not a model file that can be taught, by its header alone: reading one checks the rest.

    >>> require_model("nothing.layup")
    Traceback (most recent call last):
    layup.errors.StorageError: Cannot read 'nothing.layup' (No such file or directory): check the path and \
its permissions
    """
    for path in paths:
        if is_predict_only(path):
            raise InputError(
                f"'{path}' is a predict-only model: it has weights and no sums, so it can only predict, "
                "explain and be evaluated. Use the model that it was exported from."
            )
        storage.read_header(path, KIND)


def require_predictor(path: storage.AnyPath) -> None:
    """Refuse what is not a model file that predicts: a model, or a predict-only model."""
    if not is_predict_only(path):
        storage.read_header(path, KIND)


def is_predict_only(path: storage.AnyPath) -> bool:
    """Whether a file is a model without sums; a path that cannot be read, or a graph, is an error."""
    require_no_graph(path)
    return storage.kind_of(path) == PREDICT_ONLY


def is_onnx(path: storage.AnyPath) -> bool:
    """Whether a file is a graph for ONNX Runtime, by its name."""
    return Path(path).suffix.lower() == ".onnx"


def require_no_graph(*paths: storage.AnyPath) -> None:
    """Refuse a graph where a model is read or written.

    >>> require_no_graph("m.onnx")
    Traceback (most recent call last):
    layup.errors.InputError: 'm.onnx' is a graph that only predicts, by its name: layup export writes it, \
and layup predict, evaluate and info read it. Name a .layup file here.
    """
    for path in paths:
        if is_onnx(path):
            raise InputError(
                f"'{path}' is a graph that only predicts, by its name: layup export writes it, and layup "
                "predict, evaluate and info read it. Name a .layup file here."
            )
