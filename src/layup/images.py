"""Paths, contents of files and arrays → RGB images; every way in which one of them can be bad.

Whatever is wrong with an image is a `BadImageError` of one sentence or two: a folder of photos always
holds a broken one, and the person has to know which one and why.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import io
import os
import stat
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeGuard, runtime_checkable
from unicodedata import normalize

import numpy as np
import numpy.typing as npt
from PIL import ExifTags, Image, UnidentifiedImageError

from layup.errors import BadImageError, InputError
from layup.formats import has_controls, printable

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", "AVIF", "HEIF", "ICO")
"""The file formats that are tried. Not all that Pillow knows: its EPS reader, for one, starts Ghostscript,
and of half a JPEG 2000 file it makes half a picture without a word."""

CLUTTER = frozenset({"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx", "@eadir"})
"""What systems leave among photos without being asked (lower case)."""

PARTS = frozenset({"train", "training", "val", "valid", "validation", "test"})
"""Folder names that are halves of a dataset rather than classes, when there are more folders in them."""

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
"""The EXIF orientation of a photo → what puts it upright."""


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
        """So many bytes from where it is, or all that are left."""


Encoded: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | OpenFile
"""An image as a file has it: the path, the contents, or the open file."""
Stream: TypeAlias = io.BufferedReader | io.BytesIO
ImageSource: TypeAlias = Encoded | Image.Image | npt.NDArray[Any] | TensorLike
"""All that `open_image` takes."""


def is_open_file(source: object) -> TypeGuard[OpenFile]:
    """Whether something can be read as a file is, if only by handing it on, as temporary files do.

    >>> is_open_file(io.BytesIO()), is_open_file(b"")
    (True, False)
    """
    return callable(getattr(source, "read", None))


def is_encoded(source: object) -> TypeGuard[Encoded]:
    """Whether something is an image as a file has it, to be decoded.

    >>> is_encoded("a.jpg"), is_encoded(b""), is_encoded(io.BytesIO()), is_encoded([])
    (True, True, True, False)
    """
    return isinstance(source, str | os.PathLike | bytes | bytearray | memoryview) or is_open_file(source)


def open_image(source: ImageSource) -> Image.Image:
    """A new, upright RGB image of a file, a PIL image, an array or a tensor.

    A file is its path, its contents (bytes), or an open one, which is read from its beginning and left open,
    at the place where it was. The EXIF orientation is applied, alpha dropped, an animation is its first
    frame, and 16 bits become 8 by scaling. Arrays are H×W, H×W×1, H×W×3 or H×W×4; tensors C×H×W, as
    torchvision's, with 1 or 3 channels. Costs one decoding. Raises `BadImageError`, and nothing else, for
    what is not a usable image.

    >>> open_image(np.array([[0.0, 1.0]])).getpixel((1, 0))
    (255, 255, 255)
    >>> open_image("no/such.jpg")
    Traceback (most recent call last):
    layup.errors.BadImageError: Cannot use 'no/such.jpg': there is no such file.
    """
    if is_encoded(source):
        with _opened(source) as file:
            return _decoded(lambda: _identified(file), _described(source))
    if isinstance(source, Image.Image):
        return _decoded(lambda: source, _described(source))
    if isinstance(source, np.ndarray):
        return _pictured(source, _described(source))
    if isinstance(source, TensorLike):
        return _pictured(_height_width_channels(source), _described(source))
    raise BadImageError(
        f"Cannot use {_described(source)} as an image. Give a path, the bytes of a file, an open file, "
        f"a PIL image, an array or a tensor. {ALLOWED_ARRAYS}"
    )


def image_digest(source: ImageSource) -> bytes:
    """The identity of an image, 32 bytes: of a file its contents, of anything else its size and RGB pixels.

    A file, be it a path, its bytes or an open one, is read but not decoded. The two kinds never share a
    digest.

    >>> grey = np.full((2, 2), 51, np.uint8)
    >>> image_digest(grey) == image_digest(grey.T / 255) != image_digest(grey + 1)
    True
    """
    if is_encoded(source):
        with _opened(source) as file:
            try:
                return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=32)).digest()
            except OSError as error:
                raise _unreadable(_described(source), error) from error
    # Not the values as given: palette, orientation and byte order matter as well, and all end in the RGB.
    image = open_image(source)
    return hashlib.blake2b(
        b"%d %d " % image.size + image.tobytes(), digest_size=32, person=b"layup pixels"
    ).digest()


def require_one_label_each(images: Sequence[ImageSource], labels: Sequence[str]) -> None:
    """Refuse images and labels of different number."""
    if len(images) != len(labels):
        raise InputError(f"There are {len(images)} images but {len(labels)} labels. Give one label for each.")


def find_images(folder: str | os.PathLike[str]) -> list[Path]:
    """All files below a folder that are meant as images, sorted by name.

    Hidden files and folders are skipped, and so is the clutter that systems leave (Thumbs.db, desktop.ini …).
    Every other file is listed whatever its suffix, so that a stray notes.txt is reported as bad by whoever
    opens it and not silently passed over; so is a folder that cannot be read. Nothing is opened here.

    Links are followed, but no folder is read twice, and a link to a folder that it is itself in (a link that
    leads back up) is passed over.

    >>> find_images("no/such/folder")
    Traceback (most recent call last):
    layup.errors.InputError: There is no folder 'no/such/folder'.
    """
    return _sorted_below(_existing(folder))


def class_folders(folder: str | os.PathLike[str]) -> tuple[list[Path], list[str]]:
    """PHOTOS/class/**: the files, and the class of each, which is the name of its first-level folder.

    Both lists are sorted by class, then name. A class folder without files is left out, and files beside the
    class folders are ignored. A class folder that cannot be used (a broken link, no permission, a name with
    control characters or not in UTF-8) is listed itself, so that whoever opens it reports it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as photos:
    ...     (Path(photos) / "tabby").mkdir()
    ...     (Path(photos) / "tabby" / "1.jpg").touch()
    ...     paths, labels = class_folders(photos)
    >>> [path.name for path in paths], labels
    (['1.jpg'], ['tabby'])
    """
    photos = _existing(folder)
    inside, loose = visible(photos)
    place = _real(photos)
    classes = [each for each in inside if not _leads_up(_real(each), [place])]
    if not classes:
        found = f"only {len(loose)} files" if loose else "nothing"
        raise InputError(
            f"{str(photos)!r} has no class folders, {found} directly in it. "
            "Put each class in its own folder: PHOTOS/tabby/1.jpg."
        )
    classes.sort()
    if {each.name.lower() for each in classes} <= PARTS and all(visible(each)[0] for each in classes):
        raise InputError(
            f"{str(photos)!r} holds the parts of a dataset ({', '.join(each.name for each in classes)}), and "
            f"no classes. Did you mean {str(classes[-1])!r}?"
        )
    classes += [each for each in loose if each.is_symlink() and not each.exists()]
    labelled = [(path, label_of(each)) for each in sorted(classes) for path in _of_class(each)]
    if not labelled:
        names = ", ".join(each.name for each in classes)
        raise InputError(
            f"The class folders in {str(photos)!r} are all empty: {names}. "
            "Put photos in them: PHOTOS/tabby/1.jpg."
        )
    return [path for path, _ in labelled], [label for _, label in labelled]


def label_of(folder: Path) -> str:
    """The label that a class folder stands for.

    >>> label_of(Path("photos/cafe\u0301"))
    'café'
    """
    # The same letters however a file system spells them: a Mac takes é apart.
    return printable(normalize("NFC", folder.name))


# Files


def _opened(source: Encoded) -> AbstractContextManager[Stream]:
    """A file of our own with these contents, or the sentence that says why there is none to read."""
    if isinstance(source, str | os.PathLike):
        return _opened_path(source)
    contents = _contents(source)
    if not contents:
        raise BadImageError(f"Cannot use {_described(source)}: it is empty (0 bytes).")
    return io.BytesIO(contents)


def _contents(source: Any) -> bytes:
    """All of a buffer or of an open file, which is left as it was."""
    name = _described(source)
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
    except Exception as error:  # whatever an archive's damaged member raises
        raise BadImageError(f"Cannot use {name}: it cannot be read ({error}).") from error
    if isinstance(contents, str):
        raise as_text
    return bytes(contents)


def _read_again(file: Any) -> Any:
    """All of a file from its beginning; then it is back at the place where it was."""
    place = file.tell()
    try:
        file.seek(0)
        return file.read()
    finally:
        file.seek(place)


@contextlib.contextmanager
def _opened_path(path: str | os.PathLike[str]) -> Iterator[Stream]:
    name = _described(path)
    try:
        # Before opening: to open a pipe would wait for a writer, for ever.
        status = Path(path).stat()
        if stat.S_ISDIR(status.st_mode):
            raise _no_file(Path(path))
        if not stat.S_ISREG(status.st_mode):
            raise BadImageError(f"Cannot use {name}: it is not a regular file but a device or a pipe.")
        if status.st_size == 0:
            raise BadImageError(f"Cannot use {name}: it is empty (0 bytes).")
        file = Path(path).open("rb")  # noqa: SIM115 (errors of whoever uses the file are not ours)
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
    """Why a folder that was taken for an image, or listed as bad, cannot be used."""
    name = _described(folder)
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


def _identified(file: Stream) -> Image.Image:
    Image.init()  # HEIF needs a plug-in, AVIF a recent Pillow; Pillow stumbles over a format it does not know
    image = Image.open(file, formats=[name for name in FORMATS if name in Image.OPEN])
    # Between this limit and its double, Pillow only warns.
    if Image.MAX_IMAGE_PIXELS is not None and image.width * image.height > Image.MAX_IMAGE_PIXELS:
        raise Image.DecompressionBombError
    return image


class _PillowSilence:
    """Ignores the warnings of Pillow while any thread is inside.

    Warning filters belong to the whole process: were each thread to restore what it found, the last to leave
    could bring back another's.
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
            rgb.info.clear()  # or the orientation in it would be applied again
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
    """A new RGB image. Pillow alone would clip 16 bits, and floats, to white."""
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
    name = _described(tensor)
    try:
        values = tensor.detach().cpu()
        if values.is_floating_point():
            values = values.float()  # NumPy has no bfloat16
        array: npt.NDArray[Any] = values.numpy()
    except Exception as error:  # a sparse one, one without storage, something that is no tensor after all
        raise BadImageError(f"Cannot use {name}: it cannot become an array ({error}).") from error
    if array.ndim != 3 or array.shape[0] not in (1, 3):
        raise BadImageError(f"Cannot use {name}: this is not the shape of one image. {ALLOWED_ARRAYS}")
    return np.moveaxis(array, 0, -1)


def _described(source: object) -> str:
    """What an error calls an image: by the name of its file, if it has one."""
    if isinstance(source, str | os.PathLike):
        return repr(os.fspath(source))
    kind = f"this {type(source).__name__}"
    if isinstance(source, bytes | bytearray):
        return f"{kind} ({len(source):,} bytes)"
    if isinstance(source, memoryview):
        return kind  # one that was released has no size any more
    if is_open_file(source):
        name = getattr(source, "name", None)
        return f"{kind} ({name!r})" if isinstance(name, str) else kind
    if isinstance(source, Image.Image):
        path = getattr(source, "filename", "")
        return repr(path) if path else f"{kind} (mode {source.mode}, size {source.width}×{source.height})"
    if hasattr(source, "shape") and hasattr(source, "dtype"):
        return f"{kind} (shape {tuple(source.shape)}, type {source.dtype})"
    return kind


# Folders


def _existing(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder)
    try:
        if path.is_dir():
            with os.scandir(path):
                return path
        if path.exists():
            raise InputError(f"{str(path)!r} is a file, but must be a folder of photos.")
    except OSError as error:
        raise _closed(path, error) from error
    siblings = [each.name for each in visible(path.parent)[0]] if path.parent.is_dir() else []
    guess = difflib.get_close_matches(path.name, siblings, n=1)
    hint = f" Did you mean {str(path.parent / guess[0])!r}?" if guess else ""
    raise InputError(f"There is no folder {str(path)!r}.{hint}")


def visible(folder: Path) -> tuple[list[Path], list[Path]]:
    """The folders and the files directly in a folder, in no order, without what is hidden or clutter."""
    folders: list[Path] = []
    files: list[Path] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith(".") and entry.name.lower() not in CLUTTER:
                    (folders if _is_folder(entry) else files).append(folder / entry.name)
    except OSError as error:
        raise _closed(folder, error) from error
    return folders, files


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in circles: whoever opens it says so
        return False


def _closed(folder: Path, error: OSError) -> InputError:
    return InputError(f"The folder {str(folder)!r} cannot be read ({error.strerror or error}).")


def _of_class(folder: Path) -> list[Path]:
    """What is to be opened of a class folder: its files, or itself if it cannot be used."""
    if has_controls(folder.name) or not folder.is_dir():
        return [folder]
    return _sorted_below(folder)


def _sorted_below(folder: Path) -> list[Path]:
    return sorted(_files_below(folder), key=lambda path: path.parts)


def _files_below(folder: Path) -> Iterator[Path]:
    """All files below a folder, and the folders that cannot be read.

    Each folder is read once: by its own name, if it is below, or else by the first link that leads to it.
    """
    read: set[Path] = set()
    links = [(folder, _real(folder), frozenset({_real(folder.parent)}))]
    while links:
        waiting = [heappop(links)]
        while waiting:
            here, place, above = waiting.pop()  # `above`: where the links are that led here
            if place in read:
                continue
            read.add(place)
            try:
                folders, files = visible(here)
            except InputError:
                yield here
                continue
            yield from files
            for each in folders:
                if not _is_link(each):
                    waiting.append((each, place / each.name, above))
                    continue
                target, around = _real(each), above | {place}
                if not _leads_up(target, around):
                    heappush(links, (each, target, around))


def _real(path: Path) -> Path:
    """Where a path leads, without links."""
    return Path(os.path.realpath(path))


def _leads_up(target: Path, places: Iterable[Path]) -> bool:
    """Whether a link that is at some of these places leads to a folder that it is itself in.

    >>> [_leads_up(Path(target), [Path("/photos/tabby")]) for target in ("/photos", "/photos/beagle")]
    [True, False]
    """
    return any(place.is_relative_to(target) for place in places)


def _is_link(path: Path) -> bool:
    try:
        return path.is_symlink()
    except OSError:  # its name is too long, say: whoever opens it says so
        return False
