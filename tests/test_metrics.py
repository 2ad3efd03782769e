from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.metrics import accuracy_score, confusion_matrix, recall_score

from layup.errors import InputError
from layup.metrics import accuracy, average_accuracy, confusion, per_class_accuracy

TRUTH = ["cat", "cat", "cat", "dog", "eel", "eel"]
ANSWERS = ["cat", "dog", "ant", "dog", "eel", "cat"]


def test_confusion_counts_every_pair() -> None:
    labels, table = confusion(TRUTH, ANSWERS)
    assert labels == ["ant", "cat", "dog", "eel"]
    assert table.tolist() == [[0, 0, 0, 0], [1, 1, 1, 0], [0, 0, 1, 0], [0, 1, 0, 1]]


def test_accuracy_weighs_samples_and_per_class_accuracy_weighs_classes() -> None:
    assert accuracy(TRUTH, ANSWERS) == 0.5
    assert per_class_accuracy(TRUTH, ANSWERS) == {"cat": 1 / 3, "dog": 1.0, "eel": 0.5}  # no ant was shown


@pytest.mark.parametrize("seed", range(5))
def test_metrics_agree_with_scikit_learn(seed: int) -> None:
    truth, answers = np.random.default_rng(seed).integers(0, 7, size=(2, 80))
    assert accuracy(truth, answers) == pytest.approx(accuracy_score(truth, answers))
    assert list(per_class_accuracy(truth, answers).values()) == pytest.approx(
        recall_score(truth, answers, average=None)
    )
    np.testing.assert_array_equal(confusion(truth, answers)[1], confusion_matrix(truth, answers))


def test_average_accuracy_weighs_tasks_the_same() -> None:
    assert average_accuracy([0.5]) == 0.5
    assert average_accuracy([1.0, 0.5, 0.0, 0.1]) == pytest.approx(0.4)
    with pytest.raises(InputError, match="give at least one"):
        average_accuracy([])


@pytest.mark.parametrize("measure", [confusion, accuracy, per_class_accuracy])
@pytest.mark.parametrize(
    ("truth", "answers"), [(["a"], ["a", "b"]), ([["a", "b"]], [["a", "b"]]), ([], ["a"])]
)
def test_lists_that_do_not_match_are_refused(measure: Any, truth: Any, answers: Any) -> None:
    with pytest.raises(InputError, match="lists of one length"):
        measure(truth, answers)


def test_the_accuracy_of_nothing_is_undefined() -> None:
    with pytest.raises(InputError, match="nothing to evaluate"):
        accuracy([], [])
    assert per_class_accuracy([], []) == {}
