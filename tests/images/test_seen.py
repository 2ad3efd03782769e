"""Which files of photos are there, and for whom."""

from __future__ import annotations

import zipfile

import pytest

from layup.errors import InputError
from layup.images import missing_files, require_gone, unlabelled_photos


def test_files_that_are_not_there_are_named_also_of_archives(tmp_path):
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        archive.writestr("1.jpg", b"one")
        archive.writestr("2.jpg", b"two")
    members = unlabelled_photos(tmp_path / "photos.zip")
    assert missing_files([*members, b"contents"]) == frozenset()
    (tmp_path / "photos.zip").unlink()
    gone = missing_files([*members, str(tmp_path / "no.jpg"), tmp_path])
    assert gone == {str(tmp_path / "photos.zip"), str(tmp_path / "no.jpg")}


def test_files_that_only_another_machine_lacks_are_one_sentence(tmp_path):
    (tmp_path / "here.jpg").touch()
    require_gone(frozenset({str(tmp_path / "nowhere.jpg")}), "host")
    unseen = frozenset({str(tmp_path / name) for name in ("here.jpg", "nowhere.jpg")})
    with pytest.raises(InputError, match=r"'host' does not see 1 of .* such as '.*here\.jpg'"):
        require_gone(unseen, "host")
