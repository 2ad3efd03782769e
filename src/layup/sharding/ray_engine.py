"""Ray computes a plan: a pool of workers takes its slices, in rounds if λ is searched.

A worker writes its shards into the folder of the plan if it sees it; otherwise it is sent the lists, and
sends its shards back through Ray. Features never travel. Shards are written atomically, and the same bytes
whenever and wherever they are computed, so nothing is lost and nothing counts twice.
"""

from __future__ import annotations

import math
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from layup import storage
from layup.cluster import Cluster, Pool, Shared, in_order
from layup.errors import InputError, LayupError
from layup.features import in_a_pool
from layup.images import missing_files, require_gone
from layup.model import ImageModel
from layup.sharding.gathered import Gathered, added, gather
from layup.sharding.plan import NAME, START, Plan, is_plan, slice_name
from layup.sharding.remaining import left
from layup.sharding.rounds import Round, count
from layup.sharding.shard import compute, missing, shard_path
from layup.sharding.slice_photos import SKIP
from layup.sharding.unions import AgainError, union


@dataclass(frozen=True)
class Order:
    """What a worker is to do: a slice, the files about it, and what it is to know.

    round: the files of the round of λ that is to be counted; None if the slice is to be summed.
    gone: photos that are nowhere: they are bad, and not just out of this worker's sight.
    """

    number: int
    files: Mapping[str, bytes]
    round: Shared | None
    gone: frozenset[str]


@dataclass(frozen=True)
class Reading:
    """What else a worker is to do: read the shards of these slices, and add them up."""

    numbers: Sequence[int]


@dataclass(frozen=True)
class Done:
    """What a worker says of a slice: how many photos it has summed, and the hash of the sums.

    file: what it wrote, from a worker that does not see the folder of the plan. Of a slice that was counted
    for a round of λ, there are no photos and no hash.
    """

    number: int
    photos: int = 0
    digest: str = ""
    file: bytes | None = None


@dataclass(frozen=True)
class Unseen:
    """What a worker says of a slice whose photos it does not see. It has computed nothing."""

    number: int
    machine: str
    photos: frozenset[str]


class Worker:
    """Computes slices, one after another; runs in a process of Ray's.

    files: those of the plan, for a worker that does not see its folder.
    """

    def __init__(
        self, folder: str, digest: str, files: Mapping[str, bytes], loading: Mapping[str, Any]
    ) -> None:
        self.shared = is_plan(folder) and Plan.read(folder).digest == digest
        self._round: Shared | None = None
        if not self.shared:
            self._own = tempfile.TemporaryDirectory()
            folder = self._own.name
            _write(folder, files)
        self.plan = Plan.read(folder)
        self.model = self.plan.start(**loading)
        _ = self.model.backbone_  # what is wrong with it is noticed now

    def __call__(self, order: Order | Reading) -> Done | Unseen | Gathered | None:
        """Compute a slice, or count it for a round of λ; or read shards, if they are here."""
        if isinstance(order, Reading):
            return gather(self.plan, order.numbers) if self.shared else None
        if not self.shared:
            self._receive(order)
        unseen = missing_files(self.plan.photos(order.number).images) - order.gone
        if unseen:
            return Unseen(order.number, platform.node(), unseen)
        if order.round is not None:
            return Done(order.number, file=self._back(self._counted(order.number)))
        path, shard = compute(self.plan, order.number, lambda: self.model)
        return Done(order.number, shard.sums.total, shard.sums.digest(), self._back(path))

    def _receive(self, order: Order) -> None:
        _write(self.plan.folder, order.files)
        if order.round is not None and order.round != self._round:
            _write(self.plan.folder, order.round.get())
            self._round = order.round

    def _counted(self, number: int) -> Path:
        turn = Round.open_in(self.plan)
        assert turn is not None  # it is open where it was asked for
        return count(turn, number, lambda: self.model)

    def _back(self, path: Path) -> bytes | None:
        return None if self.shared else path.read_bytes()


def _write(folder: str | Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        storage.write_bytes(Path(folder, name), content)


def _contents(paths: Sequence[Path]) -> dict[str, bytes]:
    """Those that are there."""
    return {path.name: path.read_bytes() for path in paths if path.exists()}


class _Drive:
    """What the process that drives a pool knows of a plan."""

    def __init__(self, plan: Plan, pool: Pool) -> None:
        self.plan, self.pool = plan, pool
        self._gone: dict[int, frozenset[str]] = {}
        """By slice, photos that this machine does not see either."""

    def finish(self, done: Callable[[Done], object]) -> None:
        """Do what is left of the plan, as far as it is known."""
        while numbers := left(self.plan):
            turn = None if missing(self.plan) else Round.open_in(self.plan)
            weights = None if turn is None else self.pool.share(_contents(turn.files()))
            for position, found in self.pool.run(numbers, partial(self._order, weights)):
                if isinstance(found, LayupError):
                    raise InputError(f"Slice {numbers[position]} of '{self.plan.folder}': {found}")
                if isinstance(found, Unseen):
                    self._note_gone(found)
                    continue
                self._keep(found, turn)
                done(found)

    def gathered(self) -> Gathered:
        """All shards, read by workers in groups, and added up here; what they do not see is read here."""
        count = len(self.plan.slices)
        size = math.ceil(math.sqrt(count))
        groups = [range(start, min(start + size, count)) for start in range(0, count, size)]
        parts = zip(groups, in_order(self.pool.run(groups, Reading)), strict=True)
        return added(self._read(group, part) for group, part in parts)

    def _read(self, group: range, part: Gathered | LayupError | None) -> Gathered:
        if isinstance(part, LayupError):
            where = f"Slices {group[0]} to {group[-1]} of '{self.plan.folder}'"
            raise type(part)(f"{where}: {part}", about=part.about)
        return gather(self.plan, group) if part is None else part

    def _order(self, weights: Shared | None, number: int) -> Order:
        lists = [self.plan.folder / name for name in (slice_name(number), SKIP.format(number))]
        return Order(number, _contents(lists), weights, self._gone.get(number, frozenset()))

    def _note_gone(self, found: Unseen) -> None:
        """Photos that are nowhere are bad, as ever; those that are here must be there too."""
        require_gone(found.photos, found.machine)
        self._gone[found.number] = found.photos | self._gone.get(found.number, frozenset())

    def _keep(self, found: Done, turn: Round | None) -> None:
        """Write what came back from a worker that does not see the folder."""
        if found.file is not None:
            number = found.number
            path = shard_path(self.plan, number) if turn is None else turn.counts_path(number)
            storage.write_bytes(path, found.file)


def compute_on_ray(
    plan: Plan,
    *,
    address: str | None = None,
    processes: int | None = None,
    done: Callable[[Done], object] = lambda done: None,
    **loading: Any,
) -> None:
    """Do what is left of a plan: compute its slices or, if a round of λ is open, count them.

    address: of a cluster; by default, Ray is started on this machine. processes: how many compute; by
    default one for each processor, or GPU. done: is told of each slice. loading: options of `layup.load`.
    """
    if left(plan):
        with Cluster(address, processes).pool(*_work(plan, loading)) as pool:
            _Drive(plan, pool).finish(done)


def learn_on_ray(
    plan: Plan,
    into: ImageModel | None = None,
    *,
    address: str | None = None,
    processes: int | None = None,
    done: Callable[[Done], object] = lambda done: None,
    **loading: Any,
) -> tuple[ImageModel, list[str]]:
    """Compute a plan (see `compute_on_ray`), and give the union of its shards (see `union`).

    Slices that have photos of earlier ones are computed again, without them; and if λ is searched, slices are
    counted, round by round.
    """
    with Cluster(address, processes).pool(*_work(plan, loading)) as pool:
        drive = _Drive(plan, pool)
        while True:
            drive.finish(done)
            try:
                return union(plan, into, gathered=drive.gathered)
            except AgainError:
                done = _nobody  # was told of these slices


def _work(plan: Plan, loading: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a worker of this plan."""
    files = _contents([plan.folder / name for name in (NAME, START)])
    return Worker, str(plan.folder.absolute()), plan.digest, files, in_a_pool(loading)


def _nobody(done: Done) -> None:
    """Is told, and does nothing."""
