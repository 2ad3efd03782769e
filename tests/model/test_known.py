"""The photos that a model knows, against a list of (digest, label, batch) that is searched one by one."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from layup.errors import InputError
from layup.model import keys, known
from layup.model.keys import Key
from layup.model.known import GONE, KnownPhotos, require_recognisable
from layup.storage import Declared

LABELS = ["cat", "cow", "dog", "owl"]
# Of a few halves, with zeros at both ends: many digests share a half, and NumPy would drop their last bytes.
HALVES = [bytes(8), b"\0" * 7 + b"\1", b"\1" + b"\0" * 7, b"\xff" * 8]
DIGESTS = [one + other for one in HALVES for other in HALVES]

Photo = tuple[bytes, str, int]
digests = st.sampled_from(DIGESTS)
labels = st.sampled_from(LABELS)
photos = st.lists(st.tuples(digests, labels, st.integers(0, 3)), max_size=12)


@dataclass
class Twin:
    """What photos are known, in the order in which they came."""

    held: list[Photo]

    def find(self, wanted: list[bytes], of: list[str] | None = None) -> list[int]:
        return [
            row
            for row, (digest, label, _) in enumerate(self.held)
            if any(digest == each and (of is None or of[place] == label) for place, each in enumerate(wanted))
        ]

    def labels_of(self, digest: bytes) -> tuple[str, ...]:
        return tuple(label for each, label, _ in self.held if each == digest)

    def counts(self) -> dict[str, int]:
        return dict(Counter(label for _, label, _ in self.held))


def knowing(held: list[Photo]) -> KnownPhotos:
    """Photos that come one by one."""
    made = KnownPhotos()
    for digest, label, batch in held:
        made = made.with_photos([digest + b"the rest of a digest"], [label], batch)
    return made


def held_by(made: KnownPhotos) -> list[Photo]:
    rows = np.arange(len(made))
    return list(zip(made.digests_at(rows), made.labels_at(rows), made.batches_at(rows), strict=True))


def assert_like(made: KnownPhotos, held: list[Photo]) -> None:
    assert held_by(made) == held
    assert len(made) == len(held)
    assert made.counts == Twin(held).counts()
    assert made.labels_of(DIGESTS) == [Twin(held).labels_of(digest) for digest in DIGESTS]


# ---- looking up


@given(photos)
def test_what_comes_is_known(held: list[Photo]) -> None:
    assert_like(knowing(held), held)
    together = [list(column) for column in zip(*held, strict=True)] or [[], [], []]
    assert_like(KnownPhotos().with_photos(together[0], together[1], 2), [(d, n, 2) for d, n, _ in held])


@given(photos, st.lists(st.tuples(digests, labels), max_size=6))
def test_photos_are_found_by_digest_and_label(held: list[Photo], wanted: list[tuple[bytes, str]]) -> None:
    made, twin = knowing(held), Twin(held)
    given_, of = [digest for digest, _ in wanted], [label for _, label in wanted]
    assert made.find(given_).tolist() == twin.find(given_)
    assert made.find(given_, of).tolist() == twin.find(given_, of)
    missing = [row for row, photo in enumerate(held) if photo[0] not in given_]
    assert made.missing_from(given_).tolist() == missing
    pairs = [(i, row) for i, each in enumerate(given_) for row, photo in enumerate(held) if photo[0] == each]
    found = made.matches(known.short(given_))
    assert list(zip(*(each.tolist() for each in found), strict=True)) == pairs


@given(photos, labels, st.integers(0, 3))
def test_photos_of_a_class_or_a_batch(held: list[Photo], label: str, batch: int) -> None:
    made = knowing(held)
    assert made.of_class(label).tolist() == [row for row, photo in enumerate(held) if photo[1] == label]
    assert made.of_batch(batch).tolist() == [row for row, photo in enumerate(held) if photo[2] == batch]


# ---- changing


@given(photos, st.data())
def test_without_some(held: list[Photo], data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, len(held) - 1))) if held else set()
    made = knowing(held)
    assert_like(
        made.without(np.array(sorted(gone), np.int64)),
        [photo for row, photo in enumerate(held) if row not in gone],
    )
    assert_like(made, held)  # nothing is changed in place


@given(photos, st.lists(st.tuples(labels, labels), max_size=3), labels)
def test_classes_are_renamed_and_dropped_and_come_again(
    held: list[Photo], renames: list[tuple[str, str]], dropped: str
) -> None:
    made = knowing(held)
    for old, new in renames:
        made = made.renamed(old, new)
        held = [(digest, new if label == old else label, batch) for digest, label, batch in held]
    assert_like(made, held)
    made, held = made.without_class(dropped), [photo for photo in held if photo[1] != dropped]
    assert_like(made, held)
    more = (DIGESTS[0], dropped, 1)
    assert_like(made.with_photos([more[0]], [more[1]], more[2]), [*held, more])


@given(photos, photos, st.permutations(range(4)), st.data())
def test_merged(mine: list[Photo], theirs: list[Photo], batches: list[int], data: st.DataObject) -> None:
    skip = data.draw(st.sets(st.integers(0, len(theirs) - 1))) if theirs else set()
    made = knowing(mine).merged(knowing(theirs), batches, np.array(sorted(skip), np.int64))
    kept = [photo for row, photo in enumerate(theirs) if row not in skip]
    assert_like(made, [*mine, *((digest, label, batches[batch]) for digest, label, batch in kept)])


@given(photos)
def test_ids_tell_each_row_from_all_others(held: list[Photo]) -> None:
    numbers = {label: number for number, label in enumerate(reversed(LABELS))}
    ids = knowing(held).ids(numbers)
    assert len({*ids.tolist()}) == len(held)
    turns: Counter[tuple[bytes, str]] = Counter()
    for item, (digest, label, _) in zip(ids, held, strict=True):
        turn = turns[digest, label]
        expected = digest + numbers[label].to_bytes(4, "little") + turn.to_bytes(4, "little")
        assert item == expected.rstrip(b"\0")
        turns[digest, label] += 1


# ---- files


def filed(made: KnownPhotos, of: list[str] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    header, arrays = made.state(sorted(made.counts) if of is None else of)
    known.require_declared(header, {name: Declared(a.dtype.name, a.shape) for name, a in arrays.items()})
    return header, arrays


def read_again(made: KnownPhotos) -> KnownPhotos:
    return KnownPhotos.from_state(*filed(made), sorted(made.counts))


@settings(max_examples=30)
@given(photos)
def test_files_give_back_what_is_known(held: list[Photo]) -> None:
    made = knowing(held)
    again = read_again(made)
    assert_like(again, held)
    assert again.unreadable == 0
    assert_like(read_again(again), held)
    if held:
        assert again.key == made.key
        assert filed(again)[0] == filed(made)[0]  # equal photos give equal bytes


def test_a_file_does_not_tell_its_digests() -> None:
    held = [(digest, "cat", 0) for digest in DIGESTS]
    _, arrays = filed(knowing(held))
    hidden = arrays["photos.digests"].tobytes()
    assert not any(digest in hidden for digest in DIGESTS)
    _, others = filed(knowing(held))
    assert others["photos.digests"].tobytes() != hidden  # another key


@pytest.fixture
def stranger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Somebody who has none of the keys, once asked to be."""
    elsewhere = tmp_path / "elsewhere"

    class Switch:
        def on(self) -> None:
            monkeypatch.setenv("LAYUP_KEYS", str(elsewhere))

        def off(self) -> None:
            monkeypatch.undo()

    return Switch()  # type: ignore[return-value]


HELD = [(DIGESTS[3], "cat", 0), (DIGESTS[5], "dog", 0), (DIGESTS[7], "cat", 1), (DIGESTS[7], "cat", 1)]


def test_without_the_key_photos_are_counted_but_not_recognised(stranger: Any) -> None:
    made = knowing(HELD)
    parts = filed(made)
    stranger.on()
    sealed = KnownPhotos.from_state(*parts, ["cat", "dog"])
    assert (len(sealed), sealed.unreadable, sealed.counts) == (0, 4, {"cat": 3, "dog": 1})
    assert sealed.labels_of([DIGESTS[3]]) == [()]
    with pytest.raises(InputError, match=rf"4 of them were learned by somebody else.*{made.key.id}\.key"):
        require_recognisable(sealed, "learned before")
    more = sealed.with_photos([DIGESTS[1]], ["owl"], 2)
    assert (len(more), more.counts) == (1, {"cat": 3, "dog": 1, "owl": 1})
    assert more.key.id != made.key.id
    header, arrays = filed(more)
    assert [section["photos"] for section in header["sections"]] == [4, 1]
    again = KnownPhotos.from_state(header, arrays, ["cat", "dog", "owl"])
    assert (again.counts, again.unreadable) == (more.counts, 4)
    assert again.labels_of([DIGESTS[1]]) == [("owl",)]


def test_what_a_stranger_does_to_classes_holds_where_the_key_is(stranger: Any) -> None:
    parts = filed(knowing(HELD))
    stranger.on()
    sealed = KnownPhotos.from_state(*parts, ["cat", "dog"]).renamed("dog", "wolf").without_class("cat")
    assert (sealed.counts, sealed.unreadable) == ({"wolf": 1}, 1)
    parts = filed(sealed)
    assert (parts[1]["photos.classes"] == GONE).tolist() == [True, False, True, True]
    stranger.off()
    assert_like(KnownPhotos.from_state(*parts, ["wolf"]), [(DIGESTS[5], "wolf", 0)])


def test_a_key_that_comes_later_is_used(stranger: Any, own_keys: Path, tmp_path: Path) -> None:
    made = knowing(HELD)
    parts = filed(made)
    stranger.on()
    sealed = KnownPhotos.from_state(*parts, ["cat", "dog"]).with_photos([DIGESTS[1]], ["owl"], 2)
    name = f"{made.key.id}.key"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / name).write_text((own_keys / name).read_text())
    assert_like(require_recognisable(sealed, "learned before"), [(DIGESTS[1], "owl", 2), *HELD])
    assert sealed.opened().key == sealed.key
    assert made.opened() is made


def test_changed_digests_are_noticed_with_the_key(stranger: Any, own_keys: Path, tmp_path: Path) -> None:
    made = knowing(HELD)
    header, arrays = filed(made)
    for place in range(arrays["photos.digests"].size):
        changed = arrays["photos.digests"].copy()
        changed.reshape(-1)[place] ^= 1
        with pytest.raises(ValueError, match="were changed"):
            KnownPhotos.from_state(header, {**arrays, "photos.digests": changed}, ["cat", "dog"])
    stranger.on()
    sealed = KnownPhotos.from_state(header, {**arrays, "photos.digests": changed}, ["cat", "dog"])
    keys.keep(made.key)
    with pytest.raises(InputError, match="cannot recognise its photos"):
        require_recognisable(sealed, "learned before")


@settings(max_examples=30)
@given(photos, photos)
def test_sections_of_several_keys(mine: list[Photo], theirs: list[Photo]) -> None:
    """Who has all keys recognises all photos, also those that were merged without them."""
    one, other = knowing(mine), knowing(theirs)
    both = sorted({*one.counts, *other.counts})
    hidden = replace(other, rows=other.rows[:0])
    header, arrays = other.state(both)
    hidden = replace(
        KnownPhotos(tuple(both)),
        sealed=tuple(
            known.Sealed(section["key"], section["nonce"], _rows(arrays)) for section in header["sections"]
        ),
    )
    merged = one.merged(hidden, [0, 1, 2, 3], np.zeros(0, np.int64))
    assert merged.counts == dict(Counter(one.counts) + Counter(other.counts))
    assert held_by(merged.opened()) == [*mine, *theirs]


def _rows(arrays: dict[str, Any]) -> known.Rows:
    items = arrays["photos.digests"].view("S16").ravel()
    return known.Rows(items, arrays["photos.classes"], arrays["photos.batches"])


def test_what_two_strangers_did_to_the_same_photos_is_followed(stranger: Any) -> None:
    """One drops a class, the other renames another; both grew from one file, whose key neither has."""
    parts = filed(knowing(HELD))
    stranger.on()
    base = KnownPhotos.from_state(*parts, ["cat", "dog"])
    merged = base.without_class("cat").followed(base.renamed("dog", "wolf"), base)
    assert merged.counts == {"wolf": 1}
    assert base.followed(base.without_class("dog"), base).counts == {"cat": 3}
    assert base.renamed("cat", "dog").followed(base, base).counts == {"dog": 4}
    assert base.followed(base, base).counts == base.counts


def test_an_anonymous_model_recognises_nothing() -> None:
    with pytest.raises(InputError, match=r"anonymous.*which were to be forgotten"):
        require_recognisable(None, "to be forgotten")


@pytest.mark.parametrize(
    ("name", "values", "says"),
    [
        ("photos.classes", [0, 1, 0, 2], "does not have"),
        ("photos.classes", [0, 1, 0, -2], "does not have"),
        ("photos.batches", [0, 0, 1, 2], "does not have"),
        ("photos.batches", [0, 0, 1, -1], "does not have"),
        ("photos.classes", [1, 1, 0, 0], "knows 2 photos of 'dog', but has learned 1"),
    ],
)
def test_photos_that_a_file_cannot_know(name: str, values: list[int], says: str) -> None:
    arrays = {**filed(knowing(HELD))[1]}
    known.require_sound(arrays, {"cat": 3, "dog": 1}, 2)
    known.require_sound(arrays, {"cat": 9, "dog": 9}, 9)  # others may have been learned that are not known
    arrays[name] = np.array(values, np.int32)
    with pytest.raises(ValueError, match=says):
        known.require_sound(arrays, {"cat": 3, "dog": 1}, 2)


def test_keys_of_new_photos_differ() -> None:
    assert KnownPhotos().key != KnownPhotos().key
    assert isinstance(KnownPhotos().key, Key)
