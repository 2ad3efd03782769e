"""Some of many images, without making them: a dataset may decode each when it is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from layup.images.decode import ImageSource


class Chosen(Sequence[ImageSource]):
    """Some of the images, in this order: each is still made only when it is read.

    >>> Chosen(["a.jpg", "b.jpg", "c.jpg"], [2, 0])[1]
    'a.jpg'
    """

    def __init__(self, images: Sequence[ImageSource], indices: Sequence[int]) -> None:
        self.images = images
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: Any) -> Any:
        return self.images[self.indices[index]]


def chosen(images: Sequence[ImageSource], indices: Sequence[int]) -> Sequence[ImageSource]:
    """Some of the images: a list of a list, and something as lazy of anything else.

    >>> chosen(["a.jpg", "b.jpg", "c.jpg"], [2, 0])
    ['c.jpg', 'a.jpg']
    """
    if isinstance(images, list | tuple):
        return [images[index] for index in indices]
    return Chosen(images, indices)
