"""An audit says what models without each photo would say, and finds what was planted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from layup import NMC, ImageModel, LayUP
from layup.errors import InputError
from models import Photo, given, small_model
from photos import batch, crops, digits, name

CATS: list[Photo] = [(number, "cat") for number in range(8)]
DOGS: list[Photo] = [(number, "dog") for number in range(8, 16)]


def by_leaving_one_out(photos: list[Photo]) -> dict[int, str]:
    """The prediction of each photo by a model that never saw it, one by one: slow and obvious."""
    found = {}
    for index in range(len(photos)):
        rest = small_model([*photos[:index], *photos[index + 1 :]], balance=True)
        found[index] = str(rest.predict(given([photos[index]])[0])[0])
    return found


def test_each_photo_is_judged_by_a_model_without_it() -> None:
    photos = [photo for pair in zip(CATS, DOGS, strict=True) for photo in pair]
    found = small_model(photos, balance=True).audit(*given(photos))
    told = {index: label for index, (_, label) in enumerate(photos)}
    told |= {each.index: each.suggested for each in found.suspects}
    assert told == by_leaving_one_out(photos)
    assert 0 < len(found.suspects) < found.judged == len(photos)
    assert found.expected is not None
    assert found.expected.accuracy == pytest.approx(1 - len(found.suspects) / len(photos))
    assert min(each.margin for each in found.suspects) > 0


@pytest.fixture(scope="module")
def planted() -> tuple[ImageModel, list[np.ndarray], list[str]]:
    """Digits of three classes; the last six have a wrong label."""
    images, labels = batch({0: 20, 1: 20, 2: 20})
    wrong = {name(0): name(1), name(1): name(2), name(2): name(0)}
    labels[-6:] = [wrong[label] for label in labels[-6:]]
    model = LayUP("vit-nano", cache=False)
    model.learn(images, labels)
    return model, images, labels


def test_planted_wrong_labels_come_first(
    planted: tuple[ImageModel, list[np.ndarray], list[str]],
) -> None:
    model, images, labels = planted
    found = model.audit(images, labels)
    assert {each.index for each in found.suspects[:6]} == set(range(54, 60))
    truth = batch({0: 20, 1: 20, 2: 20})[1]
    assert found.suggested(labels)[-6:] == truth[-6:]
    assert model.counts_ == {name(0): 20, name(1): 20, name(2): 20}  # nothing was changed


def test_the_same_photos_again_say_the_same(
    planted: tuple[ImageModel, list[np.ndarray], list[str]], tmp_path: Path
) -> None:
    model, images, labels = planted
    model.save(tmp_path / "m.layup")
    found, again = model.audit(images, labels), ImageModel.load(tmp_path / "m.layup").audit(images, labels)
    assert again.suspects == [
        replace(each, margin=pytest.approx(each.margin), score=pytest.approx(each.score))
        for each in found.suspects
    ]
    assert replace(again, suspects=[]) == replace(found, suspects=[])


def resized(image: np.ndarray, side: int) -> np.ndarray:
    return np.asarray(Image.fromarray(image).resize((side, side), Image.Resampling.LANCZOS))


def test_copies_are_found_in_their_class_and_in_others() -> None:
    photos = crops(60, side=64)[20:]  # above these there is only sky
    images = [*photos, resized(photos[13], 80), resized(photos[25], 110)]
    labels = ["left" if index % 10 < 5 else "right" for index in range(40)]
    labels += ["left", "left"]  # 13 is left, 25 is right
    model = LayUP("vit-nano", cache=False)
    model.learn(images, labels)
    found = model.audit(images, labels)
    pairs = {(each.index, each.twin): each.across for each in found.duplicates}
    assert pairs[40, 13] is False
    assert pairs[41, 25] is True
    assert len(pairs) < 15
    assert 40 in found.redundant
    assert 41 not in found.redundant  # it is of another class
    likeness = [each.likeness for each in found.duplicates]
    assert likeness == sorted(likeness, reverse=True)
    assert likeness[0] <= 1


def test_what_is_left_out_is_counted(tmp_path: Path) -> None:
    photos = [*CATS, *DOGS, (20, "owl")]
    model = small_model(photos)
    images, labels = given([*CATS, *DOGS[:6], (14, "cat"), (20, "owl"), (30, "cat"), (31, "emu")])
    found = model.audit([*images, tmp_path / "no.jpg"], [*labels, "cat"])
    assert (found.judged, found.alone, found.unknown) == (14, 1, 2)
    assert [(each.index, each.label, each.other) for each in found.conflicts] == [(14, "cat", "dog")]
    assert [each.index for each in found.bad] == [18]
    assert found.expected is not None
    assert "owl" in found.expected.needs_more


def test_as_json() -> None:
    model = small_model(CATS, DOGS)
    images, labels = given([*CATS, *DOGS])
    told = model.audit(images, labels).to_dict([f"{index}.jpg" for index in range(16)])
    assert told["judged"] == 16
    first = told["suspects"][0]
    assert {*first} == {"path", "label", "suggested", "margin", "score"}
    assert first["path"].endswith(".jpg")
    assert {first["label"], first["suggested"]} == {"cat", "dog"}


def test_what_cannot_be_judged_is_a_sentence(tmp_path: Path) -> None:
    images, labels = given([*CATS, *DOGS])
    with pytest.raises(InputError, match="None of these 16 photos was learned as the class"):
        small_model([(30, "cat"), (31, "dog")]).audit(images, labels)
    with pytest.raises(InputError, match=r"anonymous.*Only a new model"):
        small_model(CATS, DOGS, anonymous=True).audit(images, labels)
    nearest = NMC("vit-nano", cache=False)
    nearest.learn(digits(0, 2), ["zero"] * 2)
    with pytest.raises(InputError, match=r"cannot be judged by one another: its classifier \(nearest mean"):
        nearest.audit(digits(0, 2), ["zero"] * 2)
    with pytest.raises(InputError, match="16 images but 1 labels"):
        small_model(CATS, DOGS).audit(images, ["cat"])
