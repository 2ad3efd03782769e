"""One hash of all that was learned: models of the same photos have the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from layup.algebra import ClassSums


def state_hash(fingerprint: str, features: Mapping[str, Any], sums: ClassSums) -> str | None:
    """Hex SHA-256 of network, features and sums; None if the sums are not exact. Costs one pass over G.

    λ is not part of it, nor the log and the digests of photos: they tell how a model came about.

    >>> sums = ClassSums(1, steps={"features": 0})
    >>> sums.update([[3.0]], ["cat"])
    >>> state_hash("f", {}, sums)[:12], state_hash("f", {}, ClassSums(1))
    ('425e7f754f99', None)
    """
    if sums.steps is None:
        return None
    return hashlib.sha256(
        json.dumps([fingerprint, features, sums.digest()], sort_keys=True).encode()
    ).hexdigest()
