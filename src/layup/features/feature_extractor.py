"""Images → rows of features as a transformer, so that any estimator of scikit-learn can follow it.

Only this module inherits from scikit-learn: whoever asks for it uses scikit-learn anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from layup import memory
from layup.backbones import Backbone, load_backbone
from layup.errors import BadImageError, InputError
from layup.features.cache import FeatureCache, NoCache
from layup.features.extract import FeatureSource, Rows
from layup.features.reader import BadImage
from layup.features.specs import FeatureSpec, LastLayers
from layup.images import ImageSource, listed

NAMED = 5
"""So many bad images are named in an error."""


class FeatureExtractor(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A frozen network as a transformer: images in, one row of features per image out.

    It learns nothing: `fit` only checks that the network has these features. Images are what `learn` takes:
    paths, contents of files (bytes, or open files), PIL images, arrays or tensors. Costs one pass through the
    network per image, the first time; then the cache has its features, also for other layers.

    Args:
        backbone: a name for `load_backbone`, or a loaded `Backbone`. The network of the last name stays in
            memory; clones share it.
        features: which features of the network, such as `LastLayers(6)`, `OneLayer(2)` or `Embedding()`.
        cache, workers, progress: see `Reading`.

    >>> from PIL import Image
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> pipeline = make_pipeline(FeatureExtractor("vit-nano", cache=False), LogisticRegression())
    >>> _ = pipeline.fit([Image.new("RGB", (64, 64), colour) for colour in ("red", "blue")], ["red", "blue"])
    >>> pipeline.predict([Image.new("RGB", (64, 64), "navy")]).tolist()
    ['blue']
    """

    def __init__(
        self,
        backbone: str | Backbone = "bundled",
        features: FeatureSpec = LastLayers(),  # noqa: B008 - a value, which nobody can change
        *,
        cache: FeatureCache | NoCache | bool = True,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> None:
        self.backbone = backbone
        self.features = features
        self.cache = cache
        self.workers = workers
        self.progress = progress

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check that the network has these features. No image is looked at."""
        self._wanted.resolved(self._network)
        return self

    def transform(self, X: Iterable[ImageSource]) -> Rows:
        """The features of images, n × d in float32, in the order given.

        Every image has a row, so an image that cannot be used is an error, which names it.
        """
        images, source = listed(X), self._source
        room = {"their features": 4 * len(images) * source.width}
        memory.require(memory.Forecast(room), f"Reading {len(images):,} images")
        rows, bad = np.empty((len(images), source.width), np.float32), list[BadImage]()
        for part in source.stream(images):
            rows[part.kept] = part.rows
            bad += part.bad
        if bad:
            raise _unusable(bad, len(images))
        return rows

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """The name of each column: its layer, and its number in it. Nothing depends on `input_features`."""
        layers = self._source.layers.items()
        return np.array([f"{name}_{number}" for name, width in layers for number in range(width)], object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.no_validation = True
        tags.input_tags.two_d_array = False  # what it takes has no tags: a list of images
        tags.input_tags.string = True  # of paths, say
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_clone__(self) -> Self:
        """The same around the same network, which is frozen and may be large, and the same cache."""
        return deepcopy(self, {id(each): each for each in (self.backbone, self.cache)})

    @property
    def _network(self) -> Backbone:
        return self.backbone if isinstance(self.backbone, Backbone) else _loaded(self.backbone)

    @property
    def _wanted(self) -> FeatureSpec:
        if not isinstance(self.features, FeatureSpec):
            raise InputError(
                f"features = {self.features!r} cannot be read from a network. Give a value of "
                "layup.features, such as LastLayers(6), OneLayer(2) or Embedding()."
            )
        return self.features

    @property
    def _source(self) -> FeatureSource:
        reading: Any = {"cache": self.cache, "workers": self.workers, "progress": self.progress}
        return self._wanted.build(self._network, reading)


@lru_cache(maxsize=1)
def _loaded(name: str) -> Backbone:
    """The network of this name, which pipelines and their clones ask for again and again."""
    return load_backbone(name)


def _unusable(bad: Sequence[BadImage], given: int) -> BadImageError:
    """The error for images that have no features: where they are, and why."""
    named, more = bad[:NAMED], f", and {len(bad) - NAMED} more" if len(bad) > NAMED else ""
    places = ", ".join(str(each.index) for each in named)
    return BadImageError(
        f"Each image must have a row of features, but {len(bad)} of {given} cannot be used (number {places}"
        f"{more}; the first image is number 0). Leave them out. {' '.join(each.reason for each in named)}"
    )
