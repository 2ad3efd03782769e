"""The authors' protocol as a learner, and whole runs of it and of layup's methods in the same loop.

Their code has no cache: it passes the training images of a task once, keeping all features for the search of
λ, and after every task passes the test images of all tasks so far again. layup passes every image once, ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from layup.backbones import Backbone
from layup.benchmark import Experiment, RunSpec, Scenario, run_tasks
from layup.benchmark.methods import ONLY, Learner, Report
from layup.benchmark.metrics import average_accuracy
from layup.errors import LayupError
from layup.features import Extractor, FeatureCache, NoCache, Reading
from layup.images import ImageSource
from layup.performance.literal import LiteralClassifier

DIGITS = 10


def sampled(spec: RunSpec, per_class: int | None) -> RunSpec:
    """The run with all images of the digits, or with so many of each, for training and for testing."""
    return spec if per_class is None else replace(spec, sample=(DIGITS, per_class))


class LiteralLearner(Learner):
    """The literal procedure on the last k layers of a network, whose features are never cached."""

    def __init__(self, backbone: Backbone, k: int) -> None:
        self.extractor = Extractor(backbone, backbone.last(k), cache=NoCache(), progress=False)
        self.classifier = LiteralClassifier(self.extractor.width)

    def learn(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Pass a lesson's images once, search λ, and solve for the weights."""
        self.classifier.learn(self.extractor.extract(images).rows, np.array(labels))

    def predict(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """Pass the images, whether or not they have passed before."""
        return {ONLY: self.classifier.predict(self.extractor.extract(images).rows).tolist()}

    def reports(self) -> dict[str, Report]:
        """λ, and the bytes of the sums in float32."""
        values = self.classifier.gram.numel() + self.classifier.prototypes.numel()
        return {ONLY: Report({"lambda": self.classifier.lam}, 4 * values)}

    def save(self, path: Path) -> None:
        """It is there to be timed."""
        raise LayupError(f"The literal twin cannot be saved to '{path}': it is only there to be timed.")


@dataclass(frozen=True)
class Outcome:
    """Of a whole run: images through the network, and by way to answer the last labels and A_T."""

    passes: int
    predictions: dict[str, list[str]]
    accuracies: dict[str, float]


def ours(experiment: Experiment, cache: Path) -> Outcome:
    """A run as `layup run` does it, with a cache in this folder, but without a record."""
    backbone = experiment.backbone.counted()
    reading: Reading = {"cache": FeatureCache(cache), "progress": False}
    learner = experiment.method.begin(replace(experiment.setup, backbone=backbone, reading=reading))
    return _whole(learner, experiment.scenario, backbone)


def literal(experiment: Experiment, k: int) -> Outcome:
    """The same tasks by the authors' protocol, with the last k layers."""
    backbone = experiment.backbone.counted()
    return _whole(LiteralLearner(backbone, k), experiment.scenario, backbone)


def _whole(learner: Learner, scenario: Scenario, backbone: Backbone) -> Outcome:
    """Learn all tasks, asking after each one."""
    for done in run_tasks(learner, scenario):
        last = done
    accuracies = {
        name: average_accuracy([value for value in step.accuracies if value is not None])
        for name, step in last.steps.items()
    }
    return Outcome(backbone.passes.reading, dict(last.predictions), accuracies)
