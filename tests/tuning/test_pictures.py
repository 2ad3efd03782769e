"""Pictures are the same for any number of processes, in any order."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from layup.backbones import Preprocessing
from layup.errors import BadImageError
from layup.images import open_image
from layup.seeds import seed_of
from layup.tuning.augmentation import augmented
from layup.tuning.pictures import Pictures, shuffled
from photos import crops, digits

PREPROCESSING = Preprocessing((12, 12), (14, 14), "center")
IMAGES = crops(7, side=20)
TARGETS = np.array([0, 1, 2, 0, 1, 2, 0])


def varied(images=IMAGES, seeds=(0, 1)):
    return Pictures(images, TARGETS, augmented(PREPROCESSING, "mild"), seeds)


def by_place(pictures, places, size, workers=0):
    """The pixels by index."""
    found = torch.cat([pixels for pixels, _ in pictures.batches(places, size, workers)])
    return dict(zip(places, found, strict=True))


def test_pictures_come_in_batches_in_the_order_asked_with_their_targets():
    pictures = Pictures(IMAGES, TARGETS, PREPROCESSING.transform)
    places = [4, 0, 6, 5, 1]
    batches = list(pictures.batches(places, 2, None))
    assert [len(targets) for _, targets in batches] == [2, 2, 1]
    assert torch.cat([targets for _, targets in batches]).tolist() == TARGETS[places].tolist()
    expected = torch.stack([PREPROCESSING.transform(open_image(IMAGES[place])) for place in places])
    assert torch.equal(torch.cat([pixels for pixels, _ in batches]), expected)


def test_augmentation_follows_from_the_seeds_and_the_place():
    found = by_place(varied(), range(7), 3)
    for place, pixels in found.items():
        torch.manual_seed(seed_of(0, 1, place))
        assert torch.equal(pixels, augmented(PREPROCESSING, "mild")(open_image(IMAGES[place])))


@pytest.mark.parametrize("workers", [0, 2])
def test_neither_order_nor_batches_nor_processes_change_a_picture(workers):
    expected = by_place(varied(), range(7), 7)
    found = by_place(varied(), [5, 2, 6, 0], 3, workers)
    assert all(torch.equal(found[place], expected[place]) for place in found)


def test_other_seeds_make_other_pictures_and_so_does_another_place():
    first, other = (by_place(varied(seeds=seeds), range(7), 7) for seeds in ((0, 1), (0, 2)))
    assert not any(torch.equal(first[place], other[place]) for place in first)
    same = by_place(varied([IMAGES[0]] * 7), range(7), 7)
    assert len({pixels.sum().item() for pixels in same.values()}) == 7


def test_looking_at_pictures_draws_nobody_elses_random_numbers():
    pictures = varied()
    before = torch.get_rng_state()
    pictures.read([0, 3])
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("workers", [0, 1])
def test_a_bad_image_is_one_sentence_whichever_process_finds_it(workers, tmp_path):
    files = []
    for i, image in enumerate(digits(3, 6)):
        files.append(tmp_path / f"{i}.png")
        Image.fromarray(image).save(files[-1])
    files[4].unlink()
    batches = varied([*files, IMAGES[6]]).batches(range(7), 2, workers)
    assert next(batches)[0].shape == (2, 3, 12, 12)
    next(batches)
    with pytest.raises(BadImageError, match=r"^Cannot use '.*4\.png': there is no such file\.$"):
        next(batches)


@pytest.mark.parametrize("places", [[*range(7)], [4, 0, 6, 5, 1]])
def test_an_epoch_has_every_picture_once_in_an_order_of_its_seeds(places):
    order = np.random.default_rng(seed_of(0, 1, "order")).permutation(len(places))
    expected = np.array(places)[order]
    assert shuffled(np.array(places), 0, 1).tolist() == expected.tolist() != places
    found = list(varied().shuffled(np.array(places), 2, 0))
    assert torch.cat([targets for _, targets in found]).tolist() == TARGETS[expected].tolist()
    plain = by_place(varied(), places, 7)
    for place, pixels in zip(expected, torch.cat([pixels for pixels, _ in found]), strict=True):
        assert torch.equal(pixels, plain[int(place)])


def test_a_pass_spends_the_random_number_that_torchs_loader_does():
    """What is drawn after it, such as dropout, is what it always was."""
    torch.manual_seed(0)
    list(torch.utils.data.DataLoader([1, 2, 3]))
    expected = torch.rand(3)
    torch.manual_seed(0)
    list(varied().batches(range(7), 3, 0))
    assert torch.equal(torch.rand(3), expected)
