"""Digests of many images are those of each, whether files are read or remembered."""

from __future__ import annotations

import io
import os
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from layup.features import FeatureCache, NoCache, cache as cache_module, digests as digests_module, digests_of
from layup.features.cache import FileState
from layup.images import image_digest
from photos import crops


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files need not rest before they are remembered."""
    monkeypatch.setattr(cache_module, "SECONDS_TO_SETTLE", -3600)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = []
    for number, crop in enumerate(crops(5)):
        paths.append(tmp_path / "photos" / f"{number % 2}" / f"{number}.png")
        paths[-1].parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(crop).save(paths[-1])
    return paths


def test_digests_of_every_kind_of_image(files: list[Path], tmp_path: Path) -> None:
    images = [
        files[0],
        str(files[1]),
        crops(1)[0],
        Image.fromarray(crops(2)[1]),
        files[2].read_bytes(),
        io.BytesIO(files[3].read_bytes()),
        tmp_path / "none.jpg",
        tmp_path,
    ]
    expected = [image_digest(image) for image in images[:6]] + [None, None]
    for cache in (False, True, True):
        assert digests_of(images, {"cache": cache}) == expected
    assert digests_of([], {}) == []


@pytest.mark.parametrize("workers", [0, 2])
def test_many_digests_in_order_with_and_without_processes(files: list[Path], workers: int) -> None:
    images = [files[number % 5] for number in range(700)]
    expected = [image_digest(path) for path in files]
    found = digests_of(images, {"workers": workers, "progress": False})
    assert found == [expected[number % 5] for number in range(700)]


@pytest.mark.usefixtures("settled")
def test_files_that_have_not_changed_are_not_read_again(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = {"cache": FeatureCache(tmp_path / "cache")}
    first = digests_of(files, reading)
    (tmp_path / "link").symlink_to(tmp_path / "photos")
    ways = [
        files,
        [tmp_path / "photos" / ".." / "photos" / path.relative_to(tmp_path / "photos") for path in files],
        [tmp_path / "link" / path.relative_to(tmp_path / "photos") for path in files],
    ]
    monkeypatch.setattr(digests_module, "image_digest", None)
    for paths in ways:
        assert digests_of(paths, reading) == first


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("how", ["rewritten", "replaced", "moved here", "same size and time"])
def test_a_file_that_was_changed_in_place_is_read_again(files: list[Path], tmp_path: Path, how: str) -> None:
    reading = {"cache": FeatureCache(tmp_path / "cache")}
    path, other = files[0], files[1]
    before, times = digests_of([path], reading), path.stat()
    content = bytearray(path.read_bytes() if how == "same size and time" else other.read_bytes())
    content[-1] ^= 1
    if how in ("rewritten", "same size and time"):
        path.write_bytes(content)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    elif how == "replaced":
        (tmp_path / "new").write_bytes(content)
        (tmp_path / "new").replace(path)
    else:
        path.unlink()
        other.rename(path)
    after = digests_of([path], reading)
    assert after == [image_digest(path)]
    assert after != before


def test_a_file_that_was_just_changed_is_not_remembered(files: list[Path], tmp_path: Path) -> None:
    """Its next change may have the same time."""
    cache = FeatureCache(tmp_path / "cache")
    digests_of(files[:1], {"cache": cache})
    state = FileState.of(files[0])
    assert state is not None
    assert not state.settled
    assert cache.file_digests([state]) == {}
    old = time.time() - 3600
    assert FileState(b"x", 1, int(old * 1e6), int(old * 1e6)).settled


def test_states_of_files(files: list[Path], tmp_path: Path) -> None:
    state = FileState.of(files[0])
    assert state is not None
    assert (state.path, state.size) == (os.fsencode(files[0].resolve()), files[0].stat().st_size)
    folders: dict[str, str] = {}
    assert FileState.of(files[0], folders) == FileState.of(str(files[0])) == state
    assert folders == {str(files[0].parent): str(files[0].parent.resolve())}
    link = tmp_path / "link.png"
    link.symlink_to(files[0])
    assert FileState.of(link) == state
    for none in (tmp_path / "none.jpg", "nul\0l.jpg", files[0] / "below a file"):
        assert FileState.of(none) is None
    dangling = tmp_path / "dangling.png"
    dangling.symlink_to(tmp_path / "none.jpg")
    assert FileState.of(dangling) is None


def test_without_a_cache_nothing_is_kept(files: list[Path], own_cache: Path) -> None:
    digests_of(files, {"cache": NoCache()})
    assert [*own_cache.iterdir()] == []


def test_images_are_asked_for_once(files: list[Path]) -> None:
    class Lazy:
        asked = 0

        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> np.ndarray | Path:
            self.asked += 1
            return files[0] if index else crops(1)[0]

    lazy = Lazy()
    assert len({*digests_of(lazy, {})}) == 2  # type: ignore[arg-type]
    assert lazy.asked == 3
