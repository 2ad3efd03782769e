"""The sums of one slice, in a file: the same bytes whenever and wherever it is computed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from layup import schema, storage
from layup.algebra import JUDGED, GramStatistics, drawn
from layup.features import Rows
from layup.images import described
from layup.model import ImageModel
from layup.schema import HASH, TEXT, whole
from layup.sharding.plan import Plan

KIND = "shard"
DIGEST = 16
"""Bytes of the digest of a photo that are kept."""
SKIP = "skip-{:05}.json"
FIELDS: schema.Shape = {
    "plan": HASH,
    "slice": whole(),
    "skipped": HASH,
    "planned": whole(),
    "bad": [TEXT],
    "twice": whole(),
    "sums": schema.FIELDS,
}


@dataclass(frozen=True)
class Shard:
    """What was computed of a slice.

    sums: of all photos that could be used, each once.
    digests: of these photos, n × 16 bytes; `classes` their classes, as indices of `sums.labels`.
    rows, row_classes: samples drawn of them (`layup.algebra.drawn`), by which the classifier chooses.
    bad: why photos could not be used. twice: how many were left out, since they were there already.
    planned: how many photos the slice lists.
    """

    sums: GramStatistics
    digests: NDArray[np.uint8]
    classes: NDArray[np.int32]
    rows: Rows
    row_classes: NDArray[np.int32]
    bad: list[str]
    twice: int
    planned: int

    def labels(self) -> list[str]:
        """The label of each photo."""
        return [self.sums.labels[index] for index in self.classes]

    def row_labels(self) -> list[str]:
        """The label of each sample that was drawn."""
        return [self.sums.labels[index] for index in self.row_classes]

    def write(self, path: Path, plan: Plan, number: int) -> None:
        """Write it to a file, atomically."""
        about, arrays = self.sums.state()
        header = {
            "plan": plan.digest,
            "slice": number,
            "skipped": skipped_hash(plan, number),
            "planned": self.planned,
            "bad": self.bad,
            "twice": self.twice,
            "sums": about,
        }
        arrays |= {"digests": self.digests, "classes": self.classes}
        arrays |= {"rows": self.rows, "row_classes": self.row_classes}
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
            sums = GramStatistics.from_state(
                header["sums"], {name: arrays[name] for name in GramStatistics.ARRAYS if name in arrays}
            )
            nothing = np.zeros(0)
            found = cls(
                sums,
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


def skipped(plan: Plan, number: int) -> frozenset[bytes]:
    """Digests of photos of a slice that another slice has as well: they are left out here."""
    path = plan.folder / SKIP.format(number)
    if not path.exists():
        return frozenset()
    try:
        return frozenset(bytes.fromhex(each) for each in json.loads(path.read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise storage.damaged(path, str(error)) from error


def skip(plan: Plan, number: int, digests: set[bytes]) -> None:
    """Leave these photos out when the slice is computed again."""
    every = sorted(each.hex() for each in skipped(plan, number) | digests)
    storage.write_text(plan.folder / SKIP.format(number), json.dumps(every))


def skipped_hash(plan: Plan, number: int) -> str:
    """Hex SHA-256 of what is left out."""
    return hashlib.sha256(b"".join(sorted(skipped(plan, number)))).hexdigest()


def compute(plan: Plan, number: int, start: Callable[[], ImageModel] | None = None) -> tuple[Path, Shard]:
    """Compute a slice and write its shard, unless it is there already; it may hold no photo that can be used.

    start: gives the model to read with, which does not learn; by default that of `plan.start()`.
    """
    photos, path = plan.photos(number), shard_path(plan, number)
    if path.exists():
        return path, Shard.read(path, plan, number)
    model = (start or plan.start)()
    sums, leave_out = model.statistics_.empty(), skipped(plan, number)
    seen: dict[bytes, str] = {}
    kept: list[Rows] = []
    names: list[str] = []
    bad: list[str] = []
    for rows, labels, digests, reasons in _read(model, photos.images, photos.labels):
        bad += reasons
        new = [
            turn
            for turn, digest in enumerate(digests)
            if digest not in leave_out and digest not in seen and seen.setdefault(digest, labels[turn])
        ]
        own = [labels[turn] for turn in new]
        sums.update(rows[new], own)
        kept, names = [*kept, rows[new]], [*names, *own]
        if len(names) > 2 * JUDGED:  # not after every batch: drawing takes a hash per sample
            kept, names = _drawn(kept, names)
    kept, names = _drawn(kept, names)
    index = {label: position for position, label in enumerate(sums.labels)}
    shard = Shard(
        sums,
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


def _read(
    model: ImageModel, images: Any, labels: list[str]
) -> Iterator[tuple[Rows, list[str], list[bytes], list[str]]]:
    """Features, labels and digests of photos in batches, and why some cannot be used."""
    for part in model.extractor_.stream(images, "Summing"):
        reasons = [f"{described(images[each.index])}: {each.reason}" for each in part.bad]
        yield part.rows, [labels[i] for i in part.kept], [each[:DIGEST] for each in part.digests], reasons


def _drawn(rows: list[Rows], labels: list[str]) -> tuple[list[Rows], list[str]]:
    """Of all samples so far, those that are drawn."""
    whole = np.concatenate(rows)
    chosen = drawn(whole, JUDGED)
    return [whole[chosen]], [labels[i] for i in chosen]
