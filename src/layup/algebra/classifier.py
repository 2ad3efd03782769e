"""Classifiers on feature vectors that keep sums, not samples, with scikit-learn's conventions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup.algebra.class_sums import ClassSums
from layup.algebra.estimator import Estimator, clone
from layup.algebra.folds import Folds, chunks
from layup.algebra.held_out import HeldOut
from layup.algebra.labels import united
from layup.algebra.lambda_grid import Grid
from layup.algebra.namespaces import like, to_numpy
from layup.algebra.parameters import KINDS
from layup.algebra.readout import Readout, spans
from layup.algebra.samples import Floats, require_summable
from layup.errors import InputError
from layup.registry import unknown_name
from layup.schema import TRUTH, Rule


class SumsClassifier(Estimator):
    """Base of the classifiers made of sums: `fit` is one `partial_fit`; only seen classes are predicted.

    Inputs are checked by scikit-learn, which is imported when it is needed: `scores_of` does not. They may be
    tables, and where scikit-learn dispatches on arrays, tensors on any device: see `namespaces`.
    """

    metadata: ClassVar = {**Estimator.metadata, "partial_fit": ("classes",)}
    kind: ClassVar[str]
    """Its entry in `KINDS`, and what a file calls it."""
    several: ClassVar[bool] = False
    """Whether it predicts several labels per sample, one per block, and so cannot `predict` one."""
    folds: ClassVar[int] = 4
    """How many folds are held out to say how good it is, where each costs a solve."""
    statistics_: Any
    declared_: list[Any]

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from scratch."""
        for learned in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, learned)
        return self.partial_fit(X, y)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: Sequence[Any] | None = None) -> Self:
        """Learn one more batch. New labels may come at any time; `classes` may declare some in advance."""
        first = not hasattr(self, "statistics_")
        x, labels = self._validated(X, y, reset=first)
        from sklearn.utils.multiclass import check_classification_targets

        with warnings.catch_warnings():  # many classes of one or two images are not a regression
            warnings.simplefilter("ignore", UserWarning)
            check_classification_targets(labels)
        return self.learn_rows(x, labels, classes)

    def set_partial_fit_request(self, **requests: bool | str | None) -> Self:
        """Ask those that call `partial_fit` for `classes`, as any estimator of scikit-learn can."""
        return self._request("partial_fit", requests)

    def learn_rows(self, x: NDArray[Any], labels: NDArray[Any], classes: Sequence[Any] | None = None) -> Self:
        """As `partial_fit`, for features and labels that are arrays: scikit-learn is not imported."""
        first = not hasattr(self, "statistics_")
        self.check()
        # A batch that cannot be learned must change nothing, not even the number of features.
        batch = self.empty(x.shape[1]) if first else self.statistics_.empty()
        batch.update(x, labels)
        declared = united(
            [] if first else self.declared_, [] if classes is None else np.asarray(classes).tolist()
        )
        united(declared, labels.tolist())
        if first:
            self.adopt(batch.empty())
        self._learn(x, labels, batch)
        self.declared_ = declared
        return self

    def learn_sums(self, batch: Any, x: NDArray[Any], labels: NDArray[Any], lam: float | None = None) -> None:
        """Learn a batch from its sums, and from samples of it that were `drawn`, if those `needs_few`.

        lam: what a search on all samples has found, where they are: see `fold_grid`.
        """
        self.check()
        self._learn(x, labels, batch, None if lam is None else (lam,))

    def absorb(self, batch: Any) -> None:
        """Learn a batch from its sums alone, for classifiers that do not need its samples."""
        # First, so that an interruption between the two leaves no solution of other sums.
        self.adopt(self.statistics_)
        self.statistics_.add(batch)

    def revert(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Un-learn samples, as if they had never been learned. λ stays as it is."""
        x, labels = self._validated(X, y)
        self.statistics_.revert(x, labels)
        self.adopt(self.statistics_)
        return self

    @property
    def needs_samples(self) -> bool:
        """Whether learning a batch needs its samples a second time, not only its sums."""
        return False

    @property
    def needs_few(self) -> bool:
        """Whether samples that are `drawn` of a batch are enough for that."""
        return False

    @property
    def fold_grid(self) -> Grid | None:
        """The λ that it searches on all samples of a batch, if it can be told what was found: see `rests`."""
        return None

    @property
    def ready(self) -> bool:
        """Whether the next prediction needs no solving."""
        return False

    def empty(self, layers: Mapping[str, int] | int) -> Any:
        """Empty sums of these layers."""
        return KINDS[self.kind].sums(layers)

    def adopt(self, statistics: Any) -> None:
        """Continue from these sums, which belong to this classifier from now on."""
        self.check()
        self.statistics_ = statistics
        self.n_features_in_ = statistics.dim
        self.declared_ = getattr(self, "declared_", [])

    def adopt_merged(self, statistics: Any, other: Self) -> None:
        """Continue from sums that include those of another classifier of the same kind."""
        self.adopt(statistics)

    def with_parameters(self, **parameters: Any) -> Self:
        """A classifier with other parameters that continues from the same sums."""
        for name in parameters:
            if name not in self.get_params():
                raise unknown_name(f"parameter of a {self.kind} classifier", name, self.get_params())
        changed: Self = clone(self).set_params(**parameters)
        if getattr(changed, "precision", self.statistics_.precision) != self.statistics_.precision:
            raise InputError(f"These sums are kept in {self.statistics_.precision}: that cannot be changed.")
        changed._go_on_from(self)
        return changed

    def with_sums(self, statistics: Any) -> Self:
        """A classifier of the same parameters that continues from other sums, with the λ chosen for these.

        By the rule "gcv", λ is a function of the sums and follows them.
        """
        return self.from_state(self.state()[0], statistics)

    def right_without_fold(self, x: NDArray[Any], labels: NDArray[Any], folds: Folds) -> NDArray[np.bool_]:
        """Which samples, of those that were learned, are predicted right without the fold that they are in.

        Costs a solve per fold. Samples in no fold are not predicted.
        """
        right = np.zeros(len(labels), bool)
        for rows in folds:
            fold = self.statistics_.empty()
            for chunk in chunks(rows):
                fold.update(x[chunk], labels[chunk])
            rest = self.with_sums(self.statistics_.without(fold))
            for chunk in chunks(rows):
                right[chunk] = rest.predict(x[chunk]) == labels[chunk]
        return right

    def held_out(self, x: NDArray[Any], labels: NDArray[Any]) -> HeldOut | None:
        """Every sample, of those that were learned, as all the others see it; None if it cannot be told.

        Exact leave-one-out, with λ as it is. Costs a solve, and d² operations per sample.
        """
        return None

    @property
    def steepness(self) -> float | None:
        """What makes scores probabilities by a softmax, by rule of thumb; None if there is no such rule."""
        return None

    def familiarity(self, x: NDArray[Any]) -> Floats | None:
        """How like anything learned each row is; None if it cannot be told."""
        return None

    def linear(self) -> tuple[Floats, Floats] | None:
        """W (d × C) and what is added, C, if the scores of x are x W and that; None if they are not."""
        return None

    def linear_readout(self) -> Readout | None:
        """Its weights, and what they say of the average sample, layer by layer; None if it is not linear."""
        self._require_classes()
        linear, sums = self.linear(), self.statistics_
        if linear is None:
            return None
        weights, offsets = linear
        middle = sums.means.mean(axis=0)
        average = np.array([middle[span] @ weights[span] for span in spans(sums.layers).values()])
        return Readout(
            self.kind,
            list(sums.labels),
            dict(sums.layers),
            weights,
            offsets,
            average,
            steepness=self.steepness,
        )

    def readout(self) -> Readout | None:
        """All that predicting takes, without the sums; None if that would be as much as the sums."""
        return self.linear_readout()

    def _go_on_from(self, other: Self) -> None:
        self.adopt(other.statistics_)

    # ---- what it is, as plain values

    def parameters(self) -> dict[str, Any]:
        """What it was made with, as JSON."""
        allowed = KINDS[self.kind].parameters
        return {name: _plain(value, allowed[name]) for name, value in self.get_params(deep=False).items()}

    def chosen(self) -> dict[str, Any]:
        """What it chose while it learned, in addition to the sums, as JSON."""
        return {}

    def in_force(self) -> dict[str, Any]:
        """What predictions depend on in addition to the sums, as JSON: λ, if it has one."""
        return {}

    def state(self) -> tuple[dict[str, Any], ClassSums]:
        """Its whole state: plain values, and the sums."""
        return {
            "classifier": {"kind": self.kind, **self.parameters()},
            "chosen": self.chosen(),
        }, self.statistics_

    @classmethod
    def from_state(cls, header: Mapping[str, Any], sums: ClassSums) -> Self:
        """The inverse of `state`. The header must have been checked (`KINDS` says how)."""
        made_with = {name: value for name, value in header["classifier"].items() if name != "kind"}
        classifier = cls(**made_with)
        classifier._restore(sums, header["chosen"])
        return classifier

    def _restore(self, sums: Any, chosen: Mapping[str, Any]) -> None:
        self.adopt(sums)

    # ---- what it costs

    def solved_width(self, widths: Sequence[int]) -> int:
        """The side of the largest matrix that is solved, for layers of these widths."""
        return sum(widths)

    def search_values(self, width: int, classes: int, samples: int, known: int) -> int:
        """How many values a search on `samples` holds, with `known` samples in the sums; 0 without search."""
        return 0

    # ---- predicting

    @property
    def labels(self) -> list[Any]:
        """The labels seen, sorted."""
        labels: list[Any] = self.statistics_.labels
        return labels

    @property
    def classes_(self) -> NDArray[Any]:
        """All labels, seen or declared, sorted."""
        return np.array(united(self.statistics_.labels, self.declared_))

    def scores(self, X: ArrayLike) -> Floats:
        """One column per class of `classes_`, also for two classes; −∞ for a class not seen yet."""
        return self._answered(X, lambda scores: scores)

    def scores_of(self, x: NDArray[Any]) -> Floats:
        """The scores of finite features of the right width, which are not checked again."""
        self._require_classes()
        require_summable(x, self.statistics_.precision)
        classes = self.classes_
        scores = np.full((len(x), len(classes)), -np.inf)
        scores[:, np.isin(classes, self.statistics_.labels)] = self._score(x.astype(np.float64))
        return scores

    def decision_function(self, X: ArrayLike) -> Floats:
        """The scores; with two classes, as in scikit-learn, the second score minus the first."""
        return self._answered(
            X, lambda scores: scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores
        )

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label with the highest score; the first in sorted order if scores are equal."""
        return self._answered(X, lambda scores: np.asarray(self.classes_[scores.argmax(axis=1)]))

    def _answered(self, X: ArrayLike, answer: Callable[[Floats], NDArray[Any]]) -> NDArray[Any]:
        """What follows from the scores of samples, where these are."""
        found: NDArray[Any] = like(answer(self.scores_of(self._validated(X))), X)
        return found

    def _require_classes(self) -> None:
        """Refuse to predict where there is nothing to predict."""
        if not self.statistics_.labels:
            raise InputError("Cannot predict: no class was learned, or all classes were forgotten.")

    def _validated(self, *samples: ArrayLike, reset: bool = False) -> Any:
        """Features, and labels if given, in NumPy; `reset` is for the first batch, which says what fits."""
        from sklearn.utils.validation import check_is_fitted, validate_data

        if not reset:
            check_is_fitted(self)
        checked = validate_data(self, *samples, reset=reset)
        return to_numpy(checked) if len(samples) == 1 else [*map(to_numpy, checked)]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "statistics_")

    def check(self) -> None:
        """Refuse impossible parameters: in scikit-learn this is done when learning, not in `__init__`."""
        raise NotImplementedError

    def _learn(
        self, x: NDArray[Any], labels: NDArray[Any], batch: Any, found: tuple[Any, ...] | None = None
    ) -> None:
        # The search comes first, so that an interruption leaves the sums as they were.
        if found is None and self.needs_samples:
            found = self._search(x, labels, batch)
        self.absorb(batch)
        if found is not None:
            self.adopt(self.statistics_, *found)

    def _search(self, x: NDArray[Any], labels: NDArray[Any], batch: Any) -> tuple[Any, ...] | None:
        """Search on a batch that is about to be learned: what `adopt` takes in addition to the sums.

        None if it is too small to be searched. Only called if `needs_samples`.
        """
        raise NotImplementedError

    def _score(self, x: Floats) -> Floats:
        raise NotImplementedError


def _plain(value: Any, allowed: Rule) -> Any:
    """A parameter as JSON has it, from any kind of number or boolean."""
    if allowed is TRUTH:
        return bool(value)
    if isinstance(value, tuple | list):
        return [_plain(each, allowed) for each in value]
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value
