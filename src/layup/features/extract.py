"""Images → rows of features: decoding in parallel, progress, and an on-disk cache.

The cache keeps every layer, shallow to deep, and then the network's final embedding, also if only some are
read: so one pass over the images serves every k and every method.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from layup import memory
from layup.backbones import BATCH, Activations, Backbone
from layup.features.cache import FeatureCache, NoCache
from layup.features.reader import BadImage, in_batches, read_ahead, usable
from layup.features.reading import Reading, cache_of
from layup.features.specs import EMBEDDING
from layup.images import ImageSource, image_digest, open_image
from layup.progress import progress_bar

Rows: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True)
class Extraction:
    """Rows of features for the images that could be used.

    `kept[i]` is the index of row i among the images given; `forwarded` counts the images that went through
    the network, as opposed to the cache.
    """

    rows: Rows
    kept: NDArray[np.int64]
    digests: list[bytes]
    bad: list[BadImage]
    forwarded: int

    def of_each(self) -> Iterator[tuple[int, bytes]]:
        """The index and the digest of every image that has a row."""
        return zip(self.kept.tolist(), self.digests, strict=True)

    @classmethod
    def joined(cls, parts: Iterable[Extraction], width: int) -> Extraction:
        """The parts as one, in order; `width` is the width of a row, in case there are no parts."""
        listed = [cls(np.zeros((0, width), np.float32), np.zeros(0, np.int64), [], [], 0), *parts]
        return cls(
            np.concatenate([part.rows for part in listed]),
            np.concatenate([part.kept for part in listed]),
            [digest for part in listed for digest in part.digests],
            [bad for part in listed for bad in part.bad],
            sum(part.forwarded for part in listed),
        )


class FeatureSource(ABC):
    """Turns images into rows of features, in two steps: images are read, and what was read is computed.

    Reading decodes; any thread or process may do it. Computing sends pixels through the network.

    layers: the widths of the blocks of a row, by name.
    steps: by layer the exponent of the step that all values are multiples of; None if they are any values.
    """

    layers: dict[str, int]
    steps: dict[str, int] | None = None

    @property
    @abstractmethod
    def extractor(self) -> Extractor:
        """What reads images for it; the first one, if there are several."""

    @property
    def unrounded(self) -> FeatureSource:
        """The same features before they are rounded: sums need steps, predictions do not."""
        return self

    @property
    def cache(self) -> FeatureCache | NoCache:
        """Where features wait to be used again."""
        return self.extractor.cache

    @property
    def width(self) -> int:
        """The length of a row."""
        return sum(self.layers.values())

    @abstractmethod
    def reader(self, images: Sequence[ImageSource]) -> Callable[[list[int]], Any]:
        """A function that reads the images at some indices, as `computed` wants them. It can be pickled."""

    @abstractmethod
    def computed(self, reads: Sequence[Any]) -> list[Extraction]:
        """The rows of what was read, all in the same passes; none depends on the others."""

    def stream(self, images: Sequence[ImageSource], title: str = "Reading images") -> Iterator[Extraction]:
        """Rows in batches of `BATCH` images, in the order given, while other processes read the next ones."""
        read_at = self.reader(images)
        batches = in_batches(range(len(images)), BATCH)
        with progress_bar(self.extractor.progress) as bar:
            task = bar.add_task(title, total=len(images), note="")
            for indices, read in zip(
                batches, read_ahead(images, read_at, batches, self.extractor.workers), strict=True
            ):
                yield self.computed([read])[0]
                bar.advance(task, len(indices))

    def extract(self, images: Sequence[ImageSource], title: str = "Reading images") -> Extraction:
        """All rows together."""
        return Extraction.joined(self.stream(images, title), self.width)

    @abstractmethod
    def rows_of(self, pixels: Tensor) -> Rows:
        """The rows of a batch of preprocessed images (B, 3, height, width), past the cache."""

    @abstractmethod
    def recall(self, digests: Sequence[bytes]) -> dict[bytes, Rows]:
        """The rows of images that are no longer at hand, as far as the cache has them, by digest."""


class Extractor(FeatureSource):
    """Reads layers of a backbone (by default all, and the embedding), through a cache.

    >>> from PIL import Image
    >>> from layup.backbones import load_backbone
    >>> nano = load_backbone("vit-nano")
    >>> extractor = Extractor(nano, ["blocks.10", "blocks.11"], cache=NoCache())
    >>> extractor.extract([Image.new("RGB", (64, 64))]).rows.shape
    (1, 256)
    >>> extractor.layers
    {'blocks.10': 128, 'blocks.11': 128}
    """

    def __init__(
        self,
        backbone: Backbone,
        layers: Sequence[str] | None = None,
        *,
        cache: FeatureCache | NoCache | None = None,
        workers: int | None = None,
        progress: bool | None = None,
    ) -> None:
        everything = {layer.name: layer.width for layer in backbone.layers}
        everything[EMBEDDING] = backbone.embedding_width
        starts = dict(zip(everything, np.cumsum([0, *everything.values()]), strict=False))
        self.layers = {name: everything[name] for name in (everything if layers is None else layers)}
        self._columns = np.concatenate(
            [starts[name] + np.arange(width) for name, width in self.layers.items()]
        )
        self._full_width = sum(everything.values())
        self.backbone = backbone
        self._cache = FeatureCache() if cache is None else cache
        self.workers = workers
        self.progress = progress

    @property
    def extractor(self) -> Extractor:
        """Itself."""
        return self

    @property
    def cache(self) -> FeatureCache | NoCache:
        """Where features wait to be used again."""
        return self._cache

    def reader(self, images: Sequence[ImageSource]) -> Callable[[list[int]], Read]:
        """What opens, looks up, decodes and preprocesses."""
        return _Reader(images, self.backbone, self.cache)

    def rows_of(self, pixels: Tensor) -> Rows:
        """The rows of preprocessed images."""
        return _side_by_side(self.backbone(pixels))[:, self._columns]

    def recall(self, digests: Sequence[bytes]) -> dict[bytes, Rows]:
        """The rows that the cache has."""
        found = self.cache.get_many(self.backbone.features_key, digests)
        return {digest: row[self._columns] for digest, row in found.items() if len(row) == self._full_width}

    def computed(self, reads: Sequence[Read]) -> list[Extraction]:
        """Send what the cache did not have through the network; refused if that does not fit into memory."""
        memory.require(self.backbone.forecast(self.backbone.together), "Reading these images")
        pixels = [read.pixels for read in reads if read.pixels is not None]
        if not pixels:
            fresh = np.empty((0, self._full_width), np.float32)
        else:
            # What is learned of an image, or kept of it, must not depend on the images beside it.
            fresh = _side_by_side(self.backbone.steadily(torch.from_numpy(np.concatenate(pixels))))
        ends = np.cumsum([0 if read.pixels is None else len(read.pixels) for read in reads])[:-1]
        return [self._extraction(read, rows) for read, rows in zip(reads, np.split(fresh, ends), strict=True)]

    def _extraction(self, read: Read, fresh: Rows) -> Extraction:
        """The rows of the cache and of the network together; the cache gets those that it did not have."""
        rows = np.empty((len(read.kept), self._full_width), np.float32)
        for row_number, row in read.cached.items():
            rows[row_number] = row
        missing = [row_number for row_number in range(len(read.kept)) if row_number not in read.cached]
        rows[missing] = fresh
        finite = np.asarray(np.isfinite(rows).all(axis=1))
        if stored := [row_number for row_number in missing if finite[row_number]]:
            self.cache.put_many(
                self.backbone.features_key, [read.digests[row_number] for row_number in stored], rows[stored]
            )
        broken = [
            BadImage(
                read.kept[row_number], f"the backbone {self.backbone.name!r} gives NaN or infinity for it."
            )
            for row_number in np.flatnonzero(~finite)
        ]
        good = np.flatnonzero(finite)
        return Extraction(
            rows[np.ix_(good, self._columns)],
            np.array(read.kept, np.int64)[good],
            [read.digests[row_number] for row_number in good],
            sorted([*read.bad, *broken], key=lambda bad: bad.index),
            len(missing),
        )


def _side_by_side(seen: Activations) -> Rows:
    """All layers and the embedding."""
    rows: Rows = torch.cat([*seen.layers, seen.embedding], dim=1).cpu().numpy()
    return rows


def extractor_of(backbone: Backbone, layers: Sequence[str], reading: Reading) -> Extractor:
    """A reader of these layers."""
    workers, progress = reading.get("workers"), reading.get("progress")
    return Extractor(backbone, layers, cache=cache_of(reading), workers=workers, progress=progress)


@dataclass(frozen=True)
class Read:
    """A batch of images that were read: found in the cache, or decoded, or bad."""

    kept: list[int]  # indices among the images given
    digests: list[bytes]  # of those
    cached: dict[int, Rows]  # index in `kept` → row
    pixels: Rows | None  # of all others, in order
    bad: list[BadImage]


class _Reader:
    """Runs in the reading processes: open, look up, decode, preprocess."""

    def __init__(
        self, images: Sequence[ImageSource], backbone: Backbone, cache: FeatureCache | NoCache
    ) -> None:
        self.images = images
        self.preprocess = backbone.preprocessing
        self.cache = cache
        self.key = backbone.features_key

    def __call__(self, indices: list[int]) -> Read:
        digests, bad = usable(indices, lambda index: image_digest(self.images[index]))
        known = self.cache.get_many(self.key, list(digests.values()))
        unknown = [index for index, digest in digests.items() if digest not in known]
        pixels, undecodable = usable(unknown, self._pixels)
        kept = [index for index, digest in digests.items() if digest in known or index in pixels]
        return Read(
            kept,
            [digests[index] for index in kept],
            {
                row_number: known[digests[index]]
                for row_number, index in enumerate(kept)
                if index not in pixels
            },
            np.stack(list(pixels.values())) if pixels else None,
            bad + undecodable,
        )

    def _pixels(self, index: int) -> Rows:
        pixels: Rows = self.preprocess.transform(open_image(self.images[index])).numpy()
        return pixels
