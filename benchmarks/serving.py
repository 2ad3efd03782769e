"""What `layup serve` bears: photos per second and latencies at rising load, against a bare forward pass.

    python -m benchmarks.serving [--networks bundled vit-nano] [--clients 1 2 4 8 16 32 64 128] [--rounds 5]
                                 [--seconds 3] [--data ../shared/data] [--save docs/performance]

A server (`benchmarks.bare`: that of `layup serve`, taught over HTTP) is asked by closed-loop clients, which
are one more process on the same machine: each sends a photo, waits for the answer, and sends the next, which
the server has never seen. In turn, for each number of clients: passes of 16 images with no requests at all;
the bare pass behind the same server, on images that were decoded before; the bare pass of the photo that is
sent, which has to be decoded; and predictions. About 100 seconds per round and network. --save keeps numbers
and pictures; `python -m benchmarks.page` writes them into docs/performance.md.

Photos are those of PACS if they are in the data folder, else handwritten digits, drawn larger.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.choices import unpack
from benchmarks.closed_loop import Seen, load
from layup import storage
from layup.benchmark.datasets import load_dataset
from layup.benchmark.plots import INK, MARKERS, SAFE_COLOURS
from layup.cli import console
from layup.client import Client
from layup.formats import seconds as seconds_text
from layup.images import class_folders
from layup.performance import Ratio, Report, ratio

WAYS = {"bare": "/bare", "photo": "/photo", "predict": "/predict"}
NAMES = {"bare": "bare pass", "photo": "bare pass of the photo", "predict": "predictions"}
ALONE = 1.0
"""Seconds of passes without requests, per round and number of clients."""
WARM = 0.7
"""Seconds of load that do not count."""
EACH = 20
"""Photos that are taught of each class."""
SIDE = 227


@dataclass(frozen=True)
class Photos:
    """Contents of image files: those that are taught, with their classes, and those that are asked about."""

    taught: list[bytes]
    labels: list[str]
    asked: list[bytes]


@dataclass(frozen=True)
class Row:
    """What was measured with so many clients.

    alone, bare, photo, predict: images or photos per second in every round. of_bare, of_photo: predictions
    per second, over those of the bare pass behind the server, of images that were decoded before and of the
    photos that are sent. latencies: p50 and p99 in seconds, by way, of all rounds. refused: requests in all
    rounds. together: photos per pass. cores: seconds that a core of the server works for a photo, by way.
    """

    clients: int
    alone: list[float]
    bare: list[float]
    photo: list[float]
    predict: list[float]
    of_bare: Ratio
    of_photo: Ratio
    latencies: dict[str, list[float]]
    refused: int
    together: float
    cores: dict[str, float]


class Server:
    """A server in another process: what is asked of it besides load."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.port = int(url.rpartition(":")[2])

    def said(self, path: str, *, post: bool = False) -> dict[str, float]:
        """The answer to a request without a body."""
        with urlopen(Request(f"{self.url}{path}", b"" if post else None)) as answer:
            found: dict[str, float] = json.load(answer)
            return found

    def spent(self) -> NDArray[np.float64]:
        """Passes, images in them, and seconds that cores have worked, so far."""
        said = self.said("/spent")
        return np.array([said[name] for name in ("passes", "images", "cores")])

    def alone(self) -> float:
        """Images per second of the bare pass, without requests."""
        return self.said(f"/passes?seconds={ALONE}", post=True)["per_second"]


@contextmanager
def server(network: str) -> Iterator[Server]:
    """A server of a new model, which ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.bare", folder, "--network", network]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            yield Server(process.stdout.readline().strip())
        finally:
            process.terminate()
            process.wait(60)


def photos_of(data: Path) -> Photos:
    """Photos of seven classes; digits if there are none."""
    if not (data / "pacs-subset.tar").is_file():
        return digits()
    home = unpack(data, "pacs-subset") / "photo"
    paths, labels = class_folders(home / "train")
    few = [i for i, label in enumerate(labels) if labels[:i].count(label) < EACH]
    asked, _ = class_folders(home / "test")
    return Photos(
        [paths[i].read_bytes() for i in few], [labels[i] for i in few], [path.read_bytes() for path in asked]
    )


def digits() -> Photos:
    """Handwritten digits as photos of the usual size."""
    found = load_dataset("digits")
    few = [
        i for i, label in enumerate(found.train.labels) if list(found.train.labels[:i]).count(label) < EACH
    ]
    labels = [str(found.train.labels[i]) for i in few]
    return Photos(
        [jpeg(found.train.images[i]) for i in few], labels, [jpeg(each) for each in found.test.images]
    )


def jpeg(pixels: object) -> bytes:
    """A picture as a JPEG file, enlarged."""
    file = io.BytesIO()
    Image.fromarray(pixels).convert("RGB").resize((SIDE, SIDE)).save(file, "JPEG", quality=90)  # type: ignore[arg-type]
    return file.getvalue()


def measure(network: str, photos: Photos, levels: Sequence[int], rounds: int, seconds: float) -> list[Row]:
    """A row for each number of clients."""
    with server(network) as served:
        Client(served.url).teach(photos.taught, photos.labels)
        first = Client(served.url).predict(photos.asked[:1])[0]
        assert first["label"] in photos.labels, first
        measured = {clients: Measured(clients, served, photos.asked, seconds) for clients in levels}
        for number in range(rounds):
            for each in measured.values():
                each.once(backwards=bool(number % 2))
            console.remark(f"{network}: round {number + 1} of {rounds}")
        return [each.row() for each in measured.values()]


class Measured:
    """What was measured with so many clients, round by round."""

    def __init__(self, clients: int, served: Server, asked: Sequence[bytes], seconds: float) -> None:
        self.clients, self.served, self.asked, self.seconds = clients, served, asked, seconds
        self.alone: list[float] = []
        self.seen: dict[str, list[Seen]] = {way: [] for way in WAYS}
        self.spent = {way: np.zeros(3) for way in WAYS}

    def once(self, *, backwards: bool) -> None:
        """A round, in this order or the opposite one."""
        self.alone.append(self.served.alone())
        for way in sorted(WAYS, reverse=backwards):
            before = self.served.spent()
            found = load(WAYS[way], self.served.port, self.asked, self.clients, self.seconds, WARM)
            self.seen[way].append(found)
            self.spent[way] += self.served.spent() - before

    def row(self) -> Row:
        """All rounds together."""
        rates = {way: np.array([each.per_second for each in seen]) for way, seen in self.seen.items()}
        pooled = {
            way: Seen(self.clients, 1.0, [latency for each in seen for latency in each.latencies])
            for way, seen in self.seen.items()
        }
        passes, images, _ = self.spent["predict"]
        cores = {way: self.spent[way][2] / sum(each.answered for each in self.seen[way]) for way in WAYS}
        return Row(
            self.clients,
            self.alone,
            rates["bare"].tolist(),
            rates["photo"].tolist(),
            rates["predict"].tolist(),
            ratio(1 / rates["bare"], 1 / rates["predict"]),
            ratio(1 / rates["photo"], 1 / rates["predict"]),
            {way: [each.percentile(50), each.percentile(99)] for way, each in pooled.items()},
            sum(each.refused for seen in self.seen.values() for each in seen),
            images / passes,
            cores,
        )


def report(network: str, rows: Sequence[Row], seconds: float) -> Report:
    """The table of a network."""
    columns = [
        "clients",
        "passes alone",
        *(f"{name}, served" for name in NAMES.values()),
        "of the bare pass",
        "of that of the photo",
        *(f"p50, p99: {name}" for name in NAMES.values()),
        "of a core",
        "refused",
        "photos per pass",
    ]
    cells = [
        [
            str(row.clients),
            *(f"{np.median(values):.0f}/s" for values in (row.alone, row.bare, row.photo, row.predict)),
            *(
                f"{each.median:.2f} ({each.low:.2f} … {each.high:.2f})"
                for each in (row.of_bare, row.of_photo)
            ),
            *(", ".join(map(seconds_text, row.latencies[way])) for way in WAYS),
            ", ".join(seconds_text(row.cores[way]) for way in WAYS),
            str(row.refused),
            f"{row.together:.1f}",
        ]
        for row in rows
    ]
    notes = [
        "Photos per second, medians of rounds; a client sends one photo at a time. Passes alone: 16 images "
        "each, decoded before, no requests. Bare pass: a request is read, dropped, and answered after a pass "
        "of images that were decoded before, with the others that wait. Bare pass of the photo: that which "
        "was sent is decoded and resized, and passes. Of …: predictions per second over these, the median of "
        f"{rows[0].of_bare.pairs} rounds of {seconds:g} s ({rows[0].of_bare.spread}). Of a core: how long "
        "one core of the server works for a photo, in the three ways; clients share the cores."
    ]
    return Report(f"serving-{network}", f"Serving predictions, {network}", columns, cells, notes, rows)


def draw(path: Path, title: str, rows: Sequence[Row]) -> None:
    """Latency against throughput: a point per number of clients."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), dpi=130, layout="constrained")
    axes = figure.subplots()
    for number, way in enumerate(WAYS):
        rates = [float(np.median(getattr(row, way))) for row in rows]
        for at, style in enumerate(("-", ":")):
            values = [1000 * row.latencies[way][at] for row in rows]
            look: Any = {"color": SAFE_COLOURS[number], "marker": MARKERS[number], "linestyle": style}
            axes.plot(rates, values, label=f"{NAMES[way]}, {('p50', 'p99')[at]}", **look)
        for row, rate in zip(rows, rates, strict=True):
            at_point = (rate, 1000 * row.latencies[way][0])
            axes.annotate(
                str(row.clients), at_point, xytext=(4, -9), textcoords="offset points", fontsize=7, color=INK
            )
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.set_xlabel("photos per second; numbers at points are clients", color=INK)
    axes.set_ylabel("latency in ms", color=INK)
    axes.set_title(title, color=INK)
    axes.grid(alpha=0.2)
    axes.legend()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["bundled", "vit-nano"])
    parser.add_argument("--clients", nargs="+", type=int, default=[1, 2, 4, 8, 16, 32, 64, 128])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--save", type=Path, help="keep numbers and pictures in this folder")
    chosen = parser.parse_args()
    photos = photos_of(chosen.data)
    for network in chosen.networks:
        rows = measure(network, photos, chosen.clients, chosen.rounds, chosen.seconds)
        found = report(network, rows, chosen.seconds)
        console.show(found.table)
        if chosen.save:
            storage.write_text(chosen.save / f"{found.name}.json", found.to_json())
            draw(chosen.save / f"{found.name}.png", found.title, rows)


if __name__ == "__main__":
    main()
