"""Text from outside (labels, names of files and layers): what may be shown as it is, and how the rest."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable

# ASCII's and Latin-1's commands, which terminals obey; marks that turn the direction of what follows; breaks
# of lines and paragraphs; and surrogates, which stand for the bytes of names that are not UTF-8.
CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

FORMULAS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""A cell that begins with one of these is computed by spreadsheets; the wide ones in some languages."""


def has_controls(text: str) -> bool:
    """Whether some character commands a terminal, breaks a line, or stands for a byte that is no text.

    Joiners, which scripts and emoji need, are not meant.

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
    """The text on one line that can be shown: of a long one, its beginning and its end.

    >>> brief("one\\ntwo"), brief("x" * 1000, 9)
    ('one\\\\ntwo', 'xxxx…xxxx')
    """
    shown = printable(text)
    half = (most - 1) // 2
    return shown if len(shown) <= most else f"{shown[:half]}…{shown[-half:]}"


def printable_lines(text: str) -> str:
    """The same of a text of our own making, whose lines stay lines.

    >>> print(printable_lines("Expected:\\n  tab\\x07by"))
    Expected:
      tab\\x07by
    """
    return "\n".join(map(printable, text.split("\n")))


def json_text(value: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON in which every control character is escaped: safe to show, and nothing is lost.

    A name that is not UTF-8 has its odd bytes as \\udc80 to \\udcff, as Python has: os.fsencode(name) gives
    them back.

    >>> print(json_text("\\x1b[2Jé\\x9b\\udcff"))
    "\\u001b[2Jé\\u009b\\udcff"
    """
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    # The only ones that JSON itself leaves outside of texts are the breaks of our own lines.
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
