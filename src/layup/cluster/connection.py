"""Ray, connected to a cluster or started on this machine; and how many workers it has room for."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from layup.cluster.pool import Pool
from layup.errors import InputError, MismatchError, MissingPackageError, first_line

LOCAL = "local"
SECONDS = 10
"""How long a cluster may take to answer."""


@dataclass(frozen=True)
class Cluster:
    """Where independent work is done: on the processors of this machine, or on those of a Ray cluster.

    address: of the cluster; by default, Ray is started on this machine.
    processes: how many work; by default one for each GPU or, if there is none, for each processor.

    >>> Cluster("head:6379", processes=100)
    Cluster(address='head:6379', processes=100)
    """

    address: str | None = None
    processes: int | None = None

    @contextmanager
    def pool(self, make: Callable[..., Callable[[Any], Any]], *given: Any) -> Iterator[Pool]:
        """A pool of workers (see `Pool`), which ends with the block. `make(*given)` is what each does."""
        with connected(self.address) as ray:
            room, needs = room_for(ray.cluster_resources())
            pool = Pool(ray, self.processes or room, needs, make, given)
            try:
                yield pool
            finally:
                pool.close()


def room_for(resources: Mapping[str, float]) -> tuple[int, dict[str, int]]:
    """How many workers there is room for, and what each needs: a GPU if there are any, or else a processor.

    >>> room_for({"CPU": 8.0, "memory": 1e9})
    (8, {'num_cpus': 1})
    >>> room_for({"CPU": 8.0, "GPU": 2.0})
    (2, {'num_cpus': 1, 'num_gpus': 1})
    """
    processors, gpus = (int(resources.get(kind, 0)) for kind in ("CPU", "GPU"))
    if gpus:
        return min(gpus, max(1, processors)), {"num_cpus": 1, "num_gpus": 1}
    return max(1, processors), {"num_cpus": 1}


@contextmanager
def connected(address: str | None) -> Iterator[Any]:
    """The module `ray`, connected; it is left as it was found."""
    try:
        import ray
    except ImportError:
        raise MissingPackageError(
            "Ray is not installed. Install it with: pip install 'layup-cl[ray]'."
        ) from None
    mine = not ray.is_initialized()
    try:
        if mine:
            _connect(ray, address)
        yield ray
    finally:
        if mine:
            ray.shutdown()


def _connect(ray: Any, address: str | None) -> None:
    _require_reachable(address)
    try:
        ray.init(address=address or LOCAL, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise _unusable(address, error) from None


def _require_reachable(address: str | None) -> None:
    """Refuse an address where nothing listens: Ray itself would try for minutes."""
    host, colon, port = (address or "").rpartition("://")[2].rpartition(":")
    if not colon:
        return  # no address, or a name that Ray knows
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS):
            pass
    except (OSError, ValueError) as error:
        raise _unreachable(address, error) from None


def _unreachable(address: str | None, error: Exception) -> InputError:
    return InputError(f"No Ray cluster can be reached at {address!r}: {first_line(error)}")


def _unusable(address: str | None, error: Exception) -> InputError | MismatchError:
    """Why Ray could not be used, as one sentence."""
    if isinstance(error, ConnectionError):
        return _unreachable(address, error)
    # Ray lists its version and Python's: first the cluster's, then those of this process.
    if len(found := re.findall(r"(?:Ray|Python): (\S+)", str(error))) == 4:
        theirs, ours = (f"Ray {found[at]} with Python {found[at + 1]}" for at in (0, 2))
        return MismatchError(
            f"The cluster at {address!r} runs {theirs}, and this process {ours}. Both must be the same: use "
            "one environment on all machines."
        )
    return InputError(f"Ray cannot be used at {address or LOCAL!r}: {first_line(error)}")
