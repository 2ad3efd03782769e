"""HEIC photos: read, upright, if pillow-heif is there, and a hint if it is not."""

from __future__ import annotations

import io
import subprocess
import sys

import numpy as np
import pytest
from PIL import ExifTags, Image

from layup.errors import BadImageError
from layup.images import heic, open_image

pillow_heif = pytest.importorskip("pillow_heif")

PHOTO = np.zeros((40, 60, 3), np.uint8)
PHOTO[:20, :30] = [255, 0, 0]


def encoded(orientation: int, kind: str = "HEIF", **options) -> bytes:
    heic.can_read_heic()  # which teaches Pillow to write them, too
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = orientation
    file = io.BytesIO()
    Image.fromarray(PHOTO).save(file, kind, exif=exif.tobytes(), **options)
    return file.getvalue()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_are_upright_once(orientation):
    seen = open_image(encoded(orientation, quality=-1, chroma=444))
    upright = open_image(encoded(orientation, "PNG"))
    assert seen.size == upright.size == ((60, 40) if orientation < 5 else (40, 60))
    np.testing.assert_allclose(np.asarray(seen, float), np.asarray(upright, float), atol=2)
    np.testing.assert_array_equal(np.asarray(open_image(seen)), np.asarray(seen))


def test_what_a_file_is_called_does_not_matter(tmp_path):
    for name in ("1.heic", "1.jpg"):
        (tmp_path / name).write_bytes(encoded(1))
        assert open_image(tmp_path / name).size == (60, 40)


def test_half_a_photo_is_refused():
    whole = encoded(1)
    for length in (13, 30, len(whole) // 2, len(whole) - 10):
        with pytest.raises(BadImageError, match="Cannot use this bytes"):
            open_image(whole[:length])


def test_a_missing_package_is_named(monkeypatch):
    photo = encoded(1)
    monkeypatch.delitem(Image.OPEN, heic.HEIF)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(
        BadImageError, match=r"HEIC photo.*pip install 'layup-cl\[heic\]', or convert it to JPEG\."
    ):
        open_image(photo)


def test_the_package_is_loaded_only_for_heic_photos(tmp_path):
    (tmp_path / "1.heic").write_bytes(encoded(1))
    (tmp_path / "1.png").write_bytes(encoded(1, "PNG"))
    code = (
        "import sys; from layup.images import open_image\n"
        "for name in ('1.png', '1.heic'): open_image(name); print('pillow_heif' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.split() == ["False", "True"]


def test_avif_is_not_heic():
    if "AVIF" not in Image.SAVE:
        pytest.skip("this Pillow writes no AVIF")
    assert not heic.is_heic(encoded(1, "AVIF")[: heic.HEAD])
    assert heic.is_heic(encoded(1)[: heic.HEAD])
