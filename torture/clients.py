"""Many clients teach and ask one server at the same time: nothing fails, nothing is lost, memory stays flat.

    python -m torture.clients --seconds 600

What was acknowledged is done again, in the order of the versions that were acknowledged, with a plain model:
its state hash must be that of the server, and of the file that it leaves. The clients are threads of another
process, and share the machine with the server.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

from layup import ImageModel
from layup.cli import console
from layup.formats import plural, size_of
from layup.serving import RequestLimits
from torture import samples
from torture.callers import Caller, Change, picture
from torture.live_server import LiveServer, Taken, live_server, new_model
from torture.promise import Promise, Tries, about, require

CLIENTS = 64
SECONDS = 60.0
QUIET = 0.6
"""The share of the time after which nothing is taught any more: then all memory is there that will be."""
LEAK = 1000
"""Bytes per request, while nothing is taught. A lesson takes more: the log grows, and answers are kept."""
THREADS = 2 * RequestLimits().threads + 40 + 16
"""Those that answer, those that the framework may start for itself, and a few for the model."""


@dataclass(frozen=True)
class Moment:
    """What a server took when so many requests had been sent."""

    requests: int
    taken: Taken


@dataclass(frozen=True)
class Soak:
    """What came of it: answers by action and status, acknowledged changes, and moments of the server."""

    answers: Counter[tuple[str, int]]
    changes: Sequence[Change]
    moments: Sequence[Moment]


def soak(server: LiveServer, clients: int, seconds: float, chance: Random) -> Soak:
    """Let so many clients loose on a server for so long."""
    callers = [Caller(server.port, Random(chance.random())) for _ in range(clients)]
    quiet, until = (time.monotonic() + share * seconds for share in (QUIET, 1))
    moments = []
    with ThreadPoolExecutor(clients) as pool:
        running = [pool.submit(caller.run, quiet, until) for caller in callers]
        while time.monotonic() < until and not any(each.done() for each in running):
            moments.append(Moment(sum(caller.asked for caller in callers), server.taken()))
            time.sleep(min(1.0, seconds / 30))
        for each in running:
            each.result()
    answers = sum((caller.answers for caller in callers), Counter[tuple[str, int]]())
    changes = sorted((each for caller in callers for each in caller.changes), key=lambda each: each.version)
    return Soak(answers, changes, moments)


def require_all(changes: Sequence[Change], model: ImageModel, plain: ImageModel) -> None:
    """A model is that of these changes, each of them once; `plain` is a new one, and is taught them here."""
    versions = [change.version for change in changes]
    require(versions == [*range(1, len(versions) + 1)], "changes were lost, or done that nobody was told of")
    for change in changes:
        with about(str(change)):
            repeat(change, plain)
            require(plain.counts_ == change.counts, "the counts are not those of what was acknowledged")
    require(model.state_hash == plain.state_hash, "the sums are not those of what was acknowledged")


def repeat(change: Change, model: ImageModel) -> None:
    """Do the same with a plain model."""
    images = [picture(number) for number in change.images]
    if change.action == "learn":
        model.learn(images, change.labels, relabel=change.relabel)
    elif change.action == "forget":  # a server tells of photos that were never learned, and forgets the rest
        known = [image for image, labels in zip(images, model.learned_as(images), strict=True) if labels]
        if known:
            model.forget(known)
    elif change.action == "forget class":
        model.forget_class(*change.labels)
    elif change.action == "rename":
        model.rename(*change.labels)
    else:
        model.undo()


def leaked(moments: Sequence[Moment]) -> float:
    """Bytes per request by which memory grows: the slope of a line through moments.

    >>> leaked([Moment(n, Taken(5000 + 20 * n, 3)) for n in range(100)])
    20.0
    """
    requests = np.array([each.requests for each in moments], float)
    memory = np.array([each.taken.memory for each in moments], float)
    return round(float(np.polyfit(requests, memory, 1)[0]), 1)


def settled(moments: Sequence[Moment]) -> Sequence[Moment]:
    """Those at which nothing was taught any more, for a while."""
    return moments[int((QUIET + 0.1) * len(moments)) :]


def require_flat(moments: Sequence[Moment]) -> None:
    """Memory does not grow with requests, while nothing is taught; threads are no more than there may be."""
    require(leaked(moments) < LEAK, "memory grows with requests", leaked(moments))
    threads = max(each.taken.threads for each in moments)
    require(threads <= THREADS, "there are more threads than those that answer", threads)


def tried(folder: Path, clients: int, seconds: float, chance: Random) -> Soak:
    """A soak, with everything that must hold afterwards."""
    os.environ["LAYUP_KEYS"] = str(folder / "keys")
    with live_server(folder) as server:
        found = soak(server, clients, seconds, chance)
        require(server.end() == 0, "the server does not end in order")
    require_all(
        found.changes, ImageModel.load(server.path, backbone=samples.tiny()), new_model(folder / "plain")
    )
    return found


def prepare(_folder: Path) -> Tries:
    """Nothing is shared: every try has a server of its own."""

    def attempt(_index: int, chance: Random, folder: Path) -> None:
        require_flat(settled(tried(folder, CLIENTS, SECONDS, chance).moments))

    return Tries(attempt)


PROMISE = Promise(
    "clients",
    "64 clients teach and ask one server: nothing fails, what is acknowledged is kept, memory stays flat.",
    1,
    prepare,
    seconds=SECONDS + 240,
)


def main() -> None:
    """Try it for as long as wanted, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--clients", type=int, default=CLIENTS)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    samples.one_thread()
    with tempfile.TemporaryDirectory() as folder:
        found = tried(Path(folder), chosen.clients, chosen.seconds, Random(chosen.seed))
    actions = sorted({action for action, _ in found.answers})
    statuses = sorted({status for _, status in found.answers})
    console.table(
        ["action", *map(str, statuses)],
        [[action, *(f"{found.answers[action, status]:,}" for status in statuses)] for action in actions],
    )
    quiet = settled(found.moments)
    console.say(
        f"{found.answers.total():,} requests of {chosen.clients} clients in {chosen.seconds:g} s. All "
        f"{len(found.changes):,} changes that were acknowledged are in the model, once."
    )
    for name, each in (("first", found.moments[0]), ("nothing is taught", quiet[0]), ("last", quiet[-1])):
        threads = plural(each.taken.threads, "thread")
        console.say(f"{name}: {each.requests:,} requests, {size_of(each.taken.memory)}, {threads}")
    console.say(f"while nothing is taught: {leaked(quiet):+,.0f} bytes per request")
    require_flat(quiet)


if __name__ == "__main__":
    main()
