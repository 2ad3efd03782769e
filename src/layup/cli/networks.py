"""The model that a command is to extend: the one in the file, or a new one with the wanted network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from layup.cli.app import option_of
from layup.cli.files import loaded_model
from layup.errors import InputError

if TYPE_CHECKING:
    from layup.model import ImageModel
    from layup.tuning import FirstSession


@dataclass(frozen=True)
class Wanted:
    """What a new model is made of. An existing model has all of this, and keeps it."""

    backbone: str | None = None
    input_size: int | None = None
    engine: str | None = None
    k: int | None = None
    session: FirstSession | None = None
    anonymous: bool = False
    per_class: bool = False
    ridge: Mapping[str, Any] = field(default_factory=dict)
    """Options of the paper's classifier: for a new model, they choose it."""
    reading: Any = field(default_factory=dict)

    @property
    def any_network(self) -> bool:
        """Whether the network of an existing model is right, whatever it is."""
        return (self.backbone, self.input_size, self.engine, self.k, self.session) == (None,) * 5

    def opened(self, path: Path, weights: Path | None, allow_backbone: bool) -> ImageModel:
        """The model at this path; a new one if there is none."""
        if not path.exists():
            return self.new(weights)
        model = loaded_model(path, weights, allow_backbone, **self.reading)
        self._require_same(model, path)
        return model.configure(**self.ridge)

    def new(self, weights: Path | None) -> ImageModel:
        """A model that has learned nothing."""
        from layup.backbones import EAGER, load_backbone
        from layup.model import LayUP

        network = load_backbone(
            self.backbone or "bundled",
            weights=weights,
            input_size=self.input_size,
            engine=self.engine or EAGER,
        )
        return LayUP(
            network,
            self.k,
            adapter=self.session,
            anonymous=self.anonymous,
            per_class=self.per_class,
            **self.ridge,
            **self.reading,
        )

    def _require_same(self, model: ImageModel, path: Path) -> None:
        from layup.backbones import full_name

        if self.session is not None:
            raise InputError(
                f"'{path}' is a model already: it holds sums of features, and tuning the network now would "
                "change all these features. Leave --adapt out, or start a new model with another --to."
            )
        found: dict[str, tuple[object, Callable[[], object]]] = {
            "backbone": (self.backbone and full_name(self.backbone), lambda: model.backbone_.name),
            "input_size": (self.input_size, lambda: model.backbone_.preprocessing.size[0]),
            "k": (self.k, lambda: len(model.statistics_.layers)),
            "engine": (self.engine, lambda: model.network.engine),
        }
        for name, (wanted, have) in found.items():
            if wanted is not None and wanted != (value := have()):
                option = option_of(name)
                raise InputError(
                    f"'{path}' was made with {option} {value}, not {wanted}. A model keeps these: "
                    f"leave {option} out, or start a new model with another --to."
                )
        if self.ridge and "lam" not in model.classifier.get_params():
            option = option_of(next(iter(self.ridge)))
            raise InputError(
                f"'{path}' has no use for {option}: its classifier makes its choices from the sums. Leave "
                f"{option} out, or start a new model with another --to."
            )
        for name, asked, has in (
            ("anonymous", self.anonymous, model.photos is None),
            ("per_class", self.per_class, model.per_class),
        ):
            if asked and not has:
                raise InputError(
                    f"'{path}' was made without {option_of(name)}, and has learned photos since: only a new "
                    "model can have it. Leave it out, or start a new model with another --to."
                )
