"""One change of a model: photos to be learned, moved and forgotten, all of it or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from layup.features import FeatureCache, Rows, Spool
from layup.images import ImageSource, chosen
from layup.model.knowledge import Knowledge
from layup.model.known import Numbers
from layup.model.outcome import counted
from layup.model.photo_features import PhotoFeatures
from layup.model.plan import Plan
from layup.model.reports import BatchReport
from layup.model.visits import Seen, none_usable


@dataclass(frozen=True)
class Change:
    """What was planned for the given images, and which rows of the known photos are gone."""

    action: str
    images: Sequence[ImageSource]
    labels: Sequence[str]
    work: Plan
    digests: Sequence[bytes | None] | None = None
    """Those by which this was planned, if it was."""
    gone: Numbers = field(default_factory=lambda: np.zeros(0, np.int64))
    kept: int = 0
    """How many rows stay, although they are gone: images that cannot be read may be these."""

    @property
    def subtracts(self) -> bool:
        """Whether anything leaves the sums."""
        return bool(self.work.moved or len(self.gone))

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.work.new or self.subtracts)

    @property
    def new_images(self) -> Sequence[ImageSource]:
        """The images to be learned."""
        return chosen(self.images, self.work.new)

    @property
    def new_labels(self) -> list[str]:
        """Their labels."""
        return [self.labels[index] for index in self.work.new]

    def report(self, knowledge: Knowledge) -> BatchReport:
        """What can be said of it before it is done."""
        exact = not (self.action == "sync" and knowledge.parts.leftover)
        return BatchReport(known=self.work.known, conflicts=self.work.conflicts, kept=self.kept, exact=exact)

    def foreseen(self, knowledge: Knowledge, features: PhotoFeatures) -> BatchReport:
        """What it would do."""
        photos, work = knowledge.known, self.work
        recalled = features.recall(photos, self.gone, lambda features, labels: None)
        readable = [i for i in work.new if self.digests is None or self.digests[i] is not None]
        leaving = [*photos.labels_at(recalled.rows), *chain.from_iterable(work.moved.values())]
        return replace(
            self.report(knowledge),
            learned=counted(self.labels[index] for index in [*readable, *work.moved]),
            forgotten=counted(leaving),
            moved=len(work.moved),
            missing=features.named(photos, recalled.lost, knowledge.log),
        )

    def apply(self, knowledge: Knowledge, features: PhotoFeatures, *, strict: bool) -> BatchReport:
        """Do it. Nothing is changed before all images were read."""
        work, report = self.work, self.report(knowledge)
        plus, minus = knowledge.parts.empty(), knowledge.parts.empty()
        recalled = features.recall(knowledge.known, self.gone, minus.update)
        goals, before = [self.labels[index] for index in work.moved], [*work.moved.values()]

        def move(rows: Rows, turns: list[int]) -> None:
            plus.update(rows, [goals[turn] for turn in turns])
            times = [len(before[turn]) for turn in turns]
            minus.update(np.repeat(rows, times, axis=0), [name for turn in turns for name in before[turn]])

        same = self._digests_of([*work.moved])
        moved = features.visit(self.images, [*work.moved], move, same, strict=strict, title="Moving")
        with self._learning(knowledge, features, strict) as (seen, learn):
            new = self.new_labels
            now = [*(new[turn] for turn in seen.turns), *(goals[turn] for turn in moved.turns)]
            forgotten = {label: int(count) for label, count in minus.sums.count_by_label().items()}
            report = replace(
                report,
                learned=counted(now),
                forgotten=forgotten,
                moved=len(moved.turns),
                bad=sorted([*seen.bad, *moved.bad], key=lambda each: each.index),
            )
            if knowledge.photos is not None:
                missing = features.named(knowledge.photos, recalled.lost, knowledge.log)
                report = replace(report, missing=missing)
            if not report.changed:
                if not (work.known or work.conflicts or report.missing):
                    raise none_usable(len(self.images), report.bad)
                return report
            gone = np.union1d(recalled.rows, knowledge.known.find(moved.digests))
            digests = [*seen.digests, *moved.digests]
            knowledge.exchange(self.action, plus, minus, learn, gone, digests, now)
        features.delete(recalled.digests, knowledge.photos)
        return report

    def _digests_of(self, indices: Sequence[int]) -> list[bytes | None] | None:
        return None if self.digests is None else [self.digests[index] for index in indices]

    @contextmanager
    def _learning(
        self, knowledge: Knowledge, features: PhotoFeatures, strict: bool
    ) -> Iterator[tuple[Seen, Callable[[], object]]]:
        """What was seen of the new images, and what learns them."""
        classifier, batch, labels = knowledge.classifier, knowledge.parts.empty(), self.new_labels
        same = self._digests_of(self.work.new)
        reading: dict[str, Any] = {"strict": strict, "title": "Learning"}

        def names(turns: Iterable[int]) -> list[str]:
            return [labels[turn] for turn in turns]

        def learn(absorb: Callable[[], object]) -> None:
            absorb()
            if knowledge.roots is not None and batch.roots is not None:
                knowledge.keep(knowledge.roots + batch.roots)

        def add(rows: Rows, turns: list[int]) -> None:
            batch.update(rows, names(turns))

        if not classifier.needs_samples:
            seen = features.visit(self.images, self.work.new, add, same, **reading)
            yield seen, lambda: learn(lambda: knowledge.classifier.absorb(batch.sums))
            return
        # The classifier looks at the samples of a batch once more: they wait in a spool.
        folder = features.cache.path.parent if isinstance(features.cache, FeatureCache) else None
        with Spool(len(labels), features.extractor.width, folder) as spool:

            def keep(rows: Rows, turns: list[int]) -> None:
                spool.append(rows)
                if batch.roots is not None:
                    batch.roots.update(rows, names(turns))

            seen = features.visit(self.images, self.work.new, keep, same, **reading)
            rows, known = spool.rows(), names(seen.turns)
            yield (
                seen,
                lambda: learn(lambda: known and knowledge.classifier.learn_rows(rows, np.array(known))),
            )
