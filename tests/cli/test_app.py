"""How failures end: a sentence, and the option that it is about, if the command has one."""

from __future__ import annotations

import re

import pytest

from layup.cli import console
from layup.errors import InputError


@pytest.mark.parametrize(
    ("command", "about", "said"),
    [
        (("run", "--dataset", "digits"), "learning_rate", "Too fast. The option is --learning-rate."),
        (("run", "--dataset", "digits"), "adapter", "Too fast. The option is --adapt."),
        (("methods", "l2p"), "learning_rate", "Too fast."),
        (("datasets", "check", "digits"), "data", "Too fast. The option is --data."),
        (("run", "--dataset", "digits"), None, "Too fast."),
    ],
)
def test_a_command_adds_the_option_that_an_error_is_about(layup, monkeypatch, command, about, said):
    def fail(*_, **__):
        raise InputError("Too fast.", about=about)

    monkeypatch.setattr("layup.benchmark.run_spec.load_dataset", fail)
    monkeypatch.setattr("layup.benchmark.datasets.check_dataset", fail)
    monkeypatch.setattr(console, "say", fail)
    result = layup(*command)
    assert result.code == 1
    assert result.err == f"Error: {said}\n"


def test_the_help_lists_what_people_do_first(ok):
    """Learn, predict, evaluate; research comes last, under its own heading, in the order of its list."""
    shown = re.findall(r"^│ (\w+) ", ok("--help").out, re.MULTILINE)
    assert shown[:3] == ["learn", "predict", "evaluate"]
    assert shown[-7:] == ["run", "compare", "plot", "reproduce", "methods", "bench", "datasets"]


def test_options_that_few_need_have_headings_of_their_own(ok):
    panels = re.split(r"^╭─ ", ok("learn", "--help").out, flags=re.MULTILINE)
    options = {panel.partition(" ─")[0]: re.findall(r"│ \*? *(--[\w-]+)", panel) for panel in panels[1:]}
    assert options["Options"][0] == "--to"
    assert {"--backbone", "--weights", "--input-size", "--k", "--engine"} <= {*options["Network"]}
    tuning = ["--adapt", "--preset", "--epochs", "--learning-rate", "--seed"]
    assert options["Tune the network first (advanced)"] == tuning
