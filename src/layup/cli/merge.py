"""`layup merge`: models from several machines into one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layup.cli import console
from layup.cli.app import app
from layup.cli.files import held, require_model
from layup.cli.options import checked_rule, given, number_or_rule
from layup.cli.plans import merge_plan
from layup.errors import InputError


@app.command()
def merge(
    models: Annotated[
        list[Path], typer.Argument(help="Two or more .layup files, or one plan.", metavar="MODELS")
    ],
    to: Annotated[Path, typer.Option(help="Where to write the merged model.")],
    base: Annotated[
        Path | None,
        typer.Option(
            help="The model that they all grew from, if they share photos that the cache does not have."
        ),
    ] = None,
    lam: Annotated[
        str | None,
        typer.Option(
            help="New rule for λ: search, gcv, or a number. Default: that of the first model.",
            callback=checked_rule,
        ),
    ] = None,
    balance: Annotated[
        bool | None,
        typer.Option(
            "--balance/--no-balance",
            help="Give small and large classes the same weight. Default: as in the first model.",
        ),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace the file at --to, also if it is not one of MODELS."),
    ] = False,
) -> None:
    """Merge models from several machines: the sums are those of one model that learned everything.

    layup merge berlin.layup lima.layup --to both.layup
    layup merge a.layup b.layup --base old.layup --to new.layup
    layup merge plan/ --to m.layup           what `layup shards` has planned

    Photos that several of them have learned count once: their features are read
    from the cache. In the second example, a and b both grew from old, so
    a + b − old is computed, and no features are needed.
    """
    if len(models) == 1 and models[0].is_dir():
        merge_plan(models[0], to, overwrite)
        return
    if len(models) < 2:
        raise InputError(f"Merging takes at least two models, not {len(models)}.")
    require_model(*models, *([base] if base else []))
    with held(to):
        if to.exists() and to not in models and not overwrite:
            raise InputError(f"'{to}' exists already. Give another --to, or --overwrite to replace it.")
        from layup.model import ImageModel

        merged, *others = (ImageModel.load(path) for path in models)
        ancestor = ImageModel.load(base) if base else None
        for other in others:
            if other.classifier.get_params() != merged.classifier.get_params():
                console.remark(
                    "These models have different rules for λ or balance: those of the first are kept."
                )
            entries = len(merged.log)
            merged.merge(other, ancestor)
            console.remarks(f"{entry.note}." for entry in merged.log[entries:][-1:] if entry.note)
        merged.configure(**given({"lam": number_or_rule(lam), "balance": balance}))
        merged.save(to)
    console.knowledge(to, merged.counts_, merged.classifier_.chosen())
