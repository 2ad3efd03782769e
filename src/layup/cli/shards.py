"""`layup shards`: a plan of slices for many machines."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layup.cli import console
from layup.cli.app import app
from layup.cli.files import streamed
from layup.cli.networks import Wanted
from layup.cli.options import (
    AllowAddresses,
    Anonymous,
    Backbone,
    Balance,
    Engine,
    InputSize,
    K,
    Lam,
    Photos,
    Weights,
    given,
    number_or_rule,
)
from layup.progress import progress_bar


@app.command()
def shards(
    photos: Photos,
    to: Annotated[Path, typer.Option(help="Folder for the plan.")],
    size: Annotated[int, typer.Option(help="Photos per slice.", min=1)] = 10_000,
    allow_addresses: AllowAddresses = False,
    anonymous: Anonymous = False,
    backbone: Backbone = None,
    weights: Weights = None,
    input_size: InputSize = None,
    k: K = None,
    lam: Lam = None,
    balance: Balance = None,
    engine: Engine = None,
) -> None:
    """Cut photos into slices that many machines can learn, for one model.

    layup shards photos/ --to plan/          slices of 10,000 photos
    layup learn --shard plan/ 0              on any machine, in any order …
    layup learn --shard plan/ 1              … one slice each
    layup merge plan/ --to m.layup           the model of all of them

    All machines must see the folder of the plan, and the photos under the same
    paths (or addresses, if each is given --allow-addresses). The merged model is
    the one that `layup learn photos/` gives on one machine, with the same state
    hash.
    """
    ridge = given({"lam": number_or_rule(lam), "balance": balance})
    pairs, remarks = streamed(photos, allow_addresses)
    from layup.sharding import Plan

    model = Wanted(backbone, input_size, engine, k, anonymous=anonymous, ridge=ridge).new(weights)
    with progress_bar(None, "photos") as bar:
        task = bar.add_task("Planning", total=None, note="")
        plan = Plan.write(to, pairs, model, size, done=lambda count: bar.advance(task, count))
    console.remarks(remarks)
    console.say(
        f"{plan.images:,} photos in {len(plan.slices):,} slices, from 0 to {len(plan.slices) - 1:,}: {to}"
    )
