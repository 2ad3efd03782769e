"""Rows of features are what a plain loop over the images gives, whatever is cached, bad or parallel."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest
import torch
from PIL import Image
from rich.console import Console
from torch import nn

from layup import progress
from layup.backbones import BATCH, Backbone, Preprocessing, load_backbone
from layup.errors import LayupError
from layup.features.cache import FeatureCache, NoCache
from layup.features.extract import EMBEDDING, Extractor
from layup.images import open_image
from photos import batch, crops, digits
from processes import Quick


@pytest.fixture(scope="module")
def nano():
    return load_backbone("vit-nano")


def plain_loop(backbone, images):
    """The oracle: one image at a time, every layer and then the embedding."""
    rows = []
    for image in images:
        seen = backbone(backbone.preprocess(open_image(image)).unsqueeze(0))
        rows.append(torch.cat([*seen.layers, seen.embedding], dim=1)[0].numpy())
    return np.array(rows)


def assert_close(rows, expected):
    """Equal up to float32 rounding: another batch size is another order of additions."""
    assert rows.shape == expected.shape
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


class Forwards:
    """Counts the images that pass a network, or forbids them to; zeros that fill up a batch are none."""

    def __init__(self, backbone, allowed=True):
        self.count = 0
        self.allowed = allowed
        self.handle = backbone.network.register_forward_pre_hook(self.note)

    def note(self, _module, inputs):
        assert self.allowed, "the network was called"
        self.count += int(inputs[0].flatten(1).any(dim=1).sum())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.handle.remove()


class Root(nn.Module):
    """Not a number for dark images."""

    def forward(self, x):
        return x.sqrt()


def tiny(size=8, seed=0):
    """A network of our own in a moment."""
    torch.manual_seed(seed)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3))
    return Backbone.from_module(network, ["0", "1", "2"], Preprocessing((size, size), (size, size), "squash"))


@pytest.fixture
def files(tmp_path):
    paths = []
    for i, image in enumerate([*digits(3, 30), *crops(10)]):
        paths.append(tmp_path / f"{i:03}.png")
        Image.fromarray(image).save(paths[-1])
    return paths


# Like a plain loop


@pytest.mark.parametrize("workers", [0, 2])
def test_rows_equal_a_plain_loop_in_order(nano, files, workers):
    found = Extractor(nano, workers=workers).extract(files)
    assert len(files) > BATCH
    assert_close(found.rows, plain_loop(nano, files))
    assert found.kept.tolist() == list(range(len(files)))
    assert (found.bad, found.forwarded) == ([], len(files))
    assert len(set(found.digests)) == len(files)


def test_paths_pictures_arrays_and_tensors_give_the_same(nano, files):
    path = files[35]
    picture = Image.open(path)
    array = np.asarray(picture)
    tensor = torch.from_numpy(array.copy()).permute(2, 0, 1)
    sources = [path, str(path), picture, array, tensor, array / 255]
    found = Extractor(nano).extract(sources)
    assert_close(found.rows, plain_loop(nano, [path] * len(sources)))


def test_layers_are_their_columns(nano):
    images = crops(3)
    expected = plain_loop(nano, images)
    for layers, columns in [
        (nano.last(2), np.arange(10 * 128, 12 * 128)),
        (["blocks.0"], np.arange(128)),
        (["blocks.11", "blocks.3"], np.r_[11 * 128 : 12 * 128, 3 * 128 : 4 * 128]),
        ([EMBEDDING], np.arange(12 * 128, 13 * 128)),
        (None, np.arange(13 * 128)),
    ]:
        extractor = Extractor(nano, layers)
        assert_close(extractor.extract(images).rows, expected[:, columns])
        assert extractor.width == len(columns)
        assert sum(extractor.layers.values()) == extractor.width


def test_a_layer_may_be_called_embedding():
    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Conv2d(3, 4, 3)
            self.embedding = nn.Conv2d(4, 5, 3)

        def forward(self, x):
            return self.embedding(self.stem(x)).mean((2, 3)).repeat(1, 2)

    backbone = Backbone.from_module(Named(), ["stem", "embedding"], Preprocessing((8, 8), (8, 8), "squash"))
    images = crops(2)
    expected = plain_loop(backbone, images)
    assert expected.shape == (2, 4 + 5 + 10)
    assert_close(Extractor(backbone, ["embedding"]).extract(images).rows, expected[:, 4:9])
    assert_close(Extractor(backbone, [EMBEDDING]).extract(images).rows, expected[:, 9:])


def test_no_images_give_no_rows(nano):
    found = Extractor(nano, nano.last(2)).extract([])
    assert found.rows.shape == (0, 256)
    assert (found.kept.tolist(), found.digests, found.bad, found.forwarded) == ([], [], [], 0)


def test_a_stream_gives_the_same_rows_in_batches(nano, files):
    extractor = Extractor(nano, cache=NoCache())
    parts = list(extractor.stream(files))
    assert [len(part.rows) for part in parts] == [BATCH, len(files) - BATCH]
    np.testing.assert_array_equal(np.concatenate([p.rows for p in parts]), extractor.extract(files).rows)


def test_what_was_read_apart_is_computed_together(nano, files):
    for cache in (NoCache(), FeatureCache()):
        extractor = Extractor(nano, cache=cache)
        expected = [extractor.extract(files[:3]).rows, extractor.extract(files[7:8]).rows]
        files[9].write_text("Dear diary")
        read = extractor.reader(files)
        passes = nano.passes.reading
        found = extractor.computed([read([0, 1, 2]), read([9]), read([7])])
        assert nano.passes.reading - passes == (4 if isinstance(cache, NoCache) else 0)
        for part, rows in zip((found[0], found[2]), expected, strict=True):
            np.testing.assert_array_equal(part.rows, rows)
        assert [part.kept.tolist() for part in found] == [[0, 1, 2], [], [7]]
        assert [bad.index for bad in found[1].bad] == [9]
        assert [index for part in found for index, _ in part.of_each()] == [0, 1, 2, 7]


def test_the_bundled_backbone_too():
    backbone = load_backbone("bundled", input_size=64)
    images = [*digits(0, 1), *crops(2)]
    assert_close(Extractor(backbone).extract(images).rows, plain_loop(backbone, images))


# Bad images


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_files_are_skipped_and_reported_with_place_and_reason(nano, files, workers):
    whole = files[34].read_bytes()
    files[2].write_text("Dear diary")
    files[34].write_bytes(whole[: len(whole) // 2])
    files[35].write_bytes(b"")
    files[36].unlink()
    found = Extractor(nano, workers=workers).extract(files)
    assert [bad.index for bad in found.bad] == [2, 34, 35, 36]
    for bad, reason in zip(
        found.bad, ["not an image", "truncated", "empty (0 bytes)", "no such file"], strict=True
    ):
        assert str(files[bad.index]) in bad.reason
        assert reason in bad.reason
    good = [i for i in range(len(files)) if i not in (2, 34, 35, 36)]
    assert found.kept.tolist() == good
    assert_close(found.rows, plain_loop(nano, [files[i] for i in good]))
    assert found.forwarded == len(good) == len(found.digests)


def test_a_file_that_vanishes_while_it_is_read(nano, files):
    class Vanishing(list):
        def __getitem__(self, place):
            path = super().__getitem__(place)
            if place == 1:
                if path in asked:
                    path.unlink()
                asked.add(path)
            return path

    asked = set()
    found = Extractor(nano).extract(Vanishing(files[:3]))
    assert found.kept.tolist() == [0, 2]
    assert [(bad.index, "no such file" in bad.reason) for bad in found.bad] == [(1, True)]


def test_all_bad(nano, tmp_path):
    found = Extractor(nano).extract([tmp_path / "a.jpg", tmp_path / "b.jpg"])
    assert found.rows.shape == (0, 13 * 128)
    assert [bad.index for bad in found.bad] == [0, 1]


@pytest.mark.filterwarnings("ignore:invalid value")
def test_features_that_are_not_numbers_are_bad_and_not_cached():
    backbone = Backbone.from_module(nn.Sequential(Root()), ["0"], Preprocessing((8, 8), (8, 8), "squash"))
    white, black = np.full((8, 8), 255, np.uint8), np.zeros((8, 8), np.uint8)
    cache = FeatureCache()
    found = Extractor(backbone, cache=cache).extract([white, black, white, black])
    assert found.kept.tolist() == [0, 2]
    assert [bad.index for bad in found.bad] == [1, 3]
    assert all("NaN or infinity" in bad.reason for bad in found.bad)
    assert np.isfinite(found.rows).all()
    assert cache.stats().entries == 1
    assert [bad.index for bad in Extractor(backbone).extract([black, white]).bad] == [0]


def test_reasons_come_in_the_order_of_the_images(tmp_path):
    """A file that does not open and features that are not numbers are found at different times."""
    backbone = Backbone.from_module(nn.Sequential(Root()), ["0"], Preprocessing((8, 8), (8, 8), "squash"))
    black = np.zeros((8, 8), np.uint8)
    found = Extractor(backbone).extract([black, tmp_path / "no.jpg", black])
    assert [bad.index for bad in found.bad] == [0, 1, 2]


# The cache


@pytest.mark.parametrize("workers", [0, 2])
def test_a_second_run_needs_no_forward_pass(nano, files, workers):
    with Forwards(nano) as forwards:
        first = Extractor(nano, workers=workers).extract(files)
    assert forwards.count == first.forwarded == len(files)
    with Forwards(nano, allowed=False):
        second = Extractor(nano, workers=workers).extract(files)
    assert second.forwarded == 0
    np.testing.assert_array_equal(second.rows.view(np.uint32), first.rows.view(np.uint32))
    assert second.digests == first.digests


def test_one_run_serves_all_layers(nano):
    images = crops(3)
    expected = plain_loop(nano, images)
    Extractor(nano, nano.last(1)).extract(images)
    with Forwards(nano, allowed=False):
        assert_close(Extractor(nano).extract(images).rows, expected)


def test_only_what_is_missing_is_computed(nano, files):
    Extractor(nano).extract(files[::2])
    with Forwards(nano) as forwards:
        found = Extractor(nano).extract(files)
    assert forwards.count == found.forwarded == len(files[1::2])
    assert_close(found.rows, plain_loop(nano, files))


def test_a_renamed_file_hits_and_a_changed_one_misses(nano, files):
    Extractor(nano).extract(files)
    renamed = files[0].rename(files[0].with_name("another name.jpeg"))
    with Forwards(nano, allowed=False):
        assert Extractor(nano).extract([renamed]).forwarded == 0
    Image.fromarray(digits(8, 1)[0]).save(files[1])
    found = Extractor(nano).extract([files[1]])
    assert found.forwarded == 1
    assert_close(found.rows, plain_loop(nano, [files[1]]))


def test_another_backbone_or_input_size_misses():
    images = crops(2)
    first = tiny()
    Extractor(first).extract(images)
    for other in (tiny(size=9), tiny(seed=1)):
        found = Extractor(other).extract(images)
        assert found.forwarded == 2
        assert_close(found.rows, plain_loop(other, images))
    assert Extractor(tiny()).extract(images).forwarded == 0


def test_no_cache_keeps_nothing(nano, own_cache):
    images = crops(2)
    for _ in range(2):
        assert Extractor(nano, cache=NoCache()).extract(images).forwarded == 2
    assert list(own_cache.iterdir()) == []


def test_the_default_cache_is_that_of_the_environment(nano, own_cache):
    Extractor(nano).extract(crops(2))
    assert FeatureCache().stats().entries == 2
    assert (own_cache / "features.sqlite").exists()


def test_a_damaged_cache_is_no_obstacle(nano, own_cache, caplog):
    images = crops(2)
    (own_cache / "features.sqlite").write_bytes(b"not a database" * 100)
    assert_close(Extractor(nano).extract(images).rows, plain_loop(nano, images))
    assert "starting anew" in caplog.text
    assert Extractor(nano).extract(images).forwarded == 0


EXTRACT = """
import sys
import torch
from photos import batch
from layup.backbones import load_backbone
from layup.features.extract import Extractor
images, _ = batch({digit: 30 for digit in range(8)})
for part in Extractor(load_backbone("vit-nano")).stream(images):
    print(len(part.rows), flush=True)
"""


@pytest.mark.slow
def test_killed_while_extracting_then_finished(nano, own_cache):
    """The cache holds whole batches, and the next run computes just the rest."""
    images, _ = batch(dict.fromkeys(range(8), 30))
    with Quick(EXTRACT, cwd=own_cache) as child:
        assert [int(child.stdout.readline()) for _ in range(2)] == [BATCH] * 2
        child.kill()
        assert child.wait() == -signal.SIGKILL
    found = Extractor(nano).extract(images)
    assert found.forwarded <= len(images) - 2 * BATCH
    np.testing.assert_array_equal(found.rows, Extractor(nano, cache=NoCache()).extract(images).rows)


# Progress


def test_a_bar_where_somebody_looks(nano, capsys, monkeypatch):
    images = crops(2)
    Extractor(nano, progress=None).extract(images, "Looking")
    Extractor(nano, progress=False).extract(images, "Looking")
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr(progress, "screen", Console(stderr=True, force_terminal=True, width=100))
    Extractor(nano, progress=None).extract(images, "Looking")
    out, err = capsys.readouterr()
    assert out == ""
    assert "Looking" in err
    assert "2/2" in err
    Extractor(nano, progress=False).extract(images, "Looking")
    assert capsys.readouterr() == ("", "")


def test_a_killed_worker_is_a_sentence(nano, files, monkeypatch):
    monkeypatch.setattr("layup.features.extract.open_image", lambda _: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(LayupError, match=r"killed.*workers=0"):
        Extractor(nano, cache=NoCache(), workers=1).extract(files)
