"""What a page says before its tables: where it was made, with what, and what that means."""

from __future__ import annotations

from layup import machine
from layup.suites.study import Study
from layup.suites.world import VITS


def introduction(study: Study) -> list[str]:
    """A few sentences on datasets, networks and sizes, for people who judge the numbers by them."""
    world = study.world
    columns = ", ".join(column.label for column in world.columns)
    networks = ", ".join(f"{name} for {role}" for role, name in world.networks.items())
    versions = ", ".join(f"{name} {number}" for name, number in machine.versions().items())
    found = [f"Datasets: {columns}. Networks: {networks}. Seed 1993 unless said otherwise."]
    if not world.like_paper:
        found.append(
            f"This is not the paper's experiment: that has ViT-B/16 ({' and '.join(VITS.values())}) and "
            "ten datasets. Its numbers stand beside ours to compare their pattern, not their height."
        )
    sizes = [f"{each.label} {each.sample[0]} × {each.sample[1]}" for each in world.columns if each.sample]
    if sizes:
        found.append(
            "A miniature: at most so many classes × images of each (in each domain), for training and for "
            f"testing, by a fixed seed: {', '.join(sizes)}. Its intervals are wide."
        )
    cut = []
    if world.epochs is not None:
        cut.append(f"methods that train have {world.epochs} epochs instead of those of their recipes")
    if world.session_epochs is not None:
        cut.append(f"first sessions have at most {world.session_epochs} epochs")
    cut += [
        f"{method} has {name} = {value}"
        for method, own in world.options.items()
        for name, value in own.items()
    ]
    cut += [f"{method} is left out" for method in world.without]
    if cut:
        found.append(f"Cut for time: {'; '.join(cut)}.")
    found.append(f"First sessions and images: preset '{world.preset}'. Versions: {versions}.")
    return found
