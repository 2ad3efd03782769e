"""A model that threads use together, compared with one that is used alone."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import numpy as np
import pytest

from layup import FeatureCache, storage
from layup.errors import (
    BusyError,
    InputError,
    LayupError,
    NotEnoughMemoryError,
    ReadOnlyError,
    StorageError,
    UnknownNameError,
)
from layup.model import Journal, KnownPhotos, Record, beside, read_journal
from layup.serving import Limits, LiveModel
from live import new_model, opened, photo, photos, reloaded, wait_until

CATS, DOGS = photos(range(4)), photos(range(4, 8))


def taught(path: Path | None) -> LiveModel:
    """A live model of four cats and four dogs, in two lessons."""
    live = opened(path)
    live.teach(CATS, ["cat"] * 4)
    live.teach(DOGS, ["dog"] * 4)
    return live


def test_it_learns_and_predicts_as_a_model_alone(tmp_path: Path) -> None:
    alone = new_model()
    alone.learn(CATS, ["cat"] * 4)
    alone.learn(DOGS, ["dog"] * 4)
    new = photos(range(8, 20))
    with taught(tmp_path / "m.layup") as live:
        assert live.facts().state_hash == alone.state_hash
        answer = live.predict(new)
        np.testing.assert_array_equal(answer.predictions.scores, alone.predictions(new).scores)
        assert (answer.version, answer.predictions.classes) == (2, ["cat", "dog"])
        assert [(each.action, dict(each.learned)) for each in live.log()] == [
            ("learn", {"cat": 4}),
            ("learn", {"dog": 4}),
        ]
    assert reloaded(tmp_path / "m.layup").state_hash == alone.state_hash


def test_what_becomes_of_every_photo_is_told(tmp_path: Path) -> None:
    with taught(tmp_path / "m.layup") as live:
        given = [photo(0), photo(4), b"no image", photo(30), photo(30)]
        done = live.teach(given, ["cat", "cat", "cat", "dog", "dog"])
        assert [each.status for each in done.photos] == ["known", "conflict", "bad", "learned", "known"]
        assert [each.learned_as for each in done.photos] == [("cat",), ("dog",), (), ("dog",), ("dog",)]
        assert done.photos[2].error is not None
        assert (done.learned, done.known, done.moved) == ({"dog": 1}, 2, 0)
        ids = [each.id for each in done.photos]
        assert ids == live.predict(given).ids
        moved = live.teach([photo(4)], ["cat"], relabel=True)
        assert [each.status for each in moved.photos] == ["moved"]
        assert (moved.learned, moved.forgotten, moved.counts) == (
            {"cat": 1},
            {"dog": 1},
            {"cat": 5, "dog": 4},
        )
        gone = live.forget([photo(4), photo(40), b"no image"])
        assert [each.status for each in gone.photos] == ["forgotten", "unknown", "bad"]
        assert gone.counts == {"cat": 4, "dog": 4}


def test_whatever_is_done_the_sums_are_those_of_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "m.layup"
    with taught(path) as live:
        ids = [each.id or "" for each in live.teach(photos([10, 11]), ["eel", "fox"]).photos]
        assert live.forget_ids([ids[0], "00" * 16]).counts == {"cat": 4, "dog": 4, "fox": 1}
        assert live.forget_class("fox").exact
        assert live.rename("dog", "hound").counts == {"cat": 4, "hound": 4}
        live.teach(photos([12]), ["owl"])
        assert live.undo().forgotten == {"owl": 1}
        alone = new_model()
        alone.learn([*CATS, *DOGS], ["cat"] * 4 + ["hound"] * 4)
        assert live.facts().state_hash == alone.state_hash
        with pytest.raises(UnknownNameError, match="owl"):
            live.forget_class("owl")
        with pytest.raises(InputError, match="The last thing that was done is 'rename'"):
            live.undo()
    assert reloaded(path).state_hash == alone.state_hash


def test_a_model_that_knows_nothing_says_so(tmp_path: Path) -> None:
    with opened(tmp_path / "m.layup") as live:
        assert live.facts().counts == {}
        with pytest.raises(InputError, match="knows no class"):
            live.predict(CATS)
        assert live.teach([b"no image"], ["cat"]).photos[0].status == "bad"
        assert live.facts().version == 0


def test_the_same_key_gets_the_first_outcome_also_from_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "m.layup"
    with opened(path) as live:
        first = live.teach(CATS, ["cat"] * 4, key="one")
        assert live.teach(DOGS, ["dog"] * 4, key="one") == first
        nothing = live.teach(CATS, ["cat"] * 4, key="two")
        live.forget(CATS)
    with opened(path) as live:
        assert live.teach(CATS, ["cat"] * 4, key="one") == first
        assert live.teach(CATS, ["cat"] * 4, key="two") == nothing
        assert live.facts().counts == {}


def test_a_killed_process_loses_nothing(tmp_path: Path) -> None:
    """What is on the disk right after a lesson is confirmed is all that a kill would leave."""
    path, copy = tmp_path / "m.layup", tmp_path / "killed" / "m.layup"
    copy.parent.mkdir()
    with opened(path) as live:
        for number in range(4):
            live.teach(photos([number, number + 20]), ["cat", "dog"], key=str(number))
            for file in (path, beside(path)):
                shutil.copy(file, copy.parent)
            found = reloaded(copy)
            assert found.counts_ == {"cat": number + 1, "dog": number + 1}
            assert found.state_hash == live.facts().state_hash
            new = photos(range(40, 45))
            scores = live.predict(new).predictions.scores
            np.testing.assert_array_equal(found.predictions(new).scores, scores)
            with opened(copy) as again:
                done = again.teach(photos([number, number + 20]), ["cat", "dog"], key=str(number))
                assert done.version == number + 1


def test_the_file_is_whole_in_the_end_and_its_journal_empty(tmp_path: Path) -> None:
    path = tmp_path / "m.layup"
    taught(path).close()
    filed = read_journal(path)
    assert filed is not None
    assert (filed.records, filed.through) == ((), 2)
    beside(path).unlink()
    assert reloaded(path).counts_ == {"cat": 4, "dog": 4}


def test_what_was_forgotten_is_soon_in_no_file(tmp_path: Path, own_cache: Path) -> None:
    path = tmp_path / "m.layup"
    with taught(path) as live:
        assert FeatureCache(own_cache).stats().entries == 8
        assert live.forget([photo(40)]).photos[0].status == "unknown"
        assert FeatureCache(own_cache).stats().entries == 8  # nothing of a photo that was never learned
        assert live.forget(CATS).exact
        wait_until(lambda: FeatureCache(own_cache).stats().entries == 4)
        filed = read_journal(path)
        assert filed is not None
        assert filed.records == ()


def test_what_is_forgotten_while_it_is_taught_again_is_still_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.layup"
    with taught(path) as live:
        given = live._given

        def forgotten_meanwhile(images, features):
            found = given(images, features)
            monkeypatch.setattr(live, "_given", given)
            live.forget(images)
            wait_until(lambda: getattr(read_journal(path), "records", None) == ())
            return found

        monkeypatch.setattr(live, "_given", forgotten_meanwhile)
        assert live.teach(CATS[:1], ["cat"]).learned == {"cat": 1}
        assert live.forget_class("cat").exact


def test_the_accuracy_to_expect_is_found_in_the_background_and_kept(tmp_path: Path) -> None:
    with taught(tmp_path / "m.layup") as live:
        wait_until(lambda: live.log()[-1].expected is not None)
        facts = live.facts()
        assert facts.expected is not None
        assert facts.expected.tested == sum(tested for _, tested in facts.right.values()) == 8
        assert live.expect() == facts.expected
    assert reloaded(tmp_path / "m.layup").log[-1].expected == facts.expected.to_dict()


def test_all_known_photos_are_audited_without_being_given(tmp_path: Path) -> None:
    alone = new_model()
    images, labels = photos([*range(8), 20]), ["cat"] * 4 + ["dog"] * 4 + ["eel"]
    alone.learn(images, labels)
    alone.save(tmp_path / "alone.layup")
    alone = reloaded(tmp_path / "alone.layup")
    with taught(tmp_path / "m.layup") as live:
        live.teach([photo(20)], ["eel"])
        found, asked = live.audit(), alone.audit(images, labels)
        assert found.ids == live.predict(images).ids
        assert (found.labels, found.not_judged) == (labels, 0)
        for name in ("suspects", "expected", "confusion", "judged", "alone", "redundant"):
            assert getattr(found.audit, name) == getattr(asked, name), name
        assert sum(map(sum, found.audit.confusion.counts)) == found.audit.judged == 8
        FeatureCache().clear()
        with pytest.raises(InputError, match="None of the photos of this model can be judged"):
            live.audit()


def test_without_a_file_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with taught(None) as live:
        assert not live.facts().saved
        assert live.undo().counts == {"cat": 4}
        live.save_to(tmp_path / "copy.layup")
    assert reloaded(tmp_path / "copy.layup").counts_ == {"cat": 4}
    assert {each.name for each in tmp_path.iterdir()} == {"copy.layup", ".copy.layup.lock"}


def test_other_processes_wait_for_the_file(tmp_path: Path) -> None:
    path = tmp_path / "m.layup"
    told: list[str] = []
    with taught(path):
        second = threading.Thread(target=lambda: opened(path, on_wait=told.append).close())
        second.start()
        wait_until(lambda: bool(told))
        assert "since" in told[0]
        assert second.is_alive()
    second.join()


def test_a_full_disk_undoes_the_lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with taught(tmp_path / "m.layup") as live:
        before = live.facts().state_hash

        def full(*_: object) -> None:
            raise StorageError("The disk is full: make room")

        with monkeypatch.context() as patch:
            patch.setattr("layup.frames.Appender.append", full)
            with pytest.raises(StorageError, match="disk is full"):
                live.teach(photos([30]), ["eel"], key="eel")
        assert (live.facts().state_hash, live.facts().version) == (before, 2)
        assert live.teach(photos([30]), ["eel"], key="eel").version == 3


def test_an_error_in_the_thread_is_told_and_nothing_confirmed_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.layup"
    live = taught(path)
    with monkeypatch.context() as patch:
        patch.setattr("layup.frames.Appender.append", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            live.teach(photos([30]), ["eel"])
    wait_until(lambda: live.facts().failed is not None)
    assert "Start the server again" in str(live.facts().failed)
    with pytest.raises(LayupError, match="Start the server again"):
        live.teach(photos([30]), ["eel"])
    assert live.predict(CATS).version == 2
    live.close()
    assert reloaded(path).counts_ == {"cat": 4, "dog": 4}


def test_a_model_that_cannot_be_solved_ends_the_server_and_is_still_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.layup"
    live = taught(path)

    def too_large(*_: object) -> None:
        raise NotEnoughMemoryError("It needs more memory than there is")

    with monkeypatch.context() as patch:
        patch.setattr("layup.serving.writer.Snapshot.of", too_large)
        with pytest.raises(NotEnoughMemoryError):
            live.teach(photos([30]), ["eel"])
    wait_until(lambda: live.facts().failed is not None)
    live.close()
    assert reloaded(path).counts_ == {"cat": 4, "dog": 4, "eel": 1}
    with opened(path) as live:
        assert live.teach(photos([31]), ["eel"]).version == 4


def test_a_model_that_cannot_be_written_whole_stays_in_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "m.layup"
    flush = storage.flush_folder

    def refused(folder: Path) -> None:
        flush(folder)
        if any(each.name == "m.layup.journal" for each in folder.iterdir()):
            raise OSError(5, "Input/output error")

    with taught(path) as live:
        with monkeypatch.context() as patch:
            patch.setattr(storage, "flush_folder", refused)  # only now, when the new journal is in its place
            live.forget(photos([0]))
            wait_until(lambda: live.facts().waiting == 0)
            live.teach(photos([30]), ["eel"])
        live.teach(photos([31]), ["eel"])
        assert reloaded(path).counts_ == {"cat": 3, "dog": 4, "eel": 2}
    assert reloaded(path).counts_ == {"cat": 3, "dog": 4, "eel": 2}


def test_a_misspelt_name_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no model"):
        LiveModel.open(tmp_path / "m.layup")
    assert list(tmp_path.iterdir()) == []


def test_too_many_callers_are_told_to_come_again(tmp_path: Path) -> None:
    with opened(tmp_path / "m.layup", limits=Limits(callers=0)) as live:
        with pytest.raises(BusyError, match="waiting already") as told:
            live.teach(CATS, ["cat"] * 4)
        assert told.value.retry_after > 0
    with (
        opened(tmp_path / "m.layup", limits=Limits(lessons=0)) as live,
        pytest.raises(BusyError, match="lessons are waiting"),
    ):
        live.teach(CATS, ["cat"] * 4)


def test_lessons_that_wait_are_kept_together_and_predictions_wait_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, may = list[int](), threading.Event()
    append = Journal.append

    def slowly(journal: Journal, records: list[Record], known: KnownPhotos) -> None:
        kept.append(len(records))
        assert may.wait(20)
        append(journal, records, known)

    with taught(tmp_path / "m.layup") as live, ThreadPoolExecutor(9) as pool:
        monkeypatch.setattr(Journal, "append", slowly)
        first = pool.submit(live.teach, photos([20]), ["eel"])
        wait_until(lambda: kept == [1])
        others = [pool.submit(live.teach, photos([number]), ["fox"]) for number in range(21, 29)]
        wait_until(lambda: live._keeper.waiting == 8)
        assert live.predict(CATS).version == 2
        may.set()
        assert first.result().version == 3
        assert sorted(each.result().version for each in others) == list(range(4, 12))
        assert kept == [1, 8]


def test_explanations_and_suggestions_are_those_of_a_model_alone(tmp_path: Path) -> None:
    with taught(tmp_path / "m.layup") as live:
        live.save_to(tmp_path / "copy.layup")
        alone, new = reloaded(tmp_path / "copy.layup"), photos(range(20, 40))
        assert live.suggest(new, 3) == alone.suggest(new, 3)
        for heat in (True, False):
            assert live.explain(new[0], heat).to_dict() == alone.explain(new[0], heat=heat).to_dict()


def test_a_model_that_is_yet_to_tune_its_network_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Let it learn that batch first"):
        opened(tmp_path / "m.layup", new=lambda: new_model(adapter="ssf"))


def test_a_follower_sees_what_is_taught_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "m.layup"
    with pytest.raises(
        InputError, match=r"There is no model '.*' to follow\. Name the file that another server"
    ):
        opened(path, follow=True)
    with taught(path) as live, opened(path, follow=True) as copy:
        assert copy.facts().counts == {"cat": 4, "dog": 4}
        live.teach(photos([30]), ["eel"])
        wait_until(lambda: copy.facts().version == 3)
        assert copy.facts().state_hash == live.facts().state_hash
        scores = [each.predict(CATS).predictions.scores for each in (live, copy)]
        np.testing.assert_array_equal(*scores)
        live.forget_class("cat")  # after which the file is written anew
        wait_until(lambda: copy.facts().version == 4)
        live.teach(photos([31]), ["fox"])
        wait_until(lambda: copy.facts().version == 5)
        assert copy.facts().state_hash == live.facts().state_hash
        assert copy.facts().failed is None
        with pytest.raises(ReadOnlyError, match="only follows"):
            copy.teach(CATS, ["cat"] * 4)


def test_many_threads_make_what_some_order_of_their_lessons_makes(tmp_path: Path) -> None:
    path, versions = tmp_path / "m.layup", list[int]()

    def work(thread: int) -> None:
        chance, last = Random(thread), 0
        for _ in range(6):
            number, deed = chance.randrange(24), chance.randrange(3)
            if deed == 0:
                done = live.forget(photos([number]))
            else:
                label = "other" if deed == 1 else f"class {number % 3}"
                done = live.teach(photos([number]), [label], relabel=deed == 1)
            if done.changed:
                versions.append(done.version)
            answer = live.predict(photos([chance.randrange(24)])) if live.facts().counts else None
            assert answer is None or answer.version >= last, "an older model was seen after a newer one"
            last = max(done.version, 0 if answer is None else answer.version)

    with opened(path) as live:
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(work, range(16)))
        assert sorted(versions) == list(range(1, len(versions) + 1))
        held = enumerate(live.predict(photos(range(24))).learned_as)
        alone = new_model()
        known = [(number, name) for number, names in held for name in names]
        alone.learn(photos(number for number, _ in known), [name for _, name in known])
        assert live.facts().state_hash == alone.state_hash
    assert reloaded(path).state_hash == alone.state_hash
