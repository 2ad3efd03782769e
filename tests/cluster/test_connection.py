"""What is wrong with a cluster is one sentence; a node may leave it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from layup.cluster import Cluster
from layup.errors import InputError, MissingPackageError

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


def printed_by(*arguments):
    """What another process prints, in which no test has started Ray."""
    env = {**os.environ, "RAY_worker_niceness": "0"}
    done = subprocess.run(
        [sys.executable, *map(str, arguments)], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'layup-cl\[ray\]'"), Cluster().pool(len):
        pytest.fail("It was there.")


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "127.0.0.1:nine"])
def test_a_cluster_that_is_not_there_is_one_sentence(address, monkeypatch):
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # whatever other tests have started
    with (
        pytest.raises(InputError, match=f"No Ray cluster can be reached at '{address}'"),
        Cluster(address).pool(len),
    ):
        pytest.fail("It was reached.")


@pytest.mark.slow
def test_a_cluster_of_another_version_is_one_sentence():
    """A real cluster; the process that joins it says that it has another Ray."""
    code = """
import ray
from ray.cluster_utils import Cluster as Nodes
from layup.cluster import Cluster
from layup.errors import MismatchError
nodes = Nodes(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
ray.__version__ = "0.0.7"
try:
    with Cluster(nodes.address).pool(len):
        print("reached")
except MismatchError as error:
    print(error)
nodes.shutdown()
"""
    said = printed_by("-c", code)
    python = ".".join(map(str, sys.version_info[:3]))
    assert said.startswith("The cluster at ")
    assert f" runs Ray {ray.__version__} with Python {python}, and this process Ray 0.0.7 with" in said
    assert said.count("\n") == 1


@pytest.mark.slow
def test_a_node_that_is_lost_takes_no_result_with_it():
    # Ray itself prints that the node is gone.
    assert printed_by(Path(__file__).with_name("lose_node.py")).endswith("\n1 True\n")
