"""What a model has learned: the sums of its classifier, a root per class, its photos, and the log of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from layup.algebra import Calibration, ClassRoots, ClassSums, Samples, SumsClassifier, clone, restored
from layup.errors import InputError
from layup.features import Rows
from layup.model.known import Digests, KnownPhotos, Numbers, require_recognisable
from layup.model.log import Entry, filed, from_file, last_expected, with_new_name
from layup.model.outcome import counted
from layup.model.parts import Parts
from layup.registry import unknown_name


class Knowledge:
    """All that learning changes, in memory and in files; images and networks are not known here.

    Args:
        start: makes the classifier that has learned nothing, when it is first needed.
        anonymous: keep no digests of photos.
        per_class: keep a root of the Gram matrix of each class.

    >>> from layup.algebra import RidgeClassifier
    >>> knowledge = Knowledge(lambda: RidgeClassifier(1.0).fit([[1.0], [2.0]], ["cat", "dog"]))
    >>> knowledge.rename("dog", "cat")
    >>> knowledge.counts, knowledge.log[-1].note
    ({'cat': 2}, 'dog → cat')
    """

    def __init__(
        self, start: Callable[[], SumsClassifier], *, anonymous: bool = False, per_class: bool = False
    ) -> None:
        self.start = start
        self.photos: KnownPhotos | None = None if anonymous else KnownPhotos()
        self.log: list[Entry] = []
        self.per_class = per_class
        self.calibration: Calibration | None = None
        """What its photos said when they were last judged, see `estimate`; batches since then have no say."""
        self._classifier: SumsClassifier | None = None
        self._roots: ClassRoots | None = None

    @property
    def classifier(self) -> SumsClassifier:
        """The classifier with its sums."""
        if self._classifier is None:
            self._classifier = self.start()
        return self._classifier

    @property
    def roots(self) -> ClassRoots | None:
        """A root per class, if they are kept."""
        if self.per_class and self._roots is None:
            self._roots = ClassRoots(self.classifier.statistics_.dim)
        return self._roots

    @property
    def parts(self) -> Parts:
        """What is added and subtracted."""
        return Parts(self.classifier.statistics_, self.roots)

    @property
    def counts(self) -> dict[str, int]:
        """How many images of each class the sums hold."""
        counts: dict[str, int] = self.classifier.statistics_.count_by_label()
        return counts

    # ---- which photos

    @property
    def known(self) -> KnownPhotos:
        """The photos that it knows: none, if it is anonymous."""
        return KnownPhotos() if self.photos is None else self.photos

    @property
    def knows_all(self) -> bool:
        """Whether every photo in the sums can be recognised, and G holds no others."""
        sums = self.parts
        return self.photos is not None and len(self.photos) == sums.sums.total and not sums.leftover

    def recognised(self, what: str, about: str | None = None) -> KnownPhotos:
        """The photos, also those whose key came only now; refuse if some cannot be recognised."""
        self.photos = require_recognisable(self.photos, what, about)
        return self.photos

    def require_all_known(self) -> None:
        """Refuse if it cannot be told of every photo whether it was learned."""
        photos = self.recognised("learned")
        if not self.knows_all:
            raise InputError(
                f"This model cannot tell which photos were learned: it knows {len(photos):,} of "
                f"{self.parts.sums.total:,}, the others came from an anonymous model."
            )

    # ---- changing

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Whatever goes wrong inside, all stays as it was."""
        photos, log, roots, per_class = self.photos, list(self.log), self._roots, self.per_class
        calibration = self.calibration
        header, sums = self.classifier.state()
        sums = copy(sums)  # what sums hold is replaced, never changed
        try:
            yield
        except BaseException:
            self.photos, self.log, self._roots, self.per_class = photos, log, roots, per_class
            self._classifier, self.calibration = restored(header, sums), calibration
            raise

    def frozen(self) -> Knowledge:
        """A copy that stays as this is now: next to nothing is copied, as what sums hold is never changed."""
        found = copy(self)
        header, sums = self.classifier.state()
        found.log, found._classifier = list(self.log), restored(header, copy(sums))
        return found

    def restart(self) -> None:
        """Make the classifier again before it learns: the network has changed, and its steps with it."""
        self._classifier = self._roots = None

    def adopt(self, parts: Parts) -> None:
        """Continue from these sums and roots; λ stays."""
        self.classifier.adopt(parts.sums)
        self.keep(parts.roots)

    def keep(self, roots: ClassRoots | None) -> None:
        """Continue with these roots, or without."""
        self.per_class, self._roots = roots is not None, roots

    def configure(self, **parameters: Any) -> SumsClassifier:
        """Change parameters of the classifier, from now on; what was measured with others is dropped."""
        if parameters:
            self._classifier = self.classifier.with_parameters(**parameters)
            self.calibration = None
        return self.classifier

    def note(
        self,
        action: str,
        learned: Mapping[str, int] | None = None,
        forgotten: Mapping[str, int] | None = None,
        note: str = "",
    ) -> None:
        """Log what was done."""
        settings: Mapping[str, Any] | None = self.classifier.state()[0]["classifier"]
        if self.log and self.log[-1].settings == settings:
            settings = self.log[-1].settings  # one object for a long log
        chosen = self.classifier.chosen()
        entry = Entry(action, learned or {}, forgotten or {}, chosen, note=note, settings=settings)
        self.log.append(entry)

    def exchange(
        self,
        action: str,
        plus: Parts,
        minus: Parts,
        learn: Callable[[], object],
        gone: Numbers,
        digests: Sequence[bytes],
        labels: Sequence[str],
    ) -> None:
        """Learn photos and subtract others, in one step.

        plus, minus: the parts of photos that are moved, and of all that leave. learn: learns those that are
        new. gone: the rows that are no longer known. digests, labels: of the photos that are known from now
        on, the new ones first; an anonymous model keeps no digests.
        """
        with self.changing():
            forgotten = {label: int(count) for label, count in minus.sums.count_by_label().items()}
            if forgotten:
                self.adopt(self.parts + plus - minus)
            learn()
            if self.photos is not None:
                left = self.photos.without(gone)
                self.photos = left.with_photos(digests, labels, len(self.log))
            self.note(action, counted(labels), forgotten)

    def learn_rows(self, rows: Rows, labels: Sequence[str], chosen: Mapping[str, Any] | None = None) -> None:
        """Learn new photos by their features, with what the classifier has `chosen`, if it is known."""
        batch = self.parts.empty()
        batch.update(rows, labels)
        if chosen is None and self.classifier.needs_samples:
            self.classifier.learn_rows(rows, np.array(labels))
        else:
            self.classifier.absorb(batch.sums)
        if chosen is not None:
            settings = self.classifier.state()[0]["classifier"]
            self._classifier = restored({"classifier": settings, "chosen": chosen}, self.parts.sums)
        if self.roots is not None and batch.roots is not None:
            self.keep(self.roots + batch.roots)

    def learn_sums(
        self,
        sums: ClassSums,
        digests: Digests,
        classes: NDArray[np.int32],
        drawn: Samples,
        lam: float | None,
    ) -> None:
        """Learn the sums of photos that are new, with samples drawn of them for the classifier's choices.

        lam: the λ that was searched on all of them.
        """
        with self.changing():
            self.classifier.learn_sums(sums, *drawn, lam)
            if self.photos is not None:
                self.photos = self.photos.with_rows(digests, classes, sums.labels, len(self.log))
            self.note("learn", sums.count_by_label())

    def forget(self, rows: Numbers, minus: Parts, forgotten: Mapping[str, int]) -> None:
        """Subtract photos, and no longer know these rows."""
        with self.changing():
            self.adopt(self.parts - minus)
            self.photos = self.known.without(rows)
            self.note("forget", forgotten=forgotten)

    def forget_class(self, label: str, minus: Parts | None) -> bool:
        """Drop a class: exactly, if its parts are given or its root is kept; returns whether it was exact."""
        left = self.parts.without_class(label) if minus is None else self.parts - minus
        exact = left.leftover <= self.parts.leftover
        forgotten = {label: self.counts[label]}
        with self.changing():
            self.adopt(left)
            if self.photos is not None:
                self.photos = self.photos.without_class(label)
            self.note("forget", forgotten=forgotten, note="" if exact else f"G keeps {label}")
        return exact

    def undo(self, rows: NDArray[np.int64], minus: Parts) -> None:
        """Take the last batch back, whose photos and parts these are; λ and its rule become as before it."""
        left = self.parts - minus
        self.log = self.log[:-1]
        self.photos = self.known.without(rows)
        if self.log:
            header = {"classifier": self.log[-1].settings, "chosen": self.log[-1].chosen}
            self._classifier = restored(header, left.sums)
            self.keep(left.roots)
        else:
            self._classifier = self._roots = self.calibration = None

    def rename(self, old: str, new: str) -> None:
        """Give a class another name. If that is the name of another class, the two become one."""
        self.require_class(old)
        if new == old:
            return
        renamed, expected = self.parts.renamed(old, new), None
        if new not in self.counts:
            expected = with_new_name(last_expected(self.log), old, new)
        with self.changing():
            self.adopt(renamed)
            if self.photos is not None:
                self.photos = self.photos.renamed(old, new)
            self.note("rename", note=f"{old} → {new}")
            self.log[-1] = replace(self.log[-1], expected=expected)

    def require_class(self, label: str) -> None:
        """Refuse a class that was not learned, and guess what was meant."""
        if label not in self.counts:
            raise unknown_name("class", label, list(self.counts))

    # ---- files

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a file says of it, and the arrays."""
        header, sums = self.classifier.state()
        about_sums, arrays = sums.state()
        header |= {"log": filed(self.log), **about_sums}
        if self.photos is not None:
            header["photos"], digests = self.photos.state(sums.labels)
            arrays |= digests
        if self.calibration is not None:
            header["calibration"] = self.calibration.to_dict()
        if self.roots is not None:
            header["roots"], roots = self.roots.state()
            arrays |= roots
        return header, arrays

    @classmethod
    def of_file(
        cls, header: Mapping[str, Any], sums: Any, photos: KnownPhotos | None, roots: ClassRoots | None
    ) -> Self:
        """What a file holds."""
        classifier = restored(header, sums)

        def start() -> SumsClassifier:
            new = clone(classifier)
            new.adopt(sums.empty())
            return new

        found = cls(start)
        found.restore(header, sums, photos, roots)
        return found

    def restore(
        self, header: Mapping[str, Any], sums: Any, photos: KnownPhotos | None, roots: ClassRoots | None
    ) -> None:
        """The inverse of `state`, with what a file holds."""
        self._classifier = restored(header, sums)
        self.log = from_file(header["log"])
        self.photos = photos
        if "calibration" in header:
            self.calibration = Calibration.from_dict(header["calibration"])
        self.keep(roots)
