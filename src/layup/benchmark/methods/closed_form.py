"""What closed-form methods share: each is a table entry that says which features go to which classifier."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from layup import storage
from layup.adapters import AdaptedBackbone
from layup.algebra import SumsClassifier, require_rule
from layup.benchmark.methods.learner import ONLY, Learner, Method, Report, Setup
from layup.benchmark.run_names import without_seeds
from layup.errors import InputError, MismatchError
from layup.features import FeatureSpec
from layup.images import ImageSource
from layup.memory import Forecast
from layup.model import ImageModel

GIVEN = ("seed", "grid")
"""Parameters of classifiers that are no options here, but the same for every method of a run."""


class ModelLearner(Learner):
    """A model as a learner. A bad image ends the run: skipping it would be another experiment."""

    def __init__(self, model: ImageModel, checkpoint: Path | None = None) -> None:
        self.model = model
        self.checkpoint = checkpoint

    def learn(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Learn a batch. The first one may adapt the backbone, which other runs may wait for."""
        options: dict[str, Any] = {"strict": True, "again": True}
        if self.checkpoint is None or self.model.log:
            self.model.learn(images, labels, **options)
        else:
            with storage.locked(self.checkpoint):
                self.model.learn(images, labels, **options, checkpoint=self.checkpoint)
        # The same run leaves the same file, whenever it is made.
        *_, last = log = self.model.log
        log[-1] = replace(last, date="", id=f"{len(log):032x}")

    def predict(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The label of every image."""
        return {ONLY: self.model.predict(images).tolist()}

    def reports(self) -> dict[str, Report]:
        """λ, if there is one, how the backbone was adapted, and the size of all that is kept."""
        size = self.model.statistics_.nbytes + self.tuned_bytes
        return {ONLY: Report({**self.model.classifier_.in_force(), **self.adaptation()}, size)}

    def adaptation(self) -> dict[str, Any]:
        """After the first batch, how it adapted the backbone, if it did: every epoch, and which was kept.

        Also whether the adapter was tried on images held out, and with which accuracies.
        """
        backbone, trial = self.model.backbone_, self.model.trial
        if len(self.model.log) > 1:
            return {}
        found: dict[str, Any] = {} if trial is None else {"trial": asdict(trial)}
        if isinstance(backbone, AdaptedBackbone):
            course = {name: backbone.record[name] for name in ("epochs", "kept")}
            found["adaptation"] = {"tuned_values": backbone.tuned_values, **course}
        return found

    @property
    def tuned_bytes(self) -> int:
        """Bytes of what the first session tuned."""
        backbone = self.model.backbone_
        return 4 * backbone.tuned_values if isinstance(backbone, AdaptedBackbone) else 0

    def save(self, path: Path) -> None:
        """Write the model."""
        self.model.save(path)


@dataclass(frozen=True)
class ClosedFormMethod(Method):
    """A method that is a model of images: features that go to a classifier, made with its options."""

    features: ClassVar[Callable[[Any, Setup], FeatureSpec]]
    classifier: ClassVar[type[SumsClassifier]]
    learner: ClassVar[type[ModelLearner]] = ModelLearner
    stream_lam: ClassVar[float | str] = "gcv"
    """The usual λ on a stream, which cannot be searched."""
    untuned: ClassVar[str | None] = None
    """For a method that needs a first session, the method that it would be without one."""

    if TYPE_CHECKING:

        def __init__(self, *options: Any, **named: Any) -> None: ...

    def resolved(self, setup: Setup) -> Self:
        """With every open choice made: the number of layers, and the rule for λ."""
        if self.untuned is not None:
            _require_session(self.name, self.untuned, setup)
        chosen: dict[str, Any] = {}
        for option in ("k", "layer"):
            if hasattr(self, option):
                chosen[option] = resolved_depth(getattr(self, option), setup)
        if _defaults(self.classifier).get("lam") == "search":
            chosen["lam"] = resolved_rule(getattr(self, "lam", None), setup.setting, self.stream_lam)
        method = replace(self, **chosen)
        type(self).features(method, setup).resolved(setup.backbone)
        method.blank_classifier(setup).check()
        return method

    def begin(self, setup: Setup) -> Learner:
        """A learner that knows nothing yet."""
        return self.learner(self._blank(setup), setup.checkpoint)

    def forecast(self, setup: Setup, task: int, images: int, classes: int) -> Forecast | None:
        """The memory that the last and largest batch of so many images and classes in all will take."""
        return self._blank(setup).forecast(task, classes, known=images - task)

    def resume(self, setup: Setup, path: Path) -> Learner:
        """The learner that was saved."""
        blank = self._blank(setup)
        model = ImageModel.load(path, backbone=setup.backbone, **setup.reading)
        mine, filed = (
            (each.classifier.kind, without_seeds(each.features.resolved(setup.backbone).to_dict()))
            for each in (blank, model)
        )
        if mine != filed:
            raise MismatchError(f"'{path}' holds another model than that of {self.name!r}: {filed}.")
        return self.learner(model, setup.checkpoint)

    def blank_classifier(self, setup: Setup) -> SumsClassifier:
        """An empty classifier with those of these options that are its own, and what is the run's."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        given = {**{name: getattr(setup, name) for name in GIVEN}, **own}
        return self.classifier(**{name: given[name] for name in _defaults(self.classifier) if name in given})

    def _blank(self, setup: Setup) -> ImageModel:
        """A model that knows nothing yet."""
        method = self.resolved(setup)
        features, classifier = type(self).features(method, setup), method.blank_classifier(setup)
        return ImageModel(
            features, classifier, setup.session, backbone=setup.backbone, anonymous=True, **setup.reading
        )


def closed_form(
    name: str,
    explanation: str,
    *,
    features: Callable[[Any, Setup], FeatureSpec],
    classifier: type[SumsClassifier],
    options: dict[str, Any] | None = None,
    without: Sequence[str] = (),
    base: type[ClosedFormMethod] = ClosedFormMethod,
    **facts: Any,
) -> type[ClosedFormMethod]:
    """A method, by a table entry.

    explanation: the formula, what it keeps, costs and needs, and every option.
    features: the features of a method with these options in a setup.
    classifier: all its parameters are options as well, except `GIVEN`, which are the run's.
    options: more options with their defaults, or other defaults; those of `without` are left out.
    facts: other class variables of a `Method`: `adapts`, `settings`, …

    >>> from layup.algebra import NearestMeanClassifier
    >>> from layup.features import LastLayers
    >>> two = closed_form(
    ...     "two",
    ...     "The nearest mean of the last two layers.",
    ...     features=lambda method, setup: LastLayers(2),
    ...     classifier=NearestMeanClassifier,
    ... )
    >>> two.with_options({"metric": "euclidean"})
    two(metric='euclidean')
    """
    own = {
        option: None if default == "search" else default for option, default in _defaults(classifier).items()
    }
    every = {**(options or {}), **{option: own[option] for option in own if option not in (options or {})}}
    names = [option for option in every if option not in (*GIVEN, *without)]
    namespace = {
        "__doc__": inspect.cleandoc(explanation),
        "name": name,
        "features": staticmethod(features),
        "classifier": classifier,
        **facts,
    }
    made = make_dataclass(
        name,
        [(option, Any, field(default=every[option])) for option in names],
        bases=(base,),
        namespace=namespace,
        frozen=True,
    )
    made.__module__ = __name__
    return made


def _defaults(classifier: type[SumsClassifier]) -> dict[str, Any]:
    """The defaults of a classifier's parameters."""
    return {name: each.default for name, each in inspect.signature(classifier).parameters.items()}


def resolved_depth(k: int | None, setup: Setup) -> int:
    """How many layers: k, if the backbone has so many, or the backbone's default."""
    return len(setup.backbone.last(setup.backbone.default_k if k is None else k))


def resolved_rule(lam: float | str | None, setting: str, on_a_stream: float | str = "gcv") -> float | str:
    """The rule for λ: the given one, or the usual one of the setting.

    >>> resolved_rule(None, "cil"), resolved_rule(None, "ocl"), resolved_rule(1.0, "ocl")
    ('search', 'gcv', 1.0)
    """
    if setting == "ocl" and lam == "search":
        raise InputError(
            "λ cannot be searched in the online setting: that takes several passes over a task, and a stream "
            "has only one. Use gcv, or a number such as 1 (the paper uses 0 and 1)."
        )
    usual = on_a_stream if setting == "ocl" else "search"
    rule = usual if lam is None else lam
    require_rule(rule)
    return rule


def _require_session(method: str, without: str, setup: Setup) -> None:
    """Refuse a setup that has no first session: there would be only one network."""
    if setup.session is None:
        stream = ", which a stream does not allow" if setup.setting == "ocl" else ""
        raise InputError(
            f"The method {method!r} reads a network before and after a first session{stream}, and here there "
            f"is no first session: without a tuned network it would be {without!r}. Let the first task adapt "
            f"the network, in the setting 'cil' or 'dil', or use {without!r}."
        )
