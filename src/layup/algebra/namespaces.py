"""Arrays of other libraries, on any device, where scikit-learn is told to dispatch on them.

Sums are NumPy's, in float64, whatever was learned from: so they can be added up, filed and reverted. Arrays
of others are brought there, and answers are taken back to their library and device. scikit-learn says which
libraries there are (`sklearn.config_context(array_api_dispatch=True)`); without its word, all is NumPy's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def to_numpy(given: Any) -> NDArray[Any]:
    """An array of any library and device, a list or a column of a table, where NumPy can see it.

    >>> to_numpy([1.0, 2.0]).dtype
    dtype('float64')
    """
    namespace = _namespace(given)
    if namespace is not None:
        from sklearn.utils._array_api import _convert_to_numpy

        given = _convert_to_numpy(given, xp=namespace[0])
    return np.asarray(given)


def like(answer: NDArray[Any], given: Any) -> Any:
    """An answer in the library, and on the device, of what was given. Words stay with NumPy.

    A device without float64 gets float32.
    """
    namespace = _namespace(given)
    if namespace is None or answer.dtype.kind not in "biuf":
        return answer
    from sklearn.utils._array_api import _max_precision_float_dtype

    xp, device = namespace
    if answer.dtype == np.float64 and _max_precision_float_dtype(xp, device) == xp.float32:
        answer = answer.astype(np.float32)
    return xp.asarray(answer, device=device)


def _namespace(given: Any) -> tuple[Any, Any] | None:
    """The library of an array, and its device; None for NumPy's own, or where nothing is dispatched."""
    if isinstance(given, np.ndarray):
        return None
    from sklearn import get_config

    if not get_config()["array_api_dispatch"]:
        return None
    from sklearn.utils._array_api import (  # it has no public name
        _is_numpy_namespace,
        get_namespace_and_device,
    )

    xp, _, device = get_namespace_and_device(given)
    return None if _is_numpy_namespace(xp) else (xp, device)
