"""An exported graph says what the model says, of photos of any size, and PyTorch is not needed to ask it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from PIL import Image
from sklearn.datasets import load_sample_images

from layup import LayNMC, LayUP
from layup.errors import DamagedFileError, InputError
from layup.export import About, OnnxModel, in_int8, onnx_graph
from layup.features import OneLayer, Projected
from layup.model import ImageModel

ROOT = Path(__file__).parent.parent.parent
CLOSE = 1e-4
SIDES = (150, 97, 210)
"""Of photos, in pixels: none is that of the network."""


def photos(per_class: int, start: int = 0) -> tuple[list[Image.Image], list[str]]:
    """Parts of two real photos, of a temple and a flower, of several sizes."""
    rng = np.random.default_rng(start)
    found, labels = [], []
    for number in range(per_class):
        for name, picture in zip(("temple", "flower"), load_sample_images().images, strict=True):
            side = SIDES[number % len(SIDES)]
            high = min(side + 31, picture.shape[0])
            top, left = rng.integers(picture.shape[0] - high), rng.integers(picture.shape[1] - side)
            found.append(Image.fromarray(picture[top : top + high, left : left + side]))
            labels.append(name)
    return found, labels


def taught(make: Callable[[], ImageModel]) -> ImageModel:
    model = make()
    model.learn(*photos(12))
    return model


@pytest.fixture(scope="module")
def model() -> ImageModel:
    return taught(lambda: LayUP("vit-nano", cache=False))


@pytest.fixture(scope="module")
def path(model: ImageModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("graph") / "m.onnx"
    found.write_bytes(onnx_graph(model.predict_only()))
    return found


def assert_says_the_same(path: Path, model: ImageModel) -> None:
    """Scores within `CLOSE`, as a share of the largest, if that is above 1."""
    images, _ = photos(6, start=1)
    graph, small = OnnxModel(path).predictions(images), model.predict_only().predictions(images)
    whole = model.predictions(images)
    assert graph.labels == whole.labels
    size = max(1.0, float(np.abs(whole.scores).max()))
    np.testing.assert_allclose(graph.scores, whole.scores, rtol=0, atol=CLOSE * size)
    if whole.probabilities is None:
        assert graph.probabilities is None
    else:
        np.testing.assert_allclose(graph.probabilities, whole.probabilities, atol=10 * CLOSE)
    if whole.none_of_these is None:
        assert graph.none_of_these is None
    else:
        np.testing.assert_allclose(graph.none_of_these, small.none_of_these, atol=1e-3)


def test_a_graph_says_what_the_model_says_from_pixels_on(path: Path, model: ImageModel) -> None:
    assert_says_the_same(path, model)


@pytest.mark.parametrize(
    "make",
    [
        lambda: LayUP("vit-nano", k=2, lam=1.0, cache=False),
        lambda: LayUP("vit-nano", k=2, exact=False, cache=False),
        lambda: LayNMC("vit-nano", k=1, cache=False),
        pytest.param(
            lambda: LayNMC("vit-nano", k=1, metric="euclidean", cache=False), marks=pytest.mark.slow
        ),
        pytest.param(lambda: LayUP("bundled", cache=False), marks=pytest.mark.slow),
    ],
    ids=["ridge", "not exact", "cosine", "euclidean", "bundled"],
)
def test_so_does_that_of_every_kind(make: Callable[[], ImageModel], tmp_path: Path) -> None:
    model = taught(make)
    (tmp_path / "m.onnx").write_bytes(onnx_graph(model.predict_only()))
    assert_says_the_same(tmp_path / "m.onnx", model)


def test_all_outputs_agree_with_each_other_and_a_batch_with_its_images(path: Path) -> None:
    session = OnnxModel(path).session
    images = np.stack([np.array(image.resize((90, 70))) for image in photos(3)[0]])
    names = [each.name for each in session.get_outputs()]
    found = dict(zip(names, session.run(names, {"images": images}), strict=True))
    assert names[0] == "label"
    assert found["classes"].tolist() == ["flower", "temple"]
    assert found["label"].tolist() == found["classes"][found["scores"].argmax(axis=1)].tolist()
    np.testing.assert_array_equal(found["confidence"], found["probabilities"].max(axis=1))
    np.testing.assert_array_equal(found["unknown"], found["none_of_these"] > 0.5)
    np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1, rtol=1e-6)
    alone = np.concatenate([session.run(["scores"], {"images": image[None]})[0] for image in images])
    np.testing.assert_allclose(found["scores"], alone, atol=1e-4)


def test_what_is_no_image_is_told_of_and_the_others_are_predicted(path: Path) -> None:
    images, _ = photos(1)
    found = OnnxModel(path).predictions([images[0], "missing.jpg", images[1]])
    assert found.kept == [0, 2]
    assert [(each.index, each.reason) for each in found.bad] == [
        (1, "Cannot use 'missing.jpg': there is no such file.")
    ]


def test_predicting_needs_no_torch(path: Path, tmp_path: Path) -> None:
    """The command, and the example of twenty lines, which needs no layup either."""
    photos(1)[0][0].save(tmp_path / "a.png")
    code = (
        "import sys; from layup.cli import main; sys.argv[1:] = ['predict', *sys.argv[1:], '--json']\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert not {'torch', 'timm', 'sklearn', 'torchvision'} & {*sys.modules}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, path, tmp_path / "a.png"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    (said,) = json.loads(done.stdout)
    example = ROOT / "examples" / "predict_onnx.py"
    code = f"import runpy, sys; runpy.run_path({str(example)!r}); assert 'layup' not in sys.modules"
    plain = subprocess.run(
        [sys.executable, "-c", code, path, tmp_path / "a.png"], capture_output=True, text=True, timeout=120
    )
    assert plain.returncode == 0, plain.stderr
    shown = f"unknown ({said['label']}?)" if said["unknown"] else said["label"]
    assert plain.stdout == f"{tmp_path / 'a.png'}\t{shown}\t{said['confidence']:.0%}\n"
    assert len(example.read_text().splitlines()) <= 20


def test_int8_computes_the_network_in_int8_and_nothing_else(path: Path, tmp_path: Path) -> None:
    (tmp_path / "int8.onnx").write_bytes(in_int8(path.read_bytes(), photos(6)[0]))
    small = OnnxModel(tmp_path / "int8.onnx")
    assert small.about.precision == "int8"
    assert (tmp_path / "int8.onnx").stat().st_size < path.stat().st_size / 2
    images, labels = photos(6, start=1)
    assert np.mean([a == b for a, b in zip(small.predictions(images).labels, labels, strict=True)]) > 0.8
    whole = OnnxModel(path).predictions(images)
    assert np.abs(small.predictions(images).scores - whole.scores).max() > 1e-4  # it is not the same network
    graph = onnx.load(tmp_path / "int8.onnx").graph
    rounded = {node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    assert rounded
    assert not [name for name in rounded if "/answers/" in name]
    assert len([name for name in rounded if "/pixels/" in name]) == 1  # what the network is given
    with pytest.raises(InputError, match="none of these can be used"):
        in_int8(path.read_bytes(), ["missing.jpg"])


def test_int8_prints_no_advice_and_leaves_logging_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    in_int8(path.read_bytes(), photos(1)[0])
    assert logging.getLogger().handlers == []
    assert capsys.readouterr().err == ""


def test_int8_measures_on_photos_from_the_first_to_the_last(path: Path, tmp_path: Path) -> None:
    """Photos come class by class: of 100, those after the 64th are seen as well."""
    image = photos(1)[0][0]
    (tmp_path / "int8.onnx").write_bytes(in_int8(path.read_bytes(), ["missing.jpg"] * 64 + [image] * 36))
    assert OnnxModel(tmp_path / "int8.onnx").about.precision == "int8"


def test_features_that_are_not_layers_are_refused() -> None:
    plain = LayUP("vit-nano", lam=1.0)
    model = ImageModel(Projected(OneLayer(12), 64), plain.classifier, backbone="vit-nano", cache=False)
    model.learn(*photos(2))
    with pytest.raises(InputError, match="Only features that are layers of a network can be exported"):
        onnx_graph(model.predict_only())


# ---- files from strangers


def changed(path: Path, to: Path, change: Callable[[onnx.ModelProto], object]) -> Path:
    found = onnx.load(path)
    change(found)
    to.write_bytes(found.SerializeToString())
    return to


def says(**values: object) -> Callable[[onnx.ModelProto], None]:
    def change(found: onnx.ModelProto) -> None:
        said = json.loads({each.key: each.value for each in found.metadata_props}["layup"]) | values
        onnx.helper.set_model_props(found, {"layup": json.dumps(said)})

    return change


def without_scores(found: onnx.ModelProto) -> None:
    kept = [each for each in found.graph.output if each.name != "scores"]
    del found.graph.output[:]
    found.graph.output.extend(kept)


@pytest.mark.parametrize(
    "change",
    [
        says(labels=["flower"]),
        says(labels=["temple", "flower"]),
        says(labels=["a\x1b[2Jb", "flower"]),
        says(labels=[]),
        says(steepness=-1.0),
        says(precision="int4"),
        says(calibration={"steepness": 1.0}),
        says(surprise=1),
        says(format=2),
        lambda found: onnx.helper.set_model_props(found, {"layup": "{"}),
        without_scores,
    ],
)
def test_a_forged_graph_is_refused_in_a_sentence(
    change: Callable[[onnx.ModelProto], object], path: Path, tmp_path: Path
) -> None:
    with pytest.raises(DamagedFileError) as caught:
        OnnxModel(changed(path, tmp_path / "m.onnx", change))
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


def test_a_graph_of_another_program_is_not_called_damaged(path: Path, tmp_path: Path) -> None:
    other = changed(path, tmp_path / "m.onnx", lambda found: onnx.helper.set_model_props(found, {}))
    with pytest.raises(InputError, match=r"m.onnx' is an ONNX file of another program"):
        OnnxModel(other)


def test_what_is_no_graph_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(b"no graph")
    with pytest.raises(DamagedFileError):
        OnnxModel(tmp_path / "m.onnx")


def test_a_graph_that_wants_a_file_beside_it_does_not_get_it(path: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(10**6))

    def change(found: onnx.ModelProto) -> None:
        tensor = next(each for each in found.graph.initializer if len(each.raw_data) > 1000)
        onnx.external_data_helper.set_external_data(tensor, "secret")
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL

    with pytest.raises(DamagedFileError):
        OnnxModel(changed(path, tmp_path / "m.onnx", change))


def test_about_is_what_it_says() -> None:
    said = About(["a"], "ridge", "k=1", {"name": "n", "fingerprint": "0" * 64}, "int8", None, False, None, {})
    assert About.from_json(said.to_json()) == said
