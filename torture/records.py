"""Records of runs that somebody changed: sound, or refused in a sentence; and no harm to the others."""

from __future__ import annotations

from math import isfinite
from pathlib import Path
from random import Random

from layup.benchmark import Record, Step
from layup.errors import LayupError
from torture import command, json_values, raw_bytes
from torture.promise import Promise, Tries, about, require, require_sentence
from torture.shared import from_tests

COMPARED, DRAWN = 50, 500
"""In one of so many tries, the folder is compared, or drawn as well: both take longer than to read."""


def require_sound(record: Record) -> None:
    """Numbers that fit together, as those of a run do."""
    options = record.run.get("options", {}) if isinstance(record.run, dict) else None
    require(isinstance(options, dict), "run is not an object, or has no options", record.run)
    known = record.class_order
    require(_all_texts(known) and len(set(known)) == len(known), "classes are not texts, each once", known)
    for task in record.tasks:
        sound = _all_texts(task.classes) and set(task.classes) <= set(known) and type(task.test) is int
        require(sound, "a task is not what it should be", task)
    indices = [*record.truth, *record.test_tasks, *record.predictions]
    require(all(type(index) is int for index in indices), "an index is not a whole number")
    for step in record.steps:
        _require_sound_step(step)
    for name, value in record.summary.items() if record.finished else ():
        require(value is None or isfinite(value), f"{name} is not finite", value)
    require(isinstance(record.name, str), "it has no name")


def _require_sound_step(step: Step) -> None:
    require(isinstance(step.per_class, dict), "per_class is not an object", step.per_class)
    shares = [*(value for value in step.accuracies if value is not None), *step.per_class.values()]
    require(all(map(_is_number, shares)) and max(shares, default=0) <= 1, "not all from 0 to 1", shares)
    times = [step.learn_seconds, step.predict_seconds, step.forward_passes, step.training_passes]
    require(all(map(_is_number, times)), "times and passes are not all numbers ≥ 0", times)


def _all_texts(values: object) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and isfinite(value) and value >= 0  # type: ignore[arg-type,operator]


def mutated(text: str, record: dict[str, object], chance: Random) -> tuple[bytes, str]:
    """The bytes of a changed record, and what was changed."""
    if chance.random() < 0.2:
        changed, said = raw_bytes.mutated(text.encode(), chance)
        return changed, f"bytes: {said}"
    value, said = json_values.mutated(record, chance, ("layup", "nmc", "dil", "cil"))
    return json_values.text_of(value).encode("utf-8", "surrogatepass"), said


def prepare(folder: Path) -> Tries:
    """A few good records: of two methods and two seeds."""
    fake = from_tests("fake_records").fake_record
    good = [fake(method, seed=seed) for method in ("layup", "nmc") for seed in (1, 2)]
    good[0].write(folder / "sample.json")
    text, value = (folder / "sample.json").read_text("utf-8"), good[0].to_dict()

    def attempt(index: int, chance: Random, home: Path) -> None:
        data, said = mutated(text, value, chance)
        with about(said):
            path = home / "changed.json"
            path.write_bytes(data)
            if index % COMPARED == 0:
                for i, record in enumerate(good[1:]):
                    record.write(home / f"good-{i}.json")
                _compare(home, draw=index % DRAWN == 0)
            try:
                require_sound(Record.read(path))
            except LayupError as error:
                require_sentence(error)

    return Tries(attempt)


def _compare(home: Path, draw: bool) -> None:
    """The good records are compared, whatever other files there are."""
    shown = command.run("compare", home)
    require("layup" in shown and "nmc" in shown, "the good records are not in the table")
    if draw:
        command.run("plot", home, "--out", home / "plots")
        require(any((home / "plots").rglob("*.png")), "nothing was drawn")


PROMISE = Promise(
    "records",
    "A changed record is sound, or refused in a sentence; the others are compared all the same.",
    20_000,
    prepare,
    seconds=60,
)
