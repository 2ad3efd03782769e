"""Commands about datasets: list them, check them, and get them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layup.cli import console
from layup.cli.options import AsJson
from layup.errors import InputError

if TYPE_CHECKING:
    from layup.benchmark.datasets import Report, Source

Data = Annotated[
    Path,
    typer.Option(
        "--data",
        help="The folder that contains all datasets, or the folder of this dataset.",
        envvar="LAYUP_DATA",
        metavar="DIR",
    ),
]
Name = Annotated[
    str,
    typer.Argument(help="A name that `layup datasets` lists, folder:PATH or domains:PATH.", metavar="NAME"),
]
HERE = Path("data")

datasets_app = typer.Typer()


@datasets_app.callback(invoke_without_command=True)
def datasets(context: typer.Context, data: Data = HERE) -> None:
    """List the datasets, their sizes, and which of them are on disk.

    layup datasets                         all datasets, and which are in ./data
    layup datasets --data /mnt/data        the same for /mnt/data
    layup datasets check cub200            is it complete, and can every image be read?
    layup datasets get cifar100            download it, or explain where to get it

    Settings are cil (class-incremental: new classes with every task), dil
    (domain-incremental: new domains) and ocl (online: new classes in a stream,
    each image seen once).
    """
    if context.invoked_subcommand:
        return
    from layup.benchmark.datasets import DATASETS, data_folder

    data = data_folder(data)
    rows = []
    for entry in DATASETS.values():
        source = entry()
        train, test = next(iter(source.counts.values()), (None, None))
        sizes = [f"{count:,}" if count is not None else "" for count in (source.classes, train, test)]
        rows.append(
            [source.name, ", ".join(source.settings), *sizes, str(source.tasks), _found(source, data)]
        )
    console.table(["dataset", "settings", "classes", "train", "test", "tasks", "found"], rows)
    console.say(
        "Also: folder:PATH, where PATH contains train/CLASS and test/CLASS, or only CLASS, which is then "
        "split; and domains:PATH, where PATH contains DOMAIN/train/CLASS and DOMAIN/test/CLASS."
    )


@datasets_app.command()
def check(
    name: Name,
    data: Data = HERE,
    as_json: AsJson = False,
) -> None:
    """Check a dataset on disk: its layout, how many images it has, and that
    every image can be read.

    layup datasets check cub200 --data /mnt/data
    layup datasets check domains:photos        works for your own folders, too

    If a dataset is in circulation in two versions, either is accepted, and the
    output says which one it is.
    The exit code is 1 if anything is wrong.
    """
    from layup.benchmark.datasets import check_dataset

    report = check_dataset(name, data)
    if as_json:
        console.print_json(report.to_dict())
    else:
        console.facts(
            {
                "dataset": report.name,
                "folder": report.folder or "built in",
                "layout": report.layout,
                "classes": f"{report.classes:,}",
                "images": f"{report.train:,} for training, {report.test:,} for testing",
                "numbers": _numbers(report),
            }
        )
        if report.domains:
            console.table(
                ["domain", "train", "test"],
                [[domain, f"{train:,}", f"{test:,}"] for domain, (train, test) in report.domains.items()],
            )
        for problem in report.problems[: console.MANY]:
            console.say(f"- {problem}")
        if len(report.problems) > console.MANY:
            console.say(f"… and {len(report.problems) - console.MANY:,} more; --json lists all.")
        console.say("All is well." if report.ok else f"Problems: {len(report.problems):,}.")
    if not report.ok:
        raise typer.Exit(1)


@datasets_app.command()
def get(name: Name, data: Data = HERE) -> None:
    """Download a dataset if that is possible; otherwise explain where to get it.

    layup datasets get cifar100                169 MB into ./data
    layup datasets get imagenet-r              where to get it, and where to put it
    """
    from layup.benchmark.datasets import data_folder, source_of

    source, data = source_of(name), data_folder(data)
    if source.build is not None:
        console.say(f"{name} is built in: there is nothing to get.")
        return
    if source.locate(data) is None and source.download is not None:
        source.download(data)
    folder = source.require(data).folder  # or raises, and says what is expected and where to get it
    console.say(f"{name} is in '{folder}'. Check it with: layup datasets check {name} --data '{data}'")


def _numbers(report: Report) -> str:
    if report.matches:
        return f"those of {report.matches}"
    return "not the known ones" if report.known else "nothing to compare them with"


def _found(source: Source, data: Path) -> str:
    if source.build is not None:
        return "always"
    try:
        found = source.locate(data, by_name=True)
    except InputError:
        return "unreadable"
    return "no" if found is None else found.name
