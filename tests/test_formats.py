"""How numbers are shown, and what text may be shown as it is."""

from __future__ import annotations

import csv
import io
import json
import sys
from unicodedata import category

import numpy as np
import pytest

from layup.formats import (
    csv_text,
    duration,
    floored_percent,
    has_controls,
    json_text,
    percent,
    points,
    printable,
    seconds,
    size_of,
    whole_percent,
)

DIRECTIONS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
EVERY = [chr(code) for code in range(sys.maxunicode + 1)]
CONTROLS = [each for each in EVERY if has_controls(each)]


def test_controls_are_those_of_unicode_and_what_turns_the_direction() -> None:
    kinds = ("Cc", "Cs", "Zl", "Zp")
    assert [each for each in EVERY if category(each) in kinds or each in DIRECTIONS] == CONTROLS


def test_no_control_is_overlooked_in_a_longer_text() -> None:
    assert all(has_controls(f"a{control}b") for control in CONTROLS)


@pytest.mark.parametrize("text", ["", "tabby", "perro ñ", "犬", "👩‍👩‍👧", "می‌خواهم", "a\u00a0b", "[red]"])
def test_words_of_people_stay_as_they_are(text: str) -> None:
    assert not has_controls(text)
    assert printable(text) == text
    assert json_text(text) == f'"{text}"'
    assert csv_text([[text, "x"]]) == f"{text},x\n"


def test_what_is_printable_has_no_control_left_and_is_one_line() -> None:
    shown = printable("".join(CONTROLS))
    assert not has_controls(shown)
    assert len(shown.splitlines()) == 1
    shown.encode("utf-8")


@pytest.mark.parametrize("indent", [None, 2])
def test_json_with_every_control_is_one_text_and_loses_none(indent: int | None) -> None:
    value = {f"a{control}b": [f"{control}", 1.5, None] for control in CONTROLS}
    text = json_text(value, indent=indent)
    assert not has_controls(text.replace("\n", ""))
    assert json.loads(text) == value
    assert json_text(value, ascii_only=True).isascii()


@pytest.mark.parametrize("control", ["\r", "\n", "\t", "\0", "\x1b", '"', ",", "'", " "])
@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20"])
def test_no_cell_is_computed(start: str, control: str) -> None:
    cells = [f"{start}1+1", f"{control}{start}1+1", f"{start}{control}", start]
    text = csv_text([cells, cells])
    rows = list(csv.reader(io.StringIO(text)))
    assert [len(row) for row in rows] == [4, 4]
    assert rows[0] == rows[1]
    for given, found in zip(cells, rows[0], strict=True):
        assert found[0] not in f"{start}\t\r\n"
        assert found.removeprefix("'" if given.startswith(start) else "") == printable(given)


def test_numbers_stay_numbers() -> None:
    assert (
        csv_text([[-1, -0.25, float("-inf"), np.float64(-0.5), True, None]]) == "-1,-0.25,-inf,-0.5,True,\n"
    )


# Numbers


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (169_900_000, "169.9 MB"), (2.4e13, "24000.0 GB")],
)
def test_sizes_are_in_the_unit_that_suits_them(count: float, shown: str) -> None:
    assert size_of(count) == shown


def test_rough_times_are_in_seconds_minutes_or_hours() -> None:
    assert [duration(value) for value in (0.2, 99, 100, 5399, 5400)] == [
        "0 s",
        "99 s",
        "2 min",
        "90 min",
        "1.5 h",
    ]


def test_measured_times_have_three_digits() -> None:
    assert [seconds(value) for value in (5e-6, 0.661, 1.0, 8.784, 999.4, 12345.6)] == [
        *("0.005 ms", "661 ms", "1 s", "8.78 s", "999 s", "12,346 s")
    ]


def test_no_share_is_a_dash() -> None:
    assert percent(None) == percent(float("nan")) == floored_percent(None) == "–"


def test_a_share_is_never_rounded_up_to_all() -> None:
    assert [floored_percent(value) for value in (0.99999, 0.5, 0.0)] == ["99.99 %", "50 %", "0 %"]


def test_signs_are_those_of_people() -> None:
    assert (whole_percent(-0.08), points(-0.0301), points(0.012), points(-0.0004)) == (
        "−8 %",
        "−3.0",
        "+1.2",
        "0.0",
    )
