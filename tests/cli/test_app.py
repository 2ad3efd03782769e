"""How failures end: a sentence, and the option that it is about, if the command has one."""

from __future__ import annotations

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
