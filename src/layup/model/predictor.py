"""What predicts: a scorer of features, with what its photos said of its scores."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from layup.algebra import Calibration, Floats
from layup.errors import InputError
from layup.features import BadImage, Extraction, FeatureSource, Rows
from layup.images import ImageSource
from layup.model.predictions import Predictions
from layup.model.scorer import Scorer


@dataclass(frozen=True)
class Scored:
    """What a scorer says of rows of features: a part of it is that of a part of the rows.

    scores: a row for each, a column for each class. familiarity: None where it cannot be told.
    """

    scores: Floats
    familiarity: Floats | None

    def __getitem__(self, rows: slice) -> Scored:
        return Scored(self.scores[rows], None if self.familiarity is None else self.familiarity[rows])


@dataclass(frozen=True, eq=False)
class Predictor:
    """What scores features, of at least one class, and what its photos said when they were judged."""

    scorer: Scorer
    calibration: Calibration | None

    def __post_init__(self) -> None:
        if not self.scorer.labels:
            raise InputError("This model knows no class. Teach it with `learn` first.")

    def scored(self, rows: Rows) -> Scored:
        """What it says of rows of features."""
        return Scored(self.scorer.scores_of(rows), self.scorer.familiarity(rows))

    def predictions(self, parts: Iterable[tuple[Extraction, Scored]]) -> Predictions:
        """Predictions for all images of these parts. Only scores are held, not features."""
        classes = list(self.scorer.labels)
        scores: list[Floats] = [np.zeros((0, len(classes)))]
        known: list[Floats] = []
        kept: list[int] = []
        bad: list[BadImage] = []
        for part, said in parts:
            bad.extend(part.bad)
            kept.extend(part.kept.tolist())
            scores.append(said.scores)
            if said.familiarity is not None:
                known.append(said.familiarity)
        judged = self.calibration if self.calibration and self.calibration.enough else None
        return Predictions(
            classes,
            np.concatenate(scores),
            kept,
            bad,
            steepness=(judged or self.scorer).steepness,
            familiarity=np.concatenate(known) if known else None,
            calibration=self.calibration,
        )

    def predict(self, features: FeatureSource, images: Sequence[ImageSource]) -> Predictions:
        """The scores of all images that can be used, and which cannot."""
        parts = features.stream(images, "Predicting")
        return self.predictions((part, self.scored(part.rows)) for part in parts)
