from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.numpy
from hypothesis import given, settings, strategies as st
from hypothesis.extra import numpy as hnp

from layup import storage
from layup.errors import DamagedFileError, InputError, NewerFormatError, StorageError
from processes import mode_of, python_running, umask

HEADER = {"classes": ["cat", "perro ñ", "犬"], "lambda": 0.1, "counts": {"cat": 3}, "none": None}
ARRAYS = {
    "G": np.arange(6.0).reshape(2, 3),
    "c": np.arange(4, dtype=np.float32).reshape(4, 1),
    "n": np.array([3, -1, 2**62]),
    "scalar": np.array(-0.0),
    "empty": np.zeros((0, 3)),
    "mask": np.array([True, False]),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.layup"


@pytest.fixture
def saved(path: Path) -> Path:
    storage.write(path, "model", HEADER, ARRAYS)
    return path


def assert_same_arrays(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        assert found[name].shape == array.shape
        assert found[name].tobytes() == array.tobytes()  # so that -0.0 and NaN count too


def files_beside(path: Path) -> set[str]:
    return {file.name for file in path.parent.iterdir()} - {path.name, f".{path.name}.lock"}


def run_python(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        **options,
    )


HOLD_THE_LOCK = """
import sys
from layup import storage
with storage.locked(sys.argv[1]):
    print("ready", flush=True)
    sys.stdin.readline()
"""


def test_does_not_import_torch() -> None:
    done = run_python("import layup.storage, sys; print('torch' in sys.modules)")
    assert done.stdout == "False\n", done.stderr


# ---- round trips


def test_what_is_written_is_read(saved: Path) -> None:
    header, arrays = storage.read(saved, "model")
    assert header == HEADER
    assert_same_arrays(arrays, ARRAYS)
    assert storage.read_header(saved, "model") == HEADER
    assert files_beside(saved) == set()


def test_path_may_be_text(path: Path) -> None:
    storage.write(str(path), "model", {}, ARRAYS)
    with storage.locked(str(path)):
        assert_same_arrays(storage.read(str(path), "model")[1], ARRAYS)


def test_relative_path(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    storage.write("m.layup", "model", {}, ARRAYS)
    assert_same_arrays(storage.read("m.layup", "model")[1], ARRAYS)


def test_no_arrays_and_no_fields(path: Path) -> None:
    storage.write(path, "model", {}, {})
    assert storage.read(path, "model") == ({}, {})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=4) | st.dictionaries(st.text(), children, max_size=4),
    max_leaves=10,
)
reserved = ("format", "kind", "checksum", "header_checksum")
headers = st.dictionaries(st.text().filter(lambda name: name not in reserved), json_values, max_size=4)
array_sets = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"])).filter(lambda name: name != "__metadata__"),
    st.sampled_from([np.float64, np.float32, np.int64]).flatmap(
        lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, min_side=0, max_side=5))
    ),
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(header=headers, arrays=array_sets)
def test_round_trip_of_anything(header: dict[str, Any], arrays: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.layup"
        storage.write(path, "statistics", header, arrays)
        found_header, found_arrays = storage.read(path, "statistics")
    assert found_header == header
    assert_same_arrays(found_arrays, arrays)


@pytest.mark.parametrize(
    "view",
    [
        np.arange(12.0).reshape(3, 4).T,
        np.arange(12.0)[::3],
        np.arange(12.0)[::-1],
        np.broadcast_to(np.arange(3.0), (4, 3)),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.arange(12.0).astype(">f8"),
    ],
    ids=["transposed", "strided", "reversed", "broadcast", "fortran", "big-endian"],
)
def test_layout_in_memory_does_not_matter(path: Path, view: Any) -> None:
    storage.write(path, "model", {}, {"view": view})
    found = storage.read(path, "model")[1]["view"]
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, view)


def test_arrays_read_can_be_changed_without_changing_the_file(saved: Path) -> None:
    before = saved.read_bytes()
    arrays = storage.read(saved, "model")[1]
    arrays["G"] += 1
    assert saved.read_bytes() == before


def test_header_comes_back_as_json_keeps_it(path: Path) -> None:
    storage.write(path, "model", {"shape": (2, 3), "names": {10: "ten", 9: "nine"}}, {})
    assert storage.read_header(path, "model") == {"shape": [2, 3], "names": {"10": "ten", "9": "nine"}}


def test_other_programs_can_read_the_file(saved: Path) -> None:
    assert_same_arrays(safetensors.numpy.load_file(saved), ARRAYS)
    with safetensors.safe_open(saved, framework="np") as file:
        metadata = file.metadata()
    assert metadata.keys() == {"layup"}
    header = json.loads(metadata["layup"])
    assert (header["format"], header["kind"]) == (storage.FORMAT, "model")


def test_the_same_content_gives_the_same_bytes(saved: Path) -> None:
    before = saved.read_bytes()
    storage.write(saved, "model", HEADER, dict(reversed(ARRAYS.items())))
    assert saved.read_bytes() == before


@pytest.mark.parametrize(
    ("header", "arrays", "message"),
    [
        ({"kind": "mine"}, {}, "kind are reserved"),
        ({"bad": {1, 2}}, {}, "cannot be written as JSON"),
        ({"bad": float("nan")}, {}, "cannot be written as JSON"),
        ({}, {"o": np.array([None])}, "type object, which cannot be stored: use one of float64"),
        ({}, {"__metadata__": np.zeros(2)}, "cannot be named '__metadata__'"),
    ],
    ids=["reserved-field", "set-in-header", "nan-in-header", "object-array", "reserved-array"],
)
def test_what_cannot_be_kept_is_refused(
    saved: Path, header: dict[str, Any], arrays: dict[str, Any], message: str
) -> None:
    before = saved.read_bytes()
    with pytest.raises(InputError, match=message):
        storage.write(saved, "model", header, arrays)
    assert saved.read_bytes() == before


def test_file_that_could_not_be_read_again_replaces_nothing(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise safetensors.SafetensorError("header too large")  # as safetensors says of more than 100 MB

    before = saved.read_bytes()
    monkeypatch.setattr(storage, "safe_open", refuse)
    with pytest.raises(StorageError, match=r"header too large\): what was there before is untouched"):
        storage.write(saved, "model", HEADER, ARRAYS)
    assert saved.read_bytes() == before
    assert files_beside(saved) == set()


def test_writing_needs_no_second_copy_in_memory(path: Path) -> None:
    big = np.ones(1_000_000)  # 8 MB
    tracemalloc.start()
    try:
        storage.write(path, "model", {}, {"big": big})
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000


# ---- damage


def one_sentence(error: pytest.ExceptionInfo[BaseException], path: Path) -> str:
    message = str(error.value)
    assert str(path) in message
    assert "\n" not in message
    return message


def test_missing_file(path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory") as error:
        storage.read(path, "model")
    one_sentence(error, path)


def test_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        storage.read(tmp_path / "nowhere" / "m.layup", "model")


def test_folder_instead_of_file(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="it is a folder, not a file") as error:
        storage.read(tmp_path, "model")
    one_sentence(error, tmp_path)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as opened:
        opened.bind(str(path))


def link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("make", [os.mkfifo, make_socket, link_to_a_device])
def test_what_is_no_file_is_not_waited_for(
    path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
) -> None:
    monkeypatch.chdir(path.parent)  # the name of a socket must be short
    make(Path(path.name))
    for reading in (storage.read, storage.read_header):
        done = run_python(f"from layup import storage; storage.{reading.__name__}('m.layup', 'model')")
        assert "StorageError: Cannot read 'm.layup' (it is a device or a pipe, not a file)" in done.stderr


def test_empty_file(path: Path) -> None:
    path.touch()
    with pytest.raises(DamagedFileError, match=r"is damaged.*it is empty.*restore") as error:
        storage.read(path, "model")
    one_sentence(error, path)


@pytest.mark.parametrize("content", [b"hello", b"\0" * 4096, b"\xff" * 4096, b"PK\x03\x04" * 100])
def test_not_safetensors(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for reading in (storage.read, storage.read_header):
        with pytest.raises(DamagedFileError) as error:
            reading(path, "model")
        one_sentence(error, path)


def test_safetensors_of_another_program(path: Path) -> None:
    for metadata in (None, {"format": "pt"}):
        safetensors.numpy.save_file({"a": np.zeros(2)}, path, metadata=metadata)
        with pytest.raises(StorageError, match="but not of layup") as error:
            storage.read(path, "model")
        one_sentence(error, path)


@pytest.mark.parametrize(
    "header",
    ["", "{", "null", "[1]", "{}", '{"format": "1"}', '{"format": true}', '{"format": 1}', "[" * 100_000],
)
def test_garbled_header(path: Path, header: str) -> None:
    safetensors.numpy.save_file({"a": np.zeros(2)}, path, metadata={"layup": header})
    for reading in (storage.read, storage.read_header):
        with pytest.raises(DamagedFileError) as error:
            reading(path, "model")
        one_sentence(error, path)


def test_a_header_that_is_nested_as_deep_as_can_just_be_read(path: Path) -> None:
    """To write it again for its checksum takes a few calls more than to read it."""
    for depth in range(sys.getrecursionlimit() - 300, sys.getrecursionlimit() + 10):
        header = f'{{"format": 1, "a": {"[" * depth}{"]" * depth}}}'
        safetensors.numpy.save_file({"a": np.zeros(2)}, path, metadata={"layup": header})
        with pytest.raises(DamagedFileError):
            storage.read_header(path, "model")


def test_wrong_kind(saved: Path) -> None:
    for reading in (storage.read, storage.read_header):
        with pytest.raises(StorageError, match="of kind 'model', not 'statistics'") as error:
            reading(saved, "statistics")
        one_sentence(error, saved)


def test_later_format(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "FORMAT", 2)
    storage.write(saved, "model", HEADER, ARRAYS)
    monkeypatch.undo()
    for reading in (storage.read, storage.read_header):
        with pytest.raises(
            NewerFormatError, match=r"later layup \(format 2, this one reads up to 1\): upgrade"
        ):
            reading(saved, "model")


@pytest.mark.parametrize("number", [0, -1, True, "1", None])
def test_a_format_that_never_was(saved: Path, monkeypatch: pytest.MonkeyPatch, number: Any) -> None:
    monkeypatch.setattr(storage, "FORMAT", number)
    storage.write(saved, "model", HEADER, ARRAYS)
    monkeypatch.undo()
    for reading in (storage.read, storage.read_header):
        with pytest.raises(DamagedFileError, match="has no format number"):
            reading(saved, "model")


def test_truncated_anywhere(saved: Path) -> None:
    for length in reversed(range(saved.stat().st_size)):
        os.truncate(saved, length)
        with pytest.raises(DamagedFileError):
            storage.read(saved, "model")


def test_grown_at_the_end(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes() + b"\0")
    with pytest.raises(DamagedFileError):
        storage.read(saved, "model")


@contextmanager
def byte_changed(path: Path, position: int, value: int) -> Iterator[None]:
    """Change one byte in place: much faster than writing the file again."""
    opened = os.open(path, os.O_RDWR)
    try:
        before = os.pread(opened, 1, position)
        os.pwrite(opened, bytes([value]), position)
        yield
        os.pwrite(opened, before, position)
    finally:
        os.close(opened)


def test_bit_flipped_in_arrays(saved: Path) -> None:
    whole = saved.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    for position in range(start, len(whole)):
        with (
            byte_changed(saved, position, whole[position] ^ 1),
            pytest.raises(DamagedFileError, match="checksum of its arrays"),
        ):
            storage.read(saved, "model")


def test_any_byte_changed_is_noticed_or_harmless(saved: Path) -> None:
    whole = saved.read_bytes()
    noticed = harmless = 0
    for position, byte in enumerate(whole):
        for value in ({byte ^ (1 << bit) for bit in range(8)} | {*b"0189FIUB ", 255 - byte}) - {byte}:
            with byte_changed(saved, position, value):
                try:
                    header, arrays = storage.read(saved, "model")
                except StorageError:
                    noticed += 1
                else:
                    harmless += 1  # a space in the JSON that became another space, say
                    assert header == HEADER
                    assert_same_arrays(arrays, ARRAYS)
    assert saved.read_bytes() == whole
    assert harmless < noticed / 100


def test_header_changed_is_noticed_without_reading_the_arrays(saved: Path) -> None:
    whole = saved.read_bytes()
    saved.write_bytes(whole.replace(b"cat", b"bat", 1))
    with pytest.raises(DamagedFileError, match="checksum of its header"):
        storage.read_header(saved, "model")


# ---- what stays of the old file


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_new_file_has_the_permissions_of_the_umask(path: Path, mask: int) -> None:
    with umask(mask):
        storage.write(path, "model", {}, {})
    assert mode_of(path) == 0o666 & ~mask


@pytest.mark.parametrize("mode", [0o600, 0o664, 0o640])
def test_permissions_are_kept(saved: Path, mode: int) -> None:
    saved.chmod(mode)
    storage.write(saved, "model", {"new": 1}, {})
    assert mode_of(saved) == mode


@pytest.mark.parametrize("mask", [0o022, 0o077])
@pytest.mark.parametrize("mode", [0o600, 0o664, 0o640, 0o444])
def test_the_lock_of_a_model_takes_its_mode(saved: Path, mode: int, mask: int) -> None:
    lock = saved.with_name(".m.layup.lock")
    saved.chmod(mode)
    with umask(mask), storage.locked(saved):
        assert mode_of(lock) == mode | 0o600
    lock.unlink()
    with umask(mask), storage.locked(saved):
        assert mode_of(lock) == mode | 0o600


@pytest.mark.parametrize("mask", [0o002, 0o077])
def test_the_lock_of_a_new_model_has_the_mode_that_the_model_will_have(path: Path, mask: int) -> None:
    with umask(mask), storage.locked(path):
        before = mode_of(path.with_name(".m.layup.lock"))
        storage.write(path, "model", {}, {})
    assert before == mode_of(path.with_name(".m.layup.lock")) == mode_of(path) == 0o666 & ~mask


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_owner_and_group_are_kept_and_the_lock_has_them_too(saved: Path) -> None:
    os.chown(saved, 65534, 65533)
    storage.write(saved, "model", {"new": 1}, {})
    for file in (saved, saved.with_name(".m.layup.lock")):
        assert (file.stat().st_uid, file.stat().st_gid) == (65534, 65533)


def test_symbolic_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    real, link = tmp_path / "elsewhere" / "real.layup", tmp_path / "link.layup"
    link.symlink_to(real)
    for generation in range(2):  # the first time, the link points to nothing
        storage.write(link, "model", {"generation": generation}, {})
        assert link.is_symlink()
        assert storage.read_header(real, "model") == {"generation": generation}
    assert {file.name for file in tmp_path.iterdir()} == {"elsewhere", "link.layup"}


def test_link_and_target_share_one_lock(saved: Path) -> None:
    link = saved.with_name("link.layup")
    link.symlink_to(saved)
    with (
        python_running(HOLD_THE_LOCK, link),
        pytest.raises(StorageError, match="in use"),
        storage.locked(saved, timeout=0),
    ):
        pass


def test_reader_is_not_disturbed_by_a_writer(saved: Path) -> None:
    with saved.open("rb") as opened:
        storage.write(saved, "model", {}, {"other": np.ones(9)})
        old = opened.read()
    saved.write_bytes(old)
    assert_same_arrays(storage.read(saved, "model")[1], ARRAYS)


# ---- failures while writing


def assert_write_fails(path: Path, why: str) -> None:
    with pytest.raises(StorageError, match=why) as error:
        storage.write(path, "model", {}, {"big": np.ones(1000)})
    message = one_sentence(error, path)
    assert "untouched" in message or "nothing was changed" in message


def test_writing_into_a_missing_folder(tmp_path: Path) -> None:
    assert_write_fails(tmp_path / "nowhere" / "m.layup", "No such file or directory")
    assert not (tmp_path / "nowhere").exists()


def test_writing_under_a_file(saved: Path) -> None:
    assert_write_fails(saved / "m.layup", "Not a directory")


def test_writing_over_a_folder(path: Path) -> None:
    path.mkdir()
    assert_write_fails(path, "not a file")
    assert path.is_dir()
    assert files_beside(path) == set()


def test_writing_over_a_special_file(path: Path) -> None:
    os.mkfifo(path)
    assert_write_fails(path, "not a file")
    assert path.is_fifo()
    assert files_beside(path) == set()


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "it is a folder"),
        (".", "it is a folder"),
        ("/", "it is a folder"),
        ("/dev/null", "it is a device"),
        ("nowhere/m.layup", "no such folder"),
        ("file/m.layup", "Not a directory"),
        ("m" * 300, "File name too long"),
        ("/proc/m.layup", None),
    ],
)
def test_a_path_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, why: str | None
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    if why is None:  # root may do anything, it is said: then locking is refused
        with pytest.raises((InputError, StorageError)), storage.locked(name):
            storage.require_writable(name)
        return
    with pytest.raises(InputError, match=why) as error:
        storage.require_writable(name)
    assert f"Cannot write '{name}'" in str(error.value)
    storage.require_writable("file")
    storage.require_writable("new")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


def test_name_too_long(tmp_path: Path) -> None:
    assert_write_fails(tmp_path / ("m" * 250), "File name too long")


AS_NOBODY = """
import os, sys
import numpy as np
from layup import storage
from layup.errors import StorageError
if os.getuid() == 0:  # root may do anything
    os.setgid(65534), os.setuid(65534)
for attempt in (
    lambda: storage.write(sys.argv[1], "model", {}, {}),
    lambda: storage.read(sys.argv[1], "model"),
    lambda: storage.locked(sys.argv[1]).__enter__(),
):
    try:
        attempt()
        print("done")
    except StorageError as error:
        print(str(error).replace(sys.argv[1], ""))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    # pytest's own folders are closed to other users.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)
        Path(folder).chmod(0o755)


def as_nobody(path: Path) -> list[str]:
    done = run_python(AS_NOBODY, path)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_folder_without_permission(open_folder: Path) -> None:
    path = open_folder / "m.layup"
    storage.write(path, "model", HEADER, ARRAYS)
    path.chmod(0o600)
    (open_folder / ".m.layup.lock").unlink()
    open_folder.chmod(0o000)
    writing, reading, locking = as_nobody(path)
    open_folder.chmod(0o755)
    assert writing.startswith("Cannot lock '' (Permission denied): nothing was changed")
    assert reading.startswith("Cannot read '' (Permission denied)")
    assert locking == writing
    assert_same_arrays(storage.read(path, "model")[1], ARRAYS)
    assert files_beside(path) == set()


def test_read_only_folder(open_folder: Path) -> None:
    path = open_folder / "m.layup"
    storage.write(path, "model", HEADER, ARRAYS)
    (open_folder / ".m.layup.lock").unlink()
    open_folder.chmod(0o555)
    writing, reading, locking = as_nobody(path)
    assert writing.startswith("Cannot lock '' (Permission denied): nothing was changed")
    assert reading == "done"
    assert locking == writing


def test_read_only_file(open_folder: Path) -> None:
    path = open_folder / "m.layup"
    storage.write(path, "model", HEADER, ARRAYS)
    path.chmod(0o444)
    (open_folder / ".m.layup.lock").chmod(0o666)
    open_folder.chmod(0o777)
    writing, reading, locking = as_nobody(path)
    assert writing.startswith("Cannot write '' (it is read-only): what was there before is untouched")
    assert (reading, locking) == ("done", "done")
    assert_same_arrays(storage.read(path, "model")[1], ARRAYS)
    assert files_beside(path) == set()


FILE_SIZE_LIMITED = """
import resource, signal, sys
import numpy as np
from layup import storage
from layup.errors import StorageError
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), resource.RLIM_INFINITY))
try:
    storage.write(sys.argv[1], "model", {}, {"big": np.ones(100_000), "small": np.ones(1)})
except StorageError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [0, 100, 4096, 799_999])
def test_disk_full_by_file_size_limit(saved: Path, limit: int) -> None:
    before = saved.read_bytes()
    done = run_python(FILE_SIZE_LIMITED, saved, limit)
    assert f"Cannot write '{saved}' (File too large): what was there before is untouched" in done.stdout, done
    assert saved.read_bytes() == before
    assert files_beside(saved) == set()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "layup-test", str(folder)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"cannot mount: {error}")
    if done.returncode != 0:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_disk_full(tiny_disk: Path) -> None:
    path = tiny_disk / "m.layup"
    storage.write(path, "model", HEADER, ARRAYS)
    before = path.read_bytes()
    with pytest.raises(StorageError, match=r"No space left on device\): what was there before is untouched"):
        storage.write(path, "model", {}, {"big": np.ones(100_000)})
    assert path.read_bytes() == before
    assert files_beside(path) == set()
    storage.write(path, "model", {}, {"small": np.ones(1000)})


@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize(
    "failure", [OSError(5, "Input/output error"), KeyboardInterrupt()], ids=["io", "ctrl-c"]
)
def test_failure_at_any_step(
    saved: Path, monkeypatch: pytest.MonkeyPatch, step: str, failure: BaseException
) -> None:
    def fail(*arguments: object, **options: object) -> None:
        raise failure

    before = saved.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises((StorageError, KeyboardInterrupt)) as error:
            storage.write(saved, "model", {}, {"new": np.ones(9)})
    if isinstance(failure, OSError):
        assert "(Input/output error): what was there before is untouched" in str(error.value)
    assert saved.read_bytes() == before
    assert files_beside(saved) == set()
    with storage.locked(saved, timeout=0):
        pass


def folder_fsync_failing_with(number: int) -> Callable[[int], None]:
    def fsync(opened: int, real: Callable[[int], None] = os.fsync) -> None:
        if stat.S_ISDIR(os.fstat(opened).st_mode):
            raise OSError(number, os.strerror(number))
        real(opened)

    return fsync


def test_folder_that_cannot_be_flushed(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", folder_fsync_failing_with(5))
    with pytest.raises(StorageError, match=r"was written, but its folder could not be flushed"):
        storage.write(saved, "model", {"generation": 2}, {})
    assert storage.read_header(saved, "model") == {"generation": 2}


def test_file_system_without_folder_flush(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", folder_fsync_failing_with(22))
    storage.write(saved, "model", {"generation": 2}, {})
    assert storage.read_header(saved, "model") == {"generation": 2}


def test_leftovers_of_this_file_alone_are_removed(saved: Path) -> None:
    ours = saved.with_name(f".m.layup.{'0a' * 8}.tmp")
    others = [
        f".n.layup.{'0a' * 8}.tmp",
        f".m.layup.x.{'0a' * 8}.tmp",
        ".m.layup.tmp",
        "m.layup.bak",
        ".tmpAbCdE",
    ]
    for name in (ours.name, *others):
        saved.with_name(name).write_bytes(b"half a file")
    storage.write(saved, "model", {}, {})
    assert files_beside(saved) == set(others)


@pytest.mark.slow
def test_killed_writers_never_harm_the_file(tmp_path: Path) -> None:
    script = Path(__file__).with_name("kill_storage.py")
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path), "300"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["generations"] > 50
    assert seen["midway"] > 10  # enough kills did hit a writer with half a file


# ---- the lock

ADD_ONE = """
import sys
import numpy as np
from layup import storage
path = sys.argv[1]
for _ in range(int(sys.argv[2])):
    with storage.locked(path):
        header, arrays = storage.read(path, "model")
        storage.write(path, "model", {"sum": header["sum"] + 1}, {"sum": arrays["sum"] + 1})
"""


def test_no_update_is_lost(path: Path) -> None:
    storage.write(path, "model", {"sum": 0}, {"sum": np.zeros(100)})
    writers = [subprocess.Popen([sys.executable, "-c", ADD_ONE, str(path), "25"]) for _ in range(4)]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    header, arrays = storage.read(path, "model")
    assert header == {"sum": 100}
    assert np.all(arrays["sum"] == 100)


def test_no_update_is_lost_between_threads(path: Path) -> None:
    storage.write(path, "model", {"sum": 0}, {})

    def add() -> None:
        for _ in range(5):
            with storage.locked(path):
                total = storage.read_header(path, "model")["sum"]
                storage.write(path, "model", {"sum": total + 1}, {})

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert storage.read_header(path, "model") == {"sum": 20}


def test_nobody_waits_for_a_free_lock(path: Path) -> None:
    waits: list[str] = []
    with storage.locked(path, on_wait=waits.append):
        with storage.locked(path, timeout=0, on_wait=waits.append):
            storage.write(path, "model", {}, {})
        assert_locked_for_others(path)  # the inner block did not release it
    assert waits == []
    with python_running(HOLD_THE_LOCK, path):
        pass


def assert_locked_for_others(path: Path) -> None:
    code = "import sys; from layup import storage\nwith storage.locked(sys.argv[1], timeout=0): pass"
    done = run_python(code, path)
    assert done.returncode == 1
    assert f"StorageError: '{path}' is still in use after 0 s, by process {os.getpid()} on " in done.stderr


def test_waiting_is_announced_once_and_ends_when_the_lock_is_free(path: Path) -> None:
    waits: list[str] = []
    with python_running(HOLD_THE_LOCK, path) as holder:

        def let_go(who: str) -> None:
            waits.append(who)
            assert holder.stdin is not None
            holder.stdin.write("\n")
            holder.stdin.flush()

        with storage.locked(path, timeout=30, on_wait=let_go):
            holder.wait(10)
    (who,) = waits
    assert re.fullmatch(
        rf"process {holder.pid} on \S+ \(-c\), since \d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\S+", who
    )


def test_timeout(path: Path) -> None:
    waits: list[str] = []
    with python_running(HOLD_THE_LOCK, path):
        start = time.monotonic()
        with (
            pytest.raises(StorageError, match=r"still in use after 0.3 s, by process \d+") as error,
            storage.locked(path, timeout=0.3, on_wait=waits.append),
        ):
            pass
        assert 0.3 <= time.monotonic() - start < 5
    one_sentence(error, path)
    assert len(waits) == 1


def test_lock_of_a_killed_process_is_free(path: Path) -> None:
    with python_running(HOLD_THE_LOCK, path) as holder:
        holder.send_signal(signal.SIGKILL)
        holder.wait(10)
        with storage.locked(path, timeout=0):
            pass


def test_lock_is_released_after_an_error(path: Path) -> None:
    with pytest.raises(ZeroDivisionError), storage.locked(path):
        _ = 1 / 0
    with python_running(HOLD_THE_LOCK, path):
        pass


FORK_WHILE_LOCKED = """
import os, sys
from layup import storage
from layup.errors import StorageError
with storage.locked(sys.argv[1]):
    if os.fork() == 0:
        try:
            with storage.locked(sys.argv[1], timeout=0):
                os._exit(1)
        except StorageError:
            os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""


def test_forked_child_does_not_believe_that_it_holds_the_lock(path: Path) -> None:
    assert run_python(FORK_WHILE_LOCKED, path).returncode == 0


def test_deleting_leaves_nothing(saved: Path) -> None:
    other = saved.with_name("other.layup")
    storage.write(other, "model", {}, {})
    storage.delete(saved)
    assert sorted(file.name for file in saved.parent.iterdir()) == [".other.layup.lock", "other.layup"]
    storage.delete(saved)


def test_what_cannot_be_deleted_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match=r"Cannot delete .*folder.* by hand"):
        storage.delete(tmp_path / "folder")


def test_only_the_empty_lock_file_is_left_behind(path: Path) -> None:
    with storage.locked(path):
        pass
    lock = path.with_name(".m.layup.lock")
    assert list(path.parent.iterdir()) == [lock]
    assert lock.stat().st_size == 0


@pytest.mark.parametrize("folder", [True, False])
def test_what_cannot_be_written_in_the_end_is_refused_before_something_long_begins(
    folder: bool, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may write anywhere, so that the system is made to say no."""
    storage.require_writable(saved)
    refused = saved.parent if folder else saved
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != refused.resolve())
    what = "its folder is read-only" if folder else "it is read-only"
    with pytest.raises(
        InputError, match=rf"Cannot write '.*' \({what}\)\. Name a file in a folder that exists"
    ):
        storage.require_writable(saved)


@pytest.mark.parametrize(
    "forged", [{"kind": None}, {"kind": 7}, {"checksum": None}, {"checksum": "0"}, {"checksum": True}]
)
def test_a_sealed_header_without_kind_or_checksum_is_damaged(forged: dict[str, Any], saved: Path) -> None:
    with safetensors.safe_open(saved, framework="np") as file:
        header = json.loads(file.metadata()["layup"])
    del header["header_checksum"]
    header |= forged
    header["header_checksum"] = storage._header_checksum(header)
    safetensors.numpy.save_file(ARRAYS, saved, {"layup": json.dumps(header)})
    with pytest.raises(DamagedFileError, match="its header names no kind or checksum"):
        storage.read(saved, "model")


def test_a_text_is_replaced_whole_and_leaves_no_lock(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    for text in ('{"λ": 1}', "{}"):
        storage.write_text(path, text)
        assert path.read_text() == text
        assert {each.name for each in tmp_path.iterdir()} == {"record.json"}


def test_a_check_sees_what_is_declared_before_arrays_are_read(saved: Path) -> None:
    seen: dict[str, int] = {}

    def check(fields: dict[str, Any], declared: storage.Declarations) -> None:
        assert fields == HEADER
        seen.update({name: each.nbytes for name, each in declared.items()})
        raise ValueError("it is not liked")

    with pytest.raises(DamagedFileError, match="it is not liked"):
        storage.read(saved, "model", check)
    assert seen == {name: array.nbytes for name, array in ARRAYS.items()}


def test_a_folder_that_cannot_be_made_is_a_sentence(saved: Path) -> None:
    storage.make_folder(saved.parent / "a" / "b")
    storage.make_folder(saved.parent / "a" / "b")
    assert (saved.parent / "a" / "b").is_dir()
    with pytest.raises(
        InputError, match=r"Cannot make the folder '.*' \(Not a directory\)\. Choose another one\."
    ):
        storage.make_folder(saved / "b")


def test_what_does_not_go_together_makes_a_file_a_damaged_one(saved: Path) -> None:
    for error in (
        ValueError("one\ntwo"),
        KeyError("k"),
        TypeError("one"),
        AttributeError(),
        RuntimeError("one"),
    ):
        with pytest.raises(DamagedFileError) as caught, storage.believed(saved):
            raise error
        assert "\n" not in str(caught.value)
    with pytest.raises(ZeroDivisionError), storage.believed(saved):
        raise ZeroDivisionError
