"""Characteristics of datasets, and which k is best for them: the numbers behind Figure 4."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from layup.features import EMBEDDING, extractor_of
from layup.reproduction import analysis
from layup.reproduction.config import source_images
from layup.reproduction.results import Pairing, Results
from layup.reproduction.runner import Runner
from layup.reproduction.spec import NETWORKS, USUAL, Spec
from layup.tuning import PRESETS, prepared

MEASURES = {
    "mmd": "MMD² to the source / largest",
    "within": "similarity within classes",
    "between": "similarity between classes",
}


@dataclass(frozen=True)
class Characteristic:
    """A dataset and a network: the best k, and what may correlate with it."""

    pairing: Pairing
    best: int
    depth: int
    accuracy: float
    mmd: float | None
    within: float
    between: float


def characteristics(results: Results) -> list[Characteristic]:
    """The characteristics of each dataset and network; MMD² divided by the largest of its network."""
    found: list[Characteristic] = results.once("characteristics", lambda: _characteristics(results))
    return found


def _characteristics(results: Results) -> list[Characteristic]:
    found = []
    for network in NETWORKS:
        measured = []
        for pairing in results.pairings(results.config.everything, [network]):
            specs = all_depths(results.runner, network)
            scores = {spec.depth or 0: results.interval(pairing.column, spec) for spec in specs}
            known = {depth: score.value for depth, score in scores.items() if score is not None}
            if len(known) < len(specs):
                continue
            best = max(known, key=lambda depth: (known[depth], -depth))
            part = results.runner.dataset(pairing.column).train
            rows = _embeddings(results, network, part.images)
            measured.append((pairing, best, len(specs), known[best], rows, list(part.labels)))
        distances = _distances(results, network, [rows for *_, rows, _ in measured])
        for (pairing, best, depth, score, rows, labels), mmd in zip(measured, distances, strict=True):
            like = analysis.class_similarities(rows, labels)
            found.append(Characteristic(pairing, best, depth, score, mmd, like.within, like.between))
    return found


def _distances(
    results: Results, network: str, datasets: Sequence[NDArray[Any]]
) -> Sequence[float] | Sequence[None]:
    """MMD² of each to the source, with one bandwidth for all, divided by the largest."""
    source = results.config.source
    if source is None or not datasets:
        return [None] * len(datasets)
    rows = _embeddings(results, network, source_images(source, results.config.data))
    bandwidth = analysis.median_bandwidth(rows)
    found = [analysis.squared_mmd(rows, each, bandwidth) for each in datasets]
    largest = max(found)
    # An unbiased estimate may be negative: if all are, there is no distance to divide by.
    return [value / largest for value in found] if largest > 0 else found


def _embeddings(results: Results, network: str, images: Sequence[Any]) -> NDArray[Any]:
    runner = results.runner
    way = PRESETS[runner.config.preset]["preprocessing"]
    extractor = extractor_of(prepared(runner.network(network), way), (EMBEDDING,), runner.reading)
    return extractor.extract(images, "Measuring").rows


def correlations(found: Sequence[Characteristic]) -> dict[tuple[str, str], analysis.Correlation]:
    """How the best k correlates with each measure, by network and measure, if there are enough datasets."""
    result = {}
    for network in dict.fromkeys(each.pairing.network_name for each in found):
        own = [each for each in found if each.pairing.network_name == network]
        for name in MEASURES:
            pairs = [(value, each.best) for each in own if (value := getattr(each, name)) is not None]
            if len(pairs) >= 3:
                result[network, name] = analysis.rank_correlation(*zip(*pairs, strict=True))
    return result


def all_depths(runner: Runner, network: str) -> list[Spec]:
    """LayUP of every k, after a first session."""
    return [Spec("layup", network, USUAL).having(k=n + 1) for n in range(runner.depth(network))]
