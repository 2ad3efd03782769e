"""What scikit-learn asks of an estimator, without importing it, which takes half as long as PyTorch.

scikit-learn goes by what an estimator has, not by its base class: pipelines, searches and `clone` take these.
Its own checks run in the tests.
"""

from __future__ import annotations

from copy import deepcopy
from inspect import signature
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup.registry import unknown_name


class Estimator:
    """A classifier whose parameters are the arguments of `__init__`, kept in attributes of the same names.

    >>> class Constant(Estimator):
    ...     def __init__(self, value=0, *, seed=0):
    ...         self.value, self.seed = value, seed
    >>> Constant(3).set_params(seed=1).get_params()
    {'seed': 1, 'value': 3}
    >>> clone(Constant(3))
    Constant(value=3)
    """

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name; `deep` changes nothing, as none of them is an estimator."""
        return {name: getattr(self, name) for name in sorted(signature(type(self)).parameters)}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; refuses names that it does not have, before any is changed."""
        known = self.get_params()
        for name in parameters:
            if name not in known:
                raise unknown_name(f"parameter of a {type(self).__name__}", name, known)
        for name, value in parameters.items():
            setattr(self, name, value)
        return self

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: NDArray[Any] | None = None) -> float:
        """The accuracy: the share of samples, by weight if given, whose label is predicted."""
        predict: Any = getattr(self, "predict")  # noqa: B009 - of the subclass
        return float(np.average(predict(X) == np.asarray(y), weights=sample_weight))

    def __repr__(self) -> str:
        usual = {name: each.default for name, each in signature(type(self)).parameters.items()}
        given = self.get_params().items()
        changed = [f"{name}={value!r}" for name, value in given if repr(value) != repr(usual[name])]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks a classifier: the same as of its own."""
        from sklearn.base import BaseEstimator, ClassifierMixin

        class Plain(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
            pass

        return Plain().__sklearn_tags__()


T = TypeVar("T", bound=Estimator)


def clone(estimator: T) -> T:
    """An estimator with the same parameters that has learned nothing; parameters are copied."""
    return type(estimator)(**deepcopy(estimator.get_params()))
