"""Bytes changed without knowing what they mean: what a bad disk, a bad cable or a bad copy does."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

EDGES = (0, 1, 0x7F, 0x80, 0xFE, 0xFF)
"""Bytes at which numbers change their sign or their size."""


def mutated(data: bytes, chance: Random) -> tuple[bytes, str]:
    """A copy in which one thing is wrong, or a few of one kind, and what it is.

    >>> mutated(b"abcdef", Random(3)) == mutated(b"abcdef", Random(3))
    True
    """
    change = chance.choice(CHANGES)
    return change(data, chance), change.__name__.strip("_")


def _place(data: bytes | bytearray, chance: Random) -> int:
    """Anywhere, but the beginning, where headers are, as often as all the rest."""
    end = max(1, len(data))
    return chance.randrange(min(end, 256)) if chance.random() < 0.5 else chance.randrange(end)


def _flipped_bits(data: bytes, chance: Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(chance.choice((1, 1, 2, 8, 64))):
        changed[_place(changed, chance)] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _edge_bytes(data: bytes, chance: Random) -> bytes:
    changed = bytearray(data or b"\0")
    for _ in range(chance.choice((1, 2, 4))):
        changed[_place(changed, chance)] = chance.choice(EDGES)
    return bytes(changed)


def _truncated(data: bytes, chance: Random) -> bytes:
    return data[: _place(data, chance)]


def _extended(data: bytes, chance: Random) -> bytes:
    return data + chance.choice((b"\0", b" ", data[-100:], chance.randbytes(1000), bytes(5000)))


def _zeroed(data: bytes, chance: Random) -> bytes:
    start = _place(data, chance)
    length = chance.choice((8, 512, 4096))
    return data[:start] + bytes(len(data[start : start + length])) + data[start + length :]


def _noise(data: bytes, chance: Random) -> bytes:
    start = _place(data, chance)
    length = chance.choice((4, 64, 4096))
    return data[:start] + chance.randbytes(len(data[start : start + length])) + data[start + length :]


def _cut_out(data: bytes, chance: Random) -> bytes:
    start = _place(data, chance)
    return data[:start] + data[start + chance.choice((1, 4, 100, 4096)) :]


def _inserted(data: bytes, chance: Random) -> bytes:
    start = _place(data, chance)
    return data[:start] + chance.randbytes(chance.choice((1, 4, 100))) + data[start:]


def _copied_within(data: bytes, chance: Random) -> bytes:
    start, source, length = _place(data, chance), _place(data, chance), chance.choice((4, 64, 4096))
    block = data[source : source + length]
    return data[:start] + block + data[start + len(block) :]


def _nothing_like_it(_data: bytes, chance: Random) -> bytes:
    return chance.choice((b"", b"\0", b"{}", b"\xff" * 100, chance.randbytes(500)))


CHANGES: tuple[Callable[[bytes, Random], bytes], ...] = (
    *(
        _flipped_bits,
        _edge_bytes,
        _truncated,
        _extended,
        _zeroed,
        _noise,
        _cut_out,
        _inserted,
        _copied_within,
    ),
    _nothing_like_it,
)
