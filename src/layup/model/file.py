"""What a model file says, checked before it is believed.

Checksums tell that a file is as it was written, not that its writer was layup, or sound. So `ImageModel.load`
and `layup info` both read a file here: every field has its type and bounds, arrays have the sizes that labels
and layers give them (which is seen before any of them is read), and the sums could be those of images.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from layup import __version__, memory, schema, storage
from layup.algebra import CALIBRATION, HEADER as SUMS, KINDS, ClassRoots, ClassSums
from layup.errors import ConsentError, InputError
from layup.features import (
    Embedding,
    Fourier,
    LastLayers,
    MeanOfLayers,
    OneLayer,
    Projected,
    Rounded,
    spec_from,
)
from layup.model import journal, known
from layup.model.journal import MARK, Filed, Record
from layup.model.kind import KIND, require_model, require_no_graph
from layup.model.known import KnownPhotos
from layup.model.log import ENTRY
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

if TYPE_CHECKING:
    from layup.model.knowledge import Knowledge

TUNED = "adapter."
"""Before the names of an adapter's tensors."""
READING = 10
"""How many arrays of the size of the sums are held while the sums are read and checked."""
READING_TUNED = 2
"""The same for an adapter's tensors, which are only read."""
READING_PHOTOS = 6
"""The same for photos: as they are filed, opened, and sorted."""

READING_ROOTS = 3
"""The same for roots: as they are filed, checked, and kept."""

TRIES = 5
"""How often a file and its journal are read until they belong together, while another process writes them."""
LEARNED = ("photos", "roots", "calibration", "leftover")
"""Fields that a lesson may make unnecessary."""

ENGINES = ("eager", "folded", "onnx")
PIXELS = whole(1, 2**16)
SIZE = listed(PIXELS, 2)
SOURCE = Rule(f"{LABEL.words}, not too long", lambda value: LABEL.holds(value) and len(value) <= 4096)
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
HEADER: Shape = {
    "features": FIELDS,
    "classifier": FIELDS,
    "chosen": FIELDS,
    "first_session?": FIELDS,
    "backbone": BACKBONE,
    "log": [ENTRY],
    "photos?": FIELDS,
    "roots?": FIELDS,
    "calibration?": CALIBRATION,
    "versions": fields_of(NAME),
    "journal?": MARK,
    **SUMS,
    "labels": listed(LABEL),
}
"""All that a file may say. It does not include how images are read: a file has no say in that."""

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
"""The layers of the networks that come with layup, so that a file is checked without loading them."""


@dataclass(frozen=True)
class ModelFile:
    """A file that passed all checks: its header, sums, photos and roots, and the tensors of its adapter."""

    header: dict[str, Any]
    sums: ClassSums
    photos: KnownPhotos | None
    roots: ClassRoots | None
    tuned: dict[str, NDArray[Any]]
    journal: Filed | None = None
    """What was beside it, all of which it holds here."""


def read_model(path: str | os.PathLike[str]) -> ModelFile:
    """Read a model file whole, with the lessons in its journal, or raise: what it says can be relied on.

    Costs reading it, and d³/3 operations to check that G could be that of images.
    """
    require_model(path)
    found, filed = _read_both(path)
    if filed is None:
        return found
    records = filed.since(found.header.get("journal"), path)
    with storage.believed(journal.beside(path)):
        found = _after(found, records) if records else found
    return replace(found, journal=filed)


def _read_both(path: str | os.PathLike[str]) -> tuple[ModelFile, Filed | None]:
    """A model file and its journal. Whoever owns them writes first the one and then the other."""
    for _ in range(TRIES):
        found, filed = _read_file(path), journal.read_journal(path)
        if filed is None or filed.follows(found.header.get("journal")):
            break
    return found, filed


def _after(found: ModelFile, records: Sequence[Record]) -> ModelFile:
    """What the file would hold after these lessons."""
    from layup.model.knowledge import Knowledge  # here, because it loads torch

    knowledge = Knowledge.of_file(found.header, found.sums, found.photos, found.roots)
    replay(knowledge, records)
    learned, _ = knowledge.state()
    rest = {name: value for name, value in found.header.items() if name not in LEARNED}
    sums = knowledge.parts.sums
    return replace(found, header=rest | learned, sums=sums, photos=knowledge.photos, roots=knowledge.roots)


def replay(knowledge: Knowledge, records: Sequence[Record]) -> None:
    """Do what is in records from a journal; a `ValueError` if it cannot have been done."""
    kind = KINDS[knowledge.classifier.kind]
    for record in records:
        if (lesson := record.lesson) is None:
            continue
        if lesson.action == "learn" and lesson.chosen is None:
            raise ValueError(f"record {record.number} does not say what the classifier chose")
        if lesson.chosen is not None:
            schema.require(dict(lesson.chosen), kind.chosen, "lesson.chosen")
        if knowledge.photos is not None and record.secret is not None:
            knowledge.photos = knowledge.photos.under(record.secret)
        lesson.apply(knowledge)


def _read_file(path: str | os.PathLike[str]) -> ModelFile:
    header, arrays = storage.read(path, KIND, _require_readable)
    try:
        sums = KINDS[header["classifier"]["kind"]].sums.from_state(header, arrays)
        photos = _photos(header, arrays)
        roots = None
        if "roots" in header:
            roots = ClassRoots.from_state(header["roots"], {"roots": arrays["roots"]})
            roots.require_roots_of(sums)
    except ValueError as error:
        raise storage.damaged(path, str(error)) from error
    tuned = {name.removeprefix(TUNED): each for name, each in arrays.items() if name.startswith(TUNED)}
    return ModelFile(header, sums, photos, roots, tuned)


def written_with() -> dict[str, str]:
    """The versions that a file names."""
    return {"layup": __version__, **{name: version(name) for name in ("torch", "timm", "numpy")}}


def write_model(
    path: str | os.PathLike[str],
    header: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    tuned: Mapping[str, NDArray[Any]],
) -> None:
    """Write what `read_model` reads, atomically. What it would refuse is not written, but refused here.

    A journal beside the file is taken up: who writes a model holds, or replaces, all that was learned there.
    """
    require_no_graph(path)
    arrays = {**arrays, **{TUNED + name: array for name, array in tuned.items()}}
    declared = {name: storage.Declared(each.dtype.name, each.shape) for name, each in arrays.items()}
    try:
        require_sound(json.loads(json.dumps(header)), declared)
        _require_sound_photos(header, arrays)
    except (TypeError, ValueError) as error:
        raise InputError(f"This model cannot be saved: {error}. Nothing was written.") from error
    with storage.locked(path):
        filed = journal.read_journal(path)
        storage.write(path, KIND, header if filed is None else {**header, "journal": filed.mark}, arrays)
        if filed is not None:
            journal.taken_up(path, filed)


def _photos(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> KnownPhotos | None:
    """The photos that a file knows; None if it is anonymous."""
    if "photos" not in header:
        return None
    _require_sound_photos(header, arrays)
    return KnownPhotos.from_state(header["photos"], arrays, header["labels"])


def _require_sound_photos(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    if "photos" in header:
        counts = dict(zip(header["labels"], header["counts"], strict=True))
        known.require_sound(arrays, counts, len(header["log"]))


def _require_readable(header: Mapping[str, Any], declared: Declarations) -> None:
    """Refuse what is not sound, or would not fit into memory."""
    require_sound(header, declared)
    parts = {"its sums": 0, "its adapter": 0, "its photos": 0, "its roots": 0}
    for name, each in declared.items():
        if name.startswith(TUNED):
            parts["its adapter"] += READING_TUNED * each.nbytes
        elif name in ClassRoots.ARRAYS:
            parts["its roots"] += READING_ROOTS * each.nbytes
        elif name in known.ARRAYS:
            parts["its photos"] += READING_PHOTOS * each.nbytes
        else:
            parts["its sums"] += READING * each.nbytes
    memory.require(memory.Forecast(parts), "Reading this model")


def require_sound(header: Mapping[str, Any], declared: Declarations) -> None:
    """Refuse a header, and what arrays are said to be, that no model can have: a `ValueError` says why."""
    schema.require(header, HEADER, "header")
    sums = _require_classifier(header)
    sums.require_declared(header, declared)
    others = {*sums.ARRAYS}
    if "photos" in header:
        known.require_declared(header["photos"], declared)
        others |= {*known.ARRAYS}
    if "roots" in header:
        ClassRoots.require_declared(header["roots"], declared)
        others |= {*ClassRoots.ARRAYS}
    for name in declared:
        if name not in others and not name.startswith(TUNED):
            raise ValueError(f"it holds an array {schema.shown(name)}, which is unknown")
    precision = header["classifier"].get("precision", "float64")
    if precision != declared["prototypes"].dtype:
        raise ValueError(f"its sums are not in {precision}")
    spec = spec_from(header["features"], "header.features")
    if header.get("steps") != (list(spec.steps or ()) if isinstance(spec, Rounded) else None):
        raise ValueError("its sums are of other steps than its features")
    require_network(header, declared)


def require_network(header: Mapping[str, Any], declared: Declarations) -> None:
    """Refuse a network, features of it, and an adapter that no model can have."""
    backbone = header["backbone"]
    if backbone["spec"] is not None:
        schema.require(backbone["spec"], SPEC, "header.backbone.spec")
        if backbone["spec"]["name"] != backbone["name"]:
            raise ValueError("it names one backbone, and says how to load another")
    _require_layers(header)
    _require_tuned(backbone.get("adapted"), {n: d for n, d in declared.items() if n.startswith(TUNED)})


def _require_classifier(header: Mapping[str, Any]) -> type[ClassSums]:
    """Refuse an impossible classifier; return its kind of sums."""
    made_with = dict(header["classifier"])
    name = made_with.pop("kind", None)
    schema.require(name, schema.one_of(*KINDS), "header.classifier.kind")
    kind = KINDS[name]
    schema.require(made_with, kind.parameters, "header.classifier")
    schema.require(header["chosen"], kind.chosen, "header.chosen")
    for number, entry in enumerate(header["log"]):
        schema.require(entry.get("chosen", {}), kind.chosen, f"header.log[{number}].chosen")
        if (settings := entry.get("settings")) is not None:
            schema.require(
                settings, {"kind": schema.one_of(name), **kind.parameters}, f"header.log[{number}].settings"
            )
    if header["log"] and "settings" not in header["log"][0]:
        raise ValueError("its log does not say how it began")
    return kind.sums


def _require_layers(header: Mapping[str, Any]) -> None:
    """Refuse sums of other features than the file says, as far as can be told without the network."""
    spec, layers = spec_from(header["features"], "header.features"), dict(header["layers"])
    if isinstance(spec, Rounded) and len(spec.steps or ()) != len(layers):
        raise ValueError(f"it has {len(layers)} layers but {len(spec.steps or ())} steps")
    spec = spec.plain
    if isinstance(spec, Projected | Fourier) and [*layers.values()] != [spec.width]:
        raise ValueError(f"its projection is {spec.width} wide, but its layers are {sum(layers.values())}")
    if (isinstance(spec, LastLayers) and len(layers) != spec.k) or (
        isinstance(spec, OneLayer | Embedding | MeanOfLayers) and len(layers) != 1
    ):
        raise ValueError(f"its sums are of {len(layers)} layers, but its features are {spec}")
    backbone = header["backbone"]
    known = BUILT_IN.get(backbone["name"])
    if known is None or backbone["spec"] is None:
        return
    read = spec.layers_of([*known])
    if read is not None and list(layers.items()) != [(name, known[name]) for name in read]:
        raise ValueError(f"its layers are not those of {backbone['name']!r}")
    if backbone["depth"] != len(known):
        raise ValueError(f"{backbone['name']!r} does not have {backbone['depth']} layers")


def _require_tuned(adapted: Mapping[str, Any] | None, declared: Declarations) -> None:
    """Refuse an adapter whose settings ask for more values than the file holds."""
    if (adapted is not None) != bool(declared):
        raise ValueError("it has an adapter without tensors, or tensors without an adapter")
    if adapted is None:
        return
    if any(each.dtype != "float32" for each in declared.values()):
        raise ValueError("its adapter is not float32")
    values = sum(each.nbytes // 4 for each in declared.values())
    if values != adapted["tuned_values"]:
        raise ValueError(f"its adapter has {values} values, not {adapted['tuned_values']}")
    settings = adapted["adapter"]
    if not isinstance(settings.get("name"), str):
        raise ValueError("its adapter has no name")
    from layup.adapters import adapter_from  # here, because it loads torch

    with suppress(ConsentError):  # that of a plug-in is checked when it may be loaded
        adapter_from(settings)
    # Every width, rank or number of prompts takes at least one value.
    if any(type(value) is int and not 0 <= value <= values for value in settings.values()):
        raise ValueError("its adapter asks for more values than it holds")
    record = adapted["record"]
    if record and not (
        {*record} == {"session", "epochs", "kept"} and 1 <= record["kept"] <= len(record["epochs"])
    ):
        raise ValueError("its record of the first session is not complete")
