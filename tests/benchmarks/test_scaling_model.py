"""The model of what scale costs: what must hold whatever the machine, and a simulation of every slice."""

from __future__ import annotations

from dataclasses import asdict, replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from benchmarks.marks import filled
from benchmarks.scaling import lasting, networks_table, times_table
from benchmarks.scaling_model import (
    LARGEST,
    SMALLEST,
    SOLVES,
    Job,
    Speeds,
    most_useful,
    predicted,
    slice_size,
)
from layup import LayUP
from layup.images import labelled_photos
from layup.sharding import Plan, compute
from photos import write_photos

SPEEDS = Speeds(
    reading=0.01, adding=1e-10, solving=1e-10, storing=1e-9, merging=2e-9, checking=3e-11, starting=5.0
)
JOB = Job(images=10**6, classes=1000, width=768, passing=0.2)
IMAGES, WORKERS = st.integers(1, 10**9), st.integers(1, 5000)


def simulated(job: Job, workers: int, speeds: Speeds, size: int) -> float:
    """Every slice, given to the worker that is free first; then every shard, and the solves."""
    free = np.full(workers, speeds.starting)
    merging, left = 0.0, job.images
    while left:
        photos = min(size, left)
        left -= photos
        shard = job.shard_bytes(min(size, job.images))
        spent = photos * (speeds.reading + job.passing + speeds.adding * job.width**2)
        free[free.argmin()] += spent + shard * speeds.storing
        merging += shard * speeds.merging + speeds.checking * job.width**3
    return float(free.max()) + merging + SOLVES * speeds.solving * job.width**3


@given(st.integers(1, 50_000), st.integers(1, 40), st.integers(500, 20_000))
def test_the_model_is_what_happens_slice_by_slice(images, workers, size):
    job = replace(JOB, images=images)
    slow = simulated(job, workers, SPEEDS, size)
    found = predicted(job, workers, SPEEDS, size).total
    assert found >= slow * (1 - 1e-9)  # the last slice, which is smaller, may be one of the busiest worker
    longest = size * (SPEEDS.reading + job.passing + SPEEDS.adding * job.width**2)
    assert found - slow <= longest * (1 + 1e-9)
    if images % size == 0:
        assert found == pytest.approx(slow)


def test_one_worker_with_one_slice_is_the_sum_of_the_parts():
    times = predicted(replace(JOB, images=1000), 1, SPEEDS)
    bytes = 8 * (768 * 769 / 2 + 1000 * 768) + 20 * 1000 + 4 * 768 * 1000
    expected = [
        5,
        10,
        200,
        1000 * 768**2 * 1e-10,
        bytes * 1e-9,
        bytes * 2e-9 + 768**3 * 3e-11,
        4 * 768**3 * 1e-10,
    ]
    assert list(asdict(times).values()) == pytest.approx(expected)
    assert times.total == pytest.approx(sum(expected))
    assert times.longest == "passing"


@given(IMAGES, WORKERS, st.integers(0, 5000))
def test_more_workers_never_have_more_to_do(images, workers, more):
    job = replace(JOB, images=images)
    few, many = predicted(job, workers, SPEEDS), predicted(job, workers + more, SPEEDS)
    for part in ("starting", "reading", "passing", "adding", "solving"):
        assert getattr(many, part) <= getattr(few, part) * (1 + 1e-9)


@given(IMAGES, WORKERS)
def test_no_number_of_workers_saves_more_than_its_share(images, workers):
    job = replace(JOB, images=images)
    one, many = predicted(job, 1, SPEEDS), predicted(job, workers, SPEEDS)
    assert one.total <= workers * many.total * (1 + 1e-9)


@given(IMAGES, WORKERS)
def test_slices_leave_every_worker_some_within_their_bounds(images, workers):
    size = slice_size(images, workers)
    assert SMALLEST <= size <= LARGEST
    if SMALLEST < size < LARGEST:
        assert 4 * workers * (size - 1) < images <= 4 * workers * size


def test_where_merging_takes_over_more_workers_do_not_help():
    wide = replace(JOB, images=10**7, width=12 * 1024, passing=0.001)
    best = most_useful(wide, SPEEDS)
    assert 1 < best < 10**6
    fastest = predicted(wide, best, SPEEDS)
    for others in (best // 10, best * 10):
        assert predicted(wide, others, SPEEDS).total > fastest.total
    assert predicted(wide, best * 10, SPEEDS).longest == "merging"


def test_time_grows_with_d_as_it_should():
    one, two = (predicted(replace(JOB, width=width), 10, SPEEDS) for width in (1000, 2000))
    assert two.adding == pytest.approx(4 * one.adding)
    assert two.solving == pytest.approx(8 * one.solving)
    assert two.passing == one.passing


def test_bytes_of_a_shard_are_those_of_a_real_one(tmp_path):
    photos = labelled_photos(write_photos(tmp_path / "photos", {0: 20, 1: 20}))
    plan = Plan.write(tmp_path / "plan", photos, LayUP("vit-nano", 6), 40)
    path, shard = compute(plan, 0)
    expected = Job(40, 2, shard.sums.dim, 0).shard_bytes(40)
    assert expected == pytest.approx(path.stat().st_size, rel=0.01)


def test_tables_have_all_that_is_asked(capsys):
    passing = {"ViT-B": 0.5, "ViT-L": 1.5}
    networks, times = networks_table(passing, SPEEDS), times_table(passing, SPEEDS)
    assert len(networks.rows) == 6
    assert len(times.rows) == 6 * 4
    assert lasting(predicted(replace(JOB, passing=0.5), 1, SPEEDS).total) in str(times.rows[0])


def test_only_what_is_between_marks_is_replaced():
    page = "a\n<!-- one -->\nold\n<!-- end -->\nb\n<!-- two -->\nold\n<!-- end -->\n"
    assert filled(page, "two", "new") == page.replace("two -->\nold", "two -->\nnew")
    assert filled(page, "three", "new") == page
