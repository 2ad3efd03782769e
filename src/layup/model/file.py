"""What a model file says, checked before it is believed.

Checksums tell that a file is as it was written, not that its writer was layup, or sound. So `ImageModel.load`
and `layup info` both read a file here: every field has its type and bounds, arrays have the sizes that labels
and layers give them (which is seen before any of them is read), and the sums could be those of images.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from layup import memory, schema, storage
from layup.algebra import HEADER as SUMS, PRECISIONS, ClassSums, GramStatistics
from layup.schema import (
    AMOUNT,
    FIELDS,
    HASH,
    LABEL,
    NAME,
    NUMBER,
    TEXT,
    TRUTH,
    Rule,
    Shape,
    fields_of,
    listed,
    whole,
)
from layup.storage import Declarations

KIND = "model"
TUNED = "adapter."
"""Before the names of an adapter's tensors."""
READING = 10
"""Arrays of the size of the sums that there are while these are read and seen to be sound."""
READING_TUNED = 2
"""The same of an adapter's tensors, which are only read."""

ENGINES = ("eager", "folded", "onnx")
PIXELS = whole(1, 2**16)
SIZE = listed(PIXELS, 2)
SOURCE = Rule(f"{LABEL.words}, nor too long", lambda value: LABEL.holds(value) and len(value) <= 4096)
SPEC: Shape = {"name": SOURCE, "weights": TEXT.or_none(), "input_size": (PIXELS | SIZE).or_none()}
SETTING = TEXT.or_none() | NUMBER | TRUTH
EPOCH: Shape = {"loss": NUMBER, "accuracy": AMOUNT.or_none()}
ADAPTED: Shape = {
    "adapter": fields_of(SETTING),
    "preprocessing": {
        "size": SIZE,
        "resize": SIZE,
        "crop": NAME,
        "interpolation": NAME,
        "mean": listed(NUMBER, 3),
        "std": listed(NUMBER, 3),
    },
    "tuned_values": whole(1),
    "record": {"session?": FIELDS, "epochs?": [EPOCH], "kept?": whole(1)},
}
BACKBONE: Shape = {
    "name": SOURCE,
    "spec": Rule("a way to load it", lambda value: value is None or isinstance(value, dict)),
    "fingerprint": HASH,
    "depth": whole(1),
    "engine": schema.one_of(*ENGINES),
    "adapted?": ADAPTED,
}
SETTINGS: Shape = {
    "adapter?": FIELDS,
    "balance?": TRUTH,
    "depths?": listed(whole(1)),
    "k?": whole(1).or_none(),
    "lam?": schema.one_of("search", "gcv") | AMOUNT,
    "layer?": whole(1),
    "metric?": NAME,
    "precision?": schema.one_of(*PRECISIONS),
    "seed?": whole(),
    "width?": whole(1),
}
"""All that a model of any method may be made with. How images are read is not among it: a file has no say."""
HEADER: Shape = {
    "method": NAME,
    "backbone": BACKBONE,
    "settings": SETTINGS,
    "lessons": [HASH],
    "versions": fields_of(NAME),
    "lambda?": AMOUNT.or_none(),
    "lambdas?": fields_of(AMOUNT),
    **SUMS,
    "labels": listed(LABEL),
}

BUILT_IN = {
    "bundled": {
        f"blocks.{stage}.{block}": width
        for stage, (blocks, width) in enumerate(
            [(1, 16), (2, 24), (2, 40), (3, 80), (3, 112), (4, 192), (1, 320)]
        )
        for block in range(blocks)
    }
    | {"head": 1280},
    "vit-nano": {f"blocks.{block}": 128 for block in range(12)},
}
"""The layers of the networks that come with layup, so that none has to be loaded to check a file."""
OF_LAST_LAYERS = ("layup", "laynmc")


@dataclass(frozen=True)
class Contents:
    """What the files of a method hold: settings, what was chosen while learning, and which sums."""

    settings: set[str]
    chosen: set[str] = field(default_factory=set)
    sums: type[ClassSums] = GramStatistics


SOLVED = {"lam", "balance", "precision"}
CONTENTS = {
    "layup": Contents({"k", *SOLVED}, {"lambda"}),
    "ridge": Contents({"layer", *SOLVED}, {"lambda"}),
    "ranpac": Contents({"k", "width", "seed", "lam", "precision"}, {"lambda"}),
    "adam+layup": Contents({"k", *SOLVED}, {"lambda"}),
    "layup-average": Contents({"k", *SOLVED}, {"lambdas"}),
    "layup-depths": Contents({"depths", *SOLVED}, {"lambdas"}),
    "ridge-layers": Contents({"depths", *SOLVED}, {"lambdas"}),
    "fsa+lda": Contents({"lam"}),
    "nmc": Contents({"metric"}, sums=ClassSums),
    "laynmc": Contents({"k", "metric"}, sums=ClassSums),
    "adam": Contents({"metric"}, sums=ClassSums),
}
"""Of the methods that come with layup. Those of others are checked when their model is made."""


@dataclass(frozen=True)
class ModelFile:
    """A file that was found sound: its header, its sums, and the tensors of its adapter."""

    header: dict[str, Any]
    sums: ClassSums
    tuned: dict[str, NDArray[Any]]


def read_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model file whole, or raise: what it says can be relied on.

    Costs reading it, and d³/3 operations to see that G could be that of images.
    """
    header, arrays = storage.read(path, KIND, _require_readable)
    kind = GramStatistics if "gram" in arrays else ClassSums
    try:
        sums = kind.from_state(header, arrays)
    except ValueError as error:
        raise storage.damaged(path, str(error)) from error
    tuned = {name.removeprefix(TUNED): each for name, each in arrays.items() if name.startswith(TUNED)}
    return ModelFile(header, sums, tuned)


def _require_readable(header: Mapping[str, Any], declared: Declarations) -> None:
    """Refuse what is not sound, or would not fit into memory."""
    require_sound(header, declared)
    parts = {"its sums": 0, "its adapter": 0}
    for name, each in declared.items():
        if name.startswith(TUNED):
            parts["its adapter"] += READING_TUNED * each.nbytes
        else:
            parts["its sums"] += READING * each.nbytes
    memory.require(memory.Forecast(parts), "Reading this model")


def require_sound(header: Mapping[str, Any], declared: Declarations) -> None:
    """Refuse a header, and what arrays are said to be, that no model can have: a `ValueError` says why."""
    schema.require(header, HEADER, "header")
    backbone, settings = header["backbone"], header["settings"]
    if backbone["spec"] is not None:
        schema.require(backbone["spec"], SPEC, "header.backbone.spec")
        if backbone["spec"]["name"] != backbone["name"]:
            raise ValueError("it names one backbone, and says how to load another")
    sums: type[ClassSums] = GramStatistics if "gram" in declared else ClassSums
    _require_contents(header, sums)
    sums.require_declared(header, declared)
    for name in declared:
        if name not in sums.ARRAYS and not name.startswith(TUNED):
            raise ValueError(f"it holds an array {schema.shown(name)}, which is unknown")
    dim = sum(width for _, width in header["layers"])
    if settings.get("width", dim) != dim:
        raise ValueError(f"its projection is {settings['width']} wide, but its layers are {dim}")
    if settings.get("precision", declared["prototypes"].dtype) != declared["prototypes"].dtype:
        raise ValueError(f"its sums are not in {settings['precision']}")
    _require_layers(header)
    _require_tuned(backbone.get("adapted"), {n: d for n, d in declared.items() if n.startswith(TUNED)})


def _require_contents(header: Mapping[str, Any], sums: type[ClassSums]) -> None:
    """Refuse a file that does not hold what those of its method do."""
    method = header["method"]
    if (expected := CONTENTS.get(method)) is None:
        return
    for what, has, should in (
        ("the settings", {*header["settings"]} - {"adapter"}, expected.settings),
        ("the λ", {*header} & {"lambda", "lambdas"}, expected.chosen),
        ("the sums", {sums.kind}, {expected.sums.kind}),
    ):
        if has != should:
            odd = ", ".join(sorted(has ^ should))
            raise ValueError(f"it does not have {what} of a {method!r} model: what differs is {odd}")


def _require_layers(header: Mapping[str, Any]) -> None:
    """Refuse other layers than the last k, and those that a network which comes with layup does not have."""
    if header["method"] not in OF_LAST_LAYERS:
        return  # these are compared when the network is loaded
    layers = [tuple(layer) for layer in header["layers"]]
    if header["settings"].get("k") != len(layers):
        raise ValueError(f"its sums are of {len(layers)} layers, but its k is {header['settings'].get('k')}")
    known = BUILT_IN.get(header["backbone"]["name"])
    if known is None or header["backbone"]["spec"] is None:
        return
    if layers != list(known.items())[-len(layers) :]:
        raise ValueError(f"its layers are not the last ones of {header['backbone']['name']!r}")
    if header["backbone"]["depth"] != len(known):
        raise ValueError(f"{header['backbone']['name']!r} does not have {header['backbone']['depth']} layers")


def _require_tuned(adapted: Mapping[str, Any] | None, declared: Declarations) -> None:
    """Refuse an adapter whose settings ask for more values than the file holds."""
    if (adapted is not None) != bool(declared):
        raise ValueError("it has an adapter without tensors, or tensors without an adapter")
    if adapted is None:
        return
    if any(each.dtype != "float32" for each in declared.values()):
        raise ValueError("its adapter is not of float32")
    values = sum(each.nbytes // 4 for each in declared.values())
    if values != adapted["tuned_values"]:
        raise ValueError(f"its adapter has {values} values, and not {adapted['tuned_values']}")
    settings = adapted["adapter"]
    if not isinstance(settings.get("name"), str):
        raise ValueError("its adapter has no name")
    from layup.adapters import adapter_from  # here, for it loads torch

    adapter_from(settings)
    # Every width, rank or number of prompts takes at least a value of its own.
    if any(type(value) is int and not 0 <= value <= values for value in settings.values()):
        raise ValueError("its adapter asks for more values than it holds")
    record = adapted["record"]
    if record and not (
        {*record} == {"session", "epochs", "kept"} and 1 <= record["kept"] <= len(record["epochs"])
    ):
        raise ValueError("its record of the first session is not whole")
