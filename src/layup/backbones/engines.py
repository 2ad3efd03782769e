"""Engines: what computes a network. All give the same vectors, up to rounding, and differ in speed.

Measured speeds: docs/engines.md.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from layup.backbones.folding import folded
from layup.backbones.modules import read
from layup.backbones.pooling import Pooling
from layup.errors import MissingPackageError
from layup.registry import Registry

EAGER = "eager"
OPSET = 17  # of ONNX: known to every runtime since 2022


class Engine(Protocol):
    """Vectors (B, width) of a batch, by the names of the modules that are read."""

    def __call__(self, batch: Tensor) -> dict[str, Tensor]:
        """Compute them."""
        ...


ENGINES: Registry[Engine] = Registry("engine")
"""From network, poolings by name of module, and a batch to try it with, to an engine."""


@ENGINES.register(EAGER)
class Eager:
    """PyTorch, module after module: computes any network, anywhere, even one that was changed since."""

    def __init__(self, network: nn.Module, poolings: Mapping[str, Pooling], batch: Tensor) -> None:
        self.network = network
        self.poolings = poolings

    def __call__(self, batch: Tensor) -> dict[str, Tensor]:
        """One forward pass."""
        return read(self.network, self.poolings, batch)


@ENGINES.register("folded")
class Folded(Eager):
    """The same with batch norms folded into convolutions. Changes nothing without batch norms."""

    def __init__(self, network: nn.Module, poolings: Mapping[str, Pooling], batch: Tensor) -> None:
        super().__init__(folded(network, batch, poolings), poolings, batch)


@ENGINES.register("onnx")
class Onnx:
    """ONNX Runtime on the CPU, for a network on any device. Holds the weights once more."""

    def __init__(self, network: nn.Module, poolings: Mapping[str, Pooling], batch: Tensor) -> None:
        runtime = _onnxruntime()
        self.names = list(poolings)
        file = io.BytesIO()
        with warnings.catch_warnings(), torch.no_grad():
            # It warns about recorded constants, and that this exporter is the older of two: the newer one
            # makes an equally fast graph, but takes many times as long, at every start.
            warnings.simplefilter("ignore")
            torch.onnx.export(
                _Vectors(folded(network, batch, poolings), poolings).eval(),
                (batch,),
                file,  # type: ignore[arg-type]  # this exporter takes it
                dynamo=False,
                opset_version=OPSET,
                input_names=["images"],
                dynamic_axes={"images": {0: "batch"}},
            )
        options = runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        # Waiting threads must not take the cores from those that decode images.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = runtime.InferenceSession(file.getvalue(), options, providers=["CPUExecutionProvider"])

    def __call__(self, batch: Tensor) -> dict[str, Tensor]:
        """One forward pass, and the vectors back on the batch's device."""
        outputs = self.session.run(None, {"images": batch.cpu().contiguous().numpy()})
        return {
            name: torch.from_numpy(output).to(batch.device)
            for name, output in zip(self.names, outputs, strict=True)
        }


class _Vectors(nn.Module):
    """A network with its poolings as one function, from images to the vectors in order."""

    def __init__(self, network: nn.Module, poolings: Mapping[str, Pooling]) -> None:
        super().__init__()
        self.network = network
        self.poolings = dict(poolings)

    def forward(self, batch: Tensor) -> tuple[Tensor, ...]:
        found = read(self.network, self.poolings, batch)
        return tuple(found[name] for name in self.poolings)


class SideBySide(nn.Module):
    """A network with its poolings as one function, from images to the vectors of some modules in one row."""

    def __init__(self, network: nn.Module, poolings: Mapping[str, Pooling], names: Sequence[str]) -> None:
        super().__init__()
        self.network = network
        self.poolings = {name: poolings[name] for name in names}
        self.names = names

    def forward(self, batch: Tensor) -> Tensor:
        """(B, 3, height, width) → (B, all widths)."""
        found = read(self.network, self.poolings, batch)
        return torch.cat([found[name] for name in self.names], dim=1)


def _onnxruntime() -> Any:
    try:
        import onnx  # noqa: F401  # torch writes the graph with it
        import onnxruntime
    except ImportError as error:
        raise MissingPackageError(
            "The engine 'onnx' needs the packages onnx and onnxruntime. "
            "Install them: pip install 'layup-cl[onnx]'."
        ) from error
    return onnxruntime
