"""What is wrong with a cluster is one sentence; and a node may leave it."""

from __future__ import annotations

import sys

import pytest

from layup.cluster import Cluster
from layup.errors import MissingPackageError

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")


def entered(address):
    with Cluster(address).pool(len):
        pytest.fail("It was reached.")


@pytest.fixture
def alone():
    """No Ray in this process, whatever other tests have left."""
    if ray.is_initialized():
        pytest.skip("Ray is in use by other tests of this process")


def test_without_ray_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'layup-cl\[ray\]'"):
        entered(None)
