"""Files of arrays that are always complete: atomic, locked, checked and versioned.

A file is in the safetensors format, so other programs can read it, and nothing in it is ever executed.
Its metadata holds one key, ``layup``, with a JSON header::

    {"format": 1, "kind": "model", "checksum": 2874512, …the caller's fields…, "header_checksum": 918273}

``checksum`` covers the names, types, shapes and bytes of all arrays; ``header_checksum`` the header's rest.

Whatever happens to a writer (killed, disk full, power cut), the file holds either all of the old or all of
the new content. Next to ``m.layup`` a lock file ``.m.layup.lock`` stays, with the mode and owner of the model
(`layup.locks`). A killed writer can leave one ``.m.layup.<random>.tmp``; the next write removes it.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeAlias

from safetensors import SafetensorError, safe_open

from layup import locks, memory
from layup.errors import DamagedFileError, InputError, NewerFormatError, StorageError
from layup.formats import brief

if TYPE_CHECKING:  # a command says that a path is wrong before NumPy is imported
    from numpy.typing import NDArray

FORMAT = 1
"""The file format that this version writes, and the latest that it reads."""

AnyPath = str | os.PathLike[str]
Arrays: TypeAlias = "dict[str, NDArray[Any]]"

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
    "uint64": "U64",
    "uint8": "U8",
    "bool": "BOOL",
}


def write(path: AnyPath, kind: str, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a header and arrays to `path`, so that there is a complete file at every moment.

    The header comes back as JSON keeps it: tuples as lists, keys as text. The permissions of a file that is
    replaced are kept, and its owner as far as the system allows; a symbolic link stays a link. Takes the lock
    of `path`, unless this thread holds it already. Costs one pass over the arrays for the checksum and one to
    write them; contiguous arrays are not copied.

    >>> import tempfile
    >>> import numpy as np
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
            pass  # what cannot be opened (such as a header above 100 MB) must not replace what can

    with locked(path):
        _remove_leftovers(_real(path))
        _replace(path, fill, check)


def write_text(path: AnyPath, text: str) -> None:
    """Write a text file, as safely: whatever happens, it holds all of the old or all of the new text.

    No lock file stays next to it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_text(f"{folder}/record.json", "{}")
    ...     Path(f"{folder}/record.json").read_text()
    '{}'
    """
    write_bytes(path, text.encode())


def write_bytes(path: AnyPath, content: bytes, like: AnyPath | None = None) -> None:
    """Write any file as `write_text` writes texts; a new one may be read by those who may read `like`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_bytes(f"{folder}/p.png", b"PNG")
    ...     Path(f"{folder}/p.png").read_bytes()
    b'PNG'
    """
    with locked(path, keep=False):
        _remove_leftovers(_real(path))
        _replace(path, lambda file: file.write(content), lambda temporary: None, like)


@dataclass(frozen=True)
class Declared:
    """What a file says about an array before it is read: its type, by NumPy's name, and its shape."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """How many bytes it will take."""
        import numpy as np

        return prod(self.shape) * np.dtype(self.dtype).itemsize

    def __str__(self) -> str:
        return f"{self.dtype} of shape {self.shape}"


Declarations: TypeAlias = Mapping[str, Declared]
Check: TypeAlias = Callable[[dict[str, Any], Declarations], None]


def read(path: AnyPath, kind: str, check: Check | None = None) -> tuple[dict[str, Any], Arrays]:
    """Read the header fields and the arrays that `write` was given, or raise an error.

    `check` is given the header fields and the declared arrays, before any of them is read: if it raises a
    `ValueError`, the file counts as damaged. Arrays that do not fit into memory are not read.

    Needs no lock: a reader sees the file as it was when it was opened, even if it is written meanwhile. Costs
    one pass to read the arrays and one for the checksum. `write` has an example.
    """
    with _opened(path) as file:
        fields, checksum = _checked_header(path, kind, file)
        declared = _declared(path, file)
        if check is not None:
            try:
                check(fields, declared)
            except ValueError as error:
                raise damaged(path, str(error)) from error
        size = sum(each.nbytes for each in declared.values())
        memory.require(memory.Forecast({"its arrays": size}), f"Reading '{path}'")
        arrays: Arrays = {name: file.get_tensor(name) for name in declared}
    if _checksum(arrays) != checksum:
        raise damaged(path, "the checksum of its arrays is wrong")
    return fields, arrays


def read_header(path: AnyPath, kind: str) -> dict[str, Any]:
    """Read only the header fields: fast for a file of any size, as the arrays are not checked.

    >>> import tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/m.layup", "model", {"classes": ["cat"]}, {"G": np.eye(500)})
    ...     read_header(f"{folder}/m.layup", "model")
    {'classes': ['cat']}
    """
    with _opened(path) as file:
        return _checked_header(path, kind, file)[0]


def kind_of(path: AnyPath) -> str:
    """The kind of a file, by its header alone.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/m.layup", "model", {}, {})
    ...     kind_of(f"{folder}/m.layup")
    'model'
    """
    with _opened(path) as file:
        return str(_sealed_header_of(path, file)["kind"])


def require_writable(path: AnyPath) -> None:
    """Refuse a path that could not be written in the end, before something long begins.

    >>> require_writable("nowhere/m.layup")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    layup.errors.InputError: Cannot write 'nowhere/m.layup' (there is no such folder). Name a file in ...
    """
    target = _real(path)
    try:
        _replaced(target)
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "there is no such folder")
        if not os.access(target.parent, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, "its folder is read-only")
    except OSError as error:
        raise InputError(
            f"Cannot write '{path}' ({_reason(error)}). "
            "Name a file in a folder that exists and that you may write to."
        ) from error


def require_file(path: AnyPath) -> os.stat_result:
    """The `stat` of a file; an `OSError` if it is not a file: opening a pipe could block without end.

    >>> require_file("/dev/zero")
    Traceback (most recent call last):
    OSError: [Errno 22] it is a device or a pipe, not a file
    """
    found = Path(path).stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a file")
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file")
    return found


def make_folder(folder: AnyPath) -> None:
    """Make a folder, and its parents, if they do not exist."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"Cannot make the folder '{folder}' ({_reason(error)}). Choose another one."
        ) from error


def delete(path: AnyPath) -> None:
    """Remove a file and its lock, where nobody else can be waiting for it; a missing file is not an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(f"{folder}/m.layup", "model", {}, {})
    ...     delete(f"{folder}/m.layup")
    ...     list(Path(folder).iterdir())
    []
    """
    target = _real(path)
    try:
        for file in (target, *locks.files(_lock_file(target))):
            file.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"Cannot delete '{path}' ({_reason(error)}): delete it by hand") from error


@contextmanager
def locked(
    path: AnyPath,
    timeout: float | None = None,
    on_wait: Callable[[str], None] | None = None,
    keep: bool = True,
) -> Iterator[None]:
    """Keep every other process and thread from locking `path` while the block runs.

    A thread that holds the lock may take it again. If another holds it, `on_wait` is told who and since when,
    once, and then this waits: `timeout` seconds, or as long as it takes. The system releases the lock when
    the process ends, for any reason. With `keep`, the lock file stays for the next one.

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
    file = _lock_file(target)
    with ExitStack() as lock:
        try:
            lock.enter_context(locks.held(file, _permissions_like(target), timeout, on_wait, keep))
        except locks.StillHeldError as holder:
            raise StorageError(
                f"'{path}' is still in use after {timeout:g} s, by {holder}: try again when it has ended"
            ) from None
        except OSError as error:
            raise StorageError(
                f"Cannot lock '{path}' ({_reason(error)}): nothing was changed; make sure that the folder "
                f"'{target.parent}' exists and has room, and that you may write '{file.name}' there, "
                "or choose another"
            ) from error
        yield


def _real(path: AnyPath) -> Path:
    # Links are followed, so that one file has one lock under all its names.
    return Path(os.path.realpath(path))


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


@contextmanager
def believed(path: AnyPath) -> Iterator[None]:
    """Use what a file holds: any error that its contents cause means that the file is damaged."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, RuntimeError) as error:
        raise damaged(path, str(error).strip().partition("\n")[0] or type(error).__name__) from error


def damaged(path: AnyPath, why: str) -> DamagedFileError:
    """The error for a file that is not what it says it is, and why not."""
    return DamagedFileError(
        f"'{path}' is damaged, or not a layup file ({brief(why)}): restore it from a copy"
    )


def unreadable(path: AnyPath, error: Exception) -> StorageError:
    """The error for a file that cannot be read."""
    return StorageError(f"Cannot read '{path}' ({_reason(error)}): check the path and its permissions")


def unwritable(path: AnyPath, error: Exception) -> StorageError:
    """The error for a file that cannot be written, and is as before."""
    return StorageError(
        f"Cannot write '{path}' ({_reason(error)}): what was there before is untouched; "
        "make sure that the folder is writable and has room, or choose another, and save again"
    )


# ---- writing


def _storable(name: str, array: NDArray[Any]) -> NDArray[Any]:
    # C order and little-endian, as the file has them; most arrays are so already, and not copied.
    if name == "__metadata__":
        raise InputError(
            "An array cannot be named '__metadata__', as safetensors keeps its header there: rename it"
        )
    if array.dtype.name not in _TYPES:
        raise InputError(
            f"Array '{name}' has type {array.dtype.name}, which cannot be stored: "
            f"use one of {', '.join(_TYPES)}"
        )
    import numpy as np

    return np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")


def _sealed_header(kind: str, fields: Mapping[str, Any], arrays: Arrays) -> str:
    taken = [name for name in _RESERVED if name in fields]
    if taken:
        raise InputError(f"The header fields {', '.join(taken)} are reserved: use other names")
    whole = {"format": FORMAT, "kind": kind, "checksum": _checksum(arrays), **fields}
    try:
        # Through JSON once, as the reader will see it, so that both sides compute the same checksum.
        header = json.loads(json.dumps(whole, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(
            f"The header cannot be written as JSON ({error}): "
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
    # Not safetensors' own save_file: it writes to a `.tmpXXXXXX`, which would stay if the process is killed,
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


def _replace(
    path: AnyPath,
    fill: Callable[[BinaryIO], object],
    check: Callable[[Path], None],
    like: AnyPath | None = None,
) -> None:
    """Replace a file: the new one is filled and checked next to it, and then moved in one step."""
    target = _real(path)
    temporary = target.parent / f".{target.name}.{secrets.token_hex(8)}.tmp"
    try:
        replaced = _replaced(target)
        if replaced is None and like is not None:
            replaced = _replaced(_real(like))
        # No other user may read it before it has the mode of the file that it replaces.
        first_mode = 0o666 if replaced is None else 0o600
        created = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, first_mode)
        with os.fdopen(created, "wb") as file:
            fill(file)
            file.flush()
            if replaced is not None:
                locks.Permissions(owner=(replaced.st_uid, replaced.st_gid)).give(file.fileno())
                temporary.chmod(stat.S_IMODE(replaced.st_mode))
            os.fsync(file.fileno())
        check(temporary)
        temporary.replace(target)
    except (OSError, SafetensorError) as error:
        raise unwritable(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    try:
        flush_folder(target.parent)
    except OSError as error:
        raise StorageError(
            f"'{path}' was written, but its folder could not be flushed to the disk ({_reason(error)}): "
            "a power cut may still bring the old file back, so check the disk and save again"
        ) from error


def _replaced(target: Path) -> os.stat_result | None:
    # A rename would also replace a device, or a file that its owner has made read-only.
    try:
        found = require_file(target)
    except FileNotFoundError:
        return None
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "it is read-only")
    return found


def _remove_leftovers(target: Path) -> None:
    # The lock is held, so there is no other writer. Failing to clean up must not prevent saving.
    leftover = re.compile(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.tmp")
    with suppress(OSError):
        for file in target.parent.iterdir():
            if leftover.fullmatch(file.name):
                file.unlink(missing_ok=True)


def flush_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    if os.name == "nt":
        return  # Windows has no such call, and does not need it
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # folders need no flush on this file system
            raise
    finally:
        os.close(opened)


# ---- reading


@contextmanager
def _opened(path: AnyPath) -> Iterator[Any]:
    try:
        require_file(path)
        with Path(path).open("rb") as raw:
            empty = not raw.read(1)
        if empty:
            raise damaged(path, "it is empty")
        with safe_open(path, framework="np") as file:
            yield file
    except OSError as error:
        raise unreadable(path, error) from error
    except SafetensorError as error:
        raise damaged(path, str(error)) from error


def _declared(path: AnyPath, file: Any) -> dict[str, Declared]:
    """What the file says about its arrays."""
    names = {stored: name for name, stored in _TYPES.items()}
    found = {}
    for name in file.keys():  # noqa: SIM118 - not a dict
        part = file.get_slice(name)
        if part.get_dtype() not in names:
            raise damaged(path, f"its array {name!r} has a type that layup does not write")
        found[name] = Declared(names[part.get_dtype()], tuple(part.get_shape()))
    return found


def _checked_header(path: AnyPath, kind: str, file: Any) -> tuple[dict[str, Any], int]:
    """Return the caller's fields, and the checksum that the arrays should have."""
    header = _sealed_header_of(path, file)
    if header["kind"] != kind:
        other = brief(repr(header["kind"]))
        raise StorageError(f"'{path}' is a file of kind {other}, not {kind!r}: give another file")
    return {name: value for name, value in header.items() if name not in _RESERVED}, header["checksum"]


def _sealed_header_of(path: AnyPath, file: Any) -> dict[str, Any]:
    """The header of a file of any kind, whose checksum is right."""
    text = (file.metadata() or {}).get("layup")
    if text is None:
        raise StorageError(f"'{path}' is a safetensors file, but not of layup: give one that layup wrote")
    try:
        header = json.loads(text, parse_constant=_refuse_constant)
        sealed = isinstance(header, dict) and header.pop("header_checksum", None) == _header_checksum(header)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"its header is not JSON: {error}") from error
    if not isinstance(header, dict) or type(header.get("format")) is not int or header["format"] < 1:
        raise damaged(path, "its header has no format number")
    # Before the checksums, because a later format may compute them differently.
    if header["format"] > FORMAT:
        raise NewerFormatError(
            f"'{path}' was written by a later layup "
            f"(format {header['format']}, this one reads up to {FORMAT}): upgrade layup-cl"
        )
    if not sealed:
        raise damaged(path, "the checksum of its header is wrong")
    if type(header.get("kind")) is not str or type(header.get("checksum")) is not int:
        raise damaged(path, "its header names no kind or checksum")
    return header


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# ---- locking


def _lock_file(target: Path) -> Path:
    return target.parent / f".{target.name}.lock"


def _permissions_like(target: Path) -> locks.Permissions:
    """Those who may write the model may lock it; for a new model, the permissions of any new file."""
    try:
        found = target.stat()
    except OSError:
        return locks.Permissions()
    if not stat.S_ISREG(found.st_mode):
        return locks.Permissions()
    return locks.Permissions(found.st_mode & 0o666 | 0o600, (found.st_uid, found.st_gid))
