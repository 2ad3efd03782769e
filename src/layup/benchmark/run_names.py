"""Short names for runs that are compared: what was run, and how it differs from the others."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any


def without_seeds(run: Mapping[str, Any]) -> dict[str, Any]:
    """All that decides a run's numbers except the seeds, wherever they are.

    >>> without_seeds({"method": "layup", "seed": 1993, "adapter": {"epochs": 20, "seed": 0}})
    {'method': 'layup', 'adapter': {'epochs': 20}}
    """
    return {
        name: without_seeds(value) if isinstance(value, Mapping) else value
        for name, value in run.items()
        if name != "seed"
    }


# What is said first; the rest follows in the order of the record. A dot stands for all below.
ORDER = ("options.", "adapter", "adapter.", "preset", "backbone.", "dataset", "data", "setting", "tasks")

# A detail is worth saying only where two experiments have the same of what it is a detail of.
DETAIL_OF = {
    "data": ("dataset",),
    "backbone.fingerprint": ("backbone.name", "backbone.pixels", "preset"),
    "backbone.pixels": ("backbone.name",),
}


# How long a method was trained is always shown: it is the first thing to be shortened, and to be questioned.
ALWAYS = ("options.epochs",)


def labels(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """A short label for each of several different runs: its method, and how it differs from the others.

    >>> runs = [{"method": "layup", "tasks": 5, "options": {"k": k, "balance": True}} for k in (1, 6)]
    >>> labels([*runs, {"method": "nmc", "options": {}}, {"method": "l2p", "options": {"epochs": 5}}])
    ['layup k=1', 'layup k=6', 'nmc', 'l2p epochs=5']
    """
    facts = [facts_of(without_seeds(run)) for run in runs]
    _shorten_backbones(facts)
    keys = sorted(dict.fromkeys(key for own in facts for key in own), key=_rank)
    words = [[str(own.get("method", "run"))] for own in facts]
    for key in keys:
        parents = _parents(key)
        for i, own in enumerate(facts):
            alike = [
                other
                for other in facts
                if key in other and all(_same(other, own, parent) for parent in parents)
            ]
            if key in own and (key in ALWAYS or any(not _same(other, own, key) for other in alike)):
                words[i].append(_word(key, own[key]))
    found = [_joined(each) for each in words]
    # What one has and another lacks is mostly of no interest, but may be the only difference between two.
    for i, own in enumerate(facts):
        twins = [j for j, label in enumerate(found) if label == found[i]]
        lacking = [key for key in keys if any(not _same(facts[j], own, key) for j in twins)]
        words[i] += [_word(key, own.get(key)) for key in lacking]
    found = [_joined(each) for each in words]
    return [
        label if found.count(label) == 1 else f"{label} ({found[: i + 1].count(label)})"
        for i, label in enumerate(found)
    ]


def facts_of(run: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """A run as one level of names, such as options.k; an adapter is its name, and its settings."""
    found: dict[str, Any] = {}
    for name, value in run.items():
        key = f"{above}{name}"
        if key == "adapter" and isinstance(value, Mapping):
            inner = value.get("adapter")
            settings = {f: v for f, v in inner.items() if f != "name"} if isinstance(inner, Mapping) else {}
            found[key] = inner.get("name") if isinstance(inner, Mapping) else inner
            rest = {f: v for f, v in value.items() if f != "adapter"}
            found |= facts_of({**settings, **rest}, f"{key}.")
        elif isinstance(value, Mapping):
            found |= facts_of(value, f"{key}.")
        else:
            found[key] = value
    return found


def _shorten_backbones(facts: Sequence[dict[str, Any]]) -> None:
    """Of timm's names, such as vit_base_patch16_224.augreg_in21k, keep the tag if only tags differ."""
    names = [str(own["backbone.name"]) for own in facts if "backbone.name" in own]
    if len({name.partition(".")[0] for name in names}) == 1 and all("." in name for name in names):
        for own in facts:
            if "backbone.name" in own:
                own["backbone.name"] = str(own["backbone.name"]).partition(".")[2]


def _parents(key: str) -> tuple[str, ...]:
    """What a detail is a detail of. Other methods' options do not matter, except k, which all share."""
    if key.startswith("options.") and key != "options.k":
        return ("method",)
    return DETAIL_OF.get(key, ("adapter",) if key.startswith("adapter.") else ())


def _rank(key: str) -> int:
    for index, name in enumerate(ORDER):
        if key == name or (name.endswith(".") and key.startswith(name)):
            return index
    return len(ORDER)


def _same(a: Mapping[str, Any], b: Mapping[str, Any], key: str) -> bool:
    return (key in a) == (key in b) and bool(a.get(key) == b.get(key))


def _joined(words: Sequence[str]) -> str:
    """Each word once, such as a preset that is both the run's and the adapter's."""
    return " ".join(dict.fromkeys(word for word in words if word))


def _word(key: str, value: Any) -> str:
    """What a label says about a value; nothing if it is not set.

    >>> _word("options.k", 6), _word("options.balance", False), _word("per_class", None)
    ('k=6', 'no balance', '')
    >>> _word("backbone.pixels", [224, 224]), _word("dataset", "folder:photos/birds")
    ('224 px', 'birds')
    """
    name = key.rpartition(".")[2].replace("_", " ")
    if value is None or key == "method":
        return ""
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if key == "dataset":
        return short_dataset(value)
    if key in ("setting", "adapter", "backbone.name"):
        return str(value)
    if key in ("data", "backbone.fingerprint"):
        return f"{'data' if key == 'data' else 'weights'} {str(value)[:8]}"
    if key == "backbone.pixels":
        sides = value if isinstance(value, list) else [value]
        return f"{'×'.join(dict.fromkeys(map(str, sides)))} px"
    if key in ("tasks", "per_class"):
        return f"{value} {name}"
    if isinstance(value, list):
        text = ",".join(map(str, value))
        return f"{name}={text if len(text) <= 12 else blake2b(text.encode(), digest_size=2).hexdigest()}"
    return f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"


def natural_order(label: str) -> list[tuple[float, str]]:
    """A key by which labels are sorted so that k=6 comes before k=12.

    >>> sorted(["k=12", "k=6", "nmc"], key=natural_order)
    ['k=6', 'k=12', 'nmc']
    """
    parts = re.split(r"(\d+(?:\.\d+)?(?:e[+-]\d+)?)", label)
    return [(float(part), "") if i % 2 else (math.inf, part) for i, part in enumerate(parts)]


def short_dataset(value: object) -> str:
    """The name of a dataset without its kind and its folders.

    >>> short_dataset("folder:photos/birds")
    'birds'
    """
    return Path(str(value).rpartition(":")[2]).name or str(value)
