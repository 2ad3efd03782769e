"""`layup export`: a model that only predicts, as a .layup file or as one ONNX graph."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layup import storage
from layup.cli import console
from layup.cli.app import app
from layup.cli.files import MODELS, here, loaded_predictor, require_new
from layup.cli.options import AllowBackbone, SharedModel, Weights
from layup.errors import InputError
from layup.formats import size_of
from layup.model import is_onnx


@app.command()
def export(
    model: SharedModel,
    to: Annotated[Path, typer.Option(help="Where to write it: a .layup or a .onnx file.", metavar="FILE")],
    int8: Annotated[
        Path | None,
        typer.Option(
            help="Compute the network of a .onnx file in int8, with ranges measured on these photos: a "
            "folder, an archive or a list; 64 of them are enough.",
            metavar="PHOTOS",
        ),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file at --to.")] = False,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
) -> None:
    """Export what predicts: a file that can be shared and asked, and cannot be taught.

    layup export m.layup --to small.layup  weights instead of sums
    layup export m.layup --to m.onnx       pixels to labels, without PyTorch
    layup export m.layup --to m.onnx --int8 photos/

    A predict-only .layup file gives the same labels, scores and confidences as
    MODEL. It has no sums, no counts, no list of photos and no log, and needs the
    same network as MODEL. A .onnx file has the network in it: it runs wherever
    ONNX Runtime does, with `layup predict`, in 20 lines of Python, or in a browser.
    """
    if to.suffix.lower() not in MODELS:
        raise InputError(f"Cannot export to '{to}': its name must end with .layup or .onnx.")
    if int8 is not None and not is_onnx(to):
        raise InputError("Only a .onnx file can compute in int8: leave --int8 out, or name one.")
    require_new(to, overwrite)
    source = here(model)
    small = loaded_predictor(source, weights, allow_backbone).predict_only()
    if is_onnx(to):
        from layup.export import in_int8, onnx_graph
        from layup.images import unlabelled_photos

        photos = [] if int8 is None else unlabelled_photos(int8)
        graph = onnx_graph(small)
        storage.write_bytes(to, graph if int8 is None else in_int8(graph, photos))
    else:
        small.save(to)
    before, after = (size_of(path.stat().st_size) for path in (source, to))
    console.say(f"'{to}' predicts {len(small.classes_):,} classes: {after}; '{model}' has {before}.")
