"""What is left to do of a plan: the sums of its slices, and then, if λ is searched, what they count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from layup.model import ImageModel
from layup.sharding.plan import Plan
from layup.sharding.rounds import Round, count
from layup.sharding.shard import Shard, compute, missing, shard_path


def left(plan: Plan) -> list[int]:
    """The slices that something is left to do of. None before a merge may ask for more: see `union`."""
    if absent := missing(plan):
        return absent
    turn = Round.open_in(plan)
    return [] if turn is None else turn.uncounted()


def work(
    plan: Plan, number: int, start: Callable[[], ImageModel] | None = None
) -> tuple[Path, Shard | Round]:
    """Do what is left to do of a slice: returns the file, and its shard or the round that it counted for.

    start: gives the model to read with; by default that of `plan.start()`.
    """
    turn = Round.open_in(plan) if shard_path(plan, number).exists() else None
    if turn is None:
        return compute(plan, number, start)
    return count(turn, number, start), turn
