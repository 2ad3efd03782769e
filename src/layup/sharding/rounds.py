"""The paper's search of λ across slices: weights to try go out, and how often they are right comes back.

Shards have the sums of each fold. From them, whoever merges makes the weights that predict a fold by all the
others, for every λ of a round, and writes them into the plan. Slices are then computed once more: each counts
what these weights predict right of its own photos. Features stay where they are. A search may need several
rounds, if the best λ is at an end of its grid.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from layup import schema, storage
from layup.algebra import FOLDS, Floats, GramStatistics, mean_accuracies, rests, right
from layup.model import ImageModel
from layup.schema import HASH, NUMBER, TEXT, listed, whole
from layup.sharding.plan import Plan
from layup.sharding.slice_photos import read_slice, skipped_hash

OPEN = "round.json"
"""What is to be counted."""
KIND = "weights"
ROUND: schema.Shape = {"lams": [NUMBER], "sums": HASH}
WEIGHTS: schema.Shape = {"round": HASH, "classes": [[TEXT]]}
COUNTS: schema.Shape = {"right": [listed(whole(), FOLDS)]}


@dataclass(frozen=True)
class Round:
    """Some λ that slices count for: of a plan, with these sums (the SHA-256 of those of all folds)."""

    plan: Plan
    lams: tuple[float, ...]
    sums: str

    @cached_property
    def digest(self) -> str:
        """Hex SHA-256 of all that decides the counts."""
        return _hash([self.plan.digest, self.lams, self.sums])

    @classmethod
    def open_in(cls, plan: Plan) -> Round | None:
        """The round that slices are to be counted for, if there is one."""
        path = plan.folder / OPEN
        if not path.exists():
            return None
        values = _read_json(path, ROUND)
        return cls(plan, tuple(map(float, values["lams"])), values["sums"])

    def open(self, folds: Sequence[GramStatistics], history: GramStatistics, balance: bool) -> None:
        """Write the weights of every λ, and then that they are to be counted."""
        ready = [index for index in range(len(self.lams)) if not self._weights(index).exists()]
        others = rests(folds, history) if ready else []
        about = {"round": self.digest, "classes": [rest.sums.labels for rest in others]}
        for index in ready:
            weights = {str(fold): rest.weights(self.lams[index], balance) for fold, rest in enumerate(others)}
            storage.write(self._weights(index), KIND, about, weights)
        text = json.dumps({"lams": self.lams, "sums": self.sums})
        storage.write_text(self.plan.folder / OPEN, text + "\n")

    def weights(self, index: int) -> tuple[list[list[str]], list[Floats]]:
        """The classes and the weights of each fold, for one of the λ."""
        path = self._weights(index)
        header, arrays = storage.read(path, KIND)
        with storage.believed(path):
            schema.require(header, WEIGHTS, "header")
            found = [arrays[str(fold)] for fold in range(FOLDS)]
            widths = [weights.shape[1] for weights in found]
            if header["round"] != self.digest or widths != [*map(len, header["classes"])]:
                raise ValueError("it belongs to another round")
        return header["classes"], found

    def _weights(self, index: int) -> Path:
        return self.plan.folder / f"weights-{self.digest[:16]}-{index:02}.layup"

    def files(self) -> list[Path]:
        """What a machine needs to count, besides the lists."""
        return [self.plan.folder / OPEN, *(self._weights(index) for index in range(len(self.lams)))]

    def counts_path(self, number: int) -> Path:
        """Where the counts of a slice belong: named by all that decides them."""
        decides = [self.digest, number, skipped_hash(self.plan, number)]
        return self.plan.folder / f"counts-{_hash(decides)[:16]}.json"

    def uncounted(self) -> list[int]:
        """The slices that were not counted yet."""
        return [number for number in range(len(self.plan.slices)) if not self.counts_path(number).exists()]

    def counted(self) -> NDArray[np.int64]:
        """What all slices together predict right, λ × folds."""
        shape = len(self.lams), FOLDS
        total = np.zeros(shape, np.int64)
        for number in range(len(self.plan.slices)):
            path = self.counts_path(number)
            found = np.array(_read_json(path, COUNTS)["right"], np.int64)
            if found.shape != shape:
                raise storage.damaged(path, "it has other values of λ")
            total += found
        return total


def count(found: Round, number: int, start: Callable[[], ImageModel] | None = None) -> Path:
    """Count a slice, and write that, unless it is there already.

    start: gives the model to read with; by default that of `plan.start()`. Costs the features of the slice,
    if the cache does not have them, and d·C operations per photo and λ.
    """
    path = found.counts_path(number)
    if path.exists():
        return path
    read = [*read_slice(found.plan, number, (start or found.plan.start)())]
    counts = np.zeros((len(found.lams), FOLDS), np.int64)
    for index in range(len(found.lams)):  # one λ at a time: weights may be large
        classes, weights = found.weights(index)
        for part in read:
            labels = np.array(part.labels)
            for fold in np.unique(part.folds):
                own = part.folds == fold
                rows = part.rows[own].astype(np.float64)
                counts[index, fold] += right(weights[fold], classes[fold], rows, labels[own])
    storage.write_text(path, json.dumps({"right": counts.tolist()}) + "\n")
    return path


def searched(
    plan: Plan, folds: Sequence[GramStatistics], history: GramStatistics, classifier: Any
) -> float | Round | None:
    """The λ of a plan, by its classifier's grid; or the next round, now open, if slices must count first.

    None if no class has a photo for each fold: then there is nothing to search.
    """
    total = sum(folds, start=history.empty())
    if total.counts.max(initial=0) < FOLDS:
        return None
    identity = _hash([history.digest(), *(fold.digest() for fold in folds)])
    sizes = [fold.total for fold in folds]
    rounds = classifier.fold_grid.rounds(total.trace + history.trace, float(np.finfo(np.float64).eps))
    lams = next(rounds)
    while True:
        turn = Round(plan, tuple(lams), identity)
        if turn.uncounted():
            turn.open(folds, history, classifier.balance)
            return turn
        try:
            lams = rounds.send(mean_accuracies(turn.counted(), sizes))
        except StopIteration as end:
            best: float = end.value.best
            return best


def _hash(values: Any) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()


def _read_json(path: Path, shape: schema.Shape) -> Any:
    try:
        values = json.loads(path.read_text("utf-8"))
        schema.require(values, shape, path.name)
    except (OSError, ValueError) as error:
        raise storage.damaged(path, str(error)) from error
    return values
