"""Random histories of sums and classifiers, compared with an oracle that keeps all the data.

A step is one function; a new thing that the library can do is one more of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from layup import GramStatistics, RidgeClassifier
from layup.errors import ForgetError
from torture.ledger import Ledger, Rows, Sample
from torture.promise import BrokenError, Promise, Tries, about, require

STEPS, CHECKED = 2000, 40
"""Steps of a history, and after how many of them all of the sums are compared."""
LAYERS = {"shallow": 5, "middle": 4, "deep": 3}
DIM = sum(LAYERS.values())
LABELS = [f"class {letter}" for letter in "abcdefgh"]
MANY = 300
"""Samples beyond which a history prefers to forget."""
ROUNDING = 1e-11


@dataclass
class Life:
    """A classifier, what it should know, and all that decides what happens to it."""

    chance: Random
    folder: Path
    scale: float
    lam: float
    balance: bool
    rows: Rows
    model: RidgeClassifier
    ledger: Ledger

    def fresh(self) -> RidgeClassifier:
        """A classifier like this one that knows nothing."""
        model = RidgeClassifier(self.lam, balance=self.balance)
        model.adopt(GramStatistics(LAYERS))
        return model

    def new_samples(self, count: int, labels: Sequence[str] = LABELS) -> list[Sample]:
        """Vectors that are new."""
        rng = np.random.default_rng(self.chance.getrandbits(63))
        return [
            (self.rows.add(self.scale * rng.normal(0.3, 1, DIM)), self.chance.choice(labels))
            for _ in range(count)
        ]

    def learn(self, model: RidgeClassifier, ledger: Ledger, samples: Sequence[Sample]) -> None:
        """Learn in the classifier and in the ledger."""
        model.partial_fit(*self.rows.of(samples))
        ledger.take(samples)

    def copied(self) -> tuple[RidgeClassifier, Ledger]:
        """A classifier that knows what this one does, and its ledger."""
        other = self.fresh()
        other.adopt(self.model.statistics_.copy())
        return other, self.ledger.copy()

    def forget(self, model: RidgeClassifier, ledger: Ledger, samples: Sequence[Sample]) -> None:
        """Forget in the classifier and in the ledger."""
        model.revert(*self.rows.of(samples))
        ledger.take(samples, -1)

    def refuses(self, model: RidgeClassifier, samples: Sequence[Sample]) -> None:
        """What was never learned cannot be forgotten, and trying changes nothing."""
        before = model.statistics_.gram
        try:
            model.revert(*self.rows.of(samples))
        except ForgetError:
            require(bool((model.statistics_.gram == before).all()), "a refusal has changed the sums")
            return
        raise BrokenError("what was never learned was forgotten", samples[:5])


# ---- steps


def learn(life: Life) -> None:
    """A batch of a few samples, now and then of many; some of them known already."""
    known = life.ledger.samples()
    again = life.chance.sample(known, min(len(known), life.chance.choice((0, 0, 1, 3))))
    life.learn(life.model, life.ledger, life.new_samples(life.chance.choice((1, 1, 2, 5, 20, 70))) + again)


def forget(life: Life) -> None:
    """Some of what is known, or a whole class, or everything."""
    known = life.ledger.samples()
    if not known:
        return
    way = life.chance.random()
    gone = life.chance.sample(known, life.chance.randint(1, len(known)))
    if way < 0.3:
        label = life.chance.choice(known)[1]
        gone = [sample for sample in known if sample[1] == label]
    elif way > 0.97:
        gone = known
    life.forget(life.model, life.ledger, gone)


def forget_too_much(life: Life) -> None:
    """More of a class than was learned, or a class that was never learned."""
    label = life.chance.choice(LABELS)
    own = [sample for sample in life.ledger.samples() if sample[1] == label]
    life.refuses(life.model, [*own, *life.new_samples(1, [label])])


def forget_a_stranger(life: Life) -> None:
    """Another image under a label that is known: certain to show once a copy has forgotten all but a few."""
    few, ledger = life.copied()
    life.learn(few, ledger, life.new_samples(2))
    known = ledger.samples()
    kept = life.chance.sample(known, life.chance.randint(2, min(len(known), DIM // 2)))
    if gone := list((ledger.held - Counter(kept)).elements()):
        life.forget(few, ledger, gone)
    life.refuses(few, life.new_samples(1, [life.chance.choice(kept)[1]]))


def merge(life: Life) -> None:
    """What another machine has learned."""
    other, others = life.fresh(), Ledger(life.rows)
    life.learn(other, others, life.new_samples(life.chance.choice((1, 10, 40))))
    life.model.adopt(life.model.statistics_ + other.statistics_)
    life.ledger = life.ledger.merged(others)


def merge_with_base(life: Life) -> None:
    """Two machines continue from the same sums; one of them forgets; both are merged again."""
    base, root = life.model.statistics_.copy(), life.ledger.copy()
    other, others = life.copied()
    life.learn(other, others, life.new_samples(5))
    learn(life)
    forget(life)
    life.model.adopt(other.statistics_ - base + life.model.statistics_)
    life.ledger = life.ledger.merged(others, root)


def rename(life: Life) -> None:
    """A class gets another name, which may be that of another class: then the two are one."""
    counts = life.ledger.counts()
    if not counts:
        return
    old, new = life.chance.choice([*counts]), life.chance.choice(LABELS)
    life.model.adopt(life.model.statistics_.renamed(old, new))
    held: Counter[Sample] = Counter()
    for (number, label), count in life.ledger.held.items():
        held[number, new if label == old else label] += count
    life.ledger.hold(held)


def drop_class(life: Life) -> None:
    """A class goes, with its samples as the root of its Gram matrix."""
    counts = life.ledger.counts()
    if not counts:
        return
    label = life.chance.choice([*counts])
    own = [sample for sample in life.ledger.samples() if sample[1] == label]
    life.model.adopt(life.model.statistics_.without_class(label, life.rows.of(own)[0]))
    life.ledger.take(own, -1)


def save_and_load(life: Life) -> None:
    """Through a file, which may be copied or renamed in between."""
    path = life.folder / "sums"
    life.model.statistics_.save(path)
    if life.chance.random() < 0.5:
        path = path.rename(life.folder / "renamed")
    else:
        (life.folder / "copy").write_bytes(path.read_bytes())
        path = life.folder / "copy"
    life.model = life.fresh()
    life.model.adopt(GramStatistics.load(path))


def copy(life: Life) -> None:
    """A copy is its own: what happens to it does not happen to this one."""
    other, others = life.copied()
    life.learn(other, others, life.new_samples(3))
    others.require_counts(other.statistics_)


def select(life: Life) -> None:
    """Some layers of what is known are what learning with only these would have given."""
    layers = life.chance.sample(list(LAYERS), life.chance.randint(1, len(LAYERS)))
    columns = life.model.statistics_.columns(layers)
    life.ledger.require_sums(life.model.statistics_.select(layers), ROUNDING, columns)


def predict(life: Life) -> None:
    """Scores at a given λ, of vectors old and new."""
    if life.ledger.held:
        tested, _ = life.rows.of(life.new_samples(3))
        life.ledger.require_scores(life.model.scores(tested), tested, life.lam, life.balance, 1e-7)


COMMON: tuple[Callable[[Life], None], ...] = (learn, learn, learn, learn, forget, predict)
RARE: tuple[Callable[[Life], None], ...] = (
    *(forget_too_much, forget_a_stranger, merge, merge_with_base, rename, drop_class),
    *(save_and_load, copy, select),
)


def live(chance: Random, folder: Path, steps: int) -> None:
    """One history."""
    scale = 10.0 ** chance.randint(-3, 3)
    lam, balance = scale**2 * chance.choice((0.1, 1.0, 30.0)), chance.random() < 0.5
    rows = Rows(DIM)
    life = Life(chance, folder, scale, lam, balance, rows, RidgeClassifier(), Ledger(rows))
    life.model = life.fresh()
    for number in range(steps):
        full = sum(life.ledger.held.values()) > MANY
        step = forget if full else chance.choice(COMMON if chance.random() < 0.85 else RARE)
        with about(f"step {number}, {step.__name__}; λ = {lam:g}, balance {balance}, scale {scale:g}"):
            step(life)
            life.ledger.require_counts(life.model.statistics_)
            if number % CHECKED == 0 or number == steps - 1:
                life.ledger.require_sums(life.model.statistics_, ROUNDING)


def prepare(_folder: Path) -> Tries:
    """Nothing: each history makes its own data."""
    return Tries(lambda index, chance, home: live(chance, home, STEPS))


PROMISE = Promise(
    "histories",
    "Whatever was learned, forgotten and merged, in whatever order, the sums are those of what is left.",
    200,
    prepare,
    seconds=300,
)
