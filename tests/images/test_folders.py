"""Photos are found wherever they are in a folder, each once; classes are what their folders are called."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from layup.errors import BadImageError, InputError
from layup.formats import has_controls, printable
from layup.images.decode import image_digest, open_image
from layup.images.folders import class_folders, find_images


def refused(source: Path, reason: str) -> None:
    """Refused by `open_image`, in a sentence with the path and the reason."""
    with pytest.raises(BadImageError) as caught:
        open_image(source)
    assert str(source) in str(caught.value)
    assert reason in str(caught.value)
    assert str(caught.value).endswith(".")


def touch(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()


def test_find_images(tmp_path):
    wanted = ["B.JPG", "a.png", "deep/er/1.webp", "deep/er/x.gif", "deep/z.tif", "notes.txt", "no suffix"]
    clutter = [".hidden.jpg", ".git/a.png", "Thumbs.db", "deep/desktop.ini", ".DS_Store", "__MACOSX/a.jpg"]
    touch(tmp_path, *wanted, *clutter)
    (tmp_path / "empty").mkdir()
    expected = sorted((tmp_path / name for name in wanted), key=lambda path: path.parts)
    assert find_images(tmp_path) == find_images(str(tmp_path)) == expected
    assert find_images(tmp_path / "empty") == []


def test_find_images_follows_links_but_not_in_circles(tmp_path):
    touch(tmp_path, "photos/1.jpg", "elsewhere/2.jpg")
    (tmp_path / "photos/more").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "photos/again").symlink_to(tmp_path / "photos")
    (tmp_path / "photos/broken.jpg").symlink_to(tmp_path / "gone")
    found = [str(path.relative_to(tmp_path / "photos")) for path in find_images(tmp_path / "photos")]
    assert found == ["1.jpg", "broken.jpg", "more/2.jpg"]


def names_below(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in find_images(folder)]


def test_links_that_lead_in_circles_are_listed_as_what_cannot_be_opened(tmp_path):
    touch(tmp_path, "1.jpg", "deep/2.jpg")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "deep/self").symlink_to("self")
    assert names_below(tmp_path) == ["1.jpg", "a", "b", "deep/2.jpg", "deep/self"]
    for path in ("a", "deep/self"):
        refused(tmp_path / path, "Too many levels of symbolic links")


def test_links_upwards_are_not_followed(tmp_path):
    touch(tmp_path, "photos/tabby/1.jpg", "photos/beagle/2.jpg")
    for target in (tmp_path, tmp_path / "photos", "..", ".", tmp_path / "photos/tabby"):
        up = tmp_path / "photos/tabby/up"
        up.symlink_to(target)
        assert names_below(tmp_path / "photos/tabby") == ["1.jpg"]
        assert names_below(tmp_path / "photos") == ["beagle/2.jpg", "tabby/1.jpg"]
        assert class_folders(tmp_path / "photos")[1] == ["beagle", "tabby"]
        up.unlink()
    for target in (tmp_path, tmp_path / "photos", "..", "."):
        up = tmp_path / "photos/up"
        up.symlink_to(target)
        assert class_folders(tmp_path / "photos")[1] == ["beagle", "tabby"]
        up.unlink()


def test_a_class_that_is_a_link_does_not_lead_back_to_the_others(tmp_path):
    touch(tmp_path, "store/tabby/1.jpg", "photos/beagle/2.jpg")
    (tmp_path / "photos/tabby").symlink_to(tmp_path / "store/tabby")
    (tmp_path / "store/tabby/back").symlink_to(tmp_path / "photos")
    paths, labels = class_folders(tmp_path / "photos")
    assert [path.name for path in paths] == ["2.jpg", "1.jpg"]
    assert labels == ["beagle", "tabby"]


def test_a_folder_is_read_once_however_many_links_lead_to_it(tmp_path):
    touch(tmp_path, "photos/z/1.jpg", "elsewhere/2.jpg", "elsewhere/in/3.jpg")
    for name in ("b", "c"):
        (tmp_path / "photos" / name).symlink_to(tmp_path / "elsewhere")
    (tmp_path / "photos/a").symlink_to("z")  # its own name goes before a link
    (tmp_path / "photos/d").symlink_to("b")
    (tmp_path / "photos/z/in").symlink_to(tmp_path / "elsewhere/in")
    assert names_below(tmp_path / "photos") == ["b/2.jpg", "b/in/3.jpg", "z/1.jpg"]
    (tmp_path / "link").symlink_to("photos")
    assert names_below(tmp_path / "link") == names_below(tmp_path / "photos")
    assert len(class_folders(tmp_path / "photos")[0]) == 10  # each class for itself


@pytest.fixture
def depths(tmp_path, monkeypatch):
    """Make so many folders of this name within each other, the first in photos/tabby; gives the deepest."""

    def made(name: str, levels: int) -> Path:
        (tmp_path / "photos/tabby").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / "photos/tabby")
        for _ in range(levels):
            os.mkdir(name)  # noqa: PTH102 (and chdir: a path of all names would be too long)
            os.chdir(name)
        Path("1.jpg").touch()
        return (tmp_path / "photos/tabby").joinpath(*[name] * levels, "1.jpg")

    yield made
    subprocess.run(["rm", "-r", tmp_path / "photos"], check=True)  # Python's way to remove them is recursive


def test_folders_within_folders_without_end(tmp_path, depths):
    photo = depths("d", 1200)
    assert find_images(tmp_path) == class_folders(tmp_path / "photos")[0] == [photo]


def test_folders_too_deep_for_a_path_are_listed_as_what_cannot_be_opened(tmp_path, depths):
    depths("d" * 250, 20)
    touch(tmp_path, "1.jpg")
    first, deepest = find_images(tmp_path)
    assert first == tmp_path / "1.jpg"
    refused(deepest, "File name too long")


def test_a_folder_that_cannot_be_read_is_listed_as_what_cannot_be_opened(tmp_path, monkeypatch):
    touch(tmp_path, "beagle/1.jpg", "beagle/secret/2.jpg", "tabby/3.jpg")
    closed = {str(tmp_path / "beagle/secret"), str(tmp_path / "tabby")}
    scandir = os.scandir

    def denied(path):  # root may read everything
        if str(path) in closed:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", denied)
    paths, labels = class_folders(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in paths] == ["beagle/1.jpg", "beagle/secret", "tabby"]
    assert labels == ["beagle", "beagle", "tabby"]
    for path in paths[1:]:
        refused(path, "cannot be read (Permission denied)")


@pytest.mark.parametrize("name", [b"caf\xe9", b"\x1b[2J", b"two\nlines", "\u202etabby".encode()])
def test_a_class_folder_whose_name_is_no_label_is_one_bad_entry(tmp_path, name):
    touch(tmp_path, "beagle/1.jpg", f"{os.fsdecode(name)}/2.jpg", f"{os.fsdecode(name)}/3.jpg")
    folder = tmp_path / os.fsdecode(name)
    paths, labels = class_folders(tmp_path)
    assert sorted(zip(labels, paths, strict=True)) == sorted(
        [("beagle", tmp_path / "beagle/1.jpg"), (printable(folder.name), folder)]
    )
    for use in (open_image, image_digest):
        with pytest.raises(BadImageError, match=r"folder's name.*cannot be a label.*Rename") as caught:
            use(folder)
        assert repr(str(folder)) in str(caught.value)
        assert not has_controls(str(caught.value))


def test_a_class_that_is_a_broken_link_is_one_bad_entry(tmp_path):
    touch(tmp_path, "beagle/1.jpg", "notes.txt")
    (tmp_path / "tabby").symlink_to(tmp_path / "not mounted")
    (tmp_path / "vole").symlink_to("vole")
    paths, labels = class_folders(tmp_path)
    assert labels == ["beagle", "tabby", "vole"]
    assert paths[1:] == [tmp_path / "tabby", tmp_path / "vole"]


def test_file_names_that_are_not_utf8(tmp_path):
    path = tmp_path / "tabby" / os.fsdecode(b"\xff\n.png")
    path.parent.mkdir()
    photo = np.arange(0, 192, 2, dtype=np.uint8).reshape(4, 8, 3)
    Image.fromarray(photo).save(path)
    assert class_folders(tmp_path) == ([path], ["tabby"])
    np.testing.assert_array_equal(np.asarray(open_image(path)), photo)


def test_class_folders(tmp_path):
    touch(
        tmp_path,
        "tabby/2.jpg",
        "tabby/1.jpg",
        "beagle/young/1.jpg",
        "beagle/0.png",
        "README.md",
        ".git/x/1.jpg",
    )
    (tmp_path / "empty").mkdir()
    paths, labels = class_folders(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in paths] == [
        "beagle/0.png",
        "beagle/young/1.jpg",
        "tabby/1.jpg",
        "tabby/2.jpg",
    ]
    assert labels == ["beagle", "beagle", "tabby", "tabby"]
    assert class_folders(str(tmp_path)) == (paths, labels)


def test_class_folders_that_cannot_be_used(tmp_path, monkeypatch):
    touch(tmp_path, "photos/1.jpg", "photos/2.jpg", "hollow/.keep")
    (tmp_path / "hollow/tabby").mkdir()
    (tmp_path / "bare").mkdir()
    for folder, reason in [
        (tmp_path / "photo", r"no folder '.*photo'\. Did you mean '.*photos'\?"),
        (tmp_path / "zebra", r"no folder '.*zebra'\.$"),
        (tmp_path / "no" / "photos", r"no folder '.*no/photos'\.$"),
        (tmp_path / "photos/1.jpg", "is a file"),
        (
            tmp_path / "photos",
            r"only 2 files directly.*Put each class in its own folder: PHOTOS/tabby/1\.jpg",
        ),
        (tmp_path / "bare", "nothing directly in it"),
        (tmp_path / "hollow", "all empty: tabby"),
    ]:
        with pytest.raises(InputError, match=reason):
            class_folders(folder)

    def denied(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", denied)
    with pytest.raises(InputError, match=r"photos' cannot be read \(Permission denied\)"):
        find_images(tmp_path / "photos")
    monkeypatch.setattr(Path, "is_dir", denied)
    with pytest.raises(InputError, match=r"photos' cannot be read \(Permission denied\)"):
        find_images(tmp_path / "photos")


def test_halves_of_a_dataset_are_not_classes(tmp_path):
    for half in ("test", "train"):
        for label in ("cat", "dog"):
            (tmp_path / half / label).mkdir(parents=True)
            (tmp_path / half / label / "1.png").touch()
    with pytest.raises(InputError, match=r"parts of a dataset \(test, train\).*Did you mean '.*train'\?"):
        class_folders(tmp_path)
    assert class_folders(tmp_path / "train")[1] == ["cat", "dog"]
    (tmp_path / "words").mkdir()
    for word in ("test", "train"):  # photos of trains
        (tmp_path / "words" / word).mkdir()
        (tmp_path / "words" / word / "1.png").touch()
    assert class_folders(tmp_path / "words")[1] == ["test", "train"]


def test_one_spelling_of_a_name_is_one_class(tmp_path):
    for folder in ("caf\u00e9", "cafe\u0301"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "1.png").touch()
    paths, labels = class_folders(tmp_path)
    assert len(paths) == 2
    assert labels == ["caf\u00e9"] * 2
