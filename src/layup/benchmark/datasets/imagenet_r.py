"""ImageNet-R by class, and by style: paintings, toys, tattoos … of 200 classes of ImageNet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from layup.benchmark.datasets.dataset import Contents, Part
from layup.benchmark.datasets.folders import subfolders, tree
from layup.benchmark.datasets.source import PAPER, ZIPS, Layout, Source
from layup.errors import InputError

LISTS = ("imagenet-r_train.yaml", "imagenet-r_test.yaml")

STYLES: Mapping[str, tuple[int, int]] = {
    "sketch": (3662, 972),
    "art": (1239, 289),
    "cartoon": (2969, 757),
    "deviantart": (1732, 431),
    "embroidery": (582, 140),
    "graffiti": (730, 211),
    "graphic": (533, 111),
    "misc": (4574, 1099),
    "origami": (442, 108),
    "painting": (2297, 538),
    "sculpture": (977, 219),
    "sticker": (394, 114),
    "tattoo": (1529, 418),
    "toy": (1179, 332),
    "videogame": (1161, 261),
}
"""The styles in the paper's order, with their training and test images in CODA-Prompt's lists."""

WHERE = (
    f"Get imagenet-r.zip (md5 730aa3fb9c7d2ec0b6381c6b23040681), {ZIPS}. Or the official archive "
    "(https://people.eecs.berkeley.edu/~hendrycks/imagenet-r.tar), which is not split, with the lists "
    f"{' and '.join(LISTS)} from https://github.com/aimagelab/mammoth (datasets/imagenet_r_utils) "
    "next to its folder."
)
COUNTS = {f"{PAPER}, Zhou et al.'s zip, and CODA-Prompt's lists": (24000, 6000)}


def _list_file(folder: Path, name: str) -> Path | None:
    return next((path for path in (folder.parent / name, folder / name) if path.is_file()), None)


def _lacks_lists(folder: Path) -> str | None:
    folder = folder.absolute()
    if not any(each.name.startswith("n") and each.name[1:].isdigit() for each in subfolders(folder)):
        return "class folders such as n01443537"
    missing = [name for name in LISTS if _list_file(folder, name) is None]
    return (
        f"split: it is the official archive, and {' and '.join(missing)} must be next to it"
        if missing
        else None
    )


def _read_lists(folder: Path, _seed: int = 0) -> Contents:
    parts = []
    for name in LISTS:
        file = _list_file(folder.absolute(), name)
        assert file is not None  # or the layout would not have been recognised
        listed = sorted(_entries(file))
        parts.append(Part([folder / label / name for label, name in listed], [label for label, _ in listed]))
    train, test = parts
    classes = tuple(sorted({*train.labels, *test.labels}))
    return Contents(classes, train, test, layout=f"CLASS, split by {' and '.join(LISTS)}")


def _entries(file: Path) -> list[tuple[str, str]]:
    """Class and file name of each path under 'data:', which is all that is needed of the YAML.

    The whole of YAML would take seconds for 24,000 lines, and a package that layup does not depend on.
    """
    found: list[tuple[str, str]] = []
    key = ""
    for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        text = line.strip()
        if text.startswith("- ") and key == "data":
            parts = PurePosixPath(text.removeprefix("- ").strip().strip("'\"")).parts
            if len(parts) < 2:
                raise InputError(f"Line {number} of '{file}' must end in CLASS/IMAGE, and is {text!r}.")
            found.append((parts[-2], parts[-1]))
        elif text.endswith(":"):
            key = text[:-1]
    if not found:
        raise InputError(
            f"'{file}' lists no images. It must have a line 'data:', then lines '- …/CLASS/IMAGE'."
        )
    return found


LAYOUTS = (
    tree("imagenetr", "imagenet-r"),
    Layout(
        ("imagenet-r", "imagenetr"),
        f"CLASS/IMAGE (the official archive), with {' and '.join(LISTS)} next to that folder",
        _lacks_lists,
        _read_lists,
    ),
)


def imagenet_r() -> Source:
    """ImageNet-R by class."""
    return Source(
        name="imagenet-r",
        title="ImageNet-R",
        settings=("cil", "ocl"),
        classes=200,
        counts=COUNTS,
        ways=LAYOUTS,
        where=WHERE,
    )


def style_of(path: Path) -> str:
    """The style of a file: what its name begins with, before the first '_'.

    Never a part of the path: 'art' is in 'cartoon', and may be in the name of any folder.

    >>> style_of(Path("start/n01443537/cartoon_1.jpg"))
    'cartoon'
    """
    style = path.name.partition("_")[0]
    if style not in STYLES:
        raise InputError(
            f"The style of '{path}' is unknown: its name must begin with one of {', '.join(STYLES)}, "
            "and then '_'."
        )
    return style


def _by_style(layout: Layout) -> Layout:
    def read(folder: Path, seed: int = 0) -> Contents:
        contents = layout.read(folder, seed)
        train, test = (
            Part(part.images, part.labels, [style_of(Path(str(path))) for path in part.images])
            for part in (contents.train, contents.test)
        )
        return replace(contents, train=train, test=test, domains=tuple(STYLES))

    return replace(layout, read=read)


def imagenet_r_domains() -> Source:
    """ImageNet-R by style."""
    zipped, lists = map(_by_style, LAYOUTS)
    return Source(
        name="imagenet-r-domains",
        title="ImageNet-R by style",
        settings=("dil",),
        classes=200,
        tasks=len(STYLES),
        counts=COUNTS,
        ways=(zipped, replace(lists, by_domain={"CODA-Prompt's lists, style by style": STYLES})),
        where=WHERE,
    )
