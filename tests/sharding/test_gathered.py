"""Shards that are read in groups give the bytes of those that are read one by one."""

from __future__ import annotations

import numpy as np
import pytest

from layup import LayUP
from layup.images import labelled_photos
from layup.sharding import Plan, compute, union
from layup.sharding.gathered import added, gather
from photos import save_crops


@pytest.mark.parametrize("lam", [None, "search"])
def test_groups_of_shards_are_the_same_to_the_bit(tmp_path, lam):
    photos = save_crops(tmp_path / "photos", 24)
    (photos / "class 2" / "bad.jpg").write_bytes(b"no image")
    plan = Plan.write(tmp_path / "plan", labelled_photos(photos), LayUP("vit-nano", 1, lam), 5)
    for number in range(5):
        compute(plan, number)
    told = []
    one = gather(plan, range(5), told.append)
    assert told == [0, 1, 2, 3, 4]
    for cuts in ([3], [1, 2, 4]):
        groups = np.split(np.arange(5), cuts)
        many = added(gather(plan, group.tolist()) for group in groups)
        assert [part.digest() for part in many.parts] == [part.digest() for part in one.parts]
        for name in ("digests", "classes", "rows"):
            mine, theirs = (np.concatenate(getattr(each, name)) for each in (many, one))
            np.testing.assert_array_equal(mine, theirs)
        assert (many.names, many.labels, many.bad) == (one.names, one.labels, one.bad)
    if lam is None:
        model, bad = union(plan, gathered=lambda: many)
        assert model.state_hash == union(plan)[0].state_hash
        assert len(bad) == 1
