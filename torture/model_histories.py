"""Random histories of whole models: batches of photos, files, and merges with and without a base.

The oracle is a ledger of photos. What it says of a photo that is given again, as another class, or to two
models, is written out here once more, photo by photo.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random

import numpy as np

from layup import FeatureCache, ImageModel, LayUP
from layup.errors import ForgetError, InputError, LayupError, MismatchError
from layup.images import image_digest
from layup.model import BatchReport
from torture import samples
from torture.ledger import Held, Ledger, Rows, Sample
from torture.promise import BrokenError, Promise, Tries, about, require

STEPS = 150
LABELS = [f"class {letter}" for letter in "abcde"]
PICTURES = 60
"""So few that many are given again."""
LAM = 1.0
ROUNDING = 1e-5
"""The network computes in float32, and not to the same bit in batches of different size."""


@dataclass
class Known:
    """A model, the photos that it should hold, and what its log should say that can be undone."""

    model: ImageModel
    ledger: Ledger
    undoable: list[Held | None] = field(default_factory=list)
    """Per entry of the log what was held before it, if it only learned."""

    def change(self, work: Callable[[], BatchReport | object], held: Held, *, undoable: bool = False) -> None:
        """Do something; afterwards these photos should be held, and the log should say so if that is new."""
        before = self.ledger.held
        report = work()
        changed = held != before
        if isinstance(report, BatchReport):
            net = Counter(report.learned)
            net.subtract(report.forgotten)
            require(
                {label: count for label, count in net.items() if count} == _difference(before, held),
                "a report does not say what was done",
                report,
            )
            changed = report.changed
        self.ledger.hold(held)
        if changed:
            self.undoable.append(before if undoable else None)

    def refuse(self, work: Callable[[], object], with_: type[LayupError], why: str) -> None:
        """What must be refused; nothing may change."""
        sums = self.model.statistics_.gram
        try:
            work()
        except with_:
            require(bool((self.model.statistics_.gram == sums).all()), "a refusal has changed the sums")
            return
        raise BrokenError(f"not refused: {why}")


@dataclass
class Life:
    """Models that grow next to each other, on the same pictures, with one cache."""

    chance: Random
    folder: Path
    rows: Rows
    balance: bool
    per_class: bool
    known: list[Known]

    @property
    def reading(self) -> dict[str, object]:
        """How images are read."""
        return {"cache": FeatureCache(self.folder / "cache"), "workers": 0, "progress": False}

    def any(self) -> Known:
        """One of them."""
        return self.chance.choice(self.known)

    def some_pictures(self) -> list[Sample]:
        """A few, new or old."""
        count = self.chance.choice((1, 1, 2, 4, 8))
        return [(self.chance.randrange(PICTURES), self.chance.choice(LABELS)) for _ in range(count)]

    def some_of(self, held: Held, most: int = 6) -> list[Sample]:
        """A few of those that are held."""
        have = sorted(held)
        return self.chance.sample(have, self.chance.randint(1, min(most, len(have))))

    def warm(self, *models: Known) -> None:
        """Have the features of all their photos in the cache, where another may have deleted them."""
        for each in models:
            each.model.extractor_.extract(pictures(sorted(each.ledger.held)))

    def empty(self) -> Known:
        """A model that has learned nothing."""
        plain = LayUP(samples.tiny(), lam=LAM, balance=self.balance)
        model = ImageModel(
            plain.features,
            plain.classifier,
            backbone=samples.tiny(),
            per_class=self.per_class,
            **self.reading,  # type: ignore[arg-type]
        )
        return Known(model, Ledger(self.rows))

    def loaded(self, path: Path, like: Known) -> Known:
        """A model from a file, which should know what this one does."""
        model = ImageModel.load(path, backbone=samples.tiny(), **self.reading)  # type: ignore[arg-type]
        return Known(model, like.ledger.copy(), list(like.undoable))


def pictures(chosen: Sequence[Sample]) -> list[samples.Pixels]:
    """The pictures of these numbers."""
    return [samples.picture("history", number) for number, _ in chosen]


def labels_of(chosen: Sequence[Sample]) -> list[str]:
    """Their labels."""
    return [label for _, label in chosen]


@cache
def digests() -> list[bytes]:
    """That of each picture."""
    return [image_digest(each) for each in pictures([(number, "") for number in range(PICTURES)])]


def _difference(before: Held, after: Held) -> dict[str, int]:
    """How many more photos of each class there are."""
    change: Counter[str] = Counter()
    for held, sign in ((after, 1), (before, -1)):
        for (_, label), count in held.items():
            change[label] += sign * count
    return {label: count for label, count in change.items() if count}


# ---- what a photo counts, one by one


def clear(given: Sequence[Sample]) -> dict[int, str]:
    """The photos that are given as one class only."""
    found: dict[int, set[str]] = {}
    for number, label in given:
        found.setdefault(number, set()).add(label)
    return {number: labels.pop() for number, labels in found.items() if len(labels) == 1}


def after_learning(held: Held, given: Sequence[Sample], relabel: bool) -> Held:
    """Photos that are new are learned; those known as another class are moved, or left."""
    after = held.copy()
    for number, label in clear(given).items():
        known = {sample: count for sample, count in held.items() if sample[0] == number}
        if known and ((number, label) in known or not relabel):
            continue
        for sample in known:
            del after[sample]
        after[number, label] = 1
    return after


def after_sync(held: Held, given: Sequence[Sample]) -> Held:
    """Those given, once each; of those given as two classes, what was known."""
    numbers, wanted = {number for number, _ in given}, clear(given)
    after: Held = Counter(dict.fromkeys(wanted.items(), 1))
    for sample, count in held.items():
        if sample[0] in numbers and sample[0] not in wanted:
            after[sample] = count
    return after


def after_merging(mine: Held, theirs: Held, base: Held | None = None) -> Held | None:
    """All photos of both, each as in the first; None if both have lost the same photo of their base."""
    root: Held = Counter() if base is None else base
    if any(mine[each] < count and theirs[each] < count for each, count in root.items()):
        return None
    after = mine.copy()
    for each, count in root.items():  # what the second has lost since
        after[each] -= max(0, min(mine[each], count) - theirs[each])
    after = +after
    numbers = {number for number, _ in after}
    for each, count in theirs.items():
        if each[0] not in numbers:
            after[each] += max(0, count - root[each])
    return +after


# ---- steps


def learn(life: Life) -> None:
    """A batch; some of it is known, as this class or as another."""
    one, given, relabel = life.any(), life.some_pictures(), life.chance.random() < 0.3
    before = one.ledger.held
    after = after_learning(before, given, relabel)
    one.change(
        lambda: one.model.learn(pictures(given), labels_of(given), relabel=relabel),
        after,
        undoable=before <= after,
    )


def learn_again(life: Life) -> None:
    """Photos that count each time."""
    one, given = life.any(), life.some_pictures()
    after = one.ledger.held + Counter(given)
    one.change(lambda: one.model.learn(pictures(given), labels_of(given), again=True), after, undoable=True)


def sync(life: Life) -> None:
    """Some photos stay, some are gone, some are new or moved; and once more, which changes nothing."""
    one = life.any()
    held = one.ledger.held
    given = [*(life.some_of(held, len(held)) if held else []), *life.some_pictures()]
    life.warm(one)
    after = after_sync(held, given)
    seen = one.model.sync(pictures(given), labels_of(given), dry_run=True)

    def synced() -> BatchReport:
        report = one.model.sync(pictures(given), labels_of(given))
        require(report == seen, "a sync did not do what it had said", report)
        return report

    one.change(synced, after, undoable=held <= after)
    again = one.model.sync(pictures(given), labels_of(given))
    require(not again.changed, "a second sync has changed something", again)


def forget(life: Life) -> None:
    """Some of what one has learned: as one class, or whatever it was learned as."""
    one = life.any()
    if not one.ledger.held:
        return
    gone, with_labels = life.some_of(one.ledger.held), life.chance.random() < 0.5
    numbers = {number for number, _ in gone}
    after = Counter(
        {
            sample: count
            for sample, count in one.ledger.held.items()
            if (sample not in gone if with_labels else sample[0] not in numbers)
        }
    )
    one.change(lambda: one.model.forget(pictures(gone), labels_of(gone) if with_labels else None), after)


def forget_a_stranger(life: Life) -> None:
    """A photo that was never learned, or not as this class."""
    one = life.any()
    free = [
        (number, label)
        for number in range(PICTURES)
        for label in LABELS
        if (number, label) not in one.ledger.held
    ]
    more = [*(life.some_of(one.ledger.held) if one.ledger.held else []), life.chance.choice(free)]
    one.refuse(
        lambda: one.model.forget(pictures(more), labels_of(more)),
        ForgetError,
        "to forget what was not learned",
    )


def forget_class(life: Life) -> None:
    """A class without its photos; from its root, or from the cache."""
    one = life.any()
    if not one.ledger.held:
        return
    label = life.chance.choice(sorted(one.ledger.counts()))
    if not life.per_class:
        life.warm(one)
    after = Counter({sample: count for sample, count in one.ledger.held.items() if sample[1] != label})

    def forgotten() -> BatchReport:
        report = one.model.forget_class(label)
        require(report.exact, "a class was not forgotten exactly")
        return report

    one.change(forgotten, after)


def rename(life: Life) -> None:
    """A class gets another name, which may be that of another class."""
    one, new = life.any(), life.chance.choice([*LABELS, "another"])
    if not one.ledger.held:
        return
    old = life.chance.choice(sorted(one.ledger.counts()))
    after: Held = Counter()
    for (number, label), count in one.ledger.held.items():
        after[number, new if label == old else label] += count
    one.change(lambda: one.model.rename(old, new), after)


def undo(life: Life) -> None:
    """The last thing that was done, if it only learned."""
    one = life.any()
    if not one.undoable or one.undoable[-1] is None:
        one.refuse(one.model.undo, InputError, "to undo what did not only learn")
        return
    life.warm(one)
    one.model.undo()
    one.ledger.hold(one.undoable.pop() or Counter())


def merge(life: Life) -> None:
    """Two models: what both have learned counts once."""
    one, other = life.chance.sample(life.known, 2)
    after = after_merging(one.ledger.held, other.ledger.held)
    require(after is not None, "the oracle is wrong")
    shared = {number for number, _ in one.ledger.held} & {number for number, _ in other.ledger.held}
    if shared and life.chance.random() < 0.2:
        FeatureCache(life.folder / "cache").clear()
        one.refuse(lambda: one.model.merge(other.model), MismatchError, "to merge without the features")
    life.warm(one, other)
    _merge(one, other, after or Counter())


def _merge(one: Known, other: Known, after: Held, base: Known | None = None) -> None:
    entries = {entry.id for entry in one.model.log}
    new = [entry for entry in other.model.log if entry.id not in entries]
    before = one.ledger.counts()
    one.model.merge(other.model, None if base is None else base.model)
    one.ledger.hold(after, peaks=(other.ledger,))
    if new or one.ledger.counts() != before:  # it may bring back what was forgotten
        one.undoable += [None] * (len(new) + 1)


def merge_with_base(life: Life) -> None:
    """Two that grew from one file, with it as their base; and with another, which is refused."""
    root = life.any()
    if not root.ledger.held:
        return
    path = life.folder / "base.layup"
    root.model.save(path)
    base, left, right = (life.loaded(path, root) for _ in range(3))
    fellow = Life(life.chance, life.folder, life.rows, life.balance, life.per_class, [])
    for each in (left, right):
        fellow.known = [each]
        for _ in range(life.chance.randint(1, 3)):
            life.chance.choice((learn, learn, forget, rename))(fellow)
    life.warm(left, right)
    wrong = life.empty()
    wrong.model.learn(pictures([(0, "")]), ["a class that nobody has"])
    left.refuse(
        lambda: left.model.merge(right.model, wrong.model), MismatchError, "to merge with a wrong base"
    )
    after = after_merging(left.ledger.held, right.ledger.held, base.ledger.held)
    if after is None:
        left.refuse(
            lambda: left.model.merge(right.model, base.model), MismatchError, "to subtract photos twice"
        )
        return
    _merge(left, right, after, base)
    life.known[life.known.index(root)] = left


def save_and_load(life: Life) -> None:
    """Through a file, which is copied or renamed."""
    index = life.chance.randrange(len(life.known))
    one, path = life.known[index], life.folder / f"{index}.layup"
    one.model.save(path)
    moved = life.folder / "moved.layup"
    if life.chance.random() < 0.5:
        path.replace(moved)
    else:
        moved.write_bytes(path.read_bytes())
    life.known[index] = life.loaded(moved, one)


def start_anew(life: Life) -> None:
    """One model gives way to an empty one, so that there are some that share nothing."""
    life.known[life.chance.randrange(len(life.known))] = life.empty()


def predict(life: Life) -> None:
    """Scores of pictures, at the λ given."""
    one = life.any()
    if not one.ledger.held:
        return
    tested = [(life.chance.randrange(PICTURES), "") for _ in range(2)]
    x, _ = life.rows.of(tested)
    one.ledger.require_scores(one.model.scores(pictures(tested)), x, LAM, life.balance, 1e-3)


STEPS_OF_LIFE: tuple[Callable[[Life], None], ...] = (
    *(learn, learn, learn, learn_again, sync, forget, forget_a_stranger, forget_class, rename, undo, undo),
    *(merge, merge_with_base, save_and_load, start_anew, predict),
)


def require_photos(one: Known) -> None:
    """A model knows the photos that it holds, as the classes that they are held as; and what was done."""
    photos = one.model.photos
    require(photos is not None and one.model.knows_all, "a model does not know all its photos")
    if photos is not None:
        found = Counter(
            (number, label) for number, labels in enumerate(photos.labels_of(digests())) for label in labels
        )
        require(found == one.ledger.held, "the photos that are known are not those that are held")
    require(len(one.model.log) == len(one.undoable), "the log is not that of what was done", one.model.log)


def prepare(_folder: Path) -> Tries:
    """The features of all pictures, one at a time."""
    reader = LayUP(samples.tiny(), cache=False, workers=0, progress=False).extractor_
    rows = Rows(reader.width)
    for number in range(PICTURES):
        rows.add(reader.extract(pictures([(number, "")])).rows[0].astype(np.float64))

    def attempt(_index: int, chance: Random, home: Path) -> None:
        os.environ["LAYUP_KEYS"] = str(home / "keys")
        life = Life(chance, home, rows, chance.random() < 0.5, chance.random() < 0.3, [])
        life.known = [life.empty() for _ in range(3)]
        for number in range(STEPS):
            step = chance.choice(STEPS_OF_LIFE)
            with about(f"step {number}, {step.__name__}"):
                step(life)
                for one in life.known:
                    one.ledger.require_counts(one.model.statistics_)
                    require_photos(one)
                chosen = life.any()
                chosen.ledger.require_sums(chosen.model.statistics_, ROUNDING)

    return Tries(attempt)


PROMISE = Promise(
    "models",
    "The same holds for models and photos, through files, merges and undo: each photo counts once.",
    100,
    prepare,
    seconds=300,
)
