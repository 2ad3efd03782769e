"""WebDataset shards: photos and the files beside them that hold their labels."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from layup.errors import BadImageError, InputError
from layup.images import image_digest, labelled_photos, unlabelled_photos
from layup.images.shards import expanded


def shard(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, contents in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(contents)
            tar.addfile(info, io.BytesIO(contents))
    return path


def names(images) -> list[str]:
    return [image.name for image in images]


def test_labels_are_in_the_surest_file_beside_a_photo(tmp_path):
    found = labelled_photos(
        shard(
            tmp_path / "a.tar",
            {
                "0002.jpg": b"b",
                "0002.cls": b"7\n",
                "0002.json": b'{"label": "seven"}',
                "0001.JPEG": b"a",
                "0001.txt": "cafe\u0301".encode(),
                "0001.seg.png": b"mask",
                "0003.json": b'{"caption": "?", "class": "tabby"}',
                "0003.webp": b"c",
                "0004.png": b"d",
                "0004.json": b'{"label": 4}',
            },
        )
    )
    assert names(found.images) == ["0002.jpg", "0001.JPEG", "0003.webp", "0004.png"]
    assert found.labels == ["7", "café", "tabby", "4"]
    assert found.remarks == []
    assert [image_digest(image) for image in found.images] == [
        image_digest(each) for each in (b"b", b"a", b"c", b"d")
    ]


@pytest.mark.parametrize(
    "label",
    [
        {"2.cls": b" "},
        {"2.json": b'{"label": true}'},
        {"2.json": b"{"},
        {"2.txt": b"\xff"},
        {"2.txt": b"a\nb"},
        {},
    ],
)
def test_photos_without_a_label_are_left_out_and_mentioned(tmp_path, label):
    archive = shard(tmp_path / "a.tar", {"1.jpg": b"a", "1.cls": b"tabby", "2.jpg": b"b", **label})
    found = labelled_photos(archive)
    assert (names(found.images), found.labels) == (["1.jpg"], ["tabby"])
    assert found.remarks == [f"Left out: 1 photo without a label in {str(archive)!r}: 2.jpg."]
    assert names(unlabelled_photos(archive)) == ["1.jpg", "2.jpg"]


def test_a_photo_whose_label_cannot_be_read_is_not_without_one(tmp_path):
    """It is unusable for now: `sync` would forget a photo that is not there."""
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for name, content in (("1.jpg", b"one"), ("1.cls", b"cat"), ("2.jpg", b"two")):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo("2.cls")
        link.type, link.linkname = tarfile.SYMTYPE, "1.cls"
        tar.addfile(link)
    found = labelled_photos(tmp_path / "s.tar")
    assert names(found.images) == ["1.jpg", "2.cls"]
    with pytest.raises(BadImageError, match=r"2.cls': it should have the label of '2.jpg', and cannot be"):
        image_digest(found.images[1])


def test_shards_without_any_label_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"No photo in '.*a.tar' has a label\. Beside 1.jpg, put"):
        labelled_photos(shard(tmp_path / "a.tar", {"1.jpg": b"a", "1.json": b"{}"}))


def test_photos_of_a_shard_may_be_in_folders(tmp_path):
    archive = shard(
        tmp_path / "a.tar", {"n01/1.jpg": b"a", "n01/1.cls": b"tabby", "n02/1.jpg": b"b", "n02/1.cls": b"dog"}
    )
    assert labelled_photos(archive).labels == ["tabby", "dog"]


def test_class_folders_with_notes_are_class_folders(tmp_path):
    archive = shard(tmp_path / "a.tar", {"tabby/1.jpg": b"a", "tabby/1.txt": b"a caption"})
    found = labelled_photos(archive)
    assert (names(found.images), found.labels) == (["tabby/1.jpg", "tabby/1.txt"], ["tabby", "tabby"])


@pytest.fixture
def shards(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    for number in range(8, 11):
        shard(folder / f"{number:03}.tar", {"1.jpg": b"%d" % number, "1.cls": b"class %d" % number})
    return folder


def test_several_shards(shards):
    labels = ["class 8", "class 9", "class 10"]
    assert labelled_photos(shards).labels == labels
    assert labelled_photos(shards / "{008..010}.tar").labels == labels
    assert labelled_photos(shards / "{008,010}.tar").labels == [labels[0], labels[2]]
    assert len(unlabelled_photos(shards)) == len(unlabelled_photos(shards / "{008..010}.tar")) == 3
    with pytest.raises(InputError, match=r"There is no .*011\.tar'"):
        labelled_photos(shards / "{010..011}.tar")


def test_patterns():
    assert expanded("a/{0..2}-{x,y}.tar") == [
        f"a/{number}-{letter}.tar" for number in range(3) for letter in "xy"
    ]
    assert expanded("{9..11}") == ["9", "10", "11"]
    assert expanded("{plain}.tar") == ["{plain}.tar"]
    with pytest.raises(InputError, match="stands for no names: write the smaller number first"):
        expanded("{3..1}.tar")
    with pytest.raises(InputError, match="stands for more than 100,000 names"):
        expanded("{0..999999999}{0..999999999}.tar")
