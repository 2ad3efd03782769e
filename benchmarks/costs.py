"""What methods keep and compute beside the backbone: as the paper counts, and in bytes and seconds.

    python -m benchmarks.costs

The first two tables are Section 4.3 of the paper, computed by layup.reproduction.costs. The third makes
layup's own objects of that size (ViT-B/16 with random weights, sums of 200 classes) and weighs them, in
memory and in a file. The last times the solves. Needs 4 GB of memory; about two minutes.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import layup.compat  # noqa: F401  # isort: skip  (before timm and torchvision)
import numpy as np
import timm
import torch
from numpy.typing import NDArray

from layup import storage
from layup.adapters import AdaptedBackbone, AdaptFormer
from layup.algebra import ClassSums, GramStatistics, solve
from layup.backbones import Preprocessing, timm_backbone
from layup.cli.console import say, table
from layup.features import EMBEDDING, Extractor, NoCache, ProjectedRows
from layup.formats import percent, size_of
from layup.performance import compare
from layup.reproduction import Cost, Setup, costs, saving

Sums = TypeVar("Sums", bound=ClassSums)

PAPER = Setup()
LAYUP = costs.layup(PAPER)
OTHERS = {  # how it is counted; what the paper says of its values, and of LayUP's saving
    "RanPAC": (costs.ranpac(PAPER), "", ""),
    "RanPAC and its prototypes": (costs.ranpac(PAPER, prototypes=True), "100M + 11M", "81 %"),
    "SLCA": (costs.slca(PAPER), "118M", "82 %"),
    "ADAM, a second backbone": (costs.adam(PAPER), "84M", "75 %"),
    "ADAM, frozen weights shared": (costs.adam(PAPER, shared=True), "", ""),
}


def saved(ours: int, theirs: int) -> str:
    share = saving(ours, theirs)
    return f"{percent(share)} %" if share >= 0 else f"none: {ours / theirs:.3g} times as many"


def parts(cost: Cost) -> str:
    return " + ".join(f"{name} {values / 1e6:.2f}M" for name, values in cost.parts.items())


def values() -> None:
    rows = [["LayUP, k = 6", parts(LAYUP), f"{LAYUP.values:,}", "21M + 1M", "", "", ""]]
    for name, (cost, printed, saving_printed) in OTHERS.items():
        ours = LAYUP.without("adapter").values, LAYUP.values
        shares = [saved(count, cost.values) for count in ours]
        rows.append([name, parts(cost), f"{cost.values:,}", printed, *shares, saving_printed])
    columns = ["method", "parts", "values", "paper", "LayUP saves: G alone", "with its adapter", "paper"]
    table(columns, rows)


def operations() -> None:
    rows = []
    for name, cost, what, printed in (
        ("LayUP, k = 6", LAYUP, "(k·d)³", "10^11"),
        ("RanPAC", costs.ranpac(PAPER), "M³", "10^12"),
        ("SLCA", costs.slca(PAPER), "C·d³", "10^11"),
    ):
        assert cost.operations is not None
        assert LAYUP.operations is not None
        share = "" if cost is LAYUP else saved(LAYUP.operations, cost.operations)
        rows.append(
            [name, what, f"{cost.operations:.3g}", printed, share, "90 %" if name == "RanPAC" else ""]
        )
    table(["method", "formula", "operations", "paper", "LayUP saves", "paper"], rows)


def fill(sums: Sums) -> Sums:
    """A few random rows, of as many classes as in the paper."""
    rows = np.random.default_rng(0).standard_normal((2 * PAPER.classes, sums.dim))
    sums.update(rows, np.arange(2 * PAPER.classes) % PAPER.classes)
    return sums


def vit_b() -> tuple[torch.nn.Module, AdaptedBackbone]:
    network = timm.create_model("vit_base_patch16_224", pretrained=False, num_classes=0)
    size = PAPER.image, PAPER.image
    backbone = timm_backbone(network, Preprocessing(size, size, "squash"), name="ViT-B/16", spec={})
    return network, AdaptedBackbone(backbone, AdaptFormer(width=PAPER.bottleneck))


def weighed() -> Iterator[tuple[str, list[tuple[str, int, int]]]]:
    """Each method with its parts: what it is, bytes in memory, bytes in a file."""
    network, adapted = vit_b()
    frozen = {id(value) for value in network.parameters()}
    # What the tuned network holds that the frozen one beside it does not.
    own = {name: value for name, value in adapted.network.named_parameters() if id(value) not in frozen}
    assert sum(value.numel() for value in own.values()) == costs.adapter_values(PAPER)
    assert sum(value.numel() for value in network.parameters()) == costs.backbone_values(PAPER)
    adapter = of_arrays("adapter, float32", {name: value.detach().numpy() for name, value in own.items()})
    weights = {name: value.detach().numpy() for name, value in network.named_parameters()}

    yield "LayUP, k = 6", [*of_gram(PAPER.k * PAPER.width), adapter]
    projected = ProjectedRows(Extractor(adapted, [EMBEDDING], cache=NoCache()), PAPER.projection, seed=0)
    parts = [("projection, float64, drawn again from its seed", projected.matrix.nbytes, 0), adapter]
    yield "RanPAC", [*of_gram(PAPER.projection), *parts]
    covariances = np.ones((PAPER.classes, PAPER.width, PAPER.width), np.float32)
    means = of_arrays("means, float32", {"means": covariances[:, 0].copy()})
    parts = [of_arrays("covariances, float32", {"covariances": covariances}), means]
    yield "SLCA", [*parts, of_arrays("tuned backbone, float32", weights)]
    pairs = of_sums("prototypes, float64", ClassSums(2 * PAPER.width))
    yield "ADAM, a second backbone", [of_arrays("tuned backbone, float32", weights), pairs]
    yield "ADAM, frozen weights shared", [adapter, pairs]


def of_sums(name: str, sums: ClassSums) -> tuple[str, int, int]:
    filled = fill(sums)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sums.layup"
        filled.save(path)
        return name, filled.nbytes, path.stat().st_size


def of_gram(dim: int) -> list[tuple[str, int, int]]:
    _, memory, file = of_sums("", GramStatistics(dim))
    prototypes = of_sums("prototypes, float64", ClassSums(dim))
    return [("Gram matrix, float64", memory - prototypes[1], file - prototypes[2]), prototypes]


def of_arrays(name: str, arrays: dict[str, NDArray[np.float32]]) -> tuple[str, int, int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arrays"
        storage.write(path, "arrays", {}, arrays)
        return name, sum(array.nbytes for array in arrays.values()), path.stat().st_size


def bytes_kept() -> None:
    rows = []
    for method, parts in weighed():
        whole = "all", sum(part[1] for part in parts), sum(part[2] for part in parts)
        rows += [[method, name, size_of(memory), size_of(file)] for name, memory, file in (*parts, whole)]
    table(["method", "part", "in memory", "in a file"], rows)


def factorise(covariance: torch.Tensor) -> None:
    for _ in range(PAPER.classes):
        torch.linalg.cholesky(covariance)


def seconds() -> None:
    def work(dim: int) -> Callable[[], object]:
        sums = fill(GramStatistics(dim))
        return partial(solve, sums.gram, sums.prototypes, sums.total, 1000.0)

    ours = work(PAPER.k * PAPER.width)
    covariance = 2 * torch.eye(PAPER.width, dtype=torch.float64)
    rows = []
    for name, what, theirs in (
        ("RanPAC", "one solve for W", work(PAPER.projection)),
        ("SLCA", f"{PAPER.classes} factorisations", partial(factorise, covariance)),
    ):
        ratio = compare(theirs, ours, pairs=7)
        rows.append(
            [name, what, *(f"{t:.1f}" for t in (ratio.first_seconds, ratio.second_seconds)), str(ratio)]
        )
    table(["method", "what", "seconds", "LayUP's solve beside it", "ratio (95 % interval)"], rows)


def main() -> None:
    say("Values kept beside backbone, head and prototypes, as the paper counts (C = 200)")
    values()
    say("Operations of the largest computation, as the paper counts")
    operations()
    say("Bytes of layup's own objects")
    bytes_kept()
    say(f"Seconds in float64, by Cholesky factorisation; threads: {torch.get_num_threads()}")
    seconds()


if __name__ == "__main__":
    main()
