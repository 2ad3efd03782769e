"""What running a command gives."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    code: int
    out: str
    err: str
