"""What a page says before its tables: which datasets, networks and versions, and what that means."""

from __future__ import annotations

from contextlib import suppress

from layup import machine
from layup.errors import LayupError
from layup.reproduction.config import VITS
from layup.reproduction.paper import PRINTED
from layup.reproduction.results import Results


def introduction(results: Results) -> list[str]:
    """A few sentences on datasets, networks and sizes, to judge the numbers by."""
    config = results.config
    columns = ", ".join(column.label for column in config.columns)
    networks = ", ".join(f"{name} for {role}" for role, name in config.networks.items())
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions().items())
    found = [f"Datasets: {columns}. Networks: {networks}. Seed 1993 unless said otherwise."]
    if not config.like_paper:
        found.append(
            f"This is not the paper's experiment: that has ViT-B/16 ({' and '.join(VITS.values())}) and "
            "ten datasets. Its numbers are shown next to ours to compare patterns, not values."
        )
    sizes = [f"{each.label} {each.sample[0]} × {each.sample[1]}" for each in config.columns if each.sample]
    if sizes:
        found.append(
            "A miniature: at most this many classes × images of each (in each domain), for training and for "
            f"testing, by a fixed seed: {', '.join(sizes)}. Its intervals are wide."
        )
    cut = []
    if config.epochs is not None:
        cut.append(
            f"methods that train pass {config.epochs} × over their images, less often than their recipes"
        )
    if config.session_epochs is not None:
        cut.append(f"first sessions have at most {config.session_epochs} epochs")
    cut += [
        f"{method} has {name} = {value}"
        for method, own in config.options.items()
        for name, value in own.items()
    ]
    cut += [f"{method} is left out" for method in config.without]
    if cut:
        found.append(f"Cut for time: {'; '.join(cut)}.")
    found += _other_data(results)
    found.append(f"First sessions and images: preset '{config.preset}'. Versions: {versions}.")
    return found


def _other_data(results: Results) -> list[str]:
    """Where a dataset on disk is not as large as the paper's, so that its numbers are of other images."""
    found = []
    for column in results.config.columns if results.config.like_paper else ():
        paper = PRINTED["table6"].rows[column.label]
        with suppress(LayupError):
            dataset = results.runner.dataset(column)
            ours = len(dataset.train), len(dataset.test)
            if ours != (paper["train"], paper["test"]):
                found.append(
                    f"{column.label} on disk has {ours[0]:,} training and {ours[1]:,} test images, the "
                    f"paper's {paper['train']:,.0f} and {paper['test']:,.0f}: the numbers are of other data."
                )
    return found
