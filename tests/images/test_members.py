"""Lists whose paths lead into archives."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

import pytest

from layup import LayUP
from layup.errors import BadImageError, InputError
from layup.images import image_digest, labelled_photos, manifest_text, members, open_image, unlabelled_photos
from layup.images.members import with_members
from layup.sharding import Plan, compute, union
from photos import write_photos


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return write_photos(tmp_path_factory.mktemp("photos"), {0: 3, 1: 2})


@pytest.fixture(params=["a.zip", "a.tar", "a.tar.gz"])
def archive(request, photos, tmp_path):
    path = tmp_path / request.param
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as packed:
            for file in sorted(photos.rglob("*.png")):
                packed.write(file, file.relative_to(photos))
    else:
        with tarfile.open(path, "w:gz" if path.suffix == ".gz" else "w") as tar:
            tar.add(photos, "")
    return path


def test_a_list_of_members_is_as_good_as_the_archive(archive, tmp_path):
    here = labelled_photos(archive)
    listed = tmp_path / "list.csv"
    listed.write_text(manifest_text(here.images, here.labels))
    assert f"{archive}/digit 0/000.png,digit 0\n" in listed.read_text()
    assert [*labelled_photos(listed)] == [*here]
    assert unlabelled_photos(listed) == here.images


def test_members_may_be_named_from_the_list_on(archive, photos, monkeypatch):
    monkeypatch.chdir(archive.parent)
    Path("list.csv").write_text(f"path,label\n{archive.name}/digit 1/000.png,1\n{photos}/digit 1/000.png,1\n")
    member, file = labelled_photos("list.csv").images
    assert file == f"{photos}/digit 1/000.png"
    assert image_digest(member) == image_digest(file)


def test_a_plan_of_an_archive_gives_its_model(archive, tmp_path):
    found = labelled_photos(archive)
    plan = Plan.write(tmp_path / "plan", found, LayUP("vit-nano", lam=1.0), 2)
    for number in range(len(plan.slices)):
        compute(plan, number)
    whole = LayUP("vit-nano", lam=1.0)
    whole.learn(found.images, found.labels)
    assert union(plan)[0].state_hash == whole.state_hash


def test_each_archive_is_listed_once(archive, monkeypatch):
    images = list(map(str, labelled_photos(archive).images))
    listed = []
    list_archive = members.list_archive
    monkeypatch.setattr(members, "list_archive", lambda path: listed.append(path) or list_archive(path))
    assert [*map(str, with_members(["1.jpg", *images]))] == ["1.jpg", *images]
    assert listed == [archive]


def test_what_is_not_in_an_archive_is_a_bad_photo(archive):
    (image,) = with_members([f"{archive}/none.png"])
    with pytest.raises(BadImageError, match=r"none.png': the archive has no such file\."):
        open_image(image)


def test_a_damaged_archive_is_an_error(tmp_path):
    (tmp_path / "a.tar").write_bytes(b"x" * 2000)
    with pytest.raises(InputError, match=r"The archive '.*a.tar' cannot be read"):
        with_members([f"{tmp_path}/a.tar/1.jpg"])


def test_a_folder_may_be_named_as_an_archive(photos, tmp_path):
    (tmp_path / "a.tar").symlink_to(photos)
    path = f"{tmp_path}/a.tar/digit 0/000.png"
    assert with_members([path]) == [path]


def test_a_photo_without_a_readable_label_stays_bad_in_a_list(photos, tmp_path):
    photo = photos / "digit 0" / "000.png"
    with tarfile.open(tmp_path / "s.tar", "w") as tar:
        for name in ("1.png", "1.cls", "2.png"):
            tar.add(photo, name) if name.endswith("png") else tar.add(__file__, name)
        link = tarfile.TarInfo("2.cls")
        link.type, link.linkname = tarfile.SYMTYPE, "1.cls"
        tar.addfile(link)
    with tarfile.open(tmp_path / "s.tar", "a") as tar:
        label = tmp_path / "label"
        label.write_text("tabby")
        tar.add(photo, "3.png")
        tar.add(label, "3.cls")
    found = labelled_photos(tmp_path / "s.tar")
    listed = tmp_path / "list.csv"
    listed.write_text(manifest_text(found.images, found.labels))
    read = dict(zip(map(str, labelled_photos(listed).images), found.labels, strict=True))
    assert read == {f"{tmp_path}/s.tar/2.cls": "unknown", f"{tmp_path}/s.tar/3.png": "tabby"}
    with pytest.raises(BadImageError):
        open_image(labelled_photos(listed).images[0])


def test_names_that_a_list_cannot_have_are_refused(tmp_path, photos):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(photos / "digit 0" / "000.png", "cat\\1.png/1.png")
    with pytest.raises(InputError, match="cannot be listed: its name has odd characters"):
        manifest_text(unlabelled_photos(tmp_path / "a.tar"), ["cat"])
    with pytest.raises(InputError, match="cannot be listed: it is not in a file"):
        manifest_text([b"photo"], ["cat"])
