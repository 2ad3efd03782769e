"""Benchmarks measure what they say: the twin is the literal procedure, the oracle right, the counts exact."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import oracle as slow
from layup import RidgeClassifier, machine
from layup.algebra.lambda_search import search_lambda
from layup.algebra.statistics import GramStatistics
from layup.benchmark import RunSpec
from layup.errors import LayupError
from layup.performance import growth, point, runs, search, streaming, sweep
from layup.performance.literal import LiteralClassifier
from layup.performance.oracle import Oracle
from layup.performance.point import Point, Size
from layup.performance.protocol import LiteralLearner
from layup.performance.report import filled, markdown
from layup.performance.sample import DECAY, Population
from layup.performance.search import Case
from layup.performance.timing import Ratio, Work, interleaved, ratio

DOCS = Path(__file__).parents[2] / "docs"


# Timing


def test_works_are_done_in_turn_and_the_order_is_turned():
    done = []
    works = {name: Work(lambda name=name: done.append(name)) for name in "abc"}
    timed = interleaved(works, rounds=2, untimed=1)
    assert "".join(done) == "cba" + "abc" + "cba"
    assert all(len(found.seconds) == 2 for found in timed.values())


def test_what_a_work_is_given_is_made_anew_outside_of_its_time(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("layup.performance.timing.time.perf_counter", lambda: clock[0])

    def takes(seconds, result):
        clock[0] += seconds
        return result

    work = Work(lambda given: takes(2.0, given), lambda: (takes(100.0, []),))
    timed = interleaved({"only": work}, rounds=3, untimed=0)
    assert timed["only"].seconds.tolist() == [2.0, 2.0, 2.0]
    assert timed["only"].result == []


def test_few_pairs_give_their_extremes_and_many_an_interval():
    seconds = np.array([1.0, 2.0, 3.0, 4.0, 50.0])
    few = ratio(seconds, np.ones(5))
    assert (few.median, few.low, few.high, few.spread) == (3.0, 1.0, 50.0, "min … max")
    many = ratio(np.tile(seconds, 20), np.full(100, 2.0))
    assert many.median == 1.5
    assert 0.5 < many.low <= 1.5 <= many.high < 25.0
    assert many.spread == "95 % interval"
    assert (many.first_seconds, many.second_seconds) == (3.0, 2.0)


# Features


def test_features_have_the_spectrum_that_they_promise_along_no_axis():
    x, _ = Population(dim=24, classes=1).batch(40_000, [0], seed=1)
    covariance = np.cov(x.astype(np.float64).T)
    found = np.linalg.eigvalsh(covariance)[::-1]
    np.testing.assert_allclose(found, np.arange(1, 25) ** (-2 * DECAY), rtol=0.05)
    # Rotated: no coordinate holds what the largest direction does.
    assert np.diag(covariance).max() < 0.5 * found[0]


def test_batches_follow_from_seeds_and_share_their_classes_out_evenly():
    population = Population(dim=16, classes=6)
    x, y = population.batch(2500, [1, 4, 5], seed=3)
    again = population.batch(2500, [1, 4, 5], seed=3)
    other, _ = population.batch(2500, [1, 4, 5], seed=4)
    np.testing.assert_array_equal(x, again[0])
    assert not np.array_equal(x, other)
    assert sorted(np.unique(y, return_counts=True)[1].tolist()) == [833, 833, 834]
    # Means of a class are the same in every batch.
    means = [rows[labels == 4].mean(axis=0) for rows, labels in ((x, y), population.batch(2500, [4], 9))]
    np.testing.assert_allclose(*means, atol=0.15)


# The twin and the oracle


def situation(history, new, dim, seed, classes=5):
    """Sums and samples of a history, and a task of the last two classes after it."""
    population = Population(dim, classes, seed)
    before = population.batch(history, range(classes - 2), seed=1)
    sums = GramStatistics(dim)
    if history:
        sums.update(*before)
    return population, sums, before, population.batch(new, range(classes - 2, classes), seed=2)


def joined(before, batch):
    return tuple(np.concatenate(pair) for pair in zip(before, batch, strict=True))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("history", [0, 90])
def test_the_twin_is_the_literal_procedure(history, seed):
    _, sums, before, (x, y) = situation(history, 60, dim=12, seed=seed)
    twin = LiteralClassifier.after(sums)
    twin.learn(x, y)
    past = before if history else None
    expected = slow.best(slow.search(past, x.astype(np.float64), y))
    labels, weights = slow.classifier(*joined(before, (x, y)), expected)
    assert twin.weights.dtype == torch.float32
    assert (twin.lam, twin.labels) == (expected, labels)
    np.testing.assert_allclose(twin.weights.numpy(), weights, rtol=1e-3, atol=1e-4)
    # And so ours finds the same.
    assert search_lambda(sums, x, y).best == expected


def test_the_twin_learns_batch_after_batch_and_knows_only_seen_classes():
    population = Population(dim=16, classes=6)
    first, second = (population.batch(80, of, seed) for of, seed in (([0, 3], 1), ([3, 5], 2)))
    twin = LiteralClassifier(16)
    twin.learn(*first)
    assert set(twin.predict(second[0]).tolist()) <= {0, 3}
    twin.learn(*second)
    x, y = joined(first, second)
    labels, weights = slow.classifier(x, y, twin.lam)
    assert twin.labels == labels == [0, 3, 5]
    np.testing.assert_allclose(twin.weights.numpy(), weights, rtol=1e-2, atol=1e-3)
    assert twin.predict(x).tolist() == slow.predict(labels, twin.weights.numpy(), x)


def test_the_twin_keeps_its_lambda_where_nothing_can_be_searched():
    twin = LiteralClassifier(3)
    assert twin.search(np.eye(3), np.array(["a", "b", "c"])) is None
    twin.learn(np.eye(3), np.array(["a", "b", "c"]))
    assert twin.lam == 1.0
    np.testing.assert_allclose(twin.weights.numpy(), np.eye(3) / 2)


def test_the_twin_survives_a_singular_matrix():
    twin = LiteralClassifier(2)
    twin.add(np.zeros((2, 2)), np.array(["a", "b"]), 0.0)
    assert np.isfinite(twin.weights.numpy()).all()


@pytest.mark.parametrize(("history", "new"), [(0, 16), (20, 16), (25, 60), (90, 40)])
@pytest.mark.parametrize("seed", range(3))
def test_the_oracle_is_right(history, new, seed):
    """With fewer samples than dimensions, about as many, and more."""
    population, sums, before, (x, y) = situation(history, new, dim=40, seed=seed)
    found = Oracle(sums, before, x, y)
    past = before if history else None
    expected = slow.best(slow.search(past, x.astype(np.float64), y))
    assert found.best == expected
    rows, _ = population.batch(200, range(5), seed=3)
    labels, weights = slow.classifier(*joined(before, (x, y)), expected)
    assert found.predict(rows).tolist() == slow.predict(labels, weights, rows)


# λ search and task update


def test_cases_keep_their_proportions():
    case = Case("a task", history=7200, new=800)
    full, small = case.at(4608, 200), case.at(768, 200)
    assert (full.history, full.new, full.classes, full.new_classes) == (7200, 800, 200, 20)
    assert (small.history, small.new) == (1200, 160)  # eight of each new class at least
    assert (full.old(), full.batch(), full.samples) == (range(180), range(180, 200), "800 after 7,200")
    first = Case("first", history=0, new=800).at(4608, 200)
    assert (first.old(), first.batch(), first.samples) == (range(0), range(20), "800")


def test_search_rows_say_how_fast_and_whether_right():
    rows = search.measure(dim=64, classes=20, pairs=2, check=True)
    assert len(rows) == len(search.CASES)
    for row in rows:
        assert row.lam == row.oracle_lam
        assert row.as_oracle == 1.0
        assert row.search.median > 0
        assert row.update.first_seconds > row.search.first_seconds
        assert row.search.pairs == row.update.pairs == 2
        assert 2 / row.situation.classes < row.accuracy <= 1.0
    assert_is_printable(search.report(rows))


def test_without_the_oracle_a_search_row_says_so():
    (row,) = search.measure(dim=32, classes=10, pairs=1, cases=[Case("a task", 4000, 900)])
    assert (row.oracle_lam, row.as_oracle, row.literal_as_oracle) == (None, None, None)
    report = search.report([row])
    assert "(not run)" in " ".join(report.notes)
    assert report.cells[0][-1] == "–, –"
    assert row.as_literal > 0.99


def assert_is_printable(report):
    """A table, JSON that holds it, and Markdown of that."""
    assert report.rows
    assert report.speedups or report.trends
    assert {len(row) for row in report.cells} == {len(report.columns)}
    assert all(isinstance(cell, str) for row in report.cells for cell in row)
    saved = json.loads(report.to_json())
    assert saved["cells"] == [list(row) for row in report.cells]
    assert len(saved["rows"]) == len(report.rows)
    assert saved["machine"]["threads"] == torch.get_num_threads()
    assert all(cell in markdown(saved) for row in report.cells for cell in row)


# Streams


def test_backward_error_is_that_of_the_definition():
    x, y = Population(dim=10, classes=3).batch(40, range(3), seed=1)
    sums = GramStatistics(10)
    sums.update(x, y)
    exact = np.linalg.solve(sums.gram + 0.5 * np.eye(10), sums.prototypes.T)
    assert streaming.backward_error(sums, exact, 0.5) < 1e-15
    wrong = exact + 1e-3 * np.random.default_rng(0).normal(size=exact.shape)
    shifted = sums.gram + 0.5 * np.eye(10)
    residual = np.linalg.norm(shifted @ wrong - sums.prototypes.T, 2)
    size = np.linalg.norm(shifted, 2) * np.linalg.norm(wrong, 2) + np.linalg.norm(sums.prototypes, 2)
    assert streaming.backward_error(sums, wrong, 0.5) == pytest.approx(residual / size)


def test_a_stream_stays_exact():
    (row,) = rows = streaming.measure(dim=32, classes=10, pairs=1, samples=120)
    assert row.error <= 1e-13
    assert row.as_fresh == 1.0
    assert (row.samples, row.step.pairs) == (120, 1)
    assert_is_printable(streaming.report(rows))


def test_a_stream_that_loses_digits_is_seen(monkeypatch):
    scores = RidgeClassifier.scores
    rounded = lambda self, X: scores(self, X).astype(np.float32).astype(np.float64)  # noqa: E731
    monkeypatch.setattr(RidgeClassifier, "scores", rounded)
    (row,) = streaming.measure(dim=32, classes=10, pairs=1, samples=20)
    assert row.error > 1e-10


# Whole runs and sweeps


@pytest.mark.slow
def test_runs_count_every_image_that_passes(backbone):
    spec = RunSpec("digits", tasks=5, sample=(10, 30))
    one, other = (replace(spec, seed=seed).resolve(backbone=backbone) for seed in (1, 2))
    row = runs.measured(one, other, pairs=1)
    assert (row.train, row.test, row.tasks) == (300, 300, 5)
    assert row.literal_passes == 300 + 60 * (1 + 2 + 3 + 4 + 5)
    assert (row.passes, row.passes_again) == (600, 0)
    assert row.as_literal > 0.9
    assert_is_printable(runs.report([row]))


def test_a_sweep_predictions_as_its_runs_do(backbone):
    spec = RunSpec("digits", tasks=2, sample=(10, 4))
    literal, separate = rows = sweep.measured(spec, backbone, (1, 2, 4), pairs=1)
    assert (literal.passes, separate.passes) == (3 * (40 + 20 + 40), 80)
    assert literal.sweep_passes == separate.sweep_passes == 80
    assert separate.alike == 1.0
    assert literal.alike > 0.9
    assert_is_printable(sweep.report(rows))


def test_the_sweep_of_another_network_has_a_file_of_its_own():
    row = sweep.SweepRow("literal", "vit-nano", (1, 2), 10, ratio(np.ones(1), np.ones(1)), 900, 80, 1.0)
    assert sweep.report([row]).name == "sweep"
    assert sweep.report([replace(row, backbone="hub:some/net.v2")]).name == "sweep-hub-some-net.v2"


def test_a_sweep_ends_at_the_networks_first_layer(monkeypatch):
    given_to = {}
    monkeypatch.setattr(sweep, "measured", lambda *given: given_to.update(depths=given[2]))
    sweep.measure(pairs=1, per_class=2)
    assert given_to == {"depths": [*range(1, 13)]}
    monkeypatch.setattr(sweep, "DEPTHS", (2, 12, 13))
    sweep.measure(pairs=1, per_class=2)
    assert given_to == {"depths": [2, 12]}


def test_the_twin_of_images_cannot_be_saved(backbone, tmp_path):
    with pytest.raises(LayupError, match="only there to be timed"):
        LiteralLearner(backbone, 2).save(tmp_path / "twin.layup")


# Growth


def test_slopes_and_ends_are_recovered():
    at = np.array([10, 20, 40, 80])
    rng = np.random.default_rng(0)
    assert growth.slope(at, 3e-9 * at**2.7) == pytest.approx(2.7)
    assert growth.slope(at, 5.0 * at**1.5 * np.exp(0.01 * rng.normal(size=4))) == pytest.approx(1.5, abs=0.05)
    # Small points, where something else is the largest part, do not count.
    assert growth.slope([1, *at], [1e9, *at]) == pytest.approx(1.0)
    assert growth.end_of(at, 1e9 + 2e5 * at**2, power=2) == pytest.approx((23e9 / 2e5) ** 0.5)
    assert growth.end_of(at, 1e9 - at, power=1) is None


def test_what_does_not_grow_has_no_end():
    def row(memory):
        sizes = [Size(8, 2, 8, tasks) for tasks in (1, 2, 4)]
        points = [
            [Point(size, float(size.tasks), bytes_)] for size, bytes_ in zip(sizes, memory, strict=True)
        ]
        return growth.row_of("tasks", sizes, points)

    assert row([1000, 1010, 1020]).ends_at is None
    assert row([1000, 2000, 4000]).ends_at == pytest.approx(24e9 / 1000)
    assert row([1000, 2000, 4000]).time_slope == pytest.approx(1.0)


def test_several_processes_at_a_point_give_their_median():
    sizes = [Size(8, 2, n) for n in (8, 16, 32)]
    points = [
        [Point(size, s * size.samples, m * size.samples) for s, m in ((1, 5), (9, 1), (2, 2))]
        for size in sizes
    ]
    row = growth.row_of("samples", sizes, points)
    assert row.seconds == [16.0, 32.0, 64.0]
    assert row.memory == [16, 32, 64]


@pytest.mark.parametrize(("dim", "classes"), [(4608, 200), (32, 10)])
def test_one_thing_grows_at_a_time_and_lambda_can_be_searched(dim, classes):
    for axis, sizes in growth.plan(dim, classes).items():
        assert len(sizes) >= growth.LAST
        grown = [getattr(size, axis) for size in sizes]
        assert grown == sorted(set(grown))
        assert all(size.samples >= 4 * size.classes for size in sizes)
        others = {tuple(v for name, v in vars(size).items() if name != axis) for size in sizes}
        assert len(others) == 1


def test_growth_is_measured_point_by_point(monkeypatch):
    measured = []

    def pretend(size):
        measured.append(size)
        return Point(size, 1e-6 * size.dim**3 * size.tasks, 8 * size.dim**2 + 4 * size.samples * size.dim)

    monkeypatch.setattr(growth, "measured_apart", pretend)
    rows = {row.axis: row for row in growth.measure(dim=512, classes=40, repeats=2)}
    assert len(measured) == 2 * sum(len(row.sizes) for row in rows.values())
    assert rows["dim"].time_slope == pytest.approx(3.0)
    assert rows["tasks"].time_slope == pytest.approx(1.0)
    assert (rows["tasks"].ends_at, rows["classes"].ends_at) == (None, None)
    assert rows["dim"].at == [64, 128, 256, 512]
    report = growth.report(list(rows.values()))
    assert_is_printable(report)
    assert [len(trends) for trends in report.trends.values()] == [4, 4]


@pytest.mark.slow
def test_a_point_is_measured_in_a_process_of_its_own():
    found = point.measured_apart(Size(dim=400, classes=4, samples=200, tasks=2))
    assert 0 < found.seconds < 60
    assert 400**2 * 8 < found.memory < 400**2 * 8 * 100


@pytest.mark.slow
def test_a_point_that_cannot_be_measured_is_a_sentence(monkeypatch):
    with pytest.raises(LayupError, match=r"Learning .*'dim': 0.* failed in its process: .*Give smaller"):
        point.measured_apart(Size(dim=0, classes=2, samples=8))
    monkeypatch.setattr(machine, "peak_memory", lambda: None)
    with pytest.raises(LayupError, match="does not say how much memory"):
        point.measured_here(Size(dim=8, classes=2, samples=16))


# Reports


def test_only_marked_places_of_a_page_are_filled():
    row = Ratio(2.0, 1.0, 3.0, 2.0, 1.0, pairs=3)
    found = streaming.report([streaming.StreamRow(32, 10, 100, 1.0, row, 1e-16, 1.0)])
    saved = {"stream": json.loads(found.to_json())}
    rest = "\n\nText.\n<!-- layup bench runs -->\nkept\n<!-- end -->\n"
    page = f"# Page\n\n<!-- layup bench stream -->\nold\n<!-- end -->{rest}"
    full = filled(page, saved)
    assert "old" not in full
    assert "| 2× (1 … 3) |" in full
    assert full.endswith(rest)
    assert filled(full, saved) == full


def test_the_tables_of_the_docs_are_those_of_the_saved_numbers():
    page = (DOCS / "performance.md").read_text("utf-8")
    saved = {path.stem: json.loads(path.read_text("utf-8")) for path in (DOCS / "performance").glob("*.json")}
    assert filled(page, saved) == page
    for name in ("search", "stream", "runs", "sweep", "growth"):
        assert f"<!-- layup bench {name} -->" in page
