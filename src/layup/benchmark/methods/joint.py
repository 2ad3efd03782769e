"""Joint fine-tuning: the upper bound."""

from __future__ import annotations

from dataclasses import dataclass

from layup.benchmark.methods.gradient import GradientMethod
from layup.benchmark.methods.sequential import SequentialLearner


@dataclass(frozen=True)
class JointMethod(GradientMethod):
    """Fine-tune the whole network on all tasks jointly: the upper bound for continual learning.

    Minimises the cross-entropy of softmax(W f_θ(x) + b) over all classes, on the images of all tasks, by SGD
    with momentum; the network learns at a hundredth of the head's rate. Its record has one task.

    Keeps the P weights of the network, and (d + 1)·C values of the head, 4 bytes each. Costs `epochs` forward
    and backward passes of the whole network per training image, and one forward pass per test image. Needs
    all images at the same time.

    epochs: passes over all images.
    learning_rate: of the head; a hundredth of it is the network's.
    batch_size: images per step.
    augmentation: of training images: mild, wide, standard, bright or stretched.
    """

    name = "joint"
    learner = SequentialLearner
    joint = True
    weight_decay = 5e-4
    lr_multiplier = 0.01

    epochs: int = 30
    learning_rate: float = 0.01
    batch_size: int = 128
    augmentation: str = "wide"
