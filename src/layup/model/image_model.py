"""Images in, labels out: learn, forget, merge, save; with any features and any classifier."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from layup import memory, storage
from layup.adapters import ADAPTERS
from layup.algebra import (
    Calibration,
    ClassRoots,
    ClassSums,
    Expected,
    Readout,
    SumsClassifier,
    clone,
    forecast_merging,
    forecast_reverting,
    forecast_solving,
    restored,
)
from layup.backbones import Backbone
from layup.errors import InputError, MismatchError
from layup.features import (
    FeatureSpec,
    Reading,
    Rows,
    spec_from,
)
from layup.images import Images, ImageSource, checked_labels, given, listed
from layup.memory import Forecast
from layup.model.audit import Audit, audit
from layup.model.change import Change
from layup.model.digest import state_hash
from layup.model.estimate import Estimate, estimate
from layup.model.file import ModelFile, read_model, write_model, written_with
from layup.model.forecast import forecast_batch
from layup.model.forgetting import forget_class, forget_photos, undo_batch
from layup.model.image_predictor import ImagePredictor
from layup.model.knowledge import Knowledge
from layup.model.known import (
    KnownPhotos,
)
from layup.model.log import Entry, last_expected
from layup.model.merging import merge
from layup.model.network import Network, Origin
from layup.model.photo_features import PhotoFeatures
from layup.model.plan import Plan, plan
from layup.model.predict_only import PredictOnly
from layup.model.predictor import Predictor
from layup.model.reports import BatchReport
from layup.model.suggest import Suggestions, suggest
from layup.model.trial import Trial, try_out
from layup.model.turns import Turn, all_turns, in_turn
from layup.model.visits import none_usable
from layup.tuning import FirstSession, Wanted

logger = logging.getLogger(__name__)


class ImageModel(ImagePredictor):
    """A frozen network, which of its features are read, and a classifier made of sums.

    Only the sums are learned: a model is the sum of its photos. It keeps a digest of each, so that a photo
    counts once, however often it is given or merged, and a log of what was done. `LayUP`, `NMC` and `LayNMC`
    make the models that most people want.

    Threads may share a model: its methods take turns.

    Args:
        features: which features of the network, such as `LastLayers(6)`.
        classifier: a classifier made of sums, such as `RidgeClassifier()`; its parameters are copied.
        adapter: tune the network to the first batch before it is learned, see `LayUP`.
        backbone: a name for `load_backbone`, or a loaded `Backbone`.
        anonymous: keep no digests. Then every image counts each time that it is given, and none can be
            forgotten.
        per_class: also keep a root of the Gram matrix of each class, so that `forget_class` is exact without
            images. Costs up to n·d values for a class of n images.
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
        anonymous: bool = False,
        per_class: bool = False,
        **reading: Unpack[Reading],
    ) -> None:
        if unknown := set(reading) - set(Reading.__annotations__):
            # Python would say so itself if the options were not passed through.
            raise TypeError(f"ImageModel() got an unexpected keyword argument {unknown.pop()!r}")
        self.features = features
        self.classifier = classifier
        self.session = FirstSession.wanted(adapter)
        self.trial: Trial | None = None
        self.network = Network(backbone)
        self.reading = reading
        self.photo_features = PhotoFeatures(features, self.network, reading)
        self.knowledge = Knowledge(self._fresh_classifier, anonymous=anonymous, per_class=per_class)
        self.turn = Turn()

    # ---- learning

    @in_turn
    def learn(
        self,
        images: Images,
        labels: Iterable[str] | None = None,
        *,
        image: str | None = None,
        label: str | None = None,
        strict: bool = False,
        checkpoint: str | Path | None = None,
        again: bool = False,
        relabel: bool = False,
    ) -> BatchReport:
        """Learn images with their labels, as often as you like. Images that are known are left out.

        Images are paths, contents of files (bytes, or open files), PIL images, arrays or tensors. Images and
        labels come in a list, or in anything that gives them one by one, such as a generator. Or both in a
        dataset: one of Hugging Face's `datasets`, or one of (image, target) pairs, as torchvision's are.

        image, label: the columns of a dataset, if several could be meant.

        Images that cannot be used are skipped and reported; with `strict` the first one raises an error
        before anything is learned. If the model has an adapter, the first batch tunes it before anything
        else; `checkpoint` names a file from which tuning continues if it is interrupted.

        again: count every image, also if it is known.
        relabel: move images that are known as another class; otherwise they are reported as conflicts.
        """
        images, labels = given(images, labels, image, label)
        self._require_room(images, labels)
        change = self._planned(images, labels, again=again, relabel=relabel)
        return self._change(change, strict=strict, checkpoint=checkpoint)

    @in_turn
    def foresee(self, images: Images, labels: Iterable[str] | None = None) -> Plan:
        """What `learn` would do with these images: which are new, and which it knows. Nothing is changed.

        Costs a look at each image file, not a pass through the network.

        >>> from PIL import Image
        >>> from layup import LayUP
        >>> model = LayUP("vit-nano", cache=False)
        >>> report = model.learn([Image.new("RGB", (64, 64), "red")], ["red"])
        >>> model.foresee([Image.new("RGB", (64, 64), name) for name in ("red", "navy")], ["red", "blue"])
        Plan(new=[1], moved={}, known=1, conflicts=[])
        """
        return self._planned(*given(images, labels)).work

    @in_turn
    def sync(
        self,
        images: Images,
        labels: Iterable[str] | None = None,
        *,
        image: str | None = None,
        label: str | None = None,
        strict: bool = False,
        checkpoint: str | Path | None = None,
        dry_run: bool = False,
    ) -> BatchReport:
        """Make the model that of these images alone: learn what is new, move what changed, forget the rest.

        What is to be forgotten need not be at hand: its features are in the cache. Photos that the cache does
        not have stay, and are reported as missing. If some image cannot be read, nothing is forgotten that it
        may be. With `dry_run` nothing is changed, only reported.
        """
        images, labels = given(images, labels, image, label)
        photos = self.knowledge.recognised("to be forgotten")
        if len(photos) < self.statistics_.total:
            raise InputError(
                f"This model cannot be made that of these images alone: it has learned "
                f"{self.statistics_.total - len(photos):,} images that it cannot recognise, since they came "
                "from an anonymous model. Teach a new model instead."
            )
        self._require_room(images, labels)
        digests = self.photo_features.digests(images)
        work = plan(photos, digests, labels, relabel=True, exact=True)
        gone = photos.missing_from([digest for digest in digests if digest is not None])
        kept = len(gone) if None in digests else 0
        change = Change("sync", images, labels, work, digests, gone[kept:], kept)
        if dry_run:
            return change.foreseen(self.knowledge, self.photo_features)
        return self._change(change, strict=strict, checkpoint=checkpoint)

    @in_turn
    def forget(
        self, images: Images, labels: Iterable[str] | None = None, *, strict: bool = False
    ) -> BatchReport:
        """Un-learn images: the sums become what they would be without them. λ stays.

        With labels, only what was learned under these. A class with no image left disappears. Cached
        features of images that are no longer known are deleted as well; those of a model that is in a file
        when it is saved, so that nothing is lost before. An adapter does not un-learn the
        first batch that it was tuned to: only the sums do.
        """
        images = listed(images)
        asked = None if labels is None else checked_labels(labels, images)
        self._require_room_to_forget()
        return forget_photos(self.knowledge, self.photo_features, images, asked, strict=strict)

    @in_turn
    def forget_class(self, label: str) -> BatchReport:
        """Un-learn a class without its images.

        This is exact if the model keeps a root per class, or if the cache has the features of all its images.
        Otherwise its prototype and its count are gone, but G still holds its images, as images of no class:
        the report then says that it is not exact.
        """
        self.knowledge.require_class(label)
        self._require_room_to_forget()
        return forget_class(self.knowledge, self.photo_features, label)

    @in_turn
    def undo(self) -> BatchReport:
        """Take the last batch back: sums, λ, its rule and the log become what they were before it.

        The features of its images come from the cache, and stay there. What forgot, moved, renamed or merged
        cannot be undone: it is not kept how it was before.
        """
        with self.knowledge.changing():
            report = undo_batch(self.knowledge, self.photo_features)
            if self.log:
                self.classifier = clone(self.classifier_)
            if not self.log and self.session is not None:  # the network will be tuned to the next batch
                self.network.remove_adapter()
                self.photo_features.reset()
        return report

    def learned_as(self, images: Images) -> list[tuple[str, ...]]:
        """The classes that each image was learned as: none for one that this model does not know."""
        photos = KnownPhotos() if self.photos is None else self.photos
        digests = self.photo_features.digests(listed(images))
        return photos.labels_of(digest or b"" for digest in digests)

    def forecast(self, images: int, classes: int, known: int | None = None) -> Forecast:
        """The memory that a batch will take: see `forecast_batch`."""
        return forecast_batch(
            self.features, self.classifier_, images, classes, known, per_class=self.per_class
        )

    def merge(self, other: ImageModel, base: ImageModel | None = None) -> Self:
        """Add what another model has learned, exactly as if this one had learned it too.

        Both must read the same features of the same backbone. Photos that both have learned count once: their
        features come from the cache, or, if both grew from a common ancestor, from this `base`, and
        a + b − base is computed. A photo with two classes keeps that of this model.
        """
        self._require_same(other)
        if base is not None:
            self._require_same(base)
        with all_turns(self, other, *([] if base is None else [base])):
            for model in (self, other):
                if model.session is not None and not model.log:
                    raise InputError(
                        "A model with an adapter cannot be merged before it has learned its first batch. "
                        "Let it learn first, or make it without an adapter."
                    )
            classes = len({*self.classes_, *other.classes_})
            memory.require(forecast_merging(self.statistics_, classes, base is not None), "Merging")
            before = None if base is None else base.knowledge
            merge(self.knowledge, other.knowledge, before, self.photo_features)
        if mixture := mixed_engines(self, other):
            logger.warning(mixture)
        return self

    @in_turn
    def learn_sums(
        self,
        sums: ClassSums,
        digests: NDArray[np.bytes_],
        classes: NDArray[np.int32],
        rows: Rows,
        row_labels: Sequence[str],
        lam: float | None = None,
    ) -> Self:
        """Learn what other machines have summed of the same features: see `layup.sharding`.

        digests: of the photos in the sums, all of them new, each an item of 16 bytes. classes: their classes,
        as indices of `sums.labels`. rows, row_labels: samples drawn of them. lam: λ, if it was searched.
        """
        if self.per_class:
            raise InputError("Sums of other machines have no root per class. Use a model without per_class.")
        self.knowledge.learn_sums(sums, digests, classes, (rows, np.array(row_labels)), lam)
        return self

    @in_turn
    def rename(self, old: str, new: str) -> Self:
        """Give a class another name. If that is the name of another class, the two become one."""
        self.knowledge.require_class(old)
        (new,) = checked_labels([new], [new])
        self.knowledge.rename(old, new)
        return self

    @in_turn
    def configure(self, /, **parameters: Any) -> Self:
        """Change parameters of the classifier, from now on; what was learned stays as it is.

        >>> from layup import LayUP
        >>> LayUP("vit-nano", lam=1.0).configure(lam="gcv").classifier.lam
        'gcv'
        """
        self.classifier = clone(self.knowledge.configure(**parameters))
        return self

    def blank(self) -> ImageModel:
        """A model with the same network, features and classifier that has learned nothing.

        >>> from layup import LayUP
        >>> LayUP("vit-nano", k=2, lam=1.0).blank().classes_
        []
        """
        classifier, anonymous = clone(self.classifier), self.photos is None
        model = ImageModel(self.features, classifier, self.session, anonymous=anonymous, **self.reading)
        model.network = self.network
        model.photo_features = PhotoFeatures(self.features, self.network, self.reading)
        return model

    # ---- predicting

    def predict_only(self) -> PredictOnly:
        """A model that predicts the same, and holds weights instead of sums: see `PredictOnly`.

        Costs a solve, as the first prediction does, and for the default classifier d³ operations more.
        """
        with self.turn:
            self._predictor()
            readout = self.classifier_.readout()
            if readout is None:
                raise InputError(
                    f"A model with the classifier {self.classifier_.kind!r} predicts with its sums, so that "
                    "without them it could not predict. Share the whole model."
                )
            return PredictOnly(
                self.resolved_features, readout, self.network, self.calibration, **self.reading
            )

    @property
    def told_counts(self) -> dict[str, int]:
        """How many photos of each class the sums hold."""
        return self.counts_

    @property
    def told_accuracy(self) -> Mapping[str, Any] | None:
        """What `expect` found, if nothing was learned or forgotten since."""
        return last_expected(self.log)

    @property
    def scorer(self) -> SumsClassifier:
        """The classifier with what it has learned."""
        return self.classifier_

    @property
    def linear(self) -> Readout | None:
        """The weights of its classifier, if it is linear."""
        return self.classifier_.linear_readout()

    @property
    def calibration(self) -> Calibration | None:
        """What its photos said when they were last judged, see `expect`."""
        return self.knowledge.calibration

    def _predictor(self) -> Predictor:
        """As in the base class; refused as well if what is to be solved does not fit."""
        predictor = super()._predictor()
        if not self.classifier_.ready:
            width = self.classifier_.solved_width(list(self.statistics_.layers.values()))
            memory.require(forecast_solving(self.statistics_, width, len(self.classes_)), "Predicting")
        return predictor

    @property
    @in_turn
    def counts_(self) -> dict[str, int]:
        """How many images of each class the sums hold."""
        return self.knowledge.counts

    @property
    def lambda_(self) -> float:
        """The λ in force, if the classifier has one."""
        lam: float = self.classifier_.in_force()["lambda"]
        return lam

    @property
    def statistics_(self) -> Any:
        """The sums: everything that was learned."""
        return self.classifier_.statistics_

    @property
    @in_turn
    def state_hash(self) -> str | None:
        """Hex SHA-256 of what was learned: network, features and sums. None if the sums are not exact.

        Models of the same images have the same, however they were learned, merged and forgotten. λ, the
        log and the digests of photos are not part of it. Costs one pass over G.

        >>> from PIL import Image
        >>> from layup import LayUP
        >>> images = [Image.new("RGB", (64, 64), name) for name in ("red", "navy")]
        >>> one, two = (LayUP("vit-nano", cache=False) for _ in range(2))
        >>> report = one.learn(images, ["red", "blue"])
        >>> report = two.learn(images[1:], ["blue"])
        >>> report = two.learn(images[:1], ["red"])
        >>> one.state_hash == two.state_hash
        True
        """
        return state_hash(
            self.network.identity.fingerprint, self.resolved_features.to_dict(), self.statistics_
        )

    @property
    def log(self) -> list[Entry]:
        """What was done to this model, the oldest first."""
        return self.knowledge.log

    @property
    def photos(self) -> KnownPhotos | None:
        """The photos that it knows; None if it is anonymous."""
        return self.knowledge.photos

    @property
    def per_class(self) -> bool:
        """Whether it keeps a root per class."""
        return self.knowledge.per_class

    @property
    @in_turn
    def roots(self) -> ClassRoots | None:
        """A root per class, if the model keeps them."""
        return self.knowledge.roots

    @property
    def knows_all(self) -> bool:
        """Whether this model can recognise every photo that it has learned, and G holds no others."""
        return self.knowledge.knows_all

    @in_turn
    def expect(self, most: int = 2000) -> Expected | None:
        """The accuracy to expect on images like those that were learned; the log notes it.

        At most so many of the images are predicted by sums without them, see `held_out_tally`. None if the
        cache does not have the features of enough of them. The same predictions say how sure the model may
        be, and what is unlike all that it knows: see `predictions`. Costs one solve, and d² operations per
        image, so it is not made with every batch.
        """
        found = self.estimate(most)
        if found.calibration is not None:
            self.knowledge.calibration = found.calibration
        if found.expected is not None:
            self.log[-1] = replace(self.log[-1], expected=found.expected.to_dict())
        return found.expected

    @in_turn
    def estimate(self, most: int = 2000) -> Estimate:
        """What `expect` finds, without noting it."""
        return estimate(self.knowledge, self.photo_features, most)

    @in_turn
    def audit(self, images: Images, labels: Iterable[str] | None = None) -> Audit:
        """Judge photos that were learned by all the others: labels that are probably wrong, near-duplicates.

        Give them with the labels that they were learned with. Nothing is learned again, and nothing changes.
        """
        return audit(self.knowledge, self.photo_features, *given(images, labels))

    @in_turn
    def suggest(self, images: Images, count: int = 20) -> Suggestions:
        """Which photos without labels to label next: those that would teach most, the most useful first."""
        return suggest(self.knowledge, self.photo_features, listed(images), count)

    # ---- other threads

    def beside(self, knowledge: Knowledge, features: PhotoFeatures) -> Self:
        """A model of the same network with other knowledge, whose methods wait for no other thread."""
        found = copy(self)
        found.knowledge, found.photo_features, found.turn = knowledge, features, Turn()
        return found

    # ---- files

    @in_turn
    def save(self, path: str | Path) -> None:
        """Write the model to one file, atomically: if it fails, the old file is still there."""
        learned, arrays = self.knowledge.state()
        backbone, tuned = self.network.state()
        first = {} if self.session is None else {"first_session": self.session.to_dict()}
        header = {
            "features": self.resolved_features.to_dict(),
            **first,
            "backbone": backbone,
            **learned,
            "versions": written_with(),
        }
        write_model(path, header, arrays, tuned)
        self.photo_features.saved(self.photos)

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
        return cls.from_file(
            path,
            read_model(path),
            backbone=backbone,
            weights=weights,
            allow_backbone=allow_backbone,
            **reading,
        )

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        found: ModelFile,
        *,
        backbone: Backbone | None = None,
        weights: str | Path | None = None,
        allow_backbone: bool = False,
        **reading: Unpack[Reading],
    ) -> Self:
        """The same, from what was read of a file already."""
        header, about = found.header, found.header["backbone"]
        with storage.believed(path):
            features = spec_from(header["features"])
            session = header.get("first_session")
            if session is not None and (allow_backbone or weights is not None):
                ADAPTERS.get(session["adapter"]["name"])  # also that of an installed plug-in
            wish = None if session is None else FirstSession.from_dict(session)
            classifier = restored(header, found.sums)
            model = cls(features, clone(classifier), wish, backbone=backbone or about["name"], **reading)
            model.knowledge.restore(header, found.sums, found.photos, found.roots)
            model.photo_features.has_file = True
        model.network.origin = Origin.of(
            path, about, found.tuned, found.sums.layers, weights=weights, allow_backbone=allow_backbone
        )
        return model

    # ---- the parts, made when first needed

    @property
    @in_turn
    def classifier_(self) -> SumsClassifier:
        """The classifier with what it has learned, empty at first."""
        return self.knowledge.classifier

    # ---- the rest is private

    def _fresh_classifier(self) -> SumsClassifier:
        classifier: SumsClassifier = clone(self.classifier)
        classifier.adopt(classifier.empty(self.extractor_.layers).in_steps(self.extractor_.steps))
        return classifier

    def _planned(
        self, images: Sequence[ImageSource], labels: list[str], *, again: bool = False, relabel: bool = False
    ) -> Change:
        """What is to be done with images that are given to be learned."""
        if again or self.photos is None:
            return Change("learn", images, labels, Plan([*range(len(images))]))
        photos = self.knowledge.recognised("learned before", about="again")
        digests = self.photo_features.digests(images)
        return Change("learn", images, labels, plan(photos, digests, labels, relabel=relabel), digests)

    def _require_room(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Refuse an empty batch, impossible settings, and what does not fit, before an image is read."""
        if not len(images):
            raise none_usable(0, [])
        # How many of them are new is only known of a model that knows nothing.
        new = [] if self.log else labels
        memory.require(self.forecast(len(new), len({*self.classes_, *new})), "This batch")

    def _require_room_to_forget(self) -> None:
        memory.require(forecast_reverting(self.statistics_, len(self.classes_)), "Forgetting")

    def _change(self, change: Change, *, strict: bool, checkpoint: str | Path | None) -> BatchReport:
        """Do what was planned, if it fits into memory; adapt the network before the first batch."""
        if change.is_empty:
            return change.report(self.knowledge)
        if change.subtracts:
            self._require_room_to_forget()
        new = change.new_labels
        # Refuse impossible settings, and what does not fit into memory, before hours are spent.
        memory.require(self.forecast(len(new), len({*self.classes_, *new})), "This batch")
        if self.session is not None and not self.log:
            tuning = {"strict": strict, "checkpoint": checkpoint}
            self.network.adapt(change.new_images, new, self.session, self.reading, **tuning)
            if self.session.trial:
                self._try_adapter(change.new_images, new)
            self.photo_features.reset()
            self.knowledge.restart()
        return change.apply(self.knowledge, self.photo_features, strict=strict)

    def _try_adapter(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Drop the adapter if the network is worse for it, by images that were held out."""
        assert self.session is not None

        def blank(backbone: Backbone) -> ImageModel:
            classifier = clone(self.classifier)
            return ImageModel(self.features, classifier, backbone=backbone, anonymous=True, **self.reading)

        self.trial = try_out(blank, self.network.backbone, images, labels, self.session)
        if not self.trial.kept:
            self.network.remove_adapter()

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
