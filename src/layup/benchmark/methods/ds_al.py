"""DS-AL (Zhuang et al. 2024): a ridge classifier, and a second one that fits what it leaves unexplained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from layup import schema, storage
from layup.algebra import Floats, GramStatistics, ResidualSums, RidgeClassifier, forecast_learning
from layup.benchmark.methods.learner import ONLY, Learner, Method, Report, Setup
from layup.errors import BadImageError, InputError, MismatchError
from layup.features import Embedding, Projected, ProjectedRows, Rows, in_batches
from layup.images import ImageSource, require_one_label_each
from layup.memory import Forecast

KIND = "dual stream"  # of files
CHUNK = 512  # samples that are added to a matrix together, and predicted together
MAIN, COMPENSATION = "main.", "compensation."  # how the names of their arrays begin


class DSALLearner(Learner):
    """Two classifiers on two activations of one projection; the second learns the residuals of the first."""

    def __init__(self, method: DSALMethod, setup: Setup) -> None:
        self.method, self.setup = method, setup
        self.source = Embedding().build(setup.backbone, setup.reading)
        self.relu, self.tanh = (
            ProjectedRows(self.source, method.width, setup.seed, activation, "uniform")
            for activation in ("relu", "tanh")
        )
        self.main = RidgeClassifier(float(method.lam))
        self.main.adopt(self.main.empty(self.relu.layers))
        self.residuals = ResidualSums.zeros(method.width)
        self._weights: Floats | None = None  # of the residuals, once they are solved

    def learn(self, images: Sequence[ImageSource], labels: Sequence[str]) -> None:
        """Learn a task: first the main classifier, then what it leaves unexplained of it.

        A learner that was interrupted cannot be used: resume a saved one.
        """
        require_one_label_each(images, labels)
        rows, names = self._read(images), np.array(labels)
        h = self.relu.mapped(rows)
        self.main.learn_rows(h, names)
        own = sorted(set(labels))
        residuals = (names[:, None] == own) - h @ self.main.linear()[0][:, np.isin(self.main.classes_, own)]
        for indices in in_batches(range(len(rows)), CHUNK):
            g = self.tanh.mapped(rows[indices])
            self.residuals = self.residuals.plus(g, residuals[indices], own)
        self._weights = None

    def predict(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The label of every image."""
        rows = self._read(images)
        best = [
            index
            for indices in in_batches(range(len(rows)), CHUNK)
            for index in self.scores_of(rows[indices]).argmax(axis=1)
        ]
        return {ONLY: self.main.classes_[best].tolist()}

    def scores_of(self, rows: Rows) -> Floats:
        """The scores of embeddings: those of the main classifier, and a share of the other's."""
        main = self.main.scores_of(self.relu.mapped(rows))  # refuses where no class was learned
        if self._weights is None:
            lam = float(self.method.compensation_lam)
            self._weights = self.residuals.weights(self.main.classes_.tolist(), lam)
        return main + self.method.compensation * (self.tanh.mapped(rows) @ self._weights)

    def reports(self) -> dict[str, Report]:
        """The λ of the main classifier, and the size of all that is kept."""
        size = self.main.statistics_.nbytes + self.residuals.nbytes
        return {ONLY: Report({"lambda": self.main.lambda_}, size)}

    def save(self, path: Path) -> None:
        """Write everything that is needed to go on."""
        sums, arrays = self.main.statistics_.state()
        own = self.residuals.arrays(sums["labels"])
        storage.write(
            path,
            KIND,
            {**self._about(), "sums": sums},
            {MAIN + name: array for name, array in arrays.items()}
            | {COMPENSATION + name: array for name, array in own.items()},
        )

    def load(self, path: Path) -> None:
        """Become the learner that was saved."""
        header, arrays = storage.read(path, KIND)
        with storage.believed(path):
            for name, mine in self._about().items():
                if header[name] != mine:
                    raise MismatchError(
                        f"'{path}' holds a learner with {name} {header[name]!r}, and not {mine!r}."
                    )
            main, own = (
                {name.removeprefix(of): each for name, each in arrays.items() if name.startswith(of)}
                for of in (MAIN, COMPENSATION)
            )
            sums = GramStatistics.from_state(header["sums"], main)
            self.main.adopt(sums)
            self.residuals = ResidualSums.from_arrays(own, sums.labels, sums.total)

    def _about(self) -> dict[str, Any]:
        return {
            "method": self.method.name,
            "options": self.method.options(),
            "backbone": self.setup.backbone.fingerprint,
            "seed": self.setup.seed,
        }

    def _read(self, images: Sequence[ImageSource]) -> Rows:
        """The embeddings of images, all of which must be good."""
        found = self.source.extract(images)
        if found.bad:
            raise BadImageError(found.bad[0].reason)
        return found.rows


@dataclass(frozen=True)
class DSALMethod(Method):
    """`acil`, and a second ridge classifier that fits what it leaves unexplained (DS-AL; Zhuang et al. 2024).

    With f(x), the final embedding of d values, a matrix W of d × M values, drawn once, uniformly between
    −1/√d and 1/√d, and the targets t_y of a sample, 1 for its own class and 0 for the others,

        h(x) = max(0, f(x) W)        G = Σ h hᵀ        c_y = Σ h over class y        W_M = (G + λI)⁻¹ c
        g(x) = tanh(f(x) W)          H = Σ g gᵀ        p_y = Σ g e_y                 W_C = (H + λ′I)⁻¹ p
        s_y(x) = h(x)ᵀ W_M,y + κ g(x)ᵀ W_C,y

    where e_y = t_y − hᵀ W_M,y is what the main classifier, right after it learned the task of the sample,
    leaves unexplained of it. Only classes of that task count: for all others, e_y is set to zero.

    Keeps: M² + 2·C·M values of 8 bytes, and one count per class, for C classes: twice as much as `acil`, or
    537 MB of matrices for M = 8,192. Residuals depend on what was learned before them, so the order of tasks
    matters, and models neither merge nor forget exactly. W is drawn again from the run's seed.
    Costs: one pass through the network and 2 d·M + 2 M² operations per image; a solve (M³/3) with each task,
    and another before the first prediction after it.
    Needs: tasks, not a stream. The network is used as it is; its authors train one on half of the classes.

    width: M, how many values the projection has.
    lam: λ, a number ≥ 0, which its authors call γ.
    compensation_lam: λ′, a number ≥ 0.
    compensation: κ, which its authors call C, a number ≥ 0; they found 0.6 to be best for CIFAR-100 and 1.5
        for ImageNet-1k.
    """

    name = "ds-al"
    settings: ClassVar[tuple[str, ...]] = ("cil", "dil")
    exempt: ClassVar[Mapping[str, str]] = {
        "order": "a residual is what earlier tasks leave unexplained of a later one",
        "batches": "the residuals of a task are those after all of it was learned",
    }

    width: int = 8192
    lam: float = 0.1
    compensation_lam: float = 0.1
    compensation: float = 1.0

    def resolved(self, setup: Setup) -> Self:
        """The method itself; raises if it cannot work with this setup."""
        Projected(Embedding(), self.width).resolved(setup.backbone)
        for option in fields(self)[1:]:
            value = getattr(self, option.name)
            if not schema.AMOUNT.holds(value):
                raise InputError(
                    f"{self.name!r} with {option.name} = {value!r} is impossible. Use a number ≥ 0."
                )
        if setup.session is not None:
            raise InputError(
                f"{self.name!r} has no first session here. Leave the adapter out, or use 'acil'.",
                about="adapter",
            )
        if setup.setting not in self.settings:
            raise InputError(
                f"{self.name!r} cannot run in the setting {setup.setting!r}: it takes the residuals of whole "
                f"tasks. Use {' or '.join(map(repr, self.settings))}, or the method 'acil'."
            )
        return self

    def forecast(self, setup: Setup, task: int, images: int, classes: int) -> Forecast:
        """The memory that the last and largest task will take: the two are solved one after the other."""
        one, width = forecast_learning(self.width, classes, task), self.width
        second = GramStatistics(width).nbytes + 8 * width * classes
        return Forecast({**one.parts, "second classifier": second, "samples": 4 * task * width})

    def begin(self, setup: Setup) -> Learner:
        """A learner that knows nothing yet."""
        return DSALLearner(self.resolved(setup), setup)

    def resume(self, setup: Setup, path: Path) -> Learner:
        """The learner that was saved."""
        learner = DSALLearner(self.resolved(setup), setup)
        learner.load(path)
        return learner
