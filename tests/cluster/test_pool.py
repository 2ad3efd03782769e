"""A pool gives each task its result, whatever happens to workers and their memory."""

from __future__ import annotations

import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from layup import machine
from layup.cluster import Cluster, in_order
from layup.errors import InputError, LayupError, MismatchError

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
# Workers cannot import tests: what is defined here is sent to them.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


class Doubling:
    """Doubles numbers; makes what goes wrong the first time (or always) go wrong."""

    def __init__(self, folder, trouble=None, always=False):
        self.folder, self.trouble, self.always = Path(folder), trouble, always
        (self.folder / f"begun-{os.getpid()}").touch(exist_ok=False)  # once in each process

    def __call__(self, number):
        first = not (self.folder / f"tried-{number}").exists()
        (self.folder / f"tried-{number}").touch()
        if self.trouble is not None and number % 3 == 1 and (first or self.always):
            self.trouble()
        return 2 * number


def killed():
    os.kill(os.getpid(), signal.SIGKILL)


def out_of_memory():
    """More than the system lets this process have."""
    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
    _ = bytearray(2**34)


def unforeseen():
    raise RuntimeError("Nobody thought of this.\nNot at all.")


def foreseen():
    raise InputError("Three is not a number.", about="k")


def results_of(pool, count=7):
    return [*in_order(pool.run(range(count)))]


def test_results_come_in_order_from_workers_that_begin_once(local, tmp_path):
    with Cluster().pool(Doubling, tmp_path) as pool:
        assert results_of(pool) == [0, 2, 4, 6, 8, 10, 12]
        assert results_of(pool, 3) == [0, 2, 4]
    assert 1 <= len([*tmp_path.glob("begun-*")]) <= 2


@pytest.mark.slow
@pytest.mark.parametrize("trouble", [killed, out_of_memory, unforeseen])
def test_what_fails_is_given_to_another_worker(local, tmp_path, trouble):
    with Cluster().pool(Doubling, tmp_path, trouble) as pool:
        assert results_of(pool) == [0, 2, 4, 6, 8, 10, 12]
    assert len([*tmp_path.glob("begun-*")]) >= 3  # tasks 1 and 4 have ended their workers


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trouble", "said"), [(killed, "died"), (out_of_memory, "MemoryError"), (unforeseen, "thought of this.")]
)
def test_what_always_fails_is_one_sentence_and_the_others_go_on(local, tmp_path, trouble, said):
    with Cluster().pool(Doubling, tmp_path, trouble, True) as pool:
        found = results_of(pool, 3)
    assert found[::2] == [0, 4]
    assert isinstance(found[1], LayupError)
    assert str(found[1]).startswith("it failed 4 times. The last time: ")
    assert said in str(found[1])
    assert "\n" not in str(found[1])


@pytest.mark.slow
def test_what_is_foreseen_is_not_tried_again(local, tmp_path):
    with Cluster().pool(Doubling, tmp_path, foreseen, True) as pool:
        found = results_of(pool, 3)
        assert results_of(pool, 1) == [0]
    assert (type(found[1]), str(found[1]), found[1].about) == (InputError, "Three is not a number.", "k")


@pytest.mark.slow
def test_a_pool_that_is_left_early_can_be_used_again(local, tmp_path):
    with Cluster().pool(Doubling, tmp_path) as pool:
        for _ in pool.run(range(9)):
            break
        assert results_of(pool) == [0, 2, 4, 6, 8, 10, 12]


@pytest.mark.slow
def test_what_is_shared_arrives(local):
    with Cluster().pool(lambda: lambda message: len(message[0].get()) + message[1]) as pool:
        large = pool.share(bytes(10**6))
        assert [*in_order(pool.run([1, 2], lambda number: (large, number)))] == [10**6 + 1, 10**6 + 2]


@pytest.mark.slow
def test_workers_stand_where_the_process_stands_that_they_work_for(local, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with Cluster().pool(lambda: lambda task: str(Path.cwd())) as pool:
        assert [*pool.run(["where"])] == [(0, str(tmp_path))]


@pytest.mark.slow
def test_workers_that_cannot_begin_are_one_sentence(local, tmp_path):
    with (
        Cluster().pool(lambda: killed()) as pool,
        pytest.raises(LayupError, match=r"No worker could begin\. .* layup is installed on all machines"),
    ):
        results_of(pool)
    with (
        Cluster().pool(lambda: foreseen()) as pool,
        pytest.raises(InputError, match=r"A worker on '.*' cannot begin: Three is not a number\.") as raised,
    ):
        results_of(pool)
    assert raised.value.about == "k"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["layup", "torch"])
def test_workers_of_other_versions_are_refused(local, tmp_path, monkeypatch, name):
    ours = machine.versions()
    monkeypatch.setattr(machine, "versions", lambda: {**ours, name: "0.0.7"})
    with (
        Cluster().pool(Doubling, tmp_path) as pool,
        pytest.raises(MismatchError, match=f"has version .* of {name}, and .* 0.0.7. Install the same"),
    ):
        results_of(pool)
