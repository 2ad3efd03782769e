"""The heads that the default is compared with are what they are called, and its parts make it up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression

from benchmarks import head_costs, head_parts, head_tasks, heads
from benchmarks.heads import HEADS, Row, Split
from layup.features import EMBEDDING

LAYERS = {"one": 4, "two": 5, "three": 6, "four": 4, "five": 5, "six": 6, EMBEDDING: 6}


def split(per_class: int = 6, classes: int = 5) -> Split:
    """Samples around class means, of six layers and an embedding, whose scales differ."""
    rng, width = np.random.default_rng(0), sum(LAYERS.values())
    scale = np.repeat(10.0 ** np.arange(len(LAYERS)), [*LAYERS.values()]) / 1000
    means = rng.standard_normal((classes, width))
    y, truth = (np.repeat(np.arange(classes), each) for each in (per_class, 40))
    x, asked = ((means[each] + rng.standard_normal((len(each), width))) * scale for each in (y, truth))
    return Split(LAYERS, x, y, asked, truth)


def test_a_split_takes_layers_and_samples():
    whole = split()
    assert whole.last(2).layers == {"five": 5, "six": 6}
    assert (whole.last(2).asked == whole.asked[:, 19:30]).all()
    assert (whole.only([EMBEDDING]).x == whole.x[:, 30:]).all()
    assert np.unique(whole.drawn(3, seed=1).y, return_counts=True)[1].tolist() == [3] * 5


def test_the_span_keeps_inner_products():
    few = split(per_class=2)
    rotated = few.in_span()
    assert rotated.x.shape == (10, 10)
    np.testing.assert_allclose(rotated.asked @ rotated.x.T, few.asked @ few.x.T, rtol=1e-9)
    assert split(per_class=20).in_span().x.shape == (100, 36)


def test_discriminants_choose_what_leave_one_out_chooses(monkeypatch):
    part = split(per_class=12).last(2)
    deviations = part.x - np.array([part.x[part.y == each].mean(axis=0) for each in part.y])
    unit = float((deviations**2).sum()) / part.x.shape[1]

    def right(shrinkage: float) -> int:
        """By learning again without each sample."""
        return sum(
            lda(np.delete(part.x, row, axis=0), np.delete(part.y, row), part.x[row : row + 1], shrinkage)[0]
            == part.y[row]
            for row in range(len(part.x))
        )

    def lda(x, y, asked, shrinkage):
        means = np.array([x[y == each].mean(axis=0) for each in np.unique(y)])
        scatter = (x - means[y]).T @ (x - means[y]) + shrinkage * unit * np.eye(x.shape[1])
        distances = asked[:, None] - means[None]
        return np.einsum("nci,ij,ncj->nc", distances, np.linalg.inv(scatter), distances).argmin(axis=1)

    best = max(heads.SHRINKAGES, key=lambda each: (right(each), each))
    expected = part.accuracy(lda(part.x, part.y, part.asked, best))
    assert heads.discriminants(part) == expected
    monkeypatch.setattr(heads, "SHRINKAGES", np.array([1e-9]))
    plain = LinearDiscriminantAnalysis(solver="eigen").fit(part.x, part.y)
    assert heads.discriminants(part) == plain.score(part.asked, part.truth)


@pytest.mark.parametrize("per_class", [1, 3, 12])
def test_logistic_regression_is_that_of_scikit_learn(per_class, monkeypatch):
    part = split(per_class).last(2)
    monkeypatch.setattr(heads, "STRENGTHS", (0.1,))
    monkeypatch.setattr(heads, "UNTESTED", 0)
    mean, deviation = part.x.mean(axis=0), part.x.std(axis=0) + 1e-6
    oracle = LogisticRegression(C=0.1, tol=1e-8).fit((part.x - mean) / deviation, part.y)
    expected = oracle.score((part.asked - mean) / deviation, part.truth)
    assert heads.logistic(part) == pytest.approx(expected, abs=0.006)  # one of 200: it is solved in float32


def test_logistic_regression_is_left_out_where_it_takes_long(monkeypatch):
    monkeypatch.setattr(heads, "LARGEST", 1)
    assert heads.logistic(split()) is None


def test_every_head_is_a_column(capsys):
    (few, everything) = heads.compared("blobs", split(), (2, 9, None), seeds=(0, 1))
    assert (few.per_class, everything.per_class) == ("2", "all 6")
    assert set(few.accuracies) == set(HEADS)
    assert min(everything.accuracies.values()) > 0.5
    shown = heads.all_heads([few, everything]) + heads.table([few, everything])
    assert shown.count("blobs") == 4
    assert "auto: over 1.5 points below the search in" in heads.summary([few, everything])


def test_a_summary_compares_with_the_best_other():
    accuracies = dict.fromkeys(HEADS, 0.5) | {"auto": 0.7, "NMC": 0.72, heads.GCV: 0.4}
    row = Row("blobs", "5", accuracies)
    assert row.best == "NMC"
    text = heads.summary([row])
    assert "| auto | -2.00 | -2.0 | 1 of 1 | 0 of 1 | +20.00 |" in text
    assert "gcv: over 1.5 points below the search in 1 of 1 rows; worst -10.0." in text


@pytest.mark.parametrize("per_class", [1, 2, 20])
def test_the_parts_make_up_the_default(per_class):
    part = split(per_class)
    assert head_parts.VARIANTS[head_parts.DEFAULT](part) == heads.auto(part.last(6))


def test_every_part_is_a_row(capsys):
    found = dict([head_parts.compared("blobs", split(), 5, seeds=(0,))])
    table = head_parts.table(found)
    assert all(f"| {name} |" in table for name in head_parts.VARIANTS)


def test_tasks_give_what_one_batch_gives(monkeypatch):
    monkeypatch.setattr(head_tasks, "TASKS", 2)
    default, paper, nearest = head_tasks.compared(split(), seed=0)
    assert default[2] == default[3]
    assert nearest[2] == nearest[3]
    assert "joint" in paper[1]


def test_costs_are_a_row():
    samples, *_, ratio = head_costs.row({"one": 3, "two": 4}, 40, pairs=1)
    assert samples == "40"
    assert "…" in ratio


def test_a_network_without_weights_is_left_out(tmp_path, capsys):
    assert heads.load("vit-tiny", tmp_path / "none.safetensors") is None
    assert "left out" in capsys.readouterr().out


def test_an_intercept_ignores_what_all_samples_share():
    part = split()
    moved = replace(part, x=part.x + 100, asked=part.asked + 100)
    assert head_parts.centred(moved) == head_parts.centred(part)
