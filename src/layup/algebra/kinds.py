"""The classifiers by kind, and how to restore one from its state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from layup.algebra.auto import AutoClassifier
from layup.algebra.blocks import AverageClassifier, DepthsClassifier, LayersClassifier
from layup.algebra.class_covariances import ClassCovariancesClassifier
from layup.algebra.class_sums import ClassSums
from layup.algebra.classifier import SumsClassifier
from layup.algebra.discriminant import DiscriminantClassifier
from layup.algebra.nearest_mean import NearestMeanClassifier
from layup.algebra.ridge_classifier import HeldOutRidgeClassifier, RidgeClassifier
from layup.algebra.truncated import TruncatedClassifier

CLASSIFIERS: dict[str, type[SumsClassifier]] = {
    each.kind: each
    for each in (
        AutoClassifier,
        RidgeClassifier,
        HeldOutRidgeClassifier,
        AverageClassifier,
        DepthsClassifier,
        LayersClassifier,
        NearestMeanClassifier,
        DiscriminantClassifier,
        TruncatedClassifier,
        ClassCovariancesClassifier,
    )
}


def restored(header: Mapping[str, Any], sums: ClassSums) -> SumsClassifier:
    """The inverse of `SumsClassifier.state`, for the kind that the header says.

    >>> classifier = NearestMeanClassifier().fit([[1.0, 0.1], [0.1, 1.0]], ["cat", "dog"])
    >>> restored(*classifier.state()).predict([[0.9, 0.3]]).tolist()
    ['cat']
    """
    return CLASSIFIERS[header["classifier"]["kind"]].from_state(header, sums)
