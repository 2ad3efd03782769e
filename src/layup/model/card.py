"""A model card: what a model is, how good, on which network, and what its file reveals, as Markdown."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from layup import __version__
from layup.backbones import licence_of, repository_of
from layup.formats import plural, whole_percent
from layup.tables import Table, bullets, plain, to_markdown

if TYPE_CHECKING:
    from layup.model.image_predictor import ImagePredictor

TAGS = ("layup", "image-classification", "continual-learning")
OWN_NETWORKS = ("bundled", "vit-nano")

REVEALS_LITTLE = (
    "The names of the classes; for each, weights, and in what direction its photos differ from others; a "
    "random sketch of how features vary, for some classifiers; and how sure the model may be.",
    "No photo, count, sum, list of photos or log is in it.",
    "The weights were computed from the photos. That nothing about a single photo follows from them is not "
    "promised: of a class with very few photos, they say the most.",
)
REVEALS_SUMS = (
    "The names of the classes, the number of photos of each, and the log of what was learned and forgotten, "
    "with dates and counts, in plain text.",
    "The sum of the features of each class, and the Gram matrix of all photos, where the classifier has one. "
    "No photo is in them. The sum of a class with one photo is the feature vector of that photo; with few "
    "photos, the sums narrow down the single vectors. Who has a photo can test whether it was probably "
    "learned.",
    "The list of photos that the model knows is encrypted, if it has one. Its key is not in the file.",
)
REVEALS_ADAPTER = (
    "The network was tuned to the first photos: the tuned values are in the file, and forgetting a photo "
    "does not change them."
)


@dataclass(frozen=True)
class Card:
    """What a card says of a model.

    counts: photos of each class, if the model tells. expected: what `ImageModel.expect` found, if it is of
        the model as it is. whole: whether the file has the sums.
    """

    name: str
    classes: list[str]
    counts: Mapping[str, int] | None
    expected: Mapping[str, Any] | None
    network: Mapping[str, Any]
    whole: bool
    licence: str | None = None

    @classmethod
    def of(cls, model: ImagePredictor, name: str, *, whole: bool, licence: str | None = None) -> Card:
        """The card of a model that will be called so."""
        about, _ = model.network.state()
        return cls(name, model.classes_, model.told_counts, model.told_accuracy, about, whole, licence)

    def __str__(self) -> str:
        parts = [
            self._metadata(),
            f"# {plain(self.name)}",
            self._summary(),
            "## How to use it",
            self._use(),
            "## Classes",
            self._classes(),
            "## Accuracy to expect",
            self._accuracy(),
            "## Network",
            self._network(),
            "## What the file reveals",
            bullets(self._reveals()),
        ]
        return "\n\n".join(parts) + "\n"

    def _metadata(self) -> str:
        """What the hub reads. Values are JSON, which is YAML as well: none can be taken for more."""
        values: dict[str, Any] = {
            "library_name": "layup",
            "pipeline_tag": "image-classification",
            "tags": list(TAGS),
            "license": self.licence,
            "base_model": repository_of(self.network["spec"]),
        }
        lines = [f"{name}: {json.dumps(value)}" for name, value in values.items() if value is not None]
        return "\n".join(["---", *lines, "---"])

    def _summary(self) -> str:
        kind = (
            "It is whole: it can be taught more classes, and can forget."
            if self.whole
            else "It is predict-only: it has weights and no sums, and cannot be taught."
        )
        count = plural(len(self.classes), "class", "es")
        return f"A classifier of photos into {count}, made with layup {__version__}. {kind}"

    def _use(self) -> str:
        more, needs = "", "The network comes with layup: nothing else is downloaded."
        if self.network["spec"] is None:
            more = ", backbone=network"
            needs = "The network is one of the maker's own: load it, and give it as `backbone`."
        elif self.network["name"] not in OWN_NETWORKS:
            more = ", allow_backbone=True"
            needs = "`allow_backbone` allows the download of the network, which is not in this repository."
        where = self.name if "/" in self.name else f"./{self.name}"  # a folder, not a user's repository
        code = [
            "```python",
            "import layup",
            "",
            f"model = layup.from_pretrained({json.dumps(where, ensure_ascii=False)}{more})",
            'print(model.predict(["photo.jpg"]))',
            "```",
        ]
        return "\n".join(code) + f"\n\n{needs} The file has no code, and no pickle."

    def _classes(self) -> str:
        counts = self.counts
        if counts is None:
            return bullets(map(plain, self.classes))
        rows = [[label, f"{counts[label]:,}"] for label in self.classes]
        total = f"{sum(counts.values()):,}"
        return to_markdown(Table.of(["class", "photos learned"], [*rows, ["all", total]]))

    def _accuracy(self) -> str:
        if self.expected is None:
            return "It was not measured for this model as it is."
        low, high, accuracy = (whole_percent(self.expected[name]) for name in ("low", "high", "accuracy"))
        needing = ", ".join(map(plain, self.expected["needs_more"]))
        more = f" Classes that need more photos: {needing}." if needing else ""
        return (
            f"**{accuracy}** (95 % interval: {low} to {high}), on its own photos: "
            f"{self.expected['tested']:,} of them were each predicted without themselves. No other "
            f"photos were tested. On photos from elsewhere it may be lower.{more}"
        )

    def _network(self) -> str:
        name, repository = self.network["name"], repository_of(self.network["spec"])
        licence = licence_of(name) if self.network["spec"] is not None else None
        facts = [
            f"Name: {plain(name)}",
            *([f"Repository: {plain(repository)}"] if repository else []),
            f"Licence of its weights: {plain(licence) if licence else 'not known to layup; ask its makers'}",
            f"Fingerprint: {self.network['fingerprint'][:12]}",
        ]
        if adapted := self.network.get("adapted"):
            facts.append(f"Tuned to the first photos: {plain(str(adapted['adapter']['name']))}")
        return bullets(facts)

    def _reveals(self) -> Iterable[str]:
        yield from REVEALS_SUMS if self.whole else REVEALS_LITTLE
        if self.counts is not None and not self.whole:
            yield "The counts of photos above are in this card only."
        if self.network.get("adapted"):
            yield REVEALS_ADAPTER
