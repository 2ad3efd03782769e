"""What is made of measurements of a server, and the photos that it is asked about."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

from benchmarks import serving
from benchmarks.closed_loop import Seen


class Fake:
    """A server that makes 16 images per pass, 100 per second, and works 5 ms for each."""

    port = 0

    def __init__(self) -> None:
        self.images = 0

    def alone(self) -> float:
        return 100.0

    def spent(self):
        self.images += 48
        return np.array([self.images / 16, self.images, self.images * 0.005])


@pytest.fixture
def rows(monkeypatch):
    """Two numbers of clients, three rounds: predictions are 0.8 times as fast as the bare pass."""

    def load(path, _port, _photos, clients, seconds, _warm):
        count = {"/bare": 50, "/photo": 45, "/predict": 40}[path]
        return Seen(clients, seconds, [0.01] * count, refused=path == "/predict", answered=48)

    monkeypatch.setattr(serving, "load", load)
    measured = [serving.Measured(clients, Fake(), [b"photo"], 0.5) for clients in (1, 16)]
    for each in measured:
        for number in range(3):
            each.once(backwards=bool(number % 2))
    return [each.row() for each in measured]


def test_a_row_says_how_fast_predictions_are_for_a_pass(rows):
    row = rows[1]
    assert (row.clients, row.predict, row.bare) == (16, [80.0] * 3, [100.0] * 3)
    assert (row.of_bare.median, row.of_photo.median) == pytest.approx((0.8, 8 / 9))
    assert (row.together, row.refused, row.latencies["predict"]) == (16, 3, [0.01, 0.01])
    assert row.cores == pytest.approx({"bare": 0.005, "photo": 0.005, "predict": 0.005})


def test_the_table_and_the_picture(rows, tmp_path):
    report = serving.report("bundled", rows, 0.5)
    assert [cells[0] for cells in report.cells] == ["1", "16"]
    assert all(len(cells) == len(report.columns) for cells in report.cells)
    assert "0.80 (0.80 … 0.80)" in report.cells[1]
    serving.draw(tmp_path / "x.png", report.title, rows)
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.width > 600


def test_without_photos_there_are_digits(tmp_path, few_digits):
    photos = serving.photos_of(tmp_path)
    assert len(photos.taught) == len(photos.labels)
    assert Image.open(io.BytesIO(photos.asked[0])).size == (serving.SIDE, serving.SIDE)
