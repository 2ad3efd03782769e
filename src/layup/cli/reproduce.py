"""The command for reviewers: every table and figure of the paper by name, beside the paper's numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layup.cli import console
from layup.cli.app import app
from layup.cli.options import NoCache, Workers
from layup.errors import InputError
from layup.registry import unknown_name

if TYPE_CHECKING:
    from layup.reproduction import (
        Estimate,
        Item,
        Job,
        ReproductionConfig,
        Results,
        Runner,
        Section,
        Sheet,
        Wanted,
    )

CLAIMS = "claims"
MISSING = "Missing:"


@app.command()
def reproduce(
    items: Annotated[
        list[str] | None,
        typer.Argument(help="table1 … table7, figure2 … figure8, complexity, claims, or all."),
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Where the datasets are. Default: $LAYUP_DATA, or ./data.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Everything in miniature, offline: digits, or with --data a sample of what is there.",
        ),
    ] = False,
    local: Annotated[
        bool,
        typer.Option("--local", help="All datasets in --data, whole, with the two networks of layup's own."),
    ] = False,
    report: Annotated[
        Path, typer.Option(help="Folder of the page: reproduction.html, reproduction.md and pictures.")
    ] = Path("reproduction"),
    out: Annotated[Path, typer.Option(help="Folder of the records, as of `layup run`.")] = Path("results"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the runs, with images, time and memory forecast.")
    ] = False,
    finished: Annotated[
        bool, typer.Option("--finished", help="Run nothing: a page of what is finished so far.")
    ] = False,
    source: Annotated[
        str | None,
        typer.Option(
            help="For Figure 4: images that stand for the networks' training data, folder:PATH. The paper's "
            "are miniImageNet."
        ),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(help="Of methods that train. Default: their recipes'; quick: 1.", min=1)
    ] = None,
    session_epochs: Annotated[
        int | None, typer.Option(help="Of first sessions. Default: the preset's; quick: 3.", min=1)
    ] = None,
    without: Annotated[
        list[str] | None, typer.Option(help="Leave this method out; may be given several times.")
    ] = None,
    preset: Annotated[
        str, typer.Option(help="How networks are tuned: default, paper, official, as of `layup run`.")
    ] = "default",
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Reproduce tables and figures of the paper: run what is missing, set it beside the paper's numbers.

    layup reproduce all --quick                    everything in miniature, offline, in minutes
    layup reproduce all --quick --data photos/     the same with a sample of two datasets that are there
    layup reproduce table1 --data /mnt/data        the paper's own networks and datasets
    layup reproduce all --data /mnt/data --dry-run what that would take
    layup reproduce all --local --data photos/     all images there, layup's own networks
    layup reproduce claims --quick                 which of the paper's claims hold
    layup reproduce                                what there is

    Runs leave the records of `layup run`: what is finished is not run again, and what was killed goes on.
    What cannot be run leaves a cell that says why. The page is written to --report.
    """
    from layup.reproduction import ALL, ITEMS, Runner, items_of, source_images
    from layup.tuning import PRESETS

    if not items:
        console.table(["name", "what it is"], [[item.name, item.title] for item in ITEMS.values()], 2)
        console.say(f"Also: {CLAIMS} (which of the paper's claims hold) and {ALL}.")
        return
    if preset not in PRESETS:
        raise unknown_name("preset", preset, PRESETS)
    if source is not None:
        source_images(source, data)  # refused now rather than after hours
    if quick and local:
        raise InputError("Give --quick or --local, not both: one is a sample, the other is everything.")
    named = [name for name in items if name != CLAIMS]
    chosen = items_of(named)
    claims = CLAIMS in items or ALL in items
    settings = {
        "source": source,
        "preset": preset,
        "epochs": epochs,
        "session_epochs": session_epochs,
        "without": _methods(without or []),
    }
    config = _config(quick, local, data, settings)
    runner = Runner(config, out, {"cache": not no_cache, "workers": workers}, finished)
    wanted = _wanted(runner, chosen, claims)
    if dry_run:
        _forecast(runner, runner.jobs(wanted))
        return
    if local and not finished:
        _forecast(runner, runner.jobs(wanted), brief=True)
    results = _gathered(runner, wanted)
    _show(results, chosen, claims, report)


def _methods(names: Sequence[str]) -> tuple[str, ...]:
    from layup.benchmark.methods import METHODS

    for name in names:
        if name not in METHODS:
            raise unknown_name("method", name, METHODS)
    return tuple(names)


def _config(quick: bool, local: bool, data: Path | None, settings: dict[str, Any]) -> ReproductionConfig:
    from layup.reproduction import local_config, paper_config, quick_config

    make = quick_config if quick else local_config if local else paper_config
    return make(data, **settings)


def _wanted(runner: Runner, chosen: Sequence[Item], claims: bool) -> Wanted:
    """Every run that the page needs, once."""
    from layup.reproduction import claims as judged

    found = [each for item in chosen for each in item.kind.wanted(runner)]
    found += judged.wanted(runner) if claims else []
    return list(dict.fromkeys(found))


def _gathered(runner: Runner, wanted: Wanted) -> Results:
    """All records, run where they are missing, with a line for each run."""
    from layup.reproduction import RUNNING, Results

    total = len(runner.jobs(wanted))
    done = 0

    def on_job(job: Job, what: str) -> None:
        nonlocal done
        done += what != RUNNING
        console.remark(f"[{min(done + (what == RUNNING), total)}/{total}] {_title(runner, job)}: {what}")

    return Results(runner, runner.gather(wanted, on_job))


def _title(runner: Runner, job: Job) -> str:
    """A run in a line."""
    spec = job.spec
    words = [job.column.label, spec.setting, spec.method, runner.config.networks[spec.network or ""]]
    words += [spec.adapter] if spec.adapter else []
    words += [f"{name}={value}" for name, value in spec.options]
    if job.depths:
        first, last = job.depths[0], job.depths[-1]
        words.append(f"{'layer' if spec.method == 'ridge' else 'k'} {first}{f' … {last}' * (last > first)}")
    words += [f"{spec.tasks} tasks"] if spec.tasks else []
    words += [f"{spec.per_class} a class"] if spec.per_class else []
    return ", ".join([*words, f"seed {spec.seed}"])


def _forecast(runner: Runner, jobs: Sequence[Job], brief: bool = False) -> None:
    """What is still to be done, run by run and in all."""
    from layup.reproduction import estimates, total_seconds

    found = estimates(runner, jobs)
    if not brief:
        rows = [[_title(runner, each.job), *_forecast_cells(each)] for each in found]
        console.table(["run", "images", "training passes", "time", "memory"], rows)
    open_runs = [each for each in found if not each.finished and not each.why]
    lacking = sum(bool(each.why) for each in found)
    memory = max((each.memory or 0 for each in open_runs), default=0)
    console.say(
        f"{len(open_runs)} of {len(found)} runs are to be done, {lacking} cannot be: "
        f"{sum(each.passes for each in open_runs):,} images to read, "
        f"{sum(each.training for each in open_runs):,} training passes, about "
        f"{_duration(total_seconds(open_runs))} on this machine, at most {console.size_of(memory)} beside "
        "the network. A rough guess; what is in the cache need not be read again."
    )


def _forecast_cells(each: Estimate) -> list[str]:
    if each.finished or each.why:
        return [each.why or "finished", "", "", ""]
    memory = "" if each.memory is None else console.size_of(each.memory)
    return [f"{each.passes:,}", f"{each.training:,}", _duration(each.seconds), memory]


def _duration(seconds: float) -> str:
    """A time as people say it.

    >>> _duration(42), _duration(600), _duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _show(results: Results, chosen: Sequence[Item], claims: bool, folder: Path) -> None:
    from layup.reproduction import introduction, page as report

    sections = _sections(results, chosen, claims)
    for section in sections:
        console.say("")
        console.say(section.title)
        for sheet in section.shown.sheets:
            _sheet(sheet)
        for sentence in (*section.says, *section.footnotes):
            console.say(sentence)
    page, markdown = report.write(folder, "LayUP, reproduced", introduction(results), sections)
    console.say(f"Page: {page}, and as Markdown: {markdown}")


def _sheet(sheet: Sheet) -> None:
    """A table; columns that only repeat the paper's are for the page, a screen is too narrow for them."""
    from layup.reproduction import cell_text, lettered

    if sheet.title:
        console.say(sheet.title)
    shown = slice(len(sheet.columns) - sheet.printed)
    rows = [[line.label, *map(cell_text, line.cells[shown])] for line in sheet.lines]
    console.table(["", *sheet.columns[shown]], rows)
    for reason in lettered(sheet):
        console.say(f"{MISSING} {reason}")
    for note in sheet.notes:
        console.say(note)


def _sections(results: Results, chosen: Sequence[Item], claims: bool) -> list[Section]:
    from layup.reproduction import FOOTNOTES, SAYS, Section, claims as judged

    found = []
    if claims:
        about = "The paper's claims, judged by paired differences between runs of this page."
        found.append(Section(CLAIMS, "Which claims hold here", about, judged.judged(results)))
    for item in chosen:
        says, footnotes = SAYS.get(item.name, ()), FOOTNOTES.get(item.name, ())
        found.append(Section(item.name, item.title, item.about, item.kind.show(results), says, footnotes))
    return found
