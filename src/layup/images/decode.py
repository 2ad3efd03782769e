"""Paths, contents of files and arrays → RGB images, with an error for every way in which one can be bad.

Anything wrong with an image is a `BadImageError` of one or two sentences: a folder of photos always holds a
broken one, and the user has to know which one and why.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import stat
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeGuard, runtime_checkable

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, UnidentifiedImageError

from layup.errors import BadImageError
from layup.formats import has_controls, printable
from layup.images.heic import HEAD, HEIF, can_read_heic, is_heic

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", HEIF, "ICO")
"""The file formats that are tried. Not all that Pillow knows: its EPS reader, for one, starts Ghostscript,
and it reads half a JPEG 2000 file as half an image without an error."""

ALLOWED_ARRAYS = (
    "Arrays may be H×W, H×W×1, H×W×3 or H×W×4, tensors 1×H×W or 3×H×W; "
    "of uint8, uint16, bool, or floats from 0 to 1."
)

UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""The EXIF orientation of a photo → the operation that turns it upright."""


@runtime_checkable
class TensorLike(Protocol):
    """A PyTorch tensor, recognised without importing PyTorch."""

    def detach(self) -> Any:
        """The values without their gradient."""

    def cpu(self) -> Any:
        """The values where NumPy can see them."""


class OpenFile(Protocol):
    """A file that is open for reading bytes: `open(path, "rb")`, `io.BytesIO`, a member of an archive …"""

    def read(self, size: int = -1, /) -> bytes:
        """Read `size` bytes, or all that are left."""


class StoredImage(ABC):
    """An encoded image inside something else, such as an archive. Every process can read it, at any time."""

    __slots__ = ()

    @abstractmethod
    def contents(self) -> bytes:
        """What its file would hold. Raises `BadImageError` if that cannot be read."""

    @abstractmethod
    def location(self) -> tuple[str, str]:
        """The file that it is in, and what tells it from all others in that file."""


Encoded: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | OpenFile | StoredImage
"""An encoded image: the path of its file, the contents, the open file, or where it is stored."""
Stream: TypeAlias = io.BufferedReader | io.BytesIO
ImageSource: TypeAlias = Encoded | Image.Image | npt.NDArray[Any] | TensorLike
"""Everything that `open_image` takes."""


def is_open_file(source: object) -> TypeGuard[OpenFile]:
    """Whether something can be read like a file, even through a wrapper, as temporary files have it.

    >>> is_open_file(io.BytesIO()), is_open_file(b"")
    (True, False)
    """
    return callable(getattr(source, "read", None))


def is_encoded(source: object) -> TypeGuard[Encoded]:
    """Whether something is an encoded image.

    >>> is_encoded("a.jpg"), is_encoded(b""), is_encoded(io.BytesIO()), is_encoded([])
    (True, True, True, False)
    """
    if isinstance(source, str | os.PathLike | bytes | bytearray | memoryview | StoredImage):
        return True
    return is_open_file(source)


def open_image(source: ImageSource) -> Image.Image:
    """A new, upright RGB image from a file, a PIL image, an array or a tensor.

    A file is its path, its contents (bytes), a member of an archive, or an open one, which is read from its
    beginning and left open, at the same position. The EXIF orientation is applied, alpha is dropped, an
    animation is its first frame, and 16 bits become 8 by scaling. Arrays are H×W, H×W×1, H×W×3 or H×W×4;
    tensors C×H×W, as in torchvision, with 1 or 3 channels. Costs one decoding. Raises only `BadImageError`
    for what is not a usable image.

    >>> open_image(np.array([[0.0, 1.0]])).getpixel((1, 0))
    (255, 255, 255)
    >>> open_image("no/such.jpg")
    Traceback (most recent call last):
    layup.errors.BadImageError: Cannot use 'no/such.jpg': there is no such file.
    """
    if is_encoded(source):
        with _opened(source) as file:
            return _decoded(lambda: _identified(file, described(source)), described(source))
    if isinstance(source, Image.Image):
        return _decoded(lambda: source, described(source))
    if isinstance(source, np.ndarray):
        return _pictured(source, described(source))
    if isinstance(source, TensorLike):
        return _pictured(_height_width_channels(source), described(source))
    raise BadImageError(
        f"Cannot use {described(source)} as an image. Give a path, the bytes of a file, an open file, "
        f"a PIL image, an array or a tensor. {ALLOWED_ARRAYS}"
    )


def is_image(source: ImageSource) -> bool:
    """Whether `open_image` can use it. Costs a decoding.

    >>> is_image(np.zeros((2, 2))), is_image(b"Dear diary")
    (True, False)
    """
    try:
        open_image(source)
    except BadImageError:
        return False
    return True


def image_digest(source: ImageSource) -> bytes:
    """A hash of an image, 32 bytes: of a file's contents, or of anything else's size and RGB pixels.

    A file (a path, its bytes, an open file, a member of an archive) is read but not decoded. The two
    kinds never share a digest.

    >>> grey = np.full((2, 2), 51, np.uint8)
    >>> image_digest(grey) == image_digest(grey.T / 255) != image_digest(grey + 1)
    True
    """
    if is_encoded(source):
        with _opened(source) as file:
            try:
                return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).digest()
            except OSError as error:
                raise _unreadable(described(source), error) from error
    # Not the values as given: palette, orientation and byte order matter too, and are all applied in the RGB.
    image = open_image(source)
    return hashlib.blake2b(
        b"%d %d " % image.size + image.tobytes(), digest_size=32, person=b"layup pixels"
    ).digest()


# Files


def _opened(source: Encoded) -> AbstractContextManager[Stream]:
    """A new file object with these contents, or the error that says why they cannot be read."""
    if isinstance(source, str | os.PathLike):
        return _opened_path(source)
    contents = source.contents() if isinstance(source, StoredImage) else _contents(source)
    if not contents:
        raise BadImageError(f"Cannot use {described(source)}: it is empty (0 bytes).")
    return io.BytesIO(contents)


def _contents(source: Any) -> bytes:
    """The contents of a buffer or of an open file, which is left as it was."""
    name = described(source)
    as_text = BadImageError(f"Cannot use {name}: it was opened as text. Open it with the mode 'rb'.")
    if isinstance(source, io.TextIOBase):
        raise as_text
    try:
        if not is_open_file(source):
            return bytes(source)
        if not getattr(source, "seekable", bool)():
            raise BadImageError(f"Cannot use {name}: it can be read only once. Give what read() returns.")
        contents = _read_again(source)
    except io.UnsupportedOperation as error:
        raise BadImageError(f"Cannot use {name}: it is not open for reading ({error}).") from error
    except OSError as error:
        raise _unreadable(name, error) from error
    except BadImageError:
        raise
    except ValueError as error:
        raise BadImageError(f"Cannot use {name}: it is closed ({error}).") from error
    except Exception as error:  # a damaged member of an archive may raise anything
        raise BadImageError(f"Cannot use {name}: it cannot be read ({error}).") from error
    if isinstance(contents, str):
        raise as_text
    return bytes(contents)


def _read_again(file: Any) -> Any:
    """The contents of a file from its beginning; then its position is restored."""
    position = file.tell()
    try:
        file.seek(0)
        return file.read()
    finally:
        file.seek(position)


@contextlib.contextmanager
def _opened_path(path: str | os.PathLike[str]) -> Iterator[Stream]:
    name = described(path)
    try:
        # Before opening: opening a pipe would wait for a writer without end.
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            raise _no_file(Path(path))
        if not stat.S_ISREG(status.st_mode):
            raise BadImageError(f"Cannot use {name}: it is not a regular file but a device or a pipe.")
        if status.st_size == 0:
            raise BadImageError(f"Cannot use {name}: it is empty (0 bytes).")
        file = Path(path).open("rb")  # noqa: SIM115 (errors of the caller's block are not ours)
    except FileNotFoundError as error:
        raise BadImageError(f"Cannot use {name}: there is no such file.") from error
    except PermissionError as error:
        raise BadImageError(f"Cannot use {name}: no permission to read it.") from error
    except OSError as error:
        raise _unreadable(name, error) from error
    except BadImageError:
        raise
    except ValueError as error:  # such as a null character in the name
        raise BadImageError(f"Cannot use {name}: this cannot be a file's name ({error}).") from error
    with file:
        yield file


def _no_file(folder: Path) -> BadImageError:
    """Why a folder that was given as an image, or listed as bad, cannot be used."""
    name = described(folder)
    try:
        with os.scandir(folder):
            pass
    except OSError as error:
        return _unreadable(name, error)
    if has_controls(folder.name):
        return BadImageError(
            f"Cannot use {name}: this folder's name has control characters, or bytes that are not UTF-8, and "
            "cannot be a label. Rename it."
        )
    return BadImageError(f"Cannot use {name} as an image: it is a folder. Give the files in it.")


def _unreadable(name: str, error: OSError) -> BadImageError:
    return BadImageError(f"Cannot use {name}: it cannot be read ({error.strerror or error}).")


def _identified(file: Stream, name: str) -> Image.Image:
    Image.init()  # HEIF needs a plug-in, AVIF a recent Pillow; Pillow fails on a format that it does not know
    if is_heic(file.read(HEAD)) and not can_read_heic():
        raise BadImageError(
            f"Cannot use {name}: it is a HEIC photo, which needs another package. "
            "Run pip install 'layup-cl[heic]', or convert it to JPEG."
        )
    file.seek(0)
    image = Image.open(file, formats=[name for name in FORMATS if name in Image.OPEN])
    # Between this limit and its double, Pillow only warns.
    if Image.MAX_IMAGE_PIXELS is not None and image.width * image.height > Image.MAX_IMAGE_PIXELS:
        raise Image.DecompressionBombError
    return image


class _PillowSilence:
    """Ignores Pillow's warnings while any thread is inside.

    Warning filters belong to the whole process: if each thread restored what it found, the last one to leave
    could restore another thread's filters.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._outer = contextlib.ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._outer.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", module=r"PIL\.")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._outer.close()


_pillow_silence = _PillowSilence()


# Pixels


def _decoded(opened: Callable[[], Image.Image], name: str) -> Image.Image:
    try:
        with _pillow_silence:
            image = opened()
            if 0 in image.size:
                raise BadImageError(f"Cannot use {name}: it has no pixels.")
            image.load()
            rgb = _rgb(_upright(image), name)
            rgb.info.clear()  # otherwise its orientation would be applied again
            return rgb
    except BadImageError:
        raise
    except UnidentifiedImageError as error:
        raise BadImageError(
            f"Cannot use {name}: it is not an image, or its beginning is damaged. "
            "Use JPEG, PNG, WebP, GIF, BMP or TIFF files."
        ) from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadImageError(
            f"Cannot use {name}: it says that it has more than {Image.MAX_IMAGE_PIXELS:,} pixels, "
            "which could exhaust the memory. Scale it down."
        ) from error
    except Exception as error:  # decoders fail with OSError, SyntaxError, ValueError, struct.error, …
        reason = printable(str(error)) or type(error).__name__
        raise BadImageError(f"Cannot use {name}: it is damaged, incomplete or unusual ({reason}).") from error


def _upright(image: Image.Image) -> Image.Image:
    with contextlib.suppress(Exception):  # broken metadata does not make the pixels unusable
        turn = UPRIGHT.get(image.getexif().get(ExifTags.Base.Orientation, 1))
        if turn is not None:
            return image.transpose(turn)
    return image


def _rgb(image: Image.Image, name: str) -> Image.Image:
    """A new RGB image. Pillow by itself would clip 16 bits, and floats, to white."""
    if image.mode == "F":
        image = Image.fromarray(_eight_bits(np.asarray(image), name))
    elif image.mode.startswith("I"):
        values = np.asarray(image)
        if values.min() < 0 or values.max() > 65535:
            raise BadImageError(
                f"Cannot use {name}: its grey values go from {values.min()} to {values.max()}, "
                "but 16 bits are 0 to 65535. Scale them."
            )
        image = Image.fromarray(_eight_bits(values.astype(np.uint16), name))
    return image.convert("RGB")


def _pictured(array: npt.NDArray[Any], name: str) -> Image.Image:
    if not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (1, 3, 4))):
        raise BadImageError(f"Cannot use {name}: this is not the shape of one image. {ALLOWED_ARRAYS}")
    if array.size == 0:
        raise BadImageError(f"Cannot use {name}: it has no pixels.")
    if array.ndim == 3:
        array = array[..., 0] if array.shape[2] == 1 else array[..., :3]
    return Image.fromarray(np.ascontiguousarray(_eight_bits(array, name))).convert("RGB")


def _eight_bits(values: npt.NDArray[Any], name: str) -> npt.NDArray[np.uint8]:
    """The whole range of the type, or 0 to 1 of floats, to the nearest of 0 to 255."""
    if values.dtype == np.uint8:
        return values
    if values.dtype == np.bool_:
        return values * np.uint8(255)
    if values.dtype.kind == "u" and values.dtype.itemsize == 2:
        return ((values.astype(np.uint32) + 128) // 257).astype(np.uint8)
    if values.dtype.kind != "f":
        raise BadImageError(f"Cannot use {name}: this is not a type of pixels. {ALLOWED_ARRAYS}")
    lowest, highest = values.min(), values.max()
    if np.isnan(lowest):
        raise BadImageError(f"Cannot use {name}: some of its values are not a number (NaN).")
    if lowest < 0 or highest > 1:
        raise BadImageError(
            f"Cannot use {name}: its values go from {lowest:g} to {highest:g}, "
            "but floats must be from 0 to 1. Scale or clip them."
        )
    return np.rint(values.astype(np.float32) * 255).astype(np.uint8)


def _height_width_channels(tensor: Any) -> npt.NDArray[Any]:
    name = described(tensor)
    try:
        values = tensor.detach().cpu()
        if values.is_floating_point():
            values = values.float()  # NumPy has no bfloat16
        array: npt.NDArray[Any] = values.numpy()
    except Exception as error:  # a sparse one, one without storage, something that is not a tensor after all
        raise BadImageError(f"Cannot use {name}: it cannot become an array ({error}).") from error
    if array.ndim != 3 or array.shape[0] not in (1, 3):
        raise BadImageError(f"Cannot use {name}: this is not the shape of one image. {ALLOWED_ARRAYS}")
    return np.moveaxis(array, 0, -1)


def described(source: object) -> str:
    """How an error names an image: by the name of its file, if it has one."""
    if isinstance(source, str | os.PathLike):
        return repr(os.fspath(source))
    if isinstance(source, StoredImage):
        return repr(str(source))
    kind = f"this {type(source).__name__}"
    if isinstance(source, bytes | bytearray):
        return f"{kind} ({len(source):,} bytes)"
    if isinstance(source, memoryview):
        return kind  # a released one no longer has a size
    if is_open_file(source):
        name = getattr(source, "name", None)
        return f"{kind} ({name!r})" if isinstance(name, str) else kind
    if isinstance(source, Image.Image):
        path = getattr(source, "filename", "")
        return repr(path) if path else f"{kind} (mode {source.mode}, size {source.width}×{source.height})"
    if hasattr(source, "shape") and hasattr(source, "dtype"):
        return f"{kind} (shape {tuple(source.shape)}, type {source.dtype})"
    return kind
