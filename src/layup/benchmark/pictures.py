"""Records → picture files: what is drawn of compared runs, and how the files are named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from layup import storage
from layup.benchmark import plots
from layup.benchmark.comparison import (
    Comparison,
    Group,
    accuracy_curve,
    compare_to,
    forgetting_curve,
    over_all_curve,
)
from layup.benchmark.results import Record


def figures(
    records: Iterable[Record],
    folder: str | Path = "plots",
    *,
    against: str | None = None,
    formats: Sequence[str] = ("png",),
) -> list[Path]:
    """Draw runs: what `layup plot` does. Gives the paths of the pictures.

    The pictures show accuracy and forgetting over tasks, confusion matrices, and which classes change: from
    one experiment to the others or, if there is only one, from when they were new to the end. Lines are means
    over seeds, shades the standard error. Each dataset and setting has its own folder, if there are several.

    >>> import tempfile
    >>> from layup.benchmark import RunSpec, run
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     records = run(RunSpec("digits", method="nmc", backbone="vit-nano", sample=(4, 3)), folder)
    ...     [path.name for path in figures(records, folder)]
    ['over-tasks.png', 'confusion-nmc.png', 'per-class-nmc.png']

    Args:
        records: of finished runs.
        folder: where the pictures go.
        against: the experiment that others are compared to, by its label or number; by default the first.
        formats: endings of files that Matplotlib knows, such as "png" and "svg".
    """
    parts = compare_to(records, against)
    folders = [Path(folder)]
    if len(parts) > 1:
        folders = [Path(folder) / name for name in _file_names(found.subject for found, _ in parts)]
    drawn = []
    for (found, baseline), home in zip(parts, folders, strict=True):
        storage.make_folder(home)
        for name, draw in _pictures(found, baseline or found.groups[0]):
            for ending in formats:
                drawn.append(home / f"{name}.{ending}")
                draw(drawn[-1])
    return drawn


def _pictures(found: Comparison, baseline: Group) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """The name of each picture, and what draws it to a path."""
    groups = found.groups
    curves = {"average accuracy Aₜ": accuracy_curve, "forgetting Fₜ": forgetting_curve}
    if any(group.run.get("setting") == "dil" for group in groups):
        curves["mean accuracy of all domains"] = over_all_curve
    panels = {what: {group.label: group.curve(of) for group in groups} for what, of in curves.items()}
    yield "over-tasks", partial(plots.over_tasks, panels=panels, title=found.subject)
    names = _file_names(group.label for group in groups)
    for group, name in zip(groups, names, strict=True):
        labels, table = group.confusion()
        learned = labels == group.records[0].class_order and group.run.get("setting") != "dil"
        order = (
            "of learning"
            if learned
            else "of the dataset"
            if labels == group.records[0].class_order
            else "of names"
        )
        title = f"{group.label}, after the last task; classes in the order {order}"
        yield f"confusion-{name}", partial(plots.confusion_matrix, labels=labels, table=table, title=title)
    base = names[groups.index(baseline)]
    ends = baseline.per_class()
    if len(groups) == 1:
        title = f"{baseline.label}: from when a class was new to the end"
        first = baseline.per_class(first=True)
        yield f"per-class-{base}", partial(plots.per_class_change, before=first, after=ends, title=title)
    for group, name in zip(groups, names, strict=True):
        after = group.per_class()
        if group is not baseline and ends.keys() & after.keys():  # not those of other data
            title = f"{group.label}, compared to {baseline.label}"
            draw = partial(plots.per_class_change, before=ends, after=after, title=title)
            yield f"per-class-{name}-vs-{base}", draw


def _file_names(labels: Iterable[str]) -> list[str]:
    """A file name for each label, all different; also where upper and lower case are the same.

    >>> _file_names(["layup k=6", "nmc/a", "nmc a", "NMC a"])
    ['layup-k=6', 'nmc-a', 'nmc-a-2', 'NMC-a-3']
    """
    found: list[str] = []
    seen: dict[str, int] = {}
    for label in labels:
        name = "".join(letter if letter.isalnum() or letter in "-_.=" else "-" for letter in label)
        count = seen[name.lower()] = seen.get(name.lower(), 0) + 1
        found.append(name if count == 1 else f"{name}-{count}")
    return found
