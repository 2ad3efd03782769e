"""LayUP at several depths k from one Gram matrix.

The sums of the last k layers are a block of those of more layers, so one set of sums, of the deepest k asked,
serves all of them. Each k has its own λ, searched on its own block: the answers are those of separate runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self, Unpack

import numpy as np
from numpy.typing import NDArray

from layup.backbones import Backbone
from layup.classifier import SumsClassifier, require_rule
from layup.errors import InputError
from layup.first_session import Wanted
from layup.image_model import ImageModel, Reading
from layup.images import ImageSource
from layup.methods.learner import Learner, Method, Report, Setup
from layup.methods.models import LayUPMethod, ModelLearner, settled_depth, settled_rule
from layup.ridge import FIRST_LAMBDA, Solution, search_lambda
from layup.statistics import Floats, GramStatistics


class DepthsClassifier(SumsClassifier):
    """One ridge classifier for each number of last layers, all from the sums of the largest."""

    sums = GramStatistics

    def __init__(self, depths: Sequence[int], lam: float | str, balance: bool) -> None:
        self.depths = depths
        self.lam = lam
        self.balance = balance
        self.lambdas_: dict[int, float] = {}
        self.solved_: dict[int, tuple[float, Floats]] = {}

    @property
    def needs_samples(self) -> bool:
        """Whether λ is searched on the samples of each lesson."""
        return self.lam == "search"

    def adopt(self, statistics: GramStatistics, lambdas: Mapping[int, float] | None = None) -> None:
        """Go on from these sums; `lambdas` are those that earlier searches found for them, if any."""
        super().adopt(statistics)
        self.lambdas_ |= lambdas or {}
        self.solved_ = {}

    def solved(self, k: int) -> tuple[float, Floats]:
        """λ and the weights of the last k layers. The block of G is gone again afterwards."""
        if k not in self.solved_:
            rule = self.lam
            if isinstance(rule, str):
                lam = self.lambdas_.get(k, FIRST_LAMBDA) if self.needs_samples else None
            else:
                lam = float(rule)
            solution = Solution(self.statistics_.select(self._names(k)), lam, self.balance)
            self.solved_[k] = solution.lambda_, solution.weights
        return self.solved_[k]

    def labels(self, x: NDArray[Any]) -> dict[int, list[Any]]:
        """The label of every row, by k."""
        found = {}
        for k in self.depths:
            _, weights = self.solved(k)
            best = (x[:, -len(weights) :].astype(np.float64) @ weights).argmax(axis=1)
            found[k] = [self.statistics_.labels[i] for i in best]
        return found

    def state_bytes(self, k: int) -> int:
        """What a model of this depth alone would keep."""
        width: int = sum(self.statistics_.layers[name] for name in self._names(k))
        return 8 * (width**2 + len(self.statistics_.labels) * (width + 1))

    def _names(self, k: int) -> list[str]:
        return list(self.statistics_.layers)[-k:]

    def _check(self) -> None:
        require_rule(self.lam)

    def _learn(self, x: NDArray[Any], labels: NDArray[Any]) -> None:
        found: dict[int, float] = {}
        for k in self.depths if self.needs_samples else ():
            history = self.statistics_.select(self._names(k))
            search = search_lambda(history, x[:, -history.dim :], labels, balance=self.balance)
            if search:
                found[k] = search.best
        super()._learn(x, labels)
        self.adopt(self.statistics_, found)


class LayUPDepths(ImageModel):
    """LayUP at several depths: learns as one, answers as many."""

    method = "layup-depths"
    classifier_: DepthsClassifier

    def __init__(
        self,
        backbone: str | Backbone = "bundled",
        depths: Sequence[int] = (1, 6),
        lam: float | str = "search",
        *,
        balance: bool = False,
        adapter: Wanted = None,
        **reading: Unpack[Reading],
    ) -> None:
        super().__init__(backbone, adapter=adapter, **reading)
        self.depths = tuple(depths)
        self.lam = lam
        self.balance = balance

    def labels(self, images: Sequence[ImageSource]) -> dict[int, list[str]]:
        """The label of every image, by k, in one pass over them."""
        found: dict[int, list[str]] = {k: [] for k in self.depths}
        for part in self.extractor_.stream(images, "Looking"):
            if part.bad:
                raise InputError(part.bad[0].reason)
            for k, labels in self.classifier_.labels(part.rows).items():
                found[k] += labels
        return found

    def _layers(self) -> tuple[str, ...]:
        return self.backbone_.last(max(self.depths))

    def _classifier(self) -> DepthsClassifier:
        return DepthsClassifier(self.depths, self.lam, self.balance)

    def _settings(self) -> dict[str, Any]:
        own = {"depths": list(self.depths), "lam": self.lam, "balance": self.balance}
        return {**super()._settings(), **own}

    def _chosen(self) -> dict[str, Any]:
        return {"lambdas": {str(k): lam for k, lam in self.classifier_.lambdas_.items()}}

    def _adopt_loaded(self, sums: Any, header: dict[str, Any]) -> None:
        self.classifier_.adopt(sums, {int(k): lam for k, lam in header["lambdas"].items()})


class DepthsLearner(ModelLearner):
    """LayUP at several depths as a learner: it answers once for each."""

    model: LayUPDepths

    def answers(self, images: Sequence[ImageSource]) -> dict[str, list[str]]:
        """The label of every image, by k."""
        return {str(k): labels for k, labels in self.model.labels(images).items()}

    def reports(self) -> dict[str, Report]:
        """λ, how the backbone was adapted, and the size of the sums, by k."""
        classifier, adaptation = self.model.classifier_, self.adaptation()
        return {
            str(k): Report(
                {"lambda": classifier.solved(k)[0], **adaptation},
                classifier.state_bytes(k) + self.tuned_bytes,
            )
            for k in self.model.depths
        }


@dataclass(frozen=True)
class DepthsMethod(Method):
    """`layup` at several depths in one run: as many records as depths."""

    name = "layup-depths"

    depths: tuple[int, ...] = ()
    lam: float | str | None = None
    balance: bool = False

    def settled(self, setup: Setup) -> Self:
        """All depths are there, and λ's rule is decided."""
        depths = tuple(sorted({settled_depth(k, setup) for k in self.depths or (None,)}))
        return replace(self, depths=depths, lam=settled_rule(self.lam, setup.setting))

    def variants(self) -> dict[str, Method]:
        """LayUP of each depth."""
        return {str(k): LayUPMethod(k, self.lam, self.balance) for k in self.depths}

    def begin(self, setup: Setup) -> Learner:
        """A learner that knows nothing yet."""
        options = self.settled(setup).options()
        model = LayUPDepths(setup.backbone, adapter=setup.session, **options, **setup.reading)
        return DepthsLearner(model, setup.checkpoint)

    def resume(self, setup: Setup, path: Path) -> Learner:
        """The learner that was saved."""
        model = LayUPDepths.load(path, backbone=setup.backbone, **setup.reading)
        return DepthsLearner(model, setup.checkpoint)
