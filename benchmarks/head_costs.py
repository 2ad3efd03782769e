"""What does it cost to learn a first batch and predict, with the default classifier and with the paper's?

    python -m benchmarks.head_costs [--samples 100 1000 10000] [--pairs 3]

Random features, as wide as the last six layers of the bundled network, of ten samples per class, or of a
hundred classes. The paper's classifier searches λ while it learns; the default one finds its λ in the sums.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from layup.algebra import AutoClassifier, GramStatistics, RidgeClassifier
from layup.backbones import load_backbone
from layup.performance import compare
from layup.tables import Table, to_markdown

MOST_CLASSES = 100


def row(layers: dict[str, int], samples: int, pairs: int) -> list[str]:
    """The seconds of both, and how many times as fast the default is."""
    rng, classes = np.random.default_rng(0), min(samples // 10, MOST_CLASSES)
    y = np.arange(samples) % classes
    means = rng.standard_normal((classes, sum(layers.values())))
    x = (means[y] / 4 + rng.standard_normal((samples, means.shape[1]))).astype(np.float32)

    def learned(classifier: AutoClassifier | RidgeClassifier) -> Callable[[], object]:
        def once() -> object:
            classifier.adopt(GramStatistics(layers))
            return classifier.partial_fit(x, y).predict(x[:1])

        return once

    found = compare(learned(RidgeClassifier("search", balance=True)), learned(AutoClassifier()), pairs)
    return [f"{samples:,}", f"{found.first_seconds:.2f}", f"{found.second_seconds:.2f}", str(found)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--samples", type=int, nargs="+", default=[100, 1000, 10000])
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    backbone = load_backbone("bundled")
    widths = {layer.name: layer.width for layer in backbone.layers}
    layers = {name: widths[name] for name in backbone.last(backbone.default_k)}
    heads = ["samples", "paper's search, s", "default, s", "times as fast"]
    rows = [row(layers, samples, options.pairs) for samples in options.samples]
    print(f"\n{to_markdown(Table.of(heads, rows))}", flush=True)


if __name__ == "__main__":
    main()
