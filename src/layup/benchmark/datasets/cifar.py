"""CIFAR-100, in torchvision's own files or as a tree of images."""

from __future__ import annotations

from http.client import HTTPException
from pathlib import Path

from layup.benchmark.datasets.dataset import Contents, Part
from layup.benchmark.datasets.folders import tree
from layup.benchmark.datasets.source import PAPER, Layout, Source
from layup.benchmark.datasets.torchvision_files import lacks_files, torchvision_dataset
from layup.errors import InputError

FOLDER = "cifar-100-python"
FILES = ("train", "test", "meta")
ARCHIVE = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"


def _read(folder: Path, _seed: int = 0) -> Contents:
    try:
        loader = torchvision_dataset("CIFAR100")
        halves = [loader(folder.absolute().parent, train=train) for train in (True, False)]
    except (RuntimeError, OSError) as error:
        raise InputError(
            f"CIFAR-100 in {str(folder)!r} cannot be used ({error}). Delete that folder, and get it again: "
            "layup datasets get cifar100."
        ) from error
    classes = tuple(halves[0].classes)
    train, test = (Part(list(half.data), [classes[i] for i in half.targets]) for half in halves)
    return Contents(classes, train, test, layout="{train,test,meta}")


def _download(data: Path) -> None:
    try:
        data.mkdir(parents=True, exist_ok=True)
        torchvision_dataset("CIFAR100")(data, download=True)
    except (RuntimeError, OSError, HTTPException) as error:
        raise InputError(
            f"CIFAR-100 could not be downloaded ({error}). Get {ARCHIVE} in some other way, and unpack it "
            f"in {str(data)!r}."
        ) from error


def cifar100() -> Source:
    """CIFAR-100: small photos of 100 classes."""
    return Source(
        name="cifar100",
        title="CIFAR-100",
        settings=("cil", "ocl"),
        classes=100,
        counts={f"the original and {PAPER}": (50000, 10000)},
        ways=(
            Layout(
                (FOLDER,), "{train,test,meta}, torchvision's own files", lacks_files(FOLDER, FILES), _read
            ),
            tree("cifar100"),
        ),
        where="Get it with: layup datasets get cifar100. "
        f"Or unpack {ARCHIVE} (md5 eb9058c3a382ffc7106e4002c42a8d85).",
        download=_download,
    )
