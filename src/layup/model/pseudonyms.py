"""Ids of photos in files beside a model: encrypted as in the model's file, so that these do not tell more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from layup.model import keys
from layup.model.keys import Key

NONCE = 16
"""Bytes before what is encrypted."""


@dataclass(frozen=True)
class Pseudonyms:
    """What stands for ids of photos: always the same for the same id, so that it can be searched for.

    >>> names = Pseudonyms.new()
    >>> names.shown(names.hidden("0f")), names.hidden("0f") == names.hidden("0f")
    ('0f', True)
    """

    key: Key

    @classmethod
    def new(cls, *, keep: bool = False) -> Self:
        """With a new key, which this user keeps, or which is gone with this process."""
        made = cls(Key.new())
        if keep:
            keys.keep(made.key)
        return made

    @classmethod
    def of(cls, key_id: str) -> Self | None:
        """With a key that this user has kept; None if there is none with this id."""
        key = keys.find(key_id)
        return None if key is None else cls(key)

    def hidden(self, photo: str | None) -> str | None:
        """What stands for an id; None for none."""
        if photo is None:
            return None
        nonce, values = self.key.encrypt(np.frombuffer(photo.encode(), np.uint8))
        return (nonce + values.tobytes()).hex()

    def shown(self, hidden: str | None) -> str | None:
        """The id that it stands for; a `ValueError` if it was changed."""
        if hidden is None:
            return None
        content = bytes.fromhex(hidden)
        values = np.frombuffer(content[NONCE:], np.uint8)
        return self.key.decrypt(content[:NONCE], values).tobytes().decode()
