"""Datasets go straight into the verbs: the same model as from the files."""

from __future__ import annotations

import numpy as np
import pytest

import layup.compat  # noqa: F401  # before torchvision
from layup import LayUP
from layup.errors import InputError
from layup.images import labelled_photos
from photos import require_same_sums, save_crops, sums_of

# isort: split
from torchvision.datasets import ImageFolder
from torchvision.transforms import ToTensor

datasets = pytest.importorskip("datasets", reason="datasets is not installed")


@pytest.fixture
def folder(tmp_path):
    return save_crops(tmp_path / "photos", 12, 3)


def table(folder, tmp_path, **named):
    datasets.disable_progress_bars()
    columns = {"image": [], "label": []}
    for image, label in labelled_photos(folder):
        columns["image"].append({"bytes": image.read_bytes(), "path": None})
        columns["label"].append(label)
    found = datasets.Dataset.from_dict(columns).cast_column("image", datasets.Image())
    return found.rename_columns(named) if named else found


@pytest.mark.parametrize("kind", ["torchvision", "table", "stream", "photos", "pairs"])
def test_a_dataset_gives_the_model_of_its_files_and_they_are_known(folder, tmp_path, kind):
    given = {
        "torchvision": lambda: ImageFolder(folder),
        "table": lambda: table(folder, tmp_path),
        "stream": lambda: table(folder, tmp_path).to_iterable_dataset(),
        "photos": lambda: labelled_photos(folder),
        "pairs": lambda: iter([*labelled_photos(folder)]),
    }[kind]
    model = LayUP("vit-nano", lam=1.0)
    assert sum(model.learn(given()).learned.values()) == 12
    model.save(tmp_path / "m.layup")
    require_same_sums(tmp_path / "m.layup", sums_of(folder))
    paths, labels = labelled_photos(folder).images, labelled_photos(folder).labels
    assert model.foresee(paths, labels).known == model.foresee(given()).known == 12
    if kind != "pairs":
        np.testing.assert_array_equal(model.predict(given()), model.predict(paths))
        assert model.learned_as(given()) == [(label,) for label in labels]
        assert not model.sync(given()).changed
        assert len(model.audit(given()).conflicts) == 0
        with pytest.raises(InputError, match="All of these photos were learned already"):
            model.suggest(given())
        assert model.forget(given()).forgotten == dict.fromkeys(["class 0", "class 1", "class 2"], 4)


def test_decoded_pictures_are_other_photos_than_their_files(folder):
    model = LayUP("vit-nano", lam=1.0)
    model.learn(ImageFolder(folder))
    assert model.foresee(ImageFolder(folder, transform=ToTensor())).known == 0


def test_columns_are_named(folder, tmp_path):
    model = LayUP("vit-nano", lam=1.0)
    given = table(folder, tmp_path, label="species")
    with pytest.raises(InputError, match="label='species'"):
        model.learn(given)
    assert sum(model.learn(given, label="species", image="image").learned.values()) == 12
    assert not model.sync(given, label="species").changed
    assert model.foresee(labelled_photos(given, label="species")).known == 12
    with pytest.raises(InputError, match="`image` and `label` name the columns of a dataset"):
        model.learn(given, ["a"] * 12, label="species")
    assert len(model.learn(given, ["other"] * 12).conflicts) == 12


@pytest.mark.parametrize("images", [["a.jpg"], [], np.zeros((2, 8, 8)), "a.jpg", None])
def test_images_alone_need_their_labels(images):
    with pytest.raises(
        InputError, match=r"Give the labels too, .* Or give a dataset that has both.* labelled_photos"
    ):
        LayUP("vit-nano").learn(images)
