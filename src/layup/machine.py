"""What a run used: versions, the machine, and its memory."""

from __future__ import annotations

import os
import platform
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from layup import __version__

PACKAGES = ("torch", "torchvision", "timm", "numpy", "scipy", "scikit-learn", "pillow")


def versions() -> dict[str, str]:
    """The versions of everything that a result can depend on.

    >>> list(versions())[:3]
    ['layup', 'python', 'torch']
    """
    found = {"layup": __version__, "python": platform.python_version()}
    found |= {name: version(name) for name in PACKAGES}
    with suppress(PackageNotFoundError):  # optional
        found["transformers"] = version("transformers")
    return found


def describe() -> dict[str, str | int]:
    """The kind of machine; not its name, which is private.

    >>> sorted(describe())
    ['cores', 'processor', 'system']
    """
    return {"system": platform.system(), "processor": platform.machine(), "cores": os.cpu_count() or 1}


def reset_peak_memory() -> None:
    """Reset `peak_memory`, where the system can do that (Linux)."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int | None:
    """The most memory that this process has held since the start, or since `reset_peak_memory`, in bytes.

    None on a system that does not report it.

    >>> peak_memory() > 10_000_000
    True
    """
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    try:
        import resource
    except ImportError:  # Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
