"""Ray computes a plan: a pool of workers takes its slices, and what fails is tried again.

A worker is a process that loads the network once. It writes its shards into the folder of the plan if it sees
it; otherwise it is sent the lists, and sends its shards back through Ray. Features never travel. A slice
whose worker died is given to another one: shards are written atomically, and the same bytes again, so nothing
is lost and nothing counts twice.
"""

from __future__ import annotations

import logging
import socket
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layup import storage
from layup.backbones import first_line
from layup.errors import InputError, LayupError
from layup.model import ImageModel
from layup.sharding.plan import NAME, START, Plan, is_plan, slice_name
from layup.sharding.shard import compute, missing, shard_path
from layup.sharding.slice_photos import SKIP
from layup.sharding.unions import AgainError, union

TRIES = 4
"""How often a slice is tried before it is given up."""
LOCAL = "local"
SECONDS = 10
"""How long a cluster may take to answer."""


@dataclass(frozen=True)
class Done:
    """What a worker says of a slice: how many photos it has summed, and the hash of the sums."""

    number: int
    photos: int
    digest: str
    shard: bytes | None = None
    """The file itself, from a worker that does not see the folder of the plan."""


class Worker:
    """Computes slices, one after another; runs in a process of Ray's."""

    plan: Plan
    model: ImageModel
    shared: bool

    def begin(self, folder: str, digest: str, files: Mapping[str, bytes], loading: Mapping[str, Any]) -> bool:
        """Read the plan and load the network; returns whether it sees the folder of the plan.

        files: those of the plan, for a worker that does not.
        """
        import torch

        torch.set_num_threads(1)
        self.shared = is_plan(folder) and Plan.read(folder).digest == digest
        if not self.shared:
            self._own = tempfile.TemporaryDirectory()
            folder = self._own.name
            _write(folder, files)
        self.plan = Plan.read(folder)
        self.model = self.plan.start(**loading)
        _ = self.model.backbone_  # what is wrong with it is noticed now
        return self.shared

    def compute(self, number: int, files: Mapping[str, bytes]) -> Done:
        """Compute a slice; `files` are those of the slice, for a worker that does not see them."""
        _write(self.plan.folder, files)
        path, shard = compute(self.plan, number, lambda: self.model)
        return Done(number, shard.sums.total, shard.sums.digest(), None if self.shared else path.read_bytes())


def _write(folder: str | Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        storage.write_bytes(Path(folder, name), content)


@contextmanager
def cluster(address: str | None) -> Iterator[Any]:
    """Ray, connected to a cluster or started on this machine, and left as it was found."""
    try:
        import ray
    except ImportError:
        raise InputError("Ray is not installed. Install it with: pip install 'layup-cl[ray]'.") from None
    mine = not ray.is_initialized()
    _require_reachable(address)
    try:
        if mine:
            ray.init(address=address or LOCAL, log_to_driver=False, logging_level=logging.ERROR)
    except ConnectionError as error:
        raise InputError(f"No Ray cluster can be reached at {address!r}: {first_line(error)}") from None
    except (RuntimeError, ValueError) as error:
        raise InputError(f"Ray cannot be used at {address or LOCAL!r}: {first_line(error)}") from None
    try:
        yield ray
    finally:
        if mine:
            ray.shutdown()


def _require_reachable(address: str | None) -> None:
    """Refuse an address where nothing listens: Ray itself would try for minutes."""
    host, colon, port = (address or "").rpartition("://")[2].rpartition(":")
    if not colon:
        return  # no address, or a name that Ray knows
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS):
            pass
    except (OSError, ValueError) as error:
        raise InputError(f"No Ray cluster can be reached at {address!r}: {first_line(error)}") from None


class Pool:
    """Workers of a plan, on a cluster.

    Args:
        ray: the module, connected.
        plan: what is computed.
        loading: options of `layup.load` for the workers.
        size: how many workers; by default one for each processor of the cluster.
    """

    def __init__(self, ray: Any, plan: Plan, loading: Mapping[str, Any], size: int | None = None) -> None:
        self.ray, self.plan, self.loading = ray, plan, dict(loading)
        self.size = size or max(1, int(ray.cluster_resources().get("CPU", 1)))
        self._workers: list[Any] = []
        self._files = ray.put({name: (plan.folder / name).read_bytes() for name in (NAME, START)})

    def run(self, numbers: list[int], done: Callable[[Done], object] = lambda done: None) -> None:
        """Compute these slices, in any order."""
        try:
            self._run(deque(numbers), done)
        finally:
            for worker in self._workers:
                self.ray.kill(worker)

    def _run(self, waiting: deque[int], done: Callable[[Done], object]) -> None:
        failures, blind = Counter[int | None](), set[Any]()
        working = dict([self._begun() for _ in range(min(self.size, len(waiting)))])
        while working:
            [ready], _ = self.ray.wait([*working], num_returns=1)
            worker, number = working.pop(ready)
            try:
                found = self.ray.get(ready)
            except self.ray.exceptions.RayTaskError as error:
                raise _sentence(error, number) from None
            except self.ray.exceptions.RayError as error:  # the process, its node, or what it sent is gone
                failures[number] += 1
                if failures[number] == TRIES:
                    where = "A worker" if number is None else f"Slice {number} of '{self.plan.folder}'"
                    raise InputError(f"{where} failed {TRIES} times: {first_line(error)}") from None
                waiting.extend([] if number is None else [number])
                working |= [self._begun()]
                continue
            if isinstance(found, Done):
                if found.shard is not None:
                    storage.write_bytes(shard_path(self.plan, found.number), found.shard)
                done(found)
            elif not found:
                blind.add(worker)
            if waiting:
                turn = waiting.popleft()
                lists = self._lists(turn) if worker in blind else {}
                working[worker.compute.remote(turn, lists)] = worker, turn

    def _begun(self) -> tuple[Any, tuple[Any, None]]:
        """A new worker that begins: what it will say, and itself, without a slice."""
        worker = self.ray.remote(num_cpus=1)(Worker).remote()
        self._workers.append(worker)
        folder = str(self.plan.folder.absolute())
        return worker.begin.remote(folder, self.plan.digest, self._files, self.loading), (worker, None)

    def _lists(self, number: int) -> dict[str, bytes]:
        names = [slice_name(number), SKIP.format(number)]
        paths = [self.plan.folder / name for name in names]
        return {path.name: path.read_bytes() for path in paths if path.exists()}


def compute_on_ray(
    plan: Plan,
    *,
    address: str | None = None,
    processes: int | None = None,
    done: Callable[[Done], object] = lambda done: None,
    **loading: Any,
) -> None:
    """Compute all slices of a plan that are missing.

    address: of a cluster; by default, Ray is started on this machine. processes: how many compute; by
    default one for each processor. done: is told of each slice. loading: options of `layup.load`, for them.
    """
    if absent := missing(plan):
        with cluster(address) as ray:
            Pool(ray, plan, loading, processes).run(absent, done)


def learn_on_ray(
    plan: Plan, *, done: Callable[[Done], object] = lambda done: None, **options: Any
) -> tuple[ImageModel, list[str]]:
    """Compute a plan (see `compute_on_ray`), and give the union of its shards.

    Slices that have photos of earlier ones are computed again, without them.
    """
    compute_on_ray(plan, done=done, **options)
    try:
        return union(plan)
    except AgainError:
        compute_on_ray(plan, **options)
        return union(plan)


def _sentence(error: Exception, number: int | None) -> LayupError:
    """What went wrong in a worker, as one of our errors."""
    cause = getattr(error, "cause", None) or error
    where = "A worker" if number is None else f"Slice {number}"
    if isinstance(cause, LayupError):
        return InputError(f"{where}: {cause}")
    return InputError(f"{where} failed: {first_line(cause)}")
