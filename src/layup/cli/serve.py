"""`layup serve`: a page and an API on one live model."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layup.cli import console
from layup.cli.app import app
from layup.cli.networks import Wanted
from layup.cli.options import AllowBackbone, Backbone, Engine, InputSize, K, NoCache, PerClass, Weights
from layup.errors import InputError
from layup.formats import plural

if TYPE_CHECKING:
    from layup.serving import Facts, RequestLimits

SERVER = "Who may ask"
TAKES = "What it takes"
"""Headings in the help."""
MB = 1_000_000


@app.command()
def serve(
    model: Annotated[
        Path | None,
        typer.Argument(
            help="A .layup file; created if it is not there. Without one, a new model in memory alone.",
            metavar="MODEL",
            show_default=False,
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at. Any other than this machine's own needs --token.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0: any free one.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(help="Who has it may do everything.", envvar="LAYUP_TOKEN", rich_help_panel=SERVER),
    ] = None,
    read_token: Annotated[
        str | None,
        typer.Option(
            help="Who has it may ask, but not teach.", envvar="LAYUP_READ_TOKEN", rich_help_panel=SERVER
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Another name by which this server is asked, such as that of a proxy.",
            rich_help_panel=SERVER,
        ),
    ] = None,
    demo: Annotated[
        bool, typer.Option("--demo", help="Begin with a few handwritten digits, and pictures to try.")
    ] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Only read, and follow what another server teaches the same file."),
    ] = False,
    label_studio: Annotated[
        str | None,
        typer.Option(
            help="Work with the Label Studio at this address; its key is read from LABEL_STUDIO_API_KEY.",
            metavar="URL",
            show_default=False,
        ),
    ] = None,
    max_request: Annotated[
        int, typer.Option(help="MB of one request.", metavar="MB", min=1, rich_help_panel=TAKES)
    ] = 256,
    max_photo: Annotated[
        int, typer.Option(help="MB of one photo.", metavar="MB", min=1, rich_help_panel=TAKES)
    ] = 64,
    max_pixels: Annotated[
        int,
        typer.Option(
            help="Millions of pixels of one photo: all of them are in memory while it is read.",
            metavar="MILLIONS",
            min=1,
            rich_help_panel=TAKES,
        ),
    ] = 64,
    rate: Annotated[
        int,
        typer.Option(
            help="Requests of one client per second; twice as many may come together.",
            min=1,
            rich_help_panel=TAKES,
        ),
    ] = 1000,
    no_cache: NoCache = False,
    per_class: PerClass = False,
    backbone: Backbone = None,
    weights: Weights = None,
    allow_backbone: AllowBackbone = False,
    input_size: InputSize = None,
    k: K = None,
    engine: Engine = None,
) -> None:
    """Teach and ask in the browser, and over HTTP: a page and an API on one live model.

    layup serve m.layup                    then open the address that it prints
    layup serve --demo                     digits, at once
    layup serve m.layup --host 0.0.0.0 --token SECRET

    Every lesson is safe in the file before it is acknowledged. Photos are never
    written or kept. Ctrl-C ends the server, when all that it accepted is done.
    """
    if follow and (demo or model is None):
        raise InputError("A server that follows needs the file of another one: layup serve MODEL --follow.")
    wanted = Wanted(backbone, input_size, engine, k, per_class=per_class)
    if model is not None and model.exists():
        _require_as_it_is(model, wanted, demo)
    from layup import serving

    serving.require_installed()
    limits = _limits(max_request, max_photo, max_pixels, rate)
    tokens = serving.Tokens(token, read_token)
    serving.require_token(host, tokens)
    reading = {"cache": not no_cache, "progress": False}
    with (
        serving.listening(host, port) as bound,
        serving.LiveModel.open(
            model,
            new=lambda: replace(wanted, reading=reading).new(weights),
            follow=follow,
            loading={"weights": weights, "allow_backbone": allow_backbone, **reading},
            on_wait=lambda holder: console.remark(f"Waiting: '{model}' is in use by {holder} …"),
        ) as live,
        serving.following(live, label_studio, os.environ.get("LABEL_STUDIO_API_KEY"), model) as teacher,
    ):
        shown = serving.demo(live) if demo else None
        hosts = serving.Hosts.of(host, allow_host or [])
        _introduce(model, live.facts())
        address = serving.address_of(bound, host)
        with serving.Service.of(live, hosts, tokens, limits, shown, teacher) as service:
            serving.serve(serving.create_app(service), bound, limits, lambda: _announce(address))
    console.remark("Stopped. All that was acknowledged is done.")


def _limits(max_request: int, max_photo: int, max_pixels: int, rate: int) -> RequestLimits:
    """What the server takes, from the options."""
    from layup.serving import RequestLimits

    if max_photo > max_request:
        raise InputError(
            f"A photo of {max_photo} MB would not fit into a request of {max_request} MB. Allow requests "
            "that are at least as large as photos.",
            about="max_request",
        )
    body = max_request * MB
    return RequestLimits(
        body=body,
        image=max_photo * MB,
        pixels=max_pixels * 10**6,
        rate=rate,
        burst=2 * rate,
        held=max(RequestLimits.held, 2 * body),
    )


def _require_as_it_is(model: Path, wanted: Wanted, demo: bool) -> None:
    """Refuse options that only a new model can have."""
    if demo:
        raise InputError(
            f"'{model}' is a model already, and the demo would teach it digits. Leave --demo out, or name a "
            "file that is not there yet."
        )
    if not wanted.any_network or wanted.per_class:
        raise InputError(
            f"'{model}' is a model already, and keeps what it was made with: leave --backbone, --input-size, "
            "--engine, --k and --per-class out, or name a file that is not there yet."
        )


def _announce(address: str) -> None:
    """The last line, at once, also to a program that waits for it."""
    console.say(address)
    console.out.file.flush()


def _introduce(model: Path | None, facts: Facts) -> None:
    """What is served, before the address, which is the last line."""
    name = "A model in memory alone, which ends with the server" if model is None else f"'{model}'"
    classes = plural(len(facts.counts), "class", "es")
    console.say(f"{name}: {classes} from {plural(sum(facts.counts.values()), 'photo')}.")
