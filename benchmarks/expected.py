"""Is the accuracy to expect, which learning tells, the accuracy on other photos?

    python -m benchmarks.expected [--data ../shared/data] [--backbones bundled vit-nano] [--seeds 0 1 2 3 4]

The splits of benchmarks.wide_grid, learned in one batch by the default classifier. Expected is what leaving
out one image at a time says, with its 95 % interval; it is compared with all test images of the same classes.
"""

from __future__ import annotations

import numpy as np

from benchmarks.wide_grid import Samples, arguments, cases
from layup.algebra import AutoClassifier, Expected, GramStatistics, held_out_tally
from layup.tables import Table, to_markdown


def measured(layers: dict[str, int], train: Samples, test: Samples) -> tuple[float, float, bool]:
    """Of one split: the expected accuracy, that on the test images, and whether that is in the interval."""
    classifier = AutoClassifier()
    classifier.adopt(GramStatistics(layers))
    classifier.learn_rows(*train)
    expected = Expected.of(held_out_tally(classifier, *train), classifier.statistics_.count_by_label())
    assert expected is not None
    accuracy = float((classifier.classes_[classifier.scores_of(test[0]).argmax(axis=1)] == test[1]).mean())
    return expected.accuracy, accuracy, expected.low <= accuracy <= expected.high


def main() -> None:
    rows = []
    for case in cases(arguments(__doc__)):
        expected, accuracy, within = np.array([measured(case.layers, *each) for each in case.splits]).T
        cells = [f"{expected.mean():.3f}", f"{accuracy.mean():.3f}", f"{int(within.sum())} of {len(within)}"]
        rows.append([case.images, case.network, case.shape, *cells])
        print(" | ".join(rows[-1]), flush=True)
    heads = ["images", "network", "classes × images", "expected", "on test images", "within its interval"]
    print(f"\n{to_markdown(Table.of(heads, rows))}", flush=True)


if __name__ == "__main__":
    main()
