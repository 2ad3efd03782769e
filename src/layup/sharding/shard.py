"""The sums of one slice, in a file: the same bytes whenever and wherever it is computed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from layup import schema, storage
from layup.algebra import FOLDS, JUDGED, GramStatistics, drawn
from layup.features import Rows
from layup.model import ImageModel
from layup.schema import HASH, TEXT, whole
from layup.sharding.plan import Plan
from layup.sharding.slice_photos import DIGEST, read_slice, skipped_hash

KIND = "shard"
FIELDS: schema.Shape = {
    "plan": HASH,
    "slice": whole(),
    "skipped": HASH,
    "planned": whole(),
    "bad": [TEXT],
    "twice": whole(),
    "parts": [schema.FIELDS],
}


@dataclass(frozen=True)
class Shard:
    """What was computed of a slice.

    parts: the sums of all photos that could be used, each once: of each fold, or of all together.
    digests: of these photos, n × 16 bytes; `classes` their classes, as indices of `sums.labels`.
    rows, row_classes: samples drawn of them (`layup.algebra.drawn`), by which the classifier chooses.
    bad: why photos could not be used. twice: how many were left out, since they were there already.
    planned: how many photos the slice lists.
    """

    parts: list[GramStatistics]
    digests: NDArray[np.uint8]
    classes: NDArray[np.int32]
    rows: Rows
    row_classes: NDArray[np.int32]
    bad: list[str]
    twice: int
    planned: int

    @cached_property
    def sums(self) -> GramStatistics:
        """The sums of all photos."""
        first, *others = self.parts
        return sum(others, start=first)

    def row_labels(self) -> list[str]:
        """The label of each sample that was drawn."""
        return [self.sums.labels[index] for index in self.row_classes]

    def write(self, path: Path, plan: Plan, number: int) -> None:
        """Write it to a file, atomically."""
        states = [part.state() for part in self.parts]
        header = {
            "plan": plan.digest,
            "slice": number,
            "skipped": skipped_hash(plan, number),
            "planned": self.planned,
            "bad": self.bad,
            "twice": self.twice,
            "parts": [about for about, _ in states],
        }
        arrays: dict[str, NDArray[Any]] = {"digests": self.digests, "classes": self.classes}
        arrays |= {"rows": self.rows, "row_classes": self.row_classes}
        for number, (_, own) in enumerate(states):
            arrays |= {f"{name} {number}": array for name, array in own.items()}
        storage.write(path, KIND, header, arrays)

    @classmethod
    def read(cls, path: Path, plan: Plan, number: int) -> Self:
        """Read it, and check that it is what was planned."""
        header, arrays = storage.read(path, KIND)
        with storage.believed(path):
            schema.require(header, FIELDS, "header")
            own = plan.digest, number, skipped_hash(plan, number)
            if (header["plan"], header["slice"], header["skipped"]) != own:
                raise ValueError("it belongs to another plan, or to another slice")
            if len(header["parts"]) != (FOLDS if plan.folded else 1):
                raise ValueError("it does not have the folds of its plan")
            parts = [
                GramStatistics.from_state(
                    about, {name: arrays[f"{name} {fold}"] for name in GramStatistics.ARRAYS}
                )
                for fold, about in enumerate(header["parts"])
            ]
            nothing = np.zeros(0)
            found = cls(
                parts,
                arrays.get("digests", nothing),
                arrays.get("classes", nothing),
                arrays.get("rows", nothing),
                arrays.get("row_classes", nothing),
                header["bad"],
                header["twice"],
                header["planned"],
            )
            found._require_sound()
        return found

    def _require_sound(self) -> None:
        shapes = (
            (self.digests, (self.sums.total, DIGEST), "uint8"),
            (self.classes, (self.sums.total,), "int32"),
            (self.rows, (min(self.sums.total, JUDGED), self.sums.dim), "float32"),
            (self.row_classes, (min(self.sums.total, JUDGED),), "int32"),
        )
        for array, shape, kind in shapes:
            if array.shape != shape or array.dtype.name != kind:
                raise ValueError(f"its arrays do not fit: {array.dtype} of shape {array.shape}")
        if not np.array_equal(np.bincount(self.classes, minlength=len(self.sums.labels)), self.sums.counts):
            raise ValueError("its photos are not those of its sums")
        if self.planned != self.sums.total + len(self.bad) + self.twice:
            raise ValueError("it does not account for all photos of its slice")


def shard_path(plan: Plan, number: int) -> Path:
    """Where the shard of a slice belongs: named by all that decides it."""
    decides = json.dumps([plan.digest, number, skipped_hash(plan, number)])
    return plan.folder / f"shard-{hashlib.sha256(decides.encode()).hexdigest()[:16]}.layup"


def missing(plan: Plan) -> list[int]:
    """The slices that were not computed yet."""
    return [number for number in range(len(plan.slices)) if not shard_path(plan, number).exists()]


def compute(plan: Plan, number: int, start: Callable[[], ImageModel] | None = None) -> tuple[Path, Shard]:
    """Compute a slice and write its shard, unless it is there already; it may hold no photo that can be used.

    start: gives the model to read with, which does not learn; by default that of `plan.start()`.
    """
    photos, path = plan.photos(number), shard_path(plan, number)
    if path.exists():
        return path, Shard.read(path, plan, number)
    model = (start or plan.start)()
    parts = [model.statistics_.empty() for _ in range(FOLDS if plan.folded else 1)]
    seen: dict[bytes, str] = {}
    kept: list[Rows] = []
    names: list[str] = []
    bad: list[str] = []
    for read in read_slice(plan, number, model):
        bad += read.bad
        seen |= zip(read.digests, read.labels, strict=True)
        for fold in np.unique(read.folds):
            own = np.flatnonzero(read.folds == fold)
            parts[fold].update(read.rows[own], [read.labels[i] for i in own])
        kept, names = [*kept, read.rows], [*names, *read.labels]
        if len(names) > 2 * JUDGED:  # not after every batch: drawing takes a hash per sample
            kept, names = redrawn(kept, names)
    kept, names = redrawn(kept, names)
    index = {label: position for position, label in enumerate(sorted({*seen.values()}))}
    shard = Shard(
        parts,
        np.frombuffer(b"".join(seen), np.uint8).reshape(-1, DIGEST),
        np.array([index[label] for label in seen.values()], np.int32),
        np.concatenate(kept),
        np.array([index[label] for label in names], np.int32),
        bad,
        len(photos.labels) - len(seen) - len(bad),
        len(photos.labels),
    )
    shard.write(path, plan, number)
    return path, shard


def redrawn(rows: list[Rows], labels: list[str]) -> tuple[list[Rows], list[str]]:
    """Of all samples so far, those that are drawn."""
    whole = np.concatenate(rows)
    chosen = drawn(whole, JUDGED)
    return [whole[chosen]], [labels[i] for i in chosen]
