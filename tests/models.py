"""What tests of models share: what a model knows and holds, to be compared; and a network in a moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import nn

from layup import Backbone, ImageModel, LayUP, Preprocessing
from photos import crops

Photo = tuple[int, str]
"""The number of a photo, and its label."""


@cache
def small_network() -> Backbone:
    """Two layers, 6 and 8 values wide."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 6, 3, stride=2), nn.ReLU(), nn.Conv2d(6, 8, 3))
    return Backbone.from_module(network, ["1", "2"], Preprocessing((8, 8), (8, 8), "squash"))


def small_model(*batches: Sequence[Photo], **options: Any) -> ImageModel:
    """A model of that network, which has learned batches of numbered photos."""
    reading = {name: options.pop(name) for name in ("anonymous", "per_class") if name in options}
    model = LayUP(small_network(), **{"k": 2, "lam": 1.0, **options})
    if reading:
        model = ImageModel(
            model.features, model.classifier, backbone=small_network(), **reading, **model.reading
        )
    for each in batches:
        model.learn(*given(each))
    return model


def picture(number: int) -> np.ndarray:
    return _pictures()[number]


@cache
def _pictures() -> list[np.ndarray]:
    return crops(60, side=8)


def given(photos: Iterable[Photo]) -> tuple[list[np.ndarray], list[str]]:
    """Images and labels."""
    listed = list(photos)
    return [picture(number) for number, _ in listed], [label for _, label in listed]


@cache
def _features() -> np.ndarray:
    rows = LayUP(small_network(), 2, cache=False).extractor_.extract(_pictures()).rows
    return rows.astype(np.float64)


def assert_holds(model: ImageModel, photos: Iterable[Photo]) -> None:
    """The sums, and what the model knows, are those of these photos: added one by one, and to the bit."""
    held = Counter(photos)
    listed = sorted(held.elements())
    labels = sorted({label for _, label in listed})
    assert model.counts_ == {label: sum(name == label for _, name in listed) for label in labels}
    gram, prototypes = np.zeros((14, 14)), {label: np.zeros(14) for label in labels}
    for number, label in listed:
        gram += np.outer(_features()[number], _features()[number])
        prototypes[label] += _features()[number]
    np.testing.assert_array_equal(model.statistics_.gram, gram)
    expected = np.array([*prototypes.values()]).reshape(-1, 14)
    np.testing.assert_array_equal(model.statistics_.prototypes, expected)
    if model.photos is not None:
        assert model.knows_all
        known = zip(range(60), model.learned_as(_pictures()), strict=True)
        assert Counter((number, label) for number, names in known for label in names) == held
    if model.roots is not None:
        for label in labels:
            rows = np.array([_features()[number] for number, name in listed if name == label])
            # A root is rounded; what follows from it is not.
            size = 1e-9 * max(np.abs(gram).max(), 1.0)
            np.testing.assert_allclose(model.roots.gram(label), rows.T @ rows, rtol=1e-9, atol=size)


def photos_of(model: ImageModel) -> list[tuple[bytes, str, int]]:
    """Digest, class and batch of each photo that a model knows, sorted."""
    known = model.photos
    assert known is not None
    every = np.arange(len(known))
    return sorted(zip(known.digests_at(every), known.labels_at(every), known.batches_at(every), strict=True))


def assert_same_photos(a: ImageModel, b: ImageModel) -> None:
    """The same photos as the same classes, whatever batches they came in."""
    assert [photo[:2] for photo in photos_of(a)] == [photo[:2] for photo in photos_of(b)]


def assert_same_sums(a: ImageModel, b: ImageModel) -> None:
    assert a.counts_ == b.counts_
    for mine, others in zip(
        a.statistics_.state()[1].values(), b.statistics_.state()[1].values(), strict=True
    ):
        np.testing.assert_allclose(mine, others, rtol=1e-6, atol=1e-9 * np.abs(others).max(initial=1))


def snapshot(model: ImageModel) -> tuple[Any, ...]:
    """All that learning may change."""
    arrays = model.statistics_.state()[1]
    state = (model.counts_, list(model.log), {name: array.copy() for name, array in arrays.items()})
    photos = None if model.photos is None else photos_of(model)
    roots = None if model.roots is None else model.roots.state()[1]["roots"].tobytes()
    return (*state, model.classifier_.in_force(), photos, roots)


def assert_unchanged(model: ImageModel, before: tuple[Any, ...]) -> None:
    after = snapshot(model)
    for array in before[2]:
        np.testing.assert_array_equal(after[2][array], before[2][array])
    assert after[:2] == before[:2]
    assert after[3:] == before[3:]
