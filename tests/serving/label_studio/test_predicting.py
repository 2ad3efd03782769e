"""Predictions for tasks, in the form in which Label Studio keeps them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from label_studios import CONFIG, KEY, SmallStudio, small_studio
from layup import LayNMC
from layup.serving import LiveModel
from layup.serving.label_studio import Studio, Wanted, predict, version_of
from models import small_network
from servers import new_model, photo


@pytest.fixture
def small() -> Iterator[SmallStudio]:
    with small_studio() as found:
        yield found


@pytest.fixture
def live() -> Iterator[LiveModel]:
    with LiveModel.open(None, new=new_model) as found:
        yield found


def asked(small: SmallStudio, live: LiveModel, config: str = CONFIG):
    wanted = Wanted.model_validate({"tasks": [*small.tasks.values()], "label_config": config})
    return predict(live, Studio(small.address, KEY), wanted)


def test_each_task_gets_the_best_class_and_how_probable_it_is(small: SmallStudio, live: LiveModel) -> None:
    live.teach([photo(number) for number in range(4)], ["cat", "cat", "dog", "dog"])
    for number in range(20):  # more than are held at a time
        small.add(photo(number))
    found = asked(small, live)
    direct = live.predict([photo(number) for number in range(20)]).predictions
    assert direct.probabilities is not None
    assert [each.result[0]["value"]["choices"] for (each,) in found.results] == [
        [label] for label in direct.labels
    ]
    assert [each.score for (each,) in found.results] == pytest.approx(direct.probabilities.max(axis=1))
    assert {each.model_version for (each,) in found.results} == {found.model_version}
    assert found.results[0][0].result == [
        {"from_name": "kind", "to_name": "photo", "type": "choices", "value": {"choices": ["cat"]}}
    ]


def test_a_photo_that_cannot_be_used_has_no_prediction_and_the_others_have(
    small: SmallStudio, live: LiveModel
) -> None:
    live.teach([photo(0)], ["cat"])
    for contents in (b"no image", photo(0), b""):
        small.add(contents)
    small.tasks[3]["data"] = {"image": "http://127.0.0.1:1/secret"}
    found = asked(small, live)
    assert [len(each) for each in found.results] == [0, 1, 0]
    assert sorted(problem.partition(" has no prediction: ")[0] for problem in found.problems) == [
        "Task 1",
        "Task 3",
    ]


def test_a_model_that_knows_nothing_predicts_nothing(small: SmallStudio, live: LiveModel) -> None:
    small.add(photo(0))
    assert (asked(small, live).results, asked(small, live).problems) == ([[]], [])


def test_a_class_that_the_project_does_not_offer_is_not_predicted(
    small: SmallStudio, live: LiveModel
) -> None:
    live.teach([photo(0), photo(1)], ["cat", "wolf"])
    small.add(photo(1))
    ((one,),) = asked(small, live).results
    assert one.result[0]["value"]["choices"] == ["cat"]
    assert one.score is not None
    assert one.score < 0.5  # it is rather a wolf, so this one is asked for early
    assert asked(small, live, CONFIG.replace('"cat"', '"fox"')).results == [[]]


def test_where_there_are_no_probabilities_there_is_no_score(small: SmallStudio) -> None:
    with LiveModel.open(None, new=lambda: LayNMC(small_network(), 2, progress=False)) as live:
        live.teach([photo(0), photo(1)], ["cat", "dog"])
        assert live.predict([photo(0)]).predictions.probabilities is None
        small.add(photo(0))
        ((one,),) = asked(small, live).results
    assert (one.score, one.result[0]["value"]["choices"]) == (None, ["cat"])


def test_the_version_changes_with_every_lesson_and_tells_models_apart(live: LiveModel) -> None:
    names = [version_of(live.facts())]
    for number, label in enumerate(("cat", "dog")):
        live.teach([photo(number)], [label])
        names.append(version_of(live.facts()))
    with LiveModel.open(None, new=new_model) as other:
        other.teach([photo(5)], ["cat"])
        names.append(version_of(other.facts()))
    assert len({*names}) == len(names)
    assert [name.split()[:2] for name in names] == [["layup", str(n)] for n in (0, 1, 2, 1)]
