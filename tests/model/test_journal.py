"""A model and its journal: what was confirmed counts once, and nothing else is believed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load as arrays_of, save as as_bytes

from commands import Result
from layup import frames
from layup.errors import DamagedFileError, InputError, LayupError, MismatchError
from layup.model import beside, keys, mark_of, read_journal
from layup.model.journal import LONGEST_KEPT, MOST_ANSWERS, Answered, recent_answers
from layup.model.outcome import Outcome
from live import new_model, opened, photo, photos, reloaded


@pytest.fixture
def taught(tmp_path: Path) -> Path:
    """A model file as a killed server leaves it: three lessons are in its journal alone."""
    path = tmp_path / "live" / "m.layup"
    path.parent.mkdir()
    with opened(path) as live:
        live.teach(photos([0, 1]), ["cat", "dog"], key="first")
        live.teach(photos([2]), ["cat"])
        live.rename("dog", "hound")
        left = shutil.copytree(path.parent, tmp_path / "left")
    return left / "m.layup"


def bodies_of(path: Path) -> list[bytes]:
    return frames.read(beside(path)).bodies


def test_a_model_is_read_with_its_journal(taught: Path, layup: Callable[..., Result]) -> None:
    alone = new_model()
    alone.learn(photos(range(3)), ["cat", "hound", "cat"])
    assert reloaded(taught).state_hash == alone.state_hash
    assert mark_of(taught)["through"] == 0
    assert [entry.action for entry in reloaded(taught).log] == ["learn", "learn", "rename"]
    told = layup("info", taught, "--json").out
    assert json.loads(told)["classes"] == {"cat": 2, "hound": 1}
    assert json.loads(told)["state_hash"] == alone.state_hash


def test_reading_changes_nothing_on_the_disk(taught: Path, own_keys: Path) -> None:
    def disk() -> dict[str, bytes]:
        files = [*taught.parent.iterdir(), *own_keys.iterdir()]
        return {str(file): file.read_bytes() for file in files}

    before = disk()
    reloaded(taught)
    assert disk() == before


def test_saving_takes_the_journal_up(taught: Path) -> None:
    model = reloaded(taught)
    model.learn(photos([5]), ["eel"])
    model.save(taught)
    assert len(bodies_of(taught)) == 1
    assert reloaded(taught).counts_ == {"cat": 2, "eel": 1, "hound": 1}
    with opened(taught) as live:  # still knows what it was asked before
        assert live.teach(photos([7]), ["owl"], key="first").version == 1
        assert live.facts().version == 3
    copy = taught.with_name("copy.layup")
    model.save(copy)
    assert mark_of(copy) is None
    assert not beside(copy).exists()


def test_killed_between_the_model_and_its_journal_nothing_counts_twice(taught: Path, tmp_path: Path) -> None:
    journal = beside(taught).read_bytes()
    model = reloaded(taught)
    model.save(taught)
    beside(taught).write_bytes(journal)  # as if it had not been replaced yet
    assert reloaded(taught).state_hash == model.state_hash
    with opened(taught) as live:
        assert live.teach(photos([0]), ["cat"]).photos[0].status == "known"
        live.teach(photos([9]), ["cat"])
        assert live.facts().version == 4
    assert reloaded(taught).counts_ == {"cat": 3, "hound": 1}


step = pytest.mark.parametrize("step", [pytest.param(1, marks=pytest.mark.slow), 23])


@step
def test_a_journal_cut_off_anywhere_keeps_what_is_whole(taught: Path, step: int) -> None:
    whole = beside(taught).read_bytes()
    ends = [len(frames.framed(bodies_of(taught)[:count])) for count in range(1, 5)]
    for size in range(ends[0], len(whole) + 1, step):
        beside(taught).write_bytes(whole[:size])
        filed = read_journal(taught)
        assert filed is not None
        assert filed.last == sum(end <= size for end in ends) - 1
    for size in (ends[0], ends[1] + 1, ends[2] - 1):
        beside(taught).write_bytes(whole[:size])
        kept = sum(end <= size for end in ends) - 1
        assert len(reloaded(taught).log) == kept
        shutil.copytree(taught.parent, again := taught.parent.parent / f"again {size}")
        with opened(again / "m.layup") as live:
            live.teach(photos([8]), ["fox"])
            assert live.facts().version == kept + 1


@step
def test_a_changed_byte_is_an_error_unless_the_end_is_as_unfinished(taught: Path, step: int) -> None:
    whole = beside(taught).read_bytes()
    last = len(frames.framed(bodies_of(taught)[:-1]))
    for place in range(0, len(whole), step):
        beside(taught).write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        if place < last:
            with pytest.raises(DamagedFileError, match="restore it from a copy"):
                read_journal(taught)
        else:
            filed = read_journal(taught)
            assert filed is not None
            assert filed.last == 2


def test_the_journal_of_another_model_is_refused(taught: Path) -> None:
    other = new_model()
    other.learn(photos([0]), ["cat"])
    other.save(taught.with_name("other.layup"))
    shutil.copy(beside(taught), taught.with_name("other.layup.journal"))
    with pytest.raises(InputError, match="holds 3 lessons of another model"):
        reloaded(taught.with_name("other.layup"))
    before = taught.read_bytes()
    with opened(taught) as live:
        live.teach(photos([9]), ["cat"])
        shutil.copy(beside(taught), taught.with_name("newer"))
    taught.write_bytes(before)
    shutil.copy(taught.with_name("newer"), beside(taught))
    with pytest.raises(InputError, match="the file is older than its journal"):
        reloaded(taught)


def test_the_journal_tells_no_digests_and_needs_the_key(taught: Path, own_keys: Path) -> None:
    model = reloaded(taught)
    digests = [digest for digest in model.photo_features.digests(photos(range(3))) if digest is not None]
    data = beside(taught).read_bytes()
    taken_up = shutil.copytree(taught.parent, taught.parent.parent / "taken up") / "m.layup"
    model.save(taken_up)
    data += beside(taken_up).read_bytes()
    assert [digest for digest in digests if digest[:16] in data or digest[:16].hex().encode() in data] == []
    key = own_keys / f"{model.knowledge.known.key.id}.key"
    secret = key.read_bytes()
    key.unlink()
    try:
        with pytest.raises(MismatchError, match=f"Copy {key.name} from there"):
            reloaded(taught)
    finally:
        key.write_bytes(secret)
    assert keys.find(key.stem) is not None


# ---- journals of strangers


def forged(
    path: Path, change: Callable[[list[dict[str, Any]], dict[str, Any]], object], body: int = 1
) -> None:
    """Change what a frame says, with all checksums right."""
    bodies = bodies_of(path)
    length = int.from_bytes(bodies[body][:8], "little")
    headers = json.loads(json.loads(bodies[body][8 : 8 + length])["__metadata__"]["layup"])
    arrays = arrays_of(bodies[body])
    change(headers, arrays)
    bodies[body] = as_bytes(arrays, {"layup": json.dumps(headers)})
    frames.create(beside(path), bodies)


FORGERIES: dict[str, Callable[[Any, Any], object]] = {
    "number": lambda headers, arrays: headers[0].update(number=2),
    "no number": lambda headers, arrays: headers[0].pop("number"),
    "unknown field": lambda headers, arrays: headers[0].update(run="rm"),
    "unknown action": lambda headers, arrays: headers[0]["lesson"].update(action="apply"),
    "no choice": lambda headers, arrays: headers[0]["lesson"].update(chosen=None),
    "wrong choice": lambda headers, arrays: headers[0]["lesson"].update(chosen={"strength": -1}),
    "no lists": lambda headers, arrays: headers.clear() or headers.append("lesson"),
    "other photos": lambda headers, arrays: headers[0]["lesson"].update(gone=["cat"]),
    "NaN": lambda headers, arrays: arrays["0.rows"].fill(np.nan),
    "not rounded": lambda headers, arrays: arrays["0.rows"].fill(np.pi),
    "too large": lambda headers, arrays: arrays["0.rows"].fill(2.0**80),
    "too wide": lambda headers, arrays: arrays.update({"0.rows": np.zeros((2, 99), np.float32)}),
    "other type": lambda headers, arrays: arrays.update({"0.rows": np.zeros((2, 14))}),
    "other digests": lambda headers, arrays: arrays["0.digests"].fill(7),
    "few digests": lambda headers, arrays: arrays.update({"0.digests": arrays["0.digests"][:1]}),
    "forget others": lambda headers, arrays: headers[0]["lesson"].update(
        action="forget", new=[], gone=["cat", "dog"]
    ),
    "undo nothing": lambda headers, arrays: headers[0]["lesson"].update(action="undo"),
    "drop nothing": lambda headers, arrays: headers[0]["lesson"].update(action="drop", label="owl"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_journal_with_right_checksums_is_not_believed_for_that(taught: Path, name: str) -> None:
    forged(taught, FORGERIES[name])
    with pytest.raises(DamagedFileError, match=r"m\.layup\.journal"):
        reloaded(taught)


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"\xff" * 100, (10**15).to_bytes(8, "little") + b"{", b"[" * 10**5]
)
@pytest.mark.parametrize("place", [0, 1])
def test_frames_that_are_no_journal_are_refused(taught: Path, body: bytes, place: int) -> None:
    bodies = bodies_of(taught)
    bodies[place] = body
    frames.create(beside(taught), bodies)
    with pytest.raises(LayupError, match="damaged"):
        reloaded(taught)


def test_as_many_answers_are_kept_as_is_promised() -> None:
    answer = Answered("key", Outcome(1, {}), "2020-11-18T12:00:00+00:00")
    assert recent_answers([answer]) == []
    now = Answered("key", Outcome(1, {}), "9999-01-01T00:00:00+00:00")
    assert len(recent_answers([now] * (MOST_ANSWERS + 1))) == MOST_ANSWERS
    assert LONGEST_KEPT.days == 1
    assert recent_answers([Answered("key", Outcome(1, {}), "no date")]) == []


def test_an_anonymous_model_keeps_no_digests_in_its_journal(tmp_path: Path) -> None:
    path = tmp_path / "m.layup"
    model = new_model(anonymous=True)
    with opened(path, new=lambda: model) as live:
        live.teach([photo(0), photo(0)], ["cat", "cat"])
        assert reloaded(path).counts_ == {"cat": 2}
        assert b"digests" not in beside(path).read_bytes()
        assert live.teach([photo(1)], ["cat"], key="one").photos[0].id is None
