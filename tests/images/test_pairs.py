"""Datasets of pairs, as torchvision has them: what they give, by which names, and the files that it is in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

import layup.compat  # noqa: F401  # before torchvision
from layup.errors import BadImageError, InputError
from layup.features import digests_of
from layup.images import image_digest, is_dataset, labelled_photos, unlabelled_photos
from photos import crops, save_crops

# isort: split
from torch.utils.data import ConcatDataset, DataLoader, Subset
from torchvision.datasets import CIFAR10, FakeData, ImageFolder
from torchvision.transforms import Compose, Normalize, RandomHorizontalFlip, Resize, ToTensor

LABELS = ["class 0", "class 1"] * 3


@pytest.fixture
def folder(tmp_path):
    return save_crops(tmp_path / "photos", 6, 2)


class Pairs:
    """A dataset of pictures in memory, which counts how many it gives."""

    def __init__(self, answers, **more):
        self.pictures, self.answers, self.given = crops(len(answers), side=16), answers, 0
        for name, value in more.items():
            setattr(self, name, value)

    def __len__(self):
        return len(self.answers)

    def __getitem__(self, index):
        self.given += 1
        return Image.fromarray(self.pictures[index]), self.answers[index]


def pixels(images):
    return [image_digest(image) for image in images]


def test_files_are_taken_where_they_are_given_unchanged(folder):
    found, expected = labelled_photos(ImageFolder(folder)), labelled_photos(folder)
    assert [str(image) for image in found.images] == [str(image) for image in expected.images]
    assert found.labels == expected.labels == sorted(LABELS)


@pytest.mark.parametrize("transform", [ToTensor(), Compose([Resize(8), ToTensor()])], ids=["tensor", "small"])
def test_what_a_transform_gives_is_learned_and_not_the_files(folder, transform):
    given = ImageFolder(folder, transform=transform)
    found = labelled_photos(given)
    assert found.labels == sorted(LABELS)
    assert pixels(found.images) == [image_digest(given[index][0]) for index in range(6)]
    assert isinstance(found.images[0], torch.Tensor)


@pytest.mark.parametrize(
    ("transform", "says"),
    [
        (RandomHorizontalFlip(), "another picture each time that it is read: its transform is random."),
        (
            Compose([ToTensor(), Normalize([0.9] * 3, [0.5] * 3)]),
            r"makes what is no picture. .* transform=None",
        ),
    ],
    ids=["random", "normalised"],
)
def test_transforms_for_training_are_refused(folder, transform, says):
    torch.manual_seed(0)
    with pytest.raises(InputError, match=says):
        labelled_photos(ImageFolder(folder, transform=transform))


def test_another_loader_is_believed_more_than_the_files(folder):
    given = ImageFolder(folder, loader=lambda path: Image.open(path).convert("RGB").resize((4, 4)))
    assert unlabelled_photos(given)[0].size == (4, 4)


def test_a_damaged_file_is_a_file_all_the_same(folder):
    for name in ("class 0/000.png", "class 1/003.png"):
        (folder / name).write_bytes(b"not an image")
    assert [str(image) for image in unlabelled_photos(ImageFolder(folder))] == [
        str(image) for image in labelled_photos(folder).images
    ]


def test_items_that_cannot_be_read_are_bad_one_by_one():
    given = Pairs([0, 1] * 10, targets=[0, 1] * 10)
    given.pictures[0] = given.pictures[6] = None
    found = labelled_photos(given)
    digests = digests_of(found.images, {"cache": False})
    assert [index for index, digest in enumerate(digests) if digest is None] == [0, 6]
    with pytest.raises(BadImageError, match=r"Cannot use 'item 6 of the dataset': it cannot be read \("):
        image_digest(found.images[6])
    del given.targets
    with pytest.raises(InputError, match=r"Item 0 of the dataset cannot be read \("):
        labelled_photos(given)
    given.pictures = [None] * 20
    with pytest.raises(InputError, match=r"Item 0 of the dataset cannot be read \("):
        labelled_photos(given)


def test_parts_and_sums_of_datasets_keep_files_and_names(folder):
    whole = ImageFolder(folder)
    part = labelled_photos(Subset(whole, torch.tensor([4, 0])))
    assert [(str(image)[-15:], label) for image, label in part] == [
        ("class 1/003.png", "class 1"),
        ("class 0/000.png", "class 0"),
    ]
    both = labelled_photos(ConcatDataset([Subset(whole, [4]), Subset(whole, [0])]))
    assert (both.images, both.labels) == (part.images, part.labels)


def test_pictures_are_made_only_when_they_are_read():
    given = Pairs([1, 0] * 50, classes=["a", "b"], targets=[1, 0] * 50)
    found = labelled_photos(Subset(given, range(50, 100)))
    assert given.given <= 30  # a few were compared
    assert found.labels == ["b", "a"] * 25
    assert image_digest(found.images[7]) == image_digest(given.pictures[57])
    several = labelled_photos(ConcatDataset([given, given]))
    assert several.labels == ["b", "a"] * 100
    assert image_digest(several.images[101]) == image_digest(given.pictures[1])


@pytest.mark.parametrize(
    ("targets", "more", "labels"),
    [
        ([1, 0, 1], {"classes": ["cat", "dog"]}, ["dog", "cat", "dog"]),
        (["cat", "dog", "cat"], {}, ["cat", "dog", "cat"]),
        ([7, 0, 7], {}, ["7", "0", "7"]),
        ([np.int64(1), torch.tensor(0), 1], {"classes": ("cat", "dog")}, ["dog", "cat", "dog"]),
        ([1, 0, 1], {"classes": [("tench", "Tinca"), ("crane",)]}, ["crane", "tench, Tinca", "crane"]),
        ([1, 0, 1], {"classes": ["a", "b"], "targets": torch.tensor([1, 0, 1])}, ["b", "a", "b"]),
        ([1, 0, 1], {"classes": ["a", "b"], "labels": np.array([1, 0, 1])}, ["b", "a", "b"]),
        ([1, 0, 1], {"classes": ["a", "b"], "targets": [0, 0, 0]}, ["b", "a", "b"]),
        ([1, 0, 1], {"classes": ["a", "b"], "targets": [1, 0]}, ["b", "a", "b"]),
    ],
    ids=["named", "strings", "numbers", "scalars", "synonyms", "tensor", "array", "wrong", "fewer"],
)
def test_targets_become_labels(targets, more, labels):
    assert labelled_photos(Pairs(targets, **more)).labels == labels


@pytest.mark.parametrize(
    ("targets", "more", "says"),
    [
        ([0, 1, -1], {}, "The target of item 2 of the dataset is -1, which is none of its classes."),
        ([0, 2, 1], {"classes": ["a", "b"]}, r"item 1 of the dataset is 2, which is none .* \(0 to 1\)"),
        ([{"boxes": []}] * 3, {}, "item 0 of the dataset is {'boxes': \\[\\]}. A model learns one class"),
        ([True, False, True], {}, "item 0 of the dataset is True"),
        ([torch.tensor([0, 1])] * 3, {"attr": 1}, "item 0 of the dataset is tensor"),
    ],
)
def test_targets_that_are_no_class_are_refused(targets, more, says):
    with pytest.raises(InputError, match=says):
        labelled_photos(Pairs(targets, **more))


class Triples(Pairs):
    def __getitem__(self, index):
        return (*super().__getitem__(index), "more")


def test_what_gives_no_pairs_is_refused():
    with pytest.raises(InputError, match=r"pairs: item 0 of this one is a tuple of 3."):
        labelled_photos(Triples([0, 1]))
    with pytest.raises(InputError, match="pairs, not an empty one"):
        labelled_photos(Pairs([]))
    with pytest.raises(InputError, match=r"A DataLoader gives batches of tensors. .* loader.dataset"):
        labelled_photos(DataLoader(Pairs([0, 1])))


def test_lists_of_pairs_are_datasets_and_lists_of_images_are_not():
    assert is_dataset([("1.jpg", "tabby")])
    assert labelled_photos((("1.jpg", "tabby"),)).images == ["1.jpg"]
    for images in (["1.jpg"], [], {"1.jpg": 1}, "12", b"12", np.zeros((2, 2)), iter([]), None):
        assert not is_dataset(images)


def test_datasets_of_torchvision_itself(tmp_path):
    fake = FakeData(6, (3, 16, 16), 3)
    found = labelled_photos(fake)
    assert found.labels == [str(int(fake[index][1])) for index in range(6)]
    assert pixels(found.images) == [image_digest(fake[index][0]) for index in range(6)]
    cifar = CIFAR10.__new__(CIFAR10)  # without its archive
    cifar.data, cifar.targets = np.stack(crops(4, side=32)), [3, 0, 3, 5]
    cifar.classes = ["airplane", "automobile", "bird", "cat", "deer", "dog"]
    cifar.transform = cifar.target_transform = cifar.transforms = None
    assert labelled_photos(cifar).labels == ["cat", "airplane", "cat", "dog"]
    assert pixels(labelled_photos(cifar).images) == pixels(cifar.data)
