"""The photos of a request: those that can be asked about, and what is wrong with the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from layup.errors import InputError
from layup.formats import size_of
from layup.images import described, image_digest
from layup.serving.answers import Problem
from layup.serving.limits import RequestLimits
from layup.serving.live import LiveModel
from layup.serving.refusals import RequestError
from layup.serving.uploads import Upload


@dataclass(frozen=True)
class Photos:
    """The photos of a request: their contents, the names that the client gave, and why some are left out."""

    names: list[str]
    contents: list[bytes]
    """Of those that are not left out."""
    indices: list[int]
    """Which these are."""
    left_out: dict[int, Problem]

    @classmethod
    def of(cls, upload: Upload, limits: RequestLimits) -> Photos:
        """Those that are too large are left out; if all are, the request is refused."""
        large = (
            f"{{!r}} is larger than {size_of(limits.image)}, which is the most that is taken. Scale it down."
        )
        left_out = {
            index: Problem(code="too-large", message=large.format(photo.name))
            for index, photo in enumerate(upload.photos)
            if photo.too_large
        }
        indices = [index for index in range(len(upload.photos)) if index not in left_out]
        if not indices:
            raise RequestError(413, "too-large", left_out[0].message)
        contents = [_taken(upload.photos[index].data) for index in indices]
        return cls([photo.name for photo in upload.photos], contents, indices, left_out)

    def id(self, turn: int) -> str:
        """By which the model knows a photo, if it is taught."""
        return image_digest(self.contents[turn])[:16].hex()

    def problem(self, turn: int, reason: str) -> Problem:
        """What is wrong with one of the contents, with the name that the client gave it."""
        name = self.names[self.indices[turn]]
        return Problem(code="bad-image", message=reason.replace(described(self.contents[turn]), repr(name)))


@contextmanager
def of_a_taught_model(live: LiveModel) -> Iterator[None]:
    """What fails inside because the model knows no class is refused as that."""
    try:
        yield
    except InputError as error:
        if live.facts().counts:
            raise
        raise RequestError(
            409, "nothing-learned", "This model knows no class yet. Teach it a photo first: POST /teach."
        ) from error


def _taken(data: bytearray) -> bytes:
    """What was received, which is then held only once."""
    contents = bytes(data)
    data.clear()
    return contents
