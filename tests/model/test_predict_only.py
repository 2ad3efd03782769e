"""A predict-only model predicts what the whole one predicts, holds no sums, and says that it cannot learn."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layup import NMC, FirstSession, ImageModel, LayNMC, LayUP, load, memory, storage
from layup.algebra import ClassCovariancesClassifier
from layup.errors import DamagedFileError, InputError, NotEnoughMemoryError
from layup.features import Embedding
from layup.model import PredictOnly, read_predict_only
from layup.model.kind import PREDICT_ONLY
from photos import batch

Parts = tuple[dict[str, Any], dict[str, Any]]
PHOTOS = batch({0: 30, 1: 30, 2: 30})
OTHERS = batch({0: 6, 1: 6, 2: 6, 3: 6}, start=60)[0]
SEEN = "A predict-only model cannot "

MODELS: dict[str, Callable[[], ImageModel]] = {
    "layup": lambda: LayUP("vit-nano", cache=False),
    "ridge": lambda: LayUP("vit-nano", lam=1.0, cache=False),
    "nmc": lambda: NMC("vit-nano", cache=False),
    "laynmc": lambda: LayNMC("vit-nano", metric="euclidean", cache=False),
    "adapted": lambda: LayUP("vit-nano", k=1, adapter=FirstSession("vpt", epochs=1), cache=False),
}


def taught(name: str) -> ImageModel:
    model = MODELS[name]()
    model.learn(*PHOTOS)
    return model


@pytest.mark.parametrize("name", MODELS)
def test_it_predicts_and_explains_as_the_whole_model_does(name: str, tmp_path: Path) -> None:
    whole = taught(name)
    whole.predict_only().save(tmp_path / "small.layup")
    small = load(tmp_path / "small.layup", cache=False)
    assert isinstance(small, PredictOnly)
    assert small.classes_ == whole.classes_
    mine, theirs = small.predictions(OTHERS), whole.predictions(OTHERS)
    assert mine.labels == theirs.labels
    np.testing.assert_allclose(mine.scores, theirs.scores, rtol=0, atol=1e-12 * np.abs(theirs.scores).max())
    assert mine.steepness == theirs.steepness
    if theirs.none_of_these is None:
        assert mine.none_of_these is None
    else:  # a sketch of lengths is within 20 %, see tests/algebra/test_readout.py
        np.testing.assert_allclose(mine.none_of_these, theirs.none_of_these, atol=0.1)
        np.testing.assert_allclose(mine.familiarity, theirs.familiarity, atol=0.1)
        assert (mine.familiarity != theirs.familiarity).any()
    assert small.predict(OTHERS[:2]).tolist() == theirs.labels[:2]
    one, other = (each.explain(OTHERS[0], heat=False) for each in (small, whole))
    assert one.summary == other.summary
    assert one.to_dict()["second_score"] == pytest.approx(other.to_dict()["second_score"])
    assert (one.parts is None) == (other.parts is None)
    for mine_, other_ in zip(one.parts or (), other.parts or (), strict=True):
        assert mine_.layer == other_.layer
        assert mine_.lead == pytest.approx(other_.lead, abs=1e-9)


def test_what_its_photos_said_goes_with_it(tmp_path: Path) -> None:
    whole = LayUP("vit-nano")
    whole.learn(*PHOTOS)
    assert whole.expect() is not None
    whole.predict_only().save(tmp_path / "small.layup")
    small = load(tmp_path / "small.layup", cache=False)
    mine, theirs = small.predictions(OTHERS), whole.predictions(OTHERS)
    np.testing.assert_allclose(mine.probabilities, theirs.probabilities, atol=1e-12)
    assert mine.sets(0.9) == theirs.sets(0.9)


def test_the_file_holds_no_sums_and_nothing_of_single_photos(tmp_path: Path) -> None:
    whole = taught("layup")
    whole.save(tmp_path / "whole.layup")
    small = whole.predict_only()
    small.save(tmp_path / "small.layup")
    header, arrays = storage.read(tmp_path / "small.layup", PREDICT_ONLY)
    assert {*header} == {"features", "backbone", "classifier", "layers", "labels", "versions"}
    assert {name: array.shape for name, array in arrays.items()} == {
        "weights": (768, 3),
        "offsets": (3,),
        "average": (6, 3),
        "directions": (768, 3),
        "around": (3,),
        "sketch": (768, 256),
        "origin": (256,),
    }
    assert (tmp_path / "small.layup").stat().st_size < 0.4 * (tmp_path / "whole.layup").stat().st_size
    sums = whole.statistics_
    for name, array in arrays.items():  # none is a scaled class sum, mean or row of G
        rows = array.T if array.ndim == 2 and array.shape[0] == sums.dim else array[None]
        for row in rows if rows.shape[1] == sums.dim else []:
            for other in (*sums.means, *sums.gram[:5]):
                cosine = abs(row @ other) / np.linalg.norm(row) / np.linalg.norm(other)
                assert cosine < 0.9, name


def test_an_adapter_goes_with_it_but_not_how_it_was_tuned(tmp_path: Path) -> None:
    small = taught("adapted").predict_only()
    small.save(tmp_path / "small.layup")
    adapted = storage.read_header(tmp_path / "small.layup", PREDICT_ONLY)["backbone"]["adapted"]
    assert adapted["record"] == {}
    assert adapted["adapter"]["name"] == "vpt"


def test_a_predict_only_model_of_a_predict_only_model_is_itself(tmp_path: Path) -> None:
    taught("layup").predict_only().save(tmp_path / "one.layup")
    load(tmp_path / "one.layup").predict_only().save(tmp_path / "two.layup")
    one, two = (storage.read(tmp_path / name, PREDICT_ONLY) for name in ("one.layup", "two.layup"))
    assert one[0] == two[0]
    for name, array in one[1].items():
        np.testing.assert_array_equal(array, two[1][name])


def test_what_changes_or_needs_sums_is_refused_in_a_sentence() -> None:
    whole = taught("ridge")
    small = whole.predict_only()
    for work, said in (
        (lambda: small.learn(*PHOTOS), "learn"),
        (lambda: small.foresee(*PHOTOS), "tell what is new to it"),
        (lambda: small.learned_as(PHOTOS[0]), "tell what it has learned"),
        (lambda: small.sync(*PHOTOS), "learn and forget"),
        (lambda: small.forget(PHOTOS[0]), "forget"),
        (lambda: small.forget_class("digit 0"), "forget"),
        (lambda: small.undo(), "take a batch back"),
        (lambda: small.merge(whole), "be merged"),
        (lambda: small.rename("digit 0", "zero"), "rename a class"),
        (lambda: small.configure(lam=2.0), "be solved in another way"),
        (lambda: small.expect(), "judge its photos"),
        (lambda: small.audit(*PHOTOS), "judge its photos"),
        (lambda: small.suggest(PHOTOS[0]), "tell what would teach it most"),
    ):
        with pytest.raises(InputError) as caught:
            work()
        assert str(caught.value).startswith(f"{SEEN}{said}: it has weights and no sums.")
    with pytest.raises(InputError, match="Only models can be merged, not a PredictOnly"):
        whole.merge(small)


def test_a_model_that_knows_nothing_or_needs_its_sums_has_none() -> None:
    with pytest.raises(InputError, match="knows no class"):
        LayUP("vit-nano", cache=False).predict_only()
    model = ImageModel(Embedding(), ClassCovariancesClassifier(), backbone="vit-nano", cache=False)
    model.learn(*PHOTOS)
    with pytest.raises(InputError, match="'class covariances' predicts with its sums"):
        model.predict_only()


def test_who_wants_a_model_that_learns_is_told_that_this_is_none(tmp_path: Path) -> None:
    taught("ridge").predict_only().save(tmp_path / "small.layup")
    with pytest.raises(InputError, match="is a predict-only model: it has weights and no sums"):
        ImageModel.load(tmp_path / "small.layup")


# ---- files from strangers


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> Parts:
    """The header and the arrays of a sound file."""
    path = tmp_path_factory.mktemp("sound") / "small.layup"
    model = LayUP("vit-nano", k=2, cache=False)
    model.learn(*batch({0: 6, 1: 5}))
    model.predict_only().save(path)
    return storage.read(path, PREDICT_ONLY)


def put(*keys: Any) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    *way, last, value = keys

    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        for key in way:
            header = header[key]
        header[last] = value

    return change


def array(name: str, make: Callable[[Any], Any]) -> Callable[[dict[str, Any], dict[str, Any]], None]:
    def change(header: dict[str, Any], arrays: dict[str, Any]) -> None:
        arrays[name] = make(arrays[name])

    return change


def with_first(value: float) -> Callable[[Any], Any]:
    def make(values: Any) -> Any:
        flat = values.copy()
        flat.reshape(-1)[0] = value
        return flat

    return make


FORGERIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "no labels": put("labels", []),
    "labels not sorted": lambda header, arrays: header["labels"].reverse(),
    "labels twice": put("labels", ["a", "a"]),
    "label that is a number": put("labels", [1, 2]),
    "label with a command for terminals": put("labels", 0, "a\x1b[2Jb"),
    "more labels than weights": put("labels", ["a", "b", "c"]),
    "counts": put("counts", [6, 5]),
    "log": put("log", []),
    "photos": put("photos", {}),
    "unknown field": put("surprise", 1),
    "no classifier": lambda header, arrays: header.pop("classifier"),
    "kind of classifier that there is not": put("classifier", "kind", "oracle"),
    "metric that there is not": put("classifier", "metric", "taxi"),
    "metric and sketch": put("classifier", "metric", "cosine"),
    "steepness of zero": put("classifier", "steepness", 0),
    "steepness that is text": put("classifier", "steepness", "steep"),
    "huge steepness": put("classifier", "steepness", 10**400),
    "sketch of another size": put("classifier", "sketch", 5),
    "sketch of nothing": put("classifier", "sketch", 0),
    "sketch that is not said": put("classifier", "sketch", None),
    "parameters": put("classifier", "lam", 1.0),
    "calibration that is none": put("calibration", {"steepness": 1.0}),
    "layers of one name": put("layers", 1, 0, "blocks.10"),
    "layers in another order": lambda header, arrays: header["layers"].reverse(),
    "layer that does not exist": put("layers", 0, 0, "blocks.99"),
    "other widths": put("layers", 0, 1, 64),
    "width of zero": put("layers", 0, 1, 0),
    "k of more layers": put("features", "of", "k", 3),
    "more steps than layers": lambda header, arrays: header["features"]["steps"].append(-9),
    "kind of features that there is not": put("features", "kind", "all layers"),
    "backbone that is text": put("backbone", "vit-nano"),
    "engine that there is not": put("backbone", "engine", "steam"),
    "depth": put("backbone", "depth", 3),
    "another name in the spec": put("backbone", "spec", "name", "bundled"),
    "adapter without tensors": put("backbone", "adapted", {}),
    "tensors without an adapter": lambda header, arrays: arrays.update({"adapter.x": np.zeros(3, "f4")}),
    "versions": put("versions", {"layup": None}),
    "NaN in the weights": array("weights", with_first(np.nan)),
    "infinity in the sketch": array("sketch", with_first(np.inf)),
    "weights so large that scores overflow": array("weights", with_first(1e201)),
    "weights of other size": array("weights", lambda weights: weights[:-1]),
    "weights the other way round": array("weights", lambda weights: weights.T.copy()),
    "whole numbers": array("weights", lambda weights: weights.astype(np.int64)),
    "weights in float32": array("weights", lambda weights: weights.astype(np.float32)),
    "sketch in float64": array("sketch", lambda sketch: sketch.astype(np.float64)),
    "no weights": lambda header, arrays: arrays.pop("weights"),
    "no origin": lambda header, arrays: arrays.pop("origin"),
    "G": lambda header, arrays: arrays.update(gram=np.zeros(3)),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_file_is_refused_when_loaded_and_when_shown(
    name: str, tmp_path: Path, parts: Parts, refused: Callable[..., Any]
) -> None:
    header, arrays = copy.deepcopy(parts)
    FORGERIES[name](header, arrays)
    path = tmp_path / "small.layup"
    storage.write(path, PREDICT_ONLY, header, arrays)
    with pytest.raises(DamagedFileError) as caught:
        load(path)
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    refused("info", path, says=["is damaged, or not a layup file"])


def test_the_same_file_unforged_is_read(tmp_path: Path, parts: Parts) -> None:
    storage.write(tmp_path / "small.layup", PREDICT_ONLY, *parts)
    found = read_predict_only(tmp_path / "small.layup")
    assert found.header == parts[0]
    assert found.readout.labels == ["digit 0", "digit 1"]


def test_a_file_that_does_not_fit_into_memory_is_not_read(
    tmp_path: Path, parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage.write(tmp_path / "small.layup", PREDICT_ONLY, *parts)
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(NotEnoughMemoryError, match="Reading this model would take about"):
        load(tmp_path / "small.layup")


def test_what_cannot_be_loaded_is_not_saved(tmp_path: Path) -> None:
    small = taught("ridge").predict_only()
    small.readout.labels[0] = ""
    with pytest.raises(InputError, match=r"cannot be saved: header\.labels.*Nothing was written"):
        small.save(tmp_path / "small.layup")
    assert not (tmp_path / "small.layup").exists()
