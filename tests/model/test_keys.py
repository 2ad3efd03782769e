"""Keys encrypt, notice every change, and are only their owner's."""

from __future__ import annotations

import stat
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from layup.errors import StorageError
from layup.model import keys
from layup.model.keys import Key
from layup.model.known import KnownPhotos
from processes import umask


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for keys that is not there yet."""
    monkeypatch.setenv("LAYUP_KEYS", str(tmp_path / "some" / "keys"))
    return tmp_path / "some" / "keys"


def table(values: bytes) -> NDArray[np.uint8]:
    return np.frombuffer(values, np.uint8).reshape(-1, 1)


@given(st.binary(max_size=200))
def test_what_is_encrypted_comes_back(values: bytes) -> None:
    key = Key.new()
    nonce, hidden = key.encrypt(table(values))
    assert hidden.shape == table(values).shape
    assert key.decrypt(nonce, hidden).tobytes() == values
    assert key.encrypt(table(values))[0] == nonce  # equal values give equal bytes


def test_what_is_encrypted_looks_like_noise() -> None:
    nonce, hidden = Key.new().encrypt(np.zeros((1000, 16), np.uint8))
    counts = np.bincount(hidden.ravel(), minlength=256)
    assert len(nonce) == 16
    assert counts.min() > 20  # 62 are expected of each
    assert counts.max() < 130


def test_every_changed_bit_is_noticed_and_so_is_another_key() -> None:
    key = Key.new()
    nonce, hidden = key.encrypt(table(b"sixteen bytes of"))
    for place in range(8 * len(hidden)):
        changed = hidden.copy()
        changed[place // 8] ^= 1 << place % 8
        with pytest.raises(ValueError, match="were changed"):
            key.decrypt(nonce, changed)
    for wrong in (Key.new().decrypt, lambda _, values: key.decrypt(bytes(16), values)):
        with pytest.raises(ValueError, match="were changed"):
            wrong(nonce, hidden)


def test_the_id_of_a_key_does_not_hold_it() -> None:
    key = Key.new()
    assert len({Key.new().id for _ in range(100)}) == 100
    assert key.id == Key(key.secret).id
    assert not any(part in key.id for part in (key.secret.hex()[:8], key.secret.hex()[-8:]))


def test_keys_are_kept_and_found_and_only_the_owners(home: Path) -> None:
    with umask(0o000):
        key = Key.new()
        assert keys.find(key.id) is None
        keys.keep(key)
        keys.keep(key)
    assert keys.find(key.id) == key
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert [path.name for path in home.iterdir()] == [f"{key.id}.key"]
    assert stat.S_IMODE((home / f"{key.id}.key").stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", "nonsense", "00" * 31, "00" * 32, "ü" * 64, "zz" * 32])
def test_a_damaged_key_is_no_key_and_is_replaced(home: Path, text: str) -> None:
    key = Key.new()
    keys.keep(key)
    (home / f"{key.id}.key").write_bytes(text.encode("latin-1"))
    assert keys.find(key.id) is None
    keys.keep(key)
    assert keys.find(key.id) == key


def test_a_key_that_cannot_be_kept_is_an_error(home: Path) -> None:
    home.parent.write_text("a file where a folder should be")
    with pytest.raises(StorageError, match=r"cannot be kept.*LAYUP_KEYS, or make the model anonymous"):
        keys.keep(Key.new())


def test_without_the_variable_keys_are_in_the_users_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/data/of/user")
    monkeypatch.delenv("LAYUP_KEYS")
    assert keys.folder() == Path("/data/of/user/layup/keys")
    monkeypatch.setenv("LAYUP_KEYS", "")
    assert keys.folder() == Path("/data/of/user/layup/keys")


def test_a_key_is_not_printed() -> None:
    key = Key(b"secret" * 5 + b"!!")
    assert "secret!!" not in repr(key)
    assert "secretsecret" not in repr(KnownPhotos(key=key))
