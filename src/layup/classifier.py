"""Classifiers on feature vectors that keep sums and no samples, with scikit-learn's conventions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from layup.errors import InputError
from layup.registry import unknown_name
from layup.ridge import FIRST_LAMBDA, LambdaSearch, Solution, search_lambda
from layup.statistics import ClassSums, Floats, GramStatistics, united

LAMBDA_RULES = ("search", "gcv")
METRICS = ("cosine", "euclidean")


class SumsClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """What classifiers made of sums share: `fit` is one `partial_fit`; only seen classes are predicted."""

    sums: ClassVar[type[ClassSums]]
    statistics_: Any
    declared_: list[Any]

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from scratch."""
        for learned in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, learned)
        return self.partial_fit(X, y)

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: Sequence[Any] | None = None) -> Self:
        """Learn one more lesson. New labels may come at any time; `classes` may declare some ahead."""
        first = not hasattr(self, "statistics_")
        x, labels = validate_data(self, X, y, reset=first)
        with warnings.catch_warnings():  # a lesson of many classes with an image or two each is no regression
            warnings.simplefilter("ignore", UserWarning)
            check_classification_targets(labels)
        if first:
            self.adopt(self.sums(x.shape[1]))
        declared = united(self.declared_, [] if classes is None else np.asarray(classes).tolist())
        united(declared, labels.tolist())  # labels of another type must change nothing
        self._learn(x, labels)
        self.declared_ = declared
        return self

    def absorb(self, lesson: Any) -> None:
        """Learn a lesson from its sums alone, for classifiers that need nothing else of it."""
        self.adopt(self.statistics_ + lesson)

    def revert(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Un-learn samples, as if they had never come. λ stays as it is."""
        check_is_fitted(self)
        self.statistics_.revert(*validate_data(self, X, y, reset=False))
        self.adopt(self.statistics_)
        return self

    @property
    def needs_samples(self) -> bool:
        """Whether sums are not enough to learn a lesson: its samples are looked at once more."""
        return False

    def adopt(self, statistics: Any) -> None:
        """Go on from these sums, which belong to this classifier from now on."""
        self._check()
        self.statistics_ = statistics
        self.n_features_in_ = statistics.dim
        self.declared_ = getattr(self, "declared_", [])

    @property
    def classes_(self) -> NDArray[Any]:
        """All labels, seen or declared, sorted."""
        return np.array(united(self.statistics_.labels, self.declared_))

    def scores(self, X: ArrayLike) -> Floats:
        """One column for each of `classes_`, whatever their number; −∞ for a class not seen yet."""
        check_is_fitted(self)
        x = validate_data(self, X, reset=False)
        if not self.statistics_.labels:
            raise InputError("There is no class to predict: none was learned, or all were forgotten again.")
        classes = self.classes_
        scores = np.full((len(x), len(classes)), -np.inf)
        scores[:, np.isin(classes, self.statistics_.labels)] = self._score(x.astype(np.float64))
        return scores

    def decision_function(self, X: ArrayLike) -> Floats:
        """The scores; with two classes, as scikit-learn has it, the lead of the second over the first."""
        scores = self.scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label of the highest score; among equals the first in sorted order."""
        best = self.scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _check(self) -> None:
        """Refuse impossible parameters: scikit-learn has this done when learning, not in `__init__`."""
        raise NotImplementedError

    def _learn(self, x: NDArray[Any], labels: NDArray[Any]) -> None:
        # All at once, so that an interruption leaves the sums as they were.
        lesson = self.sums(self.statistics_.layers)
        lesson.update(x, labels)
        self.absorb(lesson)

    def _score(self, x: Floats) -> Floats:
        raise NotImplementedError


class RidgeClassifier(SumsClassifier):
    """LayUP's classifier: argmax over classes of Φᵀ (G + λI)⁻¹ c_y, in float64, without intercept.

    Args:
        lam: how λ is chosen. "search": the paper's four-fold search on each lesson alone; "gcv": from the
            sums by generalised cross-validation, so independent of the order of lessons; or a number ≥ 0,
            where 0 means the minimum-norm solution.
        balance: solve as if all classes had as many samples, from the same sums.

    Learning costs d² operations a sample, and four eigendecompositions a lesson where λ is searched; the
    first prediction after a lesson costs one solve (d³/3; about 9 d³ with "gcv").

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.1], [0.9, 0.0], [0.1, 1.0], [0.0, 0.8]])
    >>> model = RidgeClassifier(lam=0.1).partial_fit(X[:2], ["cat", "cat"])
    >>> model.partial_fit(X[2:], ["dog", "dog"]).predict([[0.8, 0.2], [0.1, 0.7]]).tolist()
    ['cat', 'dog']
    """

    sums = GramStatistics
    solution_: Solution

    def __init__(self, lam: float | str = "search", *, balance: bool = False) -> None:
        self.lam = lam
        self.balance = balance

    @property
    def lambda_(self) -> float:
        """The λ in force."""
        return self.solution_.lambda_

    @property
    def needs_samples(self) -> bool:
        """Whether λ is searched on the samples of each lesson."""
        return isinstance(self.lam, str) and self.lam == "search"

    def adopt(self, statistics: GramStatistics, lam: float | None = None) -> None:
        """Go on from these sums; `lam` is the λ that an earlier search found for them, if any."""
        super().adopt(statistics)
        if self.needs_samples:
            if lam is None:
                lam = self.lambda_ if hasattr(self, "solution_") else FIRST_LAMBDA
        else:
            lam = None if isinstance(self.lam, str) else float(self.lam)
        self.solution_ = Solution(statistics, lam, self.balance)

    def _check(self) -> None:
        require_rule(self.lam)

    def _learn(self, x: NDArray[Any], labels: NDArray[Any]) -> None:
        found: LambdaSearch | None = None
        if self.needs_samples:
            found = search_lambda(self.statistics_, x, labels, balance=self.balance)
        super()._learn(x, labels)
        if found:
            self.adopt(self.statistics_, found.best)

    def _score(self, x: Floats) -> Floats:
        return x @ self.solution_.weights


def require_rule(lam: float | str) -> None:
    """Refuse what is no way to choose λ."""
    if isinstance(lam, str):
        if lam not in LAMBDA_RULES:
            raise unknown_name("rule for λ", lam, [*LAMBDA_RULES, "a number ≥ 0"])
    elif not (isinstance(lam, Real) and 0 <= lam < np.inf):
        raise InputError(f"λ = {lam} cannot be used: give a number ≥ 0, 'search' or 'gcv'.")


class NearestMeanClassifier(SumsClassifier):
    """NMC: the class whose mean feature vector is nearest, by cosine or Euclidean distance (eq. 2).

    Keeps one sum and one count per class, nothing else.

    >>> model = NearestMeanClassifier().fit([[1.0, 0.1], [0.1, 1.0]], ["cat", "dog"])
    >>> model.predict([[0.9, 0.3]]).tolist()
    ['cat']
    """

    sums = ClassSums

    def __init__(self, metric: str = "cosine") -> None:
        self.metric = metric

    def _check(self) -> None:
        if self.metric not in METRICS:
            raise unknown_name("metric", self.metric, METRICS)

    def _score(self, x: Floats) -> Floats:
        means: Floats = self.statistics_.prototypes / self.statistics_.counts[:, None]
        if self.metric == "cosine":
            return np.asarray(cosine_similarity(x, means))
        return np.asarray(-euclidean_distances(x, means))
