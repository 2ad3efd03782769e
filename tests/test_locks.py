"""A lock lets one in at a time, is free when its holder is gone, and says who holds it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from layup import locks
from layup.locks import Holder, Permissions, StillHeldError, held
from processes import mode_of, python_running, umask

WITHOUT_FLOCK = """
import fcntl, os, pathlib, sys
from layup import locks
flock = fcntl.flock
def missing(opened, operation):
    if pathlib.Path(f"/proc/self/fd/{opened}").readlink().parent == pathlib.Path(sys.argv[1]).parent:
        raise OSError(int(sys.argv[2]), os.strerror(int(sys.argv[2])))
    flock(opened, operation)
fcntl.flock = missing
"""
HOLD = """
import pathlib, sys
from layup import locks
with locks.held(pathlib.Path(sys.argv[1])):
    print("ready", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / ".m.lock"


def ended(code: str, *arguments: object) -> str:
    """What Python code prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def who_holds(file: Path) -> str:
    with pytest.raises(StillHeldError) as error, held(file, timeout=0):
        pass
    return str(error.value)


# Who holds it


def test_whoever_waits_is_told_who_holds_it_and_since_when(file: Path) -> None:
    with python_running(HOLD, file) as other:
        told = who_holds(file)
    assert told.startswith(f"process {other.pid} on {socket.gethostname()} (-c), since 20")


def test_a_command_of_ours_is_named_and_arguments_of_others_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/layup", "learn", "private", "--to", "m"])
    assert Holder.here().command == "layup learn"
    monkeypatch.setattr(sys, "argv", ["/home/me/job.py", "password"])
    assert Holder.here().command == "job.py"
    monkeypatch.setattr(sys, "argv", [""])
    assert Holder.here().command == "python"


def test_a_thread_that_waits_is_told_as_well(file: Path) -> None:
    told: list[str] = []

    def wait() -> None:
        with held(file, on_wait=told.append):
            told.append("in")

    with held(file), held(file, timeout=0):
        thread = threading.Thread(target=wait)
        thread.start()
        while not told:
            time.sleep(0.01)
        assert told[0].startswith(f"process {os.getpid()} on ")
    thread.join(60)
    assert told[1:] == ["in"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hello",
        b"\xff\xfe" * 9,
        b"[" * 4000,
        b"null",
        b"{}",
        b'{"pid": 1}',
        b"7" * 5000,
        json.dumps({**Holder.here().__dict__, "pid": "1"}).encode(),
        json.dumps({**Holder.here().__dict__, "pid": -1}).encode(),
        json.dumps({**Holder.here().__dict__, "host": 3}).encode(),
        json.dumps({**Holder.here().__dict__, "more": 3}).encode(),
    ],
)
def test_a_line_that_says_nothing_is_no_obstacle(file: Path, content: bytes) -> None:
    with python_running(HOLD, file):
        file.write_bytes(content)
        assert Holder.read(file) is None
        assert who_holds(file) == "another process"


def test_a_line_cannot_command_a_terminal_or_fill_it(file: Path) -> None:
    forged = {**Holder.here().__dict__, "host": "\x1b[2J\n", "command": "x" * 3000, "since": "\u202enow"}
    with python_running(HOLD, file):
        file.write_text(json.dumps(forged))
        told = who_holds(file)
    assert told.isprintable()
    assert "\\x1b[2J\\n" in told
    assert len(told) < 400


def test_reading_who_holds_it_never_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for nothing in ("pipe", "none", ""):
        assert Holder.read(tmp_path / nothing) is None


def test_the_line_of_a_killed_holder_is_not_shown_for_another(file: Path) -> None:
    """Who may only read the lock file cannot write its own."""
    with python_running(HOLD, file) as other:
        left = file.read_bytes()
        other.send_signal(signal.SIGKILL)
        other.wait(10)
    assert file.read_bytes() == left
    with file.open() as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        assert who_holds(file) == "another process"


def test_an_id_that_was_given_again_is_another_process() -> None:
    mine = Holder.here()
    assert not mine.gone
    assert Holder(**{**mine.__dict__, "started": "1"}).gone
    assert not Holder(**{**mine.__dict__, "started": "1", "machine": "another"}).gone
    assert not Holder(**{**mine.__dict__, "pid": 10**30}).gone


# Letting go


def test_only_an_empty_file_is_left(file: Path) -> None:
    with held(file):
        assert json.loads(file.read_text())["pid"] == os.getpid()
    assert list(file.parent.iterdir()) == [file]
    assert file.read_bytes() == b""


def test_a_child_does_not_keep_the_lock_of_a_killed_parent(file: Path) -> None:
    """Processes that decode images outlive, for seconds, the one that was killed."""
    code = """
import os, pathlib, sys, time
from layup import locks
with locks.held(pathlib.Path(sys.argv[1])):
    child = os.fork()
    if child == 0:
        print("ready", flush=True)
        sys.stdin.readline()
        os._exit(0)
    time.sleep(60)
"""
    with python_running(code, file) as parent:
        parent.send_signal(signal.SIGKILL)
        parent.wait(10)
        with held(file, timeout=0):
            pass


def test_a_child_that_leaves_the_block_leaves_the_lock_to_its_parent(file: Path) -> None:
    code = """
import os, pathlib, sys
from layup import locks
file = pathlib.Path(sys.argv[1])
with locks.held(file):
    child = os.fork()
    if child:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        other = os.fork()
        if other == 0:
            try:
                with locks.held(file, timeout=0):
                    os._exit(1)
            except locks.StillHeldError as error:
                os._exit(0 if str(error).startswith(f"process {os.getppid()} ") else 2)
        print(os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]))
"""
    assert ended(code, file) == "0\n"


def test_a_lock_file_that_is_deleted_before_it_is_locked_locks_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last holder may delete it when another has just opened it: others would make a new one."""
    take, taken = locks._take, []

    def late(opened: int) -> bool:
        if not taken:
            file.unlink()
        taken.append(opened)
        return take(opened)

    monkeypatch.setattr(locks, "_take", late)
    with held(file):
        holder = Holder.read(file)
    assert len(taken) == 2
    assert holder is not None
    assert holder.pid == os.getpid()


# Locks that cannot be made


def fifo(file: Path) -> None:
    os.mkfifo(file)


def link(file: Path) -> None:
    file.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("make", "why"), [(Path.mkdir, "Is a directory"), (fifo, "is not a file"), (link, "links")]
)
def test_what_is_in_the_place_of_the_lock_is_not_waited_for(
    file: Path, make: Callable[[Path], None], why: str
) -> None:
    make(file)
    with pytest.raises(OSError, match=why), held(file):
        pass


@pytest.mark.parametrize("folder", ["/proc", "/proc/self", "/nowhere/at/all"])
def test_a_folder_where_nothing_can_be_made(folder: str) -> None:
    with pytest.raises(OSError) as error, held(Path(folder, ".m.lock")):  # noqa: PT011 - any but the next
        pass
    assert not isinstance(error.value, StillHeldError)


@pytest.mark.parametrize("options", ["size=64k,ro", "nr_inodes=1"])
def test_a_disk_that_takes_no_file(tmp_path: Path, options: str) -> None:
    mount = ["mount", "-t", "tmpfs", "-o", options, "layup-test", str(tmp_path)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True)
    except OSError as error:
        pytest.skip(f"cannot mount: {error}")
    if done.returncode != 0:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        with pytest.raises(OSError, match=r"Read-only|No space"), held(tmp_path / ".m.lock"):
            pass
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_line_that_cannot_be_written_is_no_obstacle(file: Path) -> None:
    code = """
import pathlib, resource, sys
from layup import locks
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
file = pathlib.Path(sys.argv[1])
with locks.held(file):
    try:
        with file.open() as opened:
            import fcntl
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        print(file.stat().st_size)
"""
    assert ended(code, file) == "0\n"


# Who may lock it


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
def test_the_mode_is_as_given_whatever_the_umask(file: Path, mask: int) -> None:
    with umask(mask):
        with held(file, Permissions(0o664)):
            pass
        assert mode_of(file) == 0o664
        with held(file, Permissions(0o600)):
            assert mode_of(file) == 0o600
        with held(file):
            pass
        assert mode_of(file) == 0o600
        file.unlink()
        with held(file):
            pass
        assert mode_of(file) == 0o666 & ~mask


AS_NOBODY = """
import os, pathlib, sys
from layup import locks
if os.getuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
file = pathlib.Path(sys.argv[1])
try:
    with locks.held(file, locks.Permissions(0o666), timeout=0):
        print("in", locks.Holder.read(file) is not None)
except OSError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize(
    ("mode", "told"), [(0o600, "PermissionError"), (0o644, "in False"), (0o666, "in True")]
)
def test_whoever_may_read_a_lock_file_may_lock_it(mode: int, told: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        file = Path(folder) / ".m.lock"
        with held(file, Permissions(mode)):
            pass
        assert ended(AS_NOBODY, file).strip() == told
        assert mode_of(file) == mode
        with held(file):
            assert ended(AS_NOBODY, file).strip() in (told, "StillHeldError")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")
def test_root_leaves_no_lock_that_the_owner_cannot_take(file: Path) -> None:
    with held(file, Permissions(0o600, (65534, 65534))):
        pass
    assert (file.stat().st_uid, file.stat().st_gid) == (65534, 65534)


# Where the system has no locks

MISSING = [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK]


@pytest.mark.parametrize("number", MISSING)
def test_a_file_takes_the_place_of_a_lock(file: Path, number: int) -> None:
    substitute = locks.files(file)[1]
    with python_running(WITHOUT_FLOCK + HOLD, file, number) as other:
        assert Holder.read(substitute).pid == other.pid  # type: ignore[union-attr]
        told = ended(WITHOUT_FLOCK + TRY, file, number)
        assert told.startswith(f"held by process {other.pid} on ")
        assert f"if that has ended, delete '{substitute}'" in told
        assert other.stdin is not None
        other.stdin.write("\n")
        other.stdin.flush()
        other.wait(10)
        assert not substitute.exists()
        assert ended(WITHOUT_FLOCK + TRY, file, number) == "in\n"


TRY = """
import pathlib, sys
from layup import locks
try:
    with locks.held(pathlib.Path(sys.argv[1]), timeout=0):
        print("in")
except locks.StillHeldError as error:
    print("held by", error)
"""


def test_who_has_a_lock_and_who_has_none_exclude_each_other(file: Path) -> None:
    """As two machines may, or one whose system is out of locks for a moment."""
    with python_running(WITHOUT_FLOCK + HOLD, file, errno.ENOLCK) as other:
        assert who_holds(file).startswith(f"process {other.pid} on ")
    with held(file):  # of the other, which was killed, nothing is left
        assert ended(WITHOUT_FLOCK + TRY, file, errno.ENOLCK).startswith(f"held by process {os.getpid()} on ")
    assert ended(WITHOUT_FLOCK + TRY, file, errno.ENOLCK) == "in\n"


def test_without_locks_what_a_killed_holder_left_is_deleted(file: Path) -> None:
    substitute = locks.files(file)[1]
    with python_running(WITHOUT_FLOCK + HOLD, file, errno.ENOLCK) as other:
        other.send_signal(signal.SIGKILL)
        other.wait(10)
        assert substitute.exists()
        assert ended(WITHOUT_FLOCK + TRY, file, errno.ENOLCK) == "in\n"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("left", [b"", b"{", json.dumps({**Holder.here().__dict__, "machine": "x"}).encode()])
def test_without_locks_what_may_be_alive_is_waited_for(file: Path, left: bytes) -> None:
    locks.files(file)[1].write_bytes(left)
    assert "if that has ended, delete" in ended(WITHOUT_FLOCK + TRY, file, errno.ENOSYS)
    assert locks.files(file)[1].read_bytes() == left


COUNT = """
for _ in range(20):
    with locks.held(pathlib.Path(sys.argv[1])):
        number = int(pathlib.Path(sys.argv[3]).read_text())
        pathlib.Path(sys.argv[3]).write_text(str(number + 1))
"""


def test_without_locks_one_is_let_in_at_a_time_although_all_find_what_was_left(file: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    locks.files(file)[1].write_text(json.dumps({**Holder.here().__dict__, "pid": gone.pid, "started": "1"}))
    numbers = file.with_name("numbers")
    numbers.write_text("0")
    command = [sys.executable, "-c", WITHOUT_FLOCK + COUNT, str(file), str(errno.ENOSYS), str(numbers)]
    counters = [subprocess.Popen(command) for _ in range(4)]
    assert [counter.wait(60) for counter in counters] == [0] * 4
    assert numbers.read_text() == "80"


def test_without_locks_threads_exclude_each_other(file: Path) -> None:
    code = """
import threading
inside, most = [], []
def enter():
    for _ in range(5):
        with locks.held(pathlib.Path(sys.argv[1])):
            inside.append(1)
            most.append(len(inside))
            inside.pop()
threads = [threading.Thread(target=enter) for _ in range(3)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(len(most), max(most))
"""
    assert ended(WITHOUT_FLOCK + code, file, errno.ENOSYS) == "15 1\n"


def test_another_failure_of_the_system_is_no_missing_lock(file: Path) -> None:
    code = WITHOUT_FLOCK + TRY.replace("except locks.StillHeldError", "except OSError")
    assert ended(code, file, errno.EIO) == f"held by [Errno {errno.EIO}] {os.strerror(errno.EIO)}\n"
    assert not locks.files(file)[1].exists()
