"""What commands do with plans: learn one slice, all of them on Ray, and merge them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layup.cli import console
from layup.cli.files import held, labelled
from layup.cli.networks import Wanted
from layup.errors import InputError
from layup.formats import plural
from layup.progress import progress_bar

if TYPE_CHECKING:
    from layup.model import ImageModel

SIZE = 1000
"""Photos per slice, where Ray takes them one after another."""


def learn_shard(folder: Path, number: int, allow_addresses: bool, **loading: Any) -> None:
    """Compute a slice of a plan; `loading` are options of `layup.load`."""
    from layup.sharding import Plan, Shard, work

    plan = Plan.read(folder, allow_addresses=allow_addresses)
    path, shard = work(plan, number, lambda: plan.start(**loading))
    if not isinstance(shard, Shard):
        console.say(f"Slice {number}: counted what {len(shard.lams)} values of λ predict right: {path}")
        return
    console.remarks(f"Skipped {reason}" for reason in shard.bad)
    if shard.twice:
        console.remark(f"Left out: {shard.twice:,} photos that are there already.")
    sums = shard.sums
    classes = plural(len(sums.labels), "class", "es")
    console.say(f"Slice {number}: {plural(sums.total, 'photo')} of {classes}: {path}")


def learn_on_ray(
    photos: Path, to: Path, wanted: Wanted, weights: Path | None, size: int, address: str | None
) -> None:
    """Learn photos into a new model, on all processors of this machine or of a cluster."""
    if to.exists():
        raise InputError(
            f"'{to}' exists already. Learn the new photos into another file, and `layup merge` the two."
        )
    images, labels = labelled(photos)
    from layup.images import LabelledPhotos
    from layup.sharding import Plan, learn_on_ray

    folder = to.with_name(f"{to.name}.plan")
    with held(to), progress_bar(None) as bar:
        plan = Plan.write(folder, LabelledPhotos(images, labels), wanted.new(weights), size)
        task = bar.add_task("Learning", total=plan.images, note="")
        model, bad = learn_on_ray(
            plan,
            address=address,
            done=lambda done: bar.advance(task, done.photos),
            weights=weights,
            allow_backbone=True,  # it was named here
            **wanted.reading,
        )
        model.save(to)
        shutil.rmtree(folder)  # only now, when the model is saved
    console.remarks(f"Skipped {reason}" for reason in bad)
    _tell(to, model)


def _tell(to: Path, model: ImageModel) -> None:
    console.knowledge(to, model.counts_, model.classifier_.chosen())
    console.say(f"State hash: {model.state_hash}")


def merge_plan(folder: Path, to: Path, overwrite: bool) -> None:
    """Merge all shards of a plan."""
    from layup.sharding import Plan, union

    plan = Plan.read(folder)
    with held(to):
        if to.exists() and not overwrite:
            raise InputError(f"'{to}' exists already. Give another --to, or --overwrite to replace it.")
        with progress_bar(None) as bar:
            task = bar.add_task("Merging", total=len(plan.slices), note="")
            model, bad = union(plan, done=lambda number: bar.advance(task))
        model.save(to)
    console.remarks(f"Skipped {reason}" for reason in bad)
    _tell(to, model)
