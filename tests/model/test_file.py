"""Forged files whose checksums are right: sound, or refused in a sentence before anything is done with it."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from layup import NMC, FirstSession, LayUP, load, load_backbone, memory, storage
from layup.backbones import ENGINES
from layup.errors import DamagedFileError, InputError, LayupError, NotEnoughMemoryError
from layup.features import EMBEDDING, Embedding, Fourier, Projected
from layup.formats import size_of
from layup.model import file as model_file
from layup.model.file import BUILT_IN, KIND, ModelFile, read_model
from layup.model.log import Entry
from photos import batch

Parts = tuple[dict[str, Any], dict[str, Any]]
FIRST = batch({0: 6, 1: 5})


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """The header and the arrays of a sound file."""
    path = tmp_path_factory.mktemp("sound") / "m.layup"
    model = LayUP("vit-nano", k=2, lam=1.0, cache=False)
    model.learn(*FIRST)
    model.save(path)
    return storage.read(path, KIND)


@pytest.fixture(scope="module")
def tuned_parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """Those of a model with an adapter."""
    path = tmp_path_factory.mktemp("tuned") / "m.layup"
    model = LayUP("vit-nano", k=1, lam=1.0, adapter=FirstSession("vpt", epochs=1), cache=False)
    model.learn(*FIRST)
    model.save(path)
    return storage.read(path, KIND)


def forged(path: Path, parts: Parts, change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
    header, arrays = copy.deepcopy(parts)
    change(header, arrays)
    storage.write(path, KIND, header, arrays)
    return path


def put(*keys: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    """Change a field of the header, by its path; the last is the value."""
    *way, last, value = keys

    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        for key in way:
            header = header[key]
        header[last] = value

    return change


def drop(*keys: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    *way, last = keys

    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        for key in way:
            header = header[key]
        del header[last]

    return change


def array(name: str, make: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = make(arrays[name])

    return change


def with_value(position: int, value: float) -> Callable[[Any], Any]:
    def make(values: Any) -> Any:
        flat = values.copy()
        flat.reshape(-1)[position] = value
        return flat

    return make


FORGERIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "negative count": put("counts", 0, -1),
    "count of zero": put("counts", 0, 0),
    "count of one and a half": put("counts", 0, 1.5),
    "count beyond what floats tell apart": put("counts", 0, 2**62),
    "count that is true": put("counts", 0, True),
    "too few counts": put("counts", [3]),
    "no counts": drop("counts"),
    "counts that are text": put("counts", "65"),
    "labels twice": lambda header, arrays: header.update(labels=2 * header["labels"][:1]),
    "labels not sorted": lambda header, arrays: header["labels"].reverse(),
    "label that is a number": put("labels", 0, 5),
    "empty label": put("labels", 0, ""),
    "label with a command for terminals": put("labels", 0, "a\x1b[2Jb"),
    "more labels than sums": put("labels", ["a", "b", "c"]),
    "labels that are fields": put("labels", {"a": 1}),
    "lambda not a number": put("chosen", "lambda", "NaN"),
    "negative lambda": put("chosen", "lambda", -1.0),
    "huge lambda": put("chosen", "lambda", 10**400),
    "no lambda": drop("chosen", "lambda"),
    "lambdas of blocks": put("chosen", "lambdas", {"a": 1.0}),
    "rule for lambda": put("classifier", "lam", "magic"),
    "rule for lambda that is a list": put("classifier", "lam", [1]),
    "unknown setting": put("classifier", "colour", "red"),
    "workers": put("workers", 100000),
    "cache": put("features", "cache", True),
    "setting of another method": put("classifier", "metric", "cosine"),
    "k of zero": put("features", "k", 0),
    "k that is text": put("features", "k", "six"),
    "k of fewer layers": put("features", "k", 1),
    "k of more layers": put("features", "k", 5000),
    "no k": drop("features", "of", "k"),
    "features that are a list": put("features", []),
    "precision": put("classifier", "precision", "float8"),
    "grid that there is not": put("classifier", "grid", "coarse"),
    "no grid": drop("classifier", "grid"),
    "precision of other sums": put("classifier", "precision", "float32"),
    "no classifier": drop("classifier"),
    "kind of classifier that is a number": put("classifier", "kind", 1),
    "kind of classifier that there is not": put("classifier", "kind", "oracle"),
    "classifier of other sums": lambda header, arrays: header.update(
        classifier={"kind": "nearest mean", "metric": "cosine"}, chosen={}
    ),
    "kind of features that there is not": put("features", "kind", "all layers"),
    "features within features that are none": put(
        "features", {**Projected(Embedding(), 256).to_dict(), "of": {"kind": "oracle"}}
    ),
    "features of other layers": put("features", {"kind": "one layer", "layer": 1}),
    "features that are a mean": put("features", {"kind": "mean of layers", "k": 2}),
    "projection of another width": put("features", Projected(Embedding(), 300).to_dict()),
    "waves of another number": put("features", Fourier(Embedding(), 300).to_dict()),
    "unknown field": put("surprise", 1),
    "no backbone": drop("backbone"),
    "backbone that is text": put("backbone", "vit-nano"),
    "no engine": drop("backbone", "engine"),
    "engine that there is not": put("backbone", "engine", "steam"),
    "long name": lambda header, arrays: header["backbone"].update(
        name="hf:" + 5000 * "a", spec={**header["backbone"]["spec"], "name": "hf:" + 5000 * "a"}
    ),
    "fingerprint": put("backbone", "fingerprint", None),
    "depth": put("backbone", "depth", 3),
    "device in the spec": put("backbone", "spec", "device", "cuda"),
    "another name in the spec": put("backbone", "spec", "name", "bundled"),
    "spec without a name": drop("backbone", "spec", "name"),
    "input size": put("backbone", "spec", "input_size", -3),
    "adapter without tensors": put("backbone", "adapted", {}),
    "layer that does not exist": put("layers", 0, 0, "blocks.99"),
    "layers in another order": lambda header, arrays: header["layers"].reverse(),
    "layers of one name": put("layers", 1, 0, "blocks.10"),
    "width of zero": put("layers", 0, 1, 0),
    "other widths": put("layers", 0, 1, 64),
    "layers that are no pairs": put("layers", ["blocks.10", "blocks.11"]),
    "no log": drop("log"),
    "entry that is text": put("log", ["first"]),
    "id that is no hash": put("log", 0, "id", "first"),
    "action that there is not": put("log", 0, "action", "guess"),
    "learned a count of zero": put("log", 0, "learned", {"digit 0": 0}),
    "learned what is no count": put("log", 0, "learned", ["digit 0"]),
    "lambda of the log not a number": put("log", 0, "chosen", {"lambda": "NaN"}),
    "date that is a number": put("log", 0, "date", 20261117),
    "note that is a number": put("log", 0, "note", 1),
    "photos of no batch": put("log", []),
    "photos without sections": drop("photos", "sections"),
    "photos that are a list": put("photos", []),
    "key that is no hash": put("photos", "sections", 0, "key", "../../home"),
    "nonce that is no hash": put("photos", "sections", 0, "nonce", "00 00"),
    "nonce of other photos": put("photos", "sections", 0, "nonce", "0" * 32),
    "more photos than digests": put("photos", "sections", 0, "photos", 12),
    "photos below zero": put("photos", "sections", 0, "photos", -1),
    "other digests": array("photos.digests", with_value(5, 77)),
    "digests of other length": array("photos.digests", lambda digests: digests[:, :8].copy()),
    "no digests": lambda header, arrays: arrays.pop("photos.digests"),
    "digests of an anonymous model": lambda header, arrays: header.pop("photos"),
    "photo of a class that there is not": array("photos.classes", with_value(0, 2)),
    "photo of a class below all": array("photos.classes", with_value(0, -2)),
    "photo of a batch that there is not": array("photos.batches", with_value(0, 1)),
    "photo of a batch below all": array("photos.batches", with_value(0, -1)),
    "more photos of a class than images": array("photos.classes", lambda classes: 0 * classes),
    "classes of another type": array("photos.classes", lambda classes: classes.astype(np.int64)),
    "roots that are not there": put("roots", {"dim": 256, "labels": [], "counts": [], "rows": []}),
    "versions": put("versions", {"layup": None}),
    "NaN in the class sums": array("prototypes", with_value(3, np.nan)),
    "infinity in G": array("gram", with_value(3, np.inf)),
    "negative diagonal": array("gram", with_value(0, -1e3)),
    "indefinite G": array("gram", with_value(1, 1e6)),
    "G below zero": array("gram", lambda gram: -gram),
    "class sums that G cannot have": array("prototypes", lambda sums: 100 * sums),
    "G of nothing": array("gram", lambda gram: 0 * gram),
    "sums so large that their squares overflow": lambda header, arrays: arrays.update(
        gram=1e300 * arrays["gram"], prototypes=1e150 * arrays["prototypes"]
    ),
    "class sums larger than any": array("prototypes", lambda sums: 1e200 * sums),
    "G of other size": array("gram", lambda gram: gram[:-1]),
    "G as a square": array("gram", lambda gram: gram[: 181 * 181].reshape(181, 181)),
    "whole numbers": array("gram", lambda gram: gram.astype(np.int64)),
    "two types": array("gram", lambda gram: gram.astype(np.float32)),
    "unknown array": lambda header, arrays: arrays.update(more=np.zeros(3)),
    "no class sums": lambda header, arrays: arrays.pop("prototypes"),
    "no G": lambda header, arrays: arrays.pop("gram"),
    "tensors without an adapter": lambda header, arrays: arrays.update({"adapter.x": np.zeros(3, "f4")}),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_file_is_refused_when_loaded_and_when_shown(
    name: str, tmp_path: Path, parts: Parts, refused: Callable[..., Any]
) -> None:
    path = forged(tmp_path / "m.layup", parts, FORGERIES[name])
    with pytest.raises(DamagedFileError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    refused("info", path, says=["is damaged, or not a layup file"])


def test_what_files_hold_is_known_of_every_engine() -> None:
    assert {*model_file.ENGINES} == {*ENGINES}


def test_a_sound_file_is_read_whole(tmp_path: Path, parts: Parts) -> None:
    found = read_model(forged(tmp_path / "m.layup", parts, lambda header, arrays: None))
    assert isinstance(found, ModelFile)
    assert found.header == parts[0]
    assert found.sums.labels == parts[0]["labels"]


def test_a_lambda_that_is_a_whole_number_is_a_number(tmp_path: Path, parts: Parts) -> None:
    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        header["classifier"]["lam"] = "search"
        header["chosen"]["lambda"] = 255

    found = load(forged(tmp_path / "m.layup", parts, change), cache=False)
    assert type(found.lambda_) is float
    assert found.lambda_ == 255


ADAPTER_FORGERIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "too many prompts": put("backbone", "adapted", "adapter", "tokens", 10**9),
    "no name": drop("backbone", "adapted", "adapter", "name"),
    "settings that are lists": put("backbone", "adapted", "adapter", "tokens", [5]),
    "settings that are true": put("backbone", "adapted", "adapter", "tokens", True),
    "settings that are missing": put("backbone", "adapted", "adapter", "depth", None),
    "adapter that there is not": put("backbone", "adapted", "adapter", "name", "nonsense"),
    "setting of another adapter": put("backbone", "adapted", "adapter", "dropout", 0.1),
    "tuned values": put("backbone", "adapted", "tuned_values", 3),
    "epochs": put("backbone", "adapted", "record", "epochs", [{"loss": "small", "accuracy": None}]),
    "kept epoch": put("backbone", "adapted", "record", "kept", 2),
    "half a record": drop("backbone", "adapted", "record", "kept"),
    "no preprocessing": drop("backbone", "adapted", "preprocessing"),
    "mean": put("backbone", "adapted", "preprocessing", "mean", [0.5]),
    "size": put("backbone", "adapted", "preprocessing", "size", [10**6, 10**6]),
}


@pytest.mark.parametrize("name", ADAPTER_FORGERIES)
def test_a_forged_adapter_is_refused_when_loaded_and_when_shown(
    name: str, tmp_path: Path, tuned_parts: Parts, refused: Callable[..., Any]
) -> None:
    path = forged(tmp_path / "m.layup", tuned_parts, ADAPTER_FORGERIES[name])
    with pytest.raises(DamagedFileError):
        load(path)
    refused("info", path, says=["is damaged, or not a layup file"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (("adapter", "tokens"), 4),
        (("adapter", "depth"), "nonsense"),
        (("preprocessing", "crop"), "nonsense"),
        (("preprocessing", "std"), [0, 0, 0]),
        (("preprocessing", "size"), [4000, 4000]),
    ],
)
def test_an_adapter_that_does_not_fit_its_network_is_refused_when_an_image_is_read(
    field: tuple[str, str], value: Any, tmp_path: Path, tuned_parts: Parts
) -> None:
    path = forged(tmp_path / "m.layup", tuned_parts, put("backbone", "adapted", *field, value))
    model = load(path, cache=False)
    with pytest.raises(LayupError):
        model.predict(FIRST[0][:1])


def test_layers_are_compared_with_the_backbone_where_they_are_not_known_before(tmp_path: Path) -> None:
    """Nearest means of the embedding: nothing but the network itself tells how wide it is."""
    model = NMC("vit-nano", cache=False)
    model.learn(*FIRST)
    model.save(tmp_path / "n.layup")
    header, arrays = storage.read(tmp_path / "n.layup", KIND)
    assert header["layers"] == [[EMBEDDING, 128]]
    header["layers"] = [["blocks.11", 128]]
    storage.write(tmp_path / "n.layup", KIND, header, arrays)
    with pytest.raises(DamagedFileError, match="other layers than its backbone has"):
        load(tmp_path / "n.layup", cache=False).predict(FIRST[0][:1])


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_layers_of_what_comes_with_layup_are_known(name: str) -> None:
    layers = load_backbone(name).layers
    assert list(BUILT_IN[name].items()) == [(layer.name, layer.width) for layer in layers]


def sparse_file(path: Path, parts: Parts, declared: dict[str, Any], size: int) -> None:
    """A file whose arrays are said to take `size` bytes, of which none is there."""
    storage.write(path, KIND, {**parts[0]}, parts[1])
    with safetensors.safe_open(path, framework="np") as file:
        metadata = file.metadata()
    head = json.dumps({"__metadata__": metadata, **declared}).encode()
    head += b" " * (-len(head) % 8)
    path.write_bytes(len(head).to_bytes(8, "little") + head)
    with path.open("r+b") as file_:
        file_.truncate(8 + len(head) + size)


def test_a_sparse_file_of_six_gigabytes_is_refused_and_not_read(tmp_path: Path, parts: Parts) -> None:
    """In a process that may take little memory: to read it would end that."""
    size = 6 * 2**30
    small = parts[1]["prototypes"].nbytes
    gram = {"dtype": "F64", "shape": [(size - small) // 8], "data_offsets": [small, size]}
    sums = {"dtype": "F64", "shape": [2, 256], "data_offsets": [0, small]}
    sparse_file(tmp_path / "m.layup", parts, {"gram": gram, "prototypes": sums}, size)
    code = (
        "import resource, sys; from layup.errors import LayupError; from layup.model.file import read_model\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (2**30, 2**30))\n"
        "try: read_model(sys.argv[1])\n"
        "except LayupError as error: print(error)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, tmp_path / "m.layup"], capture_output=True, text=True, timeout=60
    )
    assert "its array 'gram' is float64 of shape (80" in done.stdout, done.stderr


def test_a_file_that_does_not_fit_into_memory_is_not_read(
    tmp_path: Path, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = forged(tmp_path / "m.layup", parts, lambda header, arrays: None)
    monkeypatch.setattr(memory, "available", lambda: 200_000)
    with pytest.raises(NotEnoughMemoryError, match="Reading this model would take about"):
        load(path)
    with pytest.raises(NotEnoughMemoryError, match=r"Reading '.*m\.layup' would take about"):
        storage.read(path, KIND)


def test_what_an_adapter_takes_is_not_taken_for_sums(
    tmp_path: Path, tuned_parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = forged(tmp_path / "m.layup", tuned_parts, lambda header, arrays: None)
    sums, tuned, photos = (
        sum(each.nbytes for name, each in tuned_parts[1].items() if name.startswith(beginning))
        for beginning in (("gram", "prototypes"), "adapter.", "photos.")
    )
    monkeypatch.setattr(memory, "available", lambda: 1)
    with pytest.raises(NotEnoughMemoryError) as caught:
        load(path)
    assert size_of(10 * sums + 2 * tuned + 6 * photos) in str(caught.value)


def test_the_size_of_images_that_an_adapter_asks_for_is_forecast(
    tmp_path: Path, tuned_parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = put("backbone", "adapted", "preprocessing", "size", [4000, 4000])
    model = load(forged(tmp_path / "m.layup", tuned_parts, change), cache=False)
    monkeypatch.setattr(memory, "available", lambda: 10**9)
    with pytest.raises(NotEnoughMemoryError, match="4000 × 4000 pixels"):
        model.predict(FIRST[0][:1])


def test_what_can_be_saved_can_be_loaded(tmp_path: Path) -> None:
    model = LayUP("vit-nano", k=np.int64(1), lam=np.float32(1), balance=1, cache=False)  # type: ignore[arg-type]
    model.learn(*FIRST)
    model.save(tmp_path / "m.layup")
    assert load(tmp_path / "m.layup", cache=False).counts_ == model.counts_
    model.log.append(Entry("learn", id="not an id"))
    with pytest.raises(InputError, match=r"cannot be saved: header\.log.*Nothing was written"):
        model.save(tmp_path / "other.layup")
    assert not (tmp_path / "other.layup").exists()


def test_what_was_forgotten_leaves_a_sound_file(tmp_path: Path) -> None:
    """All but a few, read again with other rounding: what is saved can be loaded."""
    model = LayUP("vit-nano", k=2, lam=1.0, cache=False)
    images, labels = batch({0: 60, 1: 60})
    model.learn(images, labels)
    other = LayUP(load_backbone("vit-nano", engine="folded"), k=2, lam=1.0, cache=False)
    gone = model.statistics_.empty()
    gone.update(other.extractor_.extract(images[2:]).rows, labels[2:])
    model.classifier_.adopt(model.statistics_ - gone)
    model.knowledge.photos = model.photos.without(np.arange(2, 120))
    model.save(tmp_path / "m.layup")
    assert load(tmp_path / "m.layup", cache=False).counts_ == model.counts_


def test_images_of_a_size_that_memory_cannot_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 20 * 10**9)
    with pytest.raises(
        NotEnoughMemoryError, match=r"20000 × 20000 pixels .* What would fit: a smaller input size"
    ):
        load_backbone("bundled", input_size=20000)
    nano = LayUP("vit-nano", cache=False)
    nano.learn(*FIRST)
    monkeypatch.setattr(memory, "available", lambda: 1000)
    for work in (nano.predict, nano.predictions):
        with pytest.raises(NotEnoughMemoryError):
            work(FIRST[0])


def test_predicting_forgetting_and_merging_are_forecast(
    tmp_path: Path, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = forged(tmp_path / "m.layup", parts, lambda header, arrays: None)
    mine, other = load(path, cache=False), load(path, cache=False)
    before = storage.read(path, KIND)[1]
    monkeypatch.setattr(memory, "available", lambda: 100_000)
    for work, says in (
        (lambda: mine.predict(FIRST[0]), "Predicting would take"),
        (lambda: mine.forget(*FIRST), "Forgetting would take"),
        (lambda: mine.merge(other), "Merging would take"),
    ):
        with pytest.raises(NotEnoughMemoryError, match=says):
            work()
    for name, values in mine.statistics_.state()[1].items():
        np.testing.assert_array_equal(values, before[name])


def test_the_input_errors_of_a_model_stay_what_they_are() -> None:
    """What a person gives is no damaged file."""
    with pytest.raises(InputError, match="magic"):
        LayUP("vit-nano", lam="magic", cache=False).learn(*FIRST)
