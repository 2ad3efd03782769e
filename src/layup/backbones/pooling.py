"""From a layer's output to one vector per image."""

from __future__ import annotations

from dataclasses import dataclass, replace

from torch import Tensor, nn

from layup.errors import InputError


def first_tensor(output: object) -> Tensor | None:
    """The tensor in a module's output: itself, the first of a tuple, or None."""
    while isinstance(output, tuple | list) and output:
        output = output[0]
    return output if isinstance(output, Tensor) else None


@dataclass(frozen=True)
class Pooling:
    """How tokens and maps become one vector.

    Tokens (B, N, C) give the class token if they have one, else the mean of all but the first
    `prefix_tokens`, which do not belong to a patch of the image. Maps give the mean over positions,
    (B, C, H, W) or, with `channels_last`, (B, H, W, C). A vector is left as it is.

    >>> import torch
    >>> tokens = torch.tensor([[[1.0], [2.0], [4.0]]])
    >>> Pooling(class_token=True, prefix_tokens=1)(tokens).item(), Pooling(prefix_tokens=1)(tokens).item()
    (1.0, 3.0)
    """

    class_token: bool = False
    prefix_tokens: int = 0
    channels_last: bool = False

    @classmethod
    def of(cls, network: nn.Module) -> Pooling:
        """From the attributes of a timm network (other networks have none: means)."""
        prefix = getattr(network, "num_prefix_tokens", None) or 0
        return cls(
            # Some networks (XCiT, CaiT) add a class token late: no prefix, so their blocks have none.
            class_token=prefix >= 1 and getattr(network, "cls_token", None) is not None,
            prefix_tokens=prefix,
            channels_last=getattr(network, "output_fmt", None) == "NHWC",
        )

    def fitted(self, shape: tuple[int, ...]) -> Pooling:
        """The same for an output of this shape, for a square image: the shape of maps shows the channels.

        Networks declare it once for all their layers, or not at all; some have layers of both kinds.

        >>> Pooling().fitted((1, 7, 7, 320)).channels_last, Pooling().fitted((1, 320, 7, 7)).channels_last
        (True, False)
        """
        if len(shape) == 4 and (shape[1] == shape[2]) != (shape[2] == shape[3]):
            return replace(self, channels_last=shape[1] == shape[2])
        return self

    def __call__(self, output: object) -> Tensor:
        """(B, …, C) → (B, C): a new float32 tensor, which no later step of the network overwrites."""
        tensor = first_tensor(output)
        if tensor is None or not 2 <= tensor.ndim <= 4:
            what = type(output).__name__ if tensor is None else f"a tensor of shape {tuple(tensor.shape)}"
            raise InputError(
                f"A layer gave {what}. "
                "Choose layers that give vectors (B, C), tokens (B, N, C) or maps (B, C, H, W)."
            )
        if tensor.ndim == 4:
            return tensor.mean((1, 2) if self.channels_last else (2, 3)).float()
        if tensor.ndim == 3 and not self.class_token:
            return tensor[:, self.prefix_tokens :].mean(1).float()
        # A copy: a view of one token would keep all of them in memory.
        return (tensor if tensor.ndim == 2 else tensor[:, 0]).float().clone()
