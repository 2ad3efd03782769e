"""Two machines learn separately, their models are merged, and one person's images are forgotten.

python examples/merge_and_forget.py
"""

import numpy as np

from layup import LayUP
from layup.cli.digits import digits_tasks


def main() -> None:
    first, second, *_ = digits_tasks()
    berlin, lima, both = (LayUP("vit-nano", lam="gcv", progress=False) for _ in range(3))
    berlin.learn(*first.train)
    lima.learn(*second.train)

    both.learn(*first.train)
    both.learn(*second.train)
    berlin.merge(lima)
    print("merged = learned together:", np.allclose(berlin.statistics_.gram, both.statistics_.gram))

    images, labels = second.train
    berlin.forget(images[:20], labels[:20])
    never = LayUP("vit-nano", lam="gcv", progress=False)
    never.learn(*first.train)
    never.learn(images[20:], labels[20:])
    print("forgotten = never learned:", np.allclose(berlin.statistics_.gram, never.statistics_.gram))


if __name__ == "__main__":
    main()
