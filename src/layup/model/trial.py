"""Whether a tuned network is better than the network before, tried on images held out of the first batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from layup.backbones import Backbone
from layup.images import ImageSource
from layup.tuning import FirstSession

if TYPE_CHECKING:
    from layup.model.image_model import ImageModel


@dataclass(frozen=True)
class Trial:
    """Accuracies on held-out images, of the network before and after tuning, and how many images they are."""

    frozen: float
    tuned: float
    images: int

    @property
    def kept(self) -> bool:
        """Whether the adapter is kept: also where accuracies are equal, as they often are with few images."""
        return self.tuned >= self.frozen

    def __str__(self) -> str:
        """In a sentence.

        >>> print(Trial(0.93, 0.91, 100))
        The adapter was dropped: on 100 images held out, accuracy was 0.930 without it, and 0.910 with it.
        """
        done = "kept" if self.kept else "dropped"
        return (
            f"The adapter was {done}: on {self.images} images held out, accuracy was {self.frozen:.3f} "
            f"without it, and {self.tuned:.3f} with it."
        )


def try_out(
    blank: Callable[[Backbone], ImageModel],
    tuned: Backbone,
    images: Sequence[ImageSource],
    labels: Sequence[str],
    session: FirstSession,
) -> Trial:
    """Let a blank model of either network learn what the session trained on, and predict what it held out.

    It takes one pass through each network; the cache keeps the features of the one that is chosen.
    """
    from layup.tuning import parts  # here, because it imports torchvision, which takes seconds

    training, held_out = parts(images, labels, session)

    def accuracy(backbone: Backbone) -> float:
        model = blank(backbone)
        model.learn([images[index] for index in training], [labels[index] for index in training])
        found = model.predict([images[index] for index in held_out])
        return float(np.mean(found == np.array([labels[index] for index in held_out])))

    return Trial(accuracy(tuned.frozen), accuracy(tuned), len(held_out))
