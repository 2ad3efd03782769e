"""Images → rows of features: decoding beside computing, progress, and an on-disk cache.

The cache keeps every layer, shallow to deep, and then the network's final embedding, whatever is asked:
so one pass over the images serves every k and every method.
"""

from __future__ import annotations

import os
import threading
import warnings
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, TypeAlias, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch._C import _remove_worker_pids
from torch.utils.data import DataLoader, Dataset

from layup import memory
from layup.backbones import BATCH, Backbone
from layup.errors import BadImageError, LayupError
from layup.features.cache import FeatureCache, NoCache
from layup.features.specs import EMBEDDING
from layup.images import ImageSource, image_digest, is_open_file, open_image
from layup.progress import progress_bar

Rows: TypeAlias = NDArray[np.float32]

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


class FeatureSource(ABC):
    """What makes rows of features of images: the widths of their blocks by name, and the cache behind it."""

    layers: dict[str, int]
    cache: FeatureCache | NoCache

    @property
    def width(self) -> int:
        """How many values a row has."""
        return sum(self.layers.values())

    @abstractmethod
    def stream(self, images: Sequence[ImageSource], title: str = "Reading images") -> Iterator[Extraction]:
        """Rows in batches of `BATCH` images, in the order given."""

    def extract(self, images: Sequence[ImageSource], title: str = "Reading images") -> Extraction:
        """All rows at once."""
        return Extraction.joined(self.stream(images, title), self.width)


class Extractor(FeatureSource):
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
        self._columns = np.concatenate(
            [starts[name] + np.arange(width) for name, width in self.layers.items()]
        )
        self._full_width = sum(everything.values())
        self.backbone = backbone
        self.cache = FeatureCache() if cache is None else cache
        self.workers = workers
        self.progress = progress

    def stream(self, images: Sequence[ImageSource], title: str = "Reading images") -> Iterator[Extraction]:
        """Rows in batches, in the order given, while other processes decode the next ones."""
        memory.require(self.backbone.forecast(min(BATCH, len(images))), "Reading these images")
        reader = _Reader(images, self.backbone, self.cache)
        batches = in_batches(range(len(images)), BATCH)
        with progress_bar(self.progress) as bar:
            task = bar.add_task(title, total=len(images), note="")
            for read in read_ahead(reader, batches, self.workers):
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
        if stored := [place for place in missing if finite[place]]:
            self.cache.put_many(
                self.backbone.features_key, [read.digests[place] for place in stored], rows[stored]
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


class Reading(TypedDict, total=False):
    """How images are read, which never changes a prediction.

    cache: keep features on disk, so that an image passes the network once (default: yes); or a cache.
    workers: processes that decode images (default: by need).
    progress: show bars (default: when standard error is a terminal).
    """

    cache: FeatureCache | NoCache | bool
    workers: int | None
    progress: bool | None


def extractor_of(backbone: Backbone, layers: Sequence[str], reading: Reading) -> Extractor:
    """A reader of these layers, in the way that somebody wants images read."""
    cache = reading.get("cache", True)
    if isinstance(cache, bool):
        cache = FeatureCache() if cache else NoCache()
    workers, progress = reading.get("workers"), reading.get("progress")
    return Extractor(backbone, layers, cache=cache, workers=workers, progress=progress)


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
        self.key = backbone.features_key

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
        known = self.cache.get_many(self.key, list(digests.values()))
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


@dataclass(frozen=True)
class Survey:
    """Which images can be used (places among those given, and digests), and which cannot."""

    kept: list[int]
    digests: list[bytes]
    bad: list[BadImage]


def survey(images: Sequence[ImageSource], workers: int | None = None, progress: bool | None = None) -> Survey:
    """Open every image once, before something long begins.

    >>> survey([np.zeros((8, 8), np.uint8), "no-such-file.jpg"]).kept
    [0]
    """
    found = Survey([], [], [])
    with progress_bar(progress) as bar:
        task = bar.add_task("Checking images", total=len(images), note="")
        for part in read_ahead(_Surveyor(images), in_batches(range(len(images)), BATCH), workers):
            found.kept.extend(part.kept)
            found.digests.extend(part.digests)
            found.bad.extend(part.bad)
            bar.advance(task, len(part.kept) + len(part.bad))
    return found


class _Surveyor(Dataset[Any]):
    """What runs in the worker processes of `survey`."""

    def __init__(self, images: Sequence[ImageSource]) -> None:
        self.images = images

    def __getitems__(self, places: list[int]) -> Survey:
        found = Survey([], [], [])
        for place in places:
            try:
                open_image(self.images[place])
                found.digests.append(image_digest(self.images[place]))
                found.kept.append(place)
            except BadImageError as error:
                found.bad.append(BadImage(place, str(error)))
        return found


def in_batches(places: Sequence[int] | NDArray[np.int64], size: int) -> list[list[int]]:
    """Consecutive runs of so many; the last may be shorter.

    >>> in_batches(range(5), 2)
    [[0, 1], [2, 3], [4]]
    """
    return [[int(place) for place in places[start : start + size]] for start in range(0, len(places), size)]


def read_ahead(dataset: Any, batches: Sequence[list[int]], workers: int | None) -> Iterator[Any]:
    """What a dataset with `images` and `__getitems__` makes of each batch, prepared by other processes.

    `workers` is how many, or None for so many as pay.
    """
    workers = worker_count(dataset.images, workers)
    with warnings.catch_warnings():
        # More processes than cores: as asked.
        warnings.filterwarnings("ignore", message="This DataLoader will create")
        loader = DataLoader(dataset, batch_sampler=batches, collate_fn=_as_it_is, num_workers=workers)
    watch = None
    try:
        prepared = iter(loader)
        if workers:
            watch = _Watch(prepared)
        yield from prepared
    except (RuntimeError, OSError, EOFError) as error:
        # PyTorch says so itself where it was killed before the watch began.
        killed = "killed by signal" in str(error) or (watch is not None and watch.saw_one_killed())
        unable = workers > 0 and watch is None and isinstance(error, OSError)
        if not (killed or unable or "DataLoader worker" in str(error)):
            raise
        what = "was killed" if killed else "could not be started" if unable else "failed"
        # The system kills them when memory runs out.
        raise LayupError(
            f"A process that decodes images {what}, perhaps for want of (shared) memory. "
            "Use fewer of them, or none: workers=0, or --workers 0."
        ) from error


class _Watch:
    """Notices a killed worker of a loader at once, in whatever thread the loader is used.

    PyTorch would raise an error in whatever the main thread is doing just then. And where the others wait for
    the rest of what the killed one was about to send, they would wait for ever: so all are ended with it.
    """

    def __init__(self, prepared: Any) -> None:
        _remove_worker_pids(id(prepared))
        prepared._worker_pids_set = False  # as PyTorch does when it removes them
        self._loader = weakref.ref(prepared)
        self._workers = list(prepared._workers)
        self._results = prepared._worker_result_queue
        self._killed = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        wait([worker.sentinel for worker in self._workers])
        if getattr(self._loader(), "_shutdown", True):
            return  # they have ended because all is done
        self._killed.set()
        for worker in self._workers:
            with suppress(OSError):
                worker.kill()
        self._results._writer.close()  # the last end of the pipe: now reading from it ends as well

    def saw_one_killed(self) -> bool:
        """Whether one was killed, or is just being noticed to be."""
        return self._killed.wait(1)


def worker_count(images: Sequence[ImageSource], wanted: int | None = None) -> int:
    """How many processes to decode images with: none for a few of them, or for what needs no decoding.

    Nor for open files, whatever is wanted: each has only one place where all would read.

    >>> worker_count(["a.jpg", "b.jpg"]), worker_count(["a.jpg", "b.jpg"], 2)
    (0, 2)
    """
    if wanted == 0 or len(images) <= (FEW if wanted is None else 0):
        return 0
    # What makes images only when asked is asked for one, and no more.
    looked_at = images if isinstance(images, list | tuple) else [images[0]]
    if any(is_open_file(image) or isinstance(image, memoryview) for image in looked_at):
        return 0
    if wanted is not None:
        return wanted
    return min(4, os.cpu_count() or 1) if isinstance(images[0], str | os.PathLike) else 0


def _as_it_is(read: Any) -> Any:
    return read
