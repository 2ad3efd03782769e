"""A server is killed while it is taught, again and again, and its lessons are asked for once more."""

from __future__ import annotations

import io
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Self

import torch
from PIL import Image

from layup import ImageModel, LayUP
from layup.serving import LiveModel
from torture import samples
from torture.promise import Promise, Tries, about, require

LONGEST = 0.4
MOST = 16
"""Seconds and things told after which, at the latest, the process is killed."""
KILLS = 3
"""In each try."""
PHOTOS = 24

Ask = Callable[[LiveModel, str], object]
Do = Callable[[ImageModel], object]


@dataclass(frozen=True)
class Deed:
    """A lesson: as it is asked of a server, with its key, and as a model alone does it."""

    ask: Ask
    do: Do


@dataclass(frozen=True)
class Moment:
    """When a server is killed: so long after it has told so often that something is done.

    It first tells that it has begun, and then of each lesson.
    """

    told: int
    seconds: float

    @classmethod
    def drawn(cls, chance: Random) -> Self:
        """Any; in one case of ten while it begins."""
        if chance.random() < 0.1:
            return cls(0, chance.uniform(0, LONGEST))
        return cls(chance.randint(1, MOST), chance.uniform(0, LONGEST) * chance.random() ** 3)


@cache
def photo(number: int) -> bytes:
    """The contents of a file."""
    file = io.BytesIO()
    Image.fromarray(samples.picture("serving", number)).save(file, "PNG")
    return file.getvalue()


def photos(numbers: Sequence[int]) -> list[bytes]:
    """Of several."""
    return [photo(number % PHOTOS) for number in numbers]


def learn(numbers: Sequence[int], label: str) -> Deed:
    """Learn photos, and move those that are known as another class."""
    labels = [label] * len(numbers)
    return Deed(
        lambda live, key: live.teach(photos(numbers), labels, relabel=True, key=key),
        lambda model: model.learn(photos(numbers), labels, relabel=True),
    )


def forget(number: int) -> Deed:
    """Forget a photo."""
    return Deed(
        lambda live, key: live.forget(photos([number]), key=key),
        lambda model: model.forget(photos([number])),
    )


def rename(old: str, new: str) -> Deed:
    """Rename a class."""
    return Deed(lambda live, key: live.rename(old, new, key=key), lambda model: model.rename(old, new))


def drop(label: str) -> Deed:
    """Forget a class."""
    return Deed(lambda live, key: live.forget_class(label, key=key), lambda model: model.forget_class(label))


UNDO = Deed(lambda live, key: live.undo(key=key), lambda model: model.undo())
DEEDS = [
    deed
    for turn in range(4)
    for deed in (
        learn([6 * turn, 6 * turn + 1], "cat"),
        learn([6 * turn + 2], "dog"),
        learn([6 * turn + 3], "owl"),
        UNDO,  # done twice, it would undo another lesson
        UNDO,
        learn([6 * turn + 2, 6 * turn + 4], "dog"),
        forget(6 * turn),
        learn([6 * turn + 4], "cat"),
        rename("dog", "hound"),  # done twice, it would be refused
        learn([6 * turn + 5], "dog"),
        drop("hound"),
    )
]


def new_model() -> ImageModel:
    """A model that has learned nothing."""
    return LayUP(samples.tiny(), 2)


@cache
def hashes() -> list[str | None]:
    """What a model alone is after each number of lessons."""
    model = new_model()
    found = [model.state_hash]
    for deed in DEEDS:
        deed.do(model)
        found.append(model.state_hash)
    return found


def _teach(path: Path, first: int, told: int) -> None:
    """Do the rest of the lessons, and tell of each that it is confirmed."""
    torch.set_num_threads(1)
    with LiveModel.open(path, new=new_model, loading={"backbone": samples.tiny()}) as live:
        os.write(told, bytes([first]))
        for number in range(first, len(DEEDS)):
            DEEDS[number].ask(live, f"lesson {number}")
            os.write(told, bytes([number + 1]))


def _forked(work: Callable[[int], None]) -> tuple[int, int]:
    """A process, and the end of a pipe on which it tells what is confirmed."""
    telling, told = os.pipe()
    child = os.fork()
    if child:
        os.close(told)
        return child, telling
    code = 1
    try:
        work(told)
        code = 0
    finally:
        os._exit(code)


def _taught(path: Path, first: int, moment: Moment | None) -> tuple[int, bool]:
    """Let a server be taught, and kill it at some moment.

    Returns how many lessons it has confirmed, and whether it came to its end.
    """
    child, telling = _forked(partial(_teach, path, first))
    with os.fdopen(telling, "rb", buffering=0) as pipe:
        said = b""
        if moment is not None:
            while len(said) < moment.told and (more := pipe.read(1)):
                said += more
            time.sleep(moment.seconds)
            os.kill(child, signal.SIGKILL)
        said += b"".join(iter(lambda: pipe.read(1000), b""))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    require(code in (0, -signal.SIGKILL), "the server failed by itself", code)
    return max(said, default=first), code == 0


def _require_kept(path: Path, confirmed: int) -> None:
    """The model holds what was confirmed, and at most the one lesson after that, which was under way."""
    if not path.exists():
        require(confirmed == 0, "the model is gone", confirmed)
        return
    found = ImageModel.load(path, backbone=samples.tiny()).state_hash
    possible = hashes()[confirmed : confirmed + 2]
    require(found in possible, "the model is not what was confirmed", confirmed)


def attempt(_: int, chance: Random, folder: Path) -> None:
    """Kill servers of one model, then finish the lessons; each asks again for the last one of before."""
    os.environ["LAYUP_CACHE"], os.environ["LAYUP_KEYS"] = str(folder / "cache"), str(folder / "keys")
    path, confirmed = folder / "m.layup", 0
    for kill in range(KILLS + 1):
        moment = Moment.drawn(chance) if kill < KILLS else None
        with about(f"taught from lesson {confirmed} on, and killed at {moment}"):
            told, ended = _taught(path, max(confirmed - 1, 0), moment)
            confirmed = max(confirmed, told)
            _require_kept(path, confirmed)
    require(ended and confirmed == len(DEEDS), "the lessons could not be finished", confirmed)


def prepare(folder: Path) -> Tries:
    """What a model alone becomes."""
    os.environ["LAYUP_CACHE"], os.environ["LAYUP_KEYS"] = str(folder / "cache"), str(folder / "keys")
    torch.set_num_threads(1)
    hashes()
    return Tries(attempt)


PROMISE = Promise(
    "serving",
    "Whenever a server is killed while it is taught, all that was confirmed is kept, and counts once.",
    334,
    prepare,
    seconds=60,
)
