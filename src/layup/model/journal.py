"""The journal of a model: what it was taught since its file was written, in a file beside it.

`m.layup.journal` is a row of frames (`layup.frames`). The first names the model file that it continues, and
holds the outcomes of recent requests that have a key. Each of the others holds records: a lesson with the
features of its photos, and the outcome, if the request has a key. They are numbered through. The model file
says which journal continues it, and through which number it holds the lessons of that: so each counts once,
whenever a process is killed. Writing a model to a path takes up the journal that is beside it.

Digests, and outcomes, which tell digests, are encrypted as in the model file. Features are in the journal
until they are taken up.
"""

from __future__ import annotations

import json
import os
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from layup import frames, schema, storage
from layup.errors import InputError, MismatchError
from layup.model import keys
from layup.model.keys import Key
from layup.model.kind import KIND
from layup.model.known import BYTES, KnownPhotos
from layup.model.lesson import HEADER as LESSON, Lesson
from layup.model.outcome import STATUSES, Outcome

FORMAT = 1
MOST_ANSWERS = 10_000
LONGEST_KEPT = timedelta(days=1)
"""How many outcomes of requests with a key are kept, and how long."""

KEY = schema.Rule("a key", lambda value: schema.NAME.holds(value) and len(value) <= 200)
COUNTS = schema.fields_of(schema.whole(1))
OUTCOME: schema.Shape = {
    "version": schema.whole(),
    "counts": COUNTS,
    "learned": COUNTS,
    "forgotten": COUNTS,
    "moved": schema.whole(),
    "known": schema.whole(),
    "exact": schema.TRUTH,
    "photos": [
        {
            "id": schema.HASH.or_none(),
            "label": schema.LABEL.or_none(),
            "status": schema.one_of(*STATUSES),
            "learned_as": schema.listed(schema.LABEL),
            "error": schema.TEXT.or_none(),
        }
    ],
}
SEALED: Mapping[str, schema.Shape] = {"key": schema.HASH, "nonce": schema.HASH}
ANSWER: schema.Shape = {
    "key": KEY,
    "date": schema.NAME,
    "sealed?": {**SEALED, "outcome": schema.TEXT},
    "outcome?": OUTCOME,
}
"""`sealed` where photos have digests, which an outcome tells."""
MARK: schema.Shape = {"journal": schema.HASH, "through": schema.whole()}
"""What a model file says of its journal."""
HEAD: schema.Shape = {
    "format": schema.whole(1, FORMAT),
    "kind": schema.one_of("journal"),
    "journal": schema.HASH,
    "through": schema.whole(),
    "answers": [ANSWER],
}
RECORD: schema.Shape = {
    "number": schema.whole(1),
    "answer?": ANSWER,
    "lesson?": LESSON,
    "sealed?": SEALED,
}


@dataclass(frozen=True)
class Answered:
    """The outcome of a request that has a key; `secret` encrypts it in the file, if it tells digests."""

    key: str
    outcome: Outcome
    date: str
    secret: Key | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        values: dict[str, Any] = {"key": self.key, "date": self.date}
        if self.secret is None:
            return {**values, "outcome": self.outcome.to_dict()}
        text = np.frombuffer(json.dumps(self.outcome.to_dict()).encode(), np.uint8)
        sealed, hidden = _sealed(text, self.secret)
        return {**values, "sealed": {**sealed, "outcome": b64encode(hidden.tobytes()).decode()}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self | None:
        """The inverse of `to_dict`; None without the key that it is encrypted with."""
        sealed = values.get("sealed")
        if sealed is None:
            return cls(values["key"], Outcome.from_dict(values["outcome"]), values["date"])
        if (secret := keys.find(sealed["key"])) is None:
            return None
        hidden = np.frombuffer(b64decode(sealed["outcome"], validate=True), np.uint8)
        outcome = json.loads(secret.decrypt(bytes.fromhex(sealed["nonce"]), hidden).tobytes())
        schema.require(outcome, OUTCOME, "outcome")
        return cls(values["key"], Outcome.from_dict(outcome), values["date"], secret)

    def is_recent(self, now: datetime) -> bool:
        """Whether it is still kept."""
        try:
            return datetime.fromisoformat(self.date) > now - LONGEST_KEPT
        except (ValueError, TypeError):  # TypeError: of no time zone
            return False


@dataclass(frozen=True)
class Record:
    """What a request did: its number, the lesson, unless nothing changed, and the answer, if it has a key.

    secret: what its digests were encrypted with in the file.
    """

    number: int
    lesson: Lesson | None = None
    answer: Answered | None = None
    secret: Key | None = None


@dataclass(frozen=True)
class Filed:
    """What a journal holds.

    name: its id, which the model file names. through: the last number before it. end: where it ends.
    """

    name: str
    through: int
    answers: tuple[Answered, ...]
    records: tuple[Record, ...]
    end: int

    @property
    def last(self) -> int:
        """The number of the last record."""
        return self.records[-1].number if self.records else self.through

    @property
    def mark(self) -> dict[str, Any]:
        """What the file of a model says that holds all of it."""
        return {"journal": self.name, "through": self.last}

    def follows(self, mark: Mapping[str, Any] | None) -> bool:
        """Whether it continues a model file with this mark."""
        if mark is None or mark["journal"] != self.name:
            return not self.records
        return bool(self.through <= mark["through"])

    def since(self, mark: Mapping[str, Any] | None, path: storage.AnyPath) -> list[Record]:
        """The records that a model file with this mark does not hold; refuse the journal of another."""
        if not self.records:
            return []
        if mark is None or mark["journal"] != self.name:
            raise InputError(
                f"'{beside(path)}' holds {len(self.records):,} lessons of another model than '{path}'. Put "
                "the model back that it belongs to, or move the journal away."
            )
        if mark["through"] < self.through:
            raise InputError(
                f"'{path}' holds lessons up to number {mark['through']:,}, but its journal begins after "
                f"number {self.through:,}: the file is older than its journal. Put the newer one back."
            )
        return [record for record in self.records if record.number > mark["through"]]


def beside(path: storage.AnyPath) -> Path:
    """Where the journal of a model file is: beside the file itself, also if the path is a link to it."""
    target = Path(os.path.realpath(path))
    return target.with_name(f"{target.name}.journal")


def read_journal(path: storage.AnyPath) -> Filed | None:
    """The journal of the model file at this path, checked; None if there is none."""
    file = beside(path)
    if not file.exists():
        return None
    found = frames.read(file)
    with storage.believed(file):
        if not found.bodies:
            raise ValueError("it has no head")
        head = json.loads(found.bodies[0])
        schema.require(head, HEAD, "journal")
        records = tuple(_numbered(found.bodies[1:], head["through"]))
        answers = tuple(filter(None, (Answered.from_dict(each) for each in head["answers"])))
    return Filed(head["journal"], head["through"], answers, records, found.end)


def read_records(path: storage.AnyPath, after: Filed) -> Filed:
    """The same journal with only what was appended since it was read."""
    file = beside(path)
    found = frames.read(file, after.end)
    with storage.believed(file):
        records = tuple(_numbered(found.bodies, after.last))
    return replace(after, through=after.last, records=records, end=found.end)


def _numbered(bodies: Sequence[bytes], before: int) -> Iterator[Record]:
    for body in bodies:
        for record in _records_of(body):
            if record.number != before + 1:
                raise ValueError(f"record {record.number} comes after {before}")
            before = record.number
            yield record


def create(path: storage.AnyPath, head: Filed) -> None:
    """Write a journal without records, in place of any other."""
    values = {"format": FORMAT, "kind": "journal", "journal": head.name, "through": head.last}
    answers = [each.to_dict() for each in recent_answers(head.answers)]
    frames.create(beside(path), [json.dumps({**values, "answers": answers}).encode()], path)


def begin_journal(path: storage.AnyPath) -> None:
    """Write a new journal, which the model file does not name yet."""
    create(path, Filed(secrets.token_hex(16), 0, (), (), 0))


def mark_of(path: storage.AnyPath) -> Any:
    """Which journal a model file says continues it, and from where on; None if none does."""
    return storage.read_header(path, KIND).get("journal")


def taken_up(path: storage.AnyPath, filed: Filed) -> None:
    """Drop all records, which the model file now holds, but not what recent requests were answered."""
    create(path, replace(filed, through=filed.last, records=(), answers=answers_of(filed)))


def answers_of(filed: Filed) -> tuple[Answered, ...]:
    """All answers in a journal, the oldest first."""
    return (*filed.answers, *(each.answer for each in filed.records if each.answer is not None))


def recent_answers(answers: Sequence[Answered]) -> list[Answered]:
    """Those that are kept."""
    now = datetime.now(UTC)
    newest = islice(reversed(answers), MOST_ANSWERS)
    return [each for each in newest if each.is_recent(now)][::-1]


class Journal:
    """The end of a journal to which records are added, by the process that holds the lock of the model."""

    def __init__(self, path: storage.AnyPath, filed: Filed) -> None:
        self.name = filed.name
        self._file = frames.Appender(beside(path), filed.end)

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._file.end

    def append(self, records: Sequence[Record], photos: KnownPhotos | None) -> None:
        """Add records in one step; they are on the disk when this returns."""
        self._file.append(_body_of(records, photos))

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


# ---- records as bytes


def _body_of(records: Sequence[Record], photos: KnownPhotos | None) -> bytes:
    """Records as a file has them; with the key of these photos, which this user then keeps."""
    headers, arrays = list[dict[str, Any]](), dict[str, NDArray[Any]]()
    for number, record in enumerate(records):
        header: dict[str, Any] = {"number": record.number}
        if record.answer is not None:
            header["answer"] = record.answer.to_dict()
        if record.lesson is not None:
            header["lesson"] = record.lesson.state()
            given = record.lesson.photos
            if len(given):
                arrays[f"{number}.rows"] = np.ascontiguousarray(given.rows, "<f4")
            if photos is not None and given.digests:
                digests = np.frombuffer(b"".join(given.digests), np.uint8).reshape(-1, BYTES)
                header["sealed"], arrays[f"{number}.digests"] = _sealed(digests, photos.key)
        headers.append(header)
    return save(arrays, {"layup": json.dumps(headers)})


def _sealed(values: NDArray[np.uint8], key: Key) -> tuple[dict[str, str], NDArray[np.uint8]]:
    """What tells how values were encrypted, and these; the user keeps the key."""
    keys.keep(key)
    nonce, hidden = key.encrypt(values)
    return {"key": key.id, "nonce": nonce.hex()}, hidden


def _records_of(body: bytes) -> Iterator[Record]:
    """The inverse; a `ValueError` for what `_body_of` cannot have returned."""
    try:
        headers, arrays = json.loads(_metadata(body)), load(body)
    except (SafetensorError, KeyError) as error:
        raise ValueError(str(error)) from error
    schema.require(headers, [RECORD], "records")
    for number, header in enumerate(headers):
        answer = Answered.from_dict(header["answer"]) if "answer" in header else None
        lesson = secret = None
        if "lesson" in header:
            rows = arrays.get(f"{number}.rows", np.zeros((0, 0), np.float32))
            if rows.dtype != np.float32 or rows.ndim != 2 or not np.isfinite(rows).all():
                raise ValueError("the features of a lesson are not finite numbers of one row per photo")
            digests, secret = _unsealed(header.get("sealed"), arrays.get(f"{number}.digests"))
            lesson = Lesson.from_state(header["lesson"], rows, digests)
        yield Record(header["number"], lesson, answer, secret)


def _metadata(body: bytes) -> str:
    """What a safetensors file says beside its arrays."""
    length = int.from_bytes(body[:8], "little")
    text = json.loads(body[8 : 8 + length])["__metadata__"]["layup"]
    if not isinstance(text, str):
        raise ValueError("its records are not text")
    return text


def _unsealed(
    sealed: Mapping[str, str] | None, hidden: NDArray[Any] | None
) -> tuple[list[bytes], Key | None]:
    if sealed is None or hidden is None:
        return [], None
    if hidden.dtype != np.uint8 or hidden.ndim != 2 or hidden.shape[1] != BYTES:
        raise ValueError("the digests of a lesson are not 16 bytes per photo")
    if (key := keys.find(sealed["key"])) is None:
        raise MismatchError(
            "The journal of this model holds lessons that somebody else gave, or on another machine. Copy "
            f"{sealed['key']}.key from there to '{keys.folder()}', or let the server that wrote it end: then "
            "the model file holds them."
        )
    return [row.tobytes() for row in key.decrypt(bytes.fromhex(sealed["nonce"]), hidden)], key
