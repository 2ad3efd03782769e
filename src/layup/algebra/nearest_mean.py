"""The classifier that predicts the class with the nearest mean."""

from __future__ import annotations

import numpy as np

from layup.algebra.classifier import SumsClassifier
from layup.algebra.parameters import METRICS
from layup.algebra.readout import Readout
from layup.algebra.samples import Floats
from layup.registry import unknown_name

MANY_FOLDS = 50
"""So many folds cost little more than one. A fold then has at most one of 50 samples of a class."""


class NearestMeanClassifier(SumsClassifier):
    """NMC: the class whose mean feature vector is nearest, by cosine or Euclidean distance (eq. 2).

    Keeps one sum and one count per class, nothing else.

    >>> model = NearestMeanClassifier().fit([[1.0, 0.1], [0.1, 1.0]], ["cat", "dog"])
    >>> model.predict([[0.9, 0.3]]).tolist()
    ['cat']
    """

    kind = "nearest mean"
    folds = MANY_FOLDS

    def __init__(self, metric: str = "cosine") -> None:
        self.metric = metric

    def check(self) -> None:
        """Refuse an unknown metric."""
        require_metric(self.metric)

    def readout(self) -> Readout:
        """The means: of length 1, if only their directions count."""
        self._require_classes()
        sums, means = self.statistics_, self.statistics_.means
        offsets = np.zeros(len(means))
        if self.metric == "cosine":
            lengths = np.linalg.norm(means, axis=1, keepdims=True)
            means /= np.where(lengths > 0, lengths, 1.0)
        else:
            offsets = -(means**2).sum(axis=1) / 2
        average = np.zeros((len(sums.layers), len(means)))
        return Readout(
            self.kind, list(sums.labels), dict(sums.layers), means.T, offsets, average, self.metric
        )

    def _score(self, x: Floats) -> Floats:
        from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances

        means = self.statistics_.means
        if self.metric == "cosine":
            return np.asarray(cosine_similarity(x, means))
        return np.asarray(-euclidean_distances(x, means))


def require_metric(metric: str) -> None:
    """Refuse an unknown distance to a mean."""
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
