"""`layup export`: a predict-only model, which the commands that predict take, and no others."""

from __future__ import annotations

import json

import pytest

from layup import load
from layup.errors import InputError
from layup.export import onnx_graph
from layup.model import PredictOnly
from photos import name


def test_a_predict_only_model_takes_the_place_of_the_whole_one(here, ok):
    result = ok("export", "m.layup", "--to", "small.layup")
    assert "'small.layup' predicts 2 classes: " in result.out
    assert isinstance(load("small.layup"), PredictOnly)
    whole, small = (
        json.loads(ok("predict", model, "test", "--json").out) for model in ("m.layup", "small.layup")
    )
    for one, other in zip(whole, small, strict=True):
        assert one["label"] == other["label"]
        assert one["score"] == pytest.approx(other["score"])
    before, after = (
        json.loads(ok("evaluate", model, "test", "--json").out)["accuracy"]
        for model in ("m.layup", "small.layup")
    )
    assert before == after
    assert ok("explain", "small.layup", f"test/{name(0)}/060.png", "--no-heat").out.endswith(
        ok("explain", "m.layup", f"test/{name(0)}/060.png", "--no-heat").out.splitlines()[-1] + "\n"
    )


def test_info_shows_what_a_predict_only_model_holds(here, ok):
    ok("export", "m.layup", "--to", "small.layup")
    shown = ok("info", "small.layup").out
    assert "weights: it predicts, and cannot be taught" in shown
    assert name(0) in shown
    header = json.loads(ok("info", "small.layup", "--json").out)
    assert header["labels"] == [name(0), name(1)]
    assert "counts" not in header


@pytest.mark.parametrize(
    "command",
    [
        ("learn", "first", "--to", "small.layup"),
        ("sync", "first", "--to", "small.layup"),
        ("forget", "small.layup", "first"),
        ("undo", "small.layup"),
        ("rename", "small.layup", "a", "b"),
        ("merge", "m.layup", "small.layup", "--to", "both.layup"),
        ("merge", "small.layup", "m.layup", "--to", "both.layup"),
        ("audit", "small.layup", "first"),
        ("suggest", "small.layup", "first"),
        ("log", "small.layup"),
        ("serve", "small.layup"),
    ],
    ids=lambda command: " ".join(command),
)
def test_other_commands_say_that_it_cannot_be_taught(here, ok, refused, command):
    ok("export", "m.layup", "--to", "small.layup")
    before = (here / "small.layup").read_bytes()
    refused(*command, says=["is a predict-only model: it has weights and no sums"])
    assert (here / "small.layup").read_bytes() == before


def test_what_is_unseen_cannot_be_told_without_the_list_of_photos(here, ok, refused):
    ok("export", "m.layup", "--to", "small.layup")
    refused("evaluate", "small.layup", "test", "--unseen", says=["does not know which photos were learned"])


def test_a_model_is_never_replaced_and_a_file_only_if_that_is_wanted(here, ok, refused):
    refused("export", "m.layup", "--to", "m.layup", says=["is there already"])
    refused("export", "m.layup", "--to", "m.layup", "--overwrite", says=["would be lost"])
    ok("export", "m.layup", "--to", "small.layup")
    refused("export", "m.layup", "--to", "small.layup", says=["is there already"])
    ok("export", "m.layup", "--to", "small.layup", "--overwrite")
    refused("export", "m.layup", "--to", "small.pt", says=["must end with .layup"])
    refused("export", "missing.layup", "--to", "other.layup", says=["Cannot read 'missing.layup'"])


@pytest.fixture(scope="module")
def graph(shelf, tmp_path_factory):
    """The model as a graph, made once."""
    path = tmp_path_factory.mktemp("graph") / "m.onnx"
    path.write_bytes(onnx_graph(load(shelf / "m.layup", cache=False).predict_only()))
    return path


def test_a_graph_takes_the_place_of_the_model_where_it_is_asked(here, ok, graph):
    whole, said = (json.loads(ok("predict", model, "test", "--json").out) for model in ("m.layup", graph))
    for one, other in zip(whole, said, strict=True):
        assert one["label"] == other["label"]
        assert one["score"] == pytest.approx(other["score"], abs=1e-4)
    before, after = (
        json.loads(ok("evaluate", model, "test", "--picture", "c.png", "--json").out)["accuracy"]
        for model in ("m.layup", graph)
    )
    assert before == after
    assert "pixels to labels: it predicts, and cannot be taught" in ok("info", graph).out
    assert json.loads(ok("info", graph, "--json").out)["labels"] == [name(0), name(1)]


def test_what_a_graph_cannot_do_is_said(here, ok, refused, graph):
    photo = f"test/{name(0)}/060.png"
    for command in (
        ("explain", graph, photo),
        ("export", graph, "--to", "x.layup"),
        ("undo", graph),
        ("log", graph),
        ("learn", "first", "--to", graph),
        ("sync", "first", "--to", graph),
        ("merge", graph, "m.layup", "--to", "x.layup"),
        ("serve", graph),
    ):
        refused(*command, says=["is a graph that only predicts"])
    refused("predict", graph, photo, "--weights", "w.safetensors", says=["leave --weights out"])
    refused("predict", graph, "test", "--ray", says=["leave --ray out"])
    refused("evaluate", graph, "test", "--unseen", says=["does not know which photos were learned"])
    refused("predict", "missing.onnx", photo, says=["Cannot read 'missing.onnx'"])
    refused("predict", "test", graph, says=["The model comes first"])
    refused("export", "m.layup", "--to", "s.layup", "--int8", "test", says=["Only a .onnx file"])


def test_a_model_is_not_written_as_a_graph(here, ok, refused):
    """Such a file could not be asked by its name."""
    refused(
        "learn", "first", "--to", "new.onnx", says=["'new.onnx' is a graph that only predicts, by its name"]
    )
    refused("merge", "m.layup", "m.layup", "--to", "new.onnx", says=["is a graph that only predicts"])
    model = load("m.layup", cache=False)
    for each in (model, model.predict_only()):
        with pytest.raises(InputError, match="layup export writes it"):
            each.save("new.onnx")
    assert not [*here.glob("*.onnx*")]


def test_export_writes_a_graph_in_float32_and_in_int8(here, ok):
    assert "'m.onnx' predicts 2 classes" in ok("export", "m.layup", "--to", "m.onnx").out
    ok("export", "m.layup", "--to", "small.onnx", "--int8", "first")
    assert (here / "small.onnx").stat().st_size < (here / "m.onnx").stat().st_size / 2
    assert json.loads(ok("info", "small.onnx", "--json").out)["precision"] == "int8"
