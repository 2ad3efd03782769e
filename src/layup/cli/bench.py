"""The command that measures speed and memory on this machine, next to the literal procedure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layup import storage
from layup.cli import console
from layup.cli.app import RESEARCH, app
from layup.errors import InputError
from layup.registry import unknown_name

if TYPE_CHECKING:
    from layup.performance import Report

NAMES = ("search", "stream", "runs", "sweep", "growth")
ALL = "all"
FEWEST = {"--dim": 32, "--classes": 10}


@dataclass(frozen=True)
class Wanted:
    """How large, how often, and how thoroughly to measure."""

    dim: int
    classes: int
    pairs: int
    quick: bool = False
    check: bool = False
    backbone: str | None = None

    @property
    def images(self) -> int | None:
        """How many images per class, in whole runs; None for all."""
        return 12 if self.quick else None


FULL = Wanted(dim=4608, classes=200, pairs=3)
QUICK = Wanted(dim=768, classes=40, pairs=1)


@app.command(rich_help_panel=RESEARCH)
def bench(
    what: Annotated[
        str, typer.Argument(help="search, stream, runs, sweep, growth, or all.", metavar="WHAT")
    ] = "all",
    dim: Annotated[
        int | None, typer.Option(help="Number of feature dimensions. Default: 4608; 768 with --quick.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option(help="Number of classes. Default: 200; 40 with --quick.")
    ] = None,
    pairs: Annotated[
        int | None,
        typer.Option(help="How often each of the two is timed. Default: 3; 1 with --quick.", min=1),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Smaller sizes: a few minutes for everything.")
    ] = False,
    check: Annotated[
        bool,
        typer.Option(
            "--check", help="For search: also compare λ and labels with a float64 reference; takes minutes."
        ),
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(help="Network for runs and sweep. Default: vit-nano; for runs also bundled."),
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Folder for the numbers (JSON) and pictures (PNG).", metavar="FOLDER")
    ] = None,
) -> None:
    """Measure speed and memory on this machine, compared with the procedure as the paper describes it.

    layup bench --quick                      everything, in small sizes
    layup bench search                       λ search and update after a task: 4 folds × 16 values
    layup bench stream                       learn one sample and predict, vs. solving from scratch
    layup bench runs                         whole runs of ten tasks, vs. the authors' protocol
    layup bench sweep                        k = 1 … 12 from one set of sums, vs. twelve runs
    layup bench sweep --backbone bundled     the same with another network; takes 25 minutes per pair
    layup bench growth                       time and memory for more images (n), dimensions (d), classes
                                             (C) and tasks (T); what fits into 24 GB
    layup bench search --check --save out/   also check λ and labels; save the numbers

    layup and the paper's procedure are timed in turn, so that other load on the machine affects both: trust
    the ratios, not the seconds. `runs` and `sweep` use networks and images, so
    --dim and --classes do not apply to them. At full size, `search` and `sweep`
    take a quarter of an hour or more, the others minutes.
    """
    if what not in (*NAMES, ALL):
        raise unknown_name("measurement", what, [*NAMES, ALL])
    for option, value in (("--dim", dim), ("--classes", classes)):
        if value is not None and value < FEWEST[option]:
            raise InputError(
                f"{option} {value} is too small to measure anything. Give at least {FEWEST[option]}."
            )
    if save is not None:
        storage.make_folder(save)
    usual = QUICK if quick else FULL
    sizes = dim or usual.dim, classes or usual.classes, pairs or usual.pairs
    wanted = Wanted(*sizes, quick, check, backbone)
    for name in NAMES if what == ALL else [what]:
        report = _measured(name, wanted)
        console.show(report.table)
        if save is not None:
            _save(report, save)


def _measured(name: str, wanted: Wanted) -> Report:
    from layup.performance import growth, runs, search, streaming, sweep

    dim, classes, pairs, images = wanted.dim, wanted.classes, wanted.pairs, wanted.images
    if name == "search":
        return search.report(search.measure(dim, classes, pairs, wanted.check))
    if name == "stream":
        samples = 500 if wanted.quick else streaming.SAMPLES
        return streaming.report(streaming.measure(dim, classes, pairs, samples))
    if name == "runs":
        usual = runs.BACKBONES[:1] if wanted.quick else runs.BACKBONES
        networks = usual if wanted.backbone is None else (wanted.backbone,)
        return runs.report(runs.measure(pairs, networks, images))
    if name == "sweep":
        tasks = 1 if wanted.quick else runs.TASKS
        return sweep.report(sweep.measure(pairs, wanted.backbone or sweep.BACKBONE, tasks, images))
    return growth.report(growth.measure(dim, classes, pairs))


def _save(report: Report, folder: Path) -> None:
    """The numbers and a picture of them."""
    from layup.benchmark import plots

    numbers, picture = (folder / f"{report.name}.{ending}" for ending in ("json", "png"))
    storage.write_text(numbers, report.to_json())
    if report.trends:
        plots.growth(picture, report.trends)
    else:
        ratios = {name: (ratio.median, ratio.low, ratio.high) for name, ratio in report.speedups.items()}
        plots.speedups(picture, ratios, report.title)
    console.say(f"{numbers}, {picture}")
