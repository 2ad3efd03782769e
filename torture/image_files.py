"""Pictures in every common format, and the same with something wrong where the format keeps its numbers."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
from PIL import Image

from torture import raw_bytes
from torture.samples import picture

SIZES = (0, 1, 2, 7, 255, 256, 1000, 30_000, 65_535, 65_536, 2**24, 2**31 - 1, 2**31, 2**32 - 1)
"""Unexpected widths, heights, lengths and offsets."""


def samples() -> dict[str, bytes]:
    """A small picture in each format, and in the ways that it can be stored, by name."""
    colour = Image.fromarray(picture("image")).resize((24, 20))
    unit = Image.fromarray(np.linspace(0, 1, 480, dtype=np.float32).reshape(20, 24))
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, "a picture"
    extras: dict[str, Any] = {"exif": exif.tobytes(), "icc_profile": bytes(200)}
    return {
        "jpeg": _saved(colour, "JPEG", quality=90, **extras),
        "jpeg progressive": _saved(colour, "JPEG", progressive=True),
        "jpeg cmyk": _saved(colour.convert("CMYK"), "JPEG"),
        "jpeg grey": _saved(colour.convert("L"), "JPEG"),
        "png": _saved(colour, "PNG", **extras),
        "png palette": _saved(colour.quantize(7), "PNG", transparency=1),
        "png alpha": _saved(colour.convert("RGBA"), "PNG"),
        "png 16 bits": _saved(Image.fromarray(np.arange(480, dtype=np.uint16).reshape(20, 24)), "PNG"),
        "png animated": _saved(colour, "PNG", save_all=True, append_images=[colour.rotate(90)]),
        "gif": _saved(colour.quantize(9), "GIF", transparency=2),
        "gif animated": _saved(colour.quantize(9), "GIF", save_all=True, append_images=[colour.rotate(90)]),
        "bmp": _saved(colour, "BMP"),
        "bmp palette": _saved(colour.quantize(9), "BMP"),
        "tiff": _saved(colour, "TIFF"),
        "tiff lzw": _saved(colour, "TIFF", compression="tiff_lzw"),
        "tiff deflate": _saved(unit, "TIFF", compression="tiff_adobe_deflate"),
        "webp": _saved(colour, "WEBP", **extras),
        "webp lossless": _saved(colour.convert("RGBA"), "WEBP", lossless=True),
        "ppm": _saved(colour, "PPM"),
        "ico": _saved(colour, "ICO", sizes=[(16, 16)]),
    }


def _saved(image: Image.Image, form: str, **options: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()


def mutated(name: str, data: bytes, chance: Random) -> tuple[bytes, str]:
    """A copy in which something is wrong, and what: half of them by the rules of the format."""
    change = STRUCTURED.get(name.split()[0])
    said = []
    for _ in range(chance.choice((1, 1, 2, 3))):
        if change is not None and chance.random() < 0.6:
            data = change(data, chance)
            said.append(f"{name.split()[0]} numbers")
        else:
            data, what = raw_bytes.mutated(data, chance)
            said.append(what)
    return data, ", ".join(said)


# ---- by the rules of each format: whatever cannot be parsed any more is left as it is


def _png(data: bytes, chance: Random) -> bytes:
    """Chunks: a number inside one, its length, its kind or its position; mostly with right checksums."""
    chunks, at = [], 8
    while at + 12 <= len(data):
        length, kind = struct.unpack(">I4s", data[at : at + 8])
        chunks.append([kind, data[at + 8 : at + 8 + length]])
        at += 12 + length
    if not chunks:
        return data
    one = chance.randrange(len(chunks))
    way = chance.choice(("size", "inside", "inside", "kind", "swap", "copy", "drop", "length"))
    if way == "size":
        field = chance.choice((0, 4))
        body = chunks[0][1]
        chunks[0][1] = body[:field] + struct.pack(">I", chance.choice(SIZES)) + body[field + 4 :]
    elif way == "inside":
        chunks[one][1] = raw_bytes.mutated(chunks[one][1], chance)[0]
    elif way == "kind":
        chunks[one][0] = chance.choice(
            (b"IHDR", b"PLTE", b"IDAT", b"IEND", b"tRNS", b"eXIf", b"iCCP", b"zTXt", b"acTL", b"fdAT")
        )
    elif way == "swap":
        other = chance.randrange(len(chunks))
        chunks[one], chunks[other] = chunks[other], chunks[one]
    elif way == "copy":
        chunks[one : one + 1] = [chunks[one]] * chance.choice((2, 50))
    elif way == "drop":
        del chunks[one]
    wrong = chance.randrange(len(chunks)) if chunks and way == "length" else -1
    parts = [data[:8]]
    for i, (kind, body) in enumerate(chunks):
        length = chance.choice(SIZES[:-1]) if i == wrong else len(body)
        parts.append(
            struct.pack(">I4s", length % 2**32, kind) + body + struct.pack(">I", zlib.crc32(kind + body))
        )
    return b"".join(parts)


def _jpeg(data: bytes, chance: Random) -> bytes:
    """Segments: the frame's size and components, tables, EXIF, lengths."""
    offsets, at = [], 2
    while at + 4 <= len(data) and data[at] == 0xFF and data[at + 1] != 0xDA:
        length = int.from_bytes(data[at + 2 : at + 4])
        offsets.append((at, length))
        at += 2 + length
    if not offsets:
        return data
    start, length = chance.choice(offsets)
    way = chance.choice(("inside", "inside", "length", "marker", "drop", "copy"))
    if way == "inside" and length > 2:
        body = raw_bytes.mutated(data[start + 4 : start + 2 + length], chance)[0]
        size = (len(body) + 2).to_bytes(4)[2:] if chance.random() < 0.7 else length.to_bytes(2)
        return data[: start + 2] + size + body + data[start + 2 + length :]
    if way == "length":
        return data[: start + 2] + (chance.choice(SIZES) % 65_536).to_bytes(2) + data[start + 4 :]
    if way == "marker":
        return data[: start + 1] + bytes([chance.randrange(256)]) + data[start + 2 :]
    segment = data[start : start + 2 + length]
    return data[:start] + segment * (0 if way == "drop" else 2) + data[start + 2 + length :]


def _webp(data: bytes, chance: Random) -> bytes:
    """The sizes of the whole and of chunks, and the first bytes of each, which hold width and height."""
    offsets, at = [4], 12
    while at + 8 <= len(data):
        offsets += [at + 4, at + 8, at + 12]
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "little")
        at += at % 2
    return _number(data, chance.choice(offsets), 4, chance)


def _gif(data: bytes, chance: Random) -> bytes:
    """The sizes of the screen and of the picture, flags, and the code size."""
    frame = data.find(b"\x2c", 13 + 3 * 2 ** ((data[10] & 7) + 1) if len(data) > 10 else 0)
    offsets = [6, 8, 10] + ([frame + 1, frame + 3, frame + 5, frame + 7, frame + 9] if frame > 0 else [])
    return _number(data, chance.choice(offsets), 2, chance)


def _bmp(data: bytes, chance: Random) -> bytes:
    """File and picture headers are all numbers."""
    offset = chance.choice((2, 10, 14, 18, 22, 26, 28, 30, 34, 38, 42, 46, 50))
    return _number(data, offset, 2 if offset in (26, 28) else 4, chance)


def _tiff(data: bytes, chance: Random) -> bytes:
    """Entries of the directory: tag, type, count and value."""
    start = int.from_bytes(data[4:8], "little")
    entries = int.from_bytes(data[start : start + 2], "little")
    if not 0 < entries < 200:
        return _number(data, 4, 4, chance)
    entry = start + 2 + 12 * chance.randrange(entries)
    offset, width = chance.choice(((0, 2), (2, 2), (4, 4), (8, 4), (8, 4)))
    return _number(data, entry + offset, width, chance)


def _number(data: bytes, offset: int, width: int, chance: Random) -> bytes:
    """Another little-endian number at an offset."""
    value = chance.choice((*SIZES, chance.getrandbits(8 * width))) % (1 << 8 * width)
    return data[:offset] + value.to_bytes(width, "little") + data[offset + width :]


STRUCTURED: dict[str, Callable[[bytes, Random], bytes]] = {
    "png": _png,
    "jpeg": _jpeg,
    "webp": _webp,
    "gif": _gif,
    "bmp": _bmp,
    "tiff": _tiff,
}
