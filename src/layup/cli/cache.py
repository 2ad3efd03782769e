"""`layup cache`: the features on disk."""

from __future__ import annotations

import typer

from layup.cli import console
from layup.cli.app import app
from layup.errors import StorageError
from layup.formats import size_of

cache_app = typer.Typer()
app.add_typer(cache_app, name="cache")


@cache_app.callback(invoke_without_command=True)
def cache(context: typer.Context) -> None:
    """Show the cache of computed features; 'layup cache clear' empties it.

    The environment variables LAYUP_CACHE and LAYUP_CACHE_LIMIT (such as 2GB)
    set its folder and its largest size.
    """
    if context.invoked_subcommand:
        return
    from layup.features import FeatureCache

    stats = FeatureCache().stats()
    console.facts(
        {
            "file": stats.path,
            "size": f"{size_of(stats.bytes)} of at most {size_of(stats.limit)}",
            "images": f"{stats.entries:,}",
        }
    )


@cache_app.command()
def clear() -> None:
    """Delete all cached features. Models are not affected; features are computed again when needed."""
    from layup.features import FeatureCache

    store = FeatureCache()
    freed = store.clear()
    if left := store.stats().bytes:
        raise StorageError(f"'{store.path}' could not be deleted: it still holds {size_of(left)}.")
    console.say(f"Freed {size_of(freed)}.")
