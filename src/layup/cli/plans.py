"""What commands do with plans: learn one slice, all of them on Ray, and merge them."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layup.cli import console, reports
from layup.cli.files import held
from layup.cli.networks import Wanted
from layup.errors import InputError
from layup.formats import plural
from layup.progress import progress_bar

if TYPE_CHECKING:
    from layup.cluster import Cluster
    from layup.images import ImageSource, LabelledPhotos
    from layup.model import ImageModel

SIZE = 1000
"""Photos per slice, where Ray takes them one after another."""


def learn_shard(folder: Path, number: int, allow_addresses: bool, loading: dict[str, Any]) -> None:
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
    photos: tuple[Sequence[ImageSource], list[str]],
    to: Path,
    wanted: Wanted,
    loading: dict[str, Any],
    cluster: Cluster,
    size: int,
) -> None:
    """Learn photos with labels on all processors, here or of a cluster (options of `layup.load`)."""
    images, labels = photos
    from layup.images import LabelledPhotos
    from layup.model import BatchReport

    with held(to):
        loading["allow_backbone"] |= not to.exists()  # of a new model it was named here
        model = wanted.opened(to, **loading)
        before = model.counts_
        # Who knows nothing need not be asked: that would read all photos here.
        known = model.foresee(images, labels) if before else None
        new = range(len(labels)) if known is None else known.new
        chosen = LabelledPhotos([images[i] for i in new], [labels[i] for i in new])
        bad = _learned(model, chosen, to, loading | wanted.reading, cluster, size) if new else []
    learned = dict(Counter(model.counts_) - Counter(before))
    report = BatchReport(learned)
    if known is not None:
        report = replace(report, known=known.known, conflicts=known.conflicts)
    reports.batch(report, model, images)
    console.remarks(f"Skipped {reason}" for reason in bad)
    reports.saved(to, model)
    console.say(f"State hash: {model.state_hash}")


def _learned(
    model: ImageModel, photos: LabelledPhotos, to: Path, loading: dict[str, Any], cluster: Cluster, size: int
) -> list[str]:
    """Let a model learn photos that are new to it, by a plan beside it, and save it; gives what was bad."""
    from layup.sharding import Plan, learn_on_ray

    folder = to.with_name(f"{to.name}.plan")
    with progress_bar(None) as bar:
        plan = Plan.write(folder, photos, model.blank(), size)
        task = bar.add_task("Learning", total=plan.images, note="")
        _, bad = learn_on_ray(
            plan,
            model,
            address=cluster.address,
            done=lambda done: bar.advance(task, done.photos),
            **loading,
        )
    model.expect()
    model.save(to)
    shutil.rmtree(folder)  # only now, when the model is saved
    return bad


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
