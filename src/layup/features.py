"""Images → rows of features: decoding beside computing, progress, and an on-disk cache.

The cache keeps every layer, shallow to deep, and then the network's final embedding, whatever is asked:
so one pass over the images serves every k and every method.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from layup.backbones import Backbone
from layup.cache import FeatureCache, NoCache
from layup.errors import BadImageError, LayupError
from layup.images import ImageSource, image_digest, open_image

Rows: TypeAlias = NDArray[np.float32]

EMBEDDING = "final embedding"
"""Beside the layers' names: no module has a space in its own."""

BATCH = 32
FEW = 4 * BATCH
"""Up to so many images are decoded in this process: starting others takes longer."""


@dataclass(frozen=True)
class BadImage:
    """An image that could not be used: its place among those given, and why."""

    index: int
    reason: str


@dataclass(frozen=True)
class Extraction:
    """Rows of features for those images that could be used.

    `kept[i]` is the place of row i among the images given; `forwarded` counts the images that went through
    the network, as opposed to the cache.
    """

    rows: Rows
    kept: NDArray[np.int64]
    digests: list[bytes]
    bad: list[BadImage]
    forwarded: int

    @classmethod
    def joined(cls, parts: Iterable[Extraction], width: int) -> Extraction:
        """The parts as one, in order; `width` is that of a row, should there be none."""
        listed = [cls(np.zeros((0, width), np.float32), np.zeros(0, np.int64), [], [], 0), *parts]
        return cls(
            np.concatenate([part.rows for part in listed]),
            np.concatenate([part.kept for part in listed]),
            [digest for part in listed for digest in part.digests],
            [bad for part in listed for bad in part.bad],
            sum(part.forwarded for part in listed),
        )


class Extractor:
    """Reads layers of a backbone (by default all, and the embedding), by way of a cache.

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
        self.width = sum(self.layers.values())
        self._columns = np.concatenate(
            [starts[name] + np.arange(width) for name, width in self.layers.items()]
        )
        self._full_width = sum(everything.values())
        self.backbone = backbone
        self.cache = FeatureCache() if cache is None else cache
        self.workers = workers
        self.progress = progress

    def extract(self, images: Sequence[ImageSource], title: str = "Reading images") -> Extraction:
        """All rows at once."""
        return Extraction.joined(self.stream(images, title), self.width)

    def stream(self, images: Sequence[ImageSource], title: str = "Reading images") -> Iterator[Extraction]:
        """Rows in batches, in the order given, while other processes decode the next ones."""
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message="This DataLoader will create"
            )  # more than cores: as asked
            loader = DataLoader(
                _Reader(images, self.backbone, self.cache),
                batch_size=BATCH,
                collate_fn=_as_it_is,
                num_workers=self._worker_count(images),
            )
        with _progress_bar(self.progress) as bar:
            task = bar.add_task(title, total=len(images))
            for read in _surviving(loader):
                yield self._computed(read)
                bar.advance(task, len(read.kept) + len(read.bad))

    def _computed(self, read: _Read) -> Extraction:
        """Send what the cache did not have through the network."""
        rows = np.empty((len(read.kept), self._full_width), np.float32)
        for place, row in read.cached.items():
            rows[place] = row
        missing = [place for place in range(len(read.kept)) if place not in read.cached]
        if read.pixels is not None:
            seen = self.backbone(read.pixels)
            rows[missing] = torch.cat([*seen.layers, seen.embedding], dim=1).cpu().numpy()
        finite = np.asarray(np.isfinite(rows).all(axis=1))
        stored = [place for place in missing if finite[place]]
        self.cache.put_many(
            self.backbone.fingerprint, [read.digests[place] for place in stored], rows[stored]
        )
        broken = [
            BadImage(read.kept[place], f"the backbone {self.backbone.name!r} gives NaN or infinity for it.")
            for place in np.flatnonzero(~finite)
        ]
        good = np.flatnonzero(finite)
        return Extraction(
            rows[np.ix_(good, self._columns)],
            np.array(read.kept, np.int64)[good],
            [read.digests[place] for place in good],
            sorted([*read.bad, *broken], key=lambda bad: bad.index),
            len(missing),
        )

    def _worker_count(self, images: Sequence[ImageSource]) -> int:
        if self.workers is not None:
            return self.workers
        files = len(images) > FEW and isinstance(images[0], str | os.PathLike)
        return min(4, os.cpu_count() or 1) if files else 0


@dataclass(frozen=True)
class _Read:
    """A batch as the reader leaves it: found in the cache, or decoded, or bad."""

    kept: list[int]  # places among the images given
    digests: list[bytes]  # of those
    cached: dict[int, Rows]  # place in `kept` → row
    pixels: Tensor | None  # of all others, in order
    bad: list[BadImage]


class _Reader(Dataset[Any]):
    """What runs in the worker processes: open, look up, decode, preprocess."""

    def __init__(
        self, images: Sequence[ImageSource], backbone: Backbone, cache: FeatureCache | NoCache
    ) -> None:
        self.images = images
        self.preprocess = backbone.preprocessing
        self.cache = cache
        self.fingerprint = backbone.fingerprint

    def __len__(self) -> int:
        return len(self.images)

    def __getitems__(self, indices: list[int]) -> _Read:
        digests: dict[int, bytes] = {}
        bad: list[BadImage] = []
        for index in indices:
            try:
                digests[index] = image_digest(self.images[index])
            except BadImageError as error:
                bad.append(BadImage(index, str(error)))
        known = self.cache.get_many(self.fingerprint, list(digests.values()))
        kept: list[int] = []
        cached: dict[int, Rows] = {}
        pixels: list[Tensor] = []
        for index, digest in digests.items():
            if digest in known:
                cached[len(kept)] = known[digest]
            else:
                try:
                    pixels.append(self.preprocess.transform(open_image(self.images[index])))
                except BadImageError as error:
                    bad.append(BadImage(index, str(error)))
                    continue
            kept.append(index)
        return _Read(
            kept, [digests[index] for index in kept], cached, torch.stack(pixels) if pixels else None, bad
        )


def _surviving(loader: DataLoader[Any]) -> Iterator[_Read]:
    """What the workers read, for as long as they live: the system kills them when memory runs out."""
    try:
        yield from loader
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise LayupError(
            "A process that decodes images was killed, perhaps for want of (shared) memory. "
            "Use fewer of them, or none: workers=0, or --workers 0."
        ) from error


def _as_it_is(read: Any) -> Any:
    return read


def _progress_bar(show: bool | None) -> Progress:
    """A bar on standard error; by default only where somebody is looking."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = sys.stderr.isatty() if show is None else show
    return Progress(*columns, console=console, disable=not shown, transient=True)
