"""Folders of thousands of photos with bad ones among them: these are skipped and named, and no others."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from layup import ImageModel, LayUP
from layup.images import class_folders
from torture import image_files, samples
from torture.images import usable
from torture.promise import Promise, Tries, about, require

PHOTOS, CLASSES, BAD = 2000, 4, 60


def _learned(folder: Path) -> tuple[ImageModel, set[Path]]:
    """A model of a folder, and the files that it could not use."""
    paths, labels = class_folders(folder)
    model = LayUP(samples.tiny(), lam=1.0, cache=False, workers=0, progress=False)
    batch = model.learn(paths, labels)
    return model, {paths[bad.index] for bad in batch.bad}


def tries(folder: Path, photos: int) -> Tries:
    """So many small photos that are good, made in a folder; in each try, other bad ones come among them."""
    good = folder / "good"
    for i in range(photos):
        home = good / f"class {i % CLASSES}"
        home.mkdir(parents=True, exist_ok=True)
        Image.fromarray(samples.picture("photo", i)).save(home / f"{i}.bmp")
    made = list(image_files.samples().items())

    def attempt(index: int, chance: Random, home: Path) -> None:
        mixed, kept = home / "mixed", home / "kept"
        shutil.copytree(good, mixed)
        bad, written = set(), set()
        for i in range(chance.randrange(1, BAD)):
            name, data = chance.choice(made)
            path = mixed / f"class {chance.randrange(CLASSES)}" / f"changed {i}"
            changed = image_files.mutated(name, data, chance)[0]
            if changed in written:
                continue  # a copy counts as the photo itself, which is told once
            written.add(changed)
            path.write_bytes(changed)
            if not usable(path):
                bad.add(path)
        with about(f"{len(bad)} bad files among {photos:,}"):
            model, skipped = _learned(mixed)
            wrong = sorted(str(path) for path in skipped ^ bad)
            require(not wrong, "what was skipped is not what is bad", wrong)
            for path in bad:
                path.unlink()
            mixed.rename(kept)
            alone, none = _learned(kept)
            require(not none, "a good file was skipped", sorted(none))
            require(model.counts_ == alone.counts_, "bad files change the counts", model.counts_)
            same = np.allclose(model.statistics_.gram, alone.statistics_.gram, rtol=1e-5)
            require(same, "bad files change the sums")

    return Tries(attempt)


def prepare(folder: Path) -> Tries:
    """Thousands of photos."""
    return tries(folder, PHOTOS)


PROMISE = Promise(
    "folders",
    "Learning a folder of thousands skips and names just the bad files, and learns all others.",
    20,
    prepare,
    seconds=300,
    megabytes=1500,
)
