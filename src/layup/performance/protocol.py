"""The authors' protocol as a learner, and whole runs of it and of layup's methods in the same loop.

Their code has no cache: it passes the training images of a task once, keeping all features for the search of
λ, and after every task passes the test images of all tasks so far again. layup passes every image once, ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from layup.backbones import PASSES, Backbone
from layup.benchmark import Scenario, run
from layup.benchmark.datasets import Dataset, Part, load_dataset
from layup.benchmark.methods import ONLY, Learner, Method, Report, Setup
from layup.benchmark.metrics import average_accuracy
from layup.errors import LayupError
from layup.features import Extractor, FeatureCache, NoCache
from layup.images import ImageSource
from layup.performance.literal import LiteralClassifier


def digits(per_class: int | None = None) -> Dataset:
    """Scikit-learn's digits, which are always there; or only so many images a class, of either half.

    >>> few = digits(per_class=2)
    >>> len(few.train), len(few.test)
    (20, 20)
    """
    dataset = load_dataset("digits")
    if per_class is None:
        return dataset
    return replace(dataset, train=first(dataset.train, per_class), test=first(dataset.test, per_class))


def first(part: Part, per_class: int) -> Part:
    """The first so many images of each class."""
    labels = np.array(part.labels)
    chosen = np.concatenate([np.flatnonzero(labels == name)[:per_class] for name in np.unique(labels)])
    return Part([part.images[place] for place in chosen], [part.labels[place] for place in chosen])


class LiteralLearner(Learner):
    """The literal procedure on the last k layers of a network, whose features are never cached."""

    def __init__(self, backbone: Backbone, k: int) -> None:
        self.extractor = Extractor(backbone, backbone.last(k), cache=NoCache(), progress=False)
        self.classifier = LiteralClassifier(self.extractor.width)

    def learn(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Pass a lesson's images once, search λ, and solve for the weights."""
        self.classifier.learn(self.extractor.extract(images).rows, np.array(labels))

    def answers(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
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
    answers: dict[str, list[str]]
    accuracies: dict[str, float]


def whole(learner: Learner, scenario: Scenario) -> Outcome:
    """Learn all tasks, asking after each one."""
    before = PASSES.reading
    for done in run(learner, scenario):
        last = done
    accuracies = {
        name: average_accuracy([value for value in step.accuracies if value is not None])
        for name, step in last.steps.items()
    }
    return Outcome(PASSES.reading - before, dict(last.answers), accuracies)


def learner_of(method: Method, backbone: Backbone, cache: Path) -> Learner:
    """A learner as `layup run` has it, with a cache in this folder."""
    setup = Setup(backbone, "cil", reading={"cache": FeatureCache(cache), "progress": False})
    return method.begin(setup)
