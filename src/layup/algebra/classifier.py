"""Classifiers on feature vectors that keep sums, not samples, with scikit-learn's conventions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup.algebra import held_out_search, lambda_search
from layup.algebra.class_sums import ClassSums
from layup.algebra.estimator import Estimator, clone
from layup.algebra.folds import Folds, chunks
from layup.algebra.held_out import HeldOut, judged
from layup.algebra.held_out_search import search_lambda_by_error
from layup.algebra.labels import united
from layup.algebra.lambda_search import search_lambda
from layup.algebra.parameters import GRIDS, KINDS, METRICS, require_number, require_rule
from layup.algebra.recursive import RecursiveLeastSquares
from layup.algebra.ridge import FIRST_LAMBDA, Solution, eigenpairs, rounding_limit
from layup.algebra.samples import Floats, require_precision, require_summable
from layup.algebra.statistics import GramStatistics
from layup.algebra.whitening import Whitening
from layup.errors import InputError
from layup.registry import unknown_name
from layup.schema import TRUTH, Rule

MANY_FOLDS = 50
"""So many folds cost little more than one. A fold then has at most one of 50 samples of a class."""
FEW = 64
"""The largest batch (in samples) that is followed recursively: for more samples, one solve costs no more."""
TURNS = 2
"""How often a few samples must have outdated a solution before starting the recursion pays off."""


class SumsClassifier(Estimator):
    """Base of the classifiers made of sums: `fit` is one `partial_fit`; only seen classes are predicted.

    Inputs are checked by scikit-learn, which is imported when it is needed: `scores_of` does not.
    """

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
    def classes_(self) -> NDArray[Any]:
        """All labels, seen or declared, sorted."""
        return np.array(united(self.statistics_.labels, self.declared_))

    def scores(self, X: ArrayLike) -> Floats:
        """One column per class of `classes_`, also for two classes; −∞ for a class not seen yet."""
        return self.scores_of(self._validated(X))

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
        scores = self.scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label with the highest score; the first in sorted order if scores are equal."""
        best = self.scores(X).argmax(axis=1)
        return np.asarray(self.classes_[best])

    def _require_classes(self) -> None:
        """Refuse to predict where there is nothing to predict."""
        if not self.statistics_.labels:
            raise InputError("Cannot predict: no class was learned, or all classes were forgotten.")

    def _validated(self, *samples: ArrayLike, reset: bool = False) -> Any:
        """Features, and labels if given, as arrays; `reset` is for the first batch, which says what fits."""
        from sklearn.utils.validation import check_is_fitted, validate_data

        if not reset:
            check_is_fitted(self)
        return validate_data(self, *samples, reset=reset)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "statistics_")

    def check(self) -> None:
        """Refuse impossible parameters: in scikit-learn this is done when learning, not in `__init__`."""
        raise NotImplementedError

    def _learn(self, x: NDArray[Any], labels: NDArray[Any], batch: Any) -> None:
        # The search comes first, so that an interruption leaves the sums as they were.
        found = self._search(x, labels, batch) if self.needs_samples else None
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


class LambdaClassifier(SumsClassifier):
    """What classifiers share that solve G with a λ: how it is chosen, `balance`, `precision` and `grid`."""

    def __init__(
        self,
        lam: float | str = "search",
        *,
        balance: bool = False,
        precision: str = "float64",
        grid: str = "wide",
    ) -> None:
        self.lam = lam
        self.balance = balance
        self.precision = precision
        self.grid = grid

    @property
    def needs_samples(self) -> bool:
        """Whether λ is searched on the samples of each batch."""
        return isinstance(self.lam, str) and self.lam == "search"

    def empty(self, layers: Mapping[str, int] | int) -> GramStatistics:
        """Empty sums of these layers, in the chosen precision."""
        return GramStatistics(layers, self.precision)

    def search_values(self, width: int, classes: int, samples: int, known: int) -> int:
        """How many values the search for λ holds."""
        return lambda_search.search_values(width, classes, samples, known) if self.needs_samples else 0

    def check(self) -> None:
        """Refuse impossible parameters."""
        require_rule(self.lam)
        require_precision(self.precision)
        if self.grid not in GRIDS:
            raise unknown_name("grid of λ", self.grid, GRIDS)


class RidgeClassifier(LambdaClassifier):
    """LayUP's classifier: argmax over classes of Φᵀ (G + λI)⁻¹ c_y, without intercept.

    Args:
        lam: how λ is chosen. "search": the paper's four-fold search on each batch alone; "gcv": from the
            sums by generalised cross-validation, so independent of the order of batches; or a number ≥ 0,
            where 0 means the minimum-norm solution.
        balance: solve as if all classes had equally many samples, from the same sums.
        precision: of new sums and of solving with them. "float32" is there to compare with other code: it
            halves the memory, and ruins predictions where λ is small and samples are fewer than dimensions.
        grid: which values of λ are searched: "paper", its sixteen; or "wide", these and more beyond the best
            of them, where they end, or lie far apart (`search_lambda`).

    Learning costs d² operations per sample, and about two solves per batch where λ is searched, see
    `search_lambda`; the first prediction after a batch costs one solve (d³/3; about 9 d³ with "gcv"). Where
    batches of a few samples and predictions alternate, `RecursiveLeastSquares` takes over: then both cost
    2 d² per sample.

    >>> import numpy as np
    >>> X = np.array([[1.0, 0.1], [0.9, 0.0], [0.1, 1.0], [0.0, 0.8]])
    >>> model = RidgeClassifier(lam=0.1).partial_fit(X[:2], ["cat", "cat"])
    >>> model.partial_fit(X[2:], ["dog", "dog"]).predict([[0.8, 0.2], [0.1, 0.7]]).tolist()
    ['cat', 'dog']
    """

    kind = "ridge"
    solution_: Solution
    recursive_: RecursiveLeastSquares | None
    turns_: int

    @property
    def lambda_(self) -> float:
        """The λ in force."""
        return self.solution_.lambda_

    @property
    def ready(self) -> bool:
        """Whether W is known, or a recursion that follows it."""
        return self.solution_.solved or self.recursive_ is not None

    def absorb(self, batch: GramStatistics) -> None:
        """Learn a batch from its sums alone; a recursion, if there is one, follows a batch of few samples."""
        samples, recursion = batch.rows if batch.total <= FEW else None, self.recursive_
        turns = self.turns_ + self.solution_.solved
        super().absorb(batch)  # this drops the recursion: if interrupted below, it is half changed
        if samples is None:
            return
        self.turns_ = turns
        if recursion is not None:
            recursion.learn(*samples)
            self.recursive_ = recursion if recursion.sound else None

    def adopt(
        self, statistics: GramStatistics, lam: float | None = None, weights: Floats | None = None
    ) -> None:
        """Continue from these sums; `lam` is the λ that a search found for them, `weights` is W, if known."""
        super().adopt(statistics)
        if self.needs_samples:
            if lam is None:
                lam = self.lambda_ if hasattr(self, "solution_") else FIRST_LAMBDA
        else:
            lam = None if isinstance(self.lam, str) else float(self.lam)
        self.solution_ = Solution(statistics, lam, self.balance, weights)
        self.recursive_ = None
        self.turns_ = 0

    def right_without_fold(self, x: NDArray[Any], labels: NDArray[Any], folds: Folds) -> NDArray[np.bool_]:
        """As in the base class, with the λ in force."""
        fixed = self.with_parameters(lam=self.lambda_)
        return super(RidgeClassifier, fixed).right_without_fold(x, labels, folds)

    def held_out(self, x: NDArray[Any], labels: NDArray[Any]) -> HeldOut | None:
        """As in the base class; None where λ is so small that only rounding would be left."""
        lam, sums = self.lambda_, self.statistics_
        if sums.precision != "float64" or lam <= rounding_limit(sums.trace):
            return None
        whitening = Whitening(sums, np.ones(sums.dim), lam)
        # G = S_W + M N Mᵀ, so that W = R M (N⁻¹ + A)⁻¹; balanced, each class counts as much as the mean does.
        counts = sums.counts.astype(np.float64)
        sizes = np.full(len(counts), max(sums.total - 1, 1) / len(counts)) if self.balance else counts
        inverse = np.linalg.inv(np.diag(1 / sizes) + whitening.between)

        def left_out(rows: Floats, index: NDArray[np.int64]) -> tuple[Floats, None]:
            change = 0.0 if self.balance else 1 / (counts[index] - 1) - 1 / counts[index]
            return whitening.left_out(rows, index).solved(inverse, change), None

        return judged(sums, x, labels, left_out)

    def linear(self) -> tuple[Floats, Floats]:
        """W, and nothing that is added. Costs a solve, also where a recursion predicts without one."""
        weights = self.solution_.weights
        return weights, np.zeros(weights.shape[1])

    def adopt_merged(self, statistics: GramStatistics, other: Self) -> None:
        """Continue from sums that include another's. Of two searched λ, that of more samples is kept."""
        searched = [(one.statistics_.total, one.lambda_) for one in (self, other) if one.needs_samples]
        self.adopt(statistics, max(searched)[1] if searched else None)

    def _go_on_from(self, other: Self) -> None:
        self.adopt(other.statistics_, other.lambda_ if self.needs_samples else None)

    def chosen(self) -> dict[str, Any]:
        """λ, if it was chosen already."""
        return {"lambda": self.solution_.lam}

    def in_force(self) -> dict[str, Any]:
        """λ."""
        return {"lambda": self.lambda_}

    def _restore(self, sums: Any, chosen: Mapping[str, Any]) -> None:
        self.adopt(sums, None if chosen["lambda"] is None else float(chosen["lambda"]))

    def _search(
        self, x: NDArray[Any], labels: NDArray[Any], batch: GramStatistics
    ) -> tuple[float, Floats | None] | None:
        """λ for a batch that is about to be learned, if it can be searched on it; with W, if known."""
        found = search_lambda(
            self.statistics_, x, labels, balance=self.balance, batch=batch, widen=self.grid == "wide"
        )
        return None if found is None else (found.best, found.weights)

    def _score(self, x: Floats) -> Floats:
        if (
            self.recursive_ is None
            and self.turns_ >= TURNS
            and not self.solution_.solved
            and self._can_recurse
        ):
            self.recursive_ = RecursiveLeastSquares.begun(self.statistics_, self.lambda_)
            self.turns_ = 0  # if this attempt fails, another would fail too
        if self.recursive_ is not None:
            return self.recursive_.scores(x, balance=self.balance)
        return x @ self.solution_.weights

    @property
    def _can_recurse(self) -> bool:
        """Whether λ stays the same from one sample to the next, and rounding can be kept small."""
        return self.solution_.lam is not None and self.statistics_.precision == "float64"


class HeldOutRidgeClassifier(RidgeClassifier):
    """RanPAC's classifier: the same scores, but another search for λ, see `search_lambda_by_error`.

    Args:
        lam: "search" (on a fifth of each batch alone, by squared error), "gcv" or a number ≥ 0.
        seed: decides which fifth.
        precision: as in `RidgeClassifier`.

    >>> import numpy as np
    >>> X, y = np.eye(6)[[0, 1, 2] * 4], ["a", "b", "c"] * 4
    >>> model = HeldOutRidgeClassifier(seed=1).fit(X, y)
    >>> model.lambda_, model.predict(X[:3]).tolist()
    (1e-08, ['a', 'b', 'c'])
    """

    kind = "held-out ridge"

    def __init__(self, lam: float | str = "search", *, seed: int = 0, precision: str = "float64") -> None:
        super().__init__(lam, precision=precision)
        self.seed = seed

    def search_values(self, width: int, classes: int, samples: int, known: int) -> int:
        """How many values the search for λ holds."""
        return held_out_search.search_values(width, samples) if self.needs_samples else 0

    def _search(
        self, x: NDArray[Any], labels: NDArray[Any], batch: GramStatistics
    ) -> tuple[float, Floats | None] | None:
        found = search_lambda_by_error(x, labels, self.seed, precision=batch.precision)
        return None if found is None else (found.best, None)


def _plain(value: Any, allowed: Rule) -> Any:
    """A parameter as JSON has it, from any kind of number or boolean."""
    if allowed is TRUTH:
        return bool(value)
    if isinstance(value, tuple | list):
        return [_plain(each, allowed) for each in value]
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


class NearestMeanClassifier(SumsClassifier):
    """NMC: the class whose mean feature vector is nearest, by cosine or Euclidean distance (eq. 2).

    Keeps one sum and one count per class, nothing else.

    >>> model = NearestMeanClassifier().fit([[1.0, 0.1], [0.1, 1.0]], ["cat", "dog"])
    >>> model.predict([[0.9, 0.3]]).tolist()
    ['cat']
    """

    kind = "nearest mean"
    folds = MANY_FOLDS

    def __init__(self, metric: str = "cosine") -> None:
        self.metric = metric

    def check(self) -> None:
        """Refuse an unknown metric."""
        require_metric(self.metric)

    def _score(self, x: Floats) -> Floats:
        from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances

        means: Floats = self.statistics_.prototypes / self.statistics_.counts[:, None]
        if self.metric == "cosine":
            return np.asarray(cosine_similarity(x, means))
        return np.asarray(-euclidean_distances(x, means))


def require_metric(metric: str) -> None:
    """Refuse an unknown distance to a mean."""
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)


class DiscriminantClassifier(SumsClassifier):
    """Linear discriminant analysis from sums: Gaussian classes with their own means and one covariance.

    With μ_y = c_y / n_y and Σ = S_W / N + λI, where S_W = G − Σ c_y c_yᵀ / n_y is the scatter within classes,

        s_y = μ_yᵀ Σ⁻¹ Φ − ½ μ_yᵀ Σ⁻¹ μ_y + log(n_y / N),

    which is the logarithm of a class's posterior probability, up to a term that all classes share.

    Args:
        lam: a number ≥ 0, which is added to the variance in every direction; if it is less than the
            rounding of S_W, this is added instead.

    Learning costs d² operations per sample, the first prediction after a batch an eigendecomposition (9 d³).

    >>> model = DiscriminantClassifier(0.1).fit([[1.0, 0.1], [0.8, 0.0], [0.1, 1.0]], ["cat", "cat", "dog"])
    >>> model.predict([[0.9, 0.3], [0.2, 0.9]]).tolist()
    ['cat', 'dog']
    """

    kind = "discriminant"
    solution_: _Discriminant

    def __init__(self, lam: float = 1.0) -> None:
        self.lam = lam

    def adopt(self, statistics: GramStatistics) -> None:
        """Continue from these sums."""
        super().adopt(statistics)
        self.solution_ = _Discriminant(statistics, float(self.lam))

    def in_force(self) -> dict[str, Any]:
        """The λ that it was made with."""
        return {"lambda": float(self.lam)}

    def check(self) -> None:
        """Refuse what is not a λ."""
        require_number(self.lam)

    def linear(self) -> tuple[Floats, Floats]:
        """Σ⁻¹ μ, and the terms that do not depend on Φ."""
        return self.solution_.weights_and_offsets

    def _score(self, x: Floats) -> Floats:
        weights, offsets = self.linear()
        return x @ weights + offsets


@dataclass(frozen=True)
class _Discriminant:
    """The discriminants of sums: computed when first used, since learning alone needs no solving."""

    statistics: GramStatistics
    lam: float

    @cached_property
    def weights_and_offsets(self) -> tuple[Floats, Floats]:
        """Σ⁻¹ μ, d × C, and what is added to the scores, C."""
        sums = self.statistics
        means = sums.prototypes / sums.counts[:, None]
        variances, directions = eigenpairs(sums.within_class_scatter() / sums.total)
        rounding = sums.dim * np.finfo(np.float64).eps * np.trace(sums.gram) / sums.total
        least = max(self.lam, rounding) or 1.0  # any number will do where all features are zero
        variances = np.maximum(variances, 0.0) + least  # forgetting may leave some below zero
        weights = directions @ ((directions.T @ means.T) / variances[:, None])
        return weights, np.log(sums.counts / sums.total) - (means * weights.T).sum(axis=1) / 2
