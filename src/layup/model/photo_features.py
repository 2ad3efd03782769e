"""The features of photos: read from images, or, for photos that are not at hand, from the cache."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from layup import storage
from layup.features import (
    FeatureCache,
    FeatureSource,
    FeatureSpec,
    NoCache,
    Reading,
    Rows,
    cache_of,
    digests_of,
)
from layup.images import ImageSource
from layup.model.known import KnownPhotos
from layup.model.log import Entry
from layup.model.network import Network
from layup.model.recall import Recalled, named, recall
from layup.model.visits import Seen, visit


class PhotoFeatures:
    """Which features of which network, and how images are read; the network is loaded when first needed."""

    def __init__(
        self, spec: FeatureSpec, network: Network, reading: Reading, extractor: FeatureSource | None = None
    ) -> None:
        self.spec = spec
        self.network = network
        self.reading = reading
        self.has_file = False
        """Whether the model is in a file: then what it forgets is deleted once the file has forgotten it."""
        self._extractor = extractor
        self._to_delete: list[bytes] = []
        self._needed = Counter[bytes]()
        self._clearing = threading.Lock()

    @property
    def extractor(self) -> FeatureSource:
        """The reader of images."""
        if self._extractor is None:
            extractor = self.spec.build(self.network.backbone, self.reading)
            origin = self.network.origin
            if origin is not None and extractor.layers != origin.layers:
                raise storage.damaged(origin.file, "its sums are of other layers than its backbone has")
            self._extractor = extractor
        return self._extractor

    def read_by(self, extractor: FeatureSource, reading: Reading) -> PhotoFeatures:
        """The same features, read in another way, such as by the one thread that may use the network."""
        return PhotoFeatures(self.spec, self.network, reading, extractor)

    def reset(self) -> None:
        """The network was adapted, or is no longer."""
        self._extractor = None

    @property
    def cache(self) -> FeatureCache | NoCache:
        """Where features wait to be used again."""
        return cache_of(self.reading)

    def digests(self, images: Sequence[ImageSource]) -> list[bytes | None]:
        """The digest of each image; None if it cannot be read."""
        return digests_of(images, self.reading)

    def visit(
        self,
        images: Sequence[ImageSource],
        indices: Sequence[int],
        take: Callable[[Rows, list[int]], object],
        expected: Sequence[bytes | None] | None,
        *,
        strict: bool,
        title: str,
    ) -> Seen:
        """Hand over the features of images: see `visit`."""
        if not indices:
            return Seen()
        return visit(self.extractor, images, indices, take, expected=expected, strict=strict, title=title)

    def recall(
        self, photos: KnownPhotos, rows: NDArray[np.int64], take: Callable[[Rows, list[str]], object]
    ) -> Recalled:
        """Hand over features from the cache: see `recall`."""
        return recall(photos, rows, lambda: self.extractor, self.cache, take)

    def named(self, photos: KnownPhotos, rows: NDArray[np.int64], log: Sequence[Entry]) -> list[str]:
        """Photos in words."""
        return named(photos, rows, self.cache, log)

    def whole_digests(self, beginnings: Sequence[bytes]) -> list[bytes]:
        """The whole digests of photos, of those that the cache has."""
        return [*self._cache_to_clear.completed(beginnings).values()]

    def delete(self, digests: Sequence[bytes], still_known: KnownPhotos | None) -> None:
        """Delete the cached features of photos: at once, or, if the model is in a file, by `saved`."""
        self._to_delete += digests
        if not self.has_file:
            self._delete(still_known)

    def saved(self, still_known: KnownPhotos | None) -> None:
        """The model is in a file as it is now: nothing needs the features of what it has forgotten."""
        self.has_file = True
        self._delete(still_known)

    @contextmanager
    def needed(self, images: Sequence[ImageSource]) -> Iterator[None]:
        """Delete nothing of these photos inside: they are read, and about to be learned, maybe again."""
        digests = [digest for digest in self.digests(images) if digest is not None]
        with self._clearing:
            self._needed.update(digests)
        try:
            yield
        finally:
            with self._clearing:
                self._needed.subtract(digests)
                self._needed = +self._needed

    def _delete(self, still_known: KnownPhotos | None) -> None:
        """Delete what is to be deleted, but not what the model knows, and what is needed only later."""
        with self._clearing:
            digests, self._to_delete = self._to_delete, []
            known = [()] * len(digests) if still_known is None else still_known.labels_of(digests)
            gone = [digest for digest, labels in zip(digests, known, strict=True) if not labels]
            self._to_delete += [digest for digest in gone if digest in self._needed]
            if free := [digest for digest in gone if digest not in self._needed]:
                self._cache_to_clear.delete_many(None, free)

    @property
    def _cache_to_clear(self) -> FeatureCache:
        # This model may not use a cache, but an earlier one may have left its images in it.
        return FeatureCache() if isinstance(self.cache, NoCache) else self.cache
