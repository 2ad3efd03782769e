"""A server of a small live model in another process, and what that takes.

python -m torture.live_server FOLDER
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from layup import FeatureCache, ImageModel, LayUP
from layup.serving import (
    Hosts,
    LiveModel,
    RequestLimits,
    Service,
    Tokens,
    address_of,
    create_app,
    listening,
    serve,
)
from torture import samples
from torture.promise import require

HOST = "127.0.0.1"
ROOT = Path(__file__).parent.parent
GRACE = 60
"""Seconds that a server has to end."""


@dataclass(frozen=True)
class Taken:
    """What the process takes at a moment: bytes of memory, and threads."""

    memory: int
    threads: int


class LiveServer:
    """A server in another process, with its files in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "m.layup"
        command = [sys.executable, "-m", "torture.live_server", str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self.process.stdout is not None
        with self.process.stdout as said:
            address = said.readline().strip()
        require(bool(address), "the server does not start")
        self.port = int(address.rpartition(":")[2])

    def taken(self) -> Taken:
        """What it takes now."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        said = dict(line.split(":", 1) for line in lines)
        return Taken(int(said["VmRSS"].split()[0]) * 1024, int(said["Threads"]))

    def end(self) -> int:
        """End it as Ctrl-C does; its exit code."""
        self.process.terminate()
        return self.process.wait(GRACE)


@contextmanager
def live_server(folder: Path) -> Iterator[LiveServer]:
    """A server that is gone after the block, whatever happened."""
    server = LiveServer(folder)
    try:
        yield server
    finally:
        server.process.kill()
        server.process.wait()


def new_model(folder: Path) -> ImageModel:
    """A model that knows nothing, whose cache is in this folder."""
    return LayUP(samples.tiny(), cache=FeatureCache(folder / "cache"), progress=False, workers=0)


def main() -> None:
    """Serve until SIGTERM. No client is told that it asks too often: all of them are one here."""
    folder = Path(sys.argv[1])
    os.environ["LAYUP_KEYS"] = str(folder / "keys")
    samples.one_thread()
    limits = RequestLimits(rate=1e6, burst=10**6)
    with (
        listening(HOST, 0) as bound,
        LiveModel.open(folder / "m.layup", new=lambda: new_model(folder)) as live,
    ):
        app = create_app(Service.of(live, Hosts.of(HOST), Tokens(), limits, None))
        serve(app, bound, limits, lambda: print(address_of(bound, HOST), flush=True))


if __name__ == "__main__":
    main()
