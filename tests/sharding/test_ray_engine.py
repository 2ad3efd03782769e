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
from layup.sharding import Plan, compute_on_ray, ray_engine, union
from layup.sharding.shard import shard_path
from photos import save_crops

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def local():
    """Ray on this machine, with two processors, whatever it has."""
    # By default, workers step back behind everything else on the machine.
    os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 (Ray spells it so)
    # Workers cannot import tests: what is defined here is sent to them.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(address="local", num_cpus=2, log_to_driver=False, include_dashboard=False)
    yield ray
    ray.shutdown()


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


def test_a_pool_gives_the_model_of_one_machine(local, plan, expected):
    told = []
    compute_on_ray(plan, done=told.append)
    assert sorted(done.number for done in told) == [*range(8)]
    assert sum(done.photos for done in told) == 40
    assert all(done.shard is None for done in told)
    assert union(plan)[0].state_hash == expected


def test_what_is_there_is_not_computed_again(local, plan, expected):
    compute_on_ray(plan)
    shard_path(plan, 3).unlink()
    told = []
    compute_on_ray(plan, done=told.append)
    assert [done.number for done in told] == [3]
    assert union(plan)[0].state_hash == expected


class Killed(ray_engine.Worker):
    """A worker whose process ends in the middle of some slices, the first time that they are tried."""

    def compute(self, number, files):
        mark = Path(self.plan.folder, f"killed-{number}")
        if number in (1, 4, 5) and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().compute(number, files)


def test_workers_that_are_killed_lose_nothing(local, plan, expected, monkeypatch):
    monkeypatch.setattr(ray_engine, "Worker", Killed)
    compute_on_ray(plan)
    assert len(list(plan.folder.glob("killed-*"))) == 3
    assert union(plan)[0].state_hash == expected


class Dying(ray_engine.Worker):
    """A worker that dies whenever it is given a certain slice."""

    def compute(self, number, files):
        if number == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().compute(number, files)


def test_a_slice_that_always_kills_its_worker_is_one_sentence(local, plan, monkeypatch):
    monkeypatch.setattr(ray_engine, "Worker", Dying)
    with pytest.raises(InputError, match=r"Slice 2 of .* failed 4 times"):
        compute_on_ray(plan)
    monkeypatch.undo()
    compute_on_ray(plan)  # the others are there, and are not computed again
    assert shard_path(plan, 2).exists()


class Elsewhere(ray_engine.Worker):
    """A worker on a machine that does not see the folder of the plan."""

    def begin(self, folder, digest, files, loading):
        return super().begin("/nowhere", digest, files, loading)


def test_shards_come_back_where_no_storage_is_shared(local, plan, expected, monkeypatch):
    monkeypatch.setattr(ray_engine, "Worker", Elsewhere)
    told = []
    compute_on_ray(plan, done=told.append)
    assert all(done.shard is not None for done in told)
    assert union(plan)[0].state_hash == expected


def test_a_bad_file_is_left_out_and_named(local, tmp_path, expected):
    folder = save_crops(tmp_path / "photos")
    (folder / "class 1/broken.jpg").write_bytes(b"no image")
    plan = Plan.write(tmp_path / "plan", labelled_photos(folder), LayUP("vit-nano", 2), 5)
    compute_on_ray(plan)
    model, bad = union(plan)
    assert "broken.jpg" in bad[0]
    assert model.state_hash == expected


def test_what_is_wrong_with_a_worker_is_one_sentence(local, plan):
    path = plan.folder / "slice-00003.csv"
    path.write_text(path.read_text() + "x.jpg,cat\n")
    with pytest.raises(InputError, match=r"Slice 3: .* has changed since it was planned"):
        compute_on_ray(plan)


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


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "127.0.0.1:nine"])
def test_a_cluster_that_is_not_there_is_one_sentence(plan, address):
    with pytest.raises(InputError, match=f"No Ray cluster can be reached at '{address}'"):
        compute_on_ray(plan, address=address)


def test_without_ray_the_error_says_what_to_install(plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'layup-cl\[ray\]'"):
        compute_on_ray(plan)


def test_a_photo_in_two_slices_counts_once(local, tmp_path, expected):
    folder = save_crops(tmp_path / "photos")
    shutil.copy(folder / "class 0/000.png", folder / "class 2/copy.png")
    plan = Plan.write(tmp_path / "plan", labelled_photos(folder), LayUP("vit-nano", 2), 5)
    compute_on_ray(plan)
    with pytest.raises(InputError, match="several slices"):
        union(plan)
    compute_on_ray(plan)
    assert union(plan)[0].state_hash == expected
