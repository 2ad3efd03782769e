"""What annotations said, and which photos wait."""

from __future__ import annotations

import contextlib
import stat
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from layup.errors import InputError, StorageError
from layup.serving.label_studio import Ledger, Statement

PHOTOS, LABELS = ("a", "b"), (None, "cat", "dog", "owl")
STATEMENTS = st.builds(
    Statement,
    annotation=st.integers(1, 6),
    project=st.just(1),
    task=st.integers(1, 3),
    changed=st.integers(0, 9),
    label=st.sampled_from(LABELS),
    truth=st.booleans(),
    photo=st.sampled_from(PHOTOS),
)


def verdict(photo: str, said: list[Statement]) -> str | None:
    """The same in plain words."""
    ours = [each for each in said if each.photo == photo and each.label is not None]
    ours = [each for each in ours if each.truth] or ours
    votes = Counter(each.label for each in ours)
    last = {each.label: max(one.changed for one in ours if one.label == each.label) for each in ours}
    return min(votes, key=lambda label: (-votes[label], -last[label], label), default=None)


@given(st.lists(st.one_of(STATEMENTS, st.integers(1, 6)), max_size=30))
def test_a_photo_has_the_label_that_most_name_and_the_last_says_which(events: list[Statement | int]) -> None:
    ledger, said, gone = Ledger(None), {}, set()
    for time, event in enumerate(events):
        if isinstance(event, int):
            ledger.delete([event])
            said.pop(event, None)
            gone.add(event)
            continue
        event = Statement(**{**vars(event), "changed": time if event.changed else 0})
        ledger.note(event)
        known = said.get(event.annotation)
        if event.annotation not in gone and (known is None or known.changed <= event.changed):
            said[event.annotation] = event
    for photo in PHOTOS:
        assert ledger.label_of(photo) == verdict(photo, [*said.values()])
    assert ledger.annotations_of(1) == said.keys()
    ledger.close()


def test_only_photos_whose_label_is_another_wait_the_last_one_first() -> None:
    ledger = Ledger(None)
    ledger.note(Statement(1, 1, 1, 10, "cat", photo="a"))
    ledger.note(Statement(2, 1, 2, 10, "cat", photo="b"))
    assert ledger.unsettled() == ["b", "a"]
    ledger.settle(["a", "b"])
    ledger.note(Statement(3, 1, 1, 20, "cat", photo="a"))  # a second opinion, the same
    ledger.note(Statement(1, 1, 1, 30, None))  # and one that is taken back
    assert ledger.unsettled() == []
    ledger.delete([3])
    assert ledger.unsettled() == ["a"]
    assert ledger.label_of("a") is None
    assert ledger.task_of("a") == 1


def test_what_is_old_or_gone_is_no_news() -> None:
    ledger = Ledger(None)
    assert ledger.is_news(1, 10)
    ledger.note(Statement(1, 1, 1, 10, "cat", photo="a"))
    assert ledger.is_news(1, 10)  # the model has yet to follow
    ledger.settle(["a"])
    assert [ledger.is_news(1, time) for time in (9, 10, 11)] == [False, False, True]
    ledger.delete([1, 2])
    assert not ledger.is_news(1, 11)
    ledger.note(Statement(2, 1, 1, 99, "cat", photo="a"))  # deleted before it was heard of
    assert ledger.annotations_of(1) == set()


def test_annotations_are_found_by_their_tasks() -> None:
    ledger = Ledger(None)
    for number, (project, task) in enumerate([(1, 1), (1, 2), (2, 1)], start=1):
        ledger.note(Statement(number, project, task, 10, "cat", photo=str(number)))
    assert ledger.annotations_of(1, [1]) == {1}
    assert ledger.annotations_of(1, [1, 2, 3]) == {1, 2}
    assert ledger.annotations_of(2) == {3}


def test_it_is_a_file_of_its_owner_and_of_one_label_studio(tmp_path: Path) -> None:
    path = tmp_path / "m.layup.label-studio"
    ledger = Ledger(path, "http://one")
    ledger.note(Statement(1, 1, 1, 10, "cat", photo="a"))
    ledger.close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = Ledger(path, "http://one")
    assert (again.label_of("a"), again.unsettled()) == ("cat", ["a"])
    again.close()
    with pytest.raises(InputError, match="at http://one, not of that at http://two"):
        Ledger(path, "http://two")


def test_the_file_alone_does_not_tell_which_photos_were_annotated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, photo = tmp_path / "m.layup.label-studio", "0123456789abcdef" * 2
    with contextlib.closing(Ledger(path, "http://one")) as ledger:
        ledger.note(Statement(1, 1, 1, 10, "cat", photo=photo))
        ledger.note(Statement(2, 1, 2, 10, "cat", photo=photo))
        assert ledger.unsettled() == [photo]
    content = path.read_bytes()
    assert photo.encode() not in content
    assert photo.encode().hex().encode() not in content
    monkeypatch.setenv("LAYUP_KEYS", str(tmp_path / "others"))
    with pytest.raises(InputError, match="is not among those of this user"):
        Ledger(path, "http://one")


def test_a_file_that_is_something_else_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.layup.label-studio"
    path.write_bytes(b"something else, and quite a lot of it" * 100)
    with pytest.raises(StorageError, match="cannot be kept"):
        Ledger(path)
    assert path.read_bytes().startswith(b"something else")
    with pytest.raises(StorageError, match="cannot be kept"):
        Ledger(tmp_path / "no folder" / "ledger")
