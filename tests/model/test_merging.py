"""What two models share, against counters of (digest, label)."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, strategies as st

from layup.algebra import GramStatistics
from layup.errors import MismatchError
from layup.model.known import KnownPhotos
from layup.model.log import Entry
from layup.model.merging import joined_logs, overlap, require_base, without_base
from layup.model.parts import Parts

Photo = tuple[bytes, str]
DIGESTS = [bytes([letter]) * 16 for letter in b"abcdef"]
once = st.dictionaries(st.sampled_from(DIGESTS), st.sampled_from(["cat", "dog"]))
often = st.lists(st.tuples(st.sampled_from(DIGESTS), st.sampled_from(["cat", "dog"])), max_size=8)


def knowing(held: list[Photo]) -> KnownPhotos:
    return KnownPhotos().with_photos([digest for digest, _ in held], [label for _, label in held], 0)


def held_by(photos: KnownPhotos) -> Counter[Photo]:
    rows = range(len(photos))
    return Counter(zip(photos.digests_at([*rows]), photos.labels_at([*rows]), strict=True))


def after(mine: KnownPhotos, theirs: KnownPhotos, base: KnownPhotos | None = None) -> KnownPhotos:
    """What a merged model knows."""
    both = overlap(mine, theirs, base)
    skip = [*both.based.tolist(), *both.twice.tolist()]
    return mine.without(both.gone).merged(theirs, [0], skip)


@given(once, once)
def test_shared_photos_count_once_and_keep_the_class_of_the_first(
    mine: dict[bytes, str], theirs: dict[bytes, str]
) -> None:
    one, other = knowing([*mine.items()]), knowing([*theirs.items()])
    both = overlap(one, other)
    assert held_by(after(one, other)) == Counter({**theirs, **mine}.items())
    shared = {*mine} & {*theirs}
    assert len(both.twice) == len(shared)
    assert both.conflicts == sum(mine[digest] != theirs[digest] for digest in shared)
    assert f"{len(shared)} photos" in both.words
    assert ("two classes" in both.words) == bool(both.conflicts)


@given(often, often)
def test_sums_minus_what_is_twice_are_of_the_merged_photos(mine: list[Photo], theirs: list[Photo]) -> None:
    """Also where photos were counted several times on purpose."""
    one, other = knowing(mine), knowing(theirs)
    twice = overlap(one, other).twice
    sums = Counter(mine) + Counter(theirs) - held_by(KnownPhotos.without(other, _others(other, twice)))
    assert sums == held_by(after(one, other))


def _others(photos: KnownPhotos, rows: list[int]) -> list[int]:
    return [row for row in range(len(photos)) if row not in {*rows}]


@given(often, often, often)
def test_with_a_base_sums_and_photos_agree(base: list[Photo], mine: list[Photo], theirs: list[Photo]) -> None:
    """a + b − base − twice, or a refusal where the base has what neither of them has."""
    root, one, other = knowing(base), knowing([*base, *mine]), knowing([*base, *theirs])
    one = one.without(one.of_class("dog")[:1])
    other = other.without(other.of_class("cat")[:2])
    lost = held_by(root) - (held_by(one) | held_by(other))
    if lost:
        with pytest.raises(MismatchError, match=f"base has {lost.total()} photos"):
            overlap(one, other, root)
        return
    both = overlap(one, other, root)
    twice = held_by(other.without(_others(other, both.twice)))
    sums = held_by(one)
    for more, sign in ((held_by(other), 1), (held_by(root), -1), (twice, -1)):
        for photo, count in more.items():
            sums[photo] += sign * count
    assert +sums == held_by(after(one, other, root))
    assert min(sums.values(), default=0) >= 0


def test_what_one_forgot_or_moved_since_the_base_stays_so() -> None:
    base = knowing([(DIGESTS[0], "cat"), (DIGESTS[1], "cat"), (DIGESTS[2], "dog")])
    forgot = base.without([0])
    moved = base.without([1]).with_photos([DIGESTS[1]], ["dog"], 0)
    for one, other in ((forgot, moved), (moved, forgot)):
        assert held_by(after(one, other, base)) == Counter({(DIGESTS[1], "dog"): 1, (DIGESTS[2], "dog"): 1})
    with pytest.raises(MismatchError, match=r"base has 1 photos.*without the base"):
        overlap(moved, moved, base)


def test_logs_are_joined_and_each_entry_is_there_once() -> None:
    root, left, right, more = (Entry("learn", {name: 1}) for name in ("cat", "cow", "dog", "owl"))
    joined, where = joined_logs([root, left], [root, right, more])
    assert joined == [root, left, right, more]
    assert where == [0, 2, 3]
    assert joined_logs([], []) == ([], [])


def test_batches_are_compared_only_where_photos_cannot_be() -> None:
    root, left, right = Entry("learn"), Entry("learn"), Entry("learn")
    require_base([root, left], [root, right], None, by_photo=True)
    require_base([left], [right], None, by_photo=False)
    require_base([root, left], [root, right], [root], by_photo=False)
    with pytest.raises(MismatchError, match=r"share 1 of their batches.*base"):
        require_base([root, left], [root, right], None, by_photo=False)
    for wrong in ([], [left], [root, left]):
        with pytest.raises(MismatchError, match="exactly the 1 batches that both models share"):
            require_base([root, left], [root, right], wrong, by_photo=False)


def test_a_base_that_is_not_in_the_sums_is_refused() -> None:
    sums, base = Parts(GramStatistics(2)), Parts(GramStatistics(2))
    sums.update([[1.0, 2.0]], ["cat"])
    base.update([[3.0, 1.0]], ["dog"])
    with pytest.raises(MismatchError, match="Let the base forget them too"):
        without_base(sums, base)
