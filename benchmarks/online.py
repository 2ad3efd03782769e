"""What float32 does to a stream, and what N ≈ d does: accuracy over N/d for λ = 0, λ = 1 and gcv.

    python -m benchmarks.online [--data .bench/cifar100-subset] [--out .bench/online] [--pictures docs/images]
                                [--backbone vit-nano] [--seeds 1993 1994 1995] [--large]

DATA holds train/CLASS and test/CLASS. Images come one after the other, in i.i.d. order or in ten tasks of new
classes (layup.benchmark.online); at several N, the test images of all classes seen so far are predicted.
LayUP with k = 6 and 12, and RanPAC with M = 2,000 and, with --large at a few N, M = 10,000. Three kinds of
arithmetic on the same float32 features:

    float32, LU       sums and a plain LU solve in float32: what the released codes do
    float32, floor    the same sums, by eigendecomposition in float32; eigenvalues up to d·ε·s_max are zero
    float64           layup's default: the same in float64, so that λ = 0 is the minimum-norm solution

LU cannot choose λ: for gcv it uses the λ of float64. One JSON file per curve is kept in OUT, so that a second
run only prints and draws. About 11 minutes of one core without --large.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.choices import HERE
from layup.algebra import Floats, GramStatistics, Spectrum, rounding_floor, solve
from layup.backbones import load_backbone
from layup.benchmark import STREAM_BATCH, online
from layup.benchmark.datasets import Dataset, load_dataset
from layup.benchmark.metrics import Band, band
from layup.benchmark.plots import INK, MARKERS, SAFE_COLOURS
from layup.features import EMBEDDING, Extractor, FeatureCache, ProjectedRows, Rows
from layup.tables import Table, to_markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RATIOS = (0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 1, 1.05, 1.1, 1.2, 1.35, 1.5, 2, 3, 4, 5, 6.5, 9, 13)
PAPERS_COUNTS = (1_796, 5_981, 8_144, 10_000)
"""Training images of VTAB, ImageNet-A and Cars, where RanPAC collapses in the paper's Table 3; and N = M."""

SHOWN = (0.5, 0.8, 0.95, 1, 1.05, 1.2, 2, 5)
QUIET = 0.011
TASKS = 10
LU, FLOOR, WIDE = "float32, LU", "float32, floor", "float64"
SUMS = "float32 sums, float64 LU"
ARITHMETIC = (LU, FLOOR, WIDE)
LOOKS = {  # colour, line, width, marker
    LU: (SAFE_COLOURS[1], "--", 1.3, MARKERS[0]),
    FLOOR: (SAFE_COLOURS[2], ":", 1.6, MARKERS[1]),
    WIDE: (SAFE_COLOURS[0], "-", 2.6, MARKERS[2]),
}
RULES = ("0", "1", "gcv")
ORDERS = {"iid": "i.i.d. order", "tasks": f"{TASKS} tasks of new classes"}

Point = dict[str, Any]


@dataclass(frozen=True)
class Space:
    """What is classified: the last k layers, or random projections of the final embedding."""

    name: str
    k: int = 0
    projections: int = 0
    counts: tuple[int, ...] | None = None  # where to measure, if not at RATIOS
    batch: int = STREAM_BATCH  # G of M = 10,000 takes half a second to add up, so there are fewer
    large: bool = False  # no eigendecomposition in float32; in float64 of N × N samples where that is smaller

    def rows(self, features: Rows, extractor: Extractor, seed: int) -> Rows:
        """All layers side by side → the space."""
        end = extractor.width - extractor.layers[EMBEDDING]
        if not self.projections:
            return features[:, end - self.k * extractor.layers[EMBEDDING] : end]
        embedding = Extractor(extractor.backbone, [EMBEDDING])
        return ProjectedRows(embedding, self.projections, seed).mapped(features[:, end:])

    def counts_in(self, data: Data) -> list[int]:
        """After how many images to measure."""
        dim = self.projections or self.k * data.extractor.layers[EMBEDDING]
        counts = self.counts or [round(ratio * dim) for ratio in RATIOS]
        return [count for count in counts if count <= len(data.labels)]


SPACES = (
    Space("LayUP, k = 6", k=6),
    Space("LayUP, k = 12", k=12),
    Space("RanPAC, M = 2,000", projections=2_000),
)
LARGE = Space("RanPAC, M = 10,000", projections=10_000, counts=PAPERS_COUNTS, batch=1_000, large=True)


@dataclass(frozen=True)
class Data:
    """Features of all layers and labels, in the dataset's order."""

    dataset: Dataset
    extractor: Extractor
    train: Rows
    test: Rows

    @property
    def labels(self) -> NDArray[np.str_]:
        """The labels of training images."""
        return np.array(self.dataset.train.labels)

    @property
    def test_labels(self) -> NDArray[np.str_]:
        """The labels of test images."""
        return np.array(self.dataset.test.labels)

    def order(self, name: str, seed: int) -> NDArray[np.int64]:
        """The stream, as indices of training images."""
        if name == "tasks":
            return np.concatenate([task.train for task in online(self.dataset, TASKS, seed).tasks])
        return np.random.default_rng(seed).permutation(len(self.labels))


def read(folder: Path, backbone: str) -> Data:
    dataset = load_dataset(f"folder:{folder}")
    extractor = Extractor(load_backbone(backbone), cache=FeatureCache(HERE / "cache"))
    train, test = (extractor.extract(part.images) for part in (dataset.train, dataset.test))
    assert not train.bad, train.bad
    assert not test.bad, test.bad
    return Data(dataset, extractor, train.rows, test.rows)


def curve(space: Space, data: Data, order: str, seed: int, known: int) -> Iterator[Point]:
    """Learn the stream, and measure on the way, except for the first `known` points."""
    indices = data.order(order, seed)
    rows, labels = space.rows(data.train, data.extractor, seed)[indices], data.labels[indices]
    tests = space.rows(data.test, data.extractor, seed)
    dim = rows.shape[1]
    narrow, wide = GramStatistics(dim, "float32"), GramStatistics(dim)
    start = 0
    for number, count in enumerate(space.counts_in(data)):
        for first in range(start, count, space.batch):
            batch = slice(first, min(first + space.batch, count))
            narrow.update(rows[batch], labels[batch])
        wide.update(rows[start:count], labels[start:count])
        start = count
        if number < known:
            continue
        if space.large:
            targets = (labels[:count, None] == np.array(wide.labels)).astype(np.float64)
            spectra = {WIDE: Spectrum.of_samples(rows[:count].astype(np.float64), targets)}
        else:
            spectra = {
                name: Spectrum.of(sums.gram, sums.prototypes, sums.total)
                for name, sums in ((WIDE, wide), (FLOOR, narrow))
            }
        yield measure(spectra, narrow, wide, tests, data.test_labels)


def measure(
    spectra: Mapping[str, Spectrum],
    narrow: GramStatistics,
    wide: GramStatistics,
    tests: Rows,
    truth: NDArray[np.str_],
) -> Point:
    """Accuracy by arithmetic and rule for λ, and the eigenvalues that explain it."""
    seen = np.isin(truth, wide.labels)
    names = np.array(wide.labels)

    def accuracy(weights: Floats) -> float:
        predictions = names[(tests[seen].astype(weights.dtype) @ weights).argmax(axis=1)]
        return float((predictions == truth[seen]).mean())

    lambdas: dict[str, dict[str, float]] = {}
    found: dict[str, dict[str, float]] = {}
    for name, spectrum in spectra.items():
        lambdas[name] = {"0": 0.0, "1": 1.0, "gcv": spectrum.best_gcv()}
        found[name] = {rule: accuracy(spectrum.weights(lam)) for rule, lam in lambdas[name].items()}
    found[LU] = {
        rule: accuracy(solve(narrow.gram, narrow.prototypes, narrow.total, lam))
        for rule, lam in lambdas[WIDE].items()
    }
    values = spectra[WIDE].values
    in_float32 = values.astype(np.float32)
    # Is it the sums or the solve that float32 spoils? The same sums, solved in float64.
    found[SUMS] = {rule: accuracy(lu_solve(narrow, lam)) for rule, lam in (("0", 0.0), ("1", 1.0))}
    return {
        "count": wide.total,
        "ratio": wide.total / wide.dim,
        "classes": len(wide.labels),
        "accuracy": found,
        "gcv": {name: each["gcv"] for name, each in lambdas.items()},
        "rank": {name: len(spectrum.values) for name, spectrum in spectra.items()},
        "largest": float(values.max()),
        "smallest": float(values.min()),
        "median": float(np.median(values)),
        "floor": rounding_floor(in_float32, wide.dim),
        "rounding": spectral_norm(narrow.gram - wide.gram),
    }


def lu_solve(sums: GramStatistics, lam: float) -> Floats:
    """(G + λI)⁻¹ c in float64, whatever that is if the matrix is singular."""
    gram = torch.from_numpy(sums.gram.astype(np.float64))
    gram.diagonal().add_(lam)
    solved, _ = torch.linalg.solve_ex(gram, torch.from_numpy(sums.prototypes.astype(np.float64).T.copy()))
    weights: Floats = solved.nan_to_num(nan=0.0).numpy()
    return weights


def spectral_norm(matrix: Floats, steps: int = 50) -> float:
    """The largest |eigenvalue| of a symmetric matrix, by powers of it, to a few per cent."""
    x = np.random.default_rng(0).standard_normal(len(matrix))
    size = 0.0
    for _ in range(steps):
        x /= np.linalg.norm(x)
        x = matrix @ x
        size = float(np.linalg.norm(x))
        if size == 0:
            break
    return size


def points(space: Space, data: Data, order: str, seed: int, out: Path) -> list[Point]:
    """A curve, read from its file as far as it is measured; each further point is saved immediately."""
    words = space.name.replace(",", "").replace(" = ", "").split()
    backbone = data.extractor.backbone.name
    path = out / f"{backbone}-{'-'.join(words).lower()}-{order}-{seed}.json"
    found: list[Point] = json.loads(path.read_text())["points"] if path.exists() else []
    if len(found) < len(space.counts_in(data)):
        for point in curve(space, data, order, seed, len(found)):
            found.append(point)
            values = {"space": space.name, "order": order, "seed": seed, "points": found}
            path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
            print(f"{path}: {point['count']:,}", flush=True)
    return found


Curves = list[list[Point]]  # one of each seed


def accuracies(curves: Curves, arithmetic: str, rule: str) -> Band:
    return band([[point["accuracy"][arithmetic][rule] for point in each] for each in curves])


def print_accuracies(title: str, measured: Mapping[str, Curves], ratios: Sequence[float]) -> None:
    """One table per rule for λ, one line per space and arithmetic; ± only where it is above `QUIET`."""
    for rule in RULES:
        name = "gcv" if rule == "gcv" else f"λ = {rule}"
        heads = [name, *(f"N/d = {ratio:g}" for ratio in ratios), "all"]
        rows = []
        for space, curves in measured.items():
            known = np.array([point["ratio"] for point in curves[0]])
            columns = [*(int(abs(known - ratio).argmin()) for ratio in ratios), len(known) - 1]
            for arithmetic in ARITHMETIC:
                if arithmetic in curves[0][0]["accuracy"]:
                    found = accuracies(curves, arithmetic, rule)
                    errors = [f" ± {error:.3f}" if error > QUIET else "" for error in found.error]
                    cells = [f"{found.mean[i]:.3f}{errors[i]}" for i in columns]
                    rows.append([f"{space}: {arithmetic}", *cells])
        print(f"\n{title}, {name}: accuracy on test images of seen classes\n")
        print(to_markdown(Table.of(heads, rows)), flush=True)


def print_eigenvalues(name: str, curves: Curves) -> None:
    heads = [
        "N",
        "N/d",
        "kept, float64 / float32",
        "s_max",
        "smallest kept",
        "s_max / smallest",
        "rounding of G",
        "d·ε32·s_max",
        "median",
        "λ of gcv",
        *(f"accuracy of {SUMS}, λ = {rule}" for rule in ("0", "1")),
    ]
    rows = []
    for point in curves[0]:
        values = [
            point["largest"],
            point["smallest"],
            point["largest"] / point["smallest"],
            point["rounding"],
            point["floor"],
            point["median"],
            point["gcv"][WIDE],
        ]
        kept = " / ".join(f"{rank:,}" for rank in point["rank"].values())
        cells = [f"{value:.2g}" for value in values]
        cells += [f"{point['accuracy'][SUMS][rule]:.3f}" for rule in ("0", "1")]
        rows.append([f"{point['count']:,}", f"{point['ratio']:.2f}", kept, *cells])
    print(f"\n{name}: eigenvalues of G in float64, and what float32 does to them; the first seed\n")
    print(to_markdown(Table.of(heads, rows)), flush=True)


def panels(rows: int, measured: Mapping[str, Curves], height: float) -> tuple[Figure, NDArray[Any]]:
    """One column per space, over N/d."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.7 * len(measured), height), dpi=150, layout="constrained")
    grid: NDArray[Any] = figure.subplots(rows, len(measured), sharex="col", squeeze=False)
    for axes in grid.ravel():
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
        axes.axvline(1, color=INK, linewidth=0.8, linestyle=":")
        axes.set_xscale("log")
    for column, (name, curves) in zip(grid.T, measured.items(), strict=True):
        column[0].set_title(name, loc="left", color=INK)
        last = curves[0][-1]["ratio"]
        ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10) if tick <= last]
        column[-1].set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        column[-1].set_xticks([], minor=True)
        column[-1].set_xlim(0.085, 1.15 * last)
        column[-1].set_xlabel("N/d (log scale)")
    return figure, grid


def finish(figure: Figure, grid: NDArray[Any], title: str, columns: int) -> None:
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    figure.suptitle(title, color=INK, fontsize="medium")


def draw_accuracies(path: Path, title: str, measured: Mapping[str, Curves], starts: Sequence[int]) -> None:
    """One row per rule for λ, one line per kind of arithmetic; `starts` of tasks are marked."""
    figure, grid = panels(len(RULES), measured, 8.2)
    for column, curves in zip(grid.T, measured.values(), strict=True):
        ratios = [point["ratio"] for point in curves[0]]
        for axes, rule in zip(column, RULES, strict=True):
            for arithmetic in (WIDE, FLOOR, LU):  # the last on top, thin: it often covers the first
                found, (colour, style, width, marker) = (
                    accuracies(curves, arithmetic, rule),
                    LOOKS[arithmetic],
                )
                axes.plot(
                    ratios,
                    found.mean,
                    color=colour,
                    linestyle=style,
                    linewidth=width,
                    marker=marker,
                    markersize=2 + width,
                    label=arithmetic,
                )
                if len(curves) > 1:
                    low, high = found.mean - found.error, found.mean + found.error
                    axes.fill_between(ratios, low, high, color=colour, alpha=0.2, linewidth=0)
            for start in starts:
                place = start * ratios[0] / curves[0][0]["count"]
                axes.axvline(place, ymax=0.03, color=INK, linewidth=0.8)
            axes.set_ylim(bottom=0)
    for axes, rule in zip(grid[:, 0], RULES, strict=True):
        axes.set_ylabel(f"accuracy, {'gcv' if rule == 'gcv' else f'λ = {rule}'}")
    finish(figure, grid, title, len(ARITHMETIC))
    figure.savefig(path)


def draw_eigenvalues(path: Path, measured: Mapping[str, Curves]) -> None:
    """Why: what float32 cannot represent, with the eigenvalues and λ."""
    figure, grid = panels(1, measured, 4.4)
    for axes, curves in zip(grid[0], measured.values(), strict=True):
        ratios = [point["ratio"] for point in curves[0]]
        series = {
            "smallest eigenvalue kept in float64": [point["smallest"] for point in curves[0]],
            "what rounding to float32 changed in G": [point["rounding"] for point in curves[0]],
            "d·ε·s_max of float32, the floor": [point["floor"] for point in curves[0]],
            "λ of gcv": [point["gcv"][WIDE] for point in curves[0]],
        }
        looks = zip(series.items(), SAFE_COLOURS, MARKERS, ("-", "--", ":", "-."), strict=False)
        for (label, values), colour, marker, style in looks:
            axes.plot(
                ratios, values, color=colour, linestyle=style, marker=marker, markersize=3.5, label=label
            )
        axes.axhline(1, color=INK, linewidth=1, label="λ = 1")
        axes.set_yscale("log")
    grid[0, 0].set_ylabel("size (log scale)")
    finish(figure, grid, "Eigenvalues of G, float32 and λ (i.i.d. order, first seed)", 3)
    figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=HERE / "cifar100-subset")
    parser.add_argument("--out", type=Path, default=HERE / "online")
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--backbone", default="vit-nano")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1993, 1994, 1995])
    parser.add_argument(
        "--large", action="store_true", help="also RanPAC with M = 10,000 (half an hour more)"
    )
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    data = read(options.data, options.backbone)
    for order, title in ORDERS.items():
        # One order of classes is enough to see that the same happens; more would take minutes.
        seeds = options.seeds if order == "iid" else options.seeds[:1]
        measured = {
            space.name: [points(space, data, order, seed, options.out) for seed in seeds] for space in SPACES
        }
        print_accuracies(title, measured, SHOWN)
        if order == "iid":
            for name, curves in measured.items():
                print_eigenvalues(name, curves)
        if options.pictures:
            runs = (
                f"{len(seeds)} seeds, shaded: ± standard error"
                if len(seeds) > 1
                else f"seed {seeds[0]}; marks below: a new task"
            )
            heading = f"Accuracy on test images of seen classes, {title} ({runs})"
            tasks = online(data.dataset, TASKS, seeds[0]).tasks if order == "tasks" else ()
            starts = np.cumsum([len(task.train) for task in tasks][:-1]).tolist()
            draw_accuracies(options.pictures / f"online-{order}.png", heading, measured, starts)
            if order == "iid":
                draw_eigenvalues(options.pictures / "online-eigenvalues.png", measured)
    if not options.large:
        return
    large = [points(LARGE, data, "iid", options.seeds[0], options.out)]
    print_accuracies(ORDERS["iid"], {LARGE.name: large}, [point["ratio"] for point in large[0][:-1]])
    print_eigenvalues(LARGE.name, large)


if __name__ == "__main__":
    main()
