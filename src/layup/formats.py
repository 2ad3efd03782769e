"""How things are printed: sizes, shares, times; and text from outside, such as labels and file names."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable

# ASCII's and Latin-1's control characters, which terminals obey; marks that change the direction of text;
# line and paragraph breaks; and surrogates, which stand for the bytes of names that are not UTF-8.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

DASH = "–"
"""For a missing value."""

FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""Spreadsheets compute a cell that begins with one of these; the wide ones in some languages."""


# Text from outside


def has_controls(text: str) -> bool:
    """Whether some character controls a terminal, breaks a line, or stands for a byte that is not text.

    Joiners, which scripts and emoji need, are allowed.

    >>> [has_controls(each) for each in ("\\x1b", "tab\\nby", "\\u202e", "\\udcff", "é", "\\u200d")]
    [True, True, True, True, False, False]
    """
    return CONTROLS.search(text) is not None


def printable(text: str) -> str:
    """The text with every control character written out.

    >>> print(printable("\\x1b[2Jtabby\\u202e"))
    \\x1b[2Jtabby\\u202e
    """
    return CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def brief(text: str, most: int = 300) -> str:
    """The text on one printable line: of a long one, its beginning and its end.

    >>> brief("one\\ntwo"), brief("x" * 1000, 9)
    ('one\\\\ntwo', 'xxxx…xxxx')
    """
    shown = printable(text)
    half = (most - 1) // 2
    return shown if len(shown) <= most else f"{shown[:half]}…{shown[-half:]}"


def printable_lines(text: str) -> str:
    """The same for a text of our own, whose lines stay lines.

    >>> print(printable_lines("Expected:\\n  tab\\x07by"))
    Expected:
      tab\\x07by
    """
    return "\n".join(map(printable, text.split("\n")))


def json_text(value: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON in which every control character is escaped: safe to print, and nothing is lost.

    A name that is not UTF-8 has its odd bytes as \\udc80 to \\udcff, as in Python: os.fsencode(name) restores
    them.

    >>> print(json_text("\\x1b[2Jé\\x9b\\udcff"))
    "\\u001b[2Jé\\u009b\\udcff"
    """
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    # The only ones that JSON itself leaves outside of strings are our own line breaks.
    return CONTROLS.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as CSV, with control characters written out, and a ' before what a spreadsheet would compute.

    Numbers stay numbers.

    >>> print(csv_text([["=1+1", "a\\nb", "a,b", -0.25, None]]), end="")
    '=1+1,a\\nb,"a,b",-0.25,
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if value is None or isinstance(value, int | float):
        return value
    shown = printable(str(value))
    return f"'{shown}" if shown.startswith(FORMULAS) else shown


# Numbers


def plural(count: int, noun: str, ending: str = "s") -> str:
    """A number of things.

    >>> plural(1, "photo"), plural(1200, "photo"), plural(2, "class", "es")
    ('1 photo', '1,200 photos', '2 classes')
    """
    return f"{count:,} {noun}{'' if count == 1 else ending}"


def size_of(count: float) -> str:
    """Bytes in a readable unit.

    >>> size_of(22_500_000)
    '22.5 MB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    raise AssertionError


def duration(seconds: float) -> str:
    """A rough time, in a readable unit.

    >>> duration(42), duration(600), duration(9000)
    ('42 s', '10 min', '2.5 h')
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def seconds(value: float) -> str:
    """A measured time: three digits, in a suitable unit.

    >>> seconds(0.00123), seconds(0.5), seconds(75.3), seconds(1267.8)
    ('1.23 ms', '500 ms', '75.3 s', '1,268 s')
    """
    if value >= 1000:
        return f"{value:,.0f} s"
    return f"{1000 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def percent(share: float | None, digits: int = 1) -> str:
    """A share in percent; a dash if it is missing.

    >>> percent(0.3605), percent(None)
    ('36.0', '–')
    """
    return DASH if share is None or share != share else f"{100 * share:.{digits}f}"


def whole_percent(share: float) -> str:
    """A share in whole percent, with the sign.

    >>> whole_percent(0.802), whole_percent(-0.08)
    ('80 %', '−8 %')
    """
    return f"{100 * share:.0f} %".replace("-", "−")


def exact_percent(share: float) -> str:
    """A share in percent, without needless digits.

    >>> exact_percent(0.3), exact_percent(0.125)
    ('30 %', '12.5 %')
    """
    return f"{100 * share:g} %"


def floored_percent(share: float | None) -> str:
    """A share in percent, never rounded up to 100; a dash if it was not measured.

    >>> floored_percent(1.0), floored_percent(0.99996), floored_percent(None)
    ('100 %', '99.99 %', '–')
    """
    return DASH if share is None else f"{int(10_000 * share) / 100:g} %"


def signed(value: float, digits: int = 1) -> str:
    """A number with its sign; none if it is rounded to zero.

    >>> signed(0.25, 2), signed(-3.01), signed(-0.001, 2)
    ('+0.25', '−3.0', '0.00')
    """
    rounded = round(value, digits)
    return f"{rounded:+.{digits}f}".replace("-", "−") if rounded else f"{0:.{digits}f}"


def points(difference: float, digits: int = 1) -> str:
    """A difference of shares in points, with its sign.

    >>> points(0.012), points(-0.0301), points(-0.0001)
    ('+1.2', '−3.0', '0.0')
    """
    return signed(100 * difference, digits)
