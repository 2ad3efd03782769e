"""Ids of photos that stand in files under other names."""

from __future__ import annotations

import pytest

from layup.model import Pseudonyms

PHOTO = "0123456789abcdef" * 2


def test_a_key_that_is_kept_finds_the_same_names_again() -> None:
    names = Pseudonyms.new(keep=True)
    again = Pseudonyms.of(names.key.id)
    assert again is not None
    assert again.hidden(PHOTO) == names.hidden(PHOTO)
    assert again.shown(names.hidden(PHOTO)) == PHOTO
    assert (names.hidden(None), names.shown(None)) == (None, None)


def test_without_the_key_nothing_is_shown() -> None:
    names, others = Pseudonyms.new(), Pseudonyms.new()
    assert Pseudonyms.of(names.key.id) is None
    hidden = names.hidden(PHOTO)
    assert hidden != others.hidden(PHOTO)
    for changed in (hidden, hidden[:-1] + ("0" if hidden[-1] != "0" else "1")):
        with pytest.raises(ValueError, match="were changed"):
            (others if changed == hidden else names).shown(changed)
