"""The benchmark's loop in Python: two methods on five tasks of digits, and what they forget.

python examples/own_experiment.py
"""

import numpy as np

from layup.backbones import load_backbone
from layup.benchmark import class_incremental, run_tasks
from layup.benchmark.datasets import load_dataset
from layup.benchmark.methods import Setup, method_from
from layup.benchmark.metrics import average_accuracy_curve, forgetting_curve


def main() -> None:
    tasks = class_incremental(load_dataset("digits"), tasks=5, seed=1993, per_class=10)
    backbone = load_backbone("vit-nano")
    for name, options in (("nmc", {}), ("layup", {"k": 6, "lam": "gcv"})):
        method = method_from(name, options)
        learner = method.begin(Setup(backbone, "cil"))
        events = run_tasks(learner, tasks)  # one after each task
        matrix = np.array([done.steps[""].accuracies for done in events], np.float64)
        accuracy, forgetting = average_accuracy_curve(matrix), forgetting_curve(matrix)
        print(name, "average accuracy", accuracy.round(3), "forgetting", forgetting.round(3))


if __name__ == "__main__":
    main()
