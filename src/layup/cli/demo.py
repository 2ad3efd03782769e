"""`layup demo`: see it work, offline."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from layup import storage
from layup.cli import console
from layup.cli.app import app
from layup.formats import duration


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for a picture, a model and a few images.")] = Path("demo"),
) -> None:
    """See it work, offline: ten digits in five tasks, two new classes at a time."""
    from layup.benchmark import plots
    from layup.cli.digits import demo_models, digits_scenario, digits_tasks, run_demo, save_examples

    started = time.monotonic()
    storage.make_folder(out)
    picture, model = out / "curves.png", out / "digits.layup"
    for file in (picture, model):
        storage.require_writable(file)
    scenario = digits_scenario()
    tasks = scenario.tasks
    models = demo_models()
    series: dict[str, list[float]] = {name: [] for name in models}
    with console.live_table(
        "Average accuracy on all digits so far", ["task", "new digits", *models], len(tasks) * len(models)
    ) as (add_row, advance):
        for name, value in run_demo(models, scenario):
            series[name].append(value)
            advance()
            if name == list(models)[-1]:
                task = len(series[name])
                averages = [f"{values[-1]:.3f}" for values in series.values()]
                add_row(str(task), " and ".join(tasks[task - 1].classes), *averages)
    plots.curves(picture, series, "Ten digits, learned two at a time", "average accuracy")
    models[list(models)[-1]].save(model)
    examples = save_examples(out / "images", digits_tasks()[0])
    console.say(f"Done in {duration(time.monotonic() - started)}. Picture: {picture}. Model: {model}. Try:")
    console.say(f"  layup predict {model} {examples[0].parent}")
