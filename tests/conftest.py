"""What all tests share."""

from __future__ import annotations

import os
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

# Two workers on two cores: more threads than cores wait for each other. Before NumPy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import hypothesis
import pytest
import torch
from sklearn.datasets import load_digits

os.environ.pop("FORCE_COLOR", None)  # before consoles are made: colours are not what tests read

from commands import Result
from layup.cli import main
from learners import setup_of, tiny
from photos import log_levels_kept

torch.set_num_threads(1)

# A shell makes what it runs in the background ignore Ctrl-C, and so would the processes that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples for everybody, however slow the machine is just now.
hypothesis.settings.register_profile("layup", deadline=None, derandomize=True)
hypothesis.settings.load_profile("layup")


@pytest.fixture(scope="session")
def new_caches(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders without end; `mktemp` would list those of all earlier tests for each."""
    home = tmp_path_factory.mktemp("caches")
    return (home / str(number) for number in count())


@pytest.fixture(autouse=True)
def own_cache(new_caches: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees features that another one, or the user, has cached."""
    folder = next(new_caches)
    folder.mkdir()
    monkeypatch.setenv("LAYUP_CACHE", str(folder))
    return folder


@pytest.fixture(autouse=True, scope="session")
def own_keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """No test writes keys to the user's home, or sees those that are there; all share one folder."""
    folder = tmp_path_factory.mktemp("keys")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LAYUP_KEYS", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def own_keys_again(own_keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test does to the environment ends with it."""
    monkeypatch.setenv("LAYUP_KEYS", str(own_keys))


@pytest.fixture(autouse=True)
def own_log_levels() -> Iterator[None]:
    """Commands that tests run in this process do not quiet the logs that other tests read."""
    with log_levels_kept():
        yield


@pytest.fixture
def few_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sixth of scikit-learn's digits: about 18 of a class to learn, and 12 to predict."""
    few = load_digits()
    few.images, few.target = few.images[:300], few.target[:300]
    monkeypatch.setattr("sklearn.datasets.load_digits", lambda: few)


@pytest.fixture(scope="session")
def backbone():
    """A tiny vision transformer; files of tests may have another."""
    return tiny()


@pytest.fixture
def setup(backbone):
    """A method's surroundings, with that network."""
    return setup_of(backbone)


@pytest.fixture
def layup(monkeypatch, capsys):
    """Run a command as the installed script would, in this process."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments):
        capsys.readouterr()
        monkeypatch.setattr(sys, "argv", ["layup", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code or 0
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Result(code, out, err)

    with log_levels_kept():
        yield run


@pytest.fixture
def ok(layup):
    """Run a command that has to succeed."""

    def run(*arguments):
        result = layup(*arguments)
        assert result.code == 0, result.err
        return result

    return run


@pytest.fixture
def refused(layup):
    """Run a command that has to fail with one clear sentence, which holds all these words."""

    def run(*arguments, says, shows=""):
        result = layup(*arguments)
        said = " ".join(re.sub("[│╭╮╰╯─]", " ", result.err).split())
        assert result.code not in (0, None), result.out
        assert "Error" in said
        for words in says:
            assert words in said
        if result.code == 1:
            assert result.err.startswith("Error: ")
            assert len(result.err.strip().splitlines()) == 1
            assert bool(result.out) == bool(shows)
            assert shows in result.out
        return result

    return run


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Ray on this machine, with two processors, whatever it has; its workers have a cache of their own."""
    ray = pytest.importorskip("ray", reason="Ray is not installed")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # By default, workers step back behind everything else on the machine.
        patch.setenv("RAY_worker_niceness", "0")
        patch.setenv("LAYUP_CACHE", str(tmp_path_factory.mktemp("ray-cache")))
        ray.init(address="local", num_cpus=2, log_to_driver=False, include_dashboard=False)
    yield ray
    ray.shutdown()
