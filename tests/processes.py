"""Other processes beside a test, and what processes leave on files."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.reduction import DupFd
from pathlib import Path
from threading import Thread
from typing import Any

from commands import Result

_servers = multiprocessing.get_context("forkserver")
_servers.set_forkserver_preload(
    [
        "layup.backbones.timm_models",
        "layup.benchmark.experiment",
        "layup.cli.app",
        "layup.images.photos",
        "layup.model.image_model",
        "layup.model.named",
        "layup.tuning.adaptation",
        "pydantic",
        "safetensors.torch",
        "scipy.linalg",
    ]
)

COMMAND = "from layup.cli import main; main()"
"""What the installed script does."""


class Quick:
    """Python code in a process of its own that begins at once, as it is forked from one that has PyTorch.

    stdin, stdout, stderr: The ends of its pipes, of bytes.
    """

    def __init__(self, code: str, *arguments: object, cwd: Path, file_limit: int | None = None) -> None:
        (theirs_in, mine_in), (mine_out, theirs_out), (mine_err, theirs_err) = (os.pipe() for _ in range(3))
        theirs = [theirs_in, theirs_out, theirs_err]
        streams = [DupFd(each) for each in theirs]
        given = (code, [str(each) for each in arguments], str(cwd), dict(os.environ), streams, file_limit)
        self.process = _servers.Process(target=_run, args=given)
        self.process.start()
        for each in theirs:
            os.close(each)
        self.stdin, self.stdout, self.stderr = (
            os.fdopen(mine_in, "wb"),
            os.fdopen(mine_out, "rb"),
            os.fdopen(mine_err, "rb"),
        )

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def poll(self) -> int | None:
        """The exit code; None as long as it runs."""
        return self.process.exitcode

    def wait(self, timeout: float = 120) -> int:
        """The exit code, or minus the signal, once it has ended."""
        self.process.join(timeout)
        assert self.process.exitcode is not None, "it has not ended"
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()

    def interrupt(self) -> None:
        os.kill(self.pid, signal.SIGINT)

    def finished(self, timeout: float = 120) -> Result:
        """All that it still says until it ends."""
        said: dict[str, bytes] = {}

        def read(name: str) -> None:
            said[name] = getattr(self, name).read()

        readers = [Thread(target=read, args=[name], daemon=True) for name in ("stdout", "stderr")]
        for reader in readers:
            reader.start()
        code = self.wait(timeout)
        for reader in readers:
            reader.join(timeout)
        return Result(code, said["stdout"].decode(), said["stderr"].decode())

    def __enter__(self) -> Quick:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            try:
                pipe.close()
            except BrokenPipeError:  # what it never read
                continue


def _run(
    code: str,
    arguments: list[str],
    cwd: str,
    environment: Mapping[str, str],
    streams: list[Any],
    file_limit: int | None,
) -> None:
    """What the process does."""
    for number, stream in enumerate(streams):
        taken = stream.detach()
        os.dup2(taken, number)
        os.close(taken)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - open until the end, as always
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    if file_limit is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_limit, file_limit))
    import torch

    torch.set_num_threads(1)
    sys.argv = ["layup", *arguments]
    exec(code, {"__name__": "__main__"})


@contextmanager
def python_running(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """Run Python code beside the test, from the moment when it says that it is ready until the block ends."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@contextmanager
def umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)
