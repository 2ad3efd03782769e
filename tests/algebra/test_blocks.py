"""Several ridge classifiers in one, of blocks of the same G."""

from __future__ import annotations

import numpy as np
import pytest

import oracle
from layup import RidgeClassifier
from layup.algebra.blocks import AverageClassifier, DepthsClassifier
from layup.algebra.statistics import GramStatistics

LAYERS = {"a": 3, "b": 4, "c": 2, "d": 5}
WIDTH = 14
DEPTHS = (1, 2, 4)


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("lam", ["search", "gcv", 1.0])
def test_the_average_is_that_of_a_ridge_classifier_for_each_layer(lam, balance):
    rng = np.random.default_rng(3)
    batches = [oracle.blobs(rng, counts, WIDTH, 2.0) for counts in ([12, 9], [0, 0, 14, 2], [1, 0, 2, 3])]
    test = 2 * rng.normal(size=(60, WIDTH))
    together = AverageClassifier(lam, balance=balance)
    together.adopt(GramStatistics(LAYERS))
    alone = [RidgeClassifier(lam, balance=balance) for _ in LAYERS]
    starts = np.cumsum([0, *LAYERS.values()])
    for x, y in batches:  # the last is too small for a search: λ stays
        together.partial_fit(x, y)
        scores = []
        for classifier, layer, start in zip(alone, LAYERS, starts, strict=False):
            own = slice(start, start + LAYERS[layer])
            classifier.partial_fit(x[:, own], y)
            scores.append(classifier.scores(test[:, own]))
            assert together.solved(layer)[0] == pytest.approx(classifier.lambda_, rel=1e-6)
        np.testing.assert_allclose(together.scores(test), sum(scores) / len(LAYERS), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.parametrize("lam", ["search", "gcv", 0, 1.0])
def test_each_depth_is_the_ridge_classifier_of_its_own_layers(lam, balance):
    rng = np.random.default_rng(3)
    batches = [oracle.blobs(rng, counts, WIDTH, 2.0) for counts in ([12, 9], [0, 0, 14, 2], [1, 0, 2, 3])]
    test = 2 * rng.normal(size=(60, WIDTH))
    together = DepthsClassifier(DEPTHS, lam, balance=balance)
    together.adopt(GramStatistics(LAYERS))
    alone = {k: RidgeClassifier(lam, balance=balance) for k in DEPTHS}
    for k in DEPTHS:
        alone[k].adopt(GramStatistics(dict(list(LAYERS.items())[-k:])))
    lambdas = set()
    for x, y in batches:  # the last is too small for a search: λ stays
        together.partial_fit(x, y)
        for k in DEPTHS:
            dim = sum(list(LAYERS.values())[-k:])
            alone[k].partial_fit(x[:, -dim:], y)
            lam_of_k, weights = together.solved(str(k))
            assert lam_of_k == pytest.approx(alone[k].lambda_, rel=1e-6)
            np.testing.assert_allclose(weights, alone[k].solution_.weights, rtol=1e-6, atol=1e-9)
            assert together.labels_by_block(test)[str(k)] == alone[k].predict(test[:, -dim:]).tolist()
            assert together.nbytes_alone(str(k)) == alone[k].statistics_.nbytes
            lambdas.add(lam_of_k)
    assert len(lambdas) > (1 if isinstance(lam, str) else 0)


def test_a_number_is_in_force_whatever_was_searched_before():
    classifier = DepthsClassifier((1,), 0.5)
    classifier.adopt(GramStatistics(LAYERS), {"1": 100.0})
    classifier.partial_fit(*oracle.blobs(np.random.default_rng(0), [6, 6], WIDTH))
    assert classifier.solved("1")[0] == 0.5
