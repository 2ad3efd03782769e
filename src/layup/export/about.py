"""What an exported graph says of itself, in its metadata: checked before it is believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from layup import schema
from layup.algebra import CALIBRATION, Calibration
from layup.schema import HASH, LABEL, NAME, POSITIVE, Shape, fields_of, listed

KEY = "layup"
"""The name of the metadata."""
FORMAT = 1
PRECISIONS = ("float32", "int8")

SHAPE: Shape = {
    "format": schema.whole(1),
    "labels": listed(LABEL),
    "classifier": NAME,
    "features": NAME,
    "backbone": {"name": LABEL, "fingerprint": HASH},
    "precision": schema.one_of(*PRECISIONS),
    "steepness": POSITIVE.or_none(),
    "familiarity": schema.TRUTH,
    "calibration?": CALIBRATION,
    "versions": fields_of(NAME),
}


@dataclass(frozen=True)
class About:
    """The classes of a graph, what it was made from, and what its photos said about its scores.

    steepness: what scores are multiplied by to make them probabilities. familiarity: whether it says so.
    """

    labels: list[str]
    classifier: str
    features: str
    backbone: Mapping[str, str]
    precision: str
    steepness: float | None
    familiarity: bool
    calibration: Calibration | None
    versions: Mapping[str, str]

    def to_json(self) -> str:
        """As the metadata has it."""
        values = {"format": FORMAT, **asdict(self)}
        if self.calibration is None:
            del values["calibration"]
        return json.dumps(values)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`; a `ValueError` says what is wrong."""
        values: dict[str, Any] = json.loads(text)
        schema.require(values, SHAPE, "layup")
        if values.pop("format") > FORMAT:
            raise ValueError("it was written by a later layup")
        labels = values["labels"]
        if not labels or labels != sorted({*labels}):
            raise ValueError("its labels are none, not sorted, or not unique")
        said = values.pop("calibration", None)
        return cls(**values, calibration=None if said is None else Calibration.from_dict(said))
