"""torchvision, even if its compiled operators do not fit the installed torch.

A torchvision built for CUDA next to a CPU torch cannot load its compiled library, and then fails at its
first reference to one of its own operators (`operator torchvision::nms does not exist`). layup does not use
them, so it is enough to declare them. Import this module before torchvision or timm; where torchvision works
by itself, it does nothing.
"""

from __future__ import annotations

import sys

import torch

try:
    # First the plain import: declaring an operator that the compiled library also declares is an error.
    import torchvision
except RuntimeError as error:
    if "torchvision::nms" not in str(error):
        raise
    # Parts that were imported before the failure have noted that there are no operators.
    for module in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[module]
    for operator in ("nms", "qnms"):
        torch.library.define(
            f"torchvision::{operator}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
        )
    import torchvision  # noqa: F401
