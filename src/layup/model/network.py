"""The network of a model, loaded when first needed; for a model from a file, exactly the one it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import torch
from numpy.typing import NDArray

from layup.adapters import ADAPTERS, AdaptedBackbone, reattached
from layup.backbones import Backbone, elsewhere, load_backbone
from layup.errors import ConsentError, MismatchError
from layup.features import Reading
from layup.formats import brief
from layup.images import ImageSource
from layup.model.turns import Turn, in_turn
from layup.tuning import FirstSession


@dataclass(frozen=True)
class Origin:
    """What a file says about a network, the tensors of its adapter, and the layers that were summed.

    allowed: whether a network from elsewhere may be loaded because the file says so.
    """

    file: str
    about: Mapping[str, Any]
    tuned: Mapping[str, NDArray[Any]]
    layers: Mapping[str, int]
    allowed: bool

    @classmethod
    def of(
        cls,
        file: str | Path,
        about: Mapping[str, Any],
        tuned: Mapping[str, NDArray[Any]],
        layers: Mapping[str, int],
        *,
        weights: str | Path | None,
        allow_backbone: bool,
    ) -> Self:
        """With the options of loading: whoever says where the weights are allows them."""
        if weights is None:
            return cls(str(file), about, tuned, layers, allow_backbone)
        return cls(str(file), relocated(about, weights), tuned, layers, allowed=True)


@dataclass(frozen=True)
class Identity:
    """A backbone, to compare by fingerprint and to print by name."""

    fingerprint: str
    name: str = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name} ({self.fingerprint[:12]})"


class Network:
    """A backbone by name, already loaded, or as a file asks for it; adapted at most once."""

    def __init__(self, wanted: str | Backbone, origin: Origin | None = None) -> None:
        self.wanted = wanted
        self.origin = origin
        self.turn = Turn()
        self._loaded: Backbone | None = None

    @property
    @in_turn
    def backbone(self) -> Backbone:
        """The backbone itself."""
        if self._loaded is None:
            self._loaded = self._load() if self.origin is None else self._as_filed(self.origin)
        return self._loaded

    @in_turn
    def adapt(
        self,
        /,
        images: Sequence[ImageSource],
        labels: Sequence[str],
        session: FirstSession,
        reading: Reading,
        **options: Any,
    ) -> None:
        """Tune it to the first batch; from then on it is frozen."""
        from layup.tuning import adapt  # here, because it imports torchvision, which takes seconds

        before = self.backbone
        # An earlier attempt at the first batch may have tuned it and then failed.
        base = before if before is self.wanted else before.frozen
        workers, progress = reading.get("workers"), reading.get("progress")
        self._loaded = adapt(base, images, labels, session, workers=workers, progress=progress, **options)
        self.origin = None

    @in_turn
    def remove_adapter(self) -> None:
        """Be as before `adapt`."""
        tuned = self.backbone
        if isinstance(tuned, AdaptedBackbone) and tuned is not self.wanted:
            self._loaded, self.origin = tuned.frozen, None

    @in_turn
    def state(self) -> tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]:
        """What a file says about it, and the tensors of its adapter; what came from a file is not loaded."""
        if self.origin is not None:
            return self.origin.about, self.origin.tuned
        backbone = self.backbone
        about = {
            "name": backbone.name,
            "spec": backbone.spec,
            "fingerprint": backbone.fingerprint,
            "depth": backbone.depth,
            "engine": backbone.engine,
        }
        if not isinstance(backbone, AdaptedBackbone):
            return about, {}
        tuned = {name: value.cpu().numpy() for name, value in backbone.state().items()}
        return {**about, "adapted": backbone.to_dict()}, tuned

    @property
    def identity(self) -> Identity:
        """What it is."""
        about, _ = self.state()
        return Identity(about["fingerprint"], about["name"])

    @property
    def engine(self) -> str:
        """What computes its features."""
        engine: str = self.state()[0]["engine"]
        return engine

    @property
    def adapted(self) -> bool:
        """Whether it was tuned to a first batch."""
        return "adapted" in self.state()[0]

    def _load(self) -> Backbone:
        return self.wanted if isinstance(self.wanted, Backbone) else load_backbone(self.wanted)

    def _as_filed(self, origin: Origin) -> Backbone:
        """Exactly the backbone that the file names."""
        about = origin.about
        if isinstance(self.wanted, Backbone):
            loaded = self.wanted
        elif about["spec"] is None:
            raise MismatchError(
                f"This model was made with a custom network, {about['name']!r}. "
                "Give it to `load` as backbone=Backbone.from_module(…)."
            )
        else:
            loaded = _followed(origin)
        if loaded.engine != about["engine"]:
            # Otherwise what was learned could not be forgotten exactly.
            loaded = loaded.with_engine(about["engine"])
        if about.get("adapted") and not isinstance(loaded, AdaptedBackbone):
            if origin.allowed:  # also the adapter of an installed plug-in
                ADAPTERS.get(about["adapted"]["adapter"]["name"])
            state = {name: torch.from_numpy(array) for name, array in origin.tuned.items()}
            loaded = reattached(loaded, about["adapted"], state)
        if loaded.fingerprint != about["fingerprint"]:
            raise MismatchError(
                f"This model was made with the backbone {about['name']!r} of fingerprint "
                f"{about['fingerprint'][:12]}, but {loaded.name!r} has {loaded.fingerprint[:12]}: "
                "weights, layers or preprocessing differ. Use the backbone that the model was made with."
            )
        return loaded


def relocated(about: Mapping[str, Any], weights: str | Path) -> Mapping[str, Any]:
    """What a file says about a network whose weights are now elsewhere."""
    if about["spec"] is None:
        return about
    return {**about, "spec": {**about["spec"], "weights": str(Path(weights).absolute())}}


def _followed(origin: Origin) -> Backbone:
    """The backbone that a file says how to load, if that is allowed."""
    spec = origin.about["spec"]
    if not origin.allowed and (source := elsewhere(spec)) is not None:
        raise ConsentError(
            f"The model '{origin.file}' asks for {brief(source)} as its backbone "
            f"{brief(repr(spec['name']))}. A stranger's file can ask for anything. If you know where it "
            "comes from, allow it (allow_backbone), or name your own copy (weights).",
            about="allow_backbone",
        )
    return load_backbone(**spec, local_only=not origin.allowed)
