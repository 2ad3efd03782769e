"""Models of images obey the laws of their sums, and agree with NumPy written out in full."""

from __future__ import annotations

import io
import logging
import sys
from collections import deque
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import nn

import layup.model.change
import layup.model.network
from layup import (
    NMC,
    Backbone,
    FeatureCache,
    FirstSession,
    LayNMC,
    LayUP,
    NoCache,
    Preprocessing,
    load,
    load_backbone,
    memory,
    storage,
)
from layup.algebra import forecast_learning
from layup.algebra.lambda_search import LAMBDAS, search_values
from layup.errors import (
    BadImageError,
    DamagedFileError,
    DivergedError,
    ForgetError,
    InputError,
    MismatchError,
    NotEnoughMemoryError,
    StorageError,
    UnknownNameError,
)
from layup.features import Embedding, LastLayers, Spool
from layup.formats import has_controls
from layup.images import open_image
from layup.model import BatchReport
from layup.model.photo_features import PhotoFeatures
from layup.tuning.adaptation import adapt

import timm  # isort: skip  # after layup, which mends torchvision
from models import assert_same_photos, assert_same_sums, assert_unchanged, photos_of, snapshot
from photos import batch, crops, digits, name

K = 2
FIRST = batch({0: 6, 1: 5})
SECOND = batch({2: 7, 0: 3}, start=20)
TEST = batch({0: 4, 1: 4, 2: 4}, start=60)
THIRD = batch({8: 4, 1: 2}, start=40)
BOTH = (FIRST[0] + SECOND[0], FIRST[1] + SECOND[1])


@pytest.fixture(scope="module")
def nano():
    return load_backbone("vit-nano")


@pytest.fixture
def make(nano):
    """LayUP models that are made, and predict, in a moment."""

    def made(*batches, lam=1.0, **settings):
        model = LayUP(nano, **{"k": K, **settings}, lam=lam)
        for images, labels in batches:
            model.learn(images, labels)
        return model

    return made


@pytest.fixture
def no_network(monkeypatch):
    """Loading a backbone fails."""

    def refuse(*_args, **_kwargs):
        raise AssertionError("a backbone was loaded")

    monkeypatch.setattr(layup.model.network, "load_backbone", refuse)


def rows_of(model, images):
    return model.extractor_.extract(images).rows.astype(np.float64)


def asked_rows_of(model, images):
    """As the model reads what it is to predict: not rounded."""
    return model.extractor_.unrounded.extract(images).rows.astype(np.float64)


def literal_ridge(x, y, test, lam, balance):
    """(G + λI)⁻¹ c written out sample by sample; balanced as if each class had the mean number of samples."""
    labels = sorted(set(y))
    means = {
        label: np.mean([row for row, of in zip(x, y, strict=True) if of == label], axis=0) for label in labels
    }
    size = {label: y.count(label) for label in labels}
    weight = {label: len(y) / len(labels) if balance else size[label] for label in labels}
    gram = np.zeros((x.shape[1], x.shape[1]))
    for row, of in zip(x, y, strict=True):
        gram += np.outer(row - means[of], row - means[of])
    for label in labels:
        gram += weight[label] * np.outer(means[label], means[label])
    prototypes = np.array([weight[label] * means[label] for label in labels])
    return test @ np.linalg.solve(gram + lam * np.eye(len(gram)), prototypes.T)


def literal_cosine(x, y, test):
    labels = sorted(set(y))
    scores = np.zeros((len(test), len(labels)))
    for i, row in enumerate(test):
        for j, label in enumerate(labels):
            mean = np.mean([each for each, of in zip(x, y, strict=True) if of == label], axis=0)
            scores[i, j] = row @ mean / np.linalg.norm(row) / np.linalg.norm(mean)
    return scores


# Against NumPy


@pytest.mark.parametrize("model", [LayUP("vit-nano", 3, exact=False), LayNMC("vit-nano", 3), NMC("vit-nano")])
def test_models_read_the_last_layers_or_the_embedding(nano, model):
    images = crops(3)
    expected = []
    for image in images:
        seen = nano(nano.preprocess(open_image(image)).unsqueeze(0))
        layers = (seen.embedding,) if model.features == Embedding() else seen.layers[-3:]
        expected.append(torch.cat(layers, dim=1)[0].numpy())
    np.testing.assert_allclose(model.extractor_.extract(images).rows, expected, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("balance", [True, False])
@pytest.mark.parametrize("lam", [0.01, 1.0, 100.0])
def test_layup_is_ridge_regression(make, lam, balance):
    model = make(FIRST, SECOND, lam=lam, balance=balance)
    expected = literal_ridge(rows_of(model, BOTH[0]), BOTH[1], asked_rows_of(model, TEST[0]), lam, balance)
    np.testing.assert_allclose(model.scores(TEST[0]), expected, atol=1e-7)
    predictions = [model.classes_[best] for best in expected.argmax(axis=1)]
    assert model.predict(TEST[0]).tolist() == predictions
    assert model.lambda_ == lam


def test_balance_is_on_and_matters(make):
    lopsided = batch({0: 12, 1: 2})
    scores = {
        balance: make(lopsided, lam=100.0, balance=balance).scores(TEST[0]) for balance in (True, False)
    }
    assert np.abs(scores[True] - scores[False]).max() > 0.01
    np.testing.assert_array_equal(make(lopsided, lam=100.0).scores(TEST[0]), scores[True])
    even = batch({0: 5, 1: 5})
    np.testing.assert_allclose(
        make(even, balance=True).scores(TEST[0]), make(even, balance=False).scores(TEST[0]), atol=1e-9
    )


@pytest.mark.parametrize("kind", [NMC, LayNMC])
def test_nearest_means_by_cosine(nano, kind):
    model = kind(nano)
    model.learn(*FIRST)
    model.learn(*SECOND)
    expected = literal_cosine(rows_of(model, BOTH[0]), BOTH[1], rows_of(model, TEST[0]))
    np.testing.assert_allclose(model.scores(TEST[0]), expected, atol=1e-9)
    assert model.predict(TEST[0]).tolist() == [model.classes_[i] for i in expected.argmax(axis=1)]


@pytest.mark.parametrize("kind", [NMC, LayNMC])
def test_nearest_means_by_euclidean_distance(nano, kind, tmp_path):
    model = kind(nano, metric="euclidean")
    model.learn(*FIRST)
    model.learn(*SECOND)
    x, y, test = rows_of(model, BOTH[0]), np.array(BOTH[1]), rows_of(model, TEST[0])
    means = [x[y == label].mean(axis=0) for label in model.classes_]
    distances = [[np.linalg.norm(row - mean) for mean in means] for row in test]
    np.testing.assert_allclose(model.scores(TEST[0]), -np.array(distances), rtol=1e-6)
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup")
    assert loaded.classifier.metric == "euclidean"
    np.testing.assert_array_equal(loaded.scores(TEST[0]), model.scores(TEST[0]))
    with pytest.raises(UnknownNameError, match=r"Unknown metric 'cosinus'.*Did you mean 'cosine'"):
        kind(nano, metric="cosinus").learn(*FIRST)


def test_it_learns_something(nano):
    """Otherwise everything above could hold for a model that predicts at random."""
    model = LayUP(nano)
    model.learn(*batch(dict.fromkeys(range(4), 15)))
    images, labels = batch(dict.fromkeys(range(4), 10), start=80)
    assert np.mean(model.predict(images) == labels) > 0.5


# Learning


def test_as_many_classes_as_lambdas_are_learned(nano):
    images, classes = crops(5 * len(LAMBDAS)), [f"class {i:02}" for i in range(len(LAMBDAS))]
    model = LayUP(nano, lam="search", cache=False)
    model.learn(images, [label for label in classes for _ in range(5)])
    assert list(model.classes_) == classes
    assert model.lambda_ in LAMBDAS
    assert {*model.predict(images)} <= {*classes}


def test_batches_tell_what_they_did(make):
    model = make()
    assert (model.classes_, model.counts_, model.log) == ([], {}, [])
    done = model.learn(*SECOND)
    assert done == BatchReport(learned={name(0): 3, name(2): 7})
    model.learn(*FIRST)
    assert model.counts_ == {name(0): 9, name(1): 5, name(2): 7}
    assert model.classes_ == [name(0), name(1), name(2)]
    assert [(entry.action, entry.learned, entry.forgotten) for entry in model.log] == [
        ("learn", {name(0): 3, name(2): 7}, {}),
        ("learn", {name(0): 6, name(1): 5}, {}),
    ]
    assert [entry.chosen for entry in model.log] == [{"lambda": 1.0}] * 2
    assert len({entry.id for entry in model.log}) == 2


@pytest.mark.parametrize("kind", ["layup", "gcv", "nmc", "laynmc"])
def test_order_and_portions_do_not_matter(nano, kind):
    def empty():
        return {
            "layup": lambda: LayUP(nano, K, 1.0),
            "gcv": lambda: LayUP(nano, K, "gcv"),
            "nmc": lambda: NMC(nano),
            "laynmc": lambda: LayNMC(nano, K),
        }[kind]()

    once, turned, bits = empty(), empty(), empty()
    once.learn(*BOTH)
    turned.learn(*SECOND)
    turned.learn(*FIRST)
    for image, label in zip(*BOTH, strict=True):
        bits.learn([image], [label])
    for other in (turned, bits):
        assert_same_sums(other, once)
        np.testing.assert_allclose(other.scores(TEST[0]), once.scores(TEST[0]), atol=1e-5)
        assert other.predict(TEST[0]).tolist() == once.predict(TEST[0]).tolist()


def test_images_of_every_kind(nano, make, tmp_path):
    pictures = [Image.fromarray(crop) for crop in crops(4)]
    paths = []
    for i, picture in enumerate(pictures):
        paths.append(tmp_path / f"{i}.png")
        picture.save(paths[-1])
    labels = ["left", "left", "right", "right"]
    expected = make((pictures, labels))
    tensors = [torch.from_numpy(crop).permute(2, 0, 1) for crop in crops(4)]
    kinds = [paths, list(map(str, paths)), crops(4), np.array(crops(4)), tensors, torch.stack(tensors)]
    for images in kinds:
        model = make((images, labels))
        assert_same_sums(model, expected)
        np.testing.assert_allclose(model.scores(images), expected.scores(pictures), atol=1e-5)
    mixed = [paths[0], pictures[1], crops(3)[2], tensors[3]]
    assert_same_sums(make((mixed, labels)), expected)


def test_labels_may_be_an_array(make):
    assert_same_sums(make((FIRST[0], np.array(FIRST[1]))), make(FIRST))
    assert all(type(label) is str for label in make((FIRST[0], np.array(FIRST[1]))).classes_)


def test_one_class_so_far_is_always_the_prediction(make):
    model = make((digits(4, 3), ["four"] * 3))
    assert model.predict(TEST[0] + crops(3)).tolist() == ["four"] * (len(TEST[0]) + 3)


def test_only_seen_classes_are_predictions(make):
    model = make(FIRST)
    assert set(model.predict(digits(7, 20))) <= set(FIRST[1])
    assert model.scores(TEST[0]).shape == (len(TEST[0]), 2)


def test_no_images_no_predictions(make):
    assert make(FIRST).predict([]).shape == (0,)
    assert make(FIRST).scores([]).shape == (0, 2)


def test_predicting_changes_nothing(make):
    model = make(FIRST, SECOND)
    before = snapshot(model)
    first = model.scores(TEST[0])
    np.testing.assert_array_equal(model.scores(TEST[0]), first)
    assert_unchanged(model, before)


def test_input_is_not_kept_by_reference(make):
    images = [image.copy() for image in FIRST[0]]
    labels = list(FIRST[1])
    model = make((images, labels))
    before = snapshot(model)
    for image in images:
        image[:] = 0
    labels[:] = ["x"] * len(labels)
    assert_unchanged(model, before)


def test_the_cache_does_not_change_what_is_learned(nano, own_cache):
    uncached = LayUP(nano, K, 1.0, cache=False)
    uncached.learn(*BOTH)
    assert list(own_cache.iterdir()) == []
    for cache in (True, FeatureCache(own_cache / "mine"), NoCache()):
        for _ in range(2):
            model = LayUP(nano, K, 1.0, cache=cache)
            model.learn(*BOTH)
            assert_same_sums(model, uncached)
    assert (own_cache / "mine").exists()


# λ and k


def test_searched_lambda_is_of_the_papers_grid_and_of_the_last_batch(make):
    model = make(lam="search")
    assert model.lambda_ == 1.0  # nothing to search on yet
    model.learn(*batch({0: 3, 1: 3}))
    assert model.lambda_ == 1.0  # no class has four images
    found = []
    for digit in range(2, 8, 2):
        model.learn(*batch({digit: 8, digit + 1: 8}))
        found.append(model.lambda_)
        assert model.lambda_ in LAMBDAS
    assert set(found) != {1.0}


def test_gcv_follows_the_sums(make):
    model = make(FIRST, lam="gcv")
    first = model.lambda_
    model.learn(*SECOND)
    assert 0 < model.lambda_ != first


def test_lambda_zero_is_the_limit(make):
    none, little = make(FIRST, SECOND, lam=0.0), make(FIRST, SECOND, lam=1e-6)
    np.testing.assert_allclose(none.scores(TEST[0]), little.scores(TEST[0]), atol=1e-2)
    assert none.predict(FIRST[0]).tolist() == FIRST[1]


@pytest.mark.parametrize("lam", [-1, -1e-9, np.nan, np.inf])
def test_impossible_lambdas_are_refused(make, lam):
    with pytest.raises(InputError, match="≥ 0"):
        make(FIRST, lam=lam)


def test_an_unknown_rule_is_refused_with_a_guess(make):
    with pytest.raises(UnknownNameError, match="Did you mean 'search'"):
        make(FIRST, lam="serch")


def test_numbers_of_numpy_are_numbers(make, tmp_path):
    model = make(FIRST, lam=np.float32(0.5), k=np.int64(2))
    model.save(tmp_path / "m.layup")
    assert load(tmp_path / "m.layup").classifier.lam == 0.5


@pytest.mark.parametrize("kind", [LayUP, LayNMC])
def test_k_beyond_the_depth_names_the_depth(nano, kind):
    with pytest.raises(InputError, match=r"k = 13 .*'vit-nano'.* 12 .*between 1 and 12"):
        kind(nano, 13).learn(*FIRST)
    for k in (0, -1):
        with pytest.raises(InputError, match="between 1 and 12"):
            kind(nano, k).learn(*FIRST)


def test_k_is_the_backbones_own_by_default(nano):
    model = LayUP(nano, lam=1.0)
    model.learn(*FIRST)
    assert list(model.statistics_.layers) == [f"blocks.{i}" for i in range(6, 12)]
    deepest = LayUP(nano, 12, 1.0)
    deepest.learn(*FIRST)
    assert deepest.statistics_.dim == 12 * 128


def test_configure_solves_the_same_sums_anew(make):
    model = make(FIRST, SECOND)
    before = snapshot(model)
    first = {"lam": 100.0, "balance": False}
    for changes in (first, {"lam": 0.01, "balance": True}, {"lam": 100.0}, {"balance": False}):
        assert model.configure(**changes) is model
        twin = make(FIRST, SECOND, lam=model.classifier.lam, balance=model.classifier.balance)
        np.testing.assert_allclose(model.scores(TEST[0]), twin.scores(TEST[0]), atol=1e-6)
    assert (model.classifier.lam, model.classifier.balance) == (100.0, False)
    model.configure(lam=1.0)
    assert_unchanged(model, before)
    assert model.configure(lam="gcv").lambda_ == pytest.approx(
        make(FIRST, SECOND, lam="gcv", balance=False).lambda_
    )


def test_configure_keeps_a_searched_lambda(make):
    model = make(batch({0: 8, 1: 8}), lam="search")
    found = model.lambda_
    assert model.configure(balance=False).lambda_ == found


@pytest.mark.parametrize("lam", [-1.0, "serch"])
def test_a_refused_configuration_changes_nothing(make, lam):
    model = make(FIRST)
    before, scores = snapshot(model), model.scores(TEST[0])
    with pytest.raises(InputError):
        model.configure(lam=lam, balance=False)
    assert_unchanged(model, before)
    assert (model.classifier.lam, model.classifier.balance) == (1.0, True)
    np.testing.assert_array_equal(model.scores(TEST[0]), scores)


# Refusals


@pytest.mark.parametrize("labels", [["a", 1], ["a", ""], ["a", " "], ["a", None], [b"a", b"b"], np.arange(2)])
def test_labels_are_texts(make, labels):
    model = make(FIRST)
    before = snapshot(model)
    with pytest.raises(InputError, match="Labels must be strings that are not empty"):
        model.learn(digits(0, 2), labels)
    assert_unchanged(model, before)


@pytest.mark.parametrize("label", ["cat", np.array("cat"), 3])
def test_one_label_is_not_a_list_of_labels(make, label):
    with pytest.raises(InputError, match=r"Give a list of labels, one per image, not (.*cat|3)"):
        make().learn(digits(0, 3), label)


@pytest.mark.parametrize("verb", ["learn", "forget"])
def test_as_many_labels_as_images(make, verb):
    model = make(FIRST)
    before = snapshot(model)
    with pytest.raises(InputError, match="3 images but 2 labels"):
        getattr(model, verb)(digits(0, 3), ["a", "b"])
    assert_unchanged(model, before)


def single_images(folder):
    Image.fromarray(crops(1)[0]).save(folder / "a.png")
    yield str(folder / "a.png")
    yield folder / "a.png"
    yield Image.fromarray(crops(1)[0])
    yield crops(1)[0]
    yield digits(0, 1)[0]
    yield np.array(str(folder / "a.png"))
    raw = (folder / "a.png").read_bytes()
    yield from (raw, bytearray(raw), memoryview(raw), io.BytesIO(raw))
    with (folder / "a.png").open("rb") as file:
        yield file


def test_one_image_is_not_a_list_of_images(make, tmp_path):
    model = make(FIRST)
    for image in single_images(tmp_path):
        for ask in (model.predict, model.scores, lambda one: model.learn(one, ["a"])):
            with pytest.raises(InputError, match=r"Give a list of images.*\[image\]"):
                ask(image)
    with pytest.raises(InputError, match="not one Tensor"):
        model.predict(torch.zeros(3, 8, 8))
    with pytest.raises(InputError, match="not one int"):
        model.predict(3)


class Series:
    """Rows picked from a table, as pandas has them: numbers in brackets are names of rows, not indices."""

    def __init__(self, values):
        self.values = dict(zip(range(7, 1000, 5), values, strict=False))
        self.shape = (len(self.values),)

    def __len__(self):
        return len(self.values)

    def __iter__(self):
        return iter(self.values.values())

    def __getitem__(self, row):
        return self.values[row]


class Lazy:
    """Images that are made when they are read, like PyTorch's datasets."""

    def __init__(self, values):
        self.values, self.asked = values, 0

    def __len__(self):
        return len(self.values)

    def __getitem__(self, place):
        self.asked += 1
        return self.values[place]


@pytest.mark.parametrize("kind", [iter, tuple, Series, Lazy, partial(map, lambda each: each), deque])
def test_images_and_labels_come_in_whatever_gives_them_one_by_one(make, tmp_path, kind):
    images, labels = FIRST
    expected = make(FIRST)
    paths = [tmp_path / f"{place:02}.png" for place in range(len(images))]
    for image, path in zip(images, paths, strict=True):
        Image.fromarray(image).save(path)
    model = make((kind(paths), kind(labels)))
    assert model.counts_ == expected.counts_
    assert_same_sums(model, expected)
    np.testing.assert_array_equal(model.predict(kind(paths)), expected.predict(images))
    assert len(model.predictions(kind(paths)).kept) == len(images)
    model.forget(kind(paths[:2]), kind(labels[:2]))
    assert sum(model.counts_.values()) == len(images) - 2
    assert make((tmp_path.glob("*.png"), np.array(labels)), lam="search").counts_ == expected.counts_


def test_images_that_are_made_when_asked_for_are_not_all_held(make):
    lazy = Lazy(FIRST[0])
    make((lazy, FIRST[1]))
    assert lazy.asked == 3 * len(lazy)  # to be told apart, to be looked up in the cache, and to be decoded


@pytest.mark.parametrize("unordered", [{"a.png": "cat"}, {"a.png"}, frozenset({"a.png"})])
def test_what_has_no_order_is_refused(make, unordered):
    model = make(FIRST)
    for images, labels in ((unordered, ["cat"]), (["a.png"], unordered)):
        with pytest.raises(InputError, match=rf"not a {type(unordered).__name__}.*order"):
            model.learn(images, labels)
    with pytest.raises(InputError, match="order"):
        model.predict(unordered)


def encodings(folder, images):
    """The same photos as paths, as bytes, in memory, and as open files that others have read a part of."""
    paths = [folder / f"{place:02}.png" for place in range(len(images))]
    for image, path in zip(images, paths, strict=True):
        Image.fromarray(image).save(path)
    yield paths
    yield [path.read_bytes() for path in paths]
    yield [memoryview(path.read_bytes()) for path in paths]
    yield [io.BytesIO(path.read_bytes()) for path in paths]
    files = [path.open("rb") for path in paths]
    try:
        for file in files:
            file.read(9)
        yield files
        assert all(file.tell() == 9 for file in files)
    finally:
        for file in files:
            file.close()


@pytest.mark.slow
def test_contents_of_files_are_learned_as_the_files_are(nano, tmp_path):
    images, labels = batch({0: 17, 1: 17})
    models = []
    for sources in encodings(tmp_path, images):
        models.append(LayUP(nano, k=K, lam=1.0, cache=False, workers=2))
        models[-1].learn(sources, labels)
        assert models[0].learned_as(sources) == [(label,) for label in labels]
        assert_same_sums(models[-1], models[0])
        assert models[-1].predict(sources[:2]).tolist() == models[0].predict(images[:2]).tolist()


def test_contents_of_files_share_the_cache_and_are_forgotten_as_the_files_are(nano, tmp_path):
    paths, *others = encodings(tmp_path, FIRST[0])
    model = LayUP(nano, k=K, lam=1.0)
    model.learn(paths, FIRST[1])
    for sources in others[:-1]:
        assert model.extractor_.extract(sources).forwarded == 0
    model.learn(SECOND[0], SECOND[1])
    model.forget(others[0], FIRST[1])
    assert sum(model.counts_.values()) == len(SECOND[0])


def test_contents_of_files_can_be_adapted_to(nano, tmp_path):
    session = FirstSession("vpt", epochs=1)
    records = []
    for sources in encodings(tmp_path, FIRST[0]):
        model = LayUP(nano, k=K, lam=1.0, adapter=session)
        model.learn(sources, FIRST[1])
        records.append(model.backbone_.record["epochs"])
    assert all(record == records[0] for record in records)


@pytest.mark.parametrize(
    "label", ["tab\x07by", "\x1b[2J", "caf\udce9", "two\nlines", "\u202ex", "\x9b", "\0"]
)
def test_labels_command_no_terminal(make, label):
    model = make(FIRST)
    before = snapshot(model)
    for verb in (model.learn, model.forget):
        with pytest.raises(InputError, match=r"control characters.*but one is '") as caught:
            verb(digits(0, 2), ["fine", label])
        assert not has_controls(str(caught.value))
    assert_unchanged(model, before)


def test_no_usable_image(make, tmp_path):
    model = make(FIRST)
    before = snapshot(model)
    with pytest.raises(InputError, match="None of the 0 given images can be used"):
        model.learn([], [])
    with pytest.raises(InputError, match=r"None of the 2 given images can be used.*no such file"):
        model.learn([tmp_path / "a.jpg", tmp_path / "b.jpg"], ["a", "b"])
    with pytest.raises(InputError, match="None of the 1 given images can be used"):
        model.forget([tmp_path / "a.jpg"], [name(0)])
    assert_unchanged(model, before)


@pytest.mark.parametrize("lam", [1.0, "search"])
def test_bad_images_are_skipped_and_reported(make, tmp_path, caplog, lam):
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8 no")
    images, labels = [*FIRST[0][:5], tmp_path / "bad.jpg", *FIRST[0][5:]], [*FIRST[1][:5], "x", *FIRST[1][5:]]
    model = make(lam=lam)
    with caplog.at_level(logging.WARNING, "layup"):
        done = model.learn(images, labels)
    assert [(bad.index, str(tmp_path / "bad.jpg") in bad.reason) for bad in done.bad] == [(5, True)]
    assert "Skipped 1 of 12 images" in caplog.text
    assert_same_sums(model, make(FIRST, lam=lam))
    done = model.forget(images, labels)
    assert [bad.index for bad in done.bad] == [5]
    assert model.classes_ == []


@pytest.mark.parametrize("lam", [1.0, "search"])
def test_strict_learns_all_or_nothing(make, tmp_path, lam):
    model = make(FIRST, lam=lam)
    before = snapshot(model)
    many = batch({5: 40})  # the bad one comes in the second batch
    for verb, (images, labels) in ((model.learn, many), (model.sync, many), (model.forget, FIRST)):
        with pytest.raises(BadImageError, match="no such file"):
            verb([*images, tmp_path / "none.jpg"], [*labels, "x"], strict=True)
        assert_unchanged(model, before)
    model.learn(*SECOND, strict=True)
    assert model.counts_[name(2)] == 7


def test_predicting_a_bad_image_raises(make, tmp_path):
    with pytest.raises(BadImageError, match="no such file"):
        make(FIRST).predict([FIRST[0][0], tmp_path / "none.jpg"])


@pytest.mark.parametrize("kind", [LayUP, NMC, LayNMC])
def test_predicting_before_learning(nano, kind):
    with pytest.raises(InputError, match="knows no class"):
        kind(nano).predict(TEST[0])


# Forgetting


@pytest.mark.parametrize("kind", [LayUP, NMC, LayNMC])
def test_forgetting_equals_never_having_learned(nano, kind):
    model, never = (kind(nano) if kind is NMC else kind(nano, K) for _ in range(2))
    model.learn(*FIRST)
    model.learn(*SECOND)
    done = model.forget(*SECOND)
    never.learn(*FIRST)
    assert done == BatchReport(forgotten={name(0): 3, name(2): 7})
    assert_same_sums(model, never)
    assert model.classes_ == [name(0), name(1)]
    if kind is not LayUP:  # λ, which is kept, was found on other images
        np.testing.assert_allclose(model.scores(TEST[0]), never.scores(TEST[0]), atol=1e-5)


def test_forgetting_some_images_of_a_class(make):
    model = make(BOTH)
    gone = [(i, label) for i, label in zip(*BOTH, strict=True)][::3]
    left = [pair for n, pair in enumerate(zip(*BOTH, strict=True)) if n % 3]
    model.forget(*map(list, zip(*gone, strict=True)))
    never = make(tuple(map(list, zip(*left, strict=True))))
    assert_same_sums(model, never)
    np.testing.assert_allclose(model.scores(TEST[0]), never.scores(TEST[0]), atol=1e-4)


def test_forgetting_keeps_lambda(make):
    model = make(batch({0: 8, 1: 8}), batch({2: 8, 3: 8}), lam="search")
    found = model.lambda_
    model.forget(*batch({2: 8, 3: 8}))
    assert model.lambda_ == found


def test_forgetting_everything_leaves_an_empty_model_that_learns_again(make):
    model = make(FIRST)
    model.forget(*FIRST)
    assert (model.classes_, model.statistics_.total) == ([], 0)
    assert not model.statistics_.gram.any()
    with pytest.raises(InputError, match="knows no class"):
        model.predict(TEST[0])
    model.learn(*SECOND)
    assert_same_sums(model, make(SECOND))


def test_forgetting_deletes_cached_features_of_all_backbones(nano, make):
    other = Backbone.from_module(
        nn.Sequential(nn.Conv2d(3, 4, 3)), ["0"], Preprocessing((8, 8), (8, 8), "squash")
    )
    LayUP(other, lam=1.0).learn(*BOTH)
    model = make(BOTH)
    cache = FeatureCache()
    assert sorted(cache.stats().fingerprints.values()) == [len(BOTH[0])] * 2
    model.forget(*SECOND)
    assert sorted(cache.stats().fingerprints.values()) == [len(FIRST[0])] * 2
    found = model.extractor_.extract(FIRST[0])
    assert found.forwarded == 0
    assert model.extractor_.extract(SECOND[0]).forwarded == len(SECOND[0])


@pytest.mark.parametrize(
    ("unknown", "why"),
    [
        (batch({7: 2}), r"forgotten already\. Nothing was forgotten\. The same holds for 1 others"),
        (
            (FIRST[0] + digits(0, 1, start=90), [*FIRST[1], name(0)]),
            r"never learned, or is forgotten already\. Nothing was forgotten\.$",
        ),
        ((digits(0, 3, start=90), [name(0)] * 3), "never learned"),
        ((digits(1, 5), [name(0)] * 5), "it was learned as 'digit 1', not 'digit 0'"),
        ((FIRST[0], None), "never learned"),
    ],
)
def test_forgetting_what_was_not_learned_is_refused(make, unknown, why):
    model = make(FIRST if unknown[1] else SECOND)
    cached = FeatureCache().stats().entries
    before = snapshot(model)
    with pytest.raises(ForgetError, match=why):
        model.forget(*unknown)
    assert_unchanged(model, before)
    assert FeatureCache().stats().entries >= cached


# Merging


def paper(nano, k):
    return LayUP(nano, k, lam="search")


@pytest.mark.parametrize("kind", [LayUP, paper, NMC, LayNMC])
def test_merged_equals_joint_in_either_order(nano, kind):
    def taught(*batches):
        model = kind(nano) if kind is NMC else kind(nano, K)
        for each in batches:
            model.learn(*each)
        return model

    joint = taught(BOTH)
    one, other = taught(FIRST).merge(taught(SECOND)), taught(SECOND).merge(taught(FIRST))
    for merged in (one, other):
        assert_same_sums(merged, joint)
        assert [entry.action for entry in merged.log] == ["learn", "learn", "merge"]
    np.testing.assert_allclose(one.scores(TEST[0]), other.scores(TEST[0]), atol=1e-9)
    if kind is paper:
        assert one.lambda_ == other.lambda_ == taught(FIRST).lambda_  # that of the eleven images
        one.configure(lam=1.0), joint.configure(lam=1.0)
    np.testing.assert_allclose(one.scores(TEST[0]), joint.scores(TEST[0]), atol=1e-5)


def test_merging_leaves_the_other_model_alone(make):
    a, b = make(FIRST), make(SECOND)
    before = snapshot(b)
    assert a.merge(b) is a
    a.learn(*batch({8: 2}))
    assert_unchanged(b, before)


def test_lambda_after_merging_is_that_of_the_model_that_saw_more(make):
    large, small = make(batch({0: 9, 1: 9}), lam="search"), make(batch({2: 4, 3: 4}), lam="search")
    large.classifier_.adopt(large.statistics_, 0.1)
    small.classifier_.adopt(small.statistics_, 10.0)
    assert large.merge(small).lambda_ == 0.1
    large = make(batch({0: 9, 1: 9}), lam="search")
    large.classifier_.adopt(large.statistics_, 0.1)
    assert small.merge(large).lambda_ == 0.1


@pytest.mark.parametrize(
    ("mine", "others"), [("search", "gcv"), ("gcv", "search"), ("search", 2.0), (2.0, "gcv")]
)
def test_merging_models_of_different_rules_keeps_ones_own(make, mine, others):
    a, b = make(batch({0: 5, 1: 5}), lam=mine), make(batch({2: 5, 3: 5}), lam=others)
    before = a.lambda_
    a.merge(b)
    assert a.classifier.lam == mine
    assert a.lambda_ == before or mine == "gcv"
    assert_same_sums(a, make(batch({0: 5, 1: 5, 2: 5, 3: 5})))


def test_merging_refuses_what_does_not_fit_and_says_why(nano, make):
    model = make(FIRST)
    before = snapshot(model)
    other = Backbone.from_module(
        nn.Sequential(nn.Conv2d(3, 128, 3)), ["0"], Preprocessing((8, 8), (8, 8), "squash")
    )
    foreign = LayUP(other, 1, 1.0)
    foreign.learn(*SECOND)
    nearest = LayNMC(nano, K)
    nearest.learn(*SECOND)
    for stranger, why in (
        (foreign, f"backbones.*{nano.fingerprint[:12]}.*{other.fingerprint[:12]}"),
        (make(SECOND, k=3), r"layers \(k\): 2 and 3"),
        (nearest, "classifiers: ridge and nearest mean"),
    ):
        with pytest.raises(MismatchError, match=why):
            model.merge(stranger)
        assert_unchanged(model, before)
    with pytest.raises(MismatchError, match="backbones"):
        model.merge(make(SECOND), base=foreign)
    assert_unchanged(model, before)


@pytest.fixture
def family(make, tmp_path):
    """A base, and two models grown from it: (base, left, right)."""
    make(FIRST).save(tmp_path / "base.layup")
    base, left, right = (load(tmp_path / "base.layup") for _ in range(3))
    left.learn(*SECOND)
    right.learn(*THIRD)
    return base, left, right


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("with_base", [True, False])
def test_shared_photos_count_once(make, family, cache, with_base):
    """Their features come from the cache, or their sums from the base."""
    base, left, right = family
    before = snapshot(left)
    left.reading["cache"] = cache
    if not (cache or with_base):
        with pytest.raises(MismatchError, match=r"share 11 photos.*of 11 are not in the cache.*base"):
            left.merge(right)
        assert_unchanged(left, before)
        return
    left.merge(right, base if with_base else None)
    each_once = make(FIRST, SECOND, THIRD)
    assert_same_sums(left, each_once)
    assert [entry.action for entry in left.log] == ["learn", "learn", "learn", "merge"]
    assert len({entry.id for entry in left.log}) == 4
    assert_same_photos(left, each_once)
    np.testing.assert_allclose(left.scores(TEST[0]), each_once.scores(TEST[0]), atol=1e-4)


def test_merging_over_a_base_is_symmetric(family, tmp_path):
    base, left, right = family
    left.save(tmp_path / "left.layup")
    one = load(tmp_path / "left.layup").merge(right, base)
    other = right.merge(left, base)
    assert_same_sums(one, other)


def test_three_models_of_one_base(make, family, tmp_path):
    base, left, right = family
    third = load(tmp_path / "base.layup")
    third.learn(*batch({5: 3}))
    left.merge(right, base).merge(third, base)
    assert_same_sums(left, make(FIRST, SECOND, THIRD, batch({5: 3})))


def test_a_base_is_compared_photo_by_photo(make, family):
    """Whatever batches its photos came in; but each of them must be in both models."""
    base, left, right = family
    before = snapshot(left)
    more = make(FIRST, batch({5: 3}))
    with pytest.raises(
        MismatchError, match=r"both models have learned.* 3 of its photos are not in both.*without a base"
    ):
        left.merge(right, more)
    assert_unchanged(left, before)
    again = make((FIRST[0][:3][::-1], FIRST[1][:3][::-1]), (FIRST[0][3:], FIRST[1][3:]))
    assert not {entry.id for entry in again.log} & {entry.id for entry in base.log}
    each_once = make(FIRST, SECOND, THIRD)
    assert_same_sums(left.merge(right, again), each_once)
    assert_same_photos(left, each_once)


def test_a_base_with_other_labels_is_another_base(make, family):
    _, left, right = family
    relabelled = make((FIRST[0], [*FIRST[1][:-1], "other"]))
    with pytest.raises(MismatchError, match="1 of its photos are not in both"):
        left.merge(right, relabelled)


def test_photos_that_count_twice_on_purpose_do_so_after_a_merge(make):
    twice, once = make(FIRST), make(FIRST)
    assert twice.learn(*FIRST, again=True).learned == once.counts_
    other = make(FIRST, SECOND)
    merged = twice.merge(other, once)
    assert merged.counts_ == {name(0): 15, name(1): 10, name(2): 7}
    expected = make(FIRST, SECOND)
    expected.learn(*FIRST, again=True)
    assert_same_sums(merged, expected)
    assert_same_photos(merged, expected)


def test_both_forgot_the_same_photos(make, family):
    """Then the base must have forgotten them too; or none is used."""
    base, left, right = family
    gone = FIRST[0][:2], FIRST[1][:2]
    for model in (left, right):
        model.forget(*gone)
    before = snapshot(left)
    with pytest.raises(MismatchError, match=r"base has 2 photos .*forget.*without the base"):
        left.merge(right, base)
    assert_unchanged(left, before)
    base.forget(*gone)
    rest = (FIRST[0][2:], FIRST[1][2:])
    each_once = make(rest, SECOND, THIRD)
    assert_same_sums(left.merge(right, base), each_once)
    assert_same_photos(left, each_once)


def test_overlapping_forgettings_are_merged_without_a_base(make, tmp_path):
    make(FIRST).save(tmp_path / "base.layup")
    base, left, right = (load(tmp_path / "base.layup") for _ in range(3))
    left.forget(FIRST[0][:6], FIRST[1][:6])
    right.forget(FIRST[0][:5], FIRST[1][:5])
    before = snapshot(left)
    with pytest.raises(MismatchError, match="without the base"):
        left.merge(right, base)
    assert_unchanged(left, before)
    LayUP(left.backbone_, K).extractor_.extract(FIRST[0])  # forgetting has emptied the cache
    assert_same_sums(left.merge(right), make((FIRST[0][5:], FIRST[1][5:])))


def test_misspelt_options_are_refused():
    with pytest.raises(TypeError, match=r"ImageModel\(\) got an unexpected keyword argument 'lamda'"):
        LayUP("vit-nano", lamda="gcv")


def test_what_one_side_has_forgotten_stays_forgotten_with_a_base(make, family):
    base, left, right = family
    left.forget(FIRST[0][:2], FIRST[1][:2])
    left.merge(right, base)
    rest = (FIRST[0][2:], FIRST[1][2:])
    assert_same_sums(left, make(rest, SECOND, THIRD))
    assert_same_photos(left, make(rest, SECOND, THIRD))


def test_merging_a_model_with_itself_changes_nothing(make):
    model = make(FIRST)
    before = photos_of(model)
    assert_same_sums(model.merge(model), make(FIRST))
    assert photos_of(model) == before
    assert [entry.action for entry in model.log] == ["learn"]


# Files


@pytest.mark.parametrize("lam", [1.0, "search", "gcv"])
@pytest.mark.parametrize("balance", [True, False])
def test_saved_and_loaded_predictions_are_equal(make, tmp_path, lam, balance):
    model = make(FIRST, SECOND, lam=lam, balance=balance)
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup")
    # A searched model has its weights from the search, a loaded one solves for them.
    np.testing.assert_allclose(loaded.scores(TEST[0]), model.scores(TEST[0]), rtol=1e-8, atol=1e-10)
    assert loaded.predict(TEST[0]).tolist() == model.predict(TEST[0]).tolist()
    assert (loaded.classifier.lam, loaded.classifier.balance, loaded.features.plain) == (
        lam,
        balance,
        LastLayers(K),
    )
    assert snapshot(loaded)[:2] == snapshot(model)[:2]
    assert loaded.lambda_ == model.lambda_


@pytest.mark.parametrize("kind", [NMC, LayNMC])
def test_nearest_means_are_saved_too(nano, kind, tmp_path):
    model = kind(nano)
    model.learn(*FIRST)
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup")
    np.testing.assert_array_equal(loaded.scores(TEST[0]), model.scores(TEST[0]))
    assert (loaded.features, loaded.classifier.kind) == (model.features.resolved(nano), "nearest mean")


def test_learning_goes_on_after_loading(make, tmp_path):
    make(FIRST).save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup")
    loaded.learn(*SECOND)
    loaded.save(tmp_path / "m.layup")
    assert_same_sums(load(tmp_path / "m.layup"), make(FIRST, SECOND))


def test_a_searched_lambda_survives_loading_and_forgetting(make, tmp_path):
    model = make(batch({0: 8, 1: 8}), lam="search")
    model.classifier_.adopt(model.statistics_, 0.1)
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup")
    assert loaded.lambda_ == 0.1
    loaded.forget(*batch({0: 2}))
    assert loaded.lambda_ == 0.1


def test_an_empty_model_can_be_saved(make, tmp_path):
    make().save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup")
    assert loaded.classes_ == []
    loaded.learn(*FIRST)
    assert_same_sums(loaded, make(FIRST))


def test_files_are_merged_without_a_network(make, tmp_path, no_network):
    for file, each in (("a", FIRST), ("b", SECOND)):
        make(each).save(tmp_path / file)
    merged = load(tmp_path / "a").merge(load(tmp_path / "b"))
    merged.configure(lam=3.0)
    merged.save(tmp_path / "c")
    assert_same_sums(load(tmp_path / "c"), make(FIRST, SECOND))
    with pytest.raises(AssertionError, match="a backbone was loaded"):
        merged.predict(TEST[0])


def test_a_file_knows_how_its_backbone_was_made(tmp_path):
    model = LayUP(load_backbone("bundled", input_size=64), 1, 1.0)
    model.learn(crops(2), ["a", "b"])
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup")
    np.testing.assert_array_equal(loaded.scores(crops(3)), model.scores(crops(3)))
    assert loaded.backbone_.preprocessing.size == (64, 64)


@pytest.mark.slow
@pytest.mark.parametrize("lam", [1.0, "search", "gcv"])
def test_a_model_in_float32_stays_so(make, tmp_path, lam):
    model = make(FIRST, lam=lam, precision="float32")
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup")
    np.testing.assert_array_equal(loaded.scores(TEST[0]), model.scores(TEST[0]))
    assert (loaded.classifier.precision, loaded.lambda_) == ("float32", model.lambda_)
    model.learn(*SECOND)
    loaded.learn(*SECOND)
    np.testing.assert_array_equal(loaded.scores(TEST[0]), model.scores(TEST[0]))
    assert loaded.statistics_.gram.dtype == loaded.classifier_.solution_.weights.dtype == np.float32
    loaded.configure(lam=100.0, balance=False)
    exact = make(FIRST, SECOND, lam=100.0, balance=False, exact=False)
    np.testing.assert_allclose(loaded.scores(TEST[0]), exact.scores(TEST[0]), atol=1e-3)
    size = (tmp_path / "m.layup").stat().st_size
    exact.save(tmp_path / "m.layup")
    assert size < 0.6 * (tmp_path / "m.layup").stat().st_size
    with pytest.raises(MismatchError, match="float64 and in float32"):
        exact.merge(make(batch({8: 2}), precision="float32"))


def test_an_unknown_precision_is_refused_with_a_guess(make):
    with pytest.raises(UnknownNameError, match="Did you mean 'float32'"):
        make(FIRST, precision="float23")


def test_a_changed_backbone_is_refused(make, tmp_path, monkeypatch):
    make(FIRST).save(tmp_path / "m.layup")

    def changed(**spec):
        backbone = load_backbone(**spec)
        next(backbone.network.parameters()).add_(1e-3)
        backbone.refresh()
        return backbone

    monkeypatch.setattr(layup.model.network, "load_backbone", changed)
    for use in (
        lambda model: model.predict(TEST[0]),
        lambda model: model.learn(*SECOND),
        lambda model: model.forget(*FIRST),
    ):
        with pytest.raises(MismatchError, match=r"'vit-nano'.*fingerprint.*differ"):
            use(load(tmp_path / "m.layup"))


def test_a_network_of_ones_own_is_asked_for_again(tmp_path):
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3))
    own = Backbone.from_module(network, ["1", "2"], Preprocessing((8, 8), (8, 8), "squash"))
    model = LayUP(own, 2, 1.0)
    model.learn(*FIRST)
    model.save(tmp_path / "m.layup")
    unaided = load(tmp_path / "m.layup")
    assert unaided.counts_ == model.counts_
    unaided.save(tmp_path / "copy.layup")
    for path in ("m.layup", "copy.layup"):
        with pytest.raises(MismatchError, match=r"'Sequential'.*backbone=Backbone\.from_module"):
            load(tmp_path / path).predict(TEST[0])
        again = load(tmp_path / path, backbone=own)
        np.testing.assert_array_equal(again.scores(TEST[0]), model.scores(TEST[0]))
    with pytest.raises(MismatchError, match="fingerprint"):
        load(tmp_path / "m.layup", backbone=load_backbone("vit-nano")).predict(TEST[0])


def test_weights_may_move_but_not_change(tmp_path):
    first, moved, other = (
        tmp_path / name for name in ("w.safetensors", "moved.safetensors", "other.safetensors")
    )
    for file in (first, other):
        save_file(timm.create_model("test_vit", num_classes=0).state_dict(), file)
    model = LayUP(load_backbone("test_vit.r160_in1k", weights=first), k=2, lam=1.0)
    model.learn(*FIRST)
    model.save(tmp_path / "m.layup")
    first.rename(moved)
    with pytest.raises(StorageError, match=r"no file .*w\.safetensors"):
        load(tmp_path / "m.layup", allow_backbone=True).predict(TEST[0])
    found = load(tmp_path / "m.layup", weights=moved)
    np.testing.assert_array_equal(found.scores(TEST[0]), model.scores(TEST[0]))
    found.save(tmp_path / "m.layup")
    again = load(tmp_path / "m.layup", allow_backbone=True)
    np.testing.assert_array_equal(again.scores(TEST[0]), model.scores(TEST[0]))
    with pytest.raises(MismatchError, match="fingerprint"):
        load(tmp_path / "m.layup", weights=other).predict(TEST[0])


def test_what_a_file_says(make, tmp_path, nano):
    make(FIRST).save(tmp_path / "m.layup")
    header = storage.read_header(tmp_path / "m.layup", "model")
    assert header["backbone"] == {
        "name": "vit-nano",
        "spec": nano.spec,
        "fingerprint": nano.fingerprint,
        "depth": 12,
        "engine": "eager",
    }
    last = {"kind": "last layers", "k": 2}
    assert header["features"] == {"kind": "rounded", "of": last, "steps": [-5, -5]}
    assert header["steps"] == [-5, -5]
    made_with = {"kind": "ridge", "lam": 1.0, "balance": True, "precision": "float64", "grid": "wide"}
    assert header["classifier"] == made_with
    assert header["chosen"] == {"lambda": 1.0}
    assert header["labels"] == [name(0), name(1)]
    assert header["counts"] == [6, 5]
    assert header["versions"]["torch"] == torch.__version__
    assert header["layers"] == [["blocks.10", 128], ["blocks.11", 128]]


# ---- engines


def conv_net(engine):
    """A network whose vectors the engines round differently."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3))
    network[1].running_var.uniform_(0.1, 2)
    small = Preprocessing((12, 12), (12, 12), "squash")
    return Backbone.from_module(network, ["2", "3"], small).with_engine(engine)


def test_a_model_keeps_the_engine_that_learned(tmp_path):
    model = LayUP(conv_net("folded"), k=2, lam=1.0)
    model.learn(*FIRST)
    before = model.statistics_.gram.copy()
    model.learn(*SECOND)
    model.save(tmp_path / "m.layup")
    assert storage.read_header(tmp_path / "m.layup", "model")["backbone"]["engine"] == "folded"
    loaded = load(tmp_path / "m.layup", backbone=conv_net("eager"), cache=False)
    assert (loaded.network.engine, loaded.backbone_.engine) == ("folded", "folded")
    np.testing.assert_array_equal(loaded.scores(TEST[0]), model.scores(TEST[0]))
    loaded.forget(*SECOND)
    np.testing.assert_allclose(loaded.statistics_.gram, before, rtol=1e-12)


def test_a_file_names_an_engine_that_is_loaded_with_its_backbone(tmp_path):
    model = LayUP(load_backbone("vit-nano", engine="folded"), K, 1.0)
    model.learn(*FIRST)
    model.save(tmp_path / "m.layup")
    assert load(tmp_path / "m.layup").backbone_.engine == "folded"


def test_an_adapted_model_keeps_its_engine(tmp_path):
    session = FirstSession("ssf", epochs=1)
    model = LayUP(conv_net("folded"), k=2, lam=1.0, adapter=session)
    model.learn(*FIRST)
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup", backbone=conv_net("eager"), cache=False)
    assert model.backbone_.engine == loaded.backbone_.engine == "folded"
    np.testing.assert_array_equal(loaded.scores(TEST[0]), model.scores(TEST[0]))


def test_models_of_two_engines_are_merged_with_a_warning(caplog):
    def taught(engine, each):
        model = LayUP(conv_net(engine), k=2, lam=1.0)
        model.learn(*each)
        return model

    with caplog.at_level(logging.WARNING):
        same = taught("eager", FIRST).merge(taught("eager", SECOND))
        assert not caplog.messages
        mixed = taught("eager", FIRST).merge(taught("folded", SECOND))
    assert len(caplog.messages) == 1
    assert "'eager' and 'folded'" in caplog.messages[0]
    assert mixed.network.engine == "eager"
    np.testing.assert_allclose(mixed.scores(TEST[0]), same.scores(TEST[0]), rtol=1e-3, atol=1e-4)


def test_files_that_cannot_be_loaded(make, tmp_path):
    path = tmp_path / "m.layup"
    with pytest.raises(StorageError, match="No such file"):
        load(path)
    make(FIRST).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    with pytest.raises(DamagedFileError):
        load(path)
    make(FIRST).statistics_.save(path)
    with pytest.raises(StorageError, match="kind 'statistics'"):
        load(path)


def test_a_failed_save_leaves_the_old_file(make, tmp_path, monkeypatch):
    path = tmp_path / "m.layup"
    model = make(FIRST)
    model.save(path)
    old = path.read_bytes()
    model.learn(*SECOND)

    def full(_file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["os"], "fsync", full)
    with pytest.raises(StorageError, match="No space left"):
        model.save(path)
    assert path.read_bytes() == old
    assert [file.name for file in tmp_path.iterdir() if file.suffix == ".tmp"] == []


def test_backbones_by_name_are_loaded_when_first_needed(no_network):
    model = LayUP("vit-nano")
    with pytest.raises(AssertionError, match="a backbone was loaded"):
        model.learn(*FIRST)


def test_an_unknown_backbone_is_refused_with_a_guess():
    with pytest.raises(UnknownNameError, match="Did you mean 'bundled'"):
        LayUP("bundeld").learn(*FIRST)


# ---- the first session

BRIEF = FirstSession("vpt", epochs=2)


def test_the_first_batch_tunes_the_backbone_and_no_later_one_does(nano, make):
    before = nano.fingerprint
    model = make(FIRST, adapter=BRIEF)
    tuned = model.backbone_.fingerprint
    assert model.network.adapted
    assert tuned != before
    model.learn(*SECOND)
    assert model.backbone_.fingerprint == tuned
    assert model.counts_ == make(FIRST, SECOND).counts_
    assert nano.fingerprint == before
    assert not make(FIRST).network.adapted


def test_the_sums_are_of_the_tuned_features_of_all_images_held_out_ones_too(nano, make):
    model = make(FIRST, adapter=BRIEF)
    by_hand = LayUP(adapt(nano, *FIRST, BRIEF), K, 1.0)
    by_hand.learn(*FIRST)
    np.testing.assert_array_equal(model.statistics_.gram, by_hand.statistics_.gram)
    np.testing.assert_array_equal(model.scores(TEST[0]), by_hand.scores(TEST[0]))
    assert not np.array_equal(model.statistics_.gram, make(FIRST).statistics_.gram)


@pytest.mark.parametrize("kind", [LayUP, LayNMC, NMC])
def test_every_model_can_be_adapted(nano, kind):
    model = kind(nano, adapter=BRIEF)
    model.learn(*FIRST)
    assert model.network.adapted


@pytest.mark.parametrize(
    "adapter",
    [
        "vpt",
        "auto",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("adaptformer", "ssf", "lora", "full")),
    ],
)
def test_adapters_are_saved_with_the_sums(nano, adapter, tmp_path):
    session = FirstSession(adapter, epochs=1, trial=False)
    model = LayUP("vit-nano", K, 1.0, adapter=session, cache=False)
    model.learn(*FIRST)
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup", cache=False)
    np.testing.assert_array_equal(loaded.scores(TEST[0]), model.scores(TEST[0]))
    assert loaded.backbone_.fingerprint == model.backbone_.fingerprint
    assert loaded.backbone_.record == model.backbone_.record
    loaded.learn(*SECOND)
    assert loaded.backbone_.fingerprint == model.backbone_.fingerprint
    loaded.save(tmp_path / "n.layup")
    again = load(tmp_path / "n.layup", cache=False)
    np.testing.assert_array_equal(again.scores(TEST[0]), loaded.scores(TEST[0]))


def test_presets_change_how_images_are_read_and_files_remember_it(tmp_path):
    model = LayUP("vit-nano", K, 1.0, adapter=FirstSession("vpt", "official", epochs=1), cache=False)
    model.learn(*FIRST)
    assert model.backbone_.preprocessing.mean == (0.0, 0.0, 0.0)
    model.save(tmp_path / "m.layup")
    loaded = load(tmp_path / "m.layup", cache=False)
    assert loaded.backbone_.preprocessing == model.backbone_.preprocessing
    np.testing.assert_array_equal(loaded.scores(TEST[0]), model.scores(TEST[0]))


@pytest.mark.slow
def test_a_tuned_file_is_saved_and_merged_without_a_network(make, tmp_path, monkeypatch):
    first, second = make(FIRST, adapter=BRIEF), make(FIRST, adapter=BRIEF)
    second.forget(*FIRST)
    second.learn(*SECOND)
    first.save(tmp_path / "a.layup")
    second.save(tmp_path / "b.layup")
    monkeypatch.setattr(layup.model.network, "load_backbone", None)
    merged = load(tmp_path / "a.layup").merge(load(tmp_path / "b.layup"))
    merged.save(tmp_path / "c.layup")
    monkeypatch.undo()
    first.learn(*SECOND)
    assert_same_sums(load(tmp_path / "c.layup"), first)
    np.testing.assert_allclose(load(tmp_path / "c.layup").scores(TEST[0]), first.scores(TEST[0]), atol=1e-5)


def test_models_tuned_differently_cannot_be_merged(make):
    other = make(SECOND, adapter=BRIEF)
    for model in (make(FIRST), make(FIRST, adapter=BRIEF)):
        with pytest.raises(MismatchError, match=r"different backbones \(or adapters\)"):
            model.merge(other)


def test_a_wish_for_an_adapter_is_saved_before_anything_is_learned(tmp_path):
    LayUP("vit-nano", K, 1.0, adapter=BRIEF).save(tmp_path / "m.layup")
    model = load(tmp_path / "m.layup")
    assert not model.network.adapted
    model.learn(*FIRST)
    assert model.network.adapted
    assert model.backbone_.adapter == BRIEF.adapter


def test_a_first_session_that_fails_leaves_the_model_as_it_was(nano, make):
    one_class = batch({0: 5})
    model = make(adapter=BRIEF)
    with pytest.raises(InputError, match="a single class"):
        model.learn(*one_class)
    assert not model.network.adapted
    diverging = make(adapter=FirstSession("lora", learning_rate=1e30))
    with pytest.raises(DivergedError, match="diverged in epoch 1"):
        diverging.learn(*FIRST)
    assert not diverging.network.adapted
    assert diverging.backbone_ is nano
    assert diverging.classes_ == []


def test_a_first_batch_that_fails_after_tuning_is_tuned_anew(make, monkeypatch):
    model = make(adapter=BRIEF)
    with monkeypatch.context() as patch:
        patch.setattr(PhotoFeatures, "visit", None)
        with pytest.raises(TypeError):
            model.learn(*FIRST)
    model.learn(*SECOND)
    expected = make(SECOND, adapter=BRIEF)
    np.testing.assert_array_equal(model.scores(TEST[0]), expected.scores(TEST[0]))


def test_unknown_adapters_are_refused_at_once():
    with pytest.raises(UnknownNameError, match="Did you mean 'adaptformer'"):
        LayUP(adapter="adaptfomer")


def test_settings_that_cannot_be_are_refused_before_tuning(nano, monkeypatch):
    monkeypatch.setattr(layup.model.network.Network, "adapt", None)
    for settings in ({"k": 99}, {"lam": "serch"}, {"lam": -1.0}):
        with pytest.raises(InputError):
            LayUP(nano, adapter=BRIEF, **settings).learn(*FIRST)


def test_a_backbone_that_was_tuned_is_not_tuned_again(nano):
    tuned = adapt(nano, *FIRST, BRIEF)
    with pytest.raises(InputError, match="has an adapter already, 'vpt'"):
        LayUP(tuned, K, 1.0, adapter="lora").learn(*FIRST)


def test_a_model_that_is_yet_to_be_tuned_cannot_be_merged(make):
    due = make(adapter=BRIEF)
    for one, other in ((due, make(FIRST)), (make(FIRST), due)):
        with pytest.raises(InputError, match="cannot be merged before it has learned its first batch"):
            one.merge(other)


# ---- memory


class Unread:
    """Images that must not be read."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, place):
        raise AssertionError("an image was read")


@pytest.mark.parametrize("settings", [{}, {"adapter": "adaptformer"}], ids=["plain", "adapted"])
def test_a_batch_that_would_not_fit_is_refused_before_an_image_is_read(nano, settings, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 120_000_000)
    model = LayUP(nano, k=12, lam="search", **settings)
    with pytest.raises(
        NotEnoughMemoryError,
        match=r"This batch would take about .* What would fit: k = 8",
    ) as caught:
        model.learn(Unread(5000), ["a", "b"] * 2500)
    assert "lam" not in str(caught.value)  # which would not be enough
    assert (model.classes_, model.log) == ([], [])
    with pytest.raises(AssertionError, match="an image was read"):
        LayUP(nano, k=8, lam="search").learn(Unread(5000), ["a", "b"] * 2500)


def test_what_cannot_be_chosen_is_not_advised(nano, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 1000)
    with pytest.raises(NotEnoughMemoryError, match="Use a machine with more memory") as caught:
        NMC(nano).learn(Unread(9), ["a"] * 9)
    assert "k =" not in str(caught.value)


@pytest.mark.parametrize("known", [None, 10_000])
def test_a_forecast_is_that_of_the_sums(make, known):
    model = make(FIRST, lam="search", k=2)
    searching = search_values(256, 5, 100, known=11 if known is None else known)
    assert model.forecast(100, 5, known) == forecast_learning(256, 5, 100, search=searching)
    assert make(FIRST, lam="gcv", k=2).forecast(100, 5) == forecast_learning(256, 5, 100)


def test_a_batch_that_waits_on_the_disk_is_learned_alike(make, monkeypatch):
    plain = make(FIRST, SECOND, lam="search")
    monkeypatch.setattr(layup.model.change, "Spool", partial(Spool, limit=0))
    spooled = make(FIRST, SECOND, lam="search")
    assert spooled.lambda_ == plain.lambda_
    np.testing.assert_array_equal(spooled.scores(TEST[0]), plain.scores(TEST[0]))
