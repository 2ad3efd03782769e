"""Model files, statistics and checkpoints that somebody changed: sound, or refused in a sentence."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from functools import partial
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from layup import GramStatistics, RidgeClassifier, storage
from layup.adapters import AdaptedBackbone
from layup.algebra import SOUND, ClassMoments, ClassSums
from layup.backbones import load_backbone
from layup.cli.info import info
from layup.errors import LayupError
from layup.model import ImageModel, KnownPhotos, PredictOnly, load
from layup.model.keys import folder as keys_folder
from layup.model.kind import PREDICT_ONLY
from layup.model.log import ACTIONS
from layup.tuning import adapt
from torture import command, samples
from torture.faults import Step, tapped
from torture.guard import kept_inside
from torture.model_files import mutated
from torture.promise import Promise, Tries, about, require, require_sentence

IMAGES, ANOTHER = 50, 2
"""In one of so many tries of a network that takes long to load, it predicts an image too: more often if what
the file says of its network was changed."""
RESUMED = 10
"""In one of so many tries of a checkpoint, adaptation goes on from it; else it is only read."""
COMMANDS = 50
"""In one of so many tries, all of a command is run, and not only what it does."""

BAIT = Path(__file__).parent / "bait"
BAITS = (str(BAIT), f"hf:{BAIT}", f"{BAIT}/config.json", "hf:nobody/nothing", "resnet18", "bundled", "onnx")
"""Texts that could lead somewhere: to a folder outside, to a download, to another network."""

PREDICTING = ("layup", "searched", "nano", "adapted", "nmc", "laynmc", "discriminant")
"""Of these models, the predict-only file is changed too."""

Sample = tuple[str, bytes, Callable[[Path, Random], None]]
"""What it is, its bytes, and how it is opened."""


def require_sound(model: ImageModel) -> None:
    """What every model is that could have been learned: to be trusted like your own."""
    labels = model.statistics_.labels
    require(all(type(label) is str and label for label in labels), "labels are not all text", labels)
    require_sound_sums(model.statistics_)
    require(
        all(isinstance(each.id, str) and each.action in ACTIONS for each in model.log),
        "entries of the log are not those of actions",
        model.log,
    )
    if model.photos is not None:
        require_known(model, model.photos)
    if model.roots is not None:
        have = model.roots.count_by_label()
        require(have == model.counts_, "roots are not those of the classes", have)


def require_known(model: ImageModel, photos: KnownPhotos) -> None:
    """Photos of classes that were learned, no more of each than that, in batches that there are."""
    more = {label: count for label, count in photos.counts.items() if count > model.counts_.get(label, 0)}
    require(not more, "more photos are known than were learned", more)
    batches = photos.batches_at(np.arange(len(photos)))
    require(all(0 <= batch < len(model.log) for batch in batches), "photos are of no batch", batches)


def require_sound_sums(sums: ClassSums) -> None:
    """What all sums are that samples can have given."""
    labels, counts = sums.labels, sums.counts
    require(len({type(label) for label in labels}) <= 1, "labels are of several types", labels)
    require(labels == sorted(set(labels)), "labels are not sorted, or not unique", labels)
    require(
        len(labels) == len(counts) == len(sums.prototypes), "labels, counts and sums are not of one number"
    )
    require(counts.dtype == np.int64 and bool((counts >= 1).all()), "counts are not all ≥ 1", counts)
    require(int(counts.sum(dtype=object)) < 2**53, "nobody has learned so many images", counts)
    require(
        all(type(width) is int and width >= 1 for width in sums.layers.values()),
        "widths of layers are not all ≥ 1",
        sums.layers,
    )
    require(bool(np.isfinite(sums.prototypes).all()), "sums are not finite")
    if isinstance(sums, GramStatistics):
        _require_positive(sums.gram.astype(np.float64))
    if isinstance(sums, ClassMoments):
        for label in labels:
            _require_positive(sums.class_gram(label).astype(np.float64))


def _require_positive(gram: NDArray[np.float64]) -> None:
    """G is a sum of squares: as far below zero as layup bears, for rounding, and no further."""
    trace = float(np.trace(gram))
    require(bool(np.isfinite(gram).all()) and np.isfinite(trace), "G is not finite")
    require(bool((np.diag(gram) >= 0).all()), "the diagonal of G is negative")
    least = float(np.linalg.eigvalsh(gram).min())
    require(least >= -SOUND * (1 + SOUND) * trace, "G is not positive", least)


def look(model: ImageModel, image: bool, chance: Random) -> None:
    """Predict with a model that was loaded: it gives numbers, of a vector and of an image."""
    if not model.classes_:
        return
    for name, value in model.classifier_.in_force().items():
        require(type(value) is float and 0 <= value < np.inf, f"{name} is not a number ≥ 0", value)
    vector = np.random.default_rng(chance.getrandbits(32)).normal(size=(2, model.statistics_.dim))
    scores = model.classifier_.scores(vector)
    require(bool(np.isfinite(scores).all()), "scores of a vector are not finite")
    if image:
        found = model.scores([samples.picture("asked")])
        require(
            found.shape == (1, len(model.classes_)) and bool(np.isfinite(found).all()),
            "scores of an image are not finite",
        )


def _refused_or(work: Callable[[], Any]) -> Any:
    """What something gives; None if it was refused in a sentence."""
    try:
        return work()
    except LayupError as error:
        require_sentence(error)
        return None


def _info(path: Path, chance: Random) -> None:
    """What `layup info` prints; mostly without its options being parsed, which takes ten times as long."""
    if chance.randrange(COMMANDS) == 0:
        command.run("info", path)
    else:
        with redirect_stdout(StringIO()):
            info(path, as_json=chance.random() < 0.5)


def _check_model(made_with: Any, keys: Mapping[str, str], path: Path, chance: Random) -> None:
    home = path.parent / "keys"
    os.environ["LAYUP_KEYS"] = str(home)
    if chance.random() < 0.8:  # who has the key notices more
        home.mkdir()
        for name, text in keys.items():
            (home / name).write_text(text)
    read = _refused_or(lambda: storage.read(path, "model"))
    _refused_or(lambda: _info(path, chance))
    own = made_with["spec"] is None
    backbone = samples.tiny() if own else None
    model = _refused_or(lambda: load(path, backbone=backbone, cache=False, workers=0))
    if model is None:
        return
    require_sound(model)
    another = read is not None and read[0].get("backbone") != made_with
    image = own or chance.randrange(ANOTHER if another else IMAGES) == 0
    _refused_or(lambda: look(model, image, chance))


def _check_predict_only(made_with: Any, path: Path, chance: Random) -> None:
    read = _refused_or(lambda: storage.read(path, PREDICT_ONLY))
    _refused_or(lambda: _info(path, chance))
    own = made_with["spec"] is None
    backbone = samples.tiny() if own else None
    model = _refused_or(lambda: load(path, backbone=backbone, cache=False, workers=0))
    if model is None:
        return
    require(isinstance(model, PredictOnly), "it is not a predict-only model", model)
    labels, dim = model.classes_, sum(model.readout.layers.values())
    require(all(type(label) is str and label for label in labels), "labels are not all text", labels)
    require(labels == sorted(set(labels)), "labels are not sorted, or not unique", labels)
    vector = np.random.default_rng(chance.getrandbits(32)).normal(size=(2, dim))
    require_finite(model.readout.scores_of(vector), model.readout.familiarity(vector))
    another = read is not None and read[0].get("backbone") != made_with
    if own or chance.randrange(ANOTHER if another else IMAGES) == 0:
        found = _refused_or(lambda: model.predictions([samples.picture("asked")]))
        if found is not None:
            require_finite(found.scores, found.familiarity)


def require_finite(*numbers: NDArray[Any] | None) -> None:
    """All that a model says of an image are numbers."""
    for each in numbers:
        require(each is None or bool(np.isfinite(each).all()), "what it says is not finite")


def _check_statistics(path: Path, chance: Random) -> None:
    sums = _refused_or(lambda: GramStatistics.load(path))
    if sums is not None:
        require_sound_sums(sums)


def _check_checkpoint(path: Path, chance: Random) -> None:
    _refused_or(lambda: storage.read(path, "first-session"))
    if chance.randrange(RESUMED) == 0:
        network = _refused_or(lambda: adapted(path))
        if network is not None:
            require_finite_state(network)


def require_finite_state(network: AdaptedBackbone) -> None:
    """All that was tuned are numbers."""
    odd = [name for name, value in network.state().items() if not bool(value.isfinite().all())]
    require(not odd, "what was tuned is not finite", odd)


def adapted(checkpoint: Path) -> AdaptedBackbone:
    """The shortest possible adaptation, which goes on from a checkpoint if it finds its own."""
    images, labels = samples.batch("checkpoint", {"ant": 2, "bee": 2})
    return adapt(
        load_backbone("vit-nano"), images, labels, samples.session(), checkpoint=checkpoint, workers=0
    )


def checkpoints(folder: Path) -> dict[str, bytes]:
    """Of an adaptation, that after its first epoch, which holds all that it takes to go on, and the last."""
    path, seen = folder / "m.adapting", []

    def before(_number: int, step: Step) -> None:
        if step.call == "rename" and path.exists():
            seen.append(path.read_bytes())

    with tapped(folder, before):
        adapted(path)
    return {"interrupted checkpoint": seen[0], "finished checkpoint": path.read_bytes()}


def model_sample(name: str, path: Path) -> Sample:
    """A model file, to be opened as a model."""
    header = storage.read_header(path, "model")
    ids = [section["key"] for section in header.get("photos", {}).get("sections", [])]
    keys = {f"{each}.key": (keys_folder() / f"{each}.key").read_text() for each in ids}
    return name, path.read_bytes(), partial(_check_model, header["backbone"], keys)


def predict_only_sample(name: str, path: Path) -> Sample:
    """The predict-only file of a model, to be opened as one."""
    about = storage.read_header(path, "model")
    small = path.with_name("small.layup")
    load(path, backbone=samples.backbone_for(about), cache=False).predict_only().save(small)
    made_with = storage.read_header(small, PREDICT_ONLY)["backbone"]
    return f"predict-only {name}", small.read_bytes(), partial(_check_predict_only, made_with)


def tries(made: Sequence[Sample]) -> Tries:
    """Changes of these files; some lead to a folder outside, which must not be opened."""

    def attempt(index: int, chance: Random, home: Path) -> None:
        name, data, check = made[index % len(made)]
        changed, said = mutated(data, chance, BAITS)
        path = home / "m.layup"
        path.write_bytes(changed)
        with about(f"{name}, {said}"), kept_inside(home):
            check(path, chance)

    return Tries(attempt)


def prepare(folder: Path) -> Tries:
    """Save something of every kind. What is read to import others is no file of a model's."""
    samples.tiny().with_engine("onnx")(torch.zeros(1, 3, samples.SIDE, samples.SIDE))
    RidgeClassifier(1.0).fit(np.eye(2), ["ant", "bee"])  # the checks of scikit-learn import pandas
    os.environ["LAYUP_KEYS"] = str(folder / "keys")
    made = [model_sample(name, samples.saved(folder, name)) for name in samples.MODELS]
    made += [predict_only_sample(name, folder / f"{name}.layup") for name in PREDICTING]
    sums = GramStatistics({"a": 3, "b": 2})
    sums.update(np.random.default_rng(0).normal(size=(20, 5)), ["ant", "bee"] * 10)
    sums.save(folder / "sums")
    made.append(("statistics", (folder / "sums").read_bytes(), _check_statistics))
    made += [(name, data, _check_checkpoint) for name, data in checkpoints(folder).items()]
    return tries(made)


PROMISE = Promise(
    "mutations",
    "A changed or forged model file is sound, or refused in a sentence; opening it runs nothing.",
    100_000,
    prepare,
)
