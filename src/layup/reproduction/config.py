"""How the paper is reproduced: which datasets and networks stand for its own, and how large everything is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from layup.benchmark.datasets import (
    DATASETS,
    PREFIXES,
    Dataset,
    data_folder,
    load_dataset,
    split_on_disk,
    subfolders,
)
from layup.benchmark.methods import METHODS
from layup.errors import InputError
from layup.images import ImageSource, find_images
from layup.registry import unknown_name
from layup.reproduction.spec import PLAIN
from layup.tuning import PRESETS

CIL = {
    "CIFAR": "cifar100",
    "IN-R": "imagenet-r",
    "IN-A": "imagenet-a",
    "CUB": "cub200",
    "OB": "omnibenchmark",
    "VTAB": "vtab",
    "Cars": "cars196",
}
DIL = {"CDDB-H": "cddb-hard", "S-DomainNet": "s-domainnet", "IN-R (D)": "imagenet-r-domains"}
"""The paper's datasets, by its short names."""

VITS = {"IN21K": "vit_base_patch16_224.augreg_in21k", "IN1K": "vit_base_patch16_224.augreg2_in21k_ft_in1k"}
SMALL = {"IN21K": "bundled", "IN1K": "vit-nano"}
"""The networks that come with layup, in place of the paper's: the plain ViT for IN1K."""


@dataclass(frozen=True)
class Column:
    """A dataset of a table: its label there, and its name for `load_dataset`.

    sample: use only this many classes, and images of each.
    setting: "cil" for a class-incremental dataset, "dil" for a domain-incremental one.
    """

    label: str
    dataset: str
    setting: str
    sample: tuple[int, int] | None = None

    def load(self, data: Path | None) -> Dataset:
        """The dataset itself, or the error that says what is missing."""
        found = load_dataset(self.dataset, data)
        return found if self.sample is None else found.sampled(*self.sample)


@dataclass(frozen=True)
class ReproductionConfig:
    """Datasets, networks and sizes.

    columns: the datasets.
    characteristics: further ones, for the question which k is best for what data.
    networks: a backbone's name for each of the paper's networks.
    loading: what `load_backbone` takes besides a name, by name: "weights", "input_size".
    like_paper: whether these are its datasets and networks, so that numbers can be compared with its own.
    source: images that stand for the networks' training data, if any.
    epochs: of methods that train; None for those of their recipes.
    session_epochs: of first sessions; None for those of the preset.
    task_counts: the numbers of tasks that are compared.
    options: of methods, by method, where the default ones would be too large.
    without: methods that are left out.
    """

    columns: tuple[Column, ...]
    networks: Mapping[str, str]
    characteristics: tuple[Column, ...] = ()
    loading: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    like_paper: bool = False
    data: Path | None = None
    source: str | None = None
    preset: str = "default"
    epochs: int | None = None
    session_epochs: int | None = None
    task_counts: tuple[int, ...] = (5, 10, 20)
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    without: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            raise unknown_name("preset", self.preset, PRESETS)
        for name in self.without:
            if name not in METHODS:
                raise unknown_name("method", name, METHODS)

    def with_network(self, name: str, **loading: Any) -> ReproductionConfig:
        """The same with this backbone for the paper's IN1K, the network of most of its tables.

        >>> config = quick_config(None).with_network("vit_tiny_patch16_224", input_size=96)
        >>> config.networks
        {'IN21K': 'bundled', 'IN1K': 'vit_tiny_patch16_224'}
        """
        return replace(
            self,
            networks={**self.networks, PLAIN: name},
            loading={**self.loading, name: loading},
            like_paper=self.like_paper and name == VITS[PLAIN],
        )

    def require_source(self) -> None:
        """Refuse a source without images."""
        if self.source is not None:
            source_images(self.source, self.data)

    def of(self, setting: str) -> tuple[Column, ...]:
        """The datasets of a setting; online learning uses the class-incremental ones."""
        kind = "dil" if setting == "dil" else "cil"
        return tuple(column for column in self.columns if column.setting == kind)

    @property
    def everything(self) -> tuple[Column, ...]:
        """Every dataset that can be learned class by class, to see which k is best."""
        return self.of("cil") if self.like_paper else (*self.columns, *self.characteristics)


NARROW = {name: {"width": 2000} for name in ("ranpac", "ranpac+layup")}
"""RanPAC in miniature: with its 10,000 random projections, every task of every run takes some 20 seconds."""
SAMPLES = {"cil": (20, 30), "dil": (20, 10)}
"""Classes, and images of each (in each domain), of a quick reproduction."""
BUILT_IN = (Column("digits", "digits", "cil"), Column("digits-styles", "digits-styles", "dil"))


def paper_config(data: Path | None, **settings: Any) -> ReproductionConfig:
    """The paper's own: both ViT-B/16, and those of its ten datasets that are in a folder."""
    columns = [Column(label, name, "cil") for label, name in CIL.items()]
    columns += [Column(label, name, "dil") for label, name in DIL.items()]
    return ReproductionConfig(tuple(columns), VITS, like_paper=True, data=data, **settings)


def local_config(data: Path | None, **settings: Any) -> ReproductionConfig:
    """All datasets on disk, whole, with the two networks that come with layup."""
    columns = on_disk(data_folder(data))
    return ReproductionConfig(columns, SMALL, BUILT_IN, data=data, **settings)


def quick_config(data: Path | None, **settings: Any) -> ReproductionConfig:
    """Everything in miniature: built-in digits, or a seeded sample of datasets on disk, and short training.

    Of those on disk, the first class-incremental and the first domain-incremental one are used.
    """
    columns = BUILT_IN if data is None else on_disk(data)
    first = {each.setting: each for each in reversed(columns)}
    sampled = tuple(replace(each, sample=SAMPLES[each.setting]) for each in columns if each in first.values())
    # The network cannot be adapted to a first task of one class, so there are fewer tasks than classes.
    short = {"epochs": 1, "session_epochs": 3, "source": "digits", "task_counts": (2, 5, 10)}
    given = {name: value for name, value in settings.items() if value is not None}
    return ReproductionConfig(sampled, SMALL, data=data, options=NARROW, **{**short, **given})


def on_disk(folder: Path) -> tuple[Column, ...]:
    """The datasets in a folder: those of the paper, and any other folders of classes or domains.

    A folder of one of the paper's datasets counts as that.
    """
    if not folder.is_dir():
        raise InputError(f"There is no folder '{folder}' of datasets.")
    columns: list[Column] = []
    taken: set[Path] = set()
    for names, setting in ((CIL, "cil"), (DIL, "dil")):
        for label, name in names.items():
            if found := DATASETS[name]().locate(folder, by_name=True):
                columns.append(Column(label, name, setting))
                taken |= {found.folder.absolute(), *found.folder.absolute().parents}
    # The folder may be a dataset itself; otherwise its subfolders are.
    for candidate in [folder] if split_on_disk(folder) else subfolders(folder):
        for prefix, setting in (("folder", "cil"), ("domains", "dil")):
            if candidate.absolute() not in taken and PREFIXES[prefix](str(candidate)).locate(folder):
                columns.append(Column(_unlike(candidate.name, columns), f"{prefix}:{candidate}", setting))
                break
    if not columns:
        raise InputError(
            f"There is no dataset in '{folder}': neither one of the paper's nor a "
            "folder NAME/{train,test}/CLASS or NAME/DOMAIN/{train,test}/CLASS."
        )
    return tuple(columns)


def _unlike(label: str, columns: Sequence[Column]) -> str:
    """A label that no other dataset has: it identifies pictures."""
    others = {each.label for each in (*columns, *BUILT_IN)}
    candidates = (label if number == 1 else f"{label} ({number})" for number in count(1))
    return next(each for each in candidates if each not in others)


def source_images(name: str, data: Path | None) -> Sequence[ImageSource]:
    """The images that stand for the networks' training data: all images in folder:PATH, in any subfolder.

    Of any other dataset, the training images.
    """
    prefix, colon, path = name.partition(":")
    if colon and prefix == "folder":
        return find_images(Path(path).expanduser())
    return load_dataset(name, data).train.images
