"""What may be interrupted: what layup does to files, each with what was before and what comes after."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path

import numpy as np

from layup import ImageModel, LayUP, storage
from layup.benchmark import Record
from layup.model import KnownPhotos
from torture import command, samples
from torture.faults import Step, steps_of
from torture.promise import require
from torture.shared import from_tests

MODEL = "m.layup"
CACHE = "cache"
"""Features are kept in this folder of each deed; what is left in it does not matter."""
KEYS = "keys"
"""Keys are kept in this one: each model has its own, by a random name."""


@dataclass(frozen=True)
class Deed:
    """Something that is done to the files of a folder.

    Attributes:
        name: What it is.
        begin: Lays out the files before it.
        act: Does it; may be done again.
        state: Reads, with layup, what is there: equal texts for equal contents, "" for nothing.
    """

    name: str
    begin: Callable[[Path], None]
    act: Callable[[Path], None]
    state: Callable[[Path], str]


@dataclass(frozen=True)
class Rehearsed:
    """A deed that was done undisturbed, so that it is known how it should go.

    Attributes:
        deed: What was done.
        before: A folder with the files before it.
        states: What was there before it, after it, and after it was done once more.
        names: The files in the folder after it.
        steps: All that it did to files.
    """

    deed: Deed
    before: Path
    states: tuple[str, str, str]
    names: frozenset[str]
    steps: Sequence[Step]

    def lay_out(self, folder: Path) -> None:
        """Bring a folder to the state before."""
        shutil.copytree(self.before, folder, dirs_exist_ok=True)
        enter(folder)

    def require_old_or_new(self, folder: Path, *, only: Sequence[int] = (0, 1)) -> int:
        """Which of the states before and after there is; no other is right."""
        found = self.deed.state(folder)
        require(
            found in [self.states[i] for i in only],
            f"after '{self.deed.name}' was disturbed, there is neither the old nor the new state"
            if len(only) > 1
            else f"'{self.deed.name}' was done, but the new state is not there",
        )
        return self.states.index(found)

    def require_going_on(self, folder: Path, state: int) -> None:
        """The same deed, done undisturbed now, ends where it should, and leaves nothing behind."""
        enter(folder)
        self.deed.act(folder)
        require(
            self.deed.state(folder) == self.states[state + 1],
            f"'{self.deed.name}', done again, does not end as it should",
        )
        left = _names(folder) - self.names
        require(not left, f"'{self.deed.name}', done again, leaves files behind", sorted(left))


def enter(folder: Path) -> None:
    """Commands from now on keep features, and keys, in this folder."""
    os.environ["LAYUP_CACHE"] = str(folder / CACHE)
    os.environ["LAYUP_KEYS"] = str(folder / KEYS)


def rehearsed(deed: Deed, folder: Path) -> Rehearsed:
    """Do it once and again, in folders below this one."""
    before, after = folder / "before", folder / "after"
    for home in (before, after):
        home.mkdir(parents=True)
        enter(home)
        deed.begin(home)
    first, second = deed.state(before), ""
    steps = steps_of(after, deed.act)
    second, names = deed.state(after), _names(after)
    require(bool(second) and first != second, f"'{deed.name}' changes nothing that could be told apart")
    deed.act(after)
    return Rehearsed(deed, before, (first, second, deed.state(after)), names, steps)


def _names(folder: Path) -> frozenset[str]:
    paths = (path.relative_to(folder) for path in folder.rglob("*"))
    return frozenset(
        str(path)
        for path in paths
        if path.parts[0] != CACHE and not (path.parts[0] == KEYS and path.suffix == ".key")
    )


# ---- states


def _state_of_arrays(path: Path) -> str:
    """All that a file of arrays holds, except the versions that wrote it."""
    if not path.exists():
        return ""
    header, arrays = storage.read(path, "model")
    header.pop("versions", None)
    content = blake2b(repr(sorted(header.items())).encode(), digest_size=16)
    for name in sorted(arrays):
        content.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode() + arrays[name].tobytes())
    return content.hexdigest()


@contextmanager
def _keys_of(folder: Path) -> Iterator[None]:
    """With the keys of this folder, while a deed may be under way in another."""
    before = os.environ.get("LAYUP_KEYS", "")
    os.environ["LAYUP_KEYS"] = str(folder / KEYS)
    try:
        yield
    finally:
        os.environ["LAYUP_KEYS"] = before


def _state_of_model(folder: Path) -> str:
    """All that a model holds and knows: keys, dates and ids are others each time."""
    if not (folder / MODEL).exists():
        return ""
    header, arrays = storage.read(folder / MODEL, "model")
    with _keys_of(folder):
        model = ImageModel.load(folder / MODEL, backbone=samples.backbone_for(header), cache=False)
    photos = model.photos or KnownPhotos()
    rows = np.arange(len(photos))
    known = sorted(zip(photos.digests_at(rows), photos.labels_at(rows), photos.batches_at(rows), strict=True))
    # The accuracy to expect is told by the cache, which may be lost.
    log = [{**entry.to_dict(), "id": "", "date": "", "expected": None} for entry in model.log]
    for changing in ("versions", "photos", "checksum", "header_checksum"):
        header.pop(changing, None)
    content = blake2b(
        repr([sorted({**header, "log": log}.items()), known, photos.counts]).encode(), digest_size=16
    )
    for name in sorted({*arrays} - {"photos.digests"}):
        content.update(f"{name} {arrays[name].dtype} {arrays[name].shape}".encode() + arrays[name].tobytes())
    return content.hexdigest()


def _state_of_record(folder: Path) -> str:
    path = folder / "run.json"
    return repr(Record.read(path)) if path.exists() else ""


# ---- the deeds

NANO = ("--backbone", "vit-nano", "--k", "1", "--lam", "1", "--workers", "0")


def _arrays(name: str) -> dict[str, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]:
    rng = np.random.default_rng(len(name))
    return {letter: rng.normal(size=size) for letter, size in (("a", 9000), ("b", 1), ("c", 4000))}


def _write(name: str, folder: Path) -> None:
    storage.write(folder / MODEL, "model", {"written": name}, _arrays(name))


def _learned(*batches: str) -> ImageModel:
    model = LayUP(samples.tiny(), lam=1.0, cache=False)
    for name in batches:
        model.learn(*samples.batch(name, {"ant": 2, "bee": 3}))
    return model


def _save(model: ImageModel, folder: Path) -> None:
    model.save(folder / MODEL)


def _record(steps: bool, folder: Path) -> None:
    from_tests("fake_records").fake_record(finished=steps, tests_per_class=2000).write(folder / "run.json")


def _adapt(folder: Path) -> None:
    """What `layup learn --adapt` does to files, without its picture."""
    checkpoint = folder / f"{MODEL}.adapting"
    model = LayUP("vit-nano", k=1, lam=1.0, adapter=samples.session(), cache=False)
    model.learn(*samples.batch("adapt", {"ant": 2, "bee": 2}), checkpoint=checkpoint)
    model.save(folder / MODEL)
    storage.delete(checkpoint)


def _nothing(_folder: Path) -> None:
    pass


def writers() -> list[Deed]:
    """What the library does, without any command."""
    return [
        Deed("storage.write", partial(_write, "old"), partial(_write, "the new one"), _state_of_model_file),
        Deed("storage.write, no file yet", _nothing, partial(_write, "the new one"), _state_of_model_file),
        Deed(
            "save", partial(_save, _learned("one")), partial(_save, _learned("one", "two")), _state_of_model
        ),
        Deed("record", partial(_record, False), partial(_record, True), _state_of_record),
        Deed("adapt", _nothing, _adapt, _state_of_model),
    ]


def _state_of_model_file(folder: Path) -> str:
    return _state_of_arrays(folder / MODEL)


def commands(folder: Path) -> list[Deed]:
    """What people type; their photos, and models to merge, are made in this folder."""
    first, second, third = (
        samples.photos(folder, name, {"ant": 2, "bee": 2}) for name in ("first", "second", "third")
    )
    enter(folder)
    others = [folder / "one.layup", folder / "two.layup"]
    for path, pictures in zip(others, (first, second), strict=True):
        command.run("learn", pictures, "--to", path, *NANO)

    def learn(pictures: Path, home: Path) -> None:
        command.run("learn", pictures, "--to", home / MODEL, *NANO)

    def learned_thrice(home: Path) -> None:
        for pictures in (first, second, third):
            learn(pictures, home)

    def forget(home: Path) -> None:
        """The second batch; or, if that was done before, the third."""
        try:
            command.run("forget", home / MODEL, second, "--workers", "0")
        except command.RefusedError as error:
            if "never learned" not in str(error):
                raise
            command.run("forget", home / MODEL, third, "--workers", "0")

    def merge(home: Path) -> None:
        command.run("merge", *others, "--to", home / MODEL, "--overwrite")

    return [
        Deed("layup learn, a new model", _nothing, partial(learn, first), _state_of_model),
        Deed("layup learn, an old model", partial(learn, first), partial(learn, second), _state_of_model),
        Deed("layup forget", learned_thrice, forget, _state_of_model),
        Deed("layup merge, a new model", _nothing, merge, _state_of_model),
        Deed("layup merge, over an old one", partial(learn, first), merge, _state_of_model),
    ]


def rehearse(folder: Path) -> list[Rehearsed]:
    """All deeds, done undisturbed."""
    made = [*writers(), *commands(folder / "shared")]
    return [rehearsed(deed, folder / str(i)) for i, deed in enumerate(made)]
