"""`layup sync`: a model that is always that of its folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated

import typer

from layup.cli import console, reports
from layup.cli.app import app
from layup.cli.files import held, labelled
from layup.cli.networks import Wanted
from layup.cli.options import (
    AllowBackbone,
    Backbone,
    K,
    LabelColumn,
    Photos,
    Root,
    Strict,
    To,
    Weights,
    Workers,
)
from layup.errors import InputError, LayupError

if TYPE_CHECKING:
    from layup.model import BatchReport, ImageModel


@app.command()
def sync(
    photos: Photos,
    to: To,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done. The model is not changed.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until Ctrl-C: sync whenever the folder changes.")
    ] = False,
    every: Annotated[
        float, typer.Option(help="With --watch: how often to look at the folder, in seconds.", min=0.1)
    ] = 5.0,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also forget more than half of what the model knows.")
    ] = False,
    label: LabelColumn = None,
    root: Root = None,
    backbone: Backbone = None,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    k: K = None,
    strict: Strict = False,
    workers: Workers = None,
) -> None:
    """Make a model equal to a folder: learn what is new, move what changed class, forget what is gone.

    layup sync photos/ --to m.layup        a second run does nothing
    layup sync photos/ --to m.layup --dry-run
    layup sync photos/ --to m.layup --watch

    Photos that are gone are forgotten exactly, with their features from the
    cache of this machine, and then deleted from it. If the cache does not have
    them, they stay in the model: sync says which, and the exit code is 1.
    """
    if watch and not photos.exists():
        raise InputError(f"Only a folder or a file can be watched, and '{photos}' is none.")
    wanted = Wanted(backbone, k=k, reading={"workers": workers})

    def once() -> bool:
        """Whether the model now equals the folder."""
        from layup.model import all_known

        paths, labels = labelled(photos, False, label, root)
        with held(to):
            if to.exists() and wanted.any_network and (known := all_known(to, paths, labels, wanted.reading)):
                reports.unchanged(to, known.header)
                return True
            model = wanted.opened(to, weights, allow_backbone)
            done = model.sync(paths, labels, dry_run=True)
            if not dry_run and done.changed:
                _require_intended(done, model, yes)
                done = model.sync(paths, labels, strict=strict)
                if done.changed:
                    model.expect()
                    model.save(to)
        if dry_run:
            console.say("Nothing was changed. This is what would be done:")
        reports.batch(done, model, paths, planned=dry_run)
        reports.saved(to, model)
        return done.exact and not (done.missing or done.conflicts or done.kept)

    from layup.images import changes

    looks = changes(photos, every)
    next(looks)  # before the first sync, so that no change is missed
    if not once() and not watch:
        raise typer.Exit(1)
    if watch:
        _keep_equal(looks, once, f"Watching '{photos}' every {every:g} s. Stop with Ctrl-C.")


def _keep_equal(looks: Iterator[object], once: Callable[[], object], words: str) -> None:
    """Sync after every change, until Ctrl-C."""
    console.say(words)
    try:
        for _ in looks:
            try:
                console.say(f"{datetime.now():%Y-%m-%d %H:%M:%S}")
                once()
            except (LayupError, OSError) as error:
                console.fail(str(error))
    except KeyboardInterrupt:
        console.say("Stopped watching.")


def _require_intended(done: BatchReport, model: ImageModel, confirmed: bool) -> None:
    """Refuse to forget most of what a model knows: its folder may have moved."""
    gone, before = sum(done.forgotten.values()) - done.moved, sum(model.counts_.values())
    if not confirmed and 2 * gone > before:
        raise InputError(
            f"This would forget {gone:,} of {before:,} photos, because they are not in the folder. Nothing "
            "was changed. If it should, say so.",
            about="yes",
        )
