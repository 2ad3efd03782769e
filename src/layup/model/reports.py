"""What learning, forgetting and syncing did."""

from __future__ import annotations

from dataclasses import dataclass, field

from layup.features import BadImage
from layup.model.plan import Conflict


@dataclass(frozen=True)
class BatchReport:
    """What one `learn`, `forget` or `sync` did: how many images per class, and what it left out."""

    learned: dict[str, int] = field(default_factory=dict)
    forgotten: dict[str, int] = field(default_factory=dict)
    moved: int = 0
    """How many of these only changed their class."""
    known: int = 0
    """How many images were known already, or given twice."""
    conflicts: list[Conflict] = field(default_factory=list)
    """Images that are known as another class: they were not learned."""
    missing: list[str] = field(default_factory=list)
    """Photos that should be forgotten, but are neither at hand nor in the cache."""
    kept: int = 0
    """Photos that are no longer given, but stay: images that cannot be read may be these."""
    bad: list[BadImage] = field(default_factory=list)
    """Images that cannot be used."""
    exact: bool = True
    """Whether the sums are now as if what was forgotten had never been learned."""

    @property
    def changed(self) -> bool:
        """Whether anything was learned or forgotten."""
        return bool(self.learned or self.forgotten)
