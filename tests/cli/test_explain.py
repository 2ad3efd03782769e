"""`layup explain`: a table with bars, a sentence, a picture, JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from PIL import Image

from layup import load
from layup.cli.explain import _bar
from photos import name

PHOTO = f"test/{name(0)}/060.png"


def test_explain_prints_what_each_layer_says_and_a_sentence(here, ok):
    result = ok("explain", "m.layup", PHOTO, "--no-heat")
    found = load("m.layup").explain(PHOTO, heat=False)
    rows = dict(re.findall(r"^│ ([\w. ]+?) +│.*│ +([+−]?[\d.]+) │$", result.out, re.MULTILINE))
    assert [*rows] == [*(part.layer for part in found.parts), "all together"]
    numbers = [float(number.replace("−", "-")) for number in rows.values()]
    assert numbers[:-1] == pytest.approx([part.lead for part in found.parts], abs=6e-4)
    assert sum(numbers[:-1]) == pytest.approx(numbers[-1], abs=0.01)
    assert "│██████████" in result.out
    assert result.out.splitlines()[-1] == found.summary
    assert result.err == ""


def test_explain_draws_a_picture_and_says_where_in_the_photo(here, ok):
    result = ok("explain", "m.layup", PHOTO, "--to", "why.png")
    assert "Covering the " in result.out
    assert result.out.endswith("Picture: why.png\n")
    with Image.open("why.png") as picture:
        assert picture.width > 1000


def test_explain_prints_json(here, ok):
    found = json.loads(ok("explain", "m.layup", PHOTO, "--json").out)
    expected = load("m.layup").explain(PHOTO).to_dict()
    assert found.pop("path") == PHOTO
    assert found.pop("picture") is None
    assert [*found] == [*expected]
    assert found["label"] == name(0)
    assert found["lead"] == pytest.approx(expected["lead"])
    assert found["heat"]["where"] == expected["heat"]["where"]


def test_scores_that_are_not_sums_over_layers_are_said_to_be(here, ok):
    from layup import NMC
    from photos import batch

    model = NMC("vit-nano", cache=False)
    model.learn(*batch({0: 2, 1: 2}))
    model.save("nmc.layup")
    assert "not sums over layers" in ok("explain", "nmc.layup", PHOTO, "--no-heat").out


def test_what_cannot_be_explained_is_refused_in_a_sentence(here, refused):
    Path("bad.png").write_bytes(b"not a picture")
    refused("explain", "m.layup", "bad.png", says=["bad.png"])
    refused("explain", "m.layup", "test", says=["has 9 photos", "one is explained at a time"])
    refused("explain", "m.layup", "none.png", says=["There is no file or folder 'none.png'"])
    refused("explain", "m.layup", PHOTO, "--to", "why.doc", says=["must end with .png"])
    refused("explain", PHOTO, "m.layup", says=["Did you mean: layup explain m.layup"])


def test_bars_grow_from_the_middle():
    assert _bar(1.0) == " " * 10 + "│" + "█" * 10
    assert _bar(-1.0) == "█" * 10 + "│"
    assert _bar(0.0) == " " * 10 + "│"
