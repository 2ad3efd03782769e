"""Images in, labels out: what every model can be asked, whether it holds sums or only weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from layup.algebra import Calibration, Floats, Readout
from layup.backbones import Backbone
from layup.errors import BadImageError
from layup.features import FeatureSource, FeatureSpec, Reading
from layup.images import Images, ImageSource, listed
from layup.model.explain import Explanation, explain
from layup.model.network import Network
from layup.model.photo_features import PhotoFeatures
from layup.model.predictions import Predictions
from layup.model.predictor import Predictor
from layup.model.scorer import Scorer
from layup.model.turns import Turn, in_turn

if TYPE_CHECKING:
    from layup.model.predict_only import PredictOnly


class ImagePredictor(ABC):
    """A frozen network, which of its features are read, and something that scores them.

    Threads may share one: its methods take turns.
    """

    features: FeatureSpec
    network: Network
    reading: Reading
    photo_features: PhotoFeatures
    turn: Turn

    @property
    @abstractmethod
    def scorer(self) -> Scorer:
        """What scores features."""

    @property
    @abstractmethod
    def linear(self) -> Readout | None:
        """Its weights, if it is linear."""

    @property
    @abstractmethod
    def calibration(self) -> Calibration | None:
        """What its own photos said about its scores, if they were judged."""

    @in_turn
    def predict(self, images: Images) -> NDArray[Any]:
        """The label of every image. Only classes that were learned can be predicted."""
        return np.asarray(np.array(self.classes_)[self.scores(images).argmax(axis=1)])

    def scores(self, images: Images) -> Floats:
        """One row per image and one column per class of `classes_`; the highest wins, the first if equal."""
        found = self.predictions(images)
        if found.bad:
            raise BadImageError(found.bad[0].reason)
        return found.scores

    @in_turn
    def predictions(self, images: Images) -> Predictions:
        """The scores of all images that can be used, and which cannot. Only scores are held, not features.

        Where the classifier allows it, with a confidence for each, and how probable it is that the image is
        of none of the classes. Both are only as good as the photos that `expect` has judged; a model that
        never did that has both by rule of thumb.
        """
        return self._predictor().predict(self.extractor_.unrounded, listed(images))

    @in_turn
    def explain(self, image: ImageSource, *, heat: bool = True) -> Explanation:
        """Why an image gets its label: what each layer says, and where in the image; see `Explanation`.

        The heat map costs 64 passes through the network; `heat=False` leaves it out.
        """
        self._predictor()
        source, show = self.extractor_.unrounded, self.reading.get("progress")
        return explain(self.scorer, self.linear, source, self.backbone_, image, heat=heat, progress=show)

    @property
    def classes_(self) -> list[str]:
        """The labels learned so far, sorted."""
        return list(self.scorer.labels)

    @property
    def backbone_(self) -> Backbone:
        """The backbone, loaded; if the model comes from a file, exactly the one that the file names."""
        return self.network.backbone

    @property
    @in_turn
    def extractor_(self) -> FeatureSource:
        """The reader of images."""
        return self.photo_features.extractor

    @property
    def resolved_features(self) -> FeatureSpec:
        """The features as a file has them."""
        return self.features if self.network.origin is not None else self.features.resolved(self.backbone_)

    @abstractmethod
    def predict_only(self) -> PredictOnly:
        """A model that predicts the same, and holds weights instead of sums."""

    @abstractmethod
    def save(self, path: str | Path) -> None:
        """Write the model to one file."""

    @property
    def told_counts(self) -> dict[str, int] | None:
        """How many photos of each class were learned, if it tells."""
        return None

    @property
    def told_accuracy(self) -> Mapping[str, Any] | None:
        """The accuracy to expect of it as it is, if it tells."""
        return None

    def push_to_hub(
        self,
        repository: str | Path,
        *,
        whole: bool = False,
        private: bool | None = None,
        token: str | None = None,
        licence: str | None = None,
    ) -> str:
        """Share the model on the Hugging Face hub with a generated card; returns its address.

        What is there already is replaced, and stays in the history of the repository.

        repository: "user/name"; or a folder ("./name", or a `Path`), into which the same files are written.
        whole: share the sums as well, so that others can teach it. They reveal more, and the card says what;
            by default, the shared model is predict-only.
        private: whether a new repository is private; by default as the hub does it.
        token: one that may write; by default the one with which you have logged in to the hub.
        licence: of the model, such as "mit".

        >>> import tempfile
        >>> import layup
        >>> from PIL import Image
        >>> model = layup.LayUP("vit-nano", cache=False)
        >>> images = [Image.new("RGB", (64, 64), name) for name in ("red", "navy")]
        >>> report = model.learn(images, ["red", "blue"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = model.push_to_hub(f"{folder}/colours")
        ...     layup.from_pretrained(f"{folder}/colours").classes_
        ['blue', 'red']
        """
        from layup.model.hub import push

        options: dict[str, Any] = {"private": private, "token": token, "licence": licence}
        return push(self, repository, whole=whole, **options)

    def _predictor(self) -> Predictor:
        """What predicts; refused, before an image is read, if nothing is known."""
        return Predictor(self.scorer, self.calibration)
