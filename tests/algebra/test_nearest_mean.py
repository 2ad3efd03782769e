from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances

import oracle
from layup import NearestMeanClassifier


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(23)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_nearest_mean_is_nearest(metric: str, rng: np.random.Generator) -> None:
    x, y = oracle.blobs(rng, [9, 4, 1], dim=5, spread=2.0)
    model = NearestMeanClassifier(metric).fit(x, y)
    means = np.array([x[y == label].mean(axis=0) for label in ("c00", "c01", "c02")])
    expected = cosine_similarity(x, means) if metric == "cosine" else -euclidean_distances(x, means)
    np.testing.assert_allclose(model.scores(x), expected, atol=1e-12)
    for phi, answer in zip(x, model.predict(x), strict=True):
        gaps = [
            1 - phi @ mean / np.linalg.norm(phi) / np.linalg.norm(mean)
            if metric == "cosine"
            else np.linalg.norm(phi - mean)
            for mean in means
        ]
        assert answer == f"c{int(np.argmin(gaps)):02d}"
