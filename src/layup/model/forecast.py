"""How much memory a batch will take."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from layup.algebra import (
    GramStatistics,
    SumsClassifier,
    forecast_class_sums,
    forecast_learning,
    root_values,
)
from layup.features import FeatureSpec, LastLayers
from layup.memory import Forecast


def forecast_batch(
    features: FeatureSpec,
    classifier: SumsClassifier,
    images: int,
    classes: int,
    known: int | None = None,
    *,
    per_class: bool = False,
) -> Forecast:
    """The memory that a batch of `images` images will take, if the model then knows `classes` classes.

    known: how many images the model has learned by then; by default, as many as now.
    per_class: whether it keeps a root of the Gram matrix of each class.
    """
    sums: Any = classifier.statistics_
    known = sums.total if known is None else known

    def with_roots(other: Forecast, dim: int) -> Forecast:
        taken = {"roots per class": _root_bytes(dim, classes, images, known)} if per_class else {}
        return Forecast({**other.parts, **taken})

    if not isinstance(sums, GramStatistics):
        plain = forecast_class_sums(sums.dim, classes, images, sums.values_per_class)
        return with_roots(plain, sums.dim)
    widths = list(sums.layers.values())

    def of(
        k: int = len(widths),
        searched: bool = True,
        precision: str = sums.precision,
        rooted: bool = per_class,
    ) -> Forecast:
        kept = widths[-k:]
        solved = classifier.solved_width(kept)
        search = classifier.search_values(solved, classes, images, known) if searched else 0
        plain = forecast_learning(
            sum(kept), classes, images, search=search, precision=precision, solved=solved
        )
        return with_roots(plain, sum(kept)) if rooted else plain

    found = of()
    if found.fits:
        return found
    instead: dict[str, Forecast] = {}
    if isinstance(features.plain, LastLayers):
        fewer = ((k, of(k=k)) for k in range(len(widths) - 1, 0, -1))
        instead |= next(({f"k = {k}": other} for k, other in fewer if other.fits), {})
    if classifier.needs_samples:
        searched = "lam" if "lam" in classifier.get_params() else "strength"
        instead[f"{searched} = 1"] = of(searched=False)
    if "precision" in classifier.get_params():
        instead["precision = float32"] = of(precision="float32")
    if per_class:
        instead["per_class = False"] = of(rooted=False)
    return replace(found, instead=instead)


def _root_bytes(dim: int, classes: int, images: int, known: int) -> int:
    """What learning takes for roots: those of the batch, all as they were and as they become, and one QR."""

    def most(samples: int) -> int:
        return root_values([-(-samples // classes)] * classes, dim) if classes else 0

    joined = min(known + images, dim) + min(images, dim)
    return 8 * (most(images) + most(known) + most(known + images) + 3 * joined * dim)
