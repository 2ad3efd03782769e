"""Images in, labels out: learn, forget, merge, save; with any features and any classifier."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from layup import __version__, memory, storage
from layup.adapters import ADAPTERS
from layup.algebra import (
    ClassRoots,
    Expected,
    Floats,
    SumsClassifier,
    clone,
    forecast_merging,
    forecast_reverting,
    forecast_solving,
    held_out_tally,
    restored,
)
from layup.backbones import Backbone
from layup.errors import BadImageError, InputError, MismatchError
from layup.features import (
    FeatureCache,
    FeatureSource,
    FeatureSpec,
    NoCache,
    Reading,
    Rows,
    Spool,
    cache_of,
    digests_of,
    spec_from,
)
from layup.images import ImageSource
from layup.memory import Forecast
from layup.model.file import TUNED, read_model, require_sound
from layup.model.forecast import forecast_batch
from layup.model.inputs import checked_labels, chosen, listed
from layup.model.kind import KIND
from layup.model.known import (
    BYTES,
    KnownPhotos,
    reopened,
    require_recognisable,
    require_sound as require_sound_photos,
)
from layup.model.log import Entry, require_undoable
from layup.model.merging import joined_logs, overlap, require_base, without_base
from layup.model.network import Network, Origin, relocated
from layup.model.parts import Parts
from layup.model.plan import Plan, plan, rows_to_forget
from layup.model.recall import Recalled, named, recall
from layup.model.reports import BatchReport, Predictions
from layup.model.turns import Turn, all_turns, in_turn
from layup.model.visits import Seen, none_usable, visit
from layup.registry import unknown_name
from layup.tuning import FirstSession, Wanted

logger = logging.getLogger(__name__)

VERSIONS_OF = ("torch", "timm", "numpy")


class ImageModel:
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
        self.network = Network(backbone)
        self.reading = reading
        self.log: list[Entry] = []
        self.photos: KnownPhotos | None = None if anonymous else KnownPhotos()
        self.per_class = per_class
        self._roots: ClassRoots | None = None
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
        again: bool = False,
        relabel: bool = False,
    ) -> BatchReport:
        """Learn images with their labels, as often as you like. Images that are known are left out.

        Images are paths, contents of files (bytes, or open files), PIL images, arrays or tensors. Images and
        labels come in a list, or in anything that gives them one by one, such as a generator.

        Images that cannot be used are skipped and reported; with `strict` the first one raises an error
        before anything is learned. If the model has an adapter, the first batch tunes it before anything
        else; `checkpoint` names a file from which tuning continues if it is interrupted.

        again: count every image, also if it is known.
        relabel: move images that are known as another class; otherwise they are reported as conflicts.
        """
        images = listed(images)
        labels = checked_labels(labels, images)
        options: dict[str, Any] = {"strict": strict, "checkpoint": checkpoint}
        self._require_room(images, labels)
        if again or self.photos is None:
            return self._change("learn", images, labels, Plan([*range(len(images))]), None, **options)
        self.photos = require_recognisable(self.photos, "learned before", about="again")
        digests = digests_of(images, self.reading)
        work = plan(self.photos, digests, labels, relabel=relabel)
        return self._change("learn", images, labels, work, digests, **options)

    @in_turn
    def sync(
        self,
        images: Iterable[ImageSource],
        labels: Iterable[str],
        *,
        strict: bool = False,
        checkpoint: str | Path | None = None,
        dry_run: bool = False,
    ) -> BatchReport:
        """Make the model that of these images alone: learn what is new, move what changed, forget the rest.

        What is to be forgotten need not be at hand: its features are in the cache. Photos that the cache does
        not have stay, and are reported as missing. If some image cannot be read, nothing is forgotten that it
        may be. With `dry_run` nothing is changed, only reported.
        """
        images = listed(images)
        labels = checked_labels(labels, images)
        self.photos = photos = require_recognisable(self.photos, "to be forgotten")
        if len(photos) < self.statistics_.total:
            raise InputError(
                f"This model cannot be made that of these images alone: it has learned "
                f"{self.statistics_.total - len(photos):,} images that it cannot recognise, since they came "
                "from an anonymous model. Teach a new model instead."
            )
        self._require_room(images, labels)
        digests = digests_of(images, self.reading)
        work = plan(photos, digests, labels, relabel=True, exact=True)
        gone = photos.missing_from([digest for digest in digests if digest is not None])
        if len(gone) and None in digests:
            logger.warning(
                "%d photos are no longer given, but stay: %d images cannot be read, and may be these.",
                len(gone),
                digests.count(None),
            )
            gone = gone[:0]
        if dry_run:
            return self._foreseen(labels, work, gone)
        return self._change("sync", images, labels, work, digests, gone, strict=strict, checkpoint=checkpoint)

    @in_turn
    def forget(
        self, images: Iterable[ImageSource], labels: Iterable[str] | None = None, *, strict: bool = False
    ) -> BatchReport:
        """Un-learn images: the sums become what they would be without them. λ stays.

        With labels, only what was learned under these. A class with no image left disappears. Cached
        features of images that are no longer known are deleted as well. An adapter does not un-learn the
        first batch that it was tuned to: only the sums do.
        """
        images = listed(images)
        self.photos = photos = require_recognisable(self.photos, "to be forgotten")
        asked = None if labels is None else checked_labels(labels, images)
        digests = digests_of(images, self.reading)
        rows = rows_to_forget(photos, images, digests, asked)
        memory.require(forecast_reverting(self.statistics_, len(self.classes_)), "Forgetting")
        place = {digest[:BYTES]: index for index, digest in enumerate(digests) if digest is not None}
        known = photos.digests_at(rows)
        held = {*known}
        bad = [index for index, digest in enumerate(digests) if digest is None or digest[:BYTES] not in held]
        indices = [*(place[digest] for digest in known), *bad]
        names, minus = photos.labels_at(rows), self._parts.empty()
        seen = self._visit(
            images,
            indices,
            lambda features, turns: minus.update(features, [names[turn] for turn in turns]),
            [digests[index] for index in indices],
            strict=strict,
            title="Forgetting",
        )
        if not seen.turns:
            raise none_usable(len(images), seen.bad)
        report = BatchReport(forgotten=counted(names[turn] for turn in seen.turns), bad=seen.bad)
        with self._all_or_nothing():
            self._adopt(self._parts - minus)
            self.photos = photos.without(rows[seen.turns])
            self._note("forget", forgotten=report.forgotten)
        self._delete_cached(seen.digests)
        return report

    @in_turn
    def forget_class(self, label: str) -> BatchReport:
        """Un-learn a class without its images.

        This is exact if the model keeps a root per class, or if the cache has the features of all its images.
        Otherwise its prototype and its count are gone, but G still holds its images, as images of no class:
        the report then says that it is not exact.
        """
        if label not in self.classes_:
            raise unknown_name("class", label, self.classes_)
        memory.require(forecast_reverting(self.statistics_, len(self.classes_)), "Forgetting")
        before, forgotten = self._parts, {label: self.counts_[label]}
        sums = self._sums_of(label)
        left = before.without_class(label) if sums is None else before - sums
        exact = left.leftover <= before.leftover
        photos = self.photos or KnownPhotos()
        digests = [*self._cache_to_clear.completed(photos.digests_at(photos.of_class(label))).values()]
        with self._all_or_nothing():
            self._adopt(left)
            if self.photos is not None:
                self.photos = self.photos.without_class(label)
            self._note("forget", forgotten=forgotten, note="" if exact else f"G keeps {label}")
        self._delete_cached(digests)
        return BatchReport(forgotten=forgotten, exact=exact)

    @in_turn
    def undo(self) -> BatchReport:
        """Take the last batch back: the sums, λ and the log become what they were before it.

        The features of its images come from the cache, and stay there. What forgot, moved, renamed or merged
        cannot be undone: it is not kept how it was before.
        """
        last = require_undoable(self.log)
        self.photos = photos = require_recognisable(self.photos, "learned last")
        rows, minus = photos.of_batch(len(self.log) - 1), self._parts.empty()
        lost = self._recall(photos, rows, minus.update).lost
        if len(lost):
            first = named(photos, lost[:1], self._cache, self.log)[0]
            raise InputError(
                f"The last batch cannot be undone: the features of {len(lost):,} of its {len(rows):,} photos "
                f"are not in the cache, such as {first}. Let the model forget these photos instead."
            )
        left = self._parts - minus
        header, _ = self.classifier_.state()
        with self._all_or_nothing():
            self.log = self.log[:-1]
            self.photos = photos.without(rows)
            if self.log:
                self._classifier = restored({**header, "chosen": self.log[-1].chosen}, left.sums)
                self._keep(left.roots)
            else:
                self._start_anew()
        return BatchReport(forgotten=dict(last.learned))

    def _start_anew(self) -> None:
        """As if nothing had ever been learned: an adapter will be tuned to the next batch."""
        if self.session is not None:
            self.network.remove_adapter()
        self._classifier = self._extractor = None
        self._roots = None

    def learned_as(self, images: Iterable[ImageSource]) -> list[tuple[str, ...]]:
        """The classes that each image was learned as: none for one that this model does not know."""
        photos = KnownPhotos() if self.photos is None else self.photos
        digests = digests_of(listed(images), self.reading)
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
            return self._merged(other, base)

    def _merged(self, other: ImageModel, base: ImageModel | None) -> Self:
        for model in (self, other):
            if model.session is not None and not model.log:
                raise InputError(
                    "A model with an adapter cannot be merged before it has learned its first batch. "
                    "Let it learn first, or make it without an adapter."
                )
        classes = len({*self.classes_, *other.classes_})
        memory.require(forecast_merging(self.statistics_, classes, base is not None), "Merging")
        involved: list[ImageModel] = [self, other] if base is None else [self, other, base]
        for each in involved:
            each.photos = reopened(each.photos)
        by_photo = all(each.knows_all for each in involved)
        require_base(self.log, other.log, None if base is None else base.log, by_photo)
        log, batches = joined_logs(self.log, other.log)
        note, known, twice = "", self.photos, self._parts.empty()
        if known is not None and other.photos is not None:
            theirs = other.photos
            old = {entry.id for entry in ([] if base is None else base.log)}
            ancestor = all(old <= {entry.id for entry in model.log} for model in (self, other))
            both = overlap(known, theirs, None if base is None else base.photos, ancestor)
            if len(both.twice):
                twice, note = self._shared(theirs, both.twice), both.words
            if base is not None and base.photos is not None:
                # What nobody recognises is only known to be counted once as far as it is from the base.
                known, theirs = known.followed(theirs, base.photos), replace(theirs, sealed=())
            known = known.without(both.gone).merged(theirs, batches, np.union1d(both.based, both.twice))
        parts = self._parts + other._parts
        if base is not None:
            parts = without_base(parts, base._parts)
        if twice.sums.total:
            parts -= twice
        if self.per_class and parts.roots is None:
            logger.warning(
                "The merged model keeps no root per class, since not all of these models do: forget_class "
                "will need the features of a class."
            )
        with self._all_or_nothing():
            self.classifier_.adopt_merged(parts.sums, other.classifier_)
            self._keep(parts.roots)
            self.photos = known
            if len(log) > len(self.log):  # else the other has nothing that this one had not
                self.log = log
                self._note("merge", note=note)
        if mixture := mixed_engines(self, other):
            logger.warning(mixture)
        return self

    def _shared(self, theirs: KnownPhotos, rows: NDArray[np.int64]) -> Parts:
        """The sums of photos of another model that this one has as well."""
        twice = self._parts.empty()
        lost = self._recall(theirs, rows, twice.update).lost
        if len(lost):
            raise MismatchError(
                f"These models share {len(rows):,} photos, which would count twice, and the features of "
                f"{len(lost):,} are not in the cache. Give the model that both started from as the "
                "base: merge(other, base=…); or let one of them forget these photos first.",
                about="base",
            )
        return twice

    @property
    def knows_all(self) -> bool:
        """Whether this model can recognise every photo that it has learned, and G holds no others."""
        known = self.photos is not None and len(self.photos) == self.statistics_.total
        return known and not self._parts.leftover

    def require_recognition(self) -> None:
        """Refuse if this model cannot tell of every photo whether it has learned it."""
        photos = require_recognisable(self.photos, "learned")
        if not self.knows_all:
            raise InputError(
                f"This model cannot tell which photos were learned: it knows {len(photos):,} of "
                f"{self.statistics_.total:,}, the others came from an anonymous model."
            )

    @in_turn
    def rename(self, old: str, new: str) -> Self:
        """Give a class another name. If that is the name of another class, the two become one."""
        if old not in self.classes_:
            raise unknown_name("class", old, self.classes_)
        (new,) = checked_labels([new], [new])
        if new == old:
            return self
        renamed = self._parts.renamed(old, new)
        with self._all_or_nothing():
            self._adopt(renamed)
            if self.photos is not None:
                self.photos = self.photos.renamed(old, new)
            self._note("rename", note=f"{old} → {new}")
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
                scores.append(self.classifier_.scores_of(part.rows))
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

    @property
    @in_turn
    def roots(self) -> ClassRoots | None:
        """A root per class, if the model keeps them."""
        if self.per_class and self._roots is None:
            self._roots = ClassRoots(self.statistics_.dim)
        return self._roots

    @in_turn
    def expect(self, most: int = 2000) -> Expected | None:
        """The accuracy to expect on images like those that were learned; the log notes it.

        At most so many of the images are predicted by sums without them, see `held_out_tally`. They are drawn
        at random, always the same; those whose features are not in the cache are left out. None if there is
        nothing to test. Costs a solve for each of four folds, so it is not made with every batch.
        """
        photos = self.photos or KnownPhotos()
        drawn = np.random.default_rng(0).permutation(len(photos))[:most]
        rows, labels = [np.zeros((0, self.statistics_.dim), np.float32)], []

        def take(features: Rows, names: list[str]) -> None:
            rows.append(features)
            labels.extend(names)

        self._recall(photos, np.sort(drawn), take)
        found = Expected.of(held_out_tally(self.classifier_, np.concatenate(rows), labels), self.counts_)
        if found is not None:
            self.log[-1] = replace(self.log[-1], expected=found.to_dict())
        return found

    # ---- files

    @in_turn
    def save(self, path: str | Path) -> None:
        """Write the model to one file, atomically: if it fails, the old file is still there."""
        classifier, sums = self.classifier_.state()
        about_sums, arrays = sums.state()
        backbone, tuned = self.network.state()
        arrays |= {TUNED + name: array for name, array in tuned.items()}
        more: dict[str, Any] = {}
        if self.photos is not None:
            more["photos"], digests = self.photos.state(self.classes_)
            arrays |= digests
        if self.roots is not None:
            more["roots"], roots = self.roots.state()
            arrays |= roots
        first = {} if self.session is None else {"first_session": self.session.to_dict()}
        header = {
            "features": self._resolved_features().to_dict(),
            **classifier,
            **first,
            "backbone": backbone,
            "log": [entry.to_dict() for entry in self.log],
            **more,
            "versions": {"layup": __version__, **{name: version(name) for name in VERSIONS_OF}},
            **about_sums,
        }
        declared = {name: storage.Declared(each.dtype.name, each.shape) for name, each in arrays.items()}
        try:
            require_sound(json.loads(json.dumps(header)), declared)
            if self.photos is not None:
                require_sound_photos(arrays, self.counts_, len(self.log))
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
            if session is not None and (allow_backbone or weights is not None):
                ADAPTERS.get(session["adapter"]["name"])  # also that of an installed plug-in
            wish = None if session is None else FirstSession.from_dict(session)
            model = cls(features, clone(classifier), wish, backbone=backbone or about["name"], **reading)
            model.photos = found.photos
            model._keep(found.roots)
            model.log = [Entry.from_dict(entry) for entry in header["log"]]
        allowed = allow_backbone or weights is not None
        about = about if weights is None else relocated(about, weights)
        model.network.origin = Origin(str(path), about, found.tuned, allowed)
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
            origin, held = self.network.origin, self._classifier
            if origin is not None and held is not None and extractor.layers != held.statistics_.layers:
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

    def _require_room(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Refuse an empty batch, impossible settings, and what does not fit, before an image is read."""
        if not len(images):
            raise none_usable(0, [])
        # How many of them are new is only known of a model that knows nothing.
        new = [] if self.log else labels
        memory.require(self.forecast(len(new), len({*self.classes_, *new})), "This batch")

    def _change(
        self,
        action: str,
        images: Sequence[ImageSource],
        labels: Sequence[str],
        work: Plan,
        digests: Sequence[bytes | None] | None,
        gone: NDArray[np.int64] | None = None,
        *,
        strict: bool,
        checkpoint: str | Path | None,
    ) -> BatchReport:
        """Learn what is new, move what is to be moved, and forget the rows that are gone.

        digests: those by which this was decided, if it was.
        """
        gone = np.zeros(0, np.int64) if gone is None else gone
        report = BatchReport(
            known=work.known, conflicts=work.conflicts, exact=not (action == "sync" and self._parts.leftover)
        )
        if not (work.new or work.moved or len(gone)):
            return report
        if work.moved or len(gone):
            memory.require(forecast_reverting(self.statistics_, len(self.classes_)), "Forgetting")
        new = [labels[index] for index in work.new]
        # Refuse impossible settings, and what does not fit into memory, before hours are spent.
        memory.require(self.forecast(len(new), len({*self.classes_, *new})), "This batch")
        if self.session is not None and not self.log:
            first = chosen(images, work.new)
            tuning = {"strict": strict, "checkpoint": checkpoint}
            self.network.adapt(first, new, self.session, self.reading, **tuning)
            self._extractor = None
        plus, minus = self._parts.empty(), self._parts.empty()
        recalled = self._recall(self.photos or KnownPhotos(), gone, minus.update)
        goals, before = [labels[index] for index in work.moved], [*work.moved.values()]

        def move(features: Rows, turns: list[int]) -> None:
            plus.update(features, [goals[turn] for turn in turns])
            times = [len(before[turn]) for turn in turns]
            minus.update(
                np.repeat(features, times, axis=0), [name for turn in turns for name in before[turn]]
            )

        same = None if digests is None else [digests[index] for index in work.moved]
        moved = self._visit(images, [*work.moved], move, same, strict=strict, title="Moving")
        same = None if digests is None else [digests[index] for index in work.new]
        with self._learning(images, work.new, new, same, strict) as (seen, learn):
            now = [*(new[turn] for turn in seen.turns), *(goals[turn] for turn in moved.turns)]
            forgotten = {label: int(count) for label, count in minus.sums.count_by_label().items()}
            report = replace(
                report,
                learned=counted(now),
                forgotten=forgotten,
                moved=len(moved.turns),
                bad=sorted([*seen.bad, *moved.bad], key=lambda each: each.index),
            )
            if self.photos is not None:
                report = replace(report, missing=named(self.photos, recalled.lost, self._cache, self.log))
            if not report.changed:
                if not (work.known or work.conflicts or report.missing):
                    raise none_usable(len(images), report.bad)
                return report
            with self._all_or_nothing():
                if forgotten:
                    self._adopt(self._parts + plus - minus)
                learn()
                if self.photos is not None:
                    left = self.photos.without(np.union1d(recalled.rows, self.photos.find(moved.digests)))
                    self.photos = left.with_photos([*seen.digests, *moved.digests], now, len(self.log))
                self._note(action, report.learned, forgotten)
        self._delete_cached(recalled.digests)
        return report

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Whatever goes wrong inside, what was learned, how, and the log of it stay those of before."""
        photos, log, roots, per_class = self.photos, list(self.log), self._roots, self.per_class
        header, sums = self.classifier_.state()
        sums = copy(sums)  # what sums hold is replaced, never changed
        try:
            yield
        except BaseException:
            self.photos, self.log, self._roots, self.per_class = photos, log, roots, per_class
            self._classifier = restored(header, sums)
            raise

    @contextmanager
    def _learning(
        self,
        images: Sequence[ImageSource],
        indices: Sequence[int],
        labels: Sequence[str],
        digests: Sequence[bytes | None] | None,
        strict: bool,
    ) -> Iterator[tuple[Seen, Callable[[], object]]]:
        """What was seen of new images, and what learns them: nothing is learned before all were read."""
        batch = self._parts.empty()

        def names(turns: Iterable[int]) -> list[str]:
            return [labels[turn] for turn in turns]

        def learn(absorb: Callable[[], object]) -> None:
            absorb()
            if self.roots is not None and batch.roots is not None:
                self._keep(self.roots + batch.roots)

        reading: dict[str, Any] = {"strict": strict, "title": "Learning"}
        if not self.classifier_.needs_samples:
            seen = self._visit(
                images, indices, lambda rows, turns: batch.update(rows, names(turns)), digests, **reading
            )
            yield seen, lambda: learn(lambda: self.classifier_.absorb(batch.sums))
            return
        # The classifier looks at the samples of a batch once more: they wait in a spool.
        folder = self._cache.path.parent if isinstance(self._cache, FeatureCache) else None
        with Spool(len(indices), self.extractor_.width, folder) as spool:

            def keep(rows: Rows, turns: list[int]) -> None:
                spool.append(rows)
                if batch.roots is not None:
                    batch.roots.update(rows, names(turns))

            seen = self._visit(images, indices, keep, digests, **reading)
            rows, known = spool.rows(), names(seen.turns)
            yield seen, lambda: learn(lambda: self.classifier_.partial_fit(rows, known) if known else None)

    def _foreseen(self, labels: Sequence[str], work: Plan, gone: NDArray[np.int64]) -> BatchReport:
        """What a change would do."""
        photos = self.photos or KnownPhotos()
        recalled = self._recall(photos, gone, lambda features, labels: None)
        leaving = [*photos.labels_at(recalled.rows), *chain.from_iterable(work.moved.values())]
        return BatchReport(
            learned=counted(labels[index] for index in [*work.new, *work.moved]),
            forgotten=counted(leaving),
            moved=len(work.moved),
            known=work.known,
            conflicts=work.conflicts,
            missing=named(photos, recalled.lost, self._cache, self.log),
        )

    @property
    def _parts(self) -> Parts:
        return Parts(self.statistics_, self.roots)

    def _adopt(self, parts: Parts) -> None:
        self.classifier_.adopt(parts.sums)
        self._keep(parts.roots)

    def _keep(self, roots: ClassRoots | None) -> None:
        self.per_class, self._roots = roots is not None, roots

    def _note(
        self,
        action: str,
        learned: Mapping[str, int] | None = None,
        forgotten: Mapping[str, int] | None = None,
        note: str = "",
    ) -> None:
        chosen = self.classifier_.chosen()
        self.log.append(Entry(action, learned or {}, forgotten or {}, chosen, note=note))

    def _visit(
        self,
        images: Sequence[ImageSource],
        indices: Sequence[int],
        take: Callable[[Rows, list[int]], object],
        expected: Sequence[bytes | None] | None,
        *,
        strict: bool,
        title: str,
    ) -> Seen:
        if not indices:
            return Seen()
        return visit(self.extractor_, images, indices, take, expected=expected, strict=strict, title=title)

    def _recall(
        self, photos: KnownPhotos, rows: NDArray[np.int64], take: Callable[[Rows, list[str]], object]
    ) -> Recalled:
        return recall(photos, rows, lambda: self.extractor_, self._cache, take)

    def _sums_of(self, label: str) -> Parts | None:
        """The sums of a class from the cache, if they are needed, and all its images are known and in it."""
        photos = self.photos or KnownPhotos()
        rows, sums = photos.of_class(label), self._parts.empty()
        needed = self.roots is None and hasattr(sums.sums, "gram")
        if not needed or len(rows) != self.counts_[label]:
            return None
        return None if len(self._recall(photos, rows, sums.update).lost) else sums

    @property
    def _cache(self) -> FeatureCache | NoCache:
        return cache_of(self.reading)

    @property
    def _cache_to_clear(self) -> FeatureCache:
        # This model may not use a cache, but an earlier one may have left its images in it.
        return FeatureCache() if isinstance(self._cache, NoCache) else self._cache

    def _delete_cached(self, digests: Sequence[bytes]) -> None:
        """Delete the cached features of images that this model no longer knows."""
        known = [()] * len(digests) if self.photos is None else self.photos.labels_of(digests)
        gone = [digest for digest, labels in zip(digests, known, strict=True) if not labels]
        if gone:
            self._cache_to_clear.delete_many(None, gone)

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


def counted(labels: Iterable[str]) -> dict[str, int]:
    """How often each label is there, sorted by label.

    >>> counted(["dog", "cat", "dog"])
    {'cat': 1, 'dog': 2}
    """
    return dict(sorted(Counter(labels).items()))
