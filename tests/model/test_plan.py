"""What to do with given photos, against a dictionary of digests that is filled photo by photo."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from layup.errors import ForgetError
from layup.model.known import KnownPhotos
from layup.model.plan import Conflict, Plan, plan, rows_to_forget

A, B, C, D = (bytes([letter]) * 16 for letter in b"abcd")
digests = st.sampled_from([A, B, C, D])
labels = st.sampled_from(["cat", "dog", "owl"])
taught = st.lists(st.tuples(digests, labels), max_size=8)
offered = st.lists(st.tuples(digests | st.none(), labels), max_size=10)


def yes(_image: object) -> bool:
    """Every photo could have been learned."""
    return True


def knowing(held: list[tuple[bytes, str]]) -> KnownPhotos:
    return KnownPhotos().with_photos([digest for digest, _ in held], [label for _, label in held], 0)


def slow_plan(
    held: list[tuple[bytes, str]], given_: list[tuple[bytes | None, str]], relabel: bool, exact: bool
) -> Plan:
    known: dict[bytes, list[str]] = {}
    for digest, label in held:
        known.setdefault(digest, []).append(label)
    new: list[int] = []
    moved: dict[int, tuple[str, ...]] = {}
    conflicts: list[Conflict] = []
    for index, (digest, label) in enumerate(given_):
        if digest is None:
            new.append(index)
            continue
        others = [(i, name) for i, (each, name) in enumerate(given_) if each == digest]
        first, first_label = others[0]
        unlike = [(i, name) for i, name in others if name != first_label]
        before = known.get(digest, [])
        if unlike and index == first:
            conflicts.append(Conflict(index, label, unlike[0][1], unlike[0][0]))
        elif unlike and label != first_label:
            conflicts.append(Conflict(index, label, first_label, first))
        elif unlike or index != first:
            continue
        elif not before:
            new.append(index)
        elif (label not in before) or (exact and len(before) > 1):
            if relabel:
                moved[index] = tuple(before)
            else:
                conflicts.append(Conflict(index, label, before[0]))
    rest = len(given_) - len(new) - len(moved) - len(conflicts)
    return Plan(new, moved, rest, conflicts)


@given(taught, offered, st.booleans(), st.booleans())
def test_a_plan_is_that_of_looking_at_each_photo(
    held: list[tuple[bytes, str]], given_: list[tuple[bytes | None, str]], relabel: bool, exact: bool
) -> None:
    made = plan(
        knowing(held),
        [None if digest is None else digest + b"rest" for digest, _ in given_],
        [label for _, label in given_],
        relabel=relabel,
        exact=exact,
    )
    assert made == slow_plan(held, given_, relabel, exact)
    assert all(type(index) is int for index in [*made.new, *made.moved])


def test_plans_of_common_cases() -> None:
    known = knowing([(A, "cat"), (B, "dog")])
    assert plan(known, [], []) == Plan()
    assert plan(known, [A, B, C, C], ["cat", "cat", "owl", "owl"]) == Plan(
        [2], {}, 2, [Conflict(1, "cat", "dog")]
    )
    assert plan(known, [A, B], ["cat", "cat"], relabel=True) == Plan([], {1: ("dog",)}, 1)
    # Known as one class, and given as that one and as another: nobody can tell which is meant.
    assert plan(known, [A, A], ["cat", "dog"], relabel=True) == Plan(
        conflicts=[Conflict(0, "cat", "dog", 1), Conflict(1, "dog", "cat", 0)]
    )


@given(taught, offered, st.booleans())
def test_what_was_never_learned_is_not_forgotten(
    held: list[tuple[bytes, str]], given_: list[tuple[bytes | None, str]], with_labels: bool
) -> None:
    wanted = [label for _, label in given_] if with_labels else None
    readable = [(digest, label) for digest, label in given_ if digest is not None]
    unknown = [
        digest
        for digest, label in readable
        if not any(each == digest and (name == label or not with_labels) for each, name in held)
    ]
    images = [f"{index}.jpg" for index in range(len(given_))]

    def rows() -> list[int]:
        return rows_to_forget(knowing(held), images, [digest for digest, _ in given_], wanted, yes).tolist()

    if unknown:
        with pytest.raises(ForgetError, match="Nothing was forgotten") as caught:
            rows()
        others = f"The same holds for {len(unknown) - 1} others."
        assert str(caught.value).endswith(others) == (len(unknown) > 1)
        return
    assert rows() == [
        row
        for row, (digest, label) in enumerate(held)
        if any(each == digest and (name == label or not with_labels) for each, name in readable)
    ]


def test_a_refusal_names_the_photo_and_its_class() -> None:
    known = knowing([(A, "cat")])
    with pytest.raises(ForgetError, match=r"Cannot forget 'a\.jpg': it was learned as 'cat', not 'dog'"):
        rows_to_forget(known, ["a.jpg"], [A], ["dog"], yes)
    with pytest.raises(ForgetError, match=r"Cannot forget 'b\.jpg': it was never learned"):
        rows_to_forget(known, ["a.jpg", "b.jpg"], [A, B], None, yes)
    assert rows_to_forget(known, np.array(["a.jpg"]), [None], None).tolist() == []
