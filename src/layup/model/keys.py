"""Keys that encrypt what a model file says about its photos. They are kept apart from the file, by user.

With the file alone, nobody can tell which photos it was taught: not even by trying every public photo. Who
copies a key to another machine can go on there.
"""

from __future__ import annotations

import os
import re
import secrets
from dataclasses import dataclass, field
from hashlib import blake2b, shake_256
from pathlib import Path

import numpy as np
import platformdirs
from numpy.typing import NDArray

from layup import storage
from layup.errors import StorageError

BYTES = 32


@dataclass(frozen=True)
class Key:
    """A secret of 32 random bytes.

    >>> key = Key(bytes(32))
    >>> nonce, hidden = key.encrypt(np.arange(4, dtype=np.uint8))
    >>> key.decrypt(nonce, hidden).tolist()
    [0, 1, 2, 3]
    """

    secret: bytes = field(repr=False)

    @classmethod
    def new(cls) -> Key:
        """A key that nobody else has."""
        return cls(secrets.token_bytes(BYTES))

    @property
    def id(self) -> str:
        """What names the key, and does not tell it."""
        return blake2b(self.secret, digest_size=16, person=b"layup key id").hexdigest()

    def encrypt(self, values: NDArray[np.uint8]) -> tuple[bytes, NDArray[np.uint8]]:
        """A nonce, which follows from the values, and the encrypted values.

        As in SIV modes: equal values give equal bytes, so that a file can be compared, and a changed bit, or
        another key, is noticed.
        """
        nonce = self._nonce(values)
        return nonce, values ^ self._stream(nonce, values)

    def decrypt(self, nonce: bytes, hidden: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The values; a `ValueError` if they are not those that were encrypted."""
        values = hidden ^ self._stream(nonce, hidden)
        if self._nonce(values) != nonce:
            raise ValueError("the digests of its photos were changed")
        return values

    def _nonce(self, values: NDArray[np.uint8]) -> bytes:
        plain = np.ascontiguousarray(values)
        return blake2b(plain.data, key=self.secret, digest_size=16, person=b"layup nonce").digest()

    def _stream(self, nonce: bytes, like: NDArray[np.uint8]) -> NDArray[np.uint8]:
        stream = shake_256(b"layup photos" + self.secret + nonce).digest(like.size)
        return np.frombuffer(stream, np.uint8).reshape(like.shape)


def folder() -> Path:
    """Where this user's keys are: that of LAYUP_KEYS, or in the user's data folder."""
    return Path(os.environ.get("LAYUP_KEYS") or platformdirs.user_data_path("layup") / "keys").absolute()


def find(key_id: str) -> Key | None:
    """The key with this id, if this user has it."""
    try:
        text = (folder() / f"{key_id}.key").read_text("ascii").strip()
    except (OSError, UnicodeError):
        return None
    key = Key(bytes.fromhex(text)) if re.fullmatch(f"[0-9a-f]{{{2 * BYTES}}}", text) else None
    return key if key is not None and key.id == key_id else None


def keep(key: Key) -> None:
    """Keep a key for this user, or raise: without it, what it encrypts could never be read again."""
    if find(key.id) is not None:
        return
    home = folder()
    try:
        if not home.exists():
            home.mkdir(parents=True, exist_ok=True)
            home.chmod(0o700)
            storage.flush_folder(home.parent)
        # In its place at once: half a key is none, and nothing needs it before it is whole.
        created = os.open(home / f"{key.id}.key", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(created, "wb") as file:
            file.write(f"{key.secret.hex()}\n".encode())
            file.flush()
            os.fsync(file.fileno())
        storage.flush_folder(home)
    except OSError as error:
        raise StorageError(
            f"The key of this model cannot be kept: {error}. Without it, the model would not recognise its "
            "photos later. Name a folder that you may write to in the environment variable LAYUP_KEYS, or "
            "make the model anonymous."
        ) from error
