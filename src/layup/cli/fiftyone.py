"""Predictions as FiftyOne reads them: the labels.json of a FiftyOneImageClassificationDataset."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from layup.errors import InputError
from layup.formats import brief

if TYPE_CHECKING:
    from layup.model import Predictions


def fiftyone_labels(photos: Sequence[object], found: Predictions) -> dict[str, Any]:
    """The classes, and of each photo, by its absolute path, the class by number, its confidence and logits.

    The softmax of the logits are the probabilities; of a model that has none they are the scores. How
    probable it is that a photo is of none of the classes is an attribute of its label.

    >>> import numpy as np
    >>> from layup.model import Predictions
    >>> found = Predictions(["cat", "dog"], np.array([[0.25, 0.75]]), kept=[0], bad=[])
    >>> fiftyone_labels(["/photos/1.jpg"], found)["labels"]
    {'/photos/1.jpg': {'label': 1, 'attributes': {'logits': [0.25, 0.75]}}}
    """
    classes = list(found.classes)
    logits = found.scores if found.steepness is None else found.steepness * found.scores
    labels: dict[str, Any] = {}
    for photo, row, prediction in zip(photos, logits.tolist(), found.each(), strict=True):
        if not isinstance(photo, str | os.PathLike):
            raise InputError(
                f"FiftyOne reads photos from files, and {brief(repr(str(photo)))} is in none of its own. "
                "Unpack it."
            )
        label: dict[str, Any] = {"label": classes.index(prediction.label)}
        if prediction.confidence is not None:
            label["confidence"] = prediction.confidence
        label["attributes"] = {"logits": row}
        if prediction.none_of_these is not None:
            label["attributes"] |= {"none_of_these": prediction.none_of_these, "unknown": prediction.unknown}
        labels[os.path.abspath(photo)] = label  # noqa: PTH100 (links stay)
    return {"classes": classes, "labels": labels}
