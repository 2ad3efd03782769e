"""What a server counts about itself, as text that Prometheus reads."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper ends of the buckets of latencies."""

PHOTOS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
"""Those of numbers of photos."""

Labels = tuple[tuple[str, str], ...]


class Counter:
    """Something that only grows, by labels.

    >>> counter = Counter("layup_photos_total", "Photos.")
    >>> counter.add(3, verb="teach")
    >>> print(*counter.lines(), sep="\\n")
    # HELP layup_photos_total Photos.
    # TYPE layup_photos_total counter
    layup_photos_total{verb="teach"} 3
    """

    def __init__(self, name: str, says: str) -> None:
        self.name, self.says = name, says
        self.values: dict[Labels, float] = {}
        self.lock = threading.Lock()

    def add(self, amount: float = 1, /, **labels: str) -> None:
        """Count something."""
        key = tuple(labels.items())
        with self.lock:
            self.values[key] = self.values.get(key, 0) + amount

    def lines(self) -> Iterator[str]:
        """As Prometheus reads it."""
        with self.lock:
            values = sorted(self.values.items())
        yield from _head(self.name, self.says, "counter")
        for labels, value in values:
            yield f"{self.name}{_shown(labels)} {value:g}"


class Histogram:
    """How often something had which size, by labels.

    >>> histogram = Histogram("layup_seconds", "Times.", [0.1, 1.0])
    >>> histogram.add(0.5, path="/predict")
    >>> print(*list(histogram.lines())[2:], sep="\\n")
    layup_seconds_bucket{path="/predict",le="0.1"} 0
    layup_seconds_bucket{path="/predict",le="1"} 1
    layup_seconds_bucket{path="/predict",le="+Inf"} 1
    layup_seconds_sum{path="/predict"} 0.5
    layup_seconds_count{path="/predict"} 1
    """

    def __init__(self, name: str, says: str, ends: Sequence[float] = SECONDS) -> None:
        self.name, self.says, self.ends = name, says, ends
        self.counts: dict[Labels, list[int]] = {}
        self.sums: dict[Labels, float] = {}
        self.lock = threading.Lock()

    def add(self, value: float, /, **labels: str) -> None:
        """Count one of this size."""
        key = tuple(labels.items())
        with self.lock:
            counts = self.counts.setdefault(key, [0] * (len(self.ends) + 1))
            counts[bisect_left(self.ends, value)] += 1
            self.sums[key] = self.sums.get(key, 0.0) + value

    def lines(self) -> Iterator[str]:
        """As Prometheus reads it."""
        with self.lock:
            found = [(labels, list(counts), self.sums[labels]) for labels, counts in self.counts.items()]
        yield from _head(self.name, self.says, "histogram")
        ends = [*(f"{end:g}" for end in self.ends), "+Inf"]
        for labels, counts, total in sorted(found):
            for end, count in zip(ends, accumulate(counts), strict=True):
                yield f"{self.name}_bucket{_shown((*labels, ('le', end)))} {count}"
            yield f"{self.name}_sum{_shown(labels)} {total:g}"
            yield f"{self.name}_count{_shown(labels)} {sum(counts)}"


class Metrics:
    """All that a server counts."""

    def __init__(self) -> None:
        self.requests = Counter("layup_requests_total", "Requests, by method, path and status.")
        self.seconds = Histogram("layup_request_seconds", "Seconds until a request was answered, by path.")
        self.photos = Histogram("layup_request_photos", "Photos in a request, by path.", PHOTOS)

    def text(self, now: Mapping[str, tuple[str, float]]) -> str:
        """All of it; `now`: what is so at this moment, as an explanation and a value by name."""
        lines = [line for each in (self.requests, self.seconds, self.photos) for line in each.lines()]
        for name, (says, value) in now.items():
            lines += [*_head(name, says, "gauge"), f"{name} {value:.17g}"]
        return "\n".join([*lines, ""])


def _head(name: str, says: str, kind: str) -> Iterable[str]:
    return f"# HELP {name} {says}", f"# TYPE {name} {kind}"


def _shown(labels: Labels) -> str:
    """Labels in braces.

    >>> _shown((("path", 'a"b'),))
    '{path="a\\\\"b"}'
    """
    if not labels:
        return ""
    escaped = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
    return "{" + ",".join(f'{name}="{value.translate(escaped)}"' for name, value in labels) + "}"
