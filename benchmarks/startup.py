"""How long a command takes from start to end, against `import torch` alone: processes in turn, median ratios.

    python -m benchmarks.startup

Every round starts each process once, in the opposite order every other round. The model is one of the bundled
network, of noise: what is in photos does not matter here. Prints a Markdown table; takes some minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from PIL import Image

from layup import LayUP
from layup.performance import Work, interleaved, ratio
from layup.tables import Table, to_markdown

ROUNDS = 15
CLASSES, PHOTOS = 8, 6
TORCH = "import torch"
COMMANDS = {  # what it is, its arguments, and whether it succeeds
    "layup --help": (["--help"], True),
    "layup learn: no such folder": (["learn", "nowhere", "--to", "new.layup"], False),
    "layup learn: cannot write there": (["learn", "photos", "--to", "nowhere/new.layup"], False),
    "layup predict: no such model": (["predict", "nothing.layup", "photo.jpg"], False),
    "layup predict: no such photo": (["predict", "m.layup", "nothing.jpg"], False),
    "layup predict: no such option": (["predict", "m.layup", "photo.jpg", "--nothing"], False),
    "layup info m.layup --json": (["info", "m.layup", "--json"], True),
    "layup predict m.layup photo.jpg": (["predict", "m.layup", "photo.jpg", "--no-cache"], True),
}


def noise(seed: int) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (240, 320, 3))
    return Image.fromarray(pixels.astype(np.uint8))


def prepare(folder: Path) -> None:
    """photo.jpg, photos/ with one class, and m.layup."""
    (folder / "photos" / "noise").mkdir(parents=True)
    noise(0).save(folder / "photo.jpg")
    noise(0).save(folder / "photos" / "noise" / "photo.jpg")
    model = LayUP(cache=False)
    numbers = range(CLASSES * PHOTOS)
    model.learn([noise(number) for number in numbers], [f"class {number % CLASSES}" for number in numbers])
    model.save(folder / "m.layup")


def run(folder: Path, succeeds: bool, *arguments: str) -> None:
    """Run Python in this folder; it compiles modules once, as where layup is installed.

    With one thread: on a busy machine, several wait for each other.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=env, capture_output=True, check=False)
    if (done.returncode == 0) != succeeds:
        raise RuntimeError(f"{arguments} ended with {done.returncode}: {done.stderr.decode()}")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder)
        works = {TORCH: Work(partial(run, folder, True, "-c", TORCH))}
        for title, (arguments, succeeds) in COMMANDS.items():
            works[title] = Work(partial(run, folder, succeeds, "-m", "layup", *arguments))
        timed = interleaved(works, ROUNDS)
    rows = []
    for title, each in timed.items():
        found = ratio(each.seconds, timed[TORCH].seconds)
        relative = "1" if title == TORCH else f"{found.median:.2f} ({found.low:.2f} … {found.high:.2f})"
        rows.append([title, f"{found.first_seconds:.2f} s", relative])
    print(to_markdown(Table.of(["process", "seconds", "times import torch"], rows)))
    how = "One thread, compiled modules, warm disk cache."
    print(f"\nMedians of {ROUNDS} interleaved rounds (95 % interval). {how}")


if __name__ == "__main__":
    main()
