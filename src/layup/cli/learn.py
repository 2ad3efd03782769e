"""`layup learn`: folders of photos into a model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layup import storage
from layup.cli import console, reports
from layup.cli.app import app
from layup.cli.files import held, labelled
from layup.cli.networks import Wanted
from layup.cli.options import (
    MACHINES,
    TUNING,
    Address,
    AllowAddresses,
    AllowBackbone,
    Anonymous,
    Backbone,
    Balance,
    Engine,
    InputSize,
    K,
    LabelColumn,
    Lam,
    NoCache,
    OptionalPhotos,
    OptionalTo,
    PerClass,
    Ray,
    Root,
    Strict,
    Weights,
    Workers,
    cluster_of,
    first_session,
    given,
    number_or_rule,
)
from layup.cli.plans import SIZE, learn_on_ray, learn_shard
from layup.errors import InputError

if TYPE_CHECKING:
    from layup.model import ImageModel


@app.command()
def learn(
    photos: OptionalPhotos = None,
    to: OptionalTo = None,
    shard: Annotated[
        tuple[Path, int] | None,
        typer.Option(help="Learn one slice of what `layup shards` has planned.", metavar="PLAN NUMBER"),
    ] = None,
    ray: Ray = False,
    address: Address = None,
    slice_size: Annotated[
        int,
        typer.Option(help="Photos that a worker of Ray's takes together.", min=1, rich_help_panel=MACHINES),
    ] = SIZE,
    label: LabelColumn = None,
    root: Root = None,
    again: Annotated[
        bool, typer.Option("--again", help="Count all photos, also those that the model knows.")
    ] = False,
    relabel: Annotated[
        bool, typer.Option("--relabel", help="Move photos that the model knows as another class.")
    ] = False,
    anonymous: Anonymous = False,
    per_class: PerClass = False,
    backbone: Backbone = None,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    allow_addresses: AllowAddresses = False,
    input_size: InputSize = None,
    k: K = None,
    lam: Lam = None,
    balance: Balance = None,
    adapt: Annotated[
        str | None,
        typer.Option(
            help="First tune the network to these photos: adaptformer, ssf, vpt, lora or full; or auto: what "
            "suits the network, unless photos that were held out are predicted worse with it.",
            rich_help_panel=TUNING,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="Recipe for tuning: default, paper, or official (as the authors' code).",
            rich_help_panel=TUNING,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(help="Epochs of tuning: passes over the photos.", min=1, rich_help_panel=TUNING),
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Learning rate of tuning.", rich_help_panel=TUNING)
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Random seed of tuning.", min=0, rich_help_panel=TUNING)
    ] = None,
    engine: Engine = None,
    strict: Strict = False,
    no_cache: NoCache = False,
    workers: Workers = None,
) -> None:
    """Learn classes from folders of photos, into a new or an existing model.

    layup learn photos/ --to m.layup       photos/CLASS/*.jpg
    layup learn photos/ --to m.layup       next week: only what is new
    layup learn more/ --to m.layup         new classes, or more of the old ones
    layup learn photos/ --to v.layup --backbone vit-nano
    layup learn photos/ --to m.layup --ray on all processors, the same model
    layup learn labels.json --to m.layup   an export of FiftyOne or Label Studio
    layup learn --shard plan/ 17           a slice of a plan, see `layup shards`

    Photos that the model knows are left out. The photos are not kept, only one
    sum per class, one matrix, and a digest per photo. With --adapt, a small set
    of weights is tuned to the photos of the first call, and kept too. Tuning
    takes minutes to hours. If it is interrupted, give the same command again to
    continue.
    """
    cluster = cluster_of(ray, address, allow_addresses)
    if (shard is not None or cluster is not None) and (again or relabel or strict or per_class):
        raise InputError("With --shard and --ray, leave out --again, --relabel, --strict and --per-class.")
    reading: dict[str, Any] = {"cache": not no_cache, "workers": workers}
    loading: dict[str, Any] = {"weights": weights, "allow_backbone": allow_backbone}
    if shard is not None:
        learn_shard(*shard, allow_addresses, loading | reading)
        return
    if photos is None or to is None:
        raise InputError("Give the folder of photos, and with --to the model: layup learn PHOTOS --to MODEL.")
    if anonymous and relabel:
        raise InputError("An anonymous model cannot move photos: it does not know them. Leave --relabel out.")
    session = first_session(adapt, preset=preset, epochs=epochs, learning_rate=learning_rate, seed=seed)
    ridge = given({"lam": number_or_rule(lam), "balance": balance})
    wanted = Wanted(backbone, input_size, engine, k, session, anonymous, per_class, ridge, reading)
    if cluster is not None:
        learn_on_ray(labelled(photos, False, label, root), to, wanted, loading, cluster, slice_size)
        return
    paths, labels = labelled(photos, allow_addresses, label, root)
    with held(to):
        checkpoint = to.with_name(f"{to.name}.adapting")
        model = wanted.opened(to, weights, allow_backbone)
        tuned_before = model.network.adapted
        if model.photos is None:
            console.remark(
                "This model is anonymous: it counts all photos that it is given, also those that it has "
                "learned before. It cannot sync, undo, or forget photos."
            )
        done = model.learn(paths, labels, strict=strict, checkpoint=checkpoint, again=again, relabel=relabel)
        if done.changed:
            model.expect()
        model.save(to)
        storage.delete(checkpoint)  # only now, when the model is saved
    reports.batch(done, model, paths)
    reports.saved(to, model)
    _show_session(model, tuned_before, to.with_name(f"{to.stem}-adaptation.png"))


def _show_session(model: ImageModel, tuned_before: bool, picture: Path) -> None:
    """Draw how the first session went, if there was one now, and say what it did."""
    if model.trial is not None:
        console.say(str(model.trial))
    if tuned_before or not model.network.adapted:
        return
    from layup.benchmark import plots

    about, _ = model.network.state()
    record = about["adapted"]["record"]
    plots.first_session(picture, record["epochs"], record["kept"])
    console.adaptation(about["adapted"], picture)
