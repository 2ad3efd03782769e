"""Random histories of whole models: batches of images, files, and merges with and without a base."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from layup import ImageModel, LayUP, load
from layup.errors import ForgetError, LayupError, MismatchError
from torture import samples
from torture.ledger import Ledger, Rows, Sample
from torture.promise import BrokenError, Promise, Tries, about, require

STEPS = 150
LABELS = [f"class {letter}" for letter in "abcde"]
PICTURES = 200
LAM = 1.0
ROUNDING = 1e-5
"""The network computes in float32, and not to the same bit in batches of different size."""

Batches = Counter[tuple[str, tuple[Sample, ...]]]
"""What was done with which images, and how often."""


@dataclass
class Known:
    """A model, with what it should have learned and in which batches."""

    model: ImageModel
    ledger: Ledger
    batches: Batches

    def learn(self, taught: Sequence[Sample]) -> None:
        """A batch of pictures by number."""
        self.model.learn(pictures(taught), [label for _, label in taught])
        self.ledger.take(taught)
        self.batches["learn", tuple(sorted(taught))] += 1

    def forget(self, gone: Sequence[Sample]) -> None:
        """The inverse."""
        self.model.forget(pictures(gone), [label for _, label in gone])
        self.ledger.take(gone, -1)
        self.batches["forget", tuple(sorted(gone))] += 1


@dataclass
class Life:
    """Models that grow next to each other, on the same pictures."""

    chance: Random
    folder: Path
    rows: Rows
    balance: bool
    known: list[Known]

    def any(self) -> Known:
        """One of them."""
        return self.chance.choice(self.known)

    def some_pictures(self) -> list[Sample]:
        """A few, new or old."""
        count = self.chance.choice((1, 1, 2, 4))
        return [(self.chance.randrange(PICTURES), self.chance.choice(LABELS)) for _ in range(count)]

    def empty(self) -> Known:
        """A model that has learned nothing."""
        model = LayUP(samples.tiny(), lam=LAM, balance=self.balance, cache=False, workers=0, progress=False)
        return Known(model, Ledger(self.rows), Counter())

    def loaded(self, path: Path, like: Known) -> Known:
        """A model from a file, which should know what this one does."""
        model = load(path, backbone=samples.tiny(), cache=False, workers=0, progress=False)
        return Known(model, like.ledger.copy(), like.batches.copy())


def pictures(chosen: Sequence[Sample]) -> list[samples.Pixels]:
    """The pictures of these numbers."""
    return [samples.picture("history", number) for number, _ in chosen]


def _refused(work: Callable[[], object], with_: type[LayupError], why: str) -> None:
    try:
        work()
    except with_:
        return
    raise BrokenError(f"not refused: {why}")


# ---- steps


def learn(life: Life) -> None:
    """A batch; the same may come twice."""
    life.any().learn(life.some_pictures())


def forget(life: Life) -> None:
    """Some of what one has learned."""
    one = life.any()
    if have := one.ledger.samples():
        one.forget(life.chance.sample(have, life.chance.randint(1, min(6, len(have)))))


def forget_too_much(life: Life) -> None:
    """More of a class than was learned."""
    one, label = life.any(), life.chance.choice(LABELS)
    own = [sample for sample in one.ledger.samples() if sample[1] == label]
    more = [*own, (life.chance.randrange(PICTURES), label)]
    labels = [label] * len(more)
    _refused(lambda: one.model.forget(pictures(more), labels), ForgetError, "to forget more than was learned")


def merge(life: Life) -> None:
    """Two models: refused if they share a batch, for it would count twice."""
    one, other = life.chance.sample(life.known, 2)
    if one.batches & other.batches:
        _refused(lambda: one.model.merge(other.model), MismatchError, "to merge models that share batches")
        return
    one.model.merge(other.model)
    one.ledger = one.ledger.merged(other.ledger)
    one.batches += other.batches


def merge_with_base(life: Life) -> None:
    """Two that grew from one file, with it as their base; and with another, which is refused."""
    root = life.any()
    if not root.batches:
        return
    path = life.folder / "base.layup"
    root.model.save(path)
    base, left, right = (life.loaded(path, root) for _ in range(3))
    left.learn([(life.chance.randrange(PICTURES), "left"), *life.some_pictures()])
    right.learn([(life.chance.randrange(PICTURES), "right")])
    right.forget(life.chance.sample(right.ledger.samples(), 1))
    if sum(root.batches.values()) > 0:
        wrong = life.empty()
        wrong.learn([(0, "another")])
        _refused(
            lambda: left.model.merge(right.model, wrong.model), MismatchError, "to merge with a wrong base"
        )
    left.model.merge(right.model, base.model)
    left.ledger = left.ledger.merged(right.ledger, base.ledger)
    left.batches = left.batches + right.batches - base.batches
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
    *(
        learn,
        learn,
        learn,
        forget,
        forget_too_much,
        merge,
        merge_with_base,
        save_and_load,
        start_anew,
        predict,
    ),
)
"""To rename a class will be one more, once models can."""


def prepare(_folder: Path) -> Tries:
    """The features of all pictures, one at a time."""
    reader = LayUP(samples.tiny(), cache=False, workers=0, progress=False).extractor_
    rows = Rows(reader.width)
    for number in range(PICTURES):
        rows.add(reader.extract(pictures([(number, "")])).rows[0].astype(np.float64))

    def attempt(_index: int, chance: Random, home: Path) -> None:
        life = Life(chance, home, rows, chance.random() < 0.5, [])
        life.known = [life.empty() for _ in range(3)]
        for number in range(STEPS):
            step = chance.choice(STEPS_OF_LIFE)
            with about(f"step {number}, {step.__name__}"):
                step(life)
                for one in life.known:
                    one.ledger.require_counts(one.model.statistics_)
                    same = Counter(one.model.batches).total() == one.batches.total()
                    require(same, "the number of batches is wrong", len(one.model.batches))
                chosen = life.any()
                chosen.ledger.require_sums(chosen.model.statistics_, ROUNDING)

    return Tries(attempt)


PROMISE = Promise(
    "models",
    "The same holds for models and images, through files and merges; what would count twice is refused.",
    100,
    prepare,
    seconds=300,
)
