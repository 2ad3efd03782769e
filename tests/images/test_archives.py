"""Photos in archives are those of the same folder, and no archive does anything but fail with a sentence."""

from __future__ import annotations

import io
import os
import pickle
import random
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from layup.errors import BadImageError, InputError
from layup.features import cache
from layup.features.digests import digests_of
from layup.features.reader import read_ahead, survey, worker_count
from layup.images import archives, image_digest, labelled_photos, open_image, unlabelled_photos
from layup.images.archives import list_archive
from layup.images.folders import class_folders
from photos import crops, write_photos

KINDS = ["zip", "tar", "tar.gz", "tgz", "tar.bz2", "tar.xz"]


def packed(folder: Path, archive: Path, top: str = "") -> Path:
    """All of a folder, as people pack it: with its folders, and perhaps with another one around."""
    paths = sorted(folder.rglob("*"))
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path in paths:
                file.write(path, Path(top) / path.relative_to(folder))
    else:
        end = archive.name.rpartition(".")[2].replace("tgz", "gz")
        with tarfile.open(archive, "w" if end == "tar" else f"w:{end}") as tar:
            for path in reversed(paths):  # the order of an archive does not matter
                tar.add(path, Path(top) / path.relative_to(folder), recursive=False)
    return archive


def zipped(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, contents in members.items():
            file.writestr(name, contents)
    return path


def tarred(path: Path, members: list[tuple[tarfile.TarInfo, bytes]], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as tar:
        for info, contents in members:
            info.size = len(contents)
            tar.addfile(info, io.BytesIO(contents))
    return path


def png() -> bytes:
    file = io.BytesIO()
    Image.fromarray(crops(1)[0]).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def photos(tmp_path):
    return write_photos(tmp_path / "photos", {0: 3, 1: 2})


@pytest.mark.parametrize("top", ["", "my photos"])
@pytest.mark.parametrize("kind", KINDS)
def test_an_archive_is_as_good_as_the_folder(photos, tmp_path, kind, top):
    (photos / "digit 1" / "deeper").mkdir()
    (photos / "digit 1" / "000.png").rename(photos / "digit 1" / "deeper" / "000.png")
    (photos / "__MACOSX").mkdir()
    for clutter in ("__MACOSX/._1.jpg", ".DS_Store", "digit 0/Thumbs.db", "digit 0/.hidden.png"):
        (photos / clutter).write_bytes(b"clutter")
    archive = packed(photos, tmp_path / f"a.{kind}", top)
    paths, labels = class_folders(photos)
    found = labelled_photos(archive)
    assert found.labels == labels == ["digit 0"] * 3 + ["digit 1"] * 2
    inside = [str(archive / top / path.relative_to(photos)) for path in paths]
    assert [str(image) for image in found.images] == inside
    assert [image_digest(image) for image in found.images] == [image_digest(path) for path in paths]
    assert [open_image(image).tobytes() for image in found.images] == [
        open_image(path).tobytes() for path in paths
    ]
    assert found.remarks == []
    assert [str(image) for image in unlabelled_photos(archive)] == inside


@pytest.mark.parametrize("kind", KINDS)
def test_members_travel_to_other_processes(photos, tmp_path, kind):
    images = labelled_photos(packed(photos, tmp_path / f"a.{kind}")).images
    expected = [image_digest(image) for image in images]
    assert [image_digest(image) for image in pickle.loads(pickle.dumps(images))] == expected
    made = list(read_ahead(images, _Digests(images), [[0, 1], [2], [3, 4]], workers=2))
    assert [digest for part in made for digest in part] == expected
    assert worker_count(list(images) * 100) == min(4, os.cpu_count() or 1)


class _Digests:
    def __init__(self, images):
        self.images = images

    def __call__(self, indices):
        return [image_digest(self.images[index]) for index in indices]


def test_a_path_may_go_on_inside_an_archive(tmp_path):
    write_photos(tmp_path / "data" / "train", {0: 2, 1: 1})
    write_photos(tmp_path / "data" / "test", {0: 1})
    archive = packed(tmp_path / "data", tmp_path / "a.zip", "data")
    with pytest.raises(
        InputError, match=r"a.zip/data' holds the parts of a dataset \(test, train\), not classes"
    ):
        labelled_photos(archive)
    assert labelled_photos(archive / "data" / "train").labels == ["digit 0", "digit 0", "digit 1"]
    assert len(unlabelled_photos(archive / "data" / "train" / "digit 0")) == 2
    (one,) = unlabelled_photos(archive / "data" / "train" / "digit 0" / "001.png")
    assert image_digest(one) == image_digest(tmp_path / "data" / "train" / "digit 0" / "001.png")
    with pytest.raises(InputError, match=r"has no photos in 'data/nothing'. Names in it begin: data\."):
        labelled_photos(archive / "data" / "nothing")


def test_what_lies_beside_the_classes_is_mentioned(photos, tmp_path):
    (photos / "digit 7").mkdir()
    for name in ("a.jpg", "B.HEIC", "readme.txt"):
        (photos / name).write_bytes(b"loose")
    for source in (photos, packed(photos, tmp_path / "a.tar")):
        found = labelled_photos(source)
        assert len(found.labels) == 5
        assert found.remarks == [
            f"Left out: 2 photos beside the class folders in {str(source)!r}: B.HEIC, a.jpg.",
            f"Without photos: 1 class folder in {str(source)!r}: digit 7.",
        ]


def test_archives_without_classes_are_refused(tmp_path):
    flat = zipped(tmp_path / "flat.zip", {"1.png": png(), "2.png": png()})
    with pytest.raises(InputError, match="has no class folders, only 2 files directly in it"):
        labelled_photos(flat)
    assert len(unlabelled_photos(flat)) == 2
    with pytest.raises(InputError, match="has no class folders, nothing directly in it"):
        labelled_photos(zipped(tmp_path / "empty.zip", {}))
    with pytest.raises(InputError, match=r"class folders in .* are all empty: tabby"):
        labelled_photos(zipped(tmp_path / "none.zip", {"tabby/": b""}))


def test_names_are_only_text(tmp_path):
    """A name that leads elsewhere is reported, and nothing is written anywhere."""
    names = [
        "../../evil/1.png",
        "/etc/2.png",
        "tabby\\3.png",
        "./tabby/4.png",
        "a\nb/5.png",
        "tabby/../6.png",
    ]
    archive = zipped(tmp_path / "a.zip", dict.fromkeys(names, png()))
    before = sorted(tmp_path.rglob("*"))
    found = labelled_photos(archive)
    assert found.labels == ["a\\nb", "etc", "evil", "tabby", "tabby", "tabby"]
    usable = {str(found.images[index]) for index in survey(found.images, progress=False).kept}
    assert usable == {f"{archive}/{name}" for name in ("etc/2.png", "tabby/3.png", "tabby/4.png")}
    for image, words in zip(
        (found.images[0], found.images[2]), ("cannot be a label", "leads out of the archive"), strict=True
    ):
        with pytest.raises(BadImageError, match=words):
            open_image(image)
    assert sorted(tmp_path.rglob("*")) == before


def test_of_two_members_with_one_name_the_second_counts(tmp_path):
    """As when unpacking: `tar --append` replaces so."""
    old, new = (tarfile.TarInfo("tabby/1.png") for _ in range(2))
    archive = tarred(tmp_path / "a.tar", [(old, b"old"), (new, png())])
    (image,) = labelled_photos(archive).images
    assert image_digest(image) == image_digest(png())


def bad(image, words):
    """Refused by name, in a sentence."""
    for use in (open_image, image_digest):
        with pytest.raises(BadImageError, match=words) as caught:
            use(image)
        assert repr(str(image)) in str(caught.value)


def test_links_and_devices_in_a_tar_are_bad_images(tmp_path):
    secret = tmp_path / "secret.png"
    secret.write_bytes(png())
    members = []
    for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE):
        info = tarfile.TarInfo(f"tabby/{kind.decode()}.png")
        info.type, info.linkname = kind, str(secret)
        members.append((info, b""))
    first, second, device, pipe = labelled_photos(tarred(tmp_path / "a.tar", members)).images
    bad(first, "it is a link")
    bad(second, "it is a link")
    bad(device, "it is a device or a pipe")
    bad(pipe, "it is a device or a pipe")


def test_odd_members_of_a_zip_are_bad_images(tmp_path):
    link = zipfile.ZipInfo("tabby/link.png")
    link.external_attr = 0o120777 << 16
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(link, "/etc/passwd")
        file.writestr("tabby/bzip2.png", png(), zipfile.ZIP_BZIP2)
        file.writestr("tabby/secret.png", png())
        file.writestr("tabby/empty.png", b"")
    contents = bytearray(archive.read_bytes())
    directory = contents.rindex(b"PK\1\2", 0, contents.rindex(b"tabby/secret.png"))
    contents[directory + 8] |= 1  # what only a password opens
    archive.write_bytes(contents)
    packed_oddly, empty, linked, secret = labelled_photos(archive).images
    bad(packed_oddly, "compressed in an unusual way")
    bad(empty, "it is empty")
    bad(linked, "it is a link")
    bad(secret, "it is encrypted")


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_member_of_a_zip_is_a_bad_image(tmp_path, method):
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", method) as file:
        file.writestr("tabby/1.png", png())
        file.writestr("tabby/2.png", png())
    contents = bytearray(archive.read_bytes())
    contents[400] ^= 255
    archive.write_bytes(contents)
    first, second = labelled_photos(archive).images
    bad(first, "it is damaged")
    assert open_image(second).size == (48, 48)


def test_bombs_stay_small(tmp_path, monkeypatch):
    """What says that it is large is not unpacked, and what is larger than it says is not unpacked further."""
    monkeypatch.setattr(archives, "LARGEST", 1_000_000)
    archive = tmp_path / "a.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("tabby/large.png", bytes(50_000_000))
        file.writestr("tabby/liar.png", bytes(50_000_000))
    contents = bytearray(archive.read_bytes())
    directory = contents.rindex(b"PK\1\2")
    contents[directory + 24 : directory + 28] = struct.pack("<I", 10)
    archive.write_bytes(contents)
    large, liar = labelled_photos(archive).images
    bad(large, "it has 50.0 MB, and no photo needs more than 1.0 MB")
    bad(liar, "it is damaged: its contents are not what the archive says")
    tar = tarred(tmp_path / "a.tar", [(tarfile.TarInfo("tabby/large.png"), bytes(2_000_000))])
    (member,) = labelled_photos(tar).images
    bad(member, "no photo needs more than")
    (tmp_path / "a.tar.gz").write_bytes(zlib_gzip(bytes(200_000_000)))
    with pytest.raises(InputError, match=r"it unpacks to more than .* which is not what photos do"):
        labelled_photos(tmp_path / "a.tar.gz")


def zlib_gzip(contents: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(contents) + packer.flush()


def test_an_archive_that_changes_is_noticed(photos, tmp_path):
    archive = packed(photos, tmp_path / "a.tar")
    (image, *_) = labelled_photos(archive).images
    archive.write_bytes(archive.read_bytes() + bytes(10240))
    bad(image, "the archive has changed since it was listed")
    again, *_ = labelled_photos(archive).images
    assert open_image(again).size == (8, 8)
    archives._opened.cache_clear()
    archive.unlink()
    bad(again, "it cannot be read .*No such file")


@pytest.mark.parametrize("kind", KINDS)
def test_half_an_archive_is_refused(photos, tmp_path, kind):
    """Not learned by half: a download that broke off."""
    whole = packed(photos, tmp_path / f"a.{kind}").read_bytes()
    half = tmp_path / f"half.{kind}"
    half.write_bytes(whole[: len(whole) // 2 + 100])
    with pytest.raises(InputError, match=f"The archive .*half.{kind}' cannot be read: .*Make it again"):
        labelled_photos(half)
    half.write_bytes(b"")
    with pytest.raises(InputError, match=f"The archive .*half.{kind}' cannot be read: .*Make it again"):
        labelled_photos(half)


def test_a_tar_that_is_damaged_in_the_middle_is_refused(tmp_path):
    members = [(tarfile.TarInfo(f"tabby/{number}.png"), png()) for number in range(3)]
    archive = tarred(tmp_path / "a.tar", members)
    contents = bytearray(archive.read_bytes())
    last = contents.rindex(b"ustar")
    contents[last - 200] ^= 255
    archive.write_bytes(contents)
    with pytest.raises(InputError, match=r"it is damaged .* after its beginning"):
        labelled_photos(archive)


def test_a_tar_that_leads_backwards_ends(tmp_path):
    """A negative size would be read without end."""
    info = tarfile.TarInfo("tabby/1.png")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 10 + b"\xfc\x00"  # −1024
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    (tmp_path / "a.tar").write_bytes(bytes(1024).replace(b"\0", b"x") + bytes(header) + bytes(2048))
    (tmp_path / "b.tar").write_bytes(bytes(header) * 4 + bytes(2048))
    for name in ("a.tar", "b.tar"):
        with pytest.raises(InputError, match="cannot be read"):
            labelled_photos(tmp_path / name)


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz"])
def test_no_damage_does_more_than_fail_with_a_sentence(photos, tmp_path, kind):
    whole = packed(photos, tmp_path / f"a.{kind}").read_bytes()
    choose = random.Random(kind)
    damaged = tmp_path / f"damaged.{kind}"
    outcomes = set()
    for _ in range(150):
        contents = bytearray(whole)
        for _ in range(choose.choice((1, 3, 30))):
            contents[choose.randrange(len(contents))] = choose.choice((0, 1, 127, 128, 255))
        damaged.write_bytes(contents[: choose.choice((len(contents), choose.randrange(len(contents))))])
        try:
            images = labelled_photos(damaged).images
        except InputError:
            outcomes.add("refused")
        else:
            outcomes.add("bad" if survey(images, progress=False).bad else "read")
        archives._opened.cache_clear()
        archives._decompressed.cache_clear()
    assert "refused" in outcomes


def test_archives_of_other_kinds_are_refused(tmp_path):
    (tmp_path / "a.rar").write_bytes(b"Rar!")
    with pytest.raises(InputError, match=r"a.rar' is a file, but must hold photos and their labels\. Give"):
        labelled_photos(tmp_path / "a.rar")


def test_addresses_are_refused():
    for address in ("https://host/photos.zip", "s3://bucket/photos", "hf://datasets/cats/data"):
        for use in (labelled_photos, unlabelled_photos):
            for source in (address, Path(address)):
                with pytest.raises(InputError) as caught:
                    use(source)
                assert str(caught.value).startswith(f"{address!r} is an address. Nothing is fetched")


def test_a_local_folder_may_look_like_an_address(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_photos(Path("s3:") / "photos", {0: 1})
    assert labelled_photos("s3:/photos").labels == ["digit 0"]


def test_a_batch_of_members_is_read_in_any_order(photos, tmp_path):
    images = list(labelled_photos(packed(photos, tmp_path / "a.tar")).images)
    pixels = [np.asarray(open_image(image)) for image in images]
    for image, expected in reversed(list(zip(images, pixels, strict=True))):
        np.testing.assert_array_equal(np.asarray(open_image(image)), expected)


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_an_archive_that_has_not_changed_is_not_read_again(photos, tmp_path, kind, monkeypatch):
    monkeypatch.setattr(cache, "SECONDS_TO_SETTLE", -1)
    images = labelled_photos(packed(photos, tmp_path / f"a.{kind}")).images
    expected = [image_digest(image) for image in images]
    reading = {"cache": cache.FeatureCache(tmp_path / "cache"), "progress": False}
    assert digests_of(images, reading) == expected
    monkeypatch.setattr("layup.features.digests.image_digest", lambda _: pytest.fail("it was read"))
    assert digests_of(images, reading) == expected


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_compressed_tar_that_was_replaced_is_not_read(tmp_path, mode):
    """Its members would be those of another archive."""

    def write(path, mode, inside):
        with tarfile.open(path, mode) as tar:
            member = tarfile.TarInfo(inside)
            member.size = 100
            tar.addfile(member, io.BytesIO(inside.encode() * 20))

    write(tmp_path / "t.tar.gz", "w:gz", "a/1.jpg")
    (member,) = list_archive(tmp_path / "t.tar.gz").members
    write(tmp_path / "new", mode, "b/9.jpg")
    (tmp_path / "new").replace(tmp_path / "t.tar.gz")
    archives._decompressed.cache_clear()
    with pytest.raises(BadImageError, match="the archive has changed since it was listed"):
        member.contents()
