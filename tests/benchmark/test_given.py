"""Datasets that Python has run through the methods as those in folders do."""

from __future__ import annotations

import numpy as np
import pytest

import layup.compat  # noqa: F401  # before torchvision
from layup.benchmark import RunSpec, run
from layup.benchmark.datasets import Dataset, dataset_from, load_dataset
from layup.benchmark.methods import method_class
from layup.errors import InputError
from layup.images import labelled_photos
from photos import save_crops

# isort: split
from torch.utils.data import Subset
from torchvision.datasets import ImageFolder
from torchvision.transforms import ToTensor

datasets = pytest.importorskip("datasets", reason="datasets is not installed")


@pytest.fixture
def folder(tmp_path):
    save_crops(tmp_path / "train", 16, 4)
    save_crops(tmp_path / "test", 24, 4)
    for path in sorted((tmp_path / "test").rglob("*.png"))[:16]:
        if int(path.stem) < 16:
            path.unlink()
    return tmp_path


def pair(folder, **more):
    return ImageFolder(folder / "train", **more), ImageFolder(folder / "test", **more)


@pytest.mark.parametrize("method", ["layup", "nmc"])
def test_a_pair_gives_what_its_folders_give(folder, tmp_path, method):
    given = RunSpec(pair(folder), method=method, backbone="vit-nano", tasks=2)
    named = RunSpec(f"folder:{folder}", method=method, backbone="vit-nano", tasks=2)
    [one], [other] = run(given, tmp_path / "given"), run(named, tmp_path / "named")
    np.testing.assert_array_equal(one.matrix, other.matrix)
    assert one.predictions == other.predictions
    assert one.run["data"] == other.run["data"]  # the same fingerprint: the same files
    assert one.run["dataset"] == "given:imagefolder"


def table(folder):
    columns = {"image": [], "label": []}
    for image, label in labelled_photos(folder):
        columns["image"].append({"bytes": image.read_bytes(), "path": None})
        columns["label"].append(label)
    return datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())


def test_tables_splits_and_pictures_in_memory(folder, tmp_path):
    splits = datasets.DatasetDict(train=table(folder / "train"), validation=table(folder / "test"))
    expected = dataset_from(pair(folder))
    for data in (splits, dict(splits), pair(folder, transform=ToTensor()), [*splits.values()]):
        found = dataset_from(data, "pets")
        assert found.name == "given:pets"
        assert (found.classes, found.train.labels, found.test.labels) == (
            expected.classes,
            expected.train.labels,
            expected.test.labels,
        )
        [record] = run(RunSpec(found, method="nmc", backbone="vit-nano", tasks=2), tmp_path / "records")
        assert record.matrix.shape == (2, 2)
    assert len([*(tmp_path / "records").glob("*.json")]) == 2  # the rows are the same, and the tensors others


def test_one_dataset_is_split_as_a_folder_is(folder):
    whole = dataset_from(ImageFolder(folder / "train"), seed=3)
    named = load_dataset(f"folder:{folder / 'train'}", seed=3)
    assert [str(path) for path in whole.test.images] == [str(path) for path in named.test.images]
    assert (whole.train.labels, whole.classes) == (named.train.labels, named.classes)


def test_spec_samples_and_holds_out(folder):
    spec = RunSpec(pair(folder), sample=(2, 3), held_out=1 / 3)
    found = spec.load_dataset()
    assert (len(found.classes), len(found.train), len(found.test)) == (2, 4, 2)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ranpac", "fecam", "joint", "l2p"])  # one of each kind
def test_methods_of_every_kind_take_a_dataset(folder, tmp_path, backbone, method):
    kind = method_class(method)
    small = Subset(ImageFolder(folder / "train", transform=ToTensor()), range(0, 16, 2))
    spec = RunSpec(
        (small, ImageFolder(folder / "test")),
        method=method,
        options={"epochs": 1} if "epochs" in kind.option_names() else {},
        adapter="adaptformer" if kind.needs_session else "none",
        session={"epochs": 1} if kind.needs_session else {},
        tasks=2,
    )
    for record in run(spec.resolve(tmp_path / "records", backbone=backbone)):
        assert record.matrix.shape[0] == (1 if kind.joint else 2)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (3, "This int is no dataset. Give the name of one; or a dataset"),
        ({"train": [("1.jpg", "a")]}, "These splits have none for testing: train. Give a pair"),
        ({}, "These splits have none for training and for testing"),
        (["1.jpg", "2.jpg"], "This list is no dataset"),
    ],
)
def test_what_is_no_dataset_is_refused(data, says):
    with pytest.raises(InputError, match=says):
        RunSpec(data).load_dataset()


def test_names_and_orders_that_are_impossible():
    pairs = [(f"{number}.jpg", "cat") for number in range(5)]
    for name in ("a/b", "a:b", ".", ".a", "a b"):
        with pytest.raises(InputError, match="A dataset cannot be called"):
            dataset_from(pairs, name)
    with pytest.raises(InputError, match="have no domains"):
        RunSpec(pairs, order=["a"]).load_dataset()
    assert isinstance(RunSpec(pairs).load_dataset(), Dataset)


def test_a_photo_for_both_is_refused():
    with pytest.raises(InputError, match=r"both for training and for testing: 1.jpg"):
        dataset_from(([("1.jpg", "cat")], [("1.jpg", "cat")]))
