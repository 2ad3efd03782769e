"""Images in, labels out: learn for ever, un-learn, merge, and live in one file, whatever the classifier."""

from __future__ import annotations

import inspect
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict, Unpack
from unicodedata import normalize

import numpy as np
import torch
from numpy.typing import NDArray

from layup import __version__, memory, storage
from layup.adapters import AdaptedBackbone, reattached
from layup.algebra import Floats, GramStatistics, SumsClassifier
from layup.backbones import Backbone, elsewhere, load_backbone
from layup.errors import BadImageError, ConsentError, ForgetError, InputError, MismatchError
from layup.features import BadImage, Extractor, FeatureCache, FeatureSource, NoCache, Rows, Spool
from layup.formats import brief, has_controls
from layup.images import ImageSource, is_encoded, require_one_label_each
from layup.memory import Forecast
from layup.model import forecasts
from layup.model.file import KIND, TUNED, read_model, require_sound
from layup.model.turns import Turn, all_turns, in_turn, made_once
from layup.tuning import FirstSession, Wanted, adapt

logger = logging.getLogger(__name__)

VERSIONS_OF = ("torch", "timm", "numpy")


class Reading(TypedDict, total=False):
    """How images are read, which never changes an answer.

    cache: keep features on disk, so that an image passes the network once (default: yes); or a cache.
    workers: processes that decode images (default: by need).
    progress: show bars (default: when standard error is a terminal).
    """

    cache: FeatureCache | NoCache | bool
    workers: int | None
    progress: bool | None


def extractor_of(backbone: Backbone, layers: Sequence[str], reading: Reading) -> Extractor:
    """A reader of these layers, in the way that somebody wants images read."""
    cache = reading.get("cache", True)
    if isinstance(cache, bool):
        cache = FeatureCache() if cache else NoCache()
    workers, progress = reading.get("workers"), reading.get("progress")
    return Extractor(backbone, layers, cache=cache, workers=workers, progress=progress)


@dataclass(frozen=True)
class Lesson:
    """What one `learn` or `forget` did: how many images of each class, and which could not be used.

    The id follows from the images and their labels: the same lesson has the same id on every machine.
    """

    id: str
    counts: dict[str, int]
    bad: list[BadImage]

    @property
    def images(self) -> int:
        """How many images took part."""
        return sum(self.counts.values())


@dataclass(frozen=True)
class Answers:
    """Scores for those images that could be used: row i is of image `kept[i]`, columns are the classes."""

    classes: list[str]
    scores: Floats
    kept: list[int]
    bad: list[BadImage]

    @property
    def labels(self) -> list[str]:
        """The class of the highest score, the first of equals."""
        return [self.classes[best] for best in self.scores.argmax(axis=1)]


class ImageModel:
    """What all models share: a frozen backbone, some of its layers, and a classifier made of sums.

    The sums are all that is ever learned: a model is the sum of its lessons. Each lesson, and each
    forgetting, has an id, so that models which share some do not count them twice when merged.

    Threads may share a model: its methods take turns.
    """

    method: ClassVar[str]

    def __init__(
        self,
        backbone: str | Backbone = "bundled",
        *,
        adapter: Wanted = None,
        **reading: Unpack[Reading],
    ) -> None:
        unknown = set(reading) - set(Reading.__annotations__)
        if unknown:  # Python would say so itself, were the options not handed through
            raise TypeError(f"{type(self).__name__}() got an unexpected keyword argument {unknown.pop()!r}")
        self.backbone = backbone
        self.session = FirstSession.wanted(adapter)
        self.reading = reading
        self.lessons: list[str] = []
        self.turn = Turn()
        self._allowed = True  # a backbone from elsewhere, unless a file asks for it
        self._made_with: dict[str, Any] | None = None  # what the file says of the backbone
        self._tuned: dict[str, NDArray[Any]] = {}  # and holds of its adapter
        self._file = ""  # what it is called

    # ---- what the kinds of model differ in

    def _layers(self) -> tuple[str, ...]:
        """The layers that are read."""
        raise NotImplementedError

    def _extractor(self) -> FeatureSource:
        """What makes rows of images; of a model yet to be tuned, rows of the same layout."""
        return self._reader(self.backbone_)

    def _classifier(self) -> SumsClassifier:
        """An empty classifier with this model's settings."""
        raise NotImplementedError

    def _solved_width(self, widths: Sequence[int]) -> int:
        """The side of the largest matrix that is solved, of layers of these widths."""
        return sum(widths)

    def _settings(self) -> dict[str, Any]:
        """The arguments that make a model like this one, as JSON."""
        wish = None if self.session is None or self.lessons else self.session
        return {} if wish is None else {"adapter": wish.to_dict()}

    def _chosen(self) -> dict[str, Any]:
        """What was chosen while learning, besides the sums, as JSON."""
        return {}

    @property
    def in_force_(self) -> dict[str, Any]:
        """What answers depend on besides the sums, as JSON: λ, if there is one."""
        return {}

    def _adopt_merged(self, sums: Any, other: Self) -> None:
        """Go on from sums that include the other model's."""
        self.classifier_.adopt(sums)

    def _adopt_loaded(self, sums: Any, header: dict[str, Any]) -> None:
        """Go on from sums that a file held, beside this header."""
        self.classifier_.adopt(sums)

    # ---- learning

    @in_turn
    def learn(
        self,
        images: Iterable[ImageSource],
        labels: Iterable[str],
        *,
        strict: bool = False,
        checkpoint: str | Path | None = None,
    ) -> Lesson:
        """Learn images with their labels, as often as you like.

        Images are paths, contents of files (bytes, or open files), PIL images, arrays or tensors; they and
        their labels come in a list, or in anything that gives them one by one, such as a generator.

        Images that cannot be used are skipped and reported; with `strict` the first one ends the lesson
        before anything is learned. If the model has an adapter, the first lesson tunes it before anything
        else; `checkpoint` names a file from which that goes on, should it be interrupted.
        """
        images = _listed(images)
        labels = _checked_labels(labels, images)
        # Refused before hours are spent: settings that cannot be, and what would not fit.
        memory.require(self.forecast(len(images), len({*self.classes_, *labels})), "This lesson")
        if self.session is not None and not self.lessons:
            self._adapt(images, labels, strict, checkpoint)
        if self.classifier_.needs_samples:
            names: list[str] = []
            cache = self.extractor_.cache
            folder = cache.path.parent if isinstance(cache, FeatureCache) else None
            with Spool(len(images), self.extractor_.width, folder) as spool:

                def keep(part: Rows, part_names: list[str]) -> None:
                    spool.append(part)
                    names.extend(part_names)

                lesson, _ = self._visit(images, labels, strict, "Learning", keep)
                self.classifier_.partial_fit(spool.rows(), names)
        else:
            sums = self.statistics_.empty()
            lesson, _ = self._visit(images, labels, strict, "Learning", sums.update)
            self.classifier_.absorb(sums)
        self.lessons.append(lesson.id)
        return lesson

    def forecast(self, images: int, classes: int, known: int | None = None) -> Forecast:
        """The memory that a lesson of so many images will take, if this model then knows so many classes.

        known: how many images the model has learned by then, if other than so far.
        """
        sums = self.statistics_
        if not isinstance(sums, GramStatistics):
            return forecasts.class_sums(sums.dim, classes, images)
        layers = list(sums.layers.items())
        known = sums.total if known is None else known
        searched = self.classifier_.needs_samples

        def of(k: int = len(layers), searched: bool = searched, precision: str = sums.precision) -> Forecast:
            kept = [width for _, width in layers[-k:]]
            solved = self._solved_width(kept)
            return forecasts.learning(
                sum(kept), classes, images, known=known, searched=searched, precision=precision, solved=solved
            )

        found = of()
        if found.fits:
            return found
        instead: dict[str, Forecast] = {}
        if len(self._layers()) == len(layers):
            fewer = ((k, of(k=k)) for k in range(len(layers) - 1, 0, -1))
            instead |= next(({f"k = {k}": other} for k, other in fewer if other.fits), {})
        if searched:
            instead["lam = 1"] = of(searched=False)
        if hasattr(self, "precision"):
            instead["precision = float32"] = of(precision="float32")
        return replace(found, instead=instead)

    @in_turn
    def forget(self, images: Iterable[ImageSource], labels: Iterable[str], *, strict: bool = False) -> Lesson:
        """Un-learn images: the sums become what they would be had these never been learned. λ stays.

        A class with no image left disappears. Cached features of the images are deleted as well. What an
        adapter was tuned to in the first lesson cannot be un-learned: only the sums can.
        """
        sums = self.statistics_.empty()
        memory.require(forecasts.reverting(sums, len(self.classes_)), "Forgetting")
        lesson, digests = self._visit(images, labels, strict, "Forgetting", sums.update)
        self.classifier_.adopt(self.statistics_ - sums)
        self.lessons.append(lesson.id)
        cache = self.extractor_.cache
        # This model may not use a cache, but an earlier one may have left these images in it.
        (FeatureCache() if isinstance(cache, NoCache) else cache).delete_many(None, digests)
        return lesson

    def merge(self, other: Self, base: Self | None = None) -> Self:
        """Add what another model has learned, exactly as if this one had learned it too.

        Both must read the same layers of the same backbone. If both grew from a common ancestor, its lessons
        would count twice: give the ancestor as `base`, and a + b − base is computed.
        """
        self._require_same(other)
        with all_turns(self, other, *([] if base is None else [base])):
            return self._merged(other, base)

    def _merged(self, other: Self, base: Self | None) -> Self:
        for model in (self, other):
            if model.session is not None and not model.lessons:
                raise InputError(
                    "A model that is to tune its backbone first cannot be merged before its first lesson. "
                    "Let it learn first, or make it without an adapter."
                )
        theirs = Counter(other.lessons)
        shared = Counter(self.lessons) & theirs
        classes = len({*self.classes_, *other.classes_})
        memory.require(forecasts.merging(self.statistics_, classes, base is not None), "Merging")
        sums = self.statistics_ + other.statistics_
        if base is not None:
            self._require_same(base)
            held = Counter(base.lessons)
            if held != shared:
                raise MismatchError(
                    f"The base must hold just the lessons that both models share, {shared.total()} in all, "
                    f"but it holds {held.total()}, of which {(shared & held).total()} are shared. "
                    "Give the model from which both were grown."
                )
            sums = _without(sums, base.statistics_)
        elif shared:
            raise MismatchError(
                f"These models share {shared.total()} of their lessons, which would count twice. Give a "
                "model of just these as the base, such as the one from which both were grown: "
                "merge(other, base=…), or --base base.layup."
            )
        self._adopt_merged(sums, other)
        self.lessons += (theirs - shared).elements()
        if mixture := mixed_engines(self, other):
            logger.warning(mixture)
        return self

    # ---- answering

    @in_turn
    def predict(self, images: Iterable[ImageSource]) -> NDArray[Any]:
        """The label of every image. Only classes that were learned can be the answer."""
        return np.asarray(np.array(self.classes_)[self.scores(images).argmax(axis=1)])

    def scores(self, images: Iterable[ImageSource]) -> Floats:
        """One row an image and one column for each of `classes_`; the highest wins, the first of equals."""
        answers = self.answer(images)
        if answers.bad:
            raise BadImageError(answers.bad[0].reason)
        return answers.scores

    @in_turn
    def answer(self, images: Iterable[ImageSource]) -> Answers:
        """The scores of all images that can be used, and which cannot. Features are not held: only scores."""
        if not self.classes_:
            raise InputError("This model knows no class. Teach it with `learn` first.")
        if not self.classifier_.ready:
            width = self._solved_width(list(self.statistics_.layers.values()))
            memory.require(forecasts.solving(self.statistics_, width, len(self.classes_)), "Predicting")
        answers = Answers(self.classes_, np.zeros((0, len(self.classes_))), [], [])
        scores = [answers.scores]
        for part in self.extractor_.stream(_listed(images), "Looking"):
            answers.bad.extend(part.bad)
            answers.kept.extend(part.kept.tolist())
            if len(part.rows):
                scores.append(self.classifier_.scores(part.rows))
        return replace(answers, scores=np.concatenate(scores))

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
    def engine(self) -> str:
        """What computed the features that were learned, and computes all others."""
        engine: str = self._made_of()[0]["engine"]
        return engine

    @property
    def adapted(self) -> bool:
        """Whether the backbone was tuned to the first lesson."""
        return "adapted" in self._made_of()[0]

    @property
    def statistics_(self) -> Any:
        """The sums: all that was learned."""
        return self.classifier_.statistics_

    # ---- files

    @in_turn
    def save(self, path: str | Path) -> None:
        """Write the model to one file, atomically: whatever happens, the old file or the new one is there."""
        header, arrays = self.statistics_.state()
        made_with, tuned = self._made_of()
        arrays |= {TUNED + name: array for name, array in tuned.items()}
        about = {
            "method": self.method,
            "backbone": made_with,
            "settings": self._settings(),
            "lessons": self.lessons,
            "versions": {"layup": __version__, **{name: version(name) for name in VERSIONS_OF}},
        }
        written = {**about, **self._chosen(), **header}
        declared = {name: storage.Declared(each.dtype.name, each.shape) for name, each in arrays.items()}
        try:
            require_sound(json.loads(json.dumps(written)), declared)
        except (TypeError, ValueError) as error:  # nothing may be written that could not be read again
            raise InputError(f"This model cannot be saved: {error}. Nothing was written.") from error
        storage.write(path, KIND, written, arrays)

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
        """Read what `save` wrote. The backbone itself is loaded, and checked, when an image is to be read.

        A model whose backbone was a module of your own needs it again as `backbone`; one whose weights came
        from a file that has moved needs to be told where to, with `weights`. A backbone that the file wants
        from elsewhere (a path, a download) is only loaded with `allow_backbone`.
        """
        found = read_model(path)
        header = found.header
        if header["method"] != cls.method:
            raise MismatchError(f"'{path}' holds a {header['method']!r} model, not a {cls.method!r} one.")
        with storage.believed(path):
            model = cls(backbone or header["backbone"]["name"], **cls._settings_from(header), **reading)
            classifier = model._classifier()
            if not isinstance(found.sums, classifier.sums):
                raise ValueError(f"a {cls.method!r} model needs other sums")
            model.__dict__["classifier_"] = classifier
            model._adopt_loaded(found.sums, header)
        model._file, model._made_with, model._tuned = str(path), header["backbone"], found.tuned
        model._allowed = allow_backbone or weights is not None
        if weights is not None and model._made_with["spec"] is not None:
            model._made_with["spec"]["weights"] = str(Path(weights).absolute())
        model.lessons = list(header["lessons"])
        return model

    @classmethod
    def _settings_from(cls, header: dict[str, Any]) -> dict[str, Any]:
        """What a file says that the model was made with: arguments of its own, none of `Reading`."""
        settings = dict(header["settings"])
        known = inspect.signature(cls).parameters
        if strangers := [name for name in settings if name not in known]:
            raise ValueError(f"a {cls.method!r} model has no setting {strangers[0]!r}")
        if "adapter" in settings:
            settings["adapter"] = FirstSession.from_dict(settings["adapter"])
        return settings

    # ---- the parts, made when first needed

    @made_once
    def backbone_(self) -> Backbone:
        """The backbone, loaded; if the model comes from a file, the very one that the file names."""
        made_with = self._made_with
        if isinstance(self.backbone, Backbone):
            loaded = self.backbone
        elif made_with is None:
            loaded = load_backbone(self.backbone)
        elif made_with["spec"] is None:
            raise MismatchError(
                f"This model was made with a network of somebody's own, {made_with['name']!r}. "
                "Give it to `load` as backbone=Backbone.from_module(…)."
            )
        else:
            loaded = self._loaded_as(made_with["spec"])
        if made_with is not None and loaded.engine != self.engine:
            loaded = loaded.with_engine(self.engine)  # else what it learned could not be forgotten exactly
        if made_with and made_with.get("adapted") and not isinstance(loaded, AdaptedBackbone):
            state = {name: torch.from_numpy(array) for name, array in self._tuned.items()}
            loaded = reattached(loaded, made_with["adapted"], state)
        if made_with is not None and loaded.fingerprint != made_with["fingerprint"]:
            raise MismatchError(
                f"This model was made with the backbone {made_with['name']!r} of fingerprint "
                f"{made_with['fingerprint'][:12]}, but {loaded.name!r} has {loaded.fingerprint[:12]}: "
                "weights, layers or preprocessing differ. Use the very backbone that the model was made with."
            )
        return loaded

    @made_once
    def extractor_(self) -> FeatureSource:
        """The reader of images."""
        extractor = self._extractor()
        if self._made_with is not None and extractor.layers != self.statistics_.layers:
            raise storage.damaged(self._file, "its sums are of other layers than its backbone has")
        return extractor

    @made_once
    def classifier_(self) -> SumsClassifier:
        """The classifier on feature vectors, empty at first."""
        classifier = self._classifier()
        classifier.adopt(classifier.empty(self.extractor_.layers))
        return classifier

    # ---- the rest is private

    def _loaded_as(self, spec: dict[str, Any]) -> Backbone:
        """The backbone that the file names, if that may be followed."""
        if not self._allowed and (origin := elsewhere(spec)) is not None:
            raise ConsentError(
                f"The model '{self._file}' asks for {brief(origin)}, to be its backbone "
                f"{brief(repr(spec['name']))}. A stranger's file can ask for anything. If you know where it "
                "comes from, allow it with allow_backbone=True (--allow-backbone), or name your own copy "
                "with weights=… (--weights)."
            )
        return load_backbone(**spec, local_only=not self._allowed)

    def _reader(self, backbone: Backbone) -> Extractor:
        """A reader of this model's layers of a backbone."""
        return extractor_of(backbone, self._layers(), self.reading)

    def _adapt(
        self,
        images: Sequence[ImageSource],
        labels: Sequence[str],
        strict: bool,
        checkpoint: str | Path | None,
    ) -> None:
        """Tune the backbone to the first lesson; from then on it is frozen."""
        before = self.backbone_
        adapted = adapt(
            # An earlier first lesson may have got this far, but no further.
            before.base if isinstance(before, AdaptedBackbone) and before is not self.backbone else before,
            images,
            labels,
            self.session,
            strict=strict,
            checkpoint=checkpoint,
            workers=self.reading.get("workers"),
            progress=self.reading.get("progress"),
        )
        self.__dict__.pop("extractor_", None)
        self.__dict__["backbone_"] = adapted
        self._made_with = None

    def _visit(
        self,
        images: Iterable[ImageSource],
        labels: Iterable[str],
        strict: bool,
        title: str,
        take: Callable[[Rows, list[str]], None],
    ) -> tuple[Lesson, list[bytes]]:
        """Hand over the features and labels of all usable images, batch by batch."""
        images = _listed(images)
        labels = _checked_labels(labels, images)
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
            raise InputError(f"There is no usable image among the {len(images)} given.{first}")
        if bad:
            logger.warning("Skipped %d of %d images. The first: %s", len(bad), len(images), bad[0].reason)
        return Lesson(_lesson_id(title, seen), dict(sorted(counts.items())), bad), [d for _, d in seen]

    def _made_of(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a file says of the backbone, and holds of its adapter."""
        if self._made_with is not None:
            return self._made_with, self._tuned
        backbone = self.backbone_
        about = {
            "name": backbone.name,
            "spec": backbone.spec,
            "fingerprint": backbone.fingerprint,
            "depth": backbone.depth,
            "engine": backbone.engine,
        }
        if not isinstance(backbone, AdaptedBackbone):
            return about, {}
        tuned = {name: value.cpu().numpy() for name, value in backbone.state().items()}
        return {**about, "adapted": backbone.to_dict()}, tuned

    def _identity(self) -> _Identity:
        about, _ = self._made_of()
        return _Identity(about["fingerprint"], about["name"])

    def _require_same(self, other: ImageModel) -> None:
        """Refuse a model whose sums are of something else, saying what differs."""
        if not isinstance(other, ImageModel):
            raise InputError(
                f"Only models can be merged, not a {type(other).__name__}: LayUP.load(path) gives one."
            )
        for what, mine, others in (
            ("methods", self.method, other.method),
            ("backbones (or adapters)", self._identity(), other._identity()),
            ("numbers of layers (k)", len(self.statistics_.layers), len(other.statistics_.layers)),
            ("layers", list(self.statistics_.layers), list(other.statistics_.layers)),
        ):
            if mine != others:
                raise MismatchError(
                    f"These models have different {what}: {mine} and {others}. "
                    "Only models that read the same layers of the same backbone can be merged."
                )


def mixed_engines(one: ImageModel, other: ImageModel) -> str | None:
    """What to know of two merged models whose features were computed in different ways."""
    if one.engine == other.engine:
        return None
    return (
        f"These models were made with different engines, {one.engine!r} and {other.engine!r}: their features "
        "differ by rounding, a few millionths of the largest value, and what the merged model forgets of "
        f"the second is forgotten only as exactly as that, for it goes on with {one.engine!r}."
    )


@dataclass(frozen=True)
class _Identity:
    """A backbone, to compare by fingerprint and to call by name."""

    fingerprint: str
    name: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name} ({self.fingerprint[:12]})"


def _without(sums: Any, base: Any) -> Any:
    """Sums of two models less those of their base."""
    try:
        return sums - base
    except ForgetError as error:
        raise MismatchError(
            "Both models have forgotten some of the same images of the base, in different lessons: "
            "these would be taken out twice. Merge first, and forget then."
        ) from error


def _lesson_id(verb: str, seen: list[tuple[str, bytes]]) -> str:
    """What was done with which images under which labels, in whatever order."""
    content = blake2b(verb.encode(), digest_size=16)
    for label, digest in sorted(seen):
        content.update(f"\0{label}\0".encode() + digest)
    return content.hexdigest()


def _listed(images: Iterable[ImageSource]) -> Sequence[ImageSource]:
    """The images as a sequence; a lone path or picture is a common slip."""
    if is_encoded(images) or _is_picture(images) or not _gives_several(images):
        raise InputError(f"Give a list of images, not one {type(images).__name__}: [image].")
    _require_order(images, "images")
    # What is asked for by its place stays as it is: it may make images only when it is asked for them. Not so
    # a column of a table, whose numbers in brackets are names of rows.
    by_place = isinstance(images, Sequence) or len(getattr(images, "shape", ())) > 1
    return images if by_place or not hasattr(images, "__iter__") else list(images)  # type: ignore[return-value]


def _is_picture(images: object) -> bool:
    """Whether an array is one picture, and no batch of grey ones that happens to be so wide, or so many."""
    shape: tuple[int, ...] = getattr(images, "shape", ())
    return len(shape) == 2 or (len(shape) == 3 and shape[0 if hasattr(images, "detach") else 2] in (1, 3, 4))


def _gives_several(values: object) -> bool:
    """Whether something gives values one by one. An array without an axis does not, whatever it says."""
    able = hasattr(values, "__iter__") or hasattr(values, "__getitem__")
    return able and getattr(values, "shape", None) != ()


def _require_order(values: object, what: str) -> None:
    if isinstance(values, Mapping | set | frozenset):
        raise InputError(
            f"Give a list of {what}, no {type(values).__name__}: it is by their order that labels belong to "
            "images."
        )


def _checked_labels(labels: Iterable[str], images: Sequence[ImageSource]) -> list[str]:
    """The labels as a list, one for each image: of one spelling, as names of class folders are."""
    _require_order(labels, "labels")
    if isinstance(labels, str) or not _gives_several(labels):
        raise InputError(f"Give a list of labels, one for each image, not {labels!r}.")
    listed = list(labels)
    for label in listed:
        if not isinstance(label, str) or not label:
            raise InputError(f"Labels are texts that are not empty, but one is {label!r}. Use str(label).")
        if has_controls(label):
            raise InputError(f"Labels are texts without control characters, but one is {label!r}. Rename it.")
    require_one_label_each(images, listed)
    return [normalize("NFC", str(label)) for label in listed]
