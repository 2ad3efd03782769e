"""The models that people make: LayUP, and the nearest-mean baselines that share its sums."""

from __future__ import annotations

from typing import Any, Self, Unpack

from layup.algebra import NearestMeanClassifier, RidgeClassifier
from layup.backbones import Backbone
from layup.features import EMBEDDING
from layup.model.image_model import ImageModel, Reading
from layup.model.turns import in_turn
from layup.tuning import Wanted


class EmbeddingModel(ImageModel):
    """A model of the network's final embedding."""

    def _layers(self) -> tuple[str, ...]:
        return (EMBEDDING,)


class LastLayersModel(ImageModel):
    """A model of the concatenated last k layers."""

    def __init__(
        self,
        backbone: str | Backbone = "bundled",
        k: int | None = None,
        *,
        adapter: Wanted = None,
        **reading: Unpack[Reading],
    ) -> None:
        super().__init__(backbone, adapter=adapter, **reading)
        self.k = k

    def _layers(self) -> tuple[str, ...]:
        return self.backbone_.last(self.backbone_.default_k if self.k is None else self.k)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "k": len(self._layers()) if self.k is None else int(self.k)}


class RidgeOfLayersModel(LastLayersModel):
    """A model of ridge classification on the last k layers; what it is made with, `LayUP` explains."""

    def __init__(
        self,
        backbone: str | Backbone = "bundled",
        k: int | None = None,
        lam: float | str = "search",
        *,
        balance: bool = True,
        precision: str = "float64",
        adapter: Wanted = None,
        **reading: Unpack[Reading],
    ) -> None:
        super().__init__(backbone, k, adapter=adapter, **reading)
        self.lam = lam
        self.balance = balance
        self.precision = precision


class RidgeModel(ImageModel):
    """A model whose sums are solved with a λ, and kept in a precision."""

    classifier_: RidgeClassifier
    lam: float | str
    precision: str

    @property
    def lambda_(self) -> float:
        """The λ in force."""
        return self.classifier_.lambda_

    @property
    def in_force_(self) -> dict[str, Any]:
        """λ."""
        return {"lambda": self.lambda_}

    def _settings(self) -> dict[str, Any]:
        lam = self.lam if isinstance(self.lam, str) else float(self.lam)  # NumPy's numbers are not JSON
        return {**super()._settings(), "lam": lam, "precision": self.precision}

    def _chosen(self) -> dict[str, Any]:
        return {"lambda": self.classifier_.solution_.lam}

    def _adopt_merged(self, sums: Any, other: Self) -> None:
        # A searched λ cannot be searched again without images: that of the model which saw more stays.
        searched = [(m.statistics_.total, m.lambda_) for m in (self, other) if m.classifier_.needs_samples]
        self.classifier_.adopt(sums, max(searched)[1] if searched else None)

    def _adopt_loaded(self, sums: Any, header: dict[str, Any]) -> None:
        lam = header["lambda"]
        self.classifier_.adopt(sums, None if lam is None else float(lam))


class LayUP(RidgeModel, RidgeOfLayersModel):
    """Multi-layer ridge classification that learns for ever: the paper's method.

    Args:
        backbone: a name for `load_backbone`, or a loaded `Backbone`.
        k: how many of the backbone's last layers to use; None for the backbone's own default.
        lam: "search" (the paper's, on each lesson), "gcv" (from the sums alone) or a number ≥ 0.
        balance: treat classes of different size alike. The same as without where sizes are equal.
        precision: what is summed, kept and solved in, see `RidgeClassifier`.
        adapter: tune the backbone to the first lesson before it is learned (the paper's phase A): "auto",
            the name of an adapter ("adaptformer", "ssf", "vpt", "lora", "full"), or a `FirstSession`.
        reading: `cache`, `workers` and `progress`, see `Reading`.

    >>> from PIL import Image
    >>> model = LayUP("vit-nano", k=6, lam=1.0, cache=False)
    >>> lesson = model.learn([Image.new("RGB", (64, 64), "red")], ["red"])
    >>> lesson = model.learn([Image.new("RGB", (64, 64), "blue")], ["blue"])
    >>> model.predict([Image.new("RGB", (64, 64), "navy")]).tolist()
    ['blue']
    """

    method = "layup"

    @in_turn
    def configure(self, *, lam: float | str | None = None, balance: bool | None = None) -> Self:
        """Change how the sums are solved, from now on; what was learned stays as it is."""
        lam = self.lam if lam is None else lam
        balance = self.balance if balance is None else balance
        changed = RidgeClassifier(lam, balance=balance, precision=self.precision)
        changed.adopt(self.statistics_, self.lambda_ if lam == "search" else None)  # refuses impossible ones
        self.lam, self.balance, self.classifier_ = lam, balance, changed
        return self

    def _classifier(self) -> RidgeClassifier:
        return RidgeClassifier(self.lam, balance=self.balance, precision=self.precision)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "balance": bool(self.balance)}


class NearestMeanModel(ImageModel):
    """A model of class means."""

    metric: str

    def _classifier(self) -> NearestMeanClassifier:
        return NearestMeanClassifier(self.metric)

    def _settings(self) -> dict[str, Any]:
        return {**super()._settings(), "metric": self.metric}


class LayNMC(NearestMeanModel, LastLayersModel):
    """Nearest mean of the concatenated last k layers, by "cosine" or "euclidean" distance."""

    method = "laynmc"

    def __init__(
        self,
        backbone: str | Backbone = "bundled",
        k: int | None = None,
        *,
        metric: str = "cosine",
        adapter: Wanted = None,
        **reading: Unpack[Reading],
    ) -> None:
        super().__init__(backbone, k, adapter=adapter, **reading)
        self.metric = metric


class NMC(NearestMeanModel, EmbeddingModel):
    """Nearest mean of the network's final embedding, by "cosine" or "euclidean": the simplest baseline."""

    method = "nmc"

    def __init__(
        self,
        backbone: str | Backbone = "bundled",
        *,
        metric: str = "cosine",
        adapter: Wanted = None,
        **reading: Unpack[Reading],
    ) -> None:
        super().__init__(backbone, adapter=adapter, **reading)
        self.metric = metric
