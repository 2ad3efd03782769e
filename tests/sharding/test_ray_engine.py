"""Ray computes a plan, whatever happens to its workers: the same hash, no photo twice or lost."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from layup import LayUP
from layup.errors import InputError
from layup.images import labelled_photos
from layup.sharding import Plan, compute_on_ray, learn_on_ray, ray_engine, union
from layup.sharding.shard import shard_path
from photos import save_crops

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


# Workers cannot import tests: what is defined here is sent to them.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return save_crops(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def expected(photos):
    model, found = LayUP("vit-nano", 2), labelled_photos(photos)
    model.learn(found.images, found.labels)
    return model.state_hash


@pytest.fixture
def plan(photos, tmp_path):
    return Plan.write(tmp_path / "plan", labelled_photos(photos), LayUP("vit-nano", 2), 5)


def test_a_worker_that_sees_no_folder_sends_back_what_it_writes(plan):
    """In this process, without Ray."""
    files = {name: (plan.folder / name).read_bytes() for name in ("plan.json", "start.layup")}
    here = ray_engine.Worker(str(plan.folder), plan.digest, files, {})
    away = ray_engine.Worker("/nowhere", plan.digest, files, {})
    with pytest.raises(InputError, match="Cannot read"):
        away(ray_engine.Order(3, {}, None, frozenset()))
    lists = {"slice-00003.csv": (plan.folder / "slice-00003.csv").read_bytes()}
    sent = away(ray_engine.Order(3, lists, None, frozenset()))
    assert (sent.number, sent.photos) == (3, 5)
    assert not shard_path(plan, 3).exists()
    assert away(ray_engine.Reading(range(3, 4))) is None
    kept = here(ray_engine.Order(3, {}, None, frozenset()))
    assert (kept.digest, kept.file) == (sent.digest, None)
    assert shard_path(plan, 3).read_bytes() == sent.file
    assert here(ray_engine.Reading(range(3, 4))).parts[0].total == 5


@pytest.mark.slow
def test_a_pool_gives_the_model_of_one_machine(local, plan, expected):
    told = []
    compute_on_ray(plan, done=told.append)
    assert sorted(done.number for done in told) == [*range(8)]
    assert sum(done.photos for done in told) == 40
    assert all(done.file is None for done in told)
    assert union(plan)[0].state_hash == expected


@pytest.mark.slow
def test_what_is_there_is_not_computed_again(local, plan, expected):
    compute_on_ray(plan)
    shard_path(plan, 3).unlink()
    told = []
    compute_on_ray(plan, done=told.append)
    assert [done.number for done in told] == [3]
    assert union(plan)[0].state_hash == expected


class Killed(ray_engine.Worker):
    """A worker whose process ends in the middle of some slices, the first time that they are tried."""

    def __call__(self, order):
        mark = Path(self.plan.folder, f"killed-{order.number}")
        if order.number in (1, 4, 5) and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(order)


@pytest.mark.slow
def test_workers_that_are_killed_lose_nothing(local, plan, expected, monkeypatch):
    monkeypatch.setattr(ray_engine, "Worker", Killed)
    compute_on_ray(plan)
    assert len(list(plan.folder.glob("killed-*"))) == 3
    assert union(plan)[0].state_hash == expected


class Dying(ray_engine.Worker):
    """A worker that dies whenever it is given a certain slice."""

    def __call__(self, order):
        if order.number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(order)


@pytest.mark.slow
def test_a_slice_that_always_kills_its_worker_is_one_sentence(local, plan, monkeypatch):
    monkeypatch.setattr(ray_engine, "Worker", Dying)
    with pytest.raises(InputError, match=r"Slice 2 of .* failed 4 times"):
        compute_on_ray(plan)
    monkeypatch.undo()
    compute_on_ray(plan)  # the others are there, and are not computed again
    assert shard_path(plan, 2).exists()


class Elsewhere(ray_engine.Worker):
    """A worker on a machine that does not see the folder of the plan."""

    def __init__(self, folder, digest, files, loading):
        super().__init__("/nowhere", digest, files, loading)


@pytest.mark.slow
def test_shards_come_back_where_no_storage_is_shared(local, plan, expected, monkeypatch):
    monkeypatch.setattr(ray_engine, "Worker", Elsewhere)
    told = []
    compute_on_ray(plan, done=told.append)
    assert all(done.file is not None for done in told)
    assert union(plan)[0].state_hash == expected


@pytest.mark.slow
def test_a_bad_file_is_left_out_and_named(local, tmp_path, expected):
    folder = save_crops(tmp_path / "photos")
    (folder / "class 1/broken.jpg").write_bytes(b"no image")
    plan = Plan.write(tmp_path / "plan", labelled_photos(folder), LayUP("vit-nano", 2), 5)
    compute_on_ray(plan)
    model, bad = union(plan)
    assert "broken.jpg" in bad[0]
    assert model.state_hash == expected


@pytest.mark.slow
def test_what_is_wrong_with_a_worker_is_one_sentence(local, plan):
    path = plan.folder / "slice-00003.csv"
    path.write_text(path.read_text() + "x.jpg,cat\n")
    with pytest.raises(InputError, match=r"has changed since it was planned"):
        compute_on_ray(plan)


@pytest.mark.slow
def test_a_driver_that_is_killed_goes_on(local, plan, expected):
    """Another process drives; it is killed after some shards, and everything it started with it."""
    code = (
        "from layup.sharding import Plan, compute_on_ray\n"
        f"compute_on_ray(Plan.read({str(plan.folder)!r}), processes=1)"
    )
    driver = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    limit = time.monotonic() + 120
    while not list(plan.folder.glob("shard-*")) and time.monotonic() < limit:
        time.sleep(0.05)
    os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()
    there = len(list(plan.folder.glob("shard-*")))
    assert there
    told = []
    compute_on_ray(plan, done=told.append)
    assert len(told) == 8 - there
    assert union(plan)[0].state_hash == expected


@pytest.mark.slow
def test_a_photo_in_two_slices_counts_once(local, tmp_path, expected):
    folder = save_crops(tmp_path / "photos")
    shutil.copy(folder / "class 0/000.png", folder / "class 2/copy.png")
    plan = Plan.write(tmp_path / "plan", labelled_photos(folder), LayUP("vit-nano", 2), 5)
    compute_on_ray(plan)
    with pytest.raises(InputError, match="several slices"):
        union(plan)
    compute_on_ray(plan)
    assert union(plan)[0].state_hash == expected


@pytest.mark.slow
def test_a_model_learns_what_is_new_to_it(local, photos, tmp_path, expected):
    """Photos that it knows are not computed; those that turn out to be known count once."""
    found = labelled_photos(photos)
    model = LayUP("vit-nano", 2)
    model.learn(found.images[:15], found.labels[:15])
    assert model.foresee(found.images, found.labels).new == [*range(15, 40)]
    plan = Plan.write(tmp_path / "plan", list(found)[10:], model.blank(), 7)
    same, bad = learn_on_ray(plan, model)
    assert (same, bad) == (model, [])
    assert model.state_hash == expected
    assert len(model.photos) == 40
    assert model.foresee(found.images, found.labels).known == 40


class Counting(ray_engine.Worker):
    """Notes what it is asked to do; some do not see the folder of the plan."""

    def __init__(self, folder, digest, files, loading):
        self.notes = Path(folder).parent
        super().__init__("/nowhere" if (self.notes / "blind").exists() else folder, digest, files, loading)

    def __call__(self, order):
        if isinstance(order, ray_engine.Order):
            with (self.notes / "orders").open("a") as file:
                file.write(f"{order.number} {'sum' if order.round is None else 'count'}\n")
        return super().__call__(order)


@pytest.mark.parametrize("blind", [False, True])
@pytest.mark.parametrize("known", [0, 12])
@pytest.mark.slow
def test_lambda_is_searched_in_rounds(local, photos, tmp_path, monkeypatch, blind, known):
    """The λ of one machine, also on top of what a model knows, and without shared storage."""
    monkeypatch.setattr(ray_engine, "Worker", Counting)
    found = labelled_photos(photos)
    one, model = (LayUP("vit-nano", 2, lam="search") for _ in range(2))
    for each in (one, model) if known else ():
        each.learn(found.images[:known], found.labels[:known])
    one.learn(found.images[known:], found.labels[known:])
    plan = Plan.write(tmp_path / "plan", list(found)[known:], model.blank(), 15)
    if blind:
        (tmp_path / "blind").touch()
    learn_on_ray(plan, model)
    assert model.state_hash == one.state_hash
    assert model.lambda_ == one.lambda_
    orders = (tmp_path / "orders").read_text().splitlines()
    numbers = range(len(plan.slices))
    assert {*orders} == {f"{number} {what}" for number in numbers for what in ("sum", "count")}
    assert [order for order in orders if order.endswith("sum")] == [
        order for order in dict.fromkeys(orders) if order.endswith("sum")
    ]


class ShortSighted(ray_engine.Worker):
    """A worker on a machine that lacks a photo."""

    def __call__(self, order):
        if order.number == 3:
            first = str(self.plan.photos(order.number).images[0])
            return ray_engine.Unseen(order.number, "host", frozenset({first}))
        return super().__call__(order)


@pytest.mark.slow
def test_photos_that_a_worker_does_not_see_are_one_sentence(local, plan, monkeypatch):
    monkeypatch.setattr(ray_engine, "Worker", ShortSighted)
    with pytest.raises(InputError, match=r"'host' does not see 1 of the photos' files, such as '.*\.png'"):
        compute_on_ray(plan)


@pytest.mark.slow
def test_photos_that_nobody_sees_are_bad_as_ever(local, photos, tmp_path):
    listed = [*labelled_photos(photos), (str(tmp_path / "none.jpg"), "class 0")]
    plan = Plan.write(tmp_path / "plan", listed, LayUP("vit-nano", 2), 6)
    model, bad = learn_on_ray(plan)
    assert model.statistics_.total == 40
    assert bad == [f"'{tmp_path}/none.jpg': Cannot use '{tmp_path}/none.jpg': there is no such file."]
