"""Why a photo gets its label: what each layer says, exactly, and where in the photo.

Where scores are linear, s_y(x) = Σ_l x_l · W_{l,y} + offset_y, they are sums over layers. These alone say
little: most of x is what all photos have in common, and most of s what all classes do. So, with x̄ the mean of
the class means, what layer l says for class y is

    p_{l,y} = (x_l − x̄_l) · W_{l,y} − (the same, averaged over all classes),

how much more it speaks for this class than for the average one, in this photo more than in the average one.
What the average photo would get, x̄ · W_y + offset_y, less its mean over the classes, is a part too, mostly
next to nothing. All parts add up to s_y − (the mean of all scores): none is left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from layup import memory
from layup.algebra import Floats, Readout
from layup.backbones import Backbone
from layup.errors import BadImageError
from layup.features import FeatureSource
from layup.formats import signed
from layup.images import ImageSource, open_image
from layup.model.occlusion import Heat, occlusion
from layup.model.scorer import Scorer

AVERAGE = "average photo"
"""The name of the part that no layer of this photo has a share in."""


@dataclass(frozen=True)
class Part:
    """What a layer says for the label, and for the next class; 0 is what it says for the average class."""

    layer: str
    label: float
    second: float

    @property
    def lead(self) -> float:
        """Its part of what separates the two."""
        return self.label - self.second

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {"layer": self.layer, "label": self.label, "second": self.second, "lead": self.lead}


@dataclass(frozen=True)
class Explanation:
    """Why a photo gets its label, and not the next one.

    label, second: the class with the highest score, and the next; None if the model knows only one.
    score, second_score: their scores, less the mean score of all classes; the same if there is only one.
    parts: what each layer says, shallow to deep, and what the average photo gets: they add up to the scores.
        None if the scores are not linear, as those of nearest means, or if there is no next class.
    heat: where in the photo it is; None if it was not asked for, or if there is no next class.
    """

    label: str
    second: str | None
    score: float
    second_score: float
    parts: tuple[Part, ...] | None
    heat: Heat | None

    @property
    def lead(self) -> float:
        """How far the next class is behind."""
        return self.score - self.second_score

    @property
    def summary(self) -> str:
        """The explanation in a few plain sentences.

        >>> parts = (Part("deep", 0.5, -0.25), Part(AVERAGE, 0.0, 0.0))
        >>> Explanation("cat", "dog", 0.5, -0.25, parts, None).summary
        "'cat' is 0.75 ahead of 'dog'. The largest part of this comes from layer deep (+0.75)."
        """
        if self.second is None:
            return (
                f"{self.label!r} is the only class that this model knows: there is none to compare it with."
            )
        said = [f"{self.label!r} is {self.lead:.2f} ahead of {self.second!r}."]
        if self.parts is not None:
            most = max(self.parts, key=lambda part: part.lead)
            source = f"layer {most.layer}" if most.layer != AVERAGE else "what any photo gets"
            said.append(f"The largest part of this comes from {source} ({signed(most.lead, 2)}).")
        if self.heat is not None:
            said.append(self._costliest(self.heat))
        return " ".join(said)

    def _costliest(self, heat: Heat) -> str:
        if heat.largest <= 0:
            return "Whatever part of the photo is covered, none of it is lost."
        turns = f": {self.second!r} would be ahead" if heat.largest > self.lead else ""
        return f"Covering the {heat.where} of what the network sees costs most ({heat.largest:.2f}){turns}."

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "label": self.label,
            "second": self.second,
            "score": self.score,
            "second_score": None if self.second is None else self.second_score,
            "lead": None if self.second is None else self.lead,
            "parts": None if self.parts is None else [part.to_dict() for part in self.parts],
            "heat": None if self.heat is None else self.heat.to_dict(),
            "summary": self.summary,
        }


def explain(
    scorer: Scorer,
    linear: Readout | None,
    source: FeatureSource,
    backbone: Backbone,
    image: ImageSource,
    *,
    heat: bool,
    progress: bool | None = None,
) -> Explanation:
    """Explain what a scorer of these features says of an image; `linear` are its weights, if it has any."""
    found = source.extract([image], "Reading the photo")
    if found.bad:
        raise BadImageError(found.bad[0].reason)
    scores = scorer.scores_of(found.rows)[0]
    labels = scorer.labels
    best, *others = np.argsort(-scores, kind="stable").tolist()
    second = others[0] if others else best

    def lead(pixels: Any) -> Floats:
        covered = scorer.scores_of(source.rows_of(pixels))
        return np.asarray(covered[:, best] - covered[:, second])

    seen = None
    if heat and others:
        memory.require(backbone.forecast(), "Covering parts of the photo")
        photo, preprocessing = open_image(image), backbone.preprocessing
        seen = occlusion(preprocessing.transform(photo), lead, preprocessing.region(photo), progress)
    score, second_score = (scores - scores.mean())[[best, second]].tolist()
    parts = _parts(linear, found.rows[0].astype(np.float64), best, second) if linear and others else None
    return Explanation(labels[best], labels[second] if others else None, score, second_score, parts, seen)


def _parts(linear: Readout, x: Floats, best: int, second: int) -> tuple[Part, ...] | None:
    """What each layer says for two classes, and what the average photo gets."""
    said = linear.parts(x)
    if said is None:
        return None
    said[AVERAGE] = linear.average_scores
    return tuple(
        Part(name, *(scores - scores.mean())[[best, second]].tolist()) for name, scores in said.items()
    )
