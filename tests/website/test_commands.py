"""The reference of the command line names every command, argument and option, as the help does."""

from __future__ import annotations

import doctest

import pytest

from layup.cli.app import built
from website import commands

REFERENCE = commands.reference()


def every_command(group, path="layup"):
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if hasattr(command, "commands"):
            yield from every_command(command, f"{path} {name}")


ALL = dict(every_command(built()))


def section(path: str) -> str:
    """What is said of a command, up to the next one."""
    return REFERENCE.split(f"### {path}\n")[1].split("### ")[0]


def test_examples_in_docstrings():
    found = doctest.testmod(commands)
    assert found.attempted > 0
    assert found.failed == 0


def test_there_are_commands():
    assert len(ALL) >= 25
    assert {"layup learn", "layup cache clear", "layup datasets check"} <= set(ALL)
    assert REFERENCE.count("\n### layup ") == len(ALL)


@pytest.mark.parametrize("path", ALL)
def test_every_option_has_its_help(path):
    said = section(path)
    for parameter in ALL[path].params:
        if parameter.hidden:
            continue
        for option in [*parameter.opts, *parameter.secondary_opts]:
            assert (option if option.startswith("-") else (parameter.metavar or option).upper()) in said
        help_text = " ".join((parameter.help or "").split()).replace("\\[", "[").replace("|", "\\|")
        assert help_text in said


def test_options_show_their_values_and_defaults():
    learn = section("layup learn")
    assert "| `--shard PLAN NUMBER` |" in learn
    assert "| `--balance`, `--no-balance` |" in learn
    assert "Default: `1000`." in learn
    assert "pip install 'layup-cl[ray]'" in learn


def test_help_with_commands_is_code():
    assert commands.prose("First.\n\nlayup run --dataset digits \\\n    --k 1\n\nThen.") == (
        "First.\n\n```text\nlayup run --dataset digits \\\n    --k 1\n```\n\nThen.\n"
    )


def test_the_page_has_a_place_for_it():
    from website.repository import ROOT

    assert (ROOT / "docs" / "commands.md").read_text().count(commands.PLACE) == 1
