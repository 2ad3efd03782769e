from __future__ import annotations

from pathlib import Path

import pytest

from layup import memory
from layup.errors import LayupError, NotEnoughMemoryError
from layup.memory import Forecast, available, require

MB, GB = 10**6, 10**9


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that says nothing yet."""
    monkeypatch.setattr(memory, "PROC", tmp_path / "proc")
    monkeypatch.setattr(memory, "CGROUPS", tmp_path / "cgroup")
    return tmp_path


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def machine(system: Path, free: int) -> None:
    write(
        system / "proc/meminfo",
        f"MemTotal: 99 kB\nMemFree: 1 kB\nMemAvailable: {free // 1024} kB\nHugePages_Total: 0\n",
    )


def group(folder: Path, most: object, used: int, reclaimable: int = 0, version: int = 2) -> None:
    names = ("memory.max", "memory.current", "inactive_file")
    if version == 1:
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    write(folder / names[0], f"{most}\n")
    write(folder / names[1], f"{used}\n")
    write(folder / "memory.stat", f"anon 5\n{names[2]} {reclaimable}\n")


# ---- what is free


def test_a_system_that_says_nothing_has_no_limit(system: Path) -> None:
    assert available() is None
    require(Forecast({"G": 10**30}), "This")


def test_what_the_machine_has_left(system: Path) -> None:
    machine(system, 64 * 2**20)
    assert available() == 64 * 2**20


@pytest.mark.parametrize("version", [1, 2])
def test_a_limit_leaves_what_is_not_used_or_can_be_given_up(system: Path, version: int) -> None:
    machine(system, 8 * 2**30)
    root = system / ("cgroup" if version == 2 else "cgroup/memory")
    write(system / "proc/self/cgroup", "0::/a/b\n" if version == 2 else "5:cpu:/x\n4:blkio,memory:/a/b\n")
    group(root / "a/b", 4 * GB, 3 * GB, GB // 2, version)
    assert available() == 3 * GB // 2
    group(root / "a", 2 * GB, GB, 0, version)  # whatever is around it counts as well
    assert available() == GB
    group(root / "a/b", GB, 2 * GB, 0, version)
    assert available() == 0


def test_no_limit_is_none(system: Path) -> None:
    machine(system, 2**30)
    write(system / "proc/self/cgroup", "0::/a\n")
    group(system / "cgroup/a", "max", GB)
    assert available() == 2**30


def test_no_limit_of_version_1_is_a_number_beyond_all_memories(system: Path) -> None:
    machine(system, 2**30)
    write(system / "proc/self/cgroup", "4:memory:/a\n")
    group(system / "cgroup/memory/a", 2**63 - 4096, GB, 0, version=1)
    assert available() == 2**30
    group(system / "cgroup/memory", GB, GB // 4, 0, version=1)  # but what is around it has one
    assert available() == 3 * GB // 4


def test_a_container_may_not_see_its_own_path(system: Path) -> None:
    machine(system, 8 * 2**30)
    write(system / "proc/self/cgroup", "0::/../outside/docker-1234\n")
    group(system / "cgroup", GB, GB // 4)
    assert available() == 3 * GB // 4


@pytest.mark.parametrize("text", ["", "nonsense", "0:memory\n", "MemAvailable: lots kB"])
def test_nonsense_is_no_limit(system: Path, text: str) -> None:
    write(system / "proc/meminfo", text)
    write(system / "proc/self/cgroup", text)
    assert available() is None


# ---- what is needed


def test_a_forecast_is_the_sum_of_its_parts() -> None:
    found = Forecast({"G": 85 * MB, "λ search": 680 * MB, "labels": 1})
    assert found.total == 765 * MB + 1
    assert str(found) == "about 765.0 MB (G 85.0 MB, λ search 680.0 MB)"  # trifles are not shown


# ---- what is refused


def test_what_fits_may_go_on(system: Path) -> None:
    machine(system, 2**30)
    require(Forecast({"G": 2**30}), "This batch")


def test_what_does_not_fit_is_refused_in_a_sentence_that_says_what_would(system: Path) -> None:
    machine(system, 1024 * MB)
    instead = {
        "k = 3": Forecast({"G": 900 * MB}),
        "lam = 1": Forecast({"G": 2 * GB}),
        "precision = float32": Forecast({"G": 100 * MB}),
    }
    with pytest.raises(NotEnoughMemoryError) as caught:
        require(Forecast({"G": GB, "λ search": 5 * GB}, instead), "This batch")
    assert isinstance(caught.value, LayupError)
    assert str(caught.value) == (
        "This batch would take about 6.0 GB of memory, 5.0 GB of it for λ search, and 1.0 GB are free. "
        "What would fit: k = 3, or precision = float32."
    )
    with pytest.raises(NotEnoughMemoryError, match=r"Use a machine with more memory\.$"):
        require(Forecast({"G": 2 * GB}), "This run")
