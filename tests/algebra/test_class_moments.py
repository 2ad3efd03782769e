"""Second moments of each class; what holds for all sums is in test_laws and test_statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oracle
from layup.algebra.class_moments import ClassMoments
from layup.errors import ForgetError

DIM = 15


@pytest.fixture
def data() -> tuple[Any, Any]:
    return oracle.blobs(np.random.default_rng(3), [9, 1, 12], DIM, spread=2.0)


def taught(x: Any, y: Any, layers: Any = DIM, **more: Any) -> ClassMoments:
    sums = ClassMoments(layers, **more)
    sums.update(x, y)
    return sums


@pytest.mark.parametrize("precision", ["float64", "float32"])
def test_moments_are_sums_of_outer_products_per_class(data: Any, precision: str) -> None:
    x, y = data
    sums = ClassMoments(DIM, precision)
    for start in range(0, len(y), 5):
        sums.update(x[start : start + 5], y[start : start + 5])
    rough = {"rtol": 1e-3, "atol": 1e-3} if precision == "float32" else {"rtol": 1e-9, "atol": 1e-9}
    for label in sorted(set(y)):
        own = x[y == label]
        np.testing.assert_allclose(sums.class_gram(label), sum(np.outer(row, row) for row in own), **rough)
        np.testing.assert_allclose(sums.covariance(label), np.cov(own.T, bias=True), **rough)
        assert sums.class_trace(label) == pytest.approx((own**2).sum(), rel=1e-5)
    assert sums.values_per_class == DIM + DIM * (DIM + 1) // 2
    size = {"float64": 8, "float32": 4}[precision]
    assert sums.nbytes == size * 3 * sums.values_per_class + 3 * 8


def test_a_class_is_dropped_exactly_without_its_samples(data: Any) -> None:
    x, y = data
    left = taught(x, y).without_class("c00")
    never = taught(x[y != "c00"], y[y != "c00"])
    assert left.labels == never.labels
    for name, value in oracle.held(never).items():
        np.testing.assert_array_equal(getattr(left, name), value)


@pytest.mark.parametrize("change", ["other values", "other label", "last of a class"])
def test_what_was_never_learned_cannot_be_forgotten(data: Any, change: str) -> None:
    x, y = data
    sums = taught(x, y)
    before = {name: value.copy() for name, value in oracle.held(sums).items()}
    row, label = x[:1] * 3, y[:1]
    if change == "other label":
        row, label = x[y == "c00"][:1], np.array(["c02"])
    if change == "last of a class":
        label = np.array(["c01"])
    with pytest.raises(ForgetError, match=rf"of '{label[0]}' cannot be forgotten.*Nothing was changed"):
        sums.revert(row, label)
    for name, value in oracle.held(sums).items():
        np.testing.assert_array_equal(value, before[name])


FORGERIES: dict[str, Callable[[dict[str, Any], dict[str, Any]], object]] = {
    "missing": lambda header, arrays: arrays.pop("moments"),
    "too short": lambda header, arrays: arrays.update(moments=arrays["moments"][:, 1:]),
    "other precision": lambda header, arrays: arrays.update(moments=arrays["moments"].astype(np.float32)),
    "not finite": lambda header, arrays: arrays["moments"].__setitem__((0, 1), np.nan),
    "negative": lambda header, arrays: arrays["moments"].__imul__(-1),
    "of other samples": lambda header, arrays: arrays["moments"].__imul__(0.5),
    "too large": lambda header, arrays: arrays["moments"].__imul__(1e300),
    "of fewer samples": lambda header, arrays: header.update(counts=[1, 1, 1]),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_moments_that_no_samples_have_are_refused(data: Any, forgery: str) -> None:
    header, arrays = taught(*data).state()
    assert ClassMoments.from_state(header, arrays).total == 22
    FORGERIES[forgery](header, arrays)
    with pytest.raises(ValueError, match=r"moments|types|infinity"):
        ClassMoments.from_state(header, arrays)
