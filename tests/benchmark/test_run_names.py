"""A label says how a run differs from the others, and nothing else."""

from __future__ import annotations

import pytest

from fake_records import fake_record
from layup.benchmark.run_names import labels, without_seeds

K6 = {"k": 6, "lam": "search", "balance": False}


def test_seeds_are_taken_out_wherever_they_are():
    run = {"seed": 1, "options": {"seed": 2, "k": 6}, "adapter": {"adapter": {"seed": 3}, "seed": 4}}
    assert without_seeds(run) == {"options": {"k": 6}, "adapter": {"adapter": {}}}


def run(method="layup", **values):
    return {**fake_record(method).run, **values}


def test_one_experiment_is_named_by_its_method():
    assert labels([run()]) == ["layup"]
    assert labels([{}]) == ["run"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"per_class": 5}, "layup 5 per class"),
        ({"tasks": 10}, "layup 10 tasks"),
        ({"setting": "ocl", "batch": 16}, "layup ocl batch=16"),
        ({"first": 50}, "layup first=50"),
        ({"shuffled": False}, "layup no shuffled"),
        ({"order": ["a", "b"]}, "layup order=a,b"),
        ({"preset": "paper"}, "layup preset=paper"),
        ({"options": {"lam": 10.0}}, "layup lam=10"),
        ({"adapter": {"adapter": {"name": "vpt", "tokens": 5}, "epochs": 3}}, "layup vpt"),
        ({"adapter": {"adapter": "auto"}}, "layup auto"),
        ({"dataset": "folder:photos/birds", "data": "99"}, "layup birds"),
        ({"data": "0123456789"}, "layup data 01234567"),
        ({"backbone": {"name": "bundled", "fingerprint": "12", "pixels": [224, 224]}}, "layup bundled"),
        ({"backbone": {**run()["backbone"], "pixels": [64, 32]}}, "layup 64×32 px"),
        ({"backbone": {**run()["backbone"], "fingerprint": "0123456789"}}, "layup weights 01234567"),
        ({"something new": {"deep": True}}, "layup deep"),
    ],
)
def test_a_label_says_what_differs_and_nothing_else(values, expected):
    base = run(options={"lam": 1.0})
    ours = {**base, **values}
    found = labels([base, ours])
    assert found[1] == expected
    assert found[0] != expected
    assert found[0].startswith("layup")


def test_options_that_only_one_method_has_are_not_said():
    assert labels([run(options=K6), run("nmc")]) == ["layup", "nmc"]


def test_a_difference_of_the_backbone_is_said_of_every_method():
    """Otherwise a better network would pass for a better method."""
    other = {"name": "bundled", "fingerprint": "1", "pixels": [224, 224]}
    assert labels([run(), run("nmc", backbone=other)]) == ["layup vit-nano", "nmc bundled"]


def test_of_networks_of_one_kind_only_the_tag_is_said():
    two = [run(backbone={"name": f"vit_base_patch16_224.{tag}"}) for tag in ("augreg_in21k", "mae")]
    assert labels(two) == ["layup augreg_in21k", "layup mae"]


def test_labels_are_always_different():
    lacking = {name: value for name, value in run().items() if name != "preset"}
    found = labels([run(), lacking, run(order="x" * 50), run(order=["x" * 50])])
    assert len(set(found)) == 4
    assert "preset" in found[0] + found[1]
    assert labels([run(data="0123456789"), run(data="01234567xx")])[1].endswith("(2)")


def test_values_of_any_kind_have_a_word() -> None:
    """Records may come from anybody: a size of pixels that is no number is shown as it is."""
    runs = [
        {"method": "nmc", "backbone": {"name": "x", "pixels": pixels}} for pixels in ([64, [64]], [64, 64])
    ]
    assert labels(runs) == ["nmc 64×[64] px", "nmc 64 px"]
