"""Classifiers of every kind are what they wrote down."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import oracle
from layup.algebra.auto import AutoClassifier
from layup.algebra.blocks import AverageClassifier, DepthsClassifier, LayersClassifier
from layup.algebra.class_covariances import ClassCovariancesClassifier
from layup.algebra.discriminant import DiscriminantClassifier
from layup.algebra.kinds import CLASSIFIERS, restored
from layup.algebra.nearest_mean import NearestMeanClassifier
from layup.algebra.parameters import KINDS
from layup.algebra.ridge_classifier import HeldOutRidgeClassifier, RidgeClassifier
from layup.algebra.truncated import TruncatedClassifier
from layup.errors import InputError, UnknownNameError

LAYERS = {"a": 3, "b": 4, "c": 2}
EVERY = [
    AutoClassifier(),
    RidgeClassifier("search", balance=np.True_),
    RidgeClassifier(np.float32(0.5), precision="float32"),
    RidgeClassifier(np.int64(2), grid="paper"),
    HeldOutRidgeClassifier(seed=np.int64(3)),
    AverageClassifier("gcv"),
    DepthsClassifier((1, np.int64(3)), "search"),
    LayersClassifier((2, 3), 1),
    NearestMeanClassifier("euclidean"),
    DiscriminantClassifier(0.1),
    TruncatedClassifier(np.float32(0.25)),
    ClassCovariancesClassifier(2.0, 1.0),
    DiscriminantClassifier("oas", balance=np.True_),
]


def labels_of(classifier: Any, x: np.ndarray) -> dict[str, list[str]]:
    """The labels by each way to predict."""
    by_block = isinstance(classifier, DepthsClassifier | LayersClassifier)
    return classifier.labels_by_block(x) if by_block else {"": classifier.predict(x).tolist()}


@pytest.mark.parametrize("classifier", EVERY, ids=repr)
def test_what_a_classifier_wrote_down_as_json_makes_it_again(classifier: Any) -> None:
    x, y = oracle.blobs(np.random.default_rng(3), [9, 8, 10], 9)
    sums = KINDS[classifier.kind].sums
    classifier.adopt(sums(LAYERS, getattr(classifier, "precision", "float64")))
    classifier.partial_fit(x, y.astype(str))
    header, own = classifier.state()
    again = restored(json.loads(json.dumps(header)), own)
    assert type(again) is type(classifier)
    assert again.state()[0] == header
    assert again.in_force() == classifier.in_force()
    assert labels_of(again, x) == labels_of(classifier, x)


def test_every_kind_is_tried_here() -> None:
    assert {classifier.kind for classifier in EVERY} == {*CLASSIFIERS}


def test_other_parameters_go_on_from_the_same_sums() -> None:
    x, y = oracle.blobs(np.random.default_rng(3), [9, 8, 10], 9)
    classifier = RidgeClassifier(1.0, balance=False).fit(x, y)
    other = classifier.with_parameters(lam=100.0)
    np.testing.assert_allclose(other.scores(x), RidgeClassifier(100.0, balance=False).fit(x, y).scores(x))
    assert (other.lambda_, classifier.lambda_) == (100.0, 1.0)
    with pytest.raises(UnknownNameError, match="Did you mean 'lam'"):
        classifier.with_parameters(lamm=1.0)
    with pytest.raises(InputError, match="kept in float64: that cannot be changed"):
        classifier.with_parameters(precision="float32")
