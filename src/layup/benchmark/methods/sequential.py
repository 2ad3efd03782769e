"""Sequential fine-tuning: the lower bound."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional

from layup.benchmark.methods.fine_tuned import FineTunedLearner
from layup.benchmark.methods.gradient import GradientMethod


class SequentialLearner(FineTunedLearner):
    """All weights, task after task, and nothing against forgetting."""

    def loss(self, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy over all classes so far."""
        return functional.cross_entropy(self.head(self.embed(inputs, training=True)), targets)


@dataclass(frozen=True)
class SequentialMethod(GradientMethod):
    """Fine-tune the whole network on one task after the other, with nothing against forgetting.

    Minimises the cross-entropy of softmax(W f_θ(x) + b) over all classes seen so far, on the images of the
    current task alone, by SGD with momentum; on a stream, by Adam in one pass, as in the paper's Table 3.

    Keeps the P weights of the network, and (d + 1)·C values of the head, 4 bytes each. Costs `epochs` forward
    and backward passes of the whole network per training image, and one forward pass per test image after
    every task.
    Needs nothing: any backbone, any setting.

    epochs: passes over the images of a task; one on a stream.
    learning_rate: of all weights and of the head.
    batch_size: images per step; on a stream, a step is a batch of the stream.
    augmentation: of training images: mild, wide, standard, bright or stretched.
    """

    name = "sequential"
    learner = SequentialLearner
    weight_decay = 5e-4
    settings = ("cil", "dil", "ocl")
    lr_multiplier = 1.0

    epochs: int = 20
    learning_rate: float = 1e-3
    batch_size: int = 128
    augmentation: str = "wide"
