"""What a predict-only file says, checked before it is believed as that of a model is (`layup.model.file`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layup import memory, schema, storage
from layup.algebra import CALIBRATION, HEADER as SUMS, KINDS, METRICS, Calibration, Nearness, Readout
from layup.errors import InputError
from layup.model.file import BACKBONE, READING_TUNED, TUNED, require_network
from layup.model.kind import PREDICT_ONLY, require_no_graph
from layup.schema import FIELDS, LABEL, NAME, POSITIVE, Shape, fields_of, listed, whole
from layup.storage import Declarations, Declared

LARGEST = 1e200
"""Of a weight: with the largest features that there are, scores are finite."""
READING = 3
"""How many arrays of the size of the weights are held while they are read and checked."""

HEADER: Shape = {
    "features": FIELDS,
    "backbone": BACKBONE,
    "classifier": {
        "kind": schema.one_of(*KINDS),
        "metric": schema.one_of(*METRICS).or_none(),
        "steepness": POSITIVE.or_none(),
        "sketch": whole(1).or_none(),
    },
    "calibration?": CALIBRATION,
    "layers": SUMS["layers"],
    "labels": listed(LABEL),
    "versions": fields_of(NAME),
}


@dataclass(frozen=True)
class PredictOnlyFile:
    """A file that passed all checks: its header, what predicts, and the tensors of its adapter."""

    header: dict[str, Any]
    readout: Readout
    calibration: Calibration | None
    tuned: dict[str, NDArray[Any]]


def read_predict_only(path: str | os.PathLike[str]) -> PredictOnlyFile:
    """Read a predict-only file whole, or raise: what it says can be relied on."""
    header, arrays = storage.read(path, PREDICT_ONLY, _require_readable)
    for name, array in arrays.items():
        if not name.startswith(TUNED) and not float(np.abs(array).max(initial=0.0)) <= LARGEST:
            raise storage.damaged(path, f"its array {name!r} holds NaN, infinity, or what is too large")
    with storage.believed(path):
        calibration = Calibration.from_dict(header["calibration"]) if "calibration" in header else None
    tuned = {name.removeprefix(TUNED): each for name, each in arrays.items() if name.startswith(TUNED)}
    return PredictOnlyFile(header, _readout(header, arrays), calibration, tuned)


def write_predict_only(
    path: str | os.PathLike[str],
    about: Mapping[str, Any],
    readout: Readout,
    calibration: Calibration | None,
    tuned: Mapping[str, NDArray[Any]],
) -> None:
    """Write what `read_predict_only` reads, atomically. What it would refuse is not written.

    about: the features, the backbone, and the versions.
    """
    require_no_graph(path)
    near = readout.nearness
    header: dict[str, Any] = {
        **about,
        "classifier": {
            "kind": readout.kind,
            "metric": readout.metric,
            "steepness": readout.steepness,
            "sketch": None if near is None else near.sketch.shape[1],
        },
        "layers": [[name, width] for name, width in readout.layers.items()],
        "labels": readout.labels,
    }
    if calibration is not None:
        header["calibration"] = calibration.to_dict()
    arrays = {"weights": readout.weights, "offsets": readout.offsets, "average": readout.average}
    if near is not None:
        arrays |= vars(near)
    arrays |= {TUNED + name: array for name, array in tuned.items()}
    declared = {name: Declared(each.dtype.name, each.shape) for name, each in arrays.items()}
    try:
        _require_sound(json.loads(json.dumps(header)), declared)
    except (TypeError, ValueError) as error:
        raise InputError(f"This model cannot be saved: {error}. Nothing was written.") from error
    storage.write(path, PREDICT_ONLY, header, arrays)


def _readout(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Readout:
    about, near = header["classifier"], None
    if about["sketch"] is not None:
        near = Nearness(*(arrays[name] for name in ("directions", "around", "sketch", "origin")))
    return Readout(
        about["kind"],
        list(header["labels"]),
        dict(header["layers"]),
        arrays["weights"],
        arrays["offsets"],
        arrays["average"],
        about["metric"],
        about["steepness"],
        near,
    )


def _require_readable(header: Mapping[str, Any], declared: Declarations) -> None:
    """Refuse what is not sound, or would not fit into memory."""
    _require_sound(header, declared)
    tuned = sum(each.nbytes for name, each in declared.items() if name.startswith(TUNED))
    rest = sum(each.nbytes for each in declared.values()) - tuned
    parts = {"its weights": READING * rest, "its adapter": READING_TUNED * tuned}
    memory.require(memory.Forecast(parts), "Reading this model")


def _require_sound(header: Mapping[str, Any], declared: Declarations) -> None:
    """Refuse a header, and what arrays are said to be, that no model can have: a `ValueError` says why."""
    schema.require(header, HEADER, "header")
    labels, layers = header["labels"], dict(header["layers"])
    if not labels or labels != sorted({*labels}):
        raise ValueError("its labels are none, not sorted, or not unique")
    if len(layers) != len(header["layers"]):
        raise ValueError("two of its layers have the same name")
    about = header["classifier"]
    if about["metric"] is not None and about["sketch"] is not None:
        raise ValueError("it has both a metric and a sketch")
    dim, classes = sum(layers.values()), len(labels)
    wanted = {
        "weights": Declared("float64", (dim, classes)),
        "offsets": Declared("float64", (classes,)),
        "average": Declared("float64", (len(layers), classes)),
    }
    if (rank := about["sketch"]) is not None:
        wanted |= {
            "directions": Declared("float32", (dim, classes)),
            "around": Declared("float32", (classes,)),
            "sketch": Declared("float32", (dim, rank)),
            "origin": Declared("float32", (rank,)),
        }
    for name, each in wanted.items():
        if declared.get(name) != each:
            raise ValueError(f"its array {name!r} is {declared.get(name)}, not {each}")
    for name in declared:
        if name not in wanted and not name.startswith(TUNED):
            raise ValueError(f"it holds an array {schema.shown(name)}, which is unknown")
    require_network(header, declared)
