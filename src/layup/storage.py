"""Files of arrays that are always whole: atomic, locked, checked and versioned.

A file is in the safetensors format, so that other programs can read it, and nothing in it is ever executed.
Its metadata holds one key, ``layup``, with a JSON header::

    {"format": 2, "kind": "model", "checksum": 2874512, …the caller's own fields…, "header_checksum": 918273}

``checksum`` covers the names, types, shapes and bytes of all arrays; ``header_checksum`` the header's rest.

Whatever happens to a writer (killed, disk full, power cut), the file holds either all of the old or all of
the new. Beside ``m.layup`` an empty ``.m.layup.lock`` stays for ever: to delete a lock file while others wait
for it would let two of them in. A killed writer can leave one ``.m.layup.<random>.tmp``; the next write
removes it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import filelock
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from layup.errors import DamagedFileError, InputError, NewerFormatError, StorageError

FORMAT = 2
"""The file format this version writes, and the latest that it reads. Since 2, a model may hold an adapter."""

AnyPath = str | os.PathLike[str]
Arrays = dict[str, NDArray[Any]]

_RESERVED = ("format", "kind", "checksum", "header_checksum")

# NumPy's name of a type → the name in the file.
_TYPES = {
    "float64": "F64",
    "float32": "F32",
    "float16": "F16",
    "int64": "I64",
    "int32": "I32",
    "int16": "I16",
    "int8": "I8",
    "uint8": "U8",
    "bool": "BOOL",
}


def write(path: AnyPath, kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a header and arrays to `path`, so that there is never a moment without a whole file.

    The header comes back as JSON keeps it: tuples as lists, keys as text. The permissions of a file that is
    replaced are kept; a symbolic link stays a link. Takes the lock of `path`, unless this thread holds it
    already. Costs one pass over the arrays for the checksum and one to write them; contiguous arrays are not
    copied.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = f"{folder.name}/m.layup"
    >>> write(path, "model", {"classes": ["cat", "dog"]}, {"G": np.eye(2)})
    >>> read(path, "model")
    ({'classes': ['cat', 'dog']}, {'G': array([[1., 0.],
           [0., 1.]])})
    >>> folder.cleanup()
    """
    ready = {name: _storable(name, array) for name, array in arrays.items()}
    header_text = _sealed_header(kind, header, ready)

    def fill(file: BinaryIO) -> None:
        _write_safetensors(file, header_text, ready)

    def check(temporary: Path) -> None:
        with safe_open(temporary, framework="np"):
            pass  # what cannot be opened (a header above 100 MB, say) must not replace what can

    with locked(path):
        _remove_leftovers(_real(path))
        _replace(path, fill, check)


def write_text(path: AnyPath, text: str) -> None:
    """Write a text file with the same promise: whatever happens, all of the old or all of the new is there.

    There is no lock: of two who write at once, one wins.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(f"{folder}/record.json", "{}")
    ...     Path(f"{folder}/record.json").read_text()
    '{}'
    """
    _replace(path, lambda file: file.write(text.encode()), lambda temporary: None)


def read(path: AnyPath, kind: str) -> tuple[dict[str, Any], Arrays]:
    """Read the header fields and the arrays that `write` was given, or raise: never anything else.

    Needs no lock: a reader sees the file as it was when it was opened, whatever is written meanwhile. Costs
    one pass to read the arrays and one for the checksum. `write` has an example.
    """
    with _opened(path) as file:
        fields, checksum = _checked_header(path, kind, file)
        arrays: Arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a dict
    if _checksum(arrays) != checksum:
        raise _damaged(path, "the checksum of its arrays is wrong")
    return fields, arrays


def read_header(path: AnyPath, kind: str) -> dict[str, Any]:
    """Read the header fields alone: fast, whatever the size of the file, as the arrays are not checked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/m.layup", "model", {"classes": ["cat"]}, {"G": np.eye(500)})
    ...     read_header(f"{folder}/m.layup", "model")
    {'classes': ['cat']}
    """
    with _opened(path) as file:
        return _checked_header(path, kind, file)[0]


def make_folder(folder: AnyPath) -> None:
    """Make a folder, and those that it is in, if they are not there."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Cannot make the folder '{folder}' ({_reason(error)}). Choose another one."
        ) from error


def delete(path: AnyPath) -> None:
    """Remove a file and its lock, where nobody else can be waiting for it; no file is no error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/m.layup", "model", {}, {})
    ...     delete(f"{folder}/m.layup")
    ...     list(Path(folder).iterdir())
    []
    """
    target = _real(path)
    try:
        for file in (target, _lock_file(target)):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"Cannot delete '{path}' ({_reason(error)}): delete it by hand") from error


# The locks that a thread holds, so that it can take them again. With the process id, as a forked child
# inherits this list but not the locks.
_held = threading.local()


@contextmanager
def locked(
    path: AnyPath, timeout: float | None = None, on_wait: Callable[[], None] | None = None
) -> Iterator[None]:
    """Keep every other process and thread from locking `path`, for as long as the block runs.

    A thread that holds the lock may take it again. If another holds it, `on_wait` is called once, and then
    the lock is waited for: `timeout` seconds, or for ever. The system releases the lock when the process
    ends, however it ends.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/m.layup"
    ...     with locked(path):  # read, change, write: nobody comes between
    ...         write(path, "model", {"learned": 1}, {})
    ...         header, arrays = read(path, "model")
    ...         write(path, "model", {"learned": header["learned"] + 1}, arrays)
    ...     read_header(path, "model")
    {'learned': 2}
    """
    target = _real(path)
    held: set[tuple[int, Path]] = _held.__dict__.setdefault("locks", set())
    key = (os.getpid(), target)
    if key in held:
        yield
        return
    lock = _acquired(path, target, timeout, on_wait)
    held.add(key)
    try:
        yield
    finally:
        held.discard(key)
        lock.release()


def _real(path: AnyPath) -> Path:
    # Links are followed, so that one file has one lock by whatever name it is called.
    return Path(os.path.realpath(path))


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _damaged(path: AnyPath, why: str) -> DamagedFileError:
    return DamagedFileError(f"'{path}' is damaged, or not a layup file ({why}): restore it from a copy")


# ---- writing


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    # Rows in order and little-endian, as the file has them; most arrays are so already, and not copied.
    if name == "__metadata__":
        raise InputError(
            "An array cannot be named '__metadata__', as safetensors keeps its header there: rename it"
        )
    if array.dtype.name not in _TYPES:
        raise InputError(
            f"Array '{name}' has type {array.dtype.name}, which cannot be stored: "
            f"use one of {', '.join(_TYPES)}"
        )
    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _sealed_header(kind: str, fields: Mapping[str, Any], arrays: Arrays) -> str:
    taken = [name for name in _RESERVED if name in fields]
    if taken:
        raise InputError(f"The header fields {', '.join(taken)} are layup's own: give yours other names")
    whole = {"format": FORMAT, "kind": kind, "checksum": _checksum(arrays), **fields}
    try:
        # Through JSON once, as the reader will see it: only then do both sides compute the same checksum.
        header = json.loads(json.dumps(whole, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"The header cannot be kept as JSON ({error}): "
            "use text, finite numbers, True, False, None, lists and dicts"
        ) from error
    return json.dumps({**header, "header_checksum": _header_checksum(header)})


def _header_checksum(header: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(header).encode())


def _checksum(arrays: Arrays) -> int:
    crc = 0
    for name in sorted(arrays):
        array = arrays[name]
        crc = zlib.crc32(f"{name} {array.dtype.name} {array.shape}".encode(), crc)
        crc = zlib.crc32(array.data, crc)
    return crc


def _write_safetensors(file: BinaryIO, header_text: str, arrays: Arrays) -> None:
    # Not safetensors' own save_file: that one writes to a `.tmpXXXXXX`, which would stay for ever when killed
    # and always has mode 0600; and it hides the error number.
    widest_first = sorted(arrays, key=lambda name: (-arrays[name].itemsize, name))  # so that all are aligned
    entries: dict[str, Any] = {"__metadata__": {"layup": header_text}}
    end = 0
    for name in widest_first:
        array = arrays[name]
        start, end = end, end + array.nbytes
        entries[name] = {
            "dtype": _TYPES[array.dtype.name],
            "shape": array.shape,
            "data_offsets": (start, end),
        }
    head = json.dumps(entries).encode()
    head += b" " * (-len(head) % 8)
    file.write(len(head).to_bytes(8, "little"))
    file.write(head)
    for name in widest_first:
        file.write(arrays[name].data)


def _replace(path: AnyPath, fill: Callable[[BinaryIO], object], check: Callable[[Path], None]) -> None:
    """Put a new file where another may be: filled and checked beside it, and then moved at once."""
    target = _real(path)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(8)}.tmp"
    try:
        mode = _mode_of_replaced(target)
        # Nobody else may read it before it has the mode of the file that it replaces.
        first_mode = 0o666 if mode is None else 0o600
        created = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, first_mode)
        with os.fdopen(created, "wb") as file:
            fill(file)
            file.flush()
            if mode is not None:
                temporary.chmod(mode)
            os.fsync(file.fileno())
        check(temporary)
        temporary.replace(target)
    except (OSError, SafetensorError) as error:
        raise StorageError(
            f"Cannot write '{path}' ({_reason(error)}): what was there before is untouched; "
            "make sure that the folder is writable and has room, or choose another, and save again"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    try:
        _flush_folder(target.parent)
    except OSError as error:
        raise StorageError(
            f"'{path}' was written, but its folder could not be flushed to the disk ({_reason(error)}): "
            "a power cut may still bring the old file back, so check the disk and save again"
        ) from error


def _mode_of_replaced(target: Path) -> int | None:
    # A rename would also replace a device, or a file that its owner has made read-only.
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "it is a folder or a device, not a file")
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only")
    return stat.S_IMODE(mode)


def _remove_leftovers(target: Path) -> None:
    # Whoever holds the lock knows that no other writer lives. Failing to tidy up is no reason not to save.
    leftover = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.tmp")
    with suppress(OSError):
        for file in target.parent.iterdir():
            if leftover.fullmatch(file.name):
                file.unlink(missing_ok=True)


def _flush_folder(folder: Path) -> None:
    if os.name == "nt":
        return  # Windows has no such call, and needs none
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # how a file system says that folders need no flush
            raise
    finally:
        os.close(opened)


# ---- reading


@contextmanager
def _opened(path: AnyPath) -> Iterator[Any]:
    try:
        with Path(path).open("rb") as raw:
            empty = not raw.read(1)
        if empty:
            raise _damaged(path, "it is empty")
        with safe_open(path, framework="np") as file:
            yield file
    except OSError as error:
        raise StorageError(
            f"Cannot read '{path}' ({_reason(error)}): check the path and its permissions"
        ) from error
    except SafetensorError as error:
        raise _damaged(path, str(error)) from error


def _checked_header(path: AnyPath, kind: str, file: Any) -> tuple[dict[str, Any], int]:
    """Return the caller's fields, and the checksum that the arrays should have."""
    text = (file.metadata() or {}).get("layup")
    if text is None:
        raise StorageError(f"'{path}' is a safetensors file, but not of layup: give one that layup wrote")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, f"its header is not JSON: {error}") from error
    if not isinstance(header, dict) or type(header.get("format")) is not int:
        raise _damaged(path, "its header has no format number")
    # Before the checksums, as a later format may compute them in another way.
    if header["format"] > FORMAT:
        raise NewerFormatError(
            f"'{path}' was written by a later layup "
            f"(format {header['format']}, this one reads up to {FORMAT}): upgrade layup-cl"
        )
    seal = header.pop("header_checksum", None)
    if seal != _header_checksum(header):
        raise _damaged(path, "the checksum of its header is wrong")
    if header["kind"] != kind:
        raise StorageError(f"'{path}' is a file of kind '{header['kind']}', not '{kind}': give another file")
    return {name: value for name, value in header.items() if name not in _RESERVED}, header["checksum"]


# ---- locking


def _lock_file(target: Path) -> Path:
    return target.parent / f".{target.name}.lock"


def _acquired(
    path: AnyPath, target: Path, timeout: float | None, on_wait: Callable[[], None] | None
) -> filelock.BaseFileLock:
    lock = filelock.FileLock(_lock_file(target))
    if not _acquires_within(0, lock, path, target):
        if on_wait is not None:
            on_wait()
        if not _acquires_within(-1 if timeout is None else timeout, lock, path, target):
            raise StorageError(
                f"'{path}' is still in use by another process after {timeout:g} s: "
                "try again when that one has ended"
            )
    return lock


def _acquires_within(seconds: float, lock: filelock.BaseFileLock, path: AnyPath, target: Path) -> bool:
    try:
        if not stat.S_ISDIR(target.parent.stat().st_mode):  # a missing folder, filelock would make
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        lock.acquire(timeout=seconds)
    except filelock.Timeout:
        return False
    except OSError as error:
        raise StorageError(
            f"Cannot lock '{path}' ({_reason(error)}): nothing was changed; "
            f"make sure that the folder '{target.parent}' exists and is writable, or choose another"
        ) from error
    return True
