"""CDDB-Hard: real photos and generated ones, one generator per domain."""

from __future__ import annotations

from pathlib import Path

from layup.benchmark.datasets.dataset import Contents, Part
from layup.benchmark.datasets.folders import part_folders
from layup.benchmark.datasets.source import PAPER, Layout, Source, lacking
from layup.images import find_images

DOMAINS = ("gaugan", "biggan", "wild", "whichfaceisreal", "san")
CLASSES = ("0_real", "1_fake")
VAL = ("val", "test")
"""The benchmark tests on the folder val, also if there is a folder test next to it."""


def _lacks(folder: Path) -> str | None:
    missing = [f"domain {domain}" for domain in DOMAINS if not (folder / domain).is_dir()]
    for domain in DOMAINS:
        if (folder / domain).is_dir():
            parts = zip(("train", "val"), part_folders(folder / domain, VAL), strict=True)
            missing += [f"folder {domain}/{name}" for name, part in parts if part is None]
    return lacking(missing)


def _label(path: Path, part: Path) -> str | None:
    """The innermost class folder around a file; there may be folders of other kinds between."""
    inside = path.relative_to(part).parts[:-1]
    return next((name for name in reversed(inside) if name in CLASSES), None)


def _read(folder: Path, _seed: int = 0) -> Contents:
    halves: tuple[list[tuple[Path, str, str]], ...] = ([], [])
    names: set[str] = set()
    for domain in DOMAINS:
        for half, part in zip(halves, part_folders(folder / domain, VAL), strict=True):
            assert part is not None  # or the layout would not have been recognised
            names.add(part.name)
            # A file outside the class folders is skipped, as it is everywhere.
            half += [
                (path, label, domain)
                for path in find_images(part)
                if (label := _label(path, part)) is not None
            ]
    train, test = (
        Part([path for path, _, _ in half], [label for _, label, _ in half], [domain for *_, domain in half])
        for half in halves
    )
    return Contents(
        CLASSES, train, test, DOMAINS, f"DOMAIN/{{{','.join(sorted(names))}}}/{{{','.join(CLASSES)}}}"
    )


def cddb_hard() -> Source:
    """CDDB-Hard: is this photo real?"""
    return Source(
        name="cddb-hard",
        title="CDDB-Hard",
        settings=("dil",),
        classes=len(CLASSES),
        tasks=len(DOMAINS),
        counts={
            PAPER: (16068, 10706),
            "RanPAC's, half of the paper's test images, which seem to be counted twice": (None, 5353),
        },
        ways=(
            Layout(
                ("CDDB", "CDDB/CDDB", "cddb"),
                f"DOMAIN/{{train,val}}/{{{','.join(CLASSES)}}}/IMAGE, where DOMAIN is {', '.join(DOMAINS)}",
                _lacks,
                _read,
            ),
        ),
        where="Get CDDB.tar.zip (md5 823b6496270ba03019dbd6af60cbcb6b) from "
        "https://drive.google.com/file/d/1NgB8ytBMFBFwyXJQvdVT_yek1EaaEHrg; see also https://github.com/Coral79/CDDB",
    )
