"""One ONNX graph of a predict-only model: from the pixels of decoded images to labels.

images (N, height, width, 3), uint8     any number of images, any size, all of one size

label (N), text           the class with the highest score
scores (N, C)             of all classes
probabilities (N, C)      how probable each class is, if it is any of them; not of every classifier
confidence (N)            the largest of these
familiarity (N)           how like anything learned, −1 to 1; only of the default classifier
none_of_these (N)         how probable it is that it is none of the classes
unknown (N)               whether that is probable
classes (C), text         the labels, in the order of the scores
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import torch
from torch import Tensor, nn

from layup.algebra import Novelty, Readout
from layup.errors import InputError, MissingPackageError
from layup.export.about import KEY, About
from layup.export.pixels import Pixels
from layup.features import Extractor, FeatureSource
from layup.formats import brief
from layup.model import PredictOnly, written_with

OPSET = 17
SIDE = 96
"""Of the picture that is traced; the graph takes any other."""
LENGTH = 1e-30
"""The least squared length that is not zero."""


class Answers(nn.Module):
    """Rows of features to scores, and what follows from them, by name in `names`."""

    def __init__(self, readout: Readout, steepness: float | None, novelty: Novelty) -> None:
        super().__init__()
        self.metric, self.steepness, self.novelty = readout.metric, steepness, novelty
        self.weights, self.offsets = torch.from_numpy(readout.weights), torch.from_numpy(readout.offsets)
        near = readout.nearness
        self.near = None if near is None else tuple(torch.from_numpy(each) for each in vars(near).values())

    @property
    def names(self) -> list[str]:
        """Of what is computed, in order."""
        sure = [] if self.steepness is None else ["probabilities", "confidence"]
        return ["scores", *sure, *(["familiarity", "none_of_these", "unknown"] if self.near else [])]

    def forward(self, rows: Tensor) -> tuple[Tensor, ...]:
        """Rows → scores, and what follows."""
        scores = rows.double() @ self.weights + self.offsets
        if self.metric == "cosine":
            squares = (rows.double() ** 2).sum(dim=1, keepdim=True)
            scores = scores / squares.clamp(min=LENGTH).sqrt()
        elif self.metric == "euclidean":
            squares = (rows.double() ** 2).sum(dim=1, keepdim=True)
            scores = -(squares - 2 * scores).clamp(min=0.0).sqrt()
        found = [scores.float()]
        if self.steepness is not None:
            sure = torch.softmax((self.steepness * scores).float(), dim=1)
            found += [sure, sure.amax(dim=1)]
        if self.near is not None:
            found += self._familiar(rows, *self.near)
        return tuple(found)

    def _familiar(
        self, rows: Tensor, directions: Tensor, around: Tensor, sketch: Tensor, origin: Tensor
    ) -> list[Tensor]:
        squares = ((rows @ sketch - origin) ** 2).sum(dim=1, keepdim=True)
        cosines = (rows @ directions - around) / squares.clamp(min=LENGTH).sqrt()
        familiarity = cosines.amax(dim=1).clamp(-1.0, 1.0)
        none = self.novelty.curve(familiarity, torch.tanh)
        return [familiarity, none, none > 0.5]


class Graph(nn.Module):
    """All of it."""

    def __init__(self, pixels: Pixels, features: nn.Module, answers: Answers) -> None:
        super().__init__()
        self.pixels, self.features, self.answers = pixels, features, answers

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """Decoded images to what is said of them."""
        found: tuple[Tensor, ...] = self.answers(self.features(self.pixels(images)))
        return found


def onnx_graph(model: PredictOnly) -> bytes:
    """The ONNX file of a predict-only model, float32: see the top of this module."""
    onnx = _onnx()
    backbone, readout, calibration = model.backbone_, model.readout, model.calibration
    steepness = calibration.steepness if calibration and calibration.enough else readout.steepness
    novelty = Novelty.of(len(readout.labels), calibration)
    answers = Answers(readout, steepness, novelty)
    features = backbone.side_by_side(_layers(model.extractor_.unrounded))
    graph = Graph(Pixels(backbone.preprocessing), features, answers).eval()
    file = io.BytesIO()
    images = torch.zeros(2, SIDE, SIDE + 1, 3, dtype=torch.uint8)
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # see `layup.backbones.engines`
        torch.onnx.export(
            graph,
            (images,),
            file,  # type: ignore[arg-type]  # this exporter takes it
            dynamo=False,
            opset_version=OPSET,
            input_names=["images"],
            output_names=answers.names,
            dynamic_axes={
                "images": {0: "batch", 1: "height", 2: "width"},
                **{name: {0: "batch"} for name in answers.names},
            },
        )
    made = onnx.load_from_string(file.getvalue())
    _add_labels(onnx, made, readout.labels)
    said = About(
        labels=readout.labels,
        classifier=readout.kind,
        features=str(model.features),
        backbone={"name": backbone.name, "fingerprint": backbone.fingerprint},
        precision="float32",
        steepness=steepness,
        familiarity=readout.nearness is not None,
        calibration=calibration,
        versions=written_with(),
    )
    onnx.helper.set_model_props(made, {KEY: said.to_json()})
    made.producer_name = "layup"
    made.doc_string = brief(f"layup: {len(readout.labels)} classes, {backbone.name}")
    onnx.checker.check_model(made)
    return bytes(made.SerializeToString())


def _layers(source: FeatureSource) -> list[str]:
    """The layers that a source reads, if it makes nothing else of them."""
    if not isinstance(source, Extractor):
        raise InputError(
            "Only features that are layers of a network can be exported, "
            f"and these are {type(source).__name__}."
        )
    return [*source.layers]


def _add_labels(onnx: Any, made: Any, labels: list[str]) -> None:
    """The text of the best class, and of all: PyTorch has no tensors of text."""
    helper, graph = onnx.helper, made.graph
    graph.initializer.append(
        helper.make_tensor(
            "labels", onnx.TensorProto.STRING, [len(labels)], [each.encode() for each in labels]
        )
    )
    graph.node.append(helper.make_node("Identity", ["labels"], ["classes"], "classes"))
    graph.node.append(helper.make_node("ArgMax", ["scores"], ["best"], "best", axis=1, keepdims=0))
    graph.node.append(helper.make_node("Gather", ["labels", "best"], ["label"], "label", axis=0))
    graph.output.append(helper.make_tensor_value_info("classes", onnx.TensorProto.STRING, [len(labels)]))
    graph.output.insert(0, helper.make_tensor_value_info("label", onnx.TensorProto.STRING, ["batch"]))


def _onnx() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingPackageError(
            "Exporting to ONNX needs the package onnx. Install it: pip install 'layup-cl[onnx]'."
        ) from error
    return onnx
