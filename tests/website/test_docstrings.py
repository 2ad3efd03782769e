"""Docstrings become Markdown without losing a line."""

from __future__ import annotations

import doctest

import pytest

pytest.importorskip("griffe", reason="mkdocstrings is missing: make setup-all.")
docstrings = pytest.importorskip("website.docstrings")


def test_examples_in_docstrings():
    found = doctest.testmod(docstrings)
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Add.", "Add."),
        (">>> 1\n1", "```pycon\n>>> 1\n1\n```"),
        ("A:\n    >>> 1\n    1\n\nB.", "A:\n\n    ```pycon\n    >>> 1\n    1\n    ```\n\nB."),
        (">>> 1\n1\n\n>>> 2\n2", "```pycon\n>>> 1\n1\n```\n\n```pycon\n>>> 2\n2\n```"),
        ("It is::\n\n    x\n\n::\n\n    y", "It is:\n\n    x\n\n\n\n    y"),
    ],
)
def test_examples_are_fenced_and_code_is_indented(text, expected):
    assert docstrings.as_markdown(text) == expected
