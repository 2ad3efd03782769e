"""Which photos a model has learned: of each a digest, its class and its batch. No names, no images.

In memory it takes 24 bytes per photo, in the file as many. There the digests are encrypted with a key that
the file does not hold (`keys`); without it, they stay as they are, and their photos are not recognised.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from layup import schema
from layup.errors import InputError
from layup.model import keys
from layup.model.keys import Key
from layup.storage import Declarations

BYTES = 16
"""Of a digest. Two of a billion photos share one with a probability of 10⁻²¹."""
GONE = -1
"""The class of a photo that was forgotten, but whose digest cannot be taken out without its key."""
ARRAYS = {"photos.digests": "uint8", "photos.classes": "int32", "photos.batches": "int32"}
SECTION: schema.Shape = {"key": schema.HASH, "nonce": schema.HASH, "photos": schema.whole()}
HEADER: schema.Shape = {"sections": [SECTION]}

Numbers = NDArray[np.int64]
Digests = NDArray[np.bytes_]
"""One item of 16 bytes per photo. NumPy drops trailing zeros of single items, so these are never taken."""


def short(digests: Iterable[bytes]) -> Digests:
    """The first 16 bytes of each digest."""
    return np.array([digest[:BYTES] for digest in digests], f"S{BYTES}")


def halves(digests: Digests) -> NDArray[np.uint64]:
    """Each digest as two numbers, 2 × n: these are sorted and searched several times as fast."""
    return np.ascontiguousarray(digests.view(">u8").reshape(-1, 2).T.astype(np.uint64))


@dataclass(frozen=True)
class Rows:
    """Photos: the digest of each, or what it is encrypted to, the index of its class, and of its batch."""

    digests: Digests
    classes: NDArray[np.int32]
    batches: NDArray[np.int32]

    @classmethod
    def none(cls) -> Self:
        """No photos."""
        return cls(np.zeros(0, f"S{BYTES}"), np.zeros(0, np.int32), np.zeros(0, np.int32))

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Self:
        """All of them, in order."""
        parts = [cls.none(), *parts]
        return cls(
            np.concatenate([part.digests for part in parts]),
            np.concatenate([part.classes for part in parts]),
            np.concatenate([part.batches for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.digests)

    def __getitem__(self, chosen: Any) -> Rows:
        return Rows(self.digests[chosen], self.classes[chosen], self.batches[chosen])

    def mapped(self, classes: NDArray[np.int32], batches: NDArray[np.int32]) -> Rows:
        """With the new index of each class and batch; a class that is gone stays so."""
        return Rows(self.digests, np.append(classes, np.int32(GONE))[self.classes], batches[self.batches])


@dataclass(frozen=True)
class Sealed:
    """Photos whose key is not here: they are kept as they are."""

    key: str
    nonce: str
    rows: Rows


@dataclass(frozen=True)
class KnownPhotos:
    """The photos that a model knows. Immutable: every change makes a new one.

    >>> known = KnownPhotos().with_photos([b"one 456789012345", b"two 456789012345"], ["cat", "dog"], batch=0)
    >>> known.labels_of([b"two 456789012345", b"six 456789012345"])
    [('dog',), ()]
    >>> known.renamed("dog", "hound").counts
    {'cat': 1, 'hound': 1}
    """

    names: tuple[str, ...] = ()
    """The classes that photos have an index of; some may have no photos."""
    rows: Rows = field(default_factory=Rows.none)
    sealed: tuple[Sealed, ...] = ()
    key: Key = field(default_factory=Key.new)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def unreadable(self) -> int:
        """How many photos cannot be recognised without a key."""
        return sum(int((each.rows.classes != GONE).sum()) for each in self.sealed)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many photos of each class are known, also those that cannot be recognised."""
        everything = [self.rows.classes, *(each.rows.classes for each in self.sealed)]
        numbers = np.bincount(np.concatenate(everything) + 1, minlength=len(self.names) + 1)[1:]
        return {name: int(n) for name, n in zip(self.names, numbers, strict=True) if n}

    # ---- looking up

    @cached_property
    def _sorted(self) -> tuple[Numbers, NDArray[np.uint64]]:
        """The order of the rows by the first halves of their digests, and the halves in that order."""
        found = halves(self.rows.digests)
        order = np.argsort(found[0], kind="stable")
        return order, found[:, order]

    def matches(self, digests: Digests) -> tuple[Numbers, Numbers]:
        """All pairs of a given digest and a row that has it: the indices of both, in order.

        Costs one sort of all rows, the first time, and a search per digest.
        """
        order, known = self._sorted
        given = halves(digests)
        by_value = np.argsort(given[0])  # one after the other they are found in fewer pages of memory
        first, sizes = np.empty((2, len(digests)), np.int64)
        first[by_value] = np.searchsorted(known[0], given[0][by_value], "left")
        sizes[by_value] = np.searchsorted(known[0], given[0][by_value], "right")
        sizes -= first
        index = np.repeat(np.arange(len(digests)), sizes)
        place = np.repeat(first - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
        same = known[1, place] == given[1, index]
        return index[same], order[place[same]]

    def labels_of(self, digests: Iterable[bytes]) -> list[tuple[str, ...]]:
        """The classes that each photo was learned as: none, one, or several if it was learned again."""
        given = short(digests)
        found: list[tuple[str, ...]] = [()] * len(given)
        index, rows = self.matches(given)
        for place, label in zip(index.tolist(), self.labels_at(rows), strict=True):
            found[place] += (label,)
        return found

    def find(self, digests: Iterable[bytes], labels: Sequence[str] | None = None) -> Numbers:
        """The numbers of all rows with these digests; of those with these labels, if given."""
        index, rows = self.matches(short(digests))
        if labels is not None:
            rows = rows[self.numbers_of(labels)[index] == self.rows.classes[rows]]
        return np.unique(rows)

    def numbers_of(self, labels: Sequence[str]) -> NDArray[np.int32]:
        """The number of each label's class, and `GONE` for those of which no photo was ever known."""
        numbers = {name: number for number, name in enumerate(self.names)}
        return np.array([numbers.get(label, GONE) for label in labels], np.int32)

    def missing_from(self, digests: Iterable[bytes]) -> Numbers:
        """The numbers of all rows whose digest is not among these."""
        _, rows = self.matches(short(digests))
        return np.delete(np.arange(len(self)), rows)

    def counted_once(self) -> Numbers:
        """The numbers of the rows of photos that were not counted again."""
        _, rows = self.matches(self.rows.digests)
        return np.flatnonzero(np.bincount(rows, minlength=len(self)) == 1)

    def of_batch(self, batch: int) -> Numbers:
        """The numbers of the rows of a batch."""
        return np.flatnonzero(self.rows.batches == batch)

    def of_class(self, label: str) -> Numbers:
        """The numbers of the rows of a class."""
        return np.flatnonzero(self.rows.classes == (self.names.index(label) if label in self.names else GONE))

    def digests_at(self, rows: Numbers) -> list[bytes]:
        """The digests of these rows, whole."""
        flat = self.rows.digests[rows].tobytes()
        return [flat[start : start + BYTES] for start in range(0, len(flat), BYTES)]

    def labels_at(self, rows: Numbers) -> list[str]:
        """The classes of these rows."""
        return [self.names[number] for number in self.rows.classes[rows].tolist()]

    def batches_at(self, rows: Numbers) -> list[int]:
        """The batches of these rows."""
        found: list[int] = self.rows.batches[rows].tolist()
        return found

    # ---- changing

    def under(self, key: Key) -> Self:
        """To be encrypted with this key, if there is no photo yet that is with another."""
        return self if len(self) else replace(self, key=key)

    def with_photos(self, digests: Sequence[bytes], labels: Sequence[str], batch: int) -> Self:
        """With more photos, learned in this batch."""
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        classes = np.array([numbers[label] for label in labels], np.int32)
        return self.with_rows(short(digests), classes, [*numbers], batch)

    def with_rows(
        self, digests: Digests, classes: NDArray[np.int32], labels: Sequence[str], batch: int
    ) -> Self:
        """The same, for millions of photos: `classes` are indices of `labels`."""
        names = tuple(dict.fromkeys([*self.names, *labels]))
        place = {name: number for number, name in enumerate(names)}
        numbers = np.array([place[label] for label in labels], np.int32)
        more = Rows(digests, numbers[classes], np.full(len(digests), batch, np.int32))
        return replace(self, names=names, rows=Rows.joined([self.rows, more]))

    def without(self, rows: Numbers) -> Self:
        """Without these rows."""
        return replace(self, rows=self.rows[np.delete(np.arange(len(self)), rows)])

    def without_class(self, label: str) -> Self:
        """Without the photos of a class."""
        return self._with_classes({label: GONE})

    def renamed(self, old: str, new: str) -> Self:
        """With another name for a class; it may be that of another class."""
        grown = replace(self, names=tuple(dict.fromkeys([*self.names, new])))
        return grown._with_classes({old: grown.names.index(new)})

    def _with_classes(self, changed: Mapping[str, int]) -> Self:
        numbers = np.array([changed.get(name, number) for number, name in enumerate(self.names)], np.int32)
        same = np.arange(self._batches, dtype=np.int32)
        mapped = self._mapped(numbers, same)
        return replace(mapped, rows=mapped.rows[mapped.rows.classes != GONE])

    @property
    def _batches(self) -> int:
        return 1 + max((int(rows.batches.max(initial=-1)) for rows in self._all_rows()), default=-1)

    def _all_rows(self) -> list[Rows]:
        return [self.rows, *(each.rows for each in self.sealed)]

    def _mapped(self, classes: NDArray[np.int32], batches: NDArray[np.int32]) -> Self:
        return replace(
            self,
            rows=self.rows.mapped(classes, batches),
            sealed=tuple(replace(each, rows=each.rows.mapped(classes, batches)) for each in self.sealed),
        )

    def ids(self, names: Mapping[str, int]) -> NDArray[np.bytes_]:
        """What tells each row from all others: its digest, the number of its class, and how often it came."""
        classes = np.array([names[name] for name in self.names], "<i4")[self.rows.classes]
        plain = np.concatenate(
            [
                self.rows.digests.view(np.uint8).reshape(-1, BYTES),
                classes.astype("<i4").view(np.uint8).reshape(-1, 4),
            ],
            axis=1,
        )
        _, kind = np.unique(_as_items(plain), return_inverse=True)
        return _as_items(np.concatenate([plain, _turns(kind).view(np.uint8).reshape(-1, 4)], axis=1))

    def merged(self, other: KnownPhotos, batches: Sequence[int], skip: Numbers) -> Self:
        """With the photos of another model, except those rows of it that are skipped.

        batches: the index that each batch of the other has in this one.
        """
        names = tuple(dict.fromkeys([*self.names, *other.names]))
        place = {name: number for number, name in enumerate(names)}
        numbers = np.array([place[name] for name in other.names], np.int32)
        theirs = other.without(skip)._mapped(numbers, np.array(batches, np.int32))
        return replace(
            self,
            names=names,
            rows=Rows.joined([self.rows, theirs.rows]),
            sealed=(*self.sealed, *theirs.sealed),
        )

    def followed(self, other: KnownPhotos, base: KnownPhotos) -> Self:
        """With what another model did since their common base to photos that nobody here can recognise.

        These stay in the order of the file that they came in, so that they are compared by it.
        """
        names = tuple(dict.fromkeys([*self.names, *other.names, *base.names]))
        place = {name: number for number, name in enumerate(names)}

        def classes(photos: KnownPhotos) -> dict[tuple[str, str], NDArray[np.int32]]:
            numbers = np.array([*(place[name] for name in photos.names), GONE], np.int32)
            return {(each.key, each.nonce): numbers[each.rows.classes] for each in photos.sealed}

        mine, theirs, before = classes(self), classes(other), classes(base)
        sealed = list(self.sealed)
        for number, each in enumerate(sealed):
            which = each.key, each.nonce
            if which in theirs and which in before:
                now = np.where(mine[which] == before[which], theirs[which], mine[which])
                sealed[number] = replace(each, rows=replace(each.rows, classes=now))
        return replace(self, names=names, sealed=tuple(sealed))

    def without_sealed_of(self, base: KnownPhotos) -> Self:
        """Without the photos that nobody here can recognise, of those that came with a base."""
        based = {(each.key, each.nonce) for each in base.sealed}
        return replace(
            self, sealed=tuple(each for each in self.sealed if (each.key, each.nonce) not in based)
        )

    # ---- files

    def state(self, labels: Sequence[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The header and the arrays of a file whose classes are these. Keeps the key, for `from_state`."""
        numbers = {label: number for number, label in enumerate(labels)}
        classes = np.array([numbers.get(name, GONE) for name in self.names], np.int32)
        filed = self._mapped(classes, np.arange(self._batches, dtype=np.int32))
        parts = list(filed.sealed)
        if len(self):
            keys.keep(self.key)
            nonce, hidden = self.key.encrypt(filed.rows.digests.view(np.uint8).reshape(-1, BYTES))
            own = replace(filed.rows, digests=_as_items(hidden))
            parts.append(Sealed(self.key.id, nonce.hex(), own))
        everything = Rows.joined([part.rows for part in parts])
        header = {
            "sections": [{"key": part.key, "nonce": part.nonce, "photos": len(part.rows)} for part in parts]
        }
        return header, {
            "photos.digests": everything.digests.view(np.uint8).reshape(-1, BYTES),
            "photos.classes": everything.classes,
            "photos.batches": everything.batches,
        }

    @classmethod
    def from_state(
        cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], labels: Sequence[str]
    ) -> Self:
        """The inverse of `state`, with the keys that this user has.

        Raises a `ValueError` if something was changed.
        """
        everything = Rows(
            _as_items(arrays["photos.digests"]), arrays["photos.classes"], arrays["photos.batches"]
        )
        ends = np.cumsum([section["photos"] for section in header["sections"]])
        sealed = [
            Sealed(section["key"], section["nonce"], everything[end - section["photos"] : end])
            for section, end in zip(header["sections"], ends.tolist(), strict=True)
        ]
        return cls(tuple(labels), sealed=tuple(sealed)).opened()

    def opened(self) -> Self:
        """With the photos recognised whose key has come since. A `ValueError` if they were changed."""
        parts = [self.rows]
        sealed: list[Sealed] = []
        own = self.key if len(self) else None
        for section in self.sealed:
            key = keys.find(section.key)
            if key is None:
                sealed.append(section)
                continue
            own = own or key
            hidden = section.rows.digests.view(np.uint8).reshape(-1, BYTES)
            plain = key.decrypt(bytes.fromhex(section.nonce), hidden)
            rows = replace(section.rows, digests=_as_items(plain))
            parts.append(rows[rows.classes != GONE])
        if len(sealed) == len(self.sealed):
            return self
        return replace(self, rows=Rows.joined(parts), sealed=tuple(sealed), key=own or self.key)


def _as_items(values: NDArray[np.uint8]) -> NDArray[np.bytes_]:
    """Each row of bytes as one item."""
    return np.ascontiguousarray(values).view(f"S{values.shape[1]}").ravel()


def _turns(kind: Numbers) -> NDArray[np.int32]:
    """How often each value came before.

    >>> _turns(np.array([3, 1, 3, 3])).tolist()
    [0, 0, 1, 2]
    """
    order = np.argsort(kind, kind="stable")
    sizes = np.bincount(kind)
    turns = np.empty(len(kind), "<i4")
    turns[order] = np.arange(len(kind)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return turns


def reopened(photos: KnownPhotos | None) -> KnownPhotos | None:
    """The photos of a model, also those whose key has come since it was loaded."""
    if photos is None:
        return None
    try:
        return photos.opened()
    except ValueError as error:
        raise InputError(f"This model cannot recognise its photos: {error}. Load it again.") from error


def require_recognisable(photos: KnownPhotos | None, what: str, about: str | None = None) -> KnownPhotos:
    """The photos of a model; refuse if it cannot recognise all of them. `what` they were, for the message."""
    photos = reopened(photos)
    if photos is None:
        raise InputError(
            "This model is anonymous: it keeps no digests of its photos, so it cannot tell which were "
            f"{what}. Only a new model that is not anonymous can."
        )
    if photos.unreadable:
        missing = ", ".join(sorted({each.key for each in photos.sealed}))
        raise InputError(
            f"This model cannot tell which photos were {what}: {photos.unreadable:,} of them were learned by "
            f"somebody else, or on another machine. Copy {missing}.key from there to '{keys.folder()}'.",
            about=about,
        )
    return photos


def require_declared(header: Mapping[str, Any], declared: Declarations) -> None:
    """Raise a `ValueError` for a header, and declared arrays, that `state` cannot have returned."""
    schema.require(header, HEADER, "header.photos")
    photos = sum(section["photos"] for section in header["sections"])
    for name, dtype in ARRAYS.items():
        shape = (photos, BYTES) if name == "photos.digests" else (photos,)
        found = declared.get(name)
        if found is None or found.dtype != dtype or found.shape != shape:
            raise ValueError(f"its array {name!r} is {found or 'missing'}, not {dtype} of shape {shape}")


def require_sound(arrays: Mapping[str, NDArray[Any]], counts: Mapping[str, int], batches: int) -> None:
    """Raise a `ValueError` for photos of classes or batches that the file does not have, or too many."""
    for name, most in (("photos.classes", len(counts)), ("photos.batches", batches)):
        least = GONE if name == "photos.classes" else 0
        values = arrays[name]
        if len(values) and not (least <= values.min() and values.max() < most):
            raise ValueError(f"its array {name!r} names classes or batches that it does not have")
    numbers = np.bincount(arrays["photos.classes"] + 1, minlength=len(counts) + 1)[1:]
    for (label, count), known in zip(counts.items(), numbers.tolist(), strict=True):
        if known > count:
            raise ValueError(f"it knows {known} photos of {schema.shown(label)}, but has learned {count}")
