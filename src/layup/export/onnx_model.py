"""A model in an ONNX file, asked without PyTorch: ONNX Runtime computes it, and photos are read as ever.

A graph is a list of tensor operations. It can read no file, open no connection and run no program, and it is
given to the runtime as bytes, so that it cannot ask for other files beside it. But it decides how much memory
and time it takes: ask a stranger's only where that does no harm.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from layup import storage
from layup.errors import BadImageError, InputError, MissingPackageError
from layup.export.about import KEY, About
from layup.features import BadImage
from layup.images import ImageSource, open_image
from layup.model import Predictions
from layup.progress import progress_bar


class OnnxModel:
    """What `layup export m.layup --to m.onnx` wrote: it predicts, and cannot be taught or explained.

    Args:
        path: the file.
        threads: how many threads compute; None for as many as there are cores.
        progress: whether a bar is shown; None: if it takes long, on a terminal.
    """

    photos = None
    """The list of learned photos, which it does not have."""

    def __init__(
        self, path: str | os.PathLike[str], *, threads: int | None = None, progress: bool | None = None
    ) -> None:
        self.progress = progress
        runtime = _onnxruntime()
        try:
            storage.require_file(path)
            content = Path(path).read_bytes()
        except OSError as error:
            raise storage.unreadable(path, error) from error
        options = runtime.SessionOptions()
        options.log_severity_level = 4
        if threads is not None:
            options.intra_op_num_threads = threads
        try:
            self.session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            self.about = _about(path, self.session)
        except InputError:
            raise
        except Exception as error:  # the runtime has many kinds of errors
            raise storage.damaged(path, str(error).strip().partition("\n")[0]) from error

    @property
    def classes_(self) -> list[str]:
        """The labels, sorted."""
        return list(self.about.labels)

    def predictions(self, images: Iterable[ImageSource]) -> Predictions:
        """The scores of all images that can be used, and which cannot."""
        scores = [np.zeros((0, len(self.about.labels)))]
        familiarity = [np.zeros(0)]
        kept: list[int] = []
        bad: list[BadImage] = []
        listed = list(images)
        with progress_bar(self.progress) as bar:
            task = bar.add_task("Predicting", total=len(listed), note="")
            for index, image in enumerate(listed):
                try:
                    given = pixels(image)
                except BadImageError as error:
                    bad.append(BadImage(index, str(error)))
                else:
                    found = self.scored(given)
                    scores.append(found[0])
                    familiarity += found[1:]
                    kept.append(index)
                bar.advance(task)
        return Predictions(
            self.classes_,
            np.concatenate(scores),
            kept,
            bad,
            steepness=self.about.steepness,
            familiarity=np.concatenate(familiarity) if self.about.familiarity else None,
            calibration=self.about.calibration,
        )

    def scored(self, images: Any) -> list[Any]:
        """The scores of decoded images of one size, and how familiar they are, if that can be told."""
        names = ["scores", *(["familiarity"] if self.about.familiarity else [])]
        found: list[Any] = self.session.run(names, {"images": images})
        return found


def pixels(image: ImageSource) -> Any:
    """A decoded image as a graph takes it: (1, height, width, 3) of whole levels."""
    return np.array(open_image(image).convert("RGB"))[None]


def _about(path: str | os.PathLike[str], session: Any) -> About:
    """What the graph says of itself, if its input and outputs are as that says."""
    text = session.get_modelmeta().custom_metadata_map.get(KEY)
    if text is None:
        raise InputError(
            f"'{path}' is an ONNX file of another program: it does not say what it takes and which classes "
            "it knows. Give one that layup export wrote."
        )
    about = About.from_json(text)
    inputs = [(each.name, each.type, len(each.shape)) for each in session.get_inputs()]
    outputs = {each.name: (each.type, each.shape[1:]) for each in session.get_outputs()}
    wanted: dict[str, tuple[str, list[int]]] = {"scores": ("tensor(float)", [len(about.labels)])}
    if about.familiarity:
        wanted["familiarity"] = ("tensor(float)", [])
    if inputs != [("images", "tensor(uint8)", 4)] or any(
        outputs.get(n) != each for n, each in wanted.items()
    ):
        raise ValueError("its graph is not the one that it says it has")
    return about


def _onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError as error:
        raise MissingPackageError(
            "Predicting with an ONNX file needs the package onnxruntime. Install it: pip install onnxruntime."
        ) from error
    return onnxruntime
