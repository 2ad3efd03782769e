"""`layup methods`: what there is, and all of one."""

from __future__ import annotations

import pytest

from layup.benchmark.methods import METHODS, method_class


def test_all_methods_are_listed_with_what_they_do_and_where(ok):
    listed = ok("methods").out
    for name in METHODS:
        [line] = [line for line in listed.splitlines() if line.startswith(f"│ {name} ")]
        cells = [cell.strip() for cell in line.strip("│").split("│")]
        kind = method_class(name)
        assert cells == [
            name,
            kind.summary() if name == kind.name else f"Another name of {kind.name}",
            ", ".join(kind.settings),
            "yes" if kind.adapts else "",
        ]


@pytest.mark.parametrize("name", METHODS)
def test_a_method_tells_what_it_computes_keeps_costs_and_needs_and_every_option(ok, name):
    told = ok("methods", name).out
    text = told.partition("┏")[0]
    for word in ("Keeps", "Costs", "Needs"):
        assert word in text, f"{name} does not say what it {word.lower()}"
    for option, default in method_class(name).option_defaults().items():
        assert f"{option}:" in text or f"{option}," in text, f"{name} does not explain {option}"
        assert option in told.partition("┏")[2]
        assert default in told.partition("┏")[2]


def test_a_second_name_is_called_that_and_explained_like_the_first(ok):
    others = {name: first for name in METHODS.built_in if (first := method_class(name).name) != name}
    assert others == {"aper": "adam", "gacl": "acil"}
    told = ok("methods", "aper").out
    assert told == "Another name of adam.\n\n" + ok("methods", "adam").out


def test_an_unknown_method_is_one_sentence_with_a_guess(refused):
    refused("methods", "ranpack", says=["Unknown method 'ranpack'", "Did you mean 'ranpac'?"])
