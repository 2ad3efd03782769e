"""Records of runs that never were, but whose numbers belong together as those of a real run do."""

from __future__ import annotations

from typing import Any

import numpy as np

from layup.benchmark.results import Record, Step, TaskFacts


def fake_record(
    method: str = "layup",
    options: dict[str, Any] | None = None,
    *,
    seed: int = 1993,
    tasks: int = 3,
    classes_per_task: int = 2,
    tests_per_class: int = 6,
    skill: float = 0.8,
    fading: float = 0.05,
    setting: str = "cil",
    finished: bool = True,
    peak_memory: int | None = 5_000_000,
    shared_by: int = 1,
    **run: Any,
) -> Record:
    """A run in which an answer is right with the chance `skill`, less `fading` for each task learned.

    The test images are the same for all seeds, in the same order; which classes make which task is not.
    In DIL, each task is a domain with test images of all classes.
    """
    domains = setting == "dil"
    names = [f"class {i:02d}" for i in range(classes_per_task * (1 if domains else tasks))]
    rng = np.random.default_rng([seed, int(1000 * skill), len(method)])
    order = [names[i] for i in np.random.default_rng(seed).permutation(len(names))]
    repeated = names * (tasks if domains else 1)
    shown = [name for name in repeated for _ in range(tests_per_class)]
    truth = np.array([order.index(name) for name in shown])
    task_of = np.repeat(np.arange(tasks), len(shown) // tasks) if domains else truth // classes_per_task
    steps, predictions = [], truth
    for t in range(tasks if finished else tasks - 1):
        asked = task_of <= (tasks if domains else t)
        known = len(order) if domains else (t + 1) * classes_per_task
        wrong = (truth + rng.integers(1, max(known, 2), len(truth))) % known
        predictions = np.where(rng.random(len(truth)) < skill - fading * t, truth, wrong)
        right = predictions == truth
        steps.append(
            Step(
                [
                    float(right[task_of == i].mean()) if asked[task_of == i].all() else None
                    for i in range(tasks)
                ],
                {name: float(right[asked & (truth == c)].mean()) for c, name in enumerate(order[:known])},
                {"lambda": 1.0},
                learn_seconds=2.0,
                predict_seconds=0.5,
                forward_passes=100,
                training_passes=0,
                peak_memory=peak_memory,
                state_bytes=1000 * (t + 1),
                shared_by=shared_by,
            )
        )
    facts = [
        TaskFacts(
            f"task {t + 1}",
            order if domains else order[t * classes_per_task : (t + 1) * classes_per_task],
            train=20,
            test=int((task_of == t).sum()),
        )
        for t in range(tasks)
    ]
    decides = {
        "dataset": "digits",
        "data": "1a2b3c4d5e6f",
        "setting": setting,
        "tasks": tasks,
        "first": None,
        "seed": seed,
        "order": None,
        "shuffled": True,
        "per_class": None,
        "batch": None,
        "method": method,
        "options": {} if options is None else options,
        "backbone": {"name": "vit-nano", "fingerprint": "f00dfeed1234", "pixels": [32, 32]},
        "adapter": None,
        "preset": "default",
        **run,
    }
    last = predictions.tolist() if finished else []
    return Record(
        decides,
        "built in",
        {"layup": "0.1.0"},
        {"system": "Linux"},
        order,
        facts,
        truth.tolist(),
        task_of.tolist(),
        steps,
        last,
    )
