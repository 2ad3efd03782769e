"""Which features of a network a model uses, as values: to compare, to save, and to build.

>>> spec = Projected(LastLayers(6), width=2000, seed=1)
>>> spec_from(spec.to_dict()) == spec
True
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from layup import schema
from layup.algebra import EXPONENTS
from layup.errors import InputError
from layup.schema import FIELDS, POSITIVE, Rule, Shape, whole

if TYPE_CHECKING:  # not needed to read a file
    from layup.backbones import Backbone
    from layup.features.extract import FeatureSource
    from layup.features.reading import Reading

EMBEDDING = "final embedding"
"""Its name among the names of layers: no module has a space in its name."""
ACTIVATIONS = ("relu", "sigmoid", "tanh")
DRAWS = ("normal", "uniform")


class FeatureSpec(ABC):
    """Which features: a value that a `Backbone` turns into a source of rows."""

    kind: ClassVar[str]
    fields: ClassVar[Mapping[str, Shape]] = {}
    """What `to_dict` returns besides the kind."""

    @abstractmethod
    def build(self, backbone: Backbone, reading: Reading) -> FeatureSource:
        """The source of rows; before the network is tuned, rows have the same layout."""

    def resolved(self, backbone: Backbone) -> Self:
        """The same with every default resolved for this network; refuses layers that it does not have."""
        return self

    def layers_of(self, names: list[str]) -> list[str] | None:
        """Which of a network's layers are read; None if rows are not simply some of them."""
        return None

    @property
    def plain(self) -> FeatureSpec:
        """The same features before they are rounded, if they are."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; `spec_from` is the inverse."""
        return {"kind": self.kind, **{name: getattr(self, name) for name in self.fields}}

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> FeatureSpec:
        """The spec with these values, which have been checked."""
        return cls(**values)


@dataclass(frozen=True)
class LastLayers(FeatureSpec):
    """The last k layers side by side, Φ(x) = (φ_{L−k+1}(x), …, φ_L(x)); by default the network's own k."""

    kind = "last layers"
    fields: ClassVar = {"k": whole(1)}

    k: int | None = None

    def build(self, backbone: Backbone, reading: Reading) -> FeatureSource:
        """A reader of these layers."""
        return _extractor(backbone, backbone.last(self._number(backbone)), reading)

    def resolved(self, backbone: Backbone) -> Self:
        """With a number of layers that the network has."""
        return replace(self, k=len(backbone.last(self._number(backbone))))

    def layers_of(self, names: list[str]) -> list[str]:
        """The last k."""
        return names[-(self.k or len(names)) :]

    def _number(self, backbone: Backbone) -> int:
        return backbone.default_k if self.k is None else self.k


@dataclass(frozen=True)
class OneLayer(FeatureSpec):
    """One layer alone, counted from the last, which is 1."""

    kind = "one layer"
    fields: ClassVar = {"layer": whole(1)}

    layer: int = 1

    def build(self, backbone: Backbone, reading: Reading) -> FeatureSource:
        """A reader of this layer."""
        return _extractor(backbone, backbone.last(self.layer)[:1], reading)

    def resolved(self, backbone: Backbone) -> Self:
        """With a layer that the network has."""
        return replace(self, layer=len(backbone.last(self.layer)))

    def layers_of(self, names: list[str]) -> list[str]:
        """That layer."""
        return names[-self.layer :][:1]


@dataclass(frozen=True)
class Embedding(FeatureSpec):
    """The network's final embedding f(x), of a transformer after the final norm."""

    kind = "embedding"

    def build(self, backbone: Backbone, reading: Reading) -> FeatureSource:
        """A reader of the embedding."""
        return _extractor(backbone, (EMBEDDING,), reading)


@dataclass(frozen=True)
class MeanOfLayers(FeatureSpec):
    """The mean of the last k layers, by default of all, brought to mean 0 and variance 1 in each image.

    The layers must have the same width: those of a plain vision transformer have.
    """

    kind = "mean of layers"
    fields: ClassVar = {"k": whole(1)}

    k: int | None = None

    def build(self, backbone: Backbone, reading: Reading) -> FeatureSource:
        """A source that averages these layers."""
        from layup.features.sources import MeanRows

        return MeanRows(_extractor(backbone, self._names(backbone), reading))

    def resolved(self, backbone: Backbone) -> Self:
        """With a number of layers that the network has; refuses layers of different widths."""
        return replace(self, k=len(self._names(backbone)))

    def _names(self, backbone: Backbone) -> tuple[str, ...]:
        names = backbone.last(backbone.depth if self.k is None else self.k)
        widths = {layer.width for layer in backbone.layers if layer.name in names}
        if len(widths) > 1:
            raise InputError(
                f"The mean of the last {len(names)} layers needs layers of the same width, but those of "
                f"{backbone.name!r} have from {min(widths)} to {max(widths)} values. Use a plain vision "
                "transformer, such as 'vit-nano'."
            )
        return names


@dataclass(frozen=True)
class Mapped(FeatureSpec):
    """Base of features that are a function of other features."""

    of: FeatureSpec

    def resolved(self, backbone: Backbone) -> Self:
        """With the other features resolved."""
        return replace(self, of=self.of.resolved(backbone))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**super().to_dict(), "of": self.of.to_dict()}

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> FeatureSpec:
        """The spec with these values."""
        return cls(**{**values, "of": spec_from(values["of"])})


@dataclass(frozen=True)
class Projected(Mapped):
    """σ(f W) of other features f, with a random W that follows from the seed: see `ProjectedRows`.

    activation: σ, "relu", "sigmoid" or "tanh".
    drawn: how the values of W are drawn, "normal" or "uniform".
    """

    kind = "projected"
    fields: ClassVar = {
        "of": FIELDS,
        "width": whole(1),
        "seed": whole(),
        "activation": schema.one_of(*ACTIVATIONS),
        "drawn": schema.one_of(*DRAWS),
    }

    width: int = 10_000
    seed: int = 0
    activation: str = "relu"
    drawn: str = "normal"

    def build(self, backbone: Backbone, reading: Reading) -> FeatureSource:
        """A source that projects the rows of the other features."""
        from layup.features.sources import ProjectedRows

        source = self.of.build(backbone, reading)
        return ProjectedRows(source, self.width, self.seed, self.activation, self.drawn)

    def resolved(self, backbone: Backbone) -> Self:
        """With the other features resolved, and the width checked."""
        _require(self.width, whole(1), "width")
        return super().resolved(backbone)


@dataclass(frozen=True)
class FrozenAndTuned(Mapped):
    """The same features twice: of the network before and after the first session tuned it."""

    kind = "frozen and tuned"
    fields: ClassVar = {"of": FIELDS}

    def build(self, backbone: Backbone, reading: Reading) -> FeatureSource:
        """A source that reads each image with both networks."""
        from layup.features.sources import JoinedRows

        both = {"frozen": backbone.frozen, "tuned": backbone}
        return JoinedRows({name: self.of.build(each, reading) for name, each in both.items()})


@dataclass(frozen=True)
class Normalised(Mapped):
    """Other features scaled to length 1, after each value was raised to a power: see `NormalisedRows`."""

    kind = "normalised"
    fields: ClassVar = {"of": FIELDS, "power": POSITIVE}

    power: float = 1.0

    def build(self, backbone: Backbone, reading: Reading) -> FeatureSource:
        """A source that scales the rows of the other features."""
        from layup.features.sources import NormalisedRows

        return NormalisedRows(self.of.build(backbone, reading), self.power)

    def resolved(self, backbone: Backbone) -> Self:
        """With the other features resolved, and the power checked."""
        _require(self.power, POSITIVE, "power")
        return super().resolved(backbone)


@dataclass(frozen=True)
class Fourier(Mapped):
    """Random Fourier features of other features, which follow from the seed: see `FourierRows`."""

    kind = "fourier"
    fields: ClassVar = {"of": FIELDS, "width": whole(1), "gamma": POSITIVE, "seed": whole()}

    width: int = 10_000
    gamma: float = 1.0
    seed: int = 0

    def build(self, backbone: Backbone, reading: Reading) -> FeatureSource:
        """A source of Fourier features of the rows of the other features."""
        from layup.features.sources import FourierRows

        return FourierRows(self.of.build(backbone, reading), self.width, self.gamma, self.seed)

    def resolved(self, backbone: Backbone) -> Self:
        """With the other features resolved, width and γ checked."""
        _require(self.width, whole(1), "width")
        _require(self.gamma, POSITIVE, "gamma")
        return super().resolved(backbone)


@dataclass(frozen=True)
class Rounded(Mapped):
    """Other features, rounded so that their sums are exact: see `RoundedRows`.

    steps: the exponent of the step of each layer, by default as measured on fixed pictures.
    """

    kind = "rounded"
    fields: ClassVar = {"of": FIELDS, "steps": [whole(*EXPONENTS)]}

    steps: tuple[int, ...] | None = None

    @property
    def plain(self) -> FeatureSpec:
        """The other features."""
        return self.of

    def build(self, backbone: Backbone, reading: Reading) -> FeatureSource:
        """A source that rounds the rows of the other features."""
        from layup.features.rounding import RoundedRows

        source = self.of.build(backbone, reading)
        steps = self.resolved(backbone).steps or ()
        return RoundedRows(source, dict(zip(source.layers, steps, strict=True)))

    def resolved(self, backbone: Backbone) -> Self:
        """With the other features resolved, and the steps measured with this network."""
        found = super().resolved(backbone)
        if self.steps is not None:
            return found
        from layup.features.rounding import measured_steps

        uncounted = backbone.counted()  # passes of pictures are none of images
        source = self.of.build(uncounted, {"cache": False})
        return replace(found, steps=(*measured_steps(source, uncounted).values(),))

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {**super().to_dict(), "steps": list(self.steps or ())}

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> FeatureSpec:
        """The spec with these values."""
        return super().from_fields({**values, "steps": tuple(values["steps"])})


Specs: TypeAlias = (
    type[LastLayers]
    | type[OneLayer]
    | type[Embedding]
    | type[MeanOfLayers]
    | type[Projected]
    | type[FrozenAndTuned]
    | type[Normalised]
    | type[Fourier]
    | type[Rounded]
)
EVERY: tuple[Specs, ...] = (
    LastLayers,
    OneLayer,
    Embedding,
    MeanOfLayers,
    Projected,
    FrozenAndTuned,
    Normalised,
    Fourier,
    Rounded,
)
SPECS: dict[str, Specs] = {each.kind: each for each in EVERY}


def spec_from(values: Any, name: str = "features") -> FeatureSpec:
    """The inverse of `to_dict`; a `ValueError` says what is wrong.

    >>> spec_from({"kind": "last layers", "k": 0})
    Traceback (most recent call last):
    ValueError: features.k is 0, not a whole number from 1 to 9223372036854775807
    """
    schema.require(values, FIELDS, name)
    kind = values.get("kind")
    schema.require(kind, schema.one_of(*SPECS), f"{name}.kind")
    spec = SPECS[kind]
    given = {field: value for field, value in values.items() if field != "kind"}
    schema.require(given, spec.fields, name)
    return spec.from_fields(given)


def _require(value: Any, rule: Rule, name: str) -> None:
    """Refuse a value that random features, or powers of features, cannot have."""
    if not rule.holds(value):
        raise InputError(f"{name} = {value!r} is impossible for features. Use {rule.words}.")


def _extractor(backbone: Backbone, layers: tuple[str, ...], reading: Reading) -> FeatureSource:
    from layup.features.extract import extractor_of

    return extractor_of(backbone, layers, reading)
