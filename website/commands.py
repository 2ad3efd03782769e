"""The reference of the command line, from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import layup.cli  # noqa: F401 (its commands enter themselves)
from layup.cli.app import RESEARCH, built

PLACE = "<!-- commands -->"
"""What this reference takes the place of in `docs/commands.md`."""


def reference() -> str:
    """All commands with their options, in Markdown, in the order of the help."""
    everyday: list[tuple[str, Any]] = []
    research: list[tuple[str, Any]] = []
    for name, command in built().commands.items():
        panel = getattr(command, "rich_help_panel", None)
        (research if panel == RESEARCH else everyday).append((f"layup {name}", command))
    return "\n".join(
        [
            "## Models and photos\n",
            *(_described(path, command) for path, command in everyday),
            f"## {RESEARCH}\n",
            *(_described(path, command) for path, command in research),
        ]
    )


def _described(path: str, command: Any) -> str:
    parts = [f"### {path}\n", prose(command.help or ""), *_tables(command)]
    parts += [_described(f"{path} {name}", each) for name, each in getattr(command, "commands", {}).items()]
    return "\n".join(parts)


def prose(text: str) -> str:
    """A help text in Markdown: runs of lines with commands become code.

    >>> print(prose("Learn.\\n\\nlayup learn photos/\\nNothing is [bold]kept[/]."))
    Learn.
    <BLANKLINE>
    ```text
    layup learn photos/
    ```
    <BLANKLINE>
    Nothing is **kept**.
    <BLANKLINE>
    """
    blocks: list[tuple[bool, list[str]]] = []
    for line in text.splitlines():
        continued = bool(blocks) and blocks[-1][0] and blocks[-1][1][-1].endswith("\\")
        command = line.startswith("layup ") or continued
        if not blocks or blocks[-1][0] != command or not line:
            blocks.append((command, []))
        blocks[-1][1].append(line)
    return "\n".join(_block(command, lines) for command, lines in blocks if any(lines))


def _block(command: bool, lines: list[str]) -> str:
    if not command:
        return _plain("\n".join(lines).strip()) + "\n"
    return "\n".join(["```text", *lines, "```\n"])


def _plain(text: str) -> str:
    """Without the markup of the terminal."""
    return re.sub(r"\[bold\](.*?)\[/\]", r"**\1**", text).replace("\\[", "[")


def _tables(command: Any) -> Iterator[str]:
    panels: dict[str, list[Any]] = {}
    for parameter in command.params:
        if not parameter.hidden and parameter.name != "help":
            panels.setdefault(parameter.rich_help_panel or "", []).append(parameter)
    for panel, parameters in panels.items():
        rows = [f"| {_names(each)} | {_cell(each.help or '')}{_default(each)} |" for each in parameters]
        yield "\n".join([f"| {panel or 'argument or option'} | what it does |", "|---|---|", *rows, ""])


def _names(parameter: Any) -> str:
    if parameter.opts[0].startswith("-"):
        value = "" if parameter.is_flag else f" {parameter.metavar or _value(parameter)}"
        return ", ".join(f"`{name}{value}`" for name in [*parameter.opts, *parameter.secondary_opts])
    name = (parameter.metavar or parameter.name).upper()
    return f"`{name}`" + ("" if parameter.required else " (optional)")


def _value(parameter: Any) -> str:
    return getattr(parameter.type_descriptor.annotation, "__name__", "value").upper()


def _default(parameter: Any) -> str:
    value = parameter.default
    if (
        not parameter.show_default
        or value is None
        or isinstance(value, bool)
        or callable(value)
        or value == ()
    ):
        return ""
    return f" Default: `{getattr(value, 'value', value)}`."


def _cell(text: str) -> str:
    return _plain(" ".join(text.split())).replace("|", "\\|")
