"""Repeats are put together, errors are of one kind, and only what belongs together is paired."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from fake_records import fake_record
from layup.benchmark import metrics
from layup.benchmark.comparison import (
    METRICS,
    accuracy_curve,
    authors_passes,
    compare,
    difference,
    forgetting_curve,
    to_csv,
    to_json,
)
from layup.errors import InputError, MismatchError, UnknownNameError

SEEDS = (1993, 1994, 1995)
K6 = {"k": 6, "lam": "search", "balance": False}
K1 = {**K6, "k": 1}


@pytest.fixture
def records():
    """Three experiments of three seeds each."""
    return [
        fake_record(method, options, seed=seed, skill=skill)
        for seed in SEEDS
        for method, options, skill in (("layup", K6, 0.9), ("layup", K1, 0.8), ("nmc", {}, 0.6))
    ]


def find(comparison, label):
    return comparison.find(label)


def compared(records):
    """The one comparison of records of one dataset and setting."""
    [found] = compare(records)
    return found


# Which runs belong together


def test_runs_that_differ_only_in_seeds_are_one_experiment(records):
    found = compared(records)
    assert [group.label for group in found.groups] == ["layup k=1", "layup k=6", "nmc"]
    assert all(tuple(group.seeds) == SEEDS for group in found.groups)
    assert found.notes == []
    assert found.subject == "digits, cil"


def test_the_seed_of_an_adapter_is_a_seed_too():
    def adapted(seed, epochs=20):
        return {"adapter": {"name": "ssf"}, "epochs": epochs, "seed": seed}

    same = [fake_record(seed=seed, adapter=adapted(seed)) for seed in SEEDS]
    other = fake_record(adapter=adapted(1, epochs=5))
    found = compared([*same, other])
    assert [len(group.records) for group in found.groups] == [1, 3]
    assert [group.label for group in found.groups] == ["layup epochs=5", "layup epochs=20"]


def test_a_record_given_twice_counts_once(records):
    twice = compared([*records, *records])
    assert [len(group.records) for group in twice.groups] == [3, 3, 3]
    assert twice.notes == []


def test_a_run_with_two_results_is_remarked_upon(records):
    again = replace(records[0], predictions=records[0].predictions[::-1])
    found = compared([*records, again])
    assert len(found.groups[0].records) == 3
    assert "twice, with other numbers" in found.notes[0]


def test_nothing_and_the_unfinished_are_refused():
    with pytest.raises(InputError, match="nothing to compare"):
        compare([])
    with pytest.raises(InputError, match="2 of 3 tasks"):
        compared([fake_record(finished=False)])


def test_each_dataset_and_setting_is_a_comparison_by_itself():
    runs = [fake_record(), fake_record(data="ffff0000aaaa"), fake_record(setting="dil"), fake_record("nmc")]
    found = compare(runs)
    assert [each.subject for each in found] == ["digits 1a2b3c4d, cil", "digits ffff0000, cil", "digits, dil"]
    assert [[group.label for group in each.groups] for each in found] == [
        ["layup", "nmc"],
        ["layup"],
        ["layup"],
    ]


def test_other_seeds_are_marked(records):
    assert "same seeds" in compared(records[:-1]).notes[0]


def test_rows_are_found_by_label_or_number_and_otherwise_there_is_a_guess(records):
    found = compared(records)
    assert found.find("nmc") is found.find("3") is found.groups[2]
    for wrong in ("layup k=5", "0", "4", "²"):
        with pytest.raises(UnknownNameError, match="numbers from 1 to 3"):
            found.find(wrong)
    with pytest.raises(UnknownNameError, match=r"Did you mean 'layup k=\d'"):
        found.find("layup k=5")


# Numbers


def test_means_and_errors_over_seeds(records):
    group = compared(records).groups[1]  # that of the first record
    values = [record.summary["average_accuracy"] for record in records[::3]]
    found = group.measure("average_accuracy")
    assert found.mean == pytest.approx(np.mean(values))
    assert found.error == pytest.approx(np.std(values, ddof=1) / np.sqrt(3))
    assert found.over == "seeds"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("seconds", 7.5),
        ("learn_seconds", 6.0),
        ("predict_seconds", 1.5),
        ("forward_passes", 300),
        ("training_passes", 0),
        ("peak_memory", 5_000_000),
        ("state_bytes", 3000),
        ("authors_forward_passes", 60 + 12 * 3 + 12 * 2 + 12),
    ],
)
def test_what_a_run_took(name, value, records):
    found = compared(records).groups[0].measure(name)
    assert (found.mean, found.error, found.over) == (value, None, None)  # all took the same


def test_memory_that_the_system_did_not_tell_is_unknown():
    """Of one run or of some of them: the mean of the others would be that of fewer seeds."""
    silent = fake_record(peak_memory=None)
    assert compared([silent]).groups[0].measure("peak_memory").mean is None
    assert compared([silent, fake_record(seed=7)]).groups[0].measure("peak_memory").mean is None


def test_the_authors_ask_each_task_after_every_later_one():
    record = fake_record(tasks=4, tests_per_class=5)
    passes = 0
    for t in range(4):
        passes += record.tasks[t].train
        for seen in range(t + 1):
            passes += record.tasks[seen].test
    assert authors_passes(record) == passes


def test_the_error_of_one_run_is_that_of_its_test_images():
    record = fake_record(tests_per_class=50)
    group = compared([record]).groups[0]
    right = np.array(record.truth) == np.array(record.predictions)
    shares = [right[np.array(record.test_tasks) == t].mean() for t in range(3)]
    average = group.measure("average_accuracy")
    assert average.over == "images"
    assert average.mean == pytest.approx(np.mean(shares))
    assert average.error == pytest.approx(np.sqrt(sum(p * (1 - p) / 100 for p in shares)) / 3, rel=0.05)
    # The predictions in between are not in the record.
    assert group.measure("forgetting").over is None
    assert group.measure("seconds").over is None


def test_what_is_undefined_has_no_mean():
    group = compared([fake_record(tasks=1, seed=seed) for seed in SEEDS]).groups[0]
    assert group.measure("forgetting").mean is None
    assert group.measure("average_accuracy").mean is not None


def test_an_unknown_metric_has_a_guess(records):
    with pytest.raises(UnknownNameError, match="Did you mean 'forgetting'"):
        compared(records).groups[0].measure("forgeting")


def test_curves_over_seeds(records):
    group = compared(records).groups[0]
    found = group.curve(accuracy_curve)
    assert found.mean[-1] == pytest.approx(group.measure("average_accuracy").mean)
    assert found.error[-1] == pytest.approx(group.measure("average_accuracy").error)
    assert np.isnan(group.curve(forgetting_curve).mean[0])


def test_classes_at_first_and_at_last(records):
    one = compared(records[:1]).groups[0]
    steps = records[0].steps
    assert one.per_class() == steps[-1].per_class
    first = one.per_class(first=True)
    for t, task in enumerate(records[0].tasks):
        assert {name: first[name] for name in task.classes} == {
            name: steps[t].per_class[name] for name in task.classes
        }
    group = compared(records).groups[0]
    ends = [record.steps[-1].per_class["class 03"] for record in group.records]
    assert group.per_class()["class 03"] == pytest.approx(np.mean(ends))


def test_confusion_is_summed_by_name(records):
    one = compared(records[:1]).groups[0]
    names, table = one.confusion()
    assert names == records[0].class_order
    group = compared(records).groups[0]
    names, table = group.confusion()
    assert names == sorted(names)
    assert table.sum() == sum(len(record.truth) for record in group.records)
    own = {name: value * 18 for name, value in group.per_class().items()}  # 6 tests of 3 runs
    assert {name: table[i, i] for i, name in enumerate(names)} == pytest.approx(own)


# Differences


def test_differences_are_paired_by_seed(records):
    found = compared(records)
    a, b = found.groups[0], found.groups[2]
    gaps = [
        x.summary["average_accuracy"] - y.summary["average_accuracy"]
        for x, y in zip(a.records, b.records, strict=True)
    ]
    gap = difference(a, b)
    assert (gap.over, gap.pairs, gap.low) == ("seeds", 3, None)
    assert gap.mean == pytest.approx(np.mean(gaps))
    assert gap.error == pytest.approx(metrics.standard_error(gaps))
    assert difference(b, a).mean == pytest.approx(-gap.mean)


def test_one_pair_is_bootstrapped_over_test_images():
    a, b = fake_record(skill=0.95, tests_per_class=40), fake_record("nmc", skill=0.5, tests_per_class=40)
    found = compared([a, b])
    gap = difference(*found.groups)
    assert (gap.over, gap.pairs) == ("images", 1)
    assert gap.mean == pytest.approx(a.summary["average_accuracy"] - b.summary["average_accuracy"])
    assert 0 < gap.low < gap.mean < gap.high


def test_only_seeds_in_common_are_paired(records):
    one = fake_record("other", seed=1994)
    found = compared([*records, one])
    gap = difference(found.find("layup k=6"), found.find("other"))
    expected = records[3].summary["average_accuracy"] - one.summary["average_accuracy"]
    assert gap.pairs == 1
    assert gap.mean == pytest.approx(expected)
    stranger = compared([*records, fake_record("other", seed=7)])
    with pytest.raises(MismatchError, match=r"no seed in common \(1993, 1994, 1995; 7\)"):
        difference(stranger.groups[0], stranger.find("other"))


def test_repeats_of_one_seed_have_a_mean_but_no_error():
    def adapted(seed, skill):
        return fake_record(skill=skill, adapter={"adapter": {"name": "ssf"}, "seed": seed})

    a, b, plain = adapted(1, 0.9), adapted(2, 0.8), fake_record("nmc", skill=0.5)
    found = compared([a, b, plain])
    gap = difference(found.groups[0], found.groups[1])
    assert (gap.error, gap.over, gap.pairs) == (None, None, 1)


def test_other_test_images_are_not_paired():
    found = compared([fake_record(), fake_record("nmc", tests_per_class=7)])
    with pytest.raises(MismatchError, match="different images: 36 of digits 1a2b3c4d, and 42"):
        difference(*found.groups)


def test_tests_are_the_same_if_their_names_are():
    """Places in the order of classes mean other classes in another order."""
    record = fake_record("nmc", tests_per_class=20)
    flipped = record.class_order[::-1]
    other = replace(
        fake_record(tests_per_class=20),
        class_order=flipped,
        truth=[flipped.index(record.class_order[i]) for i in record.truth],
    )
    found = compared([record, replace(other, predictions=other.truth)])
    assert difference(found.groups[1], found.groups[0]).over == "images"
    same_places = compared([record, replace(other, truth=record.truth)])
    with pytest.raises(MismatchError, match="different images"):
        difference(*same_places.groups)


def test_one_pair_of_other_tasks_is_refused_but_several_are_not():
    def two(seeds):
        return [
            fake_record(seed=seed, tasks=tasks, classes_per_task=6 // tasks)
            for tasks in (2, 3)
            for seed in seeds
        ]

    with pytest.raises(MismatchError, match="divide the test images among tasks"):
        difference(*compared(two([1])).groups)
    assert difference(*compared(two([1, 2])).groups).over == "seeds"


def test_a_task_without_tests_leaves_nothing_to_compare():
    record = fake_record()
    last = replace(record.steps[-1], accuracies=[None, 0.5, 0.5])
    found = compared([replace(record, steps=[*record.steps[:-1], last]), fake_record("nmc")])
    assert found.groups[0].measure("average_accuracy").mean is None
    with pytest.raises(InputError, match="a task without tests"):
        difference(*found.groups)


# Exports


def test_json_has_everything_by_its_full_name(records):
    found = compared(records)
    rows = json.loads(json.dumps(to_json(found, METRICS, found.groups[2]), allow_nan=False))
    assert {row["against"] for row in rows} == {"nmc"}
    assert [row["label"] for row in rows] == ["layup k=1", "layup k=6", "nmc"]
    assert set(rows[0]["metrics"]) == set(METRICS)
    assert rows[1]["run"]["options"] == K6
    assert rows[0]["difference"]["over"] == "seeds"
    assert rows[2]["difference"] is None
    assert "difference" not in to_json(found, METRICS)[0]


def test_csv_has_a_line_a_group(records):
    found = compared(records)
    lines = list(csv.DictReader(io.StringIO(to_csv(to_json(found, METRICS, found.groups[2])))))
    assert [line["label"] for line in lines] == ["layup k=1", "layup k=6", "nmc"]
    assert [line["run.options.k"] for line in lines] == ["1", "6", ""]
    measured = found.groups[0].measure("forgetting")
    assert float(lines[0]["forgetting"]) == measured.mean
    assert float(lines[0]["forgetting.standard_error"]) == measured.error
    assert lines[0]["forgetting.error_over"] == "seeds"
    assert lines[0]["seeds"] == "1993 1994 1995"
    assert float(lines[0]["difference"]) == pytest.approx(difference(found.groups[0], found.groups[2]).mean)
    assert lines[2]["difference"] == ""
    assert list(lines[0]).index("run.options.k") < list(lines[0]).index("average_accuracy")
    assert "difference" not in to_csv(to_json(found, ["seconds"])).splitlines()[0]


# Runs in which the seeds decide nothing


def alike(method="layup", seeds=SEEDS, **values):
    """Runs of several seeds that end with the same predictions, as the same sums in another order do."""
    first = fake_record(method, seed=seeds[0], **values)
    names = [first.class_order[index] for index in first.predictions]
    found = [first]
    for seed in seeds[1:]:
        other = fake_record(method, seed=seed, **values)
        found.append(replace(other, predictions=[other.class_order.index(name) for name in names]))
    return found


def test_runs_with_the_same_predictions_have_the_error_of_their_test_images():
    repeats, one = compared(alike()).groups[0], compared(alike()[:1]).groups[0]
    assert repeats.same_predictions
    assert one.same_predictions
    found = repeats.measure("average_accuracy")
    assert found.over == "images"
    assert found.error == one.measure("average_accuracy").error > 0
    assert repeats.measure("forgetting").over == "seeds"  # that of the way there may differ
    np.testing.assert_array_equal(repeats.confusion()[1].sum(), one.confusion()[1].sum())


def test_a_number_that_no_seed_changes_has_no_error_over_seeds():
    run = fake_record(setting="dil")
    same = [replace(run, run={**run.run, "seed": seed}) for seed in SEEDS]
    assert compared(same).groups[0].measure("forgetting").error is None


def test_differences_of_runs_with_the_same_predictions_are_over_test_images():
    found = compared([*alike(), *alike("nmc", skill=0.5)])
    gap = difference(*found.groups)
    assert gap.over == "images"
    assert gap.low < gap.mean < gap.high
    mixed = compared([*alike(), *(fake_record("nmc", seed=seed) for seed in SEEDS)])
    assert difference(*mixed.groups).over == "seeds"
