"""Annotations become what the model knows: exactly, once, and whatever happens in between."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from label_studios import KEY, SmallStudio, small_studio
from layup.errors import BusyError, InputError, ReadOnlyError
from layup.features import FeatureCache
from layup.serving import LiveModel, Teacher
from layup.serving.label_studio import Ledger, Studio, following, pupil
from servers import new_model, photo

NOTHING: dict[str, Any] = {"learned": {}, "forgotten": {}, "moved": 0, "problems": []}


class School:
    """A model, a small Label Studio, and the teacher between them."""

    def __init__(self, live: LiveModel, studio: SmallStudio, teacher: Teacher) -> None:
        self.live, self.studio, self.teacher = live, studio, teacher

    def should_know(self) -> str | None:
        """The hash of a model that was taught directly what the annotations say now."""
        said: dict[str, list[dict[str, Any]]] = {}
        for each in self.studio.annotations.values():
            choices = [choice for item in each["result"] for choice in item["value"]["choices"]]
            if len(choices) == 1 and not each.get("was_cancelled"):
                path = self.studio.tasks[each["task"]]["data"]["image"]
                said.setdefault(path, []).append({"label": choices[0], "time": each["updated_at"]})
        model = new_model()
        if said:
            model.learn([self.studio.files[path] for path in said], [voted(votes) for votes in said.values()])
        return model.state_hash if said else None

    def follows(self) -> bool:
        """Whether the model knows just what the annotations say."""
        found = self.live.facts()
        assert found.state_hash is not None
        return (found.state_hash if found.counts else None) == self.should_know()

    def hear(self, event: Any) -> dict[str, Any]:
        told = self.teacher.hear(event).model_dump()
        return {name: value for name, value in told.items() if value != NOTHING[name]}


def voted(votes: list[dict[str, Any]]) -> str:
    counts = Counter(each["label"] for each in votes)
    last = {label: max(each["time"] for each in votes if each["label"] == label) for label in counts}
    return max(counts, key=lambda label: (counts[label], last[label]))


@contextlib.contextmanager
def school(model: Path | None = None, **options: Any) -> Iterator[School]:
    with (
        small_studio() as studio,
        LiveModel.open(model, new=new_model, loading={"backbone": new_model().backbone_}, **options) as live,
        following(live, studio.address, KEY, model) as teacher,
    ):
        assert teacher is not None
        yield School(live, studio, teacher)


@pytest.fixture
def here() -> Iterator[School]:
    with school() as found:
        yield found


def test_an_annotation_is_learned_moved_and_forgotten(here: School) -> None:
    task = here.studio.add(photo(0))
    assert here.hear(here.studio.annotate(task, "cat")) == {"learned": {"cat": 1}}
    assert here.follows()
    told = here.hear(here.studio.update(1, "dog"))
    assert told == {"learned": {"dog": 1}, "forgotten": {"cat": 1}, "moved": 1}
    assert here.live.facts().counts == {"dog": 1}
    assert here.hear(here.studio.delete(1)) == {"forgotten": {"dog": 1}}
    assert here.live.facts().counts == {}


def test_a_repeated_or_late_message_changes_nothing(here: School) -> None:
    first = here.studio.annotate(here.studio.add(photo(0)), "cat")
    second = here.studio.update(1, "dog")
    here.hear(first)
    version = here.live.facts().version
    assert here.hear(first) == {}
    assert here.live.facts().version == version
    here.hear(second)
    assert here.hear(first) == {}
    assert here.live.facts().counts == {"dog": 1}
    here.hear(here.studio.delete(1))
    assert here.hear(first) == here.hear(second) == {}
    assert here.live.facts().counts == {}


@pytest.mark.parametrize(
    "said",
    [((), {}), (("cat", "dog"), {}), (("cat",), {"was_cancelled": True})],
    ids=["none", "two", "skipped"],
)
def test_what_names_no_single_class_teaches_nothing_and_takes_back_what_it_said(
    here: School, said: Any
) -> None:
    choices, more = said
    task = here.studio.add(photo(0))
    assert here.hear(here.studio.annotate(task, *choices, **more)) == {}
    here.hear(here.studio.annotate(task, "cat"))
    assert here.live.facts().counts == {"cat": 1}
    assert here.hear(here.studio.update(2, *choices, **more)) == {"forgotten": {"cat": 1}}


def test_of_several_opinions_most_count_then_the_last_and_ground_truth_alone(here: School) -> None:
    task = here.studio.add(photo(0))
    for choice, expected in (("cat", "cat"), ("dog", "dog"), ("cat", "cat")):
        here.hear(here.studio.annotate(task, choice))
        assert here.live.facts().counts == {expected: 1}
        assert here.follows()
    here.hear(here.studio.annotate(task, "owl", ground_truth=True))
    assert here.live.facts().counts == {"owl": 1}
    here.hear(here.studio.delete(4))  # only its number is told: the photo is fetched again
    assert here.live.facts().counts == {"cat": 1}


def test_a_photo_of_two_tasks_is_one_photo(here: School) -> None:
    tasks = [here.studio.add(photo(0)), here.studio.add(photo(0))]
    here.hear(here.studio.annotate(tasks[0], "cat"))
    assert here.hear(here.studio.annotate(tasks[1], "cat")) == {}
    assert here.hear(here.studio.delete(1)) == {}
    assert here.live.facts().counts == {"cat": 1}
    assert here.hear(here.studio.delete(2)) == {"forgotten": {"cat": 1}}


def test_a_deleted_task_is_forgotten_although_its_photo_is_gone(here: School) -> None:
    task = here.studio.add(photo(0))
    here.hear(here.studio.annotate(task, "cat"))
    here.studio.files.clear()
    assert here.hear(here.studio.delete_task(task)) == {"forgotten": {"cat": 1}}


def test_without_the_cache_a_photo_is_fetched_to_be_forgotten(here: School) -> None:
    tasks = [here.studio.add(photo(number)) for number in range(2)]
    for task in tasks:
        here.hear(here.studio.annotate(task, "cat"))
    FeatureCache().clear()
    assert here.hear(here.studio.delete(1)) == {"forgotten": {"cat": 1}}
    FeatureCache().clear()
    (problem,) = here.hear(here.studio.delete_task(tasks[1]))["problems"]
    assert problem.startswith("A photo is not forgotten yet: its features are not in the cache, and ")
    assert here.live.facts().counts == {"cat": 1}
    assert len(here.teacher.ledger.unsettled()) == 1


def test_a_task_with_another_photo_now_does_not_stand_for_the_first_one(here: School) -> None:
    task = here.studio.add(photo(0))
    here.hear(here.studio.annotate(task, "cat"))
    here.hear(here.studio.annotate(task, "dog"))
    here.studio.files[here.studio.tasks[task]["data"]["image"]] = photo(1)
    (problem,) = here.hear(here.studio.delete(2))["problems"]
    assert problem.endswith("Task 1 has another photo now. Press Start Training.")
    assert here.live.facts().counts == {"dog": 1}


def test_a_photo_that_is_not_to_be_had_is_told_and_the_others_are_learned(here: School) -> None:
    tasks = [here.studio.add(contents) for contents in (photo(0), b"no image", photo(1), photo(2))]
    del here.studio.files[here.studio.tasks[tasks[0]]["data"]["image"]]
    here.studio.tasks[tasks[2]]["data"] = {"other": 1}
    for task in tasks:
        here.studio.annotate(task, "cat")
    told = here.hear(
        here.studio.event(
            "ANNOTATIONS_CREATED",
            annotation=[*here.studio.annotations.values()],
            task=[*here.studio.tasks.values()],
        )
    )
    assert told["learned"] == {"cat": 1}
    assert [problem.split(":")[0] for problem in told["problems"]] == [
        f"Annotation {number} was not followed" for number in (1, 2, 3)
    ]
    assert ".png" not in str(told["problems"])  # the log has them, and names no photo
    here.studio.files[here.studio.tasks[tasks[0]]["data"]["image"]] = photo(0)
    assert here.hear(here.studio.event("START_TRAINING"))["learned"] == {"cat": 1}


def test_start_training_makes_up_for_all_that_was_missed(here: School) -> None:
    tasks = [here.studio.add(photo(number)) for number in range(7)]
    for task in tasks[:4]:
        here.hear(here.studio.annotate(task, "cat"))
    here.studio.annotate(tasks[4], "dog")  # of all these, nothing is told
    here.studio.update(1, "owl")
    here.studio.delete(2)
    here.studio.delete_task(tasks[2])
    told = here.hear(here.studio.event("START_TRAINING"))
    assert (told["learned"], told["forgotten"]) == ({"dog": 1, "owl": 1}, {"cat": 3})
    assert here.follows()
    assert here.hear(here.studio.event("START_TRAINING")) == {}


def test_photos_that_label_studio_did_not_teach_stay(here: School) -> None:
    here.live.teach([photo(9)], ["mine"])
    here.hear(here.studio.annotate(here.studio.add(photo(0)), "cat"))
    here.hear(here.studio.event("START_TRAINING"))
    assert here.live.facts().counts == {"cat": 1, "mine": 1}


def test_start_training_reads_page_by_page_and_again_if_tasks_go_meanwhile(
    here: School, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("layup.serving.label_studio.teacher.PAGE", 2)
    here.studio.per_page = 2
    tasks = [here.studio.add(photo(number)) for number in range(5)]
    for task in tasks:
        here.hear(here.studio.annotate(task, "cat"))

    def vanish(page: int) -> None:
        if page == 2 and tasks[0] in here.studio.tasks:
            here.studio.delete_task(tasks[0])  # the third moves to the first page, and would be missed

    here.studio.on_page = vanish
    assert here.hear(here.studio.event("START_TRAINING")) == {"forgotten": {"cat": 1}}
    assert here.follows()


def test_nothing_is_forgotten_if_tasks_never_stay(here: School, monkeypatch: pytest.MonkeyPatch) -> None:
    here.hear(here.studio.annotate(here.studio.add(photo(0)), "cat"))
    here.studio.per_page = 0  # it says that there is a task, and lists none
    with pytest.raises(InputError, match="nothing was forgotten"):
        here.hear(here.studio.event("START_TRAINING"))
    assert here.live.facts().counts == {"cat": 1}


def test_what_a_crash_left_undone_is_done_with_the_next_event(tmp_path: Path, monkeypatch: Any) -> None:
    with school(tmp_path / "m.layup") as here:
        tasks = [here.studio.add(photo(number)) for number in range(3)]
        here.hear(here.studio.annotate(tasks[0], "cat"))

        def crash(*_: Any, **__: Any) -> Any:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(here.live, "teach", crash)
            patch.setattr(here.live, "forget_ids", crash)
            for event in (here.studio.annotate(tasks[1], "dog"), here.studio.delete(1)):
                with pytest.raises(KeyboardInterrupt):
                    here.hear(event)
        here.teacher.ledger.close()
        address = here.studio.address
        ledger = Ledger(tmp_path / "m.layup.label-studio", address)
        with contextlib.closing(ledger):
            here.teacher = Teacher(here.live, Studio(address, KEY), ledger)
            told = here.hear(here.studio.annotate(tasks[2], "owl"))
            assert told == {"learned": {"dog": 1, "owl": 1}, "forgotten": {"cat": 1}}
            assert here.follows()


def test_a_busy_model_is_waited_for(here: School, monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr(pupil.time, "sleep", waited.append)
    teach, answers = here.live.teach, iter([BusyError("Busy.", 0.5), BusyError("Busy.", 60)])

    def sometimes(*args: Any, **options: Any) -> Any:
        for error in answers:
            raise error
        return teach(*args, **options)

    monkeypatch.setattr(here.live, "teach", sometimes)
    assert here.hear(here.studio.annotate(here.studio.add(photo(0)), "cat")) == {"learned": {"cat": 1}}
    assert waited == [0.5, 5.0]


def test_events_that_are_about_something_else_are_ignored(here: School) -> None:
    for action in ("PROJECT_UPDATED", "TASKS_CREATED", "LABEL_LINK_CREATED", "WHAT_IS_THIS"):
        assert here.hear(here.studio.event(action)) == {}


def test_an_event_without_what_it_is_about_is_refused(here: School) -> None:
    event = here.studio.annotate(here.studio.add(photo(0)), "cat").model_copy(update={"project": None})
    with pytest.raises(InputError, match="Turn on 'Send payload'"):
        here.hear(event)
    with pytest.raises(InputError, match="one Choices tag"):
        here.hear(here.studio.event("START_TRAINING", config="<View/>"))


def test_a_model_that_cannot_follow_says_so(tmp_path: Path) -> None:
    path = tmp_path / "m.layup"
    new_model().save(path)
    with (
        school(path, follow=True) as here,
        pytest.raises(ReadOnlyError, match="Connect Label Studio to that"),
    ):
        here.hear(here.studio.annotate(here.studio.add(photo(0)), "cat"))
    assert not (tmp_path / "m.layup.label-studio").exists()


def test_without_an_address_nobody_teaches() -> None:
    with LiveModel.open(None, new=new_model) as live, following(live, None, KEY, None) as teacher:
        assert teacher is None


@pytest.mark.parametrize("seed", range(3))
def test_any_history_ends_as_if_its_end_had_been_taught_directly(here: School, seed: int) -> None:
    chance = random.Random(seed)
    tasks = [here.studio.add(photo(number)) for number in range(6)]
    events = []
    for _ in range(30):
        numbers = [*here.studio.annotations]
        verb = chance.choice(["annotate", "annotate", "update", "update", "delete"])
        choices = chance.choice([("cat",), ("dog",), ("owl",), ()])
        if verb == "annotate" or not numbers:
            events.append(here.studio.annotate(chance.choice(tasks), *choices))
        elif verb == "update":
            events.append(here.studio.update(chance.choice(numbers), *choices))
        else:
            events.append(here.studio.delete(chance.choice(numbers)))
        told = chance.sample(events, k=min(3, len(events)))  # old ones again, and not in order
        for event in (*told, events[-1]):
            assert "problems" not in here.hear(event)
        assert here.follows()
