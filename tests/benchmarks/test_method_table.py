"""A cell of the table says how many runs are behind it."""

from __future__ import annotations

import pytest

from benchmarks.cells import Cell
from benchmarks.method_table import shown


def cells(*accuracies: float) -> list[Cell]:
    return [
        Cell("nmc", "ViT-Tiny", "birds", seed, each, 0.014, 1.0, 0.0, 1200, 8)
        for seed, each in enumerate(accuracies)
    ]


@pytest.mark.parametrize(
    ("accuracies", "said"),
    [
        ((), "–"),
        ((0.5,), "50.0 ± 1.4ᵇ"),
        ((0.5, 0.52), "51.0 ± 1.0ᶜ"),
        ((0.5, 0.52, 0.54), "52.0 ± 1.2"),
    ],
)
def test_runs_are_counted(accuracies: tuple[float, ...], said: str) -> None:
    assert shown(cells(*accuracies)) == said
