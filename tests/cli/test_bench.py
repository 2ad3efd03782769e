"""`layup bench` on the command line."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from layup.performance import growth, runs, search, streaming, sweep
from layup.performance.point import Point
from layup.performance.timing import Ratio

TINY = ("--dim", "32", "--classes", "10", "--pairs", "1")
RATIO = Ratio(3.0, 2.0, 4.0, 3.0, 1.0, pairs=3)
RUN = runs.RunRow("vit-nano", 6, 768, 10, 40, 40, 480, 80, 0, RATIO, RATIO, 0.5, 0.6, 0.9)
SWEEP = sweep.SweepRow("literal", "vit-nano", (1, 2), 10, RATIO, 900, 80, 1.0)


def test_one_measurement_is_printed_and_saved(ok, tmp_path):
    result = ok("bench", "search", *TINY, "--check", "--save", tmp_path / "new" / "out")
    for words in ("λ search and task update, d = 32", "literal", "×", "search.json"):  # cells may be wrapped
        assert words in result.out
    saved = json.loads((tmp_path / "new" / "out" / "search.json").read_text())
    assert [row["situation"]["name"] for row in saved["rows"]] == [case.name for case in search.CASES]
    assert all(row["as_oracle"] == 1 for row in saved["rows"])
    with Image.open(tmp_path / "new" / "out" / "search.png") as picture:
        assert picture.format == "PNG"


@pytest.mark.parametrize(
    ("quick", "expected"),
    [
        pytest.param(
            (),
            {
                "search": (4608, 200, 3, False),
                "stream": (4608, 200, 3, 10_000),
                "runs": (3, ("vit-nano", "bundled"), None),
                "sweep": (3, "vit-nano", 10, None),
                "growth": (4608, 200, 3),
            },
            marks=pytest.mark.slow,
        ),
        (
            ("--quick", "--classes", "16"),
            {
                "search": (768, 16, 1, False),
                "stream": (768, 16, 1, 500),
                "runs": (1, ("vit-nano",), 12),
                "sweep": (1, "vit-nano", 1, 12),
                "growth": (768, 16, 1),
            },
        ),
        pytest.param(
            ("--quick", "--backbone", "bundled"),
            {
                "search": (768, 40, 1, False),
                "stream": (768, 40, 1, 500),
                "runs": (1, ("bundled",), 12),
                "sweep": (1, "bundled", 1, 12),
                "growth": (768, 40, 1),
            },
            marks=pytest.mark.slow,
        ),
    ],
    ids=["full", "quick", "another network"],
)
def test_all_of_it(ok, monkeypatch, tmp_path, quick, expected):
    measured = {}
    real = search.measure(32, 10, 1, cases=search.CASES[:1])
    stream = [streaming.StreamRow(32, 10, 100, 1.0, RATIO, 1e-16, 1.0)]
    along = {
        axis: growth.row_of(axis, sizes, [[Point(size, 1.0, 5000)] for size in sizes])
        for axis, sizes in growth.plan(32, 10).items()
    }
    for name, module, rows in (
        ("search", search, real),
        ("stream", streaming, stream),
        ("runs", runs, [RUN]),
        ("sweep", sweep, [SWEEP]),
        ("growth", growth, list(along.values())),
    ):

        def measure(*given, name=name, rows=rows, **named):
            measured[name] = (*given, *named.values())
            return rows

        monkeypatch.setattr(module, "measure", measure)
    result = ok("bench", *quick, "--save", tmp_path)
    assert measured == expected
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}.{ending}" for name in expected for ending in ("json", "png")
    }
    assert "no growth seen" in result.out


def test_what_cannot_be_measured_is_a_sentence(refused, tmp_path):
    refused("bench", "serach", says=["Unknown measurement 'serach'", "Did you mean 'search'?"])
    refused("bench", "search", "--dim", "8", says=["--dim 8 is too small", "at least 32"])
    refused("bench", "stream", "--classes", "1", says=["--classes 1 is too small", "at least 10"])
    refused("bench", "search", "--pairs", "0", says=["--pairs"])
    refused("bench", "sweep", "--backbone", "bundeld", says=["bundeld", "Did you mean 'bundled'?"])
    (tmp_path / "file").write_text("")
    refused("bench", "search", *TINY, "--save", tmp_path / "file" / "out", says=["file"])
