"""What all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

# Two workers on two cores: more threads than cores make small networks several times slower.
torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees features that another one, or the user, has cached."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("LAYUP_CACHE", str(folder))
    return folder
