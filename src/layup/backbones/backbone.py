"""A frozen network as a reader of images: one vector per layer."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass
from numbers import Integral
from typing import Any, Self

import torch
from PIL import Image
from torch import Tensor, nn

from layup.backbones.engines import EAGER, ENGINES, Engine, SideBySide
from layup.backbones.folding import folded
from layup.backbones.modules import read, weighed
from layup.backbones.names import unknown_among_many
from layup.backbones.passes import Passes
from layup.backbones.pooling import Pooling, first_tensor
from layup.backbones.preprocessing import Preprocessing
from layup.errors import InputError, LayupError, first_line
from layup.formats import has_controls
from layup.memory import Forecast, require

NETWORK = ""  # the name of the network among its own modules, as torch has it
HEAD = "head"  # the name of the embedding where it counts as a layer
TOKEN_LAYERS = 6  # the paper's k, for networks of tokens
ROUNDING = 1e-3  # of the largest value: far above the rounding of sums in another order, far below an error
BATCH = 32  # images that pass through the network together
SHAPE = 16  # the same where vectors must not depend on how many there are
COPIES = 2  # of the input and output of the largest module: residuals, and what convolutions make of them
MAP_LAYERS_SHARE = 0.35  # of the depth, for networks of maps, whose depth varies from 4 to 200


@dataclass(frozen=True)
class Layer:
    """A module whose output is read, and how many values per image it gives."""

    name: str
    width: int


@dataclass(frozen=True)
class Activations:
    """The vectors of a batch: (B, width) per layer, shallow to deep, and the embedding (B, width)."""

    layers: tuple[Tensor, ...]
    embedding: Tensor


@dataclass
class _Made:
    """What is made when first needed; shared by views of a backbone that differ in neither."""

    fingerprint: str | None = None
    engine: Engine | None = None


class Backbone:
    """A frozen pre-trained network that turns images into one vector per layer and a final embedding.

    Usually made by `load_backbone`, or by `Backbone.from_module` for your own network. A call costs one
    forward pass: hooks reduce each layer's output to its vector on the way, and are removed afterwards.

    >>> from layup.backbones import load_backbone
    >>> backbone = load_backbone("vit-nano")
    >>> backbone
    Backbone('vit-nano', 12 layers, 64 × 64 pixels)
    >>> from PIL import Image
    >>> batch = backbone.preprocess(Image.new("RGB", (80, 60))).unsqueeze(0)
    >>> activations = backbone(batch)
    >>> len(activations.layers), activations.layers[-1].shape, activations.embedding.shape
    (12, torch.Size([1, 128]), torch.Size([1, 128]))

    Attributes:
        name: What it is called, such as "bundled" or a full timm name.
        spec: The keyword arguments of `load_backbone` that rebuild it, as plain JSON values; None for your
            own module.
        network: The `nn.Module`, frozen and in eval mode; images in, embedding out.
        preprocessing: How images are prepared for it.
        layers: The layers, shallow to deep.
        embedding_width: How many values the embedding has.
        default_k: How many of the last layers to use by default.
        device: Where it runs.
        engine: What computes the network, a name of `layup.backbones.ENGINES`; see `with_engine`.
        passes: How many images have passed through it; see `counted`.
    """

    def __init__(
        self,
        network: nn.Module,
        layers: Sequence[str],
        preprocessing: Preprocessing,
        *,
        name: str,
        architecture: str,
        spec: dict[str, Any] | None = None,
        pooling: Pooling | None = None,
        embedding: str | None = None,
        head_is_layer: bool = False,
        default_k: int | None = None,
        device: str | torch.device | None = None,
    ) -> None:
        self.name = name
        self.architecture = architecture
        self.spec = spec
        self.preprocessing = preprocessing
        self.engine = EAGER
        self.passes = Passes()
        self.device = torch.device("cpu" if device is None else device)
        self.network = network.to(self.device, torch.float32).eval().requires_grad_(False)
        self._names = _known(self.network, layers)
        self._embedding = NETWORK if embedding is None else _known(self.network, [embedding])[0]

        outputs = self._dry_run()
        if self._embedding not in outputs:  # the network does not return a tensor
            self._embedding = self._names[-1]
        pooling = Pooling.of(network) if pooling is None else pooling
        square = preprocessing.size[0] == preprocessing.size[1]
        self._poolings = {
            name: pooling.fitted(tuple(output.shape)) if square else pooling
            for name, output in outputs.items()
        }
        deepest = self._names[-1]
        gives_maps = outputs[deepest].ndim == 4
        # On a CPU convolutions run faster with the channels innermost.
        innermost = gives_maps and not self._poolings[deepest].channels_last and self.device.type == "cpu"
        self.memory_format = torch.channels_last if innermost else torch.contiguous_format
        self.network.to(memory_format=self.memory_format)  # type: ignore[call-overload]

        widths = {name: pool(outputs[name]).shape[1] for name, pool in self._poolings.items()}
        self.layers = tuple(Layer(name, widths[name]) for name in self._names)
        self.embedding_width = widths[self._embedding]
        self._head_is_layer = head_is_layer and self.embedding_width != widths[deepest]
        if self._head_is_layer:
            self.layers += (Layer(HEAD, self.embedding_width),)
        if default_k is None:
            share = max(1, round(self.depth * MAP_LAYERS_SHARE))
            default_k = share if gives_maps else min(TOKEN_LAYERS, self.depth)
        self.default_k = default_k
        self.refresh()

    @classmethod
    def from_module(
        cls,
        module: nn.Module,
        layers: Sequence[str],
        preprocessing: Preprocessing,
        *,
        embedding: str | None = None,
        pooling: Pooling | None = None,
        device: str | torch.device | None = None,
    ) -> Backbone:
        """Any network, with the names of the modules to read, shallow to deep.

        The module itself is used, not a copy: it is frozen and put in eval mode. The embedding is the
        output of the module named by `embedding`; without it, that of the network or, if that is not a
        tensor, of the last layer.

        >>> network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 5, 3))
        >>> backbone = Backbone.from_module(network, ["1", "2"], Preprocessing((8, 8), (8, 8), "squash"))
        >>> backbone.layers
        (Layer(name='1', width=4), Layer(name='2', width=5))
        """
        return cls(
            module,
            layers,
            preprocessing,
            name=type(module).__name__,
            architecture=_describe(module),
            pooling=pooling,
            embedding=embedding,
            device=device,
        )

    def with_engine(self, engine: str) -> Self:
        """The same backbone, computed by another engine: other speed, and other rounding.

        Costs nothing until the first image. Then the engine is made, and checked against the network.

        >>> from layup.backbones import load_backbone
        >>> load_backbone("vit-nano").with_engine("folded").engine
        'folded'
        """
        _ = ENGINES[engine]  # refuses an unknown one now
        other = copy(self)
        other.engine = engine
        other._made = _Made(fingerprint=self._made.fingerprint)
        return other

    def with_preprocessing(self, preprocessing: Preprocessing) -> Self:
        """The same backbone with another way to prepare images of the same size."""
        other = copy(self)
        other.preprocessing = preprocessing
        other._made = _Made(engine=self._made.engine)
        return other

    def counted(self) -> Self:
        """The same backbone with its own counter: `passes` counts only the images that this one reads.

        >>> from layup.backbones import load_backbone
        >>> backbone = load_backbone("vit-nano")
        >>> mine, yours = backbone.counted(), backbone.counted()
        >>> _ = mine(torch.zeros(5, 3, 64, 64))
        >>> mine.passes, yours.passes
        (Passes(reading=5, training=0), Passes(reading=0, training=0))
        """
        other = copy(self)
        other.passes = Passes()
        return other

    @property
    def depth(self) -> int:
        """The number of layers."""
        return len(self.layers)

    @property
    def together(self) -> int:
        """How many images `steadily` sends through the network together."""
        return SHAPE if self.device.type == "cpu" else BATCH

    @property
    def frozen(self) -> Backbone:
        """The network before any first session: itself, unless it was adapted."""
        return self

    def last(self, k: int) -> tuple[str, ...]:
        """The names of the last k layers, shallow to deep.

        >>> from layup.backbones import load_backbone
        >>> load_backbone("vit-nano").last(2)
        ('blocks.10', 'blocks.11')
        """
        if not isinstance(k, Integral):
            raise InputError(
                f"k = {k!r} is not a number of layers. Use a whole number from 1 to {self.depth}."
            )
        if not 1 <= k <= self.depth:
            wrong = "asks for more layers than" if k > self.depth else "is not a number of layers for"
            has = " has" if k > self.depth else ""
            raise InputError(
                f"k = {k} {wrong} {self.name!r}{has}: it has {self.depth} "
                f"({self.layers[0].name} … {self.layers[-1].name}). Use k between 1 and {self.depth}."
            )
        return tuple(layer.name for layer in self.layers[-k:])

    def preprocess(self, image: Image.Image) -> Tensor:
        """An image as the network wants it: float32, (3, height, width)."""
        rgb = image if image.mode == "RGB" else image.convert("RGB")
        tensor: Tensor = self.preprocessing.transform(rgb)
        return tensor

    def __call__(self, batch: Tensor) -> Activations:
        """Read a batch (B, 3, height, width) of preprocessed images."""
        expected = (3, *self.preprocessing.size)
        if batch.ndim != 4 or tuple(batch.shape[1:]) != expected:
            raise InputError(
                f"A batch of shape {tuple(batch.shape)} does not fit {self.name!r}, which reads "
                f"(B, {', '.join(map(str, expected))}). Make it from images that went through `preprocess`."
            )
        seen = self._pass(batch)
        self.passes.count(len(batch), training=False)
        return seen

    def steadily(self, batch: Tensor) -> Activations:
        """The same in passes of one shape: 16 images each, the last one filled up with zeros.

        Libraries choose how to multiply by the size of what they are given, and rounding follows from it. So
        the last bits of a vector depend on how many images pass together, unless it is always as many.

        >>> from layup.backbones import load_backbone
        >>> backbone = load_backbone("bundled")
        >>> batch = torch.rand(3, 3, 160, 160, generator=torch.Generator().manual_seed(0))
        >>> one, three = backbone.steadily(batch[:1]), backbone.steadily(batch)
        >>> bool((one.embedding[0] == three.embedding[0]).all())
        True
        """
        shape = self.together
        parts = [
            self._pass(nn.functional.pad(part, (0, 0, 0, 0, 0, 0, 0, shape - len(part))))
            for part in torch.split(batch, shape)
        ]
        self.passes.count(len(batch), training=False)
        layers = zip(*(part.layers for part in parts), strict=True)
        return Activations(
            tuple(torch.cat(layer)[: len(batch)] for layer in layers),
            torch.cat([part.embedding for part in parts])[: len(batch)],
        )

    def _pass(self, batch: Tensor) -> Activations:
        compute = self._engine()  # made before the pass: what it holds must not belong to inference mode
        with torch.inference_mode():
            vectors = compute(self._ready(batch))
        embedding = vectors[self._embedding]
        layers = tuple(vectors[name] for name in self._names)
        return Activations((*layers, embedding) if self._head_is_layer else layers, embedding)

    def side_by_side(self, layers: Sequence[str]) -> nn.Module:
        """These layers as one function without hooks of its own, to be exported: (B, 3, h, w) → (B, widths).

        A name that is not that of a layer is the embedding's. Batch norms are folded into convolutions.
        """
        names = [name if name in self._names else self._embedding for name in layers]
        height, width = self.preprocessing.size
        batch = self._ready(torch.zeros(2, 3, height, width))
        return SideBySide(folded(self.network, batch, names), self._poolings, names)

    def embed(self, batch: Tensor, *, training: bool = True) -> Tensor:
        """Only the embedding (B, width); gradients can flow back through it.

        `training` says how the pass is counted.
        """
        reader = {self._embedding: self._poolings[self._embedding]}
        embedding = read(self.network, reader, self._ready(batch))[self._embedding]
        self.passes.count(len(batch), training=training)
        return embedding

    def forecast(self, images: int = BATCH) -> Forecast:
        """The memory that a pass of `images` takes in addition to the weights, measured with one image."""
        return Forecast({"a batch in the network": images * self._pass_bytes}, SMALLER_IMAGES)

    @property
    def fingerprint(self) -> str:
        """Hex SHA-256 of what decides the vectors: architecture, weights, preprocessing, layers, pooling.

        The device, the memory format and the versions of torch and timm are not part of it. Costs one pass
        over the weights, once; call `refresh` after a change of `network`.
        """
        if self._made.fingerprint is None:
            self._made.fingerprint = self._digest()
        return self._made.fingerprint

    @property
    def features_key(self) -> str:
        """The key of this backbone's vectors in a cache: its fingerprint, and its engine.

        Vectors of two engines differ by rounding, so they must not be mixed.
        """
        return self.fingerprint if self.engine == EAGER else f"{self.fingerprint}-{self.engine}"

    def refresh(self) -> None:
        """Let fingerprint and engine be made again: `network` was changed, for example by adapters."""
        self._made = _Made()

    def __repr__(self) -> str:
        height, width = self.preprocessing.size
        return f"Backbone({self.name!r}, {self.depth} layers, {height} × {width} pixels)"

    def _ready(self, batch: Tensor) -> Tensor:
        """The batch on the device and in the format of the network."""
        return batch.to(self.device, torch.float32, memory_format=self.memory_format)

    def _digest(self) -> str:
        choices = {
            "architecture": self.architecture,
            "preprocessing": self.preprocessing.to_dict(),
            "layers": [layer.name for layer in self.layers],
            "pooling": {name: asdict(pooling) for name, pooling in self._poolings.items()},
            "embedding": self._embedding,
        }
        digest = hashlib.sha256(json.dumps(choices, sort_keys=True).encode())
        for name, tensor in sorted(self.network.state_dict().items()):
            if name.endswith("num_batches_tracked"):  # counts training steps; no output depends on it
                continue
            digest.update(f"\n{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
            digest.update(tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
        return digest.hexdigest()

    def _engine(self) -> Engine:
        """The engine, checked against the network."""
        if self._made.engine is None:
            self._made.engine = self._made_engine()
        return self._made.engine

    def _made_engine(self) -> Engine:
        height, width = self.preprocessing.size
        noise = torch.rand(3, 3, height, width, generator=torch.Generator().manual_seed(0)) * 2 - 1
        batch = self._ready(noise)
        try:
            engine = ENGINES[self.engine](self.network, self._poolings, batch[:2])
            if self.engine != EAGER:
                self._require_the_same(engine, batch)
        except LayupError:
            raise
        except Exception as error:  # exporters and runtimes raise many kinds of errors
            raise InputError(
                f"The engine {self.engine!r} cannot compute {self.name!r}: {first_line(error)} "
                f"Use {EAGER!r}, which computes any network."
            ) from error
        return engine

    def _require_the_same(self, engine: Engine, batch: Tensor) -> None:
        """Refuse an engine with other results: an exported graph may have left something out."""
        with torch.inference_mode():
            expected, given = read(self.network, self._poolings, batch), engine(batch)
        for name, vectors in expected.items():
            gap = float((given[name] - vectors).abs().max() / vectors.abs().max().clamp_min(1e-30))
            if not gap <= ROUNDING:
                raise InputError(
                    f"The engine {self.engine!r} computes {self.name!r} wrongly: layer {name!r} is "
                    f"off by {gap:.1g} of its largest value. Use {EAGER!r}, which computes any network."
                )

    def _dry_run(self) -> dict[str, Tensor]:
        """The output of each read module for one black image; without the network's, if not a tensor."""
        height, width = self.preprocessing.size
        require_room((height, width))
        names = dict.fromkeys((*self._names, self._embedding), first_tensor)
        try:
            batch = torch.zeros(1, 3, height, width, device=self.device)
            with torch.inference_mode(), weighed(self.network) as largest:
                outputs = read(self.network, names, batch)
            self._pass_bytes = COPIES * largest()
        except (RuntimeError, ValueError, AssertionError) as error:
            raise InputError(
                f"{self.name!r} cannot read images of {height} × {width} pixels: {first_line(error)} "
                "Use another input_size, or None for the network's own."
            ) from error
        for name in names:
            if name not in outputs:
                raise InputError(
                    f"Layer {name!r} of {self.name!r} is not used in the forward pass. Leave it out."
                )
            output = outputs[name]
            if (output is None or output.shape[:1] != (1,)) and name != NETWORK:
                what = "no tensor" if output is None else f"shape {tuple(output.shape)}"
                raise InputError(
                    f"Layer {name!r} of {self.name!r} gives {what} for a batch of one image. "
                    "Choose layers whose output is a tensor with the batch first."
                )
        return {name: output for name, output in outputs.items() if output is not None}


SMALLER_IMAGES = {"a smaller input size": Forecast({})}


def require_room(size: tuple[int, int]) -> None:
    """Refuse images so large that a batch of them would not fit into memory, before anything is built."""
    height, width = size
    pixels = 2 * 3 * torch.float32.itemsize * BATCH * height * width  # decoded, and then as a batch
    require(Forecast({"pixels": pixels}, SMALLER_IMAGES), f"Reading images of {height} × {width} pixels")


def _known(network: nn.Module, names: Sequence[str]) -> tuple[str, ...]:
    """The names, if there is at least one and the network has all of them."""
    if not names:
        raise InputError("No layers were given. Name at least one module of the network.")
    modules = [name for name, _ in network.named_modules() if name]
    for name in names:
        if name not in modules:
            raise unknown_among_many("layer", name, modules, "see `network.named_modules()`")
        if has_controls(name):
            raise InputError(f"The layer {name!r} has control characters in its name. Rename the module.")
    return tuple(names)


def _describe(module: nn.Module) -> str:
    """The classes and settings of a tree of modules, as text."""
    return "\n".join(
        f"{name} {type(part).__module__}.{type(part).__qualname__}({part.extra_repr()})"
        for name, part in module.named_modules()
    )
