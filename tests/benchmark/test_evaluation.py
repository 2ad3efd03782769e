"""An evaluation, compared with an obvious count over its images."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from layup.benchmark import Evaluation
from layup.errors import InputError
from layup.model import Predictions

CLASSES = ["cat", "dog", "eel"]
LABELS = st.lists(st.sampled_from([*CLASSES, "never learned"]), min_size=1, max_size=40)


def predictions(count, seed=0, kept=None):
    kept = list(range(count)) if kept is None else kept
    return Predictions(CLASSES, np.random.default_rng(seed).random((len(kept), 3)), kept, [])


@given(LABELS, st.integers(0, 1000))
def test_numbers_are_those_that_one_counts(labels, seed):
    found = Evaluation([f"{i}.jpg" for i in range(len(labels))], labels, predictions(len(labels), seed))
    right = [label == guess for label, guess in zip(labels, found.found.labels, strict=True)]
    known = [hit for hit, label in zip(right, labels, strict=True) if label in CLASSES]
    assert found.accuracy == pytest.approx(np.mean(right))
    assert found.images_of_known_classes == len(known)
    if known:
        assert found.accuracy_known_classes == pytest.approx(np.mean(known))
    else:
        assert found.accuracy_known_classes is None
    assert found.interval[0] <= found.accuracy <= found.interval[1]
    hits = Counter(label for hit, label in zip(right, labels, strict=True) if hit)
    counts = {label: (score.images, score.right) for label, score in found.per_class.items()}
    assert counts == {label: (count, hits[label]) for label, count in Counter(labels).items()}
    accuracies = [score.accuracy for score in found.per_class.values()]
    assert accuracies == sorted(accuracies)
    assert len(found.mistakes) == right.count(False) == sum(pair.count for pair in found.pairs)
    assert found.unknown == (["never learned"] if "never learned" in labels else [])


def test_images_that_could_not_be_used_do_not_count():
    found = Evaluation(["a", "broken", "c"], ["cat", "dog", "eel"], predictions(3, kept=[0, 2]))
    assert found.truth == ["cat", "eel"]
    assert set(found.per_class) == {"cat", "eel"}
    assert {each.image for each in found.mistakes} <= {"a", "c"}


def test_of_equally_bad_classes_the_larger_is_first():
    found = Evaluation(["a", "b", "c"], ["owl", "yak", "yak"], predictions(3))
    assert list(found.per_class) == ["yak", "owl"]


def test_all_of_it_is_json():
    found = Evaluation(["a", "b"], ["cat", "owl"], predictions(2))
    told = json.loads(json.dumps(found.to_dict()))
    assert told["per_class"]["owl"] == {"accuracy": 0.0, "images": 1, "right": 0}
    assert told["unknown_classes"] == ["owl"]
    assert {"truth": "owl", "predicted": found.found.labels[1], "count": 1, "of": 1} in told["confused"]


def test_labels_are_one_per_image():
    with pytest.raises(InputError, match="2 images but 1 labels"):
        Evaluation(["a", "b"], ["cat"], predictions(2))
