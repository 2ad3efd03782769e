"""The models that people make: LayUP, and the nearest-mean baselines that share its sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

from layup.algebra import AutoClassifier, NearestMeanClassifier, RidgeClassifier, RidgeOptions, SumsClassifier
from layup.backbones import Backbone
from layup.features import Embedding, LastLayers, Reading, Rounded
from layup.model.image_model import ImageModel
from layup.model.kind import is_predict_only
from layup.model.predict_only import PredictOnly
from layup.tuning import Wanted


class ModelOptions(Reading, total=False):
    """How images are read (`Reading`), and what is kept of them, see `ImageModel`."""

    anonymous: bool
    per_class: bool


class RidgeModelOptions(RidgeOptions, ModelOptions, total=False):
    """How sums are solved (`RidgeOptions`), and the rest."""


def LayUP(
    backbone: str | Backbone = "bundled",
    k: int | None = None,
    lam: float | str | None = None,
    *,
    adapter: Wanted = None,
    exact: bool | None = None,
    **options: Unpack[RidgeModelOptions],
) -> ImageModel:
    """Multi-layer classification that keeps adding classes, from sums.

    By default with the classifier that makes all its choices by itself (`AutoClassifier`); with `lam`, or any
    option of the ridge classifier, with the paper's (`RidgeClassifier`).

    Args:
        backbone: a name for `load_backbone`, or a loaded `Backbone`.
        k: how many of the backbone's last layers to use; None for the backbone's default.
        lam: for the paper's classifier: "search" (the paper's rule, on each batch), "gcv" (from the sums
            alone) or a number ≥ 0.
        adapter: tune the backbone to the first batch before it is learned (the paper's phase A): "auto",
            the name of an adapter ("adaptformer", "ssf", "vpt", "lora", "full"), or a `FirstSession`.
        exact: round features to small steps, so that sums are exact: the same to the bit in any order, in any
            batches, on any number of machines, and after forgetting. Default: yes, unless sums are float32.
        options: `balance` (on by default), `precision` and `grid` of the paper's classifier, see
            `RidgeOptions`; `anonymous` and `per_class`, see `ImageModel`; `cache`, `workers` and `progress`,
            see `Reading`.

    >>> from PIL import Image
    >>> model = LayUP("vit-nano", k=6, cache=False)
    >>> report = model.learn([Image.new("RGB", (64, 64), "red")], ["red"])
    >>> report = model.learn([Image.new("RGB", (64, 64), "blue")], ["blue"])
    >>> model.predict([Image.new("RGB", (64, 64), "navy")]).tolist()
    ['blue']
    """
    ridge: Any = {name: value for name, value in options.items() if name in RidgeOptions.__annotations__}
    others: Any = {name: value for name, value in options.items() if name not in ridge}
    classifier: SumsClassifier = AutoClassifier()
    if lam is not None or ridge:
        classifier = RidgeClassifier("search" if lam is None else lam, **{"balance": True, **ridge})
    if exact is None:
        exact = options.get("precision") != "float32"
    features = Rounded(LastLayers(k)) if exact else LastLayers(k)
    return ImageModel(features, classifier, adapter, backbone=backbone, **others)


def LayNMC(
    backbone: str | Backbone = "bundled",
    k: int | None = None,
    *,
    metric: str = "cosine",
    adapter: Wanted = None,
    **options: Unpack[ModelOptions],
) -> ImageModel:
    """Nearest mean of the concatenated last k layers, by "cosine" or "euclidean" distance."""
    classifier = NearestMeanClassifier(metric)
    return ImageModel(LastLayers(k), classifier, adapter, backbone=backbone, **options)


def NMC(
    backbone: str | Backbone = "bundled",
    *,
    metric: str = "cosine",
    adapter: Wanted = None,
    **options: Unpack[ModelOptions],
) -> ImageModel:
    """Nearest mean of the network's final embedding, by "cosine" or "euclidean": the simplest baseline."""
    return ImageModel(Embedding(), NearestMeanClassifier(metric), adapter, backbone=backbone, **options)


def load(
    path: str | Path,
    *,
    backbone: Backbone | None = None,
    weights: str | Path | None = None,
    allow_backbone: bool = False,
    **reading: Unpack[Reading],
) -> ImageModel | PredictOnly:
    """Load a model of any kind from a file; options as in `ImageModel.load`.

    A file without sums gives a `PredictOnly`: it predicts, and its `learn` says why it cannot.
    """
    kind = PredictOnly if is_predict_only(path) else ImageModel
    return kind.load(path, backbone=backbone, weights=weights, allow_backbone=allow_backbone, **reading)


def from_pretrained(
    repository: str | Path,
    *,
    revision: str | None = None,
    token: str | None = None,
    backbone: Backbone | None = None,
    allow_backbone: bool = False,
    **reading: Unpack[Reading],
) -> ImageModel | PredictOnly:
    """Load a model from the Hugging Face hub, or from a folder that `push_to_hub` has written.

    Only its one file is downloaded, and checked like any model from a stranger: nothing in it is run. The
    network that it names is downloaded only with `allow_backbone`, unless it comes with layup.

    repository: "user/name", or a folder. revision: a branch, a tag or a commit. token: for a private one.
    """
    from layup.model.hub import fetched

    path = fetched(repository, revision, token)
    return load(path, backbone=backbone, allow_backbone=allow_backbone, **reading)
