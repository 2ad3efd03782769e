"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layup.errors import InputError

if TYPE_CHECKING:
    from layup.cluster import Cluster
    from layup.tuning import FirstSession

NETWORK = "Network"
MACHINES = "Several processors or machines"
TUNING = "Tune the network first (advanced)"
"""Headings of options in the help."""


def checked_rule(text: str | None) -> str | None:
    """A way to choose λ, checked before a network is loaded."""
    rule = number_or_rule(text)
    if rule is not None:
        from layup.algebra import require_rule

        require_rule(rule)
    return text


def number_or_rule(text: str | None) -> float | str | None:
    """A number, if it is one.

    >>> number_or_rule("0.5"), number_or_rule("gcv")
    (0.5, 'gcv')
    """
    try:
        return text if text is None else float(text)
    except ValueError:
        return text


def cluster_of(ray: bool, address: str | None, allow_addresses: bool = False) -> Cluster | None:
    """The cluster that is asked for, if one is."""
    if not ray and address is None:
        return None
    if allow_addresses:
        raise InputError("With --ray, no photos are fetched: leave --allow-addresses out.")
    from layup.cluster import Cluster

    return Cluster(address)


NoCache = Annotated[bool, typer.Option("--no-cache", help="Do not use the feature cache.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Weights = Annotated[
    Path | None,
    typer.Option(
        help="A weights file for a timm backbone. For an existing model: where that file is now.",
        rich_help_panel=NETWORK,
    ),
]
AllowBackbone = Annotated[
    bool,
    typer.Option(
        "--allow-backbone",
        help="Allow loading the network from where the model file says: a path, or a new download.",
        rich_help_panel=NETWORK,
    ),
]
AllowAddresses = Annotated[
    bool,
    typer.Option(
        "--allow-addresses",
        help="Fetch photos from addresses (https, http, s3, gs, file), wherever lists say: "
        "pip install 'layup-cl\\[remote]'.",
    ),
]
Workers = Annotated[
    int | None, typer.Option(help="How many processes decode images. Default: as needed.", min=0)
]
Ray = Annotated[
    bool,
    typer.Option(
        "--ray",
        help="Use all processors of this machine, or of the cluster at --address: pip install "
        "'layup-cl\\[ray]'.",
        rich_help_panel=MACHINES,
    ),
]
Address = Annotated[
    str | None, typer.Option(help="Address of a Ray cluster. Implies --ray.", rich_help_panel=MACHINES)
]
Engine = Annotated[
    str | None,
    typer.Option(
        help="How the network is computed: eager (default, plain PyTorch), folded (faster with batch norms), "
        "or onnx (fastest on a CPU; pip install 'layup-cl\\[onnx]'). Same features, up to rounding.",
        rich_help_panel=NETWORK,
    ),
]

LabelColumn = Annotated[
    str | None,
    typer.Option(
        "--label",
        help="The column of labels in a list, or the field of an export, if there are several.",
        metavar="NAME",
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(
        help="The folder of the photos that an export of FiftyOne or Label Studio lists. Default: its own."
    ),
]

_PHOTOS = typer.Argument(
    help="A folder with one folder of photos per class, a zip or tar of it, WebDataset shards, "
    "a list of paths and labels (CSV, JSONL or Parquet), or an export of FiftyOne or Label Studio.",
    metavar="PHOTOS",
)
_TO = typer.Option(help="The model file. It is created, or extended if it exists.")
Photos = Annotated[Path, _PHOTOS]
OptionalPhotos = Annotated[Path | None, _PHOTOS]
To = Annotated[Path, _TO]
OptionalTo = Annotated[Path | None, _TO]
Backbone = Annotated[
    str | None,
    typer.Option(
        help="The pre-trained network: bundled (default), vit-nano, a timm name with its tag, or hf:NAME.",
        rich_help_panel=NETWORK,
    ),
]
InputSize = Annotated[
    int | None,
    typer.Option(help="Height and width of the network's input, in pixels.", rich_help_panel=NETWORK),
]
K = Annotated[
    int | None,
    typer.Option(help="How many of the last layers to use. Default: by backbone.", rich_help_panel=NETWORK),
]
Anonymous = Annotated[
    bool,
    typer.Option(
        "--anonymous",
        help="A new model that keeps no digests of photos: it cannot tell which photos it knows, so that a "
        "photo counts each time it is given, and none can be forgotten, moved or undone.",
    ),
]
PerClass = Annotated[
    bool,
    typer.Option(
        "--per-class",
        help="A new model that also keeps a root of the Gram matrix of each class, so that forget --class "
        "is exact without photos. Takes about as much memory as the features of all photos.",
    ),
]
Model = Annotated[Path, typer.Argument(help="A .layup file.", metavar="MODEL")]
SharedModel = Annotated[
    Path,
    typer.Argument(help="A .layup file; or hf:user/name, a model on the Hugging Face hub.", metavar="MODEL"),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first bad file instead of skipping it.")]
Lam = Annotated[
    str | None,
    typer.Option(
        help="Use the paper's classifier, with this rule for its ridge parameter λ: search (as in the "
        "paper), gcv, or a number. By default, all that is chosen follows from the sums.",
        callback=checked_rule,
    ),
]
Balance = Annotated[
    bool | None,
    typer.Option(
        "--balance/--no-balance",
        help="Use the paper's classifier, and give small and large classes the same weight, or not.",
    ),
]


def first_session(adapt: str | None, **options: Any) -> FirstSession | None:
    """The first session that the options describe, if any."""
    values = given(options)
    if adapt is not None:
        from layup.tuning import FirstSession as Session

        return Session(adapt, **values)
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
