"""A model that predicts and cannot be taught: it holds weights, and none of the sums."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, Self, Unpack

from layup import storage
from layup.algebra import Calibration, Readout
from layup.backbones import Backbone
from layup.errors import InputError
from layup.features import FeatureSpec, Reading, spec_from
from layup.model.file import written_with
from layup.model.image_predictor import ImagePredictor
from layup.model.network import Network, Origin
from layup.model.photo_features import PhotoFeatures
from layup.model.predict_only_file import read_predict_only, write_predict_only
from layup.model.turns import Turn, in_turn


def _refused(deed: str) -> Callable[..., NoReturn]:
    """A method that says why it cannot do this."""

    def refuse(self: object, *given: object, **options: object) -> NoReturn:
        raise InputError(
            f"A predict-only model cannot {deed}: it has weights and no sums. "
            "Use the model that it was made from."
        )

    refuse.__doc__ = f"Refused: without sums, a model cannot {deed}."
    return refuse


class PredictOnly(ImagePredictor):
    """What a model predicts with, and nothing else: smaller, and it reveals less.

    `ImageModel.predict_only` makes one, and `layup.load` reads what `save` wrote. Scores, labels and
    confidences are those of the whole model; how probable it is that an image is of none of the classes
    differs a little, see `layup.algebra.readout`. No G, class sum, count, digest or log is in it.

    >>> from PIL import Image
    >>> from layup import LayUP
    >>> images = [Image.new("RGB", (64, 64), name) for name in ("red", "navy")]
    >>> model = LayUP("vit-nano", cache=False)
    >>> report = model.learn(images, ["red", "blue"])
    >>> small = model.predict_only()
    >>> small.predict(images).tolist()
    ['red', 'blue']
    >>> small.learn(images, ["red", "blue"])
    Traceback (most recent call last):
    layup.errors.InputError: A predict-only model cannot learn: it has weights and no sums. Use the model \
that it was made from.
    """

    learn = _refused("learn")
    learn_sums = _refused("learn")
    foresee = _refused("tell what is new to it")
    learned_as = _refused("tell what it has learned")
    sync = _refused("learn and forget")
    forget = _refused("forget")
    forget_class = _refused("forget")
    undo = _refused("take a batch back")
    merge = _refused("be merged")
    rename = _refused("rename a class")
    configure = _refused("be solved in another way")
    expect = _refused("judge its photos")
    estimate = _refused("judge its photos")
    audit = _refused("judge its photos")
    suggest = _refused("tell what would teach it most")

    def __init__(
        self,
        features: FeatureSpec,
        readout: Readout,
        network: Network,
        calibration: Calibration | None = None,
        **reading: Unpack[Reading],
    ) -> None:
        self.features = features
        self.readout = readout
        self.network = network
        self.reading = reading
        self.photo_features = PhotoFeatures(features, network, reading)
        self.turn = Turn()
        self._calibration = calibration

    @property
    def scorer(self) -> Readout:
        """What scores features."""
        return self.readout

    @property
    def linear(self) -> Readout:
        """The same: it says itself whether it is linear."""
        return self.readout

    @property
    def calibration(self) -> Calibration | None:
        """What the photos of the whole model said about its scores, if they were judged."""
        return self._calibration

    def predict_only(self) -> Self:
        """Itself."""
        return self

    @in_turn
    def save(self, path: str | Path) -> None:
        """Write the model to one file, atomically: if it fails, the old file is still there."""
        backbone, tuned = self.network.state()
        if adapted := backbone.get("adapted"):  # how tuning went says something about the photos
            backbone = {**backbone, "adapted": {**adapted, "record": {}}}
        about = {
            "features": self.resolved_features.to_dict(),
            "backbone": backbone,
            "versions": written_with(),
        }
        write_predict_only(path, about, self.readout, self.calibration, tuned)

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        backbone: Backbone | None = None,
        weights: str | Path | None = None,
        allow_backbone: bool = False,
        **reading: Unpack[Reading],
    ) -> Self:
        """Read what `save` wrote; options as in `ImageModel.load`."""
        found = read_predict_only(path)
        about, layers = found.header["backbone"], found.readout.layers
        with storage.believed(path):
            features = spec_from(found.header["features"])
        origin = Origin.of(path, about, found.tuned, layers, weights=weights, allow_backbone=allow_backbone)
        network = Network(backbone or about["name"], origin)
        return cls(features, found.readout, network, found.calibration, **reading)
