"""Cars-196 (Stanford Cars), as a tree of images or in the files that torchvision reads."""

from __future__ import annotations

from pathlib import Path

from layup.benchmark.datasets.dataset import Contents, Part
from layup.benchmark.datasets.folders import tree
from layup.benchmark.datasets.source import PAPER, Layout, Source
from layup.benchmark.datasets.torchvision_files import lacks_files, torchvision_dataset
from layup.errors import InputError

FOLDER = "stanford_cars"
FILES = ("devkit/cars_meta.mat", "devkit/cars_train_annos.mat", "cars_test_annos_withlabels.mat")
IMAGES = ("cars_train", "cars_test")


def _read(folder: Path, _seed: int = 0) -> Contents:
    try:
        loader = torchvision_dataset("StanfordCars")
        halves = [loader(folder.absolute().parent, split=split) for split in ("train", "test")]
        classes = tuple(halves[0].classes)
        # Its list of files, and no other way to one: its items are decoded images.
        listings = [[(Path(path), classes[int(i)]) for path, i in half._samples] for half in halves]
    except Exception as error:  # reading a damaged .mat file fails in as many ways as there are bytes
        raise InputError(
            f"The lists of {str(folder)!r} cannot be read ({error or type(error).__name__}). "
            f"Get these files again: {', '.join(FILES)}."
        ) from error
    train, test = (
        Part([path for path, _ in sorted(listing)], [label for _, label in sorted(listing)])
        for listing in listings
    )
    return Contents(classes, train, test, layout="{cars_train,cars_test}")


def cars196() -> Source:
    """Cars-196: cars by make, model and year."""
    return Source(
        name="cars196",
        title="Cars-196 (Stanford Cars)",
        settings=("cil", "ocl"),
        classes=196,
        first=16,
        counts={f"the standard split and {PAPER}": (8144, 8041)},
        ways=(
            tree("cars", "cars196"),
            Layout(
                (FOLDER,),
                "{cars_train,cars_test}/IMAGE, with devkit/*.mat and cars_test_annos_withlabels.mat",
                lacks_files(FOLDER, FILES, IMAGES),
                _read,
            ),
        ),
        where="The original host is dead. Copies, and how to arrange them for torchvision: "
        "https://github.com/pytorch/vision/issues/7545",
    )
