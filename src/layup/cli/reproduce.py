"""The command that reproduces tables and figures of the paper, next to the paper's numbers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layup.cli import console
from layup.cli.app import RESEARCH, app
from layup.cli.options import Address, NoCache, Ray, Workers, cluster_of, given
from layup.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    from layup.features import Reading
    from layup.reproduction import ReproductionConfig, Section


@app.command(rich_help_panel=RESEARCH)
def reproduce(
    items: Annotated[
        list[str] | None,
        typer.Argument(
            help="table1 … table7, figure2 … figure8, complexity, claims, or all.", metavar="ITEMS"
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where the datasets are. Default: $LAYUP_DATA, or ./data.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Everything in miniature, offline: on digits, or on a sample of the datasets in --data.",
        ),
    ] = False,
    local: Annotated[
        bool,
        typer.Option(
            "--local",
            help="All images of the datasets in --data, with the two networks that come with layup.",
        ),
    ] = False,
    backbone: Annotated[
        str | None,
        typer.Option(
            help="The network for the paper's IN1K, as in `layup run`. Default: its ViT-B/16, or vit-nano "
            "with --quick and --local."
        ),
    ] = None,
    weights: Annotated[
        Path | None, typer.Option(help="A weights file for --backbone, if it is one of timm.")
    ] = None,
    input_size: Annotated[
        int | None, typer.Option(help="Height and width of the input of --backbone, in pixels.")
    ] = None,
    report: Annotated[
        Path, typer.Option(help="Folder for the page: reproduction.html, reproduction.md and pictures.")
    ] = Path("reproduction"),
    out: Annotated[Path, typer.Option(help="Folder of the records, as in `layup run`.")] = Path("results"),
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Only list the runs, with their images and a forecast of time and memory."
        ),
    ] = False,
    finished: Annotated[
        bool, typer.Option("--finished", help="Run nothing; make the page from the runs that are finished.")
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            help="For Figure 4: images like those that the networks were trained on, as folder:PATH. The "
            "paper uses miniImageNet."
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Epochs of methods that train. Default: by method; 1 with --quick.", min=1),
    ] = None,
    session_epochs: Annotated[
        int | None,
        typer.Option(help="Epochs of tuning to the first task. Default: by preset; 3 with --quick.", min=1),
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="Leave this method out; may be given several times.")
    ] = None,
    preset: Annotated[
        str, typer.Option(help="How networks are tuned: default, paper or official, as in `layup run`.")
    ] = "default",
    no_cache: NoCache = False,
    workers: Workers = None,
    ray: Ray = False,
    address: Address = None,
) -> None:
    """Reproduce tables and figures of the paper, next to its own numbers. Missing runs are run first.

    layup reproduce all --quick                    everything in miniature, offline, in minutes
    layup reproduce all --quick --data photos/     the same with a sample of two datasets in photos/
    layup reproduce table1 --data /mnt/data        the paper's own networks and datasets
    layup reproduce all --data /mnt/data --dry-run what would run, and how long it would take
    layup reproduce all --local --data photos/     all images in photos/, the networks that come with layup
    layup reproduce all --local --data photos/ --backbone vit_tiny_patch16_224 \\
        --weights vit-tiny.safetensors             with a network of your own beside the bundled one
    layup reproduce all --quick --ray              its runs on all processors
    layup reproduce claims --quick                 which of the paper's claims hold
    layup reproduce                                list the tables and figures

    The records are those of `layup run`: finished runs are not repeated, and
    interrupted ones are resumed. If something cannot be run, its cell in the
    table says why. The page is written to --report.
    """
    from layup.reproduction import ALL, ITEMS, forecast, reproduce

    if not items:
        console.table(["name", "what it is"], [[item.name, item.title] for item in ITEMS.values()], 2)
        console.say(f"Also: {ALL}.")
        return
    if quick and local:
        raise InputError("Give --quick or --local, not both: one is a sample, the other is everything.")
    settings = {
        "source": source,
        "preset": preset,
        "epochs": epochs,
        "session_epochs": session_epochs,
        "without": tuple(without or ()),
    }
    config = _config(quick, local, data, settings)
    loading = given({"weights": weights, "input_size": input_size})
    if backbone is not None:
        config = config.with_network(backbone, **loading)
    elif loading:
        raise InputError("--weights and --input-size are of the network of --backbone: give that as well.")
    reading: Reading = {"cache": not no_cache, "workers": workers}
    kept: Any = {"records": out, "reading": reading}
    if dry_run:
        console.show(forecast(items, config, **kept))
        return
    if local and not finished:
        console.say(forecast(items, config, **kept).notes[0])
    cluster = cluster_of(ray, address)
    page = reproduce(items, config, **kept, only_finished=finished, cluster=cluster, say=console.remark)
    for section in page.sections:
        _show(section)
    html, markdown = page.save(report)
    console.say(f"Page: {html}, and as Markdown: {markdown}")


def _config(quick: bool, local: bool, data: Path | None, settings: dict[str, Any]) -> ReproductionConfig:
    from layup.reproduction import local_config, paper_config, quick_config

    make = quick_config if quick else local_config if local else paper_config
    try:
        return make(data, **settings)
    except UnknownNameError:
        raise
    except InputError as error:
        hint = "Give --data DIR, or --quick without it; `layup datasets` lists the paper's."
        raise InputError(f"{error} {hint}") from None


def _show(section: Section) -> None:
    console.say("")
    console.say(section.title)
    for table in section.shown.tables:
        console.show(table)
    for sentence in (*section.says, *section.footnotes):
        console.say(sentence)
