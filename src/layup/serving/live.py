"""A model that threads use together."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from layup import memory
from layup.algebra import Expected
from layup.errors import InputError
from layup.features import FeatureCache, NoCache, Reading, ReadOnlyCache, cache_of
from layup.model import (
    Draft,
    Entry,
    Estimate,
    Explanation,
    GivenPhotos,
    ImageModel,
    Knowledge,
    KnownAudit,
    Outcome,
    PhotoFeatures,
    Suggestions,
    audit_known,
    forgot,
    forgot_class,
    forgot_ids,
    renamed,
    taught,
    undone,
)
from layup.serving.follower import Follower
from layup.serving.home import Home, Nowhere, missing
from layup.serving.network import NetworkThread, SharedSource
from layup.serving.snapshot import Answer, Facts, Snapshot
from layup.serving.writer import Writer

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """How many may wait for a live model, and how long.

    callers: that want photos read at a time. lessons: that wait. patience: seconds that a caller waits.
    gather: seconds that a photo waits for others to be read with, at most. judged: photos that are judged to
    tell the accuracy to expect.
    """

    callers: int = 64
    lessons: int = 256
    patience: float = 60.0
    gather: float = 0.003
    judged: int = 2000


class LiveModel:
    """A model that threads use together: `with LiveModel.open(path) as live:`.

    Images are contents of files. One that cannot be used fails alone. With a `key`, the same request again
    gets the first outcome, and changes nothing.

    Callers decode, one thread has the network, and one changes the model. Whoever asks sees the newest
    snapshot, so predictions wait for no lesson. A lesson is on the disk, and seen by all, before it is
    confirmed.
    """

    def __init__(
        self, begin: Callable[[Callable[[ImageModel], None]], Writer | Follower], saved: bool, limits: Limits
    ) -> None:
        self._limits = limits
        self._saved = saved
        self._ending = threading.Event()
        self._hashed: tuple[int, str | None] = (-1, None)
        self._keeper = begin(self._prepare)
        self._judge = threading.Thread(target=self._judge_changes, name="layup judge", daemon=True)
        self._judge.start()

    @classmethod
    def open(
        cls,
        path: Path | None,
        *,
        new: Callable[[], ImageModel] | None = None,
        follow: bool = False,
        loading: Mapping[str, Any] | None = None,
        on_wait: Callable[[str], None] | None = None,
        limits: Limits | None = None,
    ) -> Self:
        """The model in a file, which this process then owns; or a new one, which is saved at once.

        path: None for a model in memory alone.
        new: makes the model if there is no file yet.
        follow: only read, and follow what another process teaches the model in this file.
        loading: options of `layup.load`, such as `cache` and `weights`.
        on_wait: is told who holds the file, if another process does.
        """
        limits = limits or Limits()
        reading = {"progress": False, "workers": 0, **(loading or {})}
        waiting: Any = {"most": limits.lessons, "patience": limits.patience}

        def begin(prepare: Callable[[ImageModel], None]) -> Writer | Follower:
            if follow:
                if path is None:
                    raise missing(path)
                return Follower(path, reading, prepare)
            if path is not None:
                return Writer(Home(path, new, reading, on_wait), prepare, **waiting)
            if new is None:
                raise missing(path)
            return Writer(Nowhere(new), prepare, **waiting)

        return cls(begin, path is not None, limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Finish what was accepted, and write the model whole."""
        self._ending.set()
        self._keeper.published.set()
        self._judge.join()
        self._keeper.close()
        self._network.close()

    # ---- asking

    def predict(self, images: Sequence[bytes]) -> Answer:
        """What the model says of photos; an `InputError` if it knows no class."""
        snapshot = self._keeper.snapshot
        predictor = snapshot.predictor
        parts = [*self._predicting.used(images, predictor.scored)]
        digests = {at: digest for each in parts for at, digest in each.found.of_each()}
        learned = dict(zip(digests, snapshot.knowledge.known.labels_of(digests.values()), strict=True))
        return Answer(
            snapshot.version,
            predictor.predictions((each.found, each.made) for each in parts),
            [digests[at][:16].hex() if at in digests else None for at in range(len(images))],
            [learned.get(at, ()) for at in range(len(images))],
        )

    def explain(self, image: bytes, heat: bool = True) -> Explanation:
        """Why a photo gets its label."""
        return self._asked(self._keeper.snapshot).explain(image, heat=heat)

    def suggest(self, images: Sequence[bytes], count: int = 20) -> Suggestions:
        """Which photos to label next."""
        return self._asked(self._keeper.snapshot).suggest(images, count)

    def expect(self) -> Expected | None:
        """The accuracy to expect of the present version; None if the cache cannot tell."""
        return self._judged(self._keeper.snapshot).expected

    def audit(self) -> KnownAudit:
        """All known photos judged by one another, as far as the cache has their features."""
        return audit_known(self._keeper.snapshot.knowledge, self._learning)

    def facts(self) -> Facts:
        """What there is to know about it without asking its network."""
        snapshot, model = self._keeper.snapshot, self._keeper.model
        identity, estimate = model.network.identity, snapshot.estimate
        return Facts(
            snapshot.version,
            snapshot.knowledge.counts,
            identity.name,
            identity.fingerprint,
            self._state_hash(snapshot),
            estimate.expected,
            {} if estimate.tally is None else estimate.tally.by_label,
            snapshot.judged,
            self._network.waiting + self._keeper.waiting,
            isinstance(self._keeper, Follower),
            not isinstance(self._learning.cache, NoCache),
            snapshot.knowledge.photos is None,
            self._saved,
            self._failed,
        )

    def log(self) -> list[Entry]:
        """What was done to it, the oldest first."""
        return list(self._keeper.snapshot.knowledge.log)

    def save_to(self, path: Path) -> None:
        """Write the whole model, as it is now, to another file."""
        self._asked(self._keeper.snapshot).save(path)

    # ---- changing

    def teach(
        self, images: Sequence[bytes], labels: Sequence[str], *, relabel: bool = False, key: str | None = None
    ) -> Outcome:
        """Learn photos. With `relabel`, photos that are known as another class are moved."""
        model = self._asked(self._keeper.snapshot)
        memory.require(model.forecast(len(images), len({*model.classes_, *labels})), "This lesson")
        with self._keeper.model.photo_features.needed(images):
            given = self._given(images, self._learning)
            return self._keeper.ask(lambda knowledge: taught(knowledge, given, labels, relabel=relabel), key)

    def forget(self, images: Sequence[bytes], *, key: str | None = None) -> Outcome:
        """Un-learn photos that are given."""
        given = self._given(images, self._forgetting)
        return self._keeper.ask(lambda knowledge: forgot(knowledge, given), key)

    def forget_ids(self, ids: Sequence[str], *, key: str | None = None) -> Outcome:
        """Un-learn photos by their ids; their features come from the cache."""
        return self._keeper.ask(lambda knowledge: forgot_ids(knowledge, ids, self._learning), key)

    def forget_class(self, label: str, *, key: str | None = None) -> Outcome:
        """Un-learn a class; see `ImageModel.forget_class`."""
        return self._keeper.ask(lambda knowledge: forgot_class(knowledge, label, self._learning), key)

    def rename(self, old: str, new: str, *, key: str | None = None) -> Outcome:
        """Give a class another name; if that is the name of another class, the two become one."""
        return self._keeper.ask(lambda knowledge: renamed(knowledge, old, new), key)

    def undo(self, *, key: str | None = None) -> Outcome:
        """Take the last lesson back, if all that it did was to learn."""
        return self._keeper.ask(self._undone, key)

    # ---- private

    def _prepare(self, model: ImageModel) -> None:
        """Let one thread alone use the network from now on."""
        if model.session is not None and not model.log:
            raise InputError(
                "This model has an adapter, which its first batch will tune, and that takes too long here. "
                "Let it learn that batch first, with `layup learn`."
            )
        self._network = NetworkThread(
            model.backbone_.together,
            gather=self._limits.gather,
            most=self._limits.callers,
            patience=self._limits.patience,
        )
        features, cache = model.photo_features, cache_of(model.reading)
        self._learning = features.read_by(SharedSource(features.extractor, self._network), model.reading)
        source, self._asking = self._reader(model, NoCache())
        self._predicting = source.unrounded
        # What was learned is subtracted as it was added, and of other photos nothing is to stay.
        _, self._forgetting = self._reader(
            model, ReadOnlyCache(cache) if isinstance(cache, FeatureCache) else cache
        )

    def _reader(self, model: ImageModel, cache: FeatureCache | NoCache) -> tuple[SharedSource, PhotoFeatures]:
        """What reads photos for any thread, with this cache; and the same as features of a model."""
        reading: Reading = {**model.reading, "cache": cache}
        source = SharedSource(model.photo_features.spec.build(model.backbone_, reading), self._network)
        return source, model.photo_features.read_by(source, reading)

    def _asked(self, snapshot: Snapshot) -> ImageModel:
        """A model of what a snapshot knows, for one caller; photos that it reads are not cached."""
        return self._keeper.model.beside(snapshot.knowledge, self._asking)

    @staticmethod
    def _given(images: Sequence[bytes], features: PhotoFeatures) -> GivenPhotos:
        """Photos as the network reads them."""
        return GivenPhotos.of(len(images), features.extractor.extract(images, "Reading"))

    def _undone(self, knowledge: Knowledge) -> Draft:
        if len(knowledge.log) == 1 and self._keeper.model.session is not None:
            raise InputError("The batch that tuned the network cannot be undone here: end the server first.")
        return undone(knowledge, self._learning)

    def _state_hash(self, snapshot: Snapshot) -> str | None:
        """A pass over the sums, once for each version that is asked for."""
        version, found = self._hashed
        if version != snapshot.version:
            found = self._asked(snapshot).state_hash
            self._hashed = snapshot.version, found
        return found

    def _judged(self, snapshot: Snapshot) -> Estimate:
        model = self._keeper.model.beside(snapshot.knowledge, self._learning)
        return model.estimate(self._limits.judged)

    @property
    def _failed(self) -> str | None:
        """Why it no longer works, or not wholly."""
        if self._keeper.failed is None and not self._network.alive:
            return "The thread that reads photos has ended. Start the server again."
        return self._keeper.failed

    def _judge_changes(self) -> None:
        """Tell how good the model is after each change; of many that come together, after the last.

        It rests as long as it has worked, so that others have half of the time at least.
        """
        while self._keeper.published.wait() and not self._ending.is_set():
            self._keeper.published.clear()
            began = time.monotonic()
            snapshot = self._keeper.snapshot
            try:
                self._keeper.judged(snapshot.version, self._judged(snapshot))
            except Exception:
                logger.exception("The accuracy to expect could not be estimated.")
            self._ending.wait(time.monotonic() - began)
