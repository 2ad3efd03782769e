"""What scikit-learn asks of an estimator, without importing it, which takes half as long as PyTorch.

scikit-learn goes by what an estimator has, not by its base class: pipelines, searches and `clone` take these.
What only scikit-learn or a notebook asks for (tags, requests for metadata, the diagram) imports it then. Its
own checks run in the tests.
"""

from __future__ import annotations

from copy import deepcopy
from inspect import signature
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from layup.algebra.namespaces import to_numpy
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

    metadata: ClassVar[dict[str, tuple[str, ...]]] = {"score": ("sample_weight",)}
    """By method, what else it takes besides samples and labels: see `get_metadata_routing`."""

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
        right = to_numpy(predict(X)) == to_numpy(y)
        return float(np.average(right, weights=None if sample_weight is None else to_numpy(sample_weight)))

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Ask those that evaluate it for `sample_weight`, as any estimator of scikit-learn can."""
        return self._request("score", requests)

    def get_metadata_routing(self) -> Any:
        """Which metadata it asks for, as scikit-learn has it: none, until `set_score_request` or another."""
        if hasattr(self, "_metadata_request"):
            return deepcopy(self._metadata_request)
        from sklearn.utils.metadata_routing import MetadataRequest

        wanted = MetadataRequest(owner=type(self).__name__)
        for method, names in self.metadata.items():
            for name in names:
                getattr(wanted, method).add_request(param=name, alias=None)
        return wanted

    def __repr__(self) -> str:
        usual = {name: each.default for name, each in signature(type(self)).parameters.items()}
        given = self.get_params().items()
        changed = [f"{name}={value!r}" for name, value in given if repr(value) != repr(usual[name])]
        return f"{type(self).__name__}({', '.join(changed)})"

    def _repr_html_(self) -> str | None:
        """What a notebook shows: scikit-learn's diagram, unless it is configured to show text."""
        from sklearn import get_config
        from sklearn.utils import estimator_html_repr

        return str(estimator_html_repr(self)) if get_config()["display"] == "diagram" else None

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn asks a classifier: the same as of its own, with arrays of any library."""
        from sklearn.base import BaseEstimator, ClassifierMixin

        class Plain(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
            pass

        tags = Plain().__sklearn_tags__()
        tags.array_api_support = True
        return tags

    def __sklearn_clone__(self) -> Self:
        return clone(self)

    def _request(self, method: str, requests: dict[str, bool | str | None]) -> Self:
        """Remember what a method asks for: yes, no, not known (None), or under another name."""
        wanted = self.get_metadata_routing()
        for name, alias in requests.items():
            if name not in self.metadata[method]:
                raise unknown_name(f"metadata of {method}", name, self.metadata[method])
            getattr(wanted, method).add_request(param=name, alias=alias)
        self._metadata_request = wanted  # by this name, earlier versions of scikit-learn find it
        return self


T = TypeVar("T", bound=Estimator)


def clone(estimator: T) -> T:
    """An estimator with the same parameters that has learned nothing; parameters are copied.

    It also asks for the same metadata.
    """
    other = type(estimator)(**deepcopy(estimator.get_params()))
    if hasattr(estimator, "_metadata_request"):
        other._metadata_request = estimator.get_metadata_routing()
    return other
