"""The command that runs a method on a dataset, task after task."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layup.cli import console
from layup.cli.app import RESEARCH, app
from layup.cli.options import (
    Address,
    Engine,
    NoCache,
    Ray,
    Workers,
    cluster_of,
    given,
    number_or_rule,
    option_values,
)
from layup.errors import InputError, LayupError
from layup.formats import size_of
from layup.progress import progress_bar

if TYPE_CHECKING:
    from layup.benchmark import Experiment, Record, RunSpec
    from layup.cluster import Cluster
    from layup.features import Reading


@app.command(rich_help_panel=RESEARCH)
def run(
    dataset: Annotated[
        str, typer.Option(help="A name that `layup datasets` lists, folder:PATH or domains:PATH.")
    ],
    setting: Annotated[
        str | None,
        typer.Option(help="cil (new classes), dil (new domains) or ocl (a stream). Default: by dataset."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="A name that `layup methods` lists; NAME+fsa first tunes the network to the first task."
        ),
    ] = "layup",
    option: Annotated[
        list[str] | None,
        typer.Option(help="An option of the method, as NAME=VALUE; `layup methods NAME` lists them."),
    ] = None,
    tasks: Annotated[int | None, typer.Option(help="How many tasks. Default: the dataset's.")] = None,
    seed: Annotated[
        str, typer.Option(help="Seed of the class order, or several: 1993,1994 or 1993-1995.")
    ] = "1993",
    backbone: Annotated[
        str, typer.Option(help="The network: bundled, vit-nano, a timm name with its tag, or hf:NAME.")
    ] = "bundled",
    weights: Annotated[Path | None, typer.Option(help="A weights file for a timm backbone.")] = None,
    input_size: Annotated[
        int | None, typer.Option(help="Height and width of the network's input, in pixels.")
    ] = None,
    engine: Engine = None,
    k: Annotated[
        str | None,
        typer.Option(
            help="How many of the last layers to use; or several: 1,6 or 1-12. Default: by backbone."
        ),
    ] = None,
    lam: Annotated[
        str | None,
        typer.Option(help="Ridge parameter λ: search (default), gcv (default in ocl), or a number."),
    ] = None,
    balance: Annotated[
        bool | None,
        typer.Option(
            "--balance/--no-balance", help="Give small and large classes the same weight. Default: off."
        ),
    ] = None,
    adapt: Annotated[
        str | None,
        typer.Option(
            help="Tune the network to the first task: adaptformer, ssf, vpt, lora, full; none; or auto: what "
            "suits the network, unless held-out images are predicted worse with it. Default: the method's."
        ),
    ] = None,
    preset: Annotated[
        str,
        typer.Option(
            help="How images are preprocessed and networks tuned: default, paper, official (as the authors' "
            "code; it also shuffles VTAB) or ranpac. Methods of others follow their own authors' code."
        ),
    ] = "default",
    preprocessing: Annotated[
        str | None,
        typer.Option(
            help="How images are preprocessed: own (as the network was trained), squash, crop, crop224 or "
            "crop256 (as in RanPAC). Default: the preset's."
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Epochs of tuning on the first task, or of training on every task.", min=1),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate of tuning, or of training.")
    ] = None,
    adapter_seed: Annotated[
        int | None, typer.Option(help="Random seed of tuning. Default: that of --seed.", min=0)
    ] = None,
    first: Annotated[
        int | None,
        typer.Option(help="Number of classes in the first task, if it differs from the others.", min=1),
    ] = None,
    uneven: Annotated[
        str | None,
        typer.Option(help="Which task gets the remainder if classes do not divide evenly: first or last."),
    ] = None,
    shuffle: Annotated[
        bool | None,
        typer.Option(
            "--shuffle/--no-shuffle", help="Shuffle the classes with the seed. Default: by dataset."
        ),
    ] = None,
    order: Annotated[
        str | None,
        typer.Option(
            help="Order of domains: a,b,c, or 'shuffled' (with the seed). Default: the paper's, or sorted."
        ),
    ] = None,
    per_class: Annotated[
        int | None, typer.Option(help="Learn only this many training images per class.", min=1)
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Images per batch in ocl. Default: 10.", min=1)] = None,
    sample: Annotated[
        str | None,
        typer.Option(
            help="Use fewer images: 20x30 is 20 classes, each with at most 30 training and 30 test images."
        ),
    ] = None,
    tested_once: Annotated[
        bool,
        typer.Option(
            "--tested-once",
            help="Test after the last task only: faster for methods that take long to solve, such as ranpac.",
        ),
    ] = False,
    held_out: Annotated[
        float | None,
        typer.Option(
            help="Hold out this share of the training images of every class, and predict these instead of "
            "the test images: to choose a learning rate, for instance."
        ),
    ] = None,
    split_seed: Annotated[
        int, typer.Option(help="Seed for splitting a folder that has no train and test folders.", min=0)
    ] = 0,
    data: Annotated[
        Path | None, typer.Option(help="Where the datasets are. Default: $LAYUP_DATA, or ./data.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the records.")] = Path("results"),
    again: Annotated[
        bool,
        typer.Option("--again", help="Run again even if this run is finished. The feature cache is kept."),
    ] = False,
    no_cache: NoCache = False,
    workers: Workers = None,
    ray: Ray = False,
    address: Address = None,
) -> None:
    """Run a method over the tasks of a dataset, and record the results.

    layup run --dataset digits                       offline, in about a minute
    layup run --dataset digits --k 1,6 --seed 1993-1995
    layup run --dataset digits --seed 1-8 --ray      each seed on a processor
    layup run --dataset digits-styles --setting dil --method nmc
    layup run --dataset digits --setting ocl --batch 1 --lam 1
    layup run --dataset digits --method ranpac --option width=2000
    layup run --dataset digits --backbone vit-nano --method l2p --epochs 2
    layup run --dataset folder:photos --tasks 5      photos/{train,test}/CLASS
    layup run --dataset cifar100 --tasks 10 --seed 1993 --adapt adaptformer \\
        --backbone vit_base_patch16_224.augreg2_in21k_ft_in1k

    The same command resumes an interrupted run, and does not repeat a finished
    one. Then:
    layup compare results/                           a table
    layup plot results/                              pictures
    """
    from layup.backbones import EAGER
    from layup.benchmark import RunSpec

    depths = None if k is None else _numbers(k, "--k", "6 or 1,6 or 1-12")
    own = {"k": depths, "lam": number_or_rule(lam), "balance": balance}
    spec = RunSpec(
        dataset,
        setting=setting,
        method=method,
        options={**given(own), **option_values(option or [])},
        backbone=backbone,
        weights=weights,
        input_size=input_size,
        engine=engine or EAGER,
        adapter=adapt,
        session=given({"seed": adapter_seed}),
        preset=preset,
        preprocessing=preprocessing,
        tasks=tasks,
        first=first,
        uneven=uneven,
        shuffled=shuffle,
        batch=batch,
        per_class=per_class,
        order=order if order in (None, "shuffled") else [name.strip() for name in order.split(",")],
        sample=None if sample is None else _sizes(sample),
        tested_once=tested_once,
        held_out=held_out,
        split_seed=split_seed,
        data=data,
    ).trained(epochs=epochs, learning_rate=learning_rate)
    specs = [replace(spec, seed=number) for number in _numbers(seed, "--seed", "1993 or 1993-1995")]
    spec.load_method()  # unknown options are refused before anything is loaded
    reading: Reading = {"cache": not no_cache, "workers": workers}
    if (cluster := cluster_of(ray, address)) is not None:
        _spread(specs, out, cluster, reading, again)
    else:
        _run(specs, out, reading, again)


def _run(specs: Sequence[RunSpec], out: Path, reading: Reading, again: bool) -> None:
    """Run what differs in its seed alone, one after another."""
    loaded, network = specs[0].load_dataset(), specs[0].load_backbone()
    for each in specs:
        _show(each.resolve(out, reading=reading, dataset=loaded, backbone=network), again)


def _spread(specs: Sequence[RunSpec], out: Path, cluster: Cluster, reading: Reading, again: bool) -> None:
    """Run all of them on a cluster, and print the results as they come; one that fails stops no other."""
    from layup.benchmark import spread_runs
    from layup.benchmark.comparison import authors_passes

    failed = 0
    with progress_bar(None, "runs") as bar:
        task = bar.add_task("Running", total=len(specs), note="")
        for number, found in spread_runs(specs, out, cluster, reading=reading, again=again):
            bar.advance(task)
            seed = specs[number].seed
            if isinstance(found, LayupError):
                failed += 1
                console.remark(f"Seed {seed} failed: {found}")
            elif found.before:
                _was_finished(found.records, found.paths(out))
            else:
                console.say(f"Seed {seed}:")
                passes = authors_passes(next(iter(found.records.values())))
                console.measured(found.records, found.paths(out), passes)
    if failed:
        raise LayupError(f"{failed} of {len(specs)} runs failed. The same command repeats only these.")


def _show(experiment: Experiment, again: bool) -> None:
    """Run an experiment with a growing table, and print the results."""
    from layup.benchmark import run as run_experiment
    from layup.benchmark.comparison import authors_passes

    done = None if again else experiment.finished()
    if done:
        _was_finished(done, experiment.paths)
        return
    _warn_of_small_cache(experiment)
    if experiment.forecast is not None:
        console.forecast(experiment.forecast)
    scenario, variants = experiment.scenario, list(experiment.blank)
    method = experiment.blank[variants[0]].run["method"]
    title = f"{scenario.dataset.name}, {scenario.setting}, {method}, seed {scenario.seed}"
    names = [f"A_t, k = {name}" if name else "A_t" for name in variants]
    extra = ["F_t", "λ"] if len(variants) == 1 else []
    columns = ["task", "images", *names, *extra, "learn s", "predict s", "passes"]
    shown: list[list[str]] = []
    with console.live_table(title, columns, len(scenario.tasks)) as (add_row, advance):

        def on_task(records: Mapping[str, Record]) -> None:
            while len(shown) < len(records[variants[0]].steps):
                shown.append(_row(records, len(shown)))
                add_row(*shown[-1])
                advance()

        records = run_experiment(experiment, again=again, progress=False, on_task=on_task, on_wait=_waiting)
    console.measured(dict(zip(variants, records, strict=True)), experiment.paths, authors_passes(records[0]))


def _was_finished(records: Mapping[str, Record], paths: Mapping[str, Path]) -> None:
    console.remark("This run is finished already (--again repeats it):")
    for name, path in paths.items():
        console.remark(f"  {path}: average accuracy {records[name].summary['average_accuracy']:.3f}")


def _waiting(holder: str) -> None:
    console.remark(f"Waiting: the same run is in progress by {holder} …")


def _warn_of_small_cache(experiment: Experiment) -> None:
    """Warn if the cache cannot hold the features of all images: some will then be computed again."""
    from layup.features import FeatureCache

    if experiment.reading.get("cache") is False:
        return
    backbone, dataset = experiment.backbone, experiment.scenario.dataset
    images = len(dataset.train) + len(dataset.test)
    needed = 4 * images * (sum(layer.width for layer in backbone.layers) + backbone.embedding_width)
    limit = FeatureCache().limit_bytes
    if needed > 0.9 * limit:  # it makes room before it is full
        console.remark(
            f"The features of {images:,} images take {size_of(needed)}, but the cache is limited to "
            f"{size_of(limit)}: images will pass the network more than once. "
            "The variable LAYUP_CACHE_LIMIT sets the limit, such as 50GB."
        )


def _row(records: Mapping[str, Record], task: int) -> list[str]:
    from layup.benchmark.metrics import average_accuracy_curve, forgetting_curve

    first = next(iter(records.values()))
    step = first.steps[task]
    row = [first.tasks[task].name, f"{first.tasks[task].train:,}"]
    row += [_number(average_accuracy_curve(record.matrix)[task]) for record in records.values()]
    if len(records) == 1:
        forgotten = forgetting_curve(first.matrix)[task]
        lam = step.chosen.get("lambda")
        row += [_number(forgotten), "" if lam is None else f"{lam:.3g}"]
    return [*row, f"{step.learn_seconds:.1f}", f"{step.predict_seconds:.1f}", f"{step.forward_passes:,}"]


def _number(value: float) -> str:
    """With three digits; nothing for what was not tested.

    >>> _number(0.5), _number(math.nan)
    ('0.500', '')
    """
    return "" if math.isnan(value) else f"{value:.3f}"


def _sizes(text: str) -> tuple[int, int]:
    """Classes and images of each.

    >>> _sizes("20x30")
    (20, 30)
    """
    match = re.fullmatch(r"\s*(\d+)\s*[x×]\s*(\d+)\s*", text)
    if not match:
        raise InputError(f"--sample {text!r} cannot be read. Write CLASSESxIMAGES, such as 20x30.")
    return int(match[1]), int(match[2])


def _numbers(text: str, option: str, example: str) -> list[int]:
    """Numbers and ranges of numbers.

    >>> _numbers("1-3,6", "--k", "6 or 1-12")
    [1, 2, 3, 6]
    """
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if not match or (match[2] and int(match[2]) < int(match[1])):
            raise InputError(f"{option} {text!r} cannot be read. Write numbers, such as {example}.")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return list(dict.fromkeys(found))
