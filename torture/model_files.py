"""Model files taken apart and put together again: with checksums left wrong, or forged to be right.

A twin of what `layup.storage` writes, in a few lines, so that a file can hold what layup would never write.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from torture import json_values, raw_bytes

TYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "i1",
    "U8": "u1",
}
NAMES = {np.dtype(code).name: name for name, code in TYPES.items()}
Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ModelFile:
    """The header of layup, and the arrays."""

    header: Any
    arrays: Arrays

    @classmethod
    def parsed(cls, data: bytes) -> ModelFile:
        """Take a sound file apart."""
        length = int.from_bytes(data[:8], "little")
        entries = json.loads(data[8 : 8 + length])
        header = json.loads(entries.pop("__metadata__")["layup"])
        arrays = {}
        for name, entry in entries.items():
            start, end = (8 + length + offset for offset in entry["data_offsets"])
            values = np.frombuffer(data[start:end], TYPES[entry["dtype"]])
            arrays[name] = values.reshape(entry["shape"]).copy()
        return cls(header, arrays)

    def entries(self) -> tuple[dict[str, Any], bytes]:
        """What safetensors says of each array, and their bytes."""
        found: dict[str, Any] = {}
        body = b""
        for name in sorted(self.arrays, key=lambda each: (-self.arrays[each].itemsize, each)):
            array = self.arrays[name]
            start = len(body)
            body += array.tobytes()
            found[name] = {
                "dtype": NAMES[array.dtype.name],
                "shape": list(array.shape),
                "data_offsets": [start, len(body)],
            }
        return found, body

    def sealed(self) -> ModelFile:
        """The same with checksums that are right, as far as there is something that can have one."""
        text = json_values.text_of(self.header)
        try:
            seen = json.loads(text)  # as a reader will see it
        except (ValueError, RecursionError):
            return self
        if not isinstance(seen, dict):
            return self
        seen.pop("header_checksum", None)
        added = ""
        if "checksum" in seen:
            seen["checksum"] = checksum_of(self.arrays)
            added = f', "checksum": {seen["checksum"]}'
        seal = zlib.crc32(json.dumps(seen).encode())
        # Of keys that are there twice, a reader takes the last.
        again = f'{text[:-1]}{added}{", " if seen else ""}"header_checksum": {seal}}}'
        return replace(self, header=json_values.Raw(again))


def checksum_of(arrays: Arrays) -> int:
    """That of names, types, shapes and bytes of all arrays."""
    crc = 0
    for name in sorted(arrays):
        array = arrays[name]
        crc = zlib.crc32(f"{name} {array.dtype.name} {array.shape}".encode(), crc)
        crc = zlib.crc32(array.tobytes(), crc)
    return crc


def assembled(
    file: ModelFile, entries: Any = None, body: bytes | None = None, length: int | None = None
) -> bytes:
    """The bytes of a file; of entries, body and length others may be given than belong to it."""
    own_entries, own_body = file.entries()
    metadata = {"layup": json_values.text_of(file.header)}
    head = json_values.text_of(
        {"__metadata__": metadata, **own_entries}
        if entries is None
        else {"__metadata__": metadata, **entries}
    ).encode("utf-8", "surrogatepass")
    head += b" " * (-len(head) % 8)
    return (
        (len(head) if length is None else length).to_bytes(8, "little")
        + head
        + (own_body if body is None else body)
    )


def mutated(data: bytes, chance: Random, baits: Sequence[str] = ()) -> tuple[bytes, str]:
    """A copy of a model file in which something is wrong, and what; half of them with right checksums."""
    way = chance.choice(("raw", "header", "header", "header", "entries", "arrays", "arrays", "length"))
    if way == "raw":
        changed, said = raw_bytes.mutated(data, chance)
        return changed, f"bytes: {said}"
    file = ModelFile.parsed(data)
    forged = chance.random() < 0.7
    seal = "checksums right" if forged else "checksums wrong"
    if way == "header":
        header, said = _other_header(file.header, chance, baits)
        file = replace(file, header=header)
        return assembled(file.sealed() if forged else file), f"header, {seal}: {said}"
    if way == "arrays":
        arrays, said = _other_arrays(file.arrays, chance)
        file = replace(file, arrays=arrays)
        return assembled(file.sealed() if forged else file), f"arrays, {seal}: {said}"
    if way == "length":
        length = chance.choice((0, 1, 2**20, 2**31, 2**40, 2**63, 2**64 - 1, chance.randrange(len(data))))
        return assembled(file, length=length), f"length of the header {length}"
    entries, body = file.entries()
    changed_entries, said = json_values.mutated(
        entries, chance, ("F8_E4M3", "BF16", "U64", "C64", "F4", "__metadata__")
    )
    if not isinstance(changed_entries, dict):
        changed_entries = {"a": changed_entries}
    return assembled(file, changed_entries, body), f"entries of safetensors: {said}"


def _other_header(header: Any, chance: Random, baits: Sequence[str]) -> tuple[Any, str]:
    """Anything in it changed; or, now and then, just the network that it names, and how to load it."""
    if not baits or chance.random() > 0.2 or "backbone" not in header:
        return json_values.mutated(header, chance, baits)
    changed = deepcopy(header)
    about = changed["backbone"]
    spec = {"name": about["name"], **(about["spec"] or {})}
    wanted = {
        field: chance.choice(baits) for field in chance.choice((("name",), ("weights",), ("name", "weights")))
    }
    if "name" in wanted and chance.random() < 0.7:
        about["name"] = wanted["name"]  # one lie that fits the other
    about["spec"] = {**spec, **wanted}
    return changed, f"its network is {wanted}"


# ---- arrays

POISON = (np.nan, np.inf, -np.inf, 1e308, -1e308, 1e200, 1e-160, 0.0, -1.0, 5e-324, 1e30)


def _other_arrays(arrays: Arrays, chance: Random) -> tuple[Arrays, str]:
    changed = deepcopy(arrays)
    name = chance.choice(sorted(changed))
    way = chance.choice(
        ("values", "values", "all", "type", "shape", "removed", "added", "renamed", "scaled", "bytes")
    )
    with np.errstate(all="ignore"):
        _change(changed, name, way, chance)
    return changed, f"{way} of {name}"


def _change(arrays: Arrays, name: str, way: str, chance: Random) -> None:
    array = arrays[name]
    if way == "values" and array.size:
        for _ in range(chance.choice((1, 3, 20))):
            array.reshape(-1)[chance.randrange(array.size)] = _fitting(array, chance.choice(POISON))
    elif way == "all":
        array[...] = _fitting(array, chance.choice(POISON))
    elif way == "scaled":
        factor = chance.choice((-1.0, 1e150, 1e-150, 1e300, 2.0, 1.0001))
        arrays[name] = (array * factor).astype(array.dtype)
    elif way == "type":
        arrays[name] = array.astype(TYPES[chance.choice(sorted(TYPES))])
    elif way == "shape":
        rows = np.atleast_1d(array)
        ways = (array.reshape(-1), rows[..., :-1], rows[:-1], array[None], array.T, array.reshape(-1)[:0])
        arrays[name] = np.ascontiguousarray(chance.choice(ways))
    elif way == "removed":
        del arrays[name]
    elif way == "added":
        arrays[chance.choice(("extra", "adapter.extra", "gram", "", "é", "adapter."))] = np.zeros(3)
    elif way == "renamed":
        arrays[chance.choice((name + "2", "", "gram", "adapter." + name))] = arrays.pop(name)
    else:
        raw = bytearray(array.tobytes())
        for _ in range(chance.choice((1, 5)) if raw else 0):
            raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        arrays[name] = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)


def _fitting(array: NDArray[Any], value: float) -> Any:
    """A poison that a type can hold."""
    if array.dtype.kind == "f":
        return value
    limits = np.iinfo(array.dtype)
    return (max(-1, limits.min) if value < 0 else min(2**30, limits.max)) if np.isfinite(value) else 0
