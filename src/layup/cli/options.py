"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layup.errors import InputError

if TYPE_CHECKING:
    from layup.tuning import FirstSession

NoCache = Annotated[bool, typer.Option("--no-cache", help="Do not use the feature cache.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Weights = Annotated[
    Path | None,
    typer.Option(help="A weights file for a timm backbone. For an existing model: where that file is now."),
]
AllowBackbone = Annotated[
    bool,
    typer.Option(
        "--allow-backbone",
        help="Allow loading the network from where the model file says: a path, or a new download.",
    ),
]
Workers = Annotated[
    int | None, typer.Option(help="How many processes decode images. Default: as needed.", min=0)
]
Engine = Annotated[
    str | None,
    typer.Option(
        help="How the network is computed: eager (default, plain PyTorch), folded (faster with batch norms), "
        "or onnx (fastest on a CPU; pip install 'layup-cl\\[onnx]'). Same features, up to rounding."
    ),
]


def first_session(adapt: str | None, **options: Any) -> FirstSession | None:
    """The first session that the options describe, if any."""
    from layup.tuning import FirstSession

    values = given(options)
    if adapt is not None:
        return FirstSession(adapt, **values)
    if values:
        option = next(iter(values)).replace("_", "-")
        raise InputError(f"--{option} says how to tune the network: give --adapt as well.")
    return None


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def option_values(written: Iterable[str]) -> dict[str, Any]:
    """Options of a method, written as NAME=VALUE.

    >>> option_values(["width=2000", "learning-rate=0.1", "lam=gcv"])
    {'width': 2000, 'learning_rate': 0.1, 'lam': 'gcv'}
    """
    values: dict[str, Any] = {}
    for text in written:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"{text!r} is not an option of a method. Write NAME=VALUE, such as epochs=5.")
        try:
            values[name.strip().replace("-", "_")] = json.loads(value)
        except ValueError:
            values[name.strip().replace("-", "_")] = value.strip()  # a word
    return values


def number_or_rule(text: str | None) -> float | str | None:
    """A number, if it is one.

    >>> number_or_rule("0.5"), number_or_rule("gcv")
    (0.5, 'gcv')
    """
    try:
        return text if text is None else float(text)
    except ValueError:
        return text
