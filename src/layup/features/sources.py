"""Rows of features made from other rows: projected at random, or side by side. They are read like layers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from torch import Tensor

from layup.algebra import Floats
from layup.features.extract import Extraction, FeatureSource, Rows
from layup.images import ImageSource
from layup.seeds import seed_of


class ProjectedRows(FeatureSource):
    """ReLU(f W) of rows f, with W ~ N(0, 1) of shape (their width) × `width`, drawn from the seed.

    W is drawn when first needed and never stored: its seed and shape are enough. It comes from NumPy's
    `RandomState`, whose numbers are promised to stay the same in all versions, and is rounded to float32, so
    that a C library whose logarithm differs in the last digit does not matter. In memory it takes 8 bytes per
    value. The projection is computed in float64, so that a row does not depend on the rest of its batch, and
    returned as float32: rounding by 6e-8 is no more than what the network did before, and sums are made from
    the rounded rows, so that nothing is inconsistent.

    >>> from PIL import Image
    >>> from layup.backbones import load_backbone
    >>> from layup.features.cache import NoCache
    >>> from layup.features.extract import Extractor
    >>> extractor = Extractor(load_backbone("vit-nano"), ["blocks.11"], cache=NoCache())
    >>> projected = ProjectedRows(extractor, width=300, seed=1)
    >>> projected.layers
    {'random projection (seed 1) of blocks.11': 300}
    >>> projected.extract([Image.new("RGB", (64, 64))]).rows.shape
    (1, 300)
    """

    def __init__(self, source: FeatureSource, width: int, seed: int) -> None:
        self.source = source
        self.seed = seed
        # Models with other seeds, or other layers, must not be merged: so their layers have other names.
        self.layers = {f"random projection (seed {seed}) of {', '.join(source.layers)}": width}
        self.cache = source.cache

    @cached_property
    def matrix(self) -> Floats:
        """W, of shape (width before) × (width after)."""
        generator = np.random.RandomState(seed_of(self.seed, "projection") % 2**32)
        drawn = generator.standard_normal((self.source.width, self.width))
        return drawn.astype(np.float32).astype(np.float64)

    def stream(self, images: Sequence[ImageSource], title: str = "Reading images") -> Iterator[Extraction]:
        """Rows in batches, in the order given."""
        for part in self.source.stream(images, title):
            yield replace(part, rows=self.project(part.rows))

    def rows_of(self, pixels: Tensor) -> Rows:
        """The projected rows of preprocessed images."""
        return self.project(self.source.rows_of(pixels))

    def recall(self, digests: Sequence[bytes]) -> dict[bytes, Rows]:
        """The projected rows of what the cache has."""
        found = self.source.recall(digests)
        return {digest: self.project(row[None])[0] for digest, row in found.items()}

    def project(self, rows: Rows) -> Rows:
        """ReLU(f W) of each row f."""
        return np.maximum(rows.astype(np.float64) @ self.matrix, 0.0).astype(np.float32)


class JoinedRows(FeatureSource):
    """The rows of several sources side by side, the blocks of each under its own prefix.

    An image that one of them cannot use is left out. Each source reads (and may decode) every image.

    >>> from PIL import Image
    >>> from layup.backbones import load_backbone
    >>> from layup.features.cache import NoCache
    >>> from layup.features.extract import Extractor
    >>> extractor = Extractor(load_backbone("vit-nano"), ["blocks.11"], cache=NoCache())
    >>> joined = JoinedRows({"frozen": extractor, "tuned": extractor})
    >>> joined.layers
    {'frozen blocks.11': 128, 'tuned blocks.11': 128}
    >>> joined.extract([Image.new("RGB", (64, 64))]).rows.shape
    (1, 256)
    """

    def __init__(self, sources: Mapping[str, FeatureSource]) -> None:
        self.sources = dict(sources)
        self.layers = {
            f"{prefix} {name}": width
            for prefix, source in self.sources.items()
            for name, width in source.layers.items()
        }
        self.cache = next(iter(self.sources.values())).cache

    def stream(self, images: Sequence[ImageSource], title: str = "Reading images") -> Iterator[Extraction]:
        """Rows in batches, in the order given."""
        streams = [source.stream(images, f"{title} ({name})") for name, source in self.sources.items()]
        for parts in zip(*streams, strict=True):
            yield _side_by_side(parts)

    def rows_of(self, pixels: Tensor) -> Rows:
        """The rows of images that are preprocessed as all sources want them."""
        return np.concatenate([source.rows_of(pixels) for source in self.sources.values()], axis=1)

    def recall(self, digests: Sequence[bytes]) -> dict[bytes, Rows]:
        """The rows of what the cache has for all sources."""
        found = [source.recall(digests) for source in self.sources.values()]
        return {
            digest: np.concatenate([each[digest] for each in found])
            for digest in found[0]
            if all(digest in each for each in found)
        }


def _side_by_side(parts: Sequence[Extraction]) -> Extraction:
    """Extractions of the same images as one with wider rows."""
    kept = sorted(set.intersection(*(set(part.kept.tolist()) for part in parts)))
    chosen = [np.searchsorted(part.kept, kept) for part in parts]
    bad = {each.index: each for part in parts for each in part.bad}
    return Extraction(
        np.concatenate([part.rows[rows] for part, rows in zip(parts, chosen, strict=True)], axis=1),
        np.array(kept, np.int64),
        [parts[0].digests[row] for row in chosen[0]],
        [bad[index] for index in sorted(bad)],
        sum(part.forwarded for part in parts),
    )
