"""Datasets: the ten of the paper, any folder, and two that are always there; a small file for each kind.

A new dataset is one function that gives its facts, a `Source`, and a line here.
"""

from __future__ import annotations

from layup.benchmark.datasets import cars, cddb, cifar, digits, domainnet, folders, imagenet_r, trees
from layup.benchmark.datasets.checking import Report, check_dataset
from layup.benchmark.datasets.dataset import Contents, Dataset, Part, listed
from layup.benchmark.datasets.folders import split_on_disk, subfolders
from layup.benchmark.datasets.given import dataset_from
from layup.benchmark.datasets.source import (
    DATASETS,
    PREFIXES,
    Layout,
    Source,
    data_folder,
    load_dataset,
    source_of,
)

for _source in (
    cifar.cifar100,
    imagenet_r.imagenet_r,
    trees.imagenet_a,
    trees.cub200,
    trees.omnibenchmark,
    trees.vtab,
    cars.cars196,
    cddb.cddb_hard,
    domainnet.s_domainnet,
    imagenet_r.imagenet_r_domains,
    digits.digits,
    digits.digits_styles,
):
    DATASETS.register(_source().name)(_source)
for _prefix in (folders.folder, folders.domains):
    PREFIXES.register(_prefix.__name__)(_prefix)

__all__ = [
    "DATASETS",
    "PREFIXES",
    "Contents",
    "Dataset",
    "Layout",
    "Part",
    "Report",
    "Source",
    "check_dataset",
    "data_folder",
    "dataset_from",
    "listed",
    "load_dataset",
    "source_of",
    "split_on_disk",
    "subfolders",
]
