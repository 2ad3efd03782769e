"""Every odd or broken image is made here, and compared with the pixels it was made of."""

from __future__ import annotations

import gzip
import hashlib
import io
import lzma
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from PIL import Image, features

from layup.errors import BadImageError
from layup.images.decode import image_digest, open_image

RNG = np.random.default_rng(0)
PHOTO = RNG.integers(0, 256, (24, 32, 3), np.uint8)


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def smooth(height: int = 40, width: int = 60) -> Image.Image:
    """A gradient, which survives lossy compression."""
    rows, columns = np.mgrid[0:height, 0:width]
    return Image.fromarray(
        np.stack([rows * 255 // height, columns * 255 // width, (rows + columns) % 256], 2).astype(np.uint8)
    )


def pixels(source: object) -> np.ndarray:
    image = open_image(source)
    assert image.mode == "RGB"
    assert type(image) is Image.Image
    return np.asarray(image)


def saved(folder: Path, image: Image.Image, name: str, **options: object) -> Path:
    path = folder / name
    image.save(path, **options)
    return path


def orientation_tag(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def by_pillow(path: Path) -> Image.Image:
    """What Pillow alone makes of a file, without keeping it open."""
    return Image.open(io.BytesIO(path.read_bytes()))


# Kinds of files


@pytest.mark.parametrize("suffix", ["png", "bmp", "tif", "ppm", "webp", "ico"])
def test_lossless_files_come_back_as_they_were(tmp_path, suffix):
    options = {"webp": {"lossless": True}, "ico": {"sizes": [(32, 24)], "bitmap_format": "png"}}.get(
        suffix, {}
    )
    path = saved(tmp_path, Image.fromarray(PHOTO), f"photo.{suffix}", **options)
    np.testing.assert_array_equal(pixels(path), PHOTO)
    np.testing.assert_array_equal(pixels(str(path)), PHOTO)


@pytest.mark.parametrize("suffix", ["jpg", "jfif", "webp", "avif"])
def test_lossy_files_come_back_nearly(tmp_path, suffix):
    if suffix == "avif" and not features.check("avif"):
        pytest.skip("this Pillow reads no AVIF")
    path = saved(tmp_path, smooth(), f"photo.{suffix}", quality=95)
    np.testing.assert_allclose(pixels(path).astype(int), np.asarray(smooth()), atol=40)


def test_the_suffix_does_not_matter(tmp_path):
    path = tmp_path / "photo.txt"
    path.write_bytes(encoded(Image.fromarray(PHOTO), "PNG"))
    np.testing.assert_array_equal(pixels(path), PHOTO)


def test_cmyk_jpeg(tmp_path):
    # Ink of 255 − v in each of C, M, Y and none in K is the colour v.
    colour = np.full((16, 16, 3), (200, 100, 50), np.uint8)
    ink = np.dstack([255 - colour, np.zeros((16, 16), np.uint8)])
    path = saved(tmp_path, Image.fromarray(ink, "CMYK"), "print.jpg", quality=100, subsampling=0)
    assert by_pillow(path).mode == "CMYK"
    np.testing.assert_allclose(pixels(path).astype(int), colour, atol=3)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bits_are_scaled_and_not_clipped(tmp_path, suffix):
    values = np.array([[0, 128, 129, 257], [32767, 32768, 65278, 65535]], np.uint16)
    path = saved(tmp_path, Image.fromarray(values), f"deep.{suffix}")
    expected = np.round(values / 65535 * 255)
    np.testing.assert_array_equal(expected, [[0, 0, 1, 1], [127, 128, 254, 255]])
    for channel in np.moveaxis(pixels(path), 2, 0):
        np.testing.assert_array_equal(channel, expected)


def test_every_16_bit_value_goes_to_the_nearest():
    values = np.arange(65536, dtype=np.uint16).reshape(256, 256)
    np.testing.assert_array_equal(pixels(values)[..., 0], np.round(values / 257.0))


@pytest.mark.parametrize("mode", ["I;16", "I;16B", "I"])
def test_16_bit_modes_of_pillow(mode):
    values = np.array([[0, 1000], [30000, 65535]], {"I;16": "<u2", "I;16B": ">u2", "I": "<i4"}[mode])
    image = Image.frombytes(mode, (2, 2), values.tobytes())
    np.testing.assert_array_equal(pixels(image)[..., 1], np.round(values / 257.0))


@pytest.mark.parametrize("outside", [-1, 65536])
def test_more_than_16_bits_are_refused(outside):
    image = Image.fromarray(np.array([[0, outside]], np.int32))
    with pytest.raises(BadImageError, match=rf"{outside}.* 0 to 65535"):
        open_image(image)


def test_float_files(tmp_path):
    path = saved(tmp_path, Image.fromarray(np.array([[0, 0.5, 1]], np.float32)), "float.tif")
    np.testing.assert_array_equal(pixels(path)[0, :, 0], [0, 128, 255])
    path = saved(tmp_path, Image.fromarray(np.array([[0, 200]], np.float32)), "float.tif")
    with pytest.raises(BadImageError, match=r"float\.tif.* from 0 to 200"):
        open_image(path)


def test_palette_with_transparency_is_its_colours(tmp_path):
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 200, 100, 50])
    image.putpixel((1, 0), 1)
    path = saved(tmp_path, image, "palette.png", transparency=bytes([0, 128]))
    assert isinstance(by_pillow(path).info["transparency"], bytes)
    np.testing.assert_array_equal(pixels(path), [[[10, 20, 30], [200, 100, 50]]])


def test_two_levels_and_alpha(tmp_path):
    bits = np.array([[True, False, True]])
    np.testing.assert_array_equal(
        pixels(saved(tmp_path, Image.fromarray(bits), "bits.png"))[..., 0], bits * 255
    )
    grey = Image.merge("LA", [Image.new("L", (1, 1), 77), Image.new("L", (1, 1), 9)])
    np.testing.assert_array_equal(pixels(saved(tmp_path, grey, "grey.png")), [[[77, 77, 77]]])
    colour = Image.new("RGBA", (1, 1), (1, 2, 3, 0))
    np.testing.assert_array_equal(pixels(saved(tmp_path, colour, "alpha.png")), [[[1, 2, 3]]])


@pytest.mark.parametrize(
    "mode", ["1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "HSV", "I", "F"]
)
def test_every_mode_of_pillow(mode):
    assert pixels(Image.new(mode, (3, 2))).shape == (2, 3, 3)


def test_a_mode_that_pillow_cannot_convert():
    with pytest.raises(BadImageError, match=r"mode La.*unusual"):
        open_image(Image.new("La", (3, 2)))


@pytest.mark.parametrize("suffix", ["gif", "png", "webp", "tif"])
def test_an_animation_is_its_first_frame(tmp_path, suffix):
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    options = {"webp": {"lossless": True}}.get(suffix, {})
    path = saved(tmp_path, frames[0], f"moving.{suffix}", save_all=True, append_images=frames[1:], **options)
    assert by_pillow(path).n_frames == 3
    assert (pixels(path) == (255, 0, 0)).all()


def upright_quadrants() -> np.ndarray:
    """Four colours, so that each of the eight orientations looks different; not square."""
    red, lime, blue, white = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
    return np.array([[red, lime], [blue, white]], np.uint8).repeat(16, 0).repeat(32, 1)


# What a camera stores for an upright scene, by the orientation it writes: the EXIF standard's own words say
# where the stored first row and first column belong in the scene.
STORED = {
    1: lambda scene: scene,
    2: lambda scene: scene[:, ::-1],
    3: lambda scene: scene[::-1, ::-1],
    4: lambda scene: scene[::-1],
    5: lambda scene: scene.swapaxes(0, 1),
    6: lambda scene: np.rot90(scene, 1),
    7: lambda scene: scene[::-1, ::-1].swapaxes(0, 1),
    8: lambda scene: np.rot90(scene, -1),
}


@pytest.mark.parametrize("orientation", STORED)
@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_photos_are_put_upright(tmp_path, orientation, suffix):
    scene = upright_quadrants()
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](scene)))
    options = {"jpg": {"quality": 95}, "webp": {"lossless": True}}.get(suffix, {})
    path = saved(tmp_path, stored, f"turned.{suffix}", exif=orientation_tag(orientation), **options)
    upright = pixels(path)
    assert upright.shape == scene.shape
    for row, column in [(4, 4), (4, -5), (-5, 4), (-5, -5)]:
        np.testing.assert_allclose(upright[row, column].astype(int), scene[row, column], atol=4)
    with Image.open(path) as lazy:
        np.testing.assert_array_equal(pixels(lazy), upright)
    np.testing.assert_array_equal(pixels(open_image(path)), upright)  # not turned twice


@pytest.mark.parametrize(
    "exif", [b"Exif\0\0rubbish", b"Exif\0\0MM\0*\0\0\0\x08\xff\xff", b"Exif\0\0II*\0\xff\xff\xff\xff"]
)
def test_broken_exif_is_no_reason_to_refuse(tmp_path, exif):
    path = saved(tmp_path, smooth(), "exif.jpg", exif=exif)
    assert pixels(path).shape == (40, 60, 3)


def test_one_pixel(tmp_path):
    path = saved(tmp_path, Image.new("RGB", (1, 1), (1, 2, 3)), "pixel.png")
    np.testing.assert_array_equal(pixels(path), [[[1, 2, 3]]])


def test_the_image_is_a_new_one():
    original = Image.fromarray(PHOTO)
    open_image(original).putpixel((0, 0), (0, 0, 0))
    np.testing.assert_array_equal(np.asarray(original), PHOTO)
    assert original.info == {}


# Bad files


def refused(source: object, reason: str) -> None:
    """Refused by `open_image`, in a sentence with the path and the reason."""
    with pytest.raises(BadImageError) as caught:
        open_image(source)
    assert str(source) in str(caught.value)
    assert reason in str(caught.value)
    assert str(caught.value).endswith(".")


def test_files_that_cannot_be_read(tmp_path):
    empty = tmp_path / "empty.jpg"
    empty.touch()
    broken_link = tmp_path / "link.jpg"
    broken_link.symlink_to(tmp_path / "gone.jpg")
    circle = tmp_path / "circle.jpg"
    circle.symlink_to(circle)
    pipe = tmp_path / "pipe.jpg"
    os.mkfifo(pipe)
    for path, reason in [
        (tmp_path / "missing.jpg", "no such file"),
        (broken_link, "no such file"),
        (tmp_path, "is a folder"),
        (empty, "0 bytes"),
        (pipe, "not a regular file"),
        (circle, "cannot be read"),
        (empty / "below.jpg", "cannot be read"),
        (tmp_path / ("long" * 200), "cannot be read"),
    ]:
        refused(path, reason)
        with pytest.raises(BadImageError, match=reason.replace("(", "")):
            image_digest(path)
    with pytest.raises(BadImageError, match="cannot be a file's name"):
        open_image("null\0.jpg")


def test_no_permission(tmp_path, monkeypatch):
    path = saved(tmp_path, smooth(), "secret.png")

    def denied(*_):  # root may read everything
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    refused(path, "no permission")


def test_an_error_of_the_disk(tmp_path, monkeypatch):
    path = saved(tmp_path, smooth(), "disk.png")

    def fail(*_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(hashlib, "file_digest", fail)
    with pytest.raises(BadImageError, match=r"disk\.png.*Input/output error"):
        image_digest(path)


@pytest.mark.parametrize(
    "content",
    [b"notes on cats", b"\0" * 100, b"%PDF-1.4", encoded(smooth(), "JPEG2000"), b"%!PS-Adobe-3.0 EPSF-3.0\n"],
)
def test_not_an_image(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    refused(path, "not an image")


def opened_or_refused(content: bytes, path: Path) -> Image.Image | None:
    path.write_bytes(content)
    try:
        return open_image(path)
    except BadImageError as error:
        assert str(path) in str(error)  # noqa: PT017 (either outcome is right)
        return None


ENCODED = {
    "jpeg": encoded(smooth(), "JPEG", exif=orientation_tag(1)),
    "progressive": encoded(smooth(), "JPEG", progressive=True),
    "png": encoded(smooth(), "PNG"),
    "palette": encoded(smooth().quantize(), "PNG", transparency=b"\0\1"),
    "gif": encoded(smooth(), "GIF"),
    "bmp": encoded(smooth(9, 9), "BMP"),
    "webp": encoded(smooth(), "WEBP"),
    "tiff": encoded(smooth(9, 9), "TIFF"),
    "packed tiff": encoded(smooth(), "TIFF", compression="tiff_lzw"),
    "ppm": encoded(smooth(9, 9), "PPM"),
    "ico": encoded(smooth(), "ICO"),
}


@pytest.mark.parametrize("kind", ENCODED)
def test_truncated_files(tmp_path, kind):
    whole = ENCODED[kind]
    intact = open_image(Image.open(io.BytesIO(whole))).tobytes()
    lengths = sorted({*range(1, 40), *range(40, len(whole), max(1, len(whole) // 80)), len(whole) - 1})
    for length in lengths:
        image = opened_or_refused(whole[:length], tmp_path / "cut")
        # Only what comes after the pixels may be missing.
        assert image is None or image.tobytes() == intact, length
    assert opened_or_refused(whole[: len(whole) // 2], tmp_path / "cut") is None


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(list(ENCODED)),
    changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), min_size=1, max_size=8),
)
def test_flipped_bytes(tmp_path, kind, changes):
    content = bytearray(ENCODED[kind])
    for where, value in changes:
        content[int(where * len(content))] = value
    opened_or_refused(bytes(content), tmp_path / "flipped")


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(magic=st.sampled_from([whole[:12] for whole in ENCODED.values()] + [b""]), rest=st.binary(min_size=1))
def test_random_bytes(tmp_path, magic, rest):
    opened_or_refused(magic + rest, tmp_path / "random")


def declared_png(width: int, height: int) -> bytes:
    """A few bytes that claim to be a huge picture."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(bytes(99)))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [10_000, 14_000, 60_000])  # Pillow warns, Pillow refuses, Pillow refuses
def test_decompression_bombs(tmp_path, side):
    limit = Image.MAX_IMAGE_PIXELS
    for content in (
        declared_png(side, side),
        b"GIF89a" + struct.pack("<HH", side, side) + ENCODED["gif"][10:],
    ):
        path = tmp_path / "bomb"
        path.write_bytes(content)
        refused(path, f"more than {limit:,} pixels")
    assert limit == Image.MAX_IMAGE_PIXELS


def test_no_warning_leaks_and_filters_are_restored(tmp_path):
    image = smooth().quantize()
    loud = saved(tmp_path, image, "palette.png", transparency=bytes(10))
    bomb = tmp_path / "bomb.png"
    bomb.write_bytes(declared_png(10_000, 10_000))

    def visit(turn: int) -> None:
        if turn % 2:
            open_image(loud)
        else:
            refused(bomb, "more than")

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(visit, range(60)))
        assert warnings.filters == before
        assert not caught
        with pytest.warns(UserWarning, match="Transparency"):
            by_pillow(loud).convert("RGB")


def test_lazily_opened_images_that_are_broken(tmp_path):
    path = tmp_path / "cut.jpg"
    path.write_bytes(ENCODED["jpeg"][:-200])
    with Image.open(path) as lazy, pytest.raises(BadImageError, match=r"cut\.jpg.*truncated"):
        open_image(lazy)
    with pytest.raises(BadImageError, match=r"cut\.jpg"):
        open_image(lazy)  # closed by now


# Arrays and tensors


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, ">u2", np.float16, np.float32, np.float64, bool])
@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1), (4, 5, 3), (4, 5, 4), (1, 1), (3, 3, 3)])
def test_arrays(dtype, shape):
    whole = {"b": 1, "f": 1, "u": np.iinfo(dtype).max if np.dtype(dtype).kind == "u" else 1}[
        np.dtype(dtype).kind
    ]
    values = (RNG.random(shape) * (whole + (np.dtype(dtype).kind != "f"))).astype(dtype)
    picture = pixels(values)
    for row, column, channel in np.ndindex(picture.shape):
        index = (row, column, channel)[: values.ndim] if shape[2:] != (1,) else (row, column, 0)
        assert picture[row, column, channel] == round(float(values[index]) / whole * 255)


def test_arrays_of_any_layout():
    picture = RNG.integers(0, 256, (6, 8, 3), np.uint8)
    for view in (
        picture[::-1, ::2],
        np.asfortranarray(picture),
        picture.transpose(1, 0, 2),
        picture[..., ::-1],
    ):
        np.testing.assert_array_equal(pixels(view), view)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros((0, 5, 3), np.uint8), "no pixels"),
        (np.zeros((5, 0), np.float32), "no pixels"),
        (np.zeros((5, 5, 0), np.uint8), r"shape \(5, 5, 0\).*H×W×3"),
        (np.zeros((3, 20, 20), np.uint8), r"shape \(3, 20, 20\)"),
        (np.zeros(5, np.uint8), r"shape \(5,\)"),
        (np.zeros((1, 5, 5, 3), np.uint8), r"shape \(1, 5, 5, 3\)"),
        (np.uint8(3) * np.ones((), np.uint8), r"uint8"),
        (np.zeros((5, 5), np.int64), "type int64.*uint8"),
        (np.zeros((5, 5), complex), "type complex128"),
        (np.array([[None]]), "type object"),
        (np.array([["cat"]]), "type <U3"),
        (np.array([[0, 1.5]]), "from 0 to 1.5.*clip"),
        (np.array([[-0.1, 1]]), "from -0.1 to 1"),
        (np.array([[0, np.inf]]), "from 0 to inf"),
        (np.array([[0, np.nan]]), "NaN"),
        (Image.new("RGB", (0, 4)), "no pixels"),
    ],
)
def test_bad_arrays(array, reason):
    for use in (open_image, image_digest):
        with pytest.raises(BadImageError, match=reason):
            use(array)


@pytest.mark.parametrize("nonsense", [None, 3, [[1, 2]], {"a": 1}, object()])
def test_other_types(nonsense):
    for use in (open_image, image_digest):
        with pytest.raises(BadImageError, match=rf"{type(nonsense).__name__}.*Give a path"):
            use(nonsense)


def test_tensors():
    torch = pytest.importorskip("torch")
    planes = torch.from_numpy(PHOTO.copy()).permute(2, 0, 1)
    np.testing.assert_array_equal(pixels(planes), PHOTO)
    np.testing.assert_array_equal(pixels((planes / 255).requires_grad_()), PHOTO)
    np.testing.assert_array_equal(pixels((planes / 255).double()), PHOTO)
    np.testing.assert_array_equal(pixels(planes[:1]), PHOTO[..., :1].repeat(3, 2))
    np.testing.assert_array_equal(
        pixels(torch.tensor([[[0, 0.5, 1]]], dtype=torch.bfloat16))[0, :, 0], [0, 128, 255]
    )
    for bad, reason in [
        (planes.permute(1, 2, 0), r"Tensor \(shape \(24, 32, 3\), type torch.uint8\).*3×H×W"),
        (planes[0], "shape"),
        (planes[None], "shape"),
        (torch.zeros(4, 5, 5), "shape"),
        (planes.long(), "type torch.int64"),
        (planes.float(), "from 0 to 255"),
        (torch.full((1, 2, 2), torch.nan), "NaN"),
        (torch.zeros(3, 0, 2), "no pixels"),
        (torch.zeros(3, 2, 2, device="meta"), "cannot become an array"),
        (torch.zeros(3, 2, 2).to_sparse(), "cannot become an array"),
    ]:
        with pytest.raises(BadImageError, match=reason):
            open_image(bad)


def test_torch_is_not_imported():
    code = "import layup.images.decode, layup.images.folders, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Digests


def test_the_digest_of_a_file_is_that_of_its_bytes(tmp_path):
    path = saved(tmp_path, smooth(), "a.png")
    copy = tmp_path / "b.txt"
    copy.write_bytes(path.read_bytes())
    expected = hashlib.blake2b(path.read_bytes(), digest_size=32).digest()
    assert image_digest(path) == image_digest(str(copy)) == expected
    assert image_digest(open_image(path)) != expected


def test_equal_pictures_have_equal_digests():
    picture = Image.fromarray(PHOTO)
    expected = image_digest(picture)
    assert len(expected) == 32
    assert (
        image_digest(picture.copy())
        == image_digest(PHOTO)
        == image_digest(np.asfortranarray(PHOTO))
        == expected
    )
    assert image_digest(PHOTO[:, ::-1][:, ::-1]) == image_digest(PHOTO / 255) == expected
    torch = pytest.importorskip("torch")
    assert image_digest(torch.from_numpy(PHOTO.copy()).permute(2, 0, 1)) == expected


def test_different_pictures_have_different_digests():
    changed = PHOTO.copy()
    changed[3, 4, 1] ^= 1
    turned = Image.fromarray(PHOTO)
    turned.getexif()[0x0112] = 3
    shapes = [(4, 6), (6, 4), (3, 8), (24, 1), (2, 4, 3), (4, 2, 3)]
    palettes = [Image.new("P", (2, 2)) for _ in range(2)]
    for palette, colour in zip(palettes, (10, 20), strict=True):
        palette.putpalette([colour] * 3)
    everything = [PHOTO, changed, PHOTO[::-1], turned, *palettes]
    everything += [np.full(shape, 7, np.uint8) for shape in shapes]
    assert len({image_digest(each) for each in everything}) == len(everything)


# Contents of files


def contents(path: Path) -> Iterator[object]:
    """Everything that holds the very bytes of a file."""
    raw = path.read_bytes()
    yield from (raw, bytearray(raw), memoryview(raw), memoryview(raw + raw)[: len(raw)], np.bytes_(raw))
    yield io.BytesIO(raw)
    with path.open("rb") as file, path.open("rb", buffering=0) as bare, path.open("r+b") as both:
        yield from (file, bare, both)
    with tempfile.NamedTemporaryFile() as named, tempfile.SpooledTemporaryFile() as spooled:
        for each in (named, spooled):
            each.write(raw)
            yield each
    with zipfile.ZipFile(path.with_suffix(".zip"), "w") as packed:
        packed.write(path, "a.png")
    with zipfile.ZipFile(path.with_suffix(".zip")) as packed, packed.open("a.png") as member:
        yield member


def test_contents_are_images_and_equal_to_the_file(tmp_path):
    path = saved(tmp_path, smooth(), "a.png")
    for source in contents(path):
        np.testing.assert_array_equal(pixels(source), pixels(path), err_msg=repr(source))
        assert image_digest(source) == image_digest(path)


def damaged_member(folder: Path) -> object:
    """A file in an archive, one of whose bytes has changed."""
    with zipfile.ZipFile(folder / "a.zip", "w") as packed:
        packed.write(saved(folder, smooth(), "a.png"), "a.png")
    raw = bytearray((folder / "a.zip").read_bytes())
    raw[len(raw) // 2] ^= 1
    return zipfile.ZipFile(io.BytesIO(raw)).open("a.png")


def cut_gzip(folder: Path) -> object:
    raw = gzip.compress(saved(folder, smooth(), "a.png").read_bytes())
    return gzip.GzipFile(fileobj=io.BytesIO(raw[: len(raw) // 2]))


def damaged_lzma(folder: Path) -> object:
    raw = bytearray(lzma.compress(saved(folder, smooth(), "a.png").read_bytes()))
    raw[len(raw) // 2] ^= 1
    return lzma.LZMAFile(io.BytesIO(raw))


@pytest.mark.parametrize("damage", [damaged_member, cut_gzip, damaged_lzma])
def test_what_is_damaged_in_an_archive_is_a_bad_image(tmp_path, damage):
    for use in (open_image, image_digest):
        with damage(tmp_path) as member, pytest.raises(BadImageError, match="it cannot be read"):
            use(member)


@pytest.mark.parametrize("position", [0, 7, 100_000])
def test_an_open_file_is_left_as_it_was(tmp_path, position):
    path = saved(tmp_path, smooth(), "a.png")
    with path.open("rb") as file:
        for source in (file, io.BytesIO(path.read_bytes())):
            source.seek(position)
            for use in (open_image, image_digest, open_image):
                use(source)
                assert source.tell() == position
            source.seek(0)
            assert source.read() == path.read_bytes()
            assert not source.closed


def test_bad_contents(tmp_path):
    path = saved(tmp_path, smooth(), "a.png")
    with path.open("rb") as closed, memoryview(b"123") as released:
        pass
    reading, writing = os.pipe()
    with (
        path.open(encoding="latin-1") as text,
        (tmp_path / "b").open("wb") as unreadable,
        os.fdopen(reading, "rb") as pipe,
        os.fdopen(writing, "wb"),
        tmp_path.joinpath("c").open("w+b") as empty,
    ):
        for source, reason in [
            (b"", "bytes.*empty"),
            (bytearray(), "bytearray.*empty"),
            (io.BytesIO(), "BytesIO.*empty"),
            (empty, "'.*c'.*empty"),
            (text, "a.png.*opened as text.*'rb'"),
            (io.StringIO("cat"), "StringIO.*opened as text"),
            (closed, "a.png.*closed"),
            (released, "memoryview.*released"),
            (unreadable, "b'.*not open for reading"),
            (pipe, "read only once.*read()"),
        ]:
            for use in (open_image, image_digest):
                with pytest.raises(BadImageError, match=reason):
                    use(source)
        assert not text.closed
        assert text.read(4) == "\x89PNG"
    for source, reason in [
        (b"notes on cats", "13 bytes.*not an image"),
        (path.read_bytes()[:-40], "incomplete"),
    ]:
        with pytest.raises(BadImageError, match=reason):
            open_image(source)


def test_a_file_that_fails_while_it_is_read():
    class Broken(io.BytesIO):
        def read(self, *_):
            raise OSError(5, "Input/output error")

    for use in (open_image, image_digest):
        with pytest.raises(BadImageError, match=r"Broken.*Input/output error"):
            use(Broken(b"123"))
