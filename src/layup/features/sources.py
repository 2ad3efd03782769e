"""Rows made of other rows: projected, averaged, scaled, or side by side. They are read like layers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from torch import Tensor

from layup.algebra import Floats
from layup.features.extract import Extraction, Extractor, FeatureSource, Rows
from layup.images import ImageSource
from layup.seeds import seed_of

NORM_EPSILON = 1e-6
"""What is added to a variance before it divides, as in the layer norms of vision transformers."""

_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "relu": lambda z: np.maximum(z, 0.0),
    "sigmoid": lambda z: (1 + np.tanh(z / 2)) / 2,  # 1 / (1 + exp(−z)), which cannot overflow like this
    "tanh": np.tanh,
}


class MappedRows(FeatureSource):
    """Rows that are a function of the rows of one other source, each of one."""

    source: FeatureSource

    @abstractmethod
    def mapped(self, rows: Rows) -> Rows:
        """What becomes of these rows."""

    @property
    def extractor(self) -> Extractor:
        """What reads images for the other source."""
        return self.source.extractor

    def reader(self, images: Sequence[ImageSource]) -> Callable[[list[int]], Any]:
        """What reads images for the other source."""
        return self.source.reader(images)

    def computed(self, reads: Sequence[Any]) -> list[Extraction]:
        """The rows of what was read."""
        return [replace(part, rows=self.mapped(part.rows)) for part in self.source.computed(reads)]

    def rows_of(self, pixels: Tensor) -> Rows:
        """The rows of preprocessed images."""
        return self.mapped(self.source.rows_of(pixels))

    def recall(self, digests: Sequence[bytes]) -> dict[bytes, Rows]:
        """The rows of what the cache has."""
        found = self.source.recall(digests)
        return {digest: self.mapped(row[None])[0] for digest, row in found.items()}


class ProjectedRows(MappedRows):
    """σ(f W) of rows f of d values, with W of shape d × `width`, drawn from the seed.

    Args:
        source: gives the rows f.
        width: how many values a projected row has.
        seed: decides W.
        activation: σ, "relu", "sigmoid" or "tanh".
        drawn: the values of W are "normal", N(0, 1), or "uniform" between −1/√d and 1/√d, as PyTorch begins
            a linear layer.

    W is drawn when first needed and never stored: its seed and shape are enough. It comes from NumPy's
    `RandomState`, whose numbers are promised to stay the same in all versions, and is rounded to float32, so
    that a C library whose logarithm differs in the last digit does not matter. In memory it takes 8 bytes per
    value. The projection is computed in float64, so that a row does not depend on the rest of its batch, and
    returned as float32: rounding by 6e-8 is no more than what the network did before, and sums are made from
    the rounded rows, so that nothing is inconsistent.

    >>> from PIL import Image
    >>> from layup.backbones import load_backbone
    >>> from layup.features.cache import NoCache
    >>> from layup.features.extract import Extractor
    >>> extractor = Extractor(load_backbone("vit-nano"), ["blocks.11"], cache=NoCache())
    >>> projected = ProjectedRows(extractor, width=300, seed=1)
    >>> projected.layers
    {'random projection (seed 1) of blocks.11': 300}
    >>> projected.extract([Image.new("RGB", (64, 64))]).rows.shape
    (1, 300)
    >>> [*ProjectedRows(extractor, 300, 1, "tanh", "uniform").layers]
    ['random projection (seed 1, tanh, uniform) of blocks.11']
    """

    def __init__(
        self,
        source: FeatureSource,
        width: int,
        seed: int,
        activation: str = "relu",
        drawn: str = "normal",
    ) -> None:
        self.source = source
        self.seed = seed
        self.activation = activation
        self.drawn = drawn
        # Models of other projections, or other layers, must not be merged: so their layers have other names.
        unusual = [each for each in (activation, drawn) if each not in ("relu", "normal")]
        how = ", ".join([f"seed {seed}", *unusual])
        self.layers = {f"random projection ({how}) of {', '.join(source.layers)}": width}

    @cached_property
    def matrix(self) -> Floats:
        """W, of shape (width before) × (width after)."""
        generator = np.random.RandomState(seed_of(self.seed, "projection") % 2**32)
        shape = self.source.width, self.width
        most = 1 / np.sqrt(self.source.width)
        normal = self.drawn == "normal"
        drawn = generator.standard_normal(shape) if normal else generator.uniform(-most, most, shape)
        return _rounded(drawn)

    def mapped(self, rows: Rows) -> Rows:
        """σ(f W) of each row f."""
        return _ACTIVATIONS[self.activation](rows.astype(np.float64) @ self.matrix).astype(np.float32)


class MeanRows(MappedRows):
    """The mean of blocks of the same width, each row brought to mean 0 and variance 1 as by a layer norm.

    >>> from PIL import Image
    >>> from layup.backbones import load_backbone
    >>> from layup.features.cache import NoCache
    >>> from layup.features.extract import Extractor
    >>> extractor = Extractor(load_backbone("vit-nano"), ["blocks.10", "blocks.11"], cache=NoCache())
    >>> mean = MeanRows(extractor)
    >>> mean.layers
    {'mean of blocks.10, blocks.11': 128}
    >>> float(mean.extract([Image.new("RGB", (64, 64))]).rows.std().round(3))
    1.0
    """

    def __init__(self, source: FeatureSource) -> None:
        self.source = source
        self.layers = {f"mean of {', '.join(source.layers)}": min(source.layers.values())}

    def mapped(self, rows: Rows) -> Rows:
        """The mean of the blocks of each row, normalised."""
        means = rows.astype(np.float64).reshape(len(rows), -1, self.width).mean(axis=1)
        around = means - means.mean(axis=1, keepdims=True)
        variances = (around**2).mean(axis=1, keepdims=True)
        normal: Rows = (around / np.sqrt(variances + NORM_EPSILON)).astype(np.float32)
        return normal


class NormalisedRows(MappedRows):
    """f / ‖f‖ of rows f whose values v have become sign(v) |v|ᵖ. Rows of zeros stay as they are.

    A power p below 1 is Tukey's transformation: it makes values that are skewed, such as those after a ReLU,
    more like a Gaussian.

    >>> from PIL import Image
    >>> from layup.backbones import load_backbone
    >>> from layup.features.cache import NoCache
    >>> from layup.features.extract import Extractor
    >>> extractor = Extractor(load_backbone("vit-nano"), ["blocks.11"], cache=NoCache())
    >>> scaled = NormalisedRows(extractor, power=0.5)
    >>> scaled.layers
    {'normalised (power 0.5) blocks.11': 128}
    >>> float((scaled.extract([Image.new("RGB", (64, 64))]).rows ** 2).sum().round(5))
    1.0
    """

    def __init__(self, source: FeatureSource, power: float = 1.0) -> None:
        self.source = source
        self.power = float(power)
        raised = "" if self.power == 1 else f" (power {self.power})"
        self.layers = {f"normalised{raised} {name}": width for name, width in source.layers.items()}

    def mapped(self, rows: Rows) -> Rows:
        """The scaled rows."""
        values = rows.astype(np.float64)
        if self.power != 1:
            values = np.sign(values) * np.abs(values) ** self.power
        lengths = np.linalg.norm(values, axis=1, keepdims=True)
        return (values / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


class FourierRows(MappedRows):
    """√(2/D) cos(f Ω + b) of rows f: random Fourier features of the kernel exp(−γ ‖f − g‖²).

    Ω ~ N(0, 2γ) of shape (their width) × D and b ~ U(0, 2π) follow from the seed. The product of two such
    rows is the kernel of the two f, up to an error of about 1/√D (Rahimi and Recht 2007). They are drawn and
    rounded as the matrix of `ProjectedRows`, and for the same reasons.

    >>> from PIL import Image
    >>> from layup.backbones import load_backbone
    >>> from layup.features.cache import NoCache
    >>> from layup.features.extract import Extractor
    >>> extractor = Extractor(load_backbone("vit-nano"), ["blocks.11"], cache=NoCache())
    >>> fourier = FourierRows(extractor, width=300, gamma=0.01, seed=1)
    >>> fourier.layers
    {'random Fourier features (γ 0.01, seed 1) of blocks.11': 300}
    >>> fourier.extract([Image.new("RGB", (64, 64))]).rows.shape
    (1, 300)
    """

    def __init__(self, source: FeatureSource, width: int, gamma: float, seed: int) -> None:
        self.source = source
        self.gamma = float(gamma)
        self.seed = seed
        name = f"random Fourier features (γ {self.gamma}, seed {seed}) of {', '.join(source.layers)}"
        self.layers = {name: width}

    @cached_property
    def waves(self) -> tuple[Floats, Floats]:
        """Ω and b."""
        generator = np.random.RandomState(seed_of(self.seed, "Fourier") % 2**32)
        drawn = generator.standard_normal((self.source.width, self.width))
        phases = generator.uniform(0, 2 * np.pi, self.width)
        return np.sqrt(2 * self.gamma) * _rounded(drawn), _rounded(phases)

    def mapped(self, rows: Rows) -> Rows:
        """√(2/D) cos(f Ω + b) of each row f."""
        frequencies, phases = self.waves
        angles = rows.astype(np.float64) @ frequencies
        angles += phases
        np.cos(angles, out=angles)
        return np.asarray(np.sqrt(2 / self.width) * angles, np.float32)


class JoinedRows(FeatureSource):
    """The rows of several sources side by side, the blocks of each under its own prefix.

    An image that one of them cannot use is left out. Each source reads (and may decode) every image.

    >>> from PIL import Image
    >>> from layup.backbones import load_backbone
    >>> from layup.features.cache import NoCache
    >>> from layup.features.extract import Extractor
    >>> extractor = Extractor(load_backbone("vit-nano"), ["blocks.11"], cache=NoCache())
    >>> joined = JoinedRows({"frozen": extractor, "tuned": extractor})
    >>> joined.layers
    {'frozen blocks.11': 128, 'tuned blocks.11': 128}
    >>> joined.extract([Image.new("RGB", (64, 64))]).rows.shape
    (1, 256)
    """

    def __init__(self, sources: Mapping[str, FeatureSource]) -> None:
        self.sources = dict(sources)
        self.layers = {
            f"{prefix} {name}": width
            for prefix, source in self.sources.items()
            for name, width in source.layers.items()
        }

    @property
    def extractor(self) -> Extractor:
        """What reads images for the first source."""
        return next(iter(self.sources.values())).extractor

    def reader(self, images: Sequence[ImageSource]) -> Callable[[list[int]], Any]:
        """What reads each image for every source."""
        return _Readers([source.reader(images) for source in self.sources.values()])

    def computed(self, reads: Sequence[Any]) -> list[Extraction]:
        """The rows of what was read, side by side."""
        by_source = zip(*reads, strict=True)
        parts = [source.computed(own) for source, own in zip(self.sources.values(), by_source, strict=True)]
        return [_side_by_side(each) for each in zip(*parts, strict=True)]

    def rows_of(self, pixels: Tensor) -> Rows:
        """The rows of images that are preprocessed as all sources want them."""
        return np.concatenate([source.rows_of(pixels) for source in self.sources.values()], axis=1)

    def recall(self, digests: Sequence[bytes]) -> dict[bytes, Rows]:
        """The rows of what the cache has for all sources."""
        found = [source.recall(digests) for source in self.sources.values()]
        return {
            digest: np.concatenate([each[digest] for each in found])
            for digest in found[0]
            if all(digest in each for each in found)
        }


@dataclass(frozen=True)
class _Readers:
    """Reads the same images for several sources."""

    readers: Sequence[Callable[[list[int]], Any]]

    def __call__(self, indices: list[int]) -> list[Any]:
        return [read(indices) for read in self.readers]


def _side_by_side(parts: Sequence[Extraction]) -> Extraction:
    """Extractions of the same images as one with wider rows."""
    kept = sorted(set.intersection(*(set(part.kept.tolist()) for part in parts)))
    chosen = [np.searchsorted(part.kept, kept) for part in parts]
    bad = {each.index: each for part in parts for each in part.bad}
    return Extraction(
        np.concatenate([part.rows[rows] for part, rows in zip(parts, chosen, strict=True)], axis=1),
        np.array(kept, np.int64),
        [parts[0].digests[row] for row in chosen[0]],
        [bad[index] for index in sorted(bad)],
        sum(part.forwarded for part in parts),
    )


def _rounded(values: Floats) -> Floats:
    """The same to float32."""
    return values.astype(np.float32).astype(np.float64)
