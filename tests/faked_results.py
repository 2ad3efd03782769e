"""Results of reproductions that never were: runs by the skill that a test gives them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fake_records import fake_record
from layup.reproduction.config import Column, ReproductionConfig
from layup.reproduction.results import Results
from layup.reproduction.runner import Missing
from layup.reproduction.spec import NETWORKS, USUAL

DIGITS = Column("digits", "digits", "cil", (4, 6))
STYLES = Column("digits-styles", "digits-styles", "dil", (2, 2))
NANO = dict.fromkeys(NETWORKS, "vit-nano")
QUIET = {"progress": False}


def tiny_config(**changes):
    settings = {"columns": (DIGITS, STYLES), "networks": NANO, "session_epochs": 1, "epochs": 1}
    return ReproductionConfig(**{**settings, **changes})


HELD_OUT = {"adaptformer": 0.5, "ssf": 0.9, "vpt": 0.7, USUAL: 0.5}


def faked(runner, wanted, skill=lambda column, spec: 0.7, *, nested=False):
    """Results in which every run was done, with the skill that is given.

    nested: what a run predicts right, every run of more skill predicts right too, on many images. So equal
    skill means equal predictions, and differences are as exact as they can be.
    """
    found = {}
    for column, spec in wanted:
        chance = skill(column, spec)
        if chance is None:
            found[column, spec] = Missing("It broke.")
            continue
        record = fake_record(
            spec.method,
            dict(spec.options),
            seed=spec.seed,
            setting=spec.setting,
            skill=chance,
            fading=0.0,
            tests_per_class=600 if nested else 40,
        )
        if nested:
            record = _nested(record, chance)
        if spec.per_class is not None:
            record = replace(record, tasks=[replace(task, train=spec.per_class) for task in record.tasks])
        if spec.adapter is not None:
            course = {"epochs": [{"loss": 1.0, "accuracy": HELD_OUT[spec.adapter]}], "kept": 1}
            steps = [
                replace(record.steps[0], chosen={"lambda": 1.0, "adaptation": course}),
                *record.steps[1:],
            ]
            record = replace(record, steps=steps)
        found[column, spec] = record
    return Results(runner, found)


def _nested(record, skill):
    truth, tasks = np.array(record.truth), np.array(record.test_tasks)
    right = np.random.default_rng(0).permutation(len(truth)) < skill * len(truth)
    last = replace(
        record.steps[-1], accuracies=[float(right[tasks == task].mean()) for task in np.unique(tasks)]
    )
    wrong = (truth + 1) % len(record.class_order)
    return replace(
        record, steps=[*record.steps[:-1], last], predictions=np.where(right, truth, wrong).tolist()
    )
