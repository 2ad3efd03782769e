"""The datasets that people have as {train,test}/CLASS/IMAGE and in no other way."""

from __future__ import annotations

from layup.benchmark.datasets.folders import tree
from layup.benchmark.datasets.source import PAPER, ZIP, ZIPS, Source


def imagenet_a() -> Source:
    """ImageNet-A: photos that networks get wrong."""
    return Source(
        name="imagenet-a",
        title="ImageNet-A",
        settings=("cil", "ocl"),
        classes=200,
        counts={ZIP: (5981, 1519), PAPER: (6056, 1419)},
        ways=(tree("imagenet-a", "ina"),),
        where=f"Get ina.zip (md5 7f4aaf0b1532b7a0bd670822c152d3c5), {ZIPS}. "
        "The official archive (https://github.com/hendrycks/natural-adv-examples) is not split.",
    )


def cub200() -> Source:
    """CUB-200: birds."""
    return Source(
        name="cub200",
        title="CUB-200",
        settings=("cil", "ocl"),
        classes=200,
        counts={ZIP: (9430, 2358), PAPER: (9465, 2323), "the standard split": (5994, 5794)},
        ways=(tree("cub", "cub200"),),
        where=f"Get cub.zip (md5 85e342a2d5f941e740193602057df7a5), {ZIPS}. "
        "The standard split, which is another one: https://www.vision.caltech.edu/datasets/cub_200_2011/",
    )


def omnibenchmark() -> Source:
    """OmniBenchmark: 300 classes from many realms."""
    return Source(
        name="omnibenchmark",
        title="OmniBenchmark",
        settings=("cil", "ocl"),
        classes=300,
        counts={ZIP: (89697, 5985), PAPER: (89668, 5983)},
        ways=(tree("omnibenchmark"),),
        where=f"Get omnibenchmark.zip (md5 f1c30808a707f9197c6c811ea52e5cbb), {ZIPS}.",
    )


def vtab() -> Source:
    """VTAB: five datasets of ten classes each, one after another in the order of the class folders."""
    return Source(
        name="vtab",
        title="VTAB",
        settings=("cil", "ocl"),
        classes=50,
        tasks=5,
        shuffled=False,
        counts={PAPER: (1796, 8619)},
        ways=(tree("vtab", "vtab-cil/vtab"),),
        where=f"Get vtab.zip (md5 a9c37bde6105a2516c900b0c33a437c1), {ZIPS}.",
    )
