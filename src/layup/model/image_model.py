"""Images in, labels out: learn, forget, merge, save; with any features and any classifier."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from layup import __version__, memory, storage
from layup.algebra import (
    Floats,
    GramStatistics,
    SumsClassifier,
    forecast_class_sums,
    forecast_learning,
    forecast_merging,
    forecast_reverting,
    forecast_solving,
    restored,
)
from layup.backbones import Backbone
from layup.errors import BadImageError, ForgetError, InputError, MismatchError
from layup.features import (
    BadImage,
    FeatureCache,
    FeatureSource,
    FeatureSpec,
    LastLayers,
    NoCache,
    Reading,
    Rows,
    Spool,
    spec_from,
)
from layup.images import ImageSource
from layup.memory import Forecast
from layup.model.file import KIND, TUNED, read_model, require_sound
from layup.model.inputs import checked_labels, listed
from layup.model.network import Network, Origin, relocated
from layup.model.turns import Turn, all_turns, in_turn
from layup.tuning import FirstSession, Wanted

logger = logging.getLogger(__name__)

VERSIONS_OF = ("torch", "timm", "numpy")


@dataclass(frozen=True)
class BatchReport:
    """What one `learn` or `forget` did: how many images per class, and which could not be used.

    The id follows from the images and their labels: the same batch has the same id on every machine.
    """

    id: str
    counts: dict[str, int]
    bad: list[BadImage]

    @property
    def images(self) -> int:
        """How many images took part."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Predictions:
    """Scores for the images that could be used: row i is for image `kept[i]`, columns are the classes."""

    classes: list[str]
    scores: Floats
    kept: list[int]
    bad: list[BadImage]

    @property
    def labels(self) -> list[str]:
        """The class with the highest score; the first one if scores are equal."""
        return [self.classes[best] for best in self.scores.argmax(axis=1)]


class ImageModel:
    """A frozen network, which of its features are read, and a classifier made of sums.

    Only the sums are learned: a model is the sum of its batches. Each `learn`, and each `forget`, has an id,
    so that models which share some do not count them twice when merged. `LayUP`, `NMC` and `LayNMC` make the
    models that most people want.

    Threads may share a model: its methods take turns.

    Args:
        features: which features of the network, such as `LastLayers(6)`.
        classifier: a classifier made of sums, such as `RidgeClassifier()`; its parameters are copied.
        adapter: tune the network to the first batch before it is learned, see `LayUP`.
        backbone: a name for `load_backbone`, or a loaded `Backbone`.
        reading: `cache`, `workers` and `progress`, see `Reading`.

    >>> from layup.algebra import RidgeClassifier
    >>> from layup.features import OneLayer
    >>> model = ImageModel(OneLayer(3), RidgeClassifier(1.0), backbone="vit-nano")
    >>> model.statistics_.layers
    {'blocks.9': 128}
    """

    def __init__(
        self,
        features: FeatureSpec,
        classifier: SumsClassifier,
        adapter: Wanted = None,
        *,
        backbone: str | Backbone = "bundled",
        **reading: Unpack[Reading],
    ) -> None:
        if unknown := set(reading) - set(Reading.__annotations__):
            # Python would say so itself if the options were not passed through.
            raise TypeError(f"ImageModel() got an unexpected keyword argument {unknown.pop()!r}")
        self.features = features
        self.classifier = classifier
        self.session = FirstSession.wanted(adapter)
        self.network = Network(backbone)
        self.reading = reading
        self.batches: list[str] = []
        self.turn = Turn()
        self._extractor: FeatureSource | None = None
        self._classifier: SumsClassifier | None = None

    # ---- learning

    @in_turn
    def learn(
        self,
        images: Iterable[ImageSource],
        labels: Iterable[str],
        *,
        strict: bool = False,
        checkpoint: str | Path | None = None,
    ) -> BatchReport:
        """Learn images with their labels, as often as you like.

        Images are paths, contents of files (bytes, or open files), PIL images, arrays or tensors. Images and
        labels come in a list, or in anything that gives them one by one, such as a generator.

        Images that cannot be used are skipped and reported; with `strict` the first one raises an error
        before anything is learned. If the model has an adapter, the first batch tunes it before anything
        else; `checkpoint` names a file from which tuning continues if it is interrupted.
        """
        images = listed(images)
        labels = checked_labels(labels, images)
        # Refuse impossible settings, and what does not fit into memory, before hours are spent.
        memory.require(self.forecast(len(images), len({*self.classes_, *labels})), "This batch")
        if self.session is not None and not self.batches:
            self.network.adapt(
                images, labels, self.session, self.reading, strict=strict, checkpoint=checkpoint
            )
            self._extractor = None
        if self.classifier_.needs_samples:
            report = self._learn_samples(images, labels, strict)
        else:
            sums = self.statistics_.empty()
            report, _ = self._visit(images, labels, strict, "Learning", sums.update)
            self.classifier_.absorb(sums)
        self.batches.append(report.id)
        return report

    def _learn_samples(
        self, images: Sequence[ImageSource], labels: Sequence[str], strict: bool
    ) -> BatchReport:
        """Learn with a classifier that looks at the samples of a batch once more: they wait in a spool."""
        names: list[str] = []
        cache = self.extractor_.cache
        folder = cache.path.parent if isinstance(cache, FeatureCache) else None
        with Spool(len(images), self.extractor_.width, folder) as spool:

            def keep(part: Rows, part_names: list[str]) -> None:
                spool.append(part)
                names.extend(part_names)

            report, _ = self._visit(images, labels, strict, "Learning", keep)
            self.classifier_.partial_fit(spool.rows(), names)
        return report

    def forecast(self, images: int, classes: int, known: int | None = None) -> Forecast:
        """The memory that a batch of `images` images will take, if this model then knows `classes` classes.

        known: how many images the model has learned by then; by default, as many as now.
        """
        sums, classifier = self.statistics_, self.classifier_
        if not isinstance(sums, GramStatistics):
            return forecast_class_sums(sums.dim, classes, images)
        widths = list(sums.layers.values())
        known = sums.total if known is None else known

        def of(k: int = len(widths), searched: bool = True, precision: str = sums.precision) -> Forecast:
            kept = widths[-k:]
            solved = classifier.solved_width(kept)
            search = classifier.search_values(solved, classes, images, known) if searched else 0
            return forecast_learning(
                sum(kept), classes, images, search=search, precision=precision, solved=solved
            )

        found = of()
        if found.fits:
            return found
        instead: dict[str, Forecast] = {}
        if isinstance(self.features, LastLayers):
            fewer = ((k, of(k=k)) for k in range(len(widths) - 1, 0, -1))
            instead |= next(({f"k = {k}": other} for k, other in fewer if other.fits), {})
        if classifier.needs_samples:
            instead["lam = 1"] = of(searched=False)
        if "precision" in classifier.get_params():
            instead["precision = float32"] = of(precision="float32")
        return replace(found, instead=instead)

    @in_turn
    def forget(
        self, images: Iterable[ImageSource], labels: Iterable[str], *, strict: bool = False
    ) -> BatchReport:
        """Un-learn images: the sums become what they would be without them. λ stays.

        A class with no image left disappears. Cached features of the images are deleted as well. An adapter
        does not un-learn the first batch that it was tuned to: only the sums do.
        """
        sums = self.statistics_.empty()
        memory.require(forecast_reverting(sums, len(self.classes_)), "Forgetting")
        report, digests = self._visit(images, labels, strict, "Forgetting", sums.update)
        self.classifier_.adopt(self.statistics_ - sums)
        self.batches.append(report.id)
        cache = self.extractor_.cache
        # This model may not use a cache, but an earlier one may have left these images in it.
        (FeatureCache() if isinstance(cache, NoCache) else cache).delete_many(None, digests)
        return report

    def merge(self, other: ImageModel, base: ImageModel | None = None) -> Self:
        """Add what another model has learned, exactly as if this one had learned it too.

        Both must read the same features of the same backbone. If both grew from a common ancestor, its
        batches would count twice: give the ancestor as `base`, and a + b − base is computed.
        """
        self._require_same(other)
        with all_turns(self, other, *([] if base is None else [base])):
            return self._merged(other, base)

    def _merged(self, other: ImageModel, base: ImageModel | None) -> Self:
        for model in (self, other):
            if model.session is not None and not model.batches:
                raise InputError(
                    "A model with an adapter cannot be merged before it has learned its first batch. "
                    "Let it learn first, or make it without an adapter."
                )
        theirs = Counter(other.batches)
        shared = Counter(self.batches) & theirs
        classes = len({*self.classes_, *other.classes_})
        memory.require(forecast_merging(self.statistics_, classes, base is not None), "Merging")
        sums = self.statistics_ + other.statistics_
        if base is not None:
            self._require_same(base)
            held = Counter(base.batches)
            if held != shared:
                raise MismatchError(
                    f"The base must hold exactly the {shared.total()} batches that both models share, but it "
                    f"holds {held.total()}, of which {(shared & held).total()} are shared. "
                    "Give the model that both started from."
                )
            sums = _without(sums, base.statistics_)
        elif shared:
            raise MismatchError(
                f"These models share {shared.total()} of their batches, which would count twice. Give a "
                "model of exactly these as the base, such as the one that both started from: "
                "merge(other, base=…).",
                about="base",
            )
        self.classifier_.adopt_merged(sums, other.classifier_)
        self.batches += (theirs - shared).elements()
        if mixture := mixed_engines(self, other):
            logger.warning(mixture)
        return self

    @in_turn
    def configure(self, /, **parameters: Any) -> Self:
        """Change parameters of the classifier, from now on; what was learned stays as it is.

        >>> from layup import LayUP
        >>> LayUP("vit-nano").configure(lam="gcv").classifier.lam
        'gcv'
        """
        self._classifier = self.classifier_.with_parameters(**parameters)
        self.classifier = clone(self._classifier)
        return self

    # ---- predicting

    @in_turn
    def predict(self, images: Iterable[ImageSource]) -> NDArray[Any]:
        """The label of every image. Only classes that were learned can be predicted."""
        return np.asarray(np.array(self.classes_)[self.scores(images).argmax(axis=1)])

    def scores(self, images: Iterable[ImageSource]) -> Floats:
        """One row per image and one column per class of `classes_`; the highest wins, the first if equal."""
        found = self.predictions(images)
        if found.bad:
            raise BadImageError(found.bad[0].reason)
        return found.scores

    @in_turn
    def predictions(self, images: Iterable[ImageSource]) -> Predictions:
        """The scores of all images that can be used, and which cannot. Only scores are held, not features."""
        if not self.classes_:
            raise InputError("This model knows no class. Teach it with `learn` first.")
        if not self.classifier_.ready:
            width = self.classifier_.solved_width(list(self.statistics_.layers.values()))
            memory.require(forecast_solving(self.statistics_, width, len(self.classes_)), "Predicting")
        found = Predictions(self.classes_, np.zeros((0, len(self.classes_))), [], [])
        scores = [found.scores]
        for part in self.extractor_.stream(listed(images), "Predicting"):
            found.bad.extend(part.bad)
            found.kept.extend(part.kept.tolist())
            if len(part.rows):
                scores.append(self.classifier_.scores(part.rows))
        return replace(found, scores=np.concatenate(scores))

    @property
    def classes_(self) -> list[str]:
        """The labels learned so far, sorted."""
        return list(self.statistics_.labels)

    @property
    @in_turn
    def counts_(self) -> dict[str, int]:
        """How many images of each class the sums hold."""
        return dict(zip(self.statistics_.labels, self.statistics_.counts.tolist(), strict=True))

    @property
    def lambda_(self) -> float:
        """The λ in force, if the classifier has one."""
        lam: float = self.classifier_.in_force()["lambda"]
        return lam

    @property
    def statistics_(self) -> Any:
        """The sums: everything that was learned."""
        return self.classifier_.statistics_

    # ---- files

    @in_turn
    def save(self, path: str | Path) -> None:
        """Write the model to one file, atomically: if it fails, the old file is still there."""
        classifier, sums = self.classifier_.state()
        about_sums, arrays = sums.state()
        backbone, tuned = self.network.state()
        arrays |= {TUNED + name: array for name, array in tuned.items()}
        first = {} if self.session is None or self.batches else {"first_session": self.session.to_dict()}
        header = {
            "features": self._resolved_features().to_dict(),
            **classifier,
            **first,
            "backbone": backbone,
            "batches": self.batches,
            "versions": {"layup": __version__, **{name: version(name) for name in VERSIONS_OF}},
            **about_sums,
        }
        declared = {name: storage.Declared(each.dtype.name, each.shape) for name, each in arrays.items()}
        try:
            require_sound(json.loads(json.dumps(header)), declared)
        except (TypeError, ValueError) as error:  # nothing may be written that could not be read again
            raise InputError(f"This model cannot be saved: {error}. Nothing was written.") from error
        storage.write(path, KIND, header, arrays)

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
        """Read what `save` wrote. The backbone itself is loaded, and checked, when it is first needed.

        If the backbone was your own module, give it again as `backbone`. If its weights came from a file that
        has moved, give the new path as `weights`. A backbone that the file wants from elsewhere (a path, a
        download) is only loaded with `allow_backbone`.
        """
        found = read_model(path)
        header, about = found.header, found.header["backbone"]
        with storage.believed(path):
            classifier = restored(header, found.sums)
            features = spec_from(header["features"])
            session = header.get("first_session")
            wish = None if session is None else FirstSession.from_dict(session)
            model = cls(features, clone(classifier), wish, backbone=backbone or about["name"], **reading)
        allowed = allow_backbone or weights is not None
        about = about if weights is None else relocated(about, weights)
        model.network.origin = Origin(str(path), about, found.tuned, allowed)
        model.batches = list(header["batches"])
        model._classifier = classifier
        return model

    # ---- the parts, made when first needed

    @property
    def backbone_(self) -> Backbone:
        """The backbone, loaded; if the model comes from a file, exactly the one that the file names."""
        return self.network.backbone

    @property
    @in_turn
    def extractor_(self) -> FeatureSource:
        """The reader of images."""
        if self._extractor is None:
            extractor = self.features.build(self.backbone_, self.reading)
            origin = self.network.origin
            if origin is not None and extractor.layers != self.statistics_.layers:
                raise storage.damaged(origin.file, "its sums are of other layers than its backbone has")
            self._extractor = extractor
        return self._extractor

    @property
    @in_turn
    def classifier_(self) -> SumsClassifier:
        """The classifier with what it has learned, empty at first."""
        if self._classifier is None:
            classifier: SumsClassifier = clone(self.classifier)
            classifier.adopt(classifier.empty(self.extractor_.layers))
            self._classifier = classifier
        return self._classifier

    # ---- the rest is private

    def _resolved_features(self) -> FeatureSpec:
        """The features as a file has them."""
        return self.features if self.network.origin is not None else self.features.resolved(self.backbone_)

    def _visit(
        self,
        images: Iterable[ImageSource],
        labels: Iterable[str],
        strict: bool,
        title: str,
        take: Callable[[Rows, list[str]], None],
    ) -> tuple[BatchReport, list[bytes]]:
        """Hand over the features and labels of all usable images, batch by batch."""
        images = listed(images)
        labels = checked_labels(labels, images)
        counts: Counter[str] = Counter()
        bad: list[BadImage] = []
        seen: list[tuple[str, bytes]] = []
        for part in self.extractor_.stream(images, title):
            bad += part.bad
            if strict and bad:
                raise BadImageError(bad[0].reason)
            names = [labels[i] for i in part.kept]
            take(part.rows, names)
            counts.update(names)
            seen += zip(names, part.digests, strict=True)
        if not counts:
            first = f" The first: {bad[0].reason}" if bad else ""
            raise InputError(f"None of the {len(images)} given images can be used.{first}")
        if bad:
            logger.warning("Skipped %d of %d images. The first: %s", len(bad), len(images), bad[0].reason)
        return BatchReport(_batch_id(title, seen), dict(sorted(counts.items())), bad), [d for _, d in seen]

    def _require_same(self, other: ImageModel) -> None:
        """Refuse a model whose sums are of something else, and say what differs."""
        if not isinstance(other, ImageModel):
            raise InputError(
                f"Only models can be merged, not a {type(other).__name__}: layup.load(path) gives one."
            )
        for what, mine, others in (
            ("classifiers", self.classifier_.kind, other.classifier_.kind),
            ("backbones (or adapters)", self.network.identity, other.network.identity),
            ("numbers of layers (k)", len(self.statistics_.layers), len(other.statistics_.layers)),
            ("layers", list(self.statistics_.layers), list(other.statistics_.layers)),
        ):
            if mine != others:
                raise MismatchError(
                    f"These models have different {what}: {mine} and {others}. "
                    "Only models with the same layers of the same backbone can be merged."
                )


def mixed_engines(one: ImageModel, other: ImageModel) -> str | None:
    """What to know about two merged models whose features were computed in different ways."""
    mine, theirs = one.network.engine, other.network.engine
    if mine == theirs:
        return None
    return (
        f"These models were made with different engines, {mine!r} and {theirs!r}: their features "
        "differ by rounding, by a few millionths of the largest value. The merged model uses "
        f"{mine!r}: images that the second one learned are forgotten only up to this rounding."
    )


def _without(sums: Any, base: Any) -> Any:
    """The sums of two models minus those of their base."""
    try:
        return sums - base
    except ForgetError as error:
        raise MismatchError(
            "Both models have forgotten some of the same images of the base, in different batches: "
            "these would be subtracted twice. Merge first, then forget."
        ) from error


def _batch_id(verb: str, seen: list[tuple[str, bytes]]) -> str:
    """What was done with which images under which labels, in any order."""
    content = blake2b(verb.encode(), digest_size=16)
    for label, digest in sorted(seen):
        content.update(f"\0{label}\0".encode() + digest)
    return content.hexdigest()
