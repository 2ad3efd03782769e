"""The quick part of `make torture`: each promise is tried a little, and each checker is shown to fail."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from layup import FeatureCache, GramStatistics, ImageModel, LayUP, RidgeClassifier, load, storage
from layup.algebra.symmetric import Triangle
from layup.errors import InputError
from layup.images import open_image
from layup.model import Journal
from layup.serving import home
from layup.tuning import adaptation, trainer
from torture import (
    __main__,
    caches,
    command,
    deeds,
    exact,
    faults,
    folders,
    histories,
    image_files,
    images,
    io_errors,
    json_values,
    kills,
    ledger,
    model_files,
    model_histories,
    mutations,
    power,
    raw_bytes,
    records,
    report,
    runner,
    samples,
    serving,
    uploads,
    worker,
)
from torture.deeds import MODEL, Deed
from torture.disk import Disk
from torture.guard import HungError, TrespassError, kept_inside, memory_limit, time_limit
from torture.promise import BrokenError, Promise, Tries, chance_of, require, require_sentence, tried
from torture.promises import PROMISES
from torture.shared import from_tests


@pytest.fixture
def tmp_path():
    """Where syncs cost nothing, as there is no disk."""
    with tempfile.TemporaryDirectory(dir=runner.quick()) as folder:
        yield Path(folder)


def failures(tries: Tries, folder: Path, indices: Sequence[int] = (), seed: int = 0) -> list[worker.Failure]:
    """The tries that fail: all of those that go through each step, or these."""
    promise = Promise("quick", "", 0, lambda _: tries)
    found = (worker.attempt(promise, tries, seed, i, folder / "try") for i in indices or range(tries.every))
    return [failure for failure in found if failure]


# ---- files that are interrupted


def write(path: Path, name: str) -> None:
    storage.write(path, "model", {"written": name}, {"a": np.full(2500, len(name), float)})


def in_place(path: Path, name: str) -> None:
    """Overwrites the only file that there is."""
    good = path.with_name("good")
    write(good, name)
    data = good.read_bytes()
    storage.delete(good)
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def replaced(path: Path, name: str, *, sync: bool, flush: bool) -> None:
    """Puts a new file in the place of the old one, but without telling the disk all."""
    good = path.with_name("good")
    write(good, name)
    data = good.read_bytes()
    storage.delete(good)
    with good.open("wb") as file:
        file.write(data)
        file.flush()
        if sync:
            os.fsync(file.fileno())
    good.replace(path)
    if flush:
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)
        os.close(folder)


def deed(writer) -> Deed:
    return Deed(
        "write",
        lambda folder: write(folder / MODEL, "old"),
        lambda folder: writer(folder / MODEL, "the new one"),
        lambda folder: (
            repr(storage.read_header(folder / MODEL, "model"))
            + repr(storage.read(folder / MODEL, "model")[1])
        ),
    )


GOOD = deed(write)


def rehearsed(tmp_path: Path, which: Deed) -> deeds.Rehearsed:
    return deeds.rehearsed(which, tmp_path / "rehearsal")


def test_a_writer_that_is_killed_at_any_step(tmp_path: Path) -> None:
    tries = kills.tries([rehearsed(tmp_path, GOOD)])
    assert tries.every > 10
    assert failures(tries, tmp_path) == []
    assert failures(tries, tmp_path, range(tries.every, tries.every + 3)) == []  # at random moments


@pytest.mark.slow
def test_kills_find_a_writer_in_place(tmp_path: Path) -> None:
    tries = kills.tries([rehearsed(tmp_path, deed(in_place))])
    found = failures(tries, tmp_path, range(tries.every))
    assert found
    assert "was killed at step" in found[0].what


def fewer_steps(each: deeds.Rehearsed) -> deeds.Rehearsed:
    """As if the deed took another step in the rehearsal that it never takes again."""
    return replace(each, steps=[*each.steps, faults.Step("write", "/nothing")])


def failing(path: Path, name: str) -> None:
    """Writes, but then fails wherever it has no witness."""
    write(path, name)
    if os.getpid() != RUNNING:
        raise ZeroDivisionError


RUNNING = os.getpid()


@pytest.mark.slow
def test_kills_find_a_process_that_is_not_killed_or_fails(tmp_path: Path) -> None:
    sound = rehearsed(tmp_path, GOOD)
    tries = kills.tries([fewer_steps(sound)])
    assert [each.kind for each in failures(tries, tmp_path)] == [
        "the process was not killed where it should be"
    ]
    tries = kills.tries([replace(sound, deed=deed(failing))])
    found = failures(tries, tmp_path)
    assert [each.kind for each in found] == ["the process failed by itself"]  # at the end: else it is killed


def test_kills_find_a_deed_that_ends_without_being_done(tmp_path: Path) -> None:
    """At the end there is the new state, and no other."""
    sound = rehearsed(tmp_path, GOOD)
    undone = replace(sound, deed=replace(GOOD, act=lambda folder: None), steps=[])
    found = failures(kills.tries([undone]), tmp_path)
    assert ["the new state is not there" in each.what for each in found] == [True]


def test_errors_find_a_step_that_is_never_taken(tmp_path: Path) -> None:
    tries = io_errors.tries([fewer_steps(rehearsed(tmp_path, GOOD))])
    kinds = {each.kind for each in failures(tries, tmp_path, range(0, tries.every, 3))}
    assert kinds == {"the step that should fail was never taken"}


def test_any_error_at_any_step(tmp_path: Path) -> None:
    tries = io_errors.tries([rehearsed(tmp_path, GOOD)])
    assert tries.every > 200
    assert failures(tries, tmp_path, range(0, tries.every, 6)) == []


def test_errors_find_a_writer_that_does_not_say_so(tmp_path: Path) -> None:
    found = failures(io_errors.tries([rehearsed(tmp_path, deed(in_place))]), tmp_path, range(0, 400, 7))
    assert any("OSError" in failure.what or "PermissionError" in failure.what for failure in found)


def test_power_that_fails_at_any_step(tmp_path: Path) -> None:
    tries = power.tries([rehearsed(tmp_path, GOOD)], tmp_path)
    assert tries.every > 50
    assert failures(tries, tmp_path) == []
    assert failures(tries, tmp_path, range(tries.every, tries.every + 20)) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("writer", "says"),
    [
        (in_place, "DamagedFileError"),
        (partial(replaced, sync=False, flush=True), "DamagedFileError"),
        (partial(replaced, sync=True, flush=False), "was done, but the new state is not there"),
    ],
    ids=["in place", "no fsync of the file", "no fsync of the folder"],
)
def test_power_loss_finds_writers_that_trust_the_disk(tmp_path: Path, writer, says: str) -> None:
    found = failures(power.tries([rehearsed(tmp_path, deed(writer))], tmp_path), tmp_path)
    assert any(says in failure.what for failure in found)
    if writer is in_place:
        return
    whole = partial(replaced, sync=True, flush=True)
    (tmp_path / "whole").mkdir()
    tries = power.tries([rehearsed(tmp_path / "whole", deed(whole))], tmp_path / "whole")
    others = failures(tries, tmp_path, range(0, tries.every, 3))
    assert not [each for each in others if says in each.what]


def test_what_a_disk_may_lose() -> None:
    step = faults.Step
    data = [step("open", "/f/new", handle=1), step("write", "/f/new", handle=1, data=b"ab")]
    unsynced = Disk.after({"/f/old": b"x"}, data)
    found = list(unsynced.crashes())
    for content in (b"", b"ab", b"\0\0"):
        assert {"/f/old": b"x", "/f/new": content} in found
    assert {"/f/old": b"x"} in found  # not even its name
    synced = Disk.after(
        {"/f/old": b"x"}, [*data, step("fsync", "/f/new", handle=1), step("rename", "/f/new", "/f/old")]
    )
    assert {tuple(sorted(each.items())) for each in synced.crashes()} == {
        (("/f/old", b"x"),),
        (("/f/old", b"ab"),),
        (("/f/new", b"ab"), ("/f/old", b"x")),
    }
    synced.take(step("fsync", "/f", handle=9))
    assert [dict(each) for each in synced.crashes()] == [{"/f/old": b"ab"}] * 2


def test_steps_are_seen_and_can_fail(tmp_path: Path) -> None:
    steps = faults.steps_of(tmp_path, lambda folder: write(folder / MODEL, "x"))
    calls = [step.call for step in steps]
    assert {"open", "lock", "write", "fsync", "rename"} <= set(calls)
    assert calls.index("fsync") < calls.index("rename")
    assert calls.count("write") >= 2  # a file has steps within it
    assert os.open.__name__ == "open"  # nothing stays wrapped


def test_deeds_do_what_they_say(tmp_path: Path) -> None:
    """All of them, undisturbed; `make torture` disturbs them."""
    for i, each in enumerate(deeds.writers()[:4]):
        rehearsal = deeds.rehearsed(each, tmp_path / str(i))
        assert rehearsal.steps


# ---- files that were changed


@pytest.fixture(scope="module")
def model_files_made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {name: samples.saved(folder, name) for name in ("layup", "nmc")}


def test_a_forged_file_has_right_checksums(model_files_made, tmp_path: Path) -> None:
    """The twin of the writer in `torture.model_files` is up to date."""
    path = model_files_made["layup"]
    file = model_files.ModelFile.parsed(path.read_bytes())
    assert model_files.assembled(file) == path.read_bytes()
    file.header["labels"][0] = "aardvark"
    forged = tmp_path / "forged.layup"
    forged.write_bytes(model_files.assembled(file.sealed()))
    assert storage.read_header(forged, "model")["labels"][0] == "aardvark"
    forged.write_bytes(model_files.assembled(file))
    with pytest.raises(storage.DamagedFileError):
        storage.read_header(forged, "model")


def test_changed_model_files_are_opened(model_files_made, tmp_path: Path) -> None:
    tries = mutations.tries([mutations.model_sample(name, made) for name, made in model_files_made.items()])
    assert failures(tries, tmp_path, range(40)) == []


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return mutations.checkpoints(tmp_path_factory.mktemp("checkpoints"))


@pytest.mark.slow
def test_changed_checkpoints_are_resumed(
    checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations, "RESUMED", 1)
    made = [(name, data, mutations._check_checkpoint) for name, data in checkpoints.items()]
    assert failures(mutations.tries(made), tmp_path, range(8)) == []


def test_an_interrupted_checkpoint_holds_all_that_can_be_changed(checkpoints) -> None:
    groups = [
        {name.partition(".")[0] for name in model_files.ModelFile.parsed(data).arrays}
        for data in checkpoints.values()
    ]
    assert groups == [{"best", "tuned", "head", "optimizer"}, {"best"}]


def test_arrays_of_any_shape_can_be_changed() -> None:
    for array in (np.array(2.0, np.float32), np.zeros((0, 3)), np.ones(4)):
        made = [model_files._other_arrays({"a": array}, chance_of(0, "arrays", i))[1] for i in range(200)]
        assert len(set(made)) == 9


def test_mutations_find_a_checkpoint_that_is_trusted(
    checkpoints, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = model_files.ModelFile.parsed(checkpoints["finished checkpoint"])
    for array in file.arrays.values():
        array.fill(np.nan)
    path = tmp_path / "m.adapting"
    path.write_bytes(model_files.assembled(file.sealed()))
    monkeypatch.setattr(mutations, "RESUMED", 1)
    mutations._check_checkpoint(path, chance_of(0, "", 0))  # which is refused
    for module in (adaptation, trainer):
        monkeypatch.setattr(module, "all_finite", lambda tensors: True)
    with pytest.raises(BrokenError, match="what was tuned is not finite"):
        mutations._check_checkpoint(path, chance_of(0, "", 0))


def trusting(path, **options):
    """Loads whatever there is."""
    header, arrays = storage.read(path, "model")
    sums = GramStatistics(dict(header["layers"]))
    sums._held = replace(
        sums._held,
        labels=header["labels"],
        counts=np.array(header["counts"], np.int64),
        rows=list(arrays["prototypes"]),
        triangle=Triangle.from_packed(arrays["gram"], sums.dim),
    )
    model = LayUP(samples.tiny(), lam=1.0, cache=False)
    model.classifier_.adopt(sums)
    return model


def test_mutations_find_a_loader_that_trusts_files(
    model_files_made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations, "load", trusting)
    sample = mutations.model_sample("trusting", model_files_made["layup"])
    kinds = {failure.kind for failure in failures(mutations.tries([sample]), tmp_path, range(150))}
    assert any("KeyError" in kind for kind in kinds)
    assert any("not finite" in kind for kind in kinds)


def curious(path, **options):
    """Opens what a file names."""
    spec = storage.read_header(path, "model")["backbone"]["spec"] or {}
    if "bait" in str(spec.get("weights")):
        Path(spec["weights"]).joinpath("config.json").read_text()
    return load(path, **options)


def test_mutations_find_a_loader_that_opens_what_a_file_names(
    model_files_made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mutations, "load", curious)
    sample = mutations.model_sample("curious", model_files_made["layup"])
    found = failures(mutations.tries([sample]), tmp_path, range(250))
    assert any("TrespassError: open" in failure.what for failure in found)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda sums: {"labels": sums.labels[::-1]},
        lambda sums: {"labels": ["ant"] * len(sums.labels)},
        lambda sums: {"counts": sums.counts * 0},
        lambda sums: {"counts": sums.counts + 2**61},
        lambda sums: {"rows": [row * np.nan for row in sums._held.rows]},
        lambda sums: {"triangle": sums._held.triangle.plus_rows(np.full((1, 14), 1e3), sign=-1)},
        lambda sums: {"triangle": Triangle.of(np.ones((14, 14)) - 0.5 * np.eye(14))},
    ],
    ids=["unsorted", "twice", "no images", "too many images", "NaN", "negative", "indefinite"],
)
def test_what_is_not_sound(model_files_made, spoil, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = load(model_files_made["layup"], backbone=samples.tiny(), cache=False)
    mutations.require_sound(model)
    monkeypatch.setattr(GramStatistics, "load", lambda path: model.statistics_)
    mutations._check_statistics(tmp_path, chance_of(0, "", 0))
    sums = model.statistics_
    sums._held = replace(sums._held, **spoil(sums))
    with pytest.raises(BrokenError):
        mutations.require_sound(model)
    with pytest.raises(BrokenError):
        mutations._check_statistics(tmp_path, chance_of(0, "", 0))


@pytest.mark.parametrize("name", sorted(image_files.samples()))
def test_changes_follow_from_the_seed(name: str) -> None:
    data = image_files.samples()[name]
    one, other = (image_files.mutated(name, data, chance_of(7, "images", 11)) for _ in range(2))
    assert one == other
    assert {image_files.mutated(name, data, chance_of(7, "images", i))[0] for i in range(5)} != {one[0]}


def test_changes_of_models_and_values_follow_from_the_seed(model_files_made) -> None:
    data = model_files_made["layup"].read_bytes()
    for change in (model_files.mutated, raw_bytes.mutated):
        made = [[change(data, chance_of(7, "mutations", i)) for i in range(40)] for _ in range(2)]
        assert made[0] == made[1]
        assert len({changed for changed, _ in made[0]}) > 30
    value = {"a": [1, 2.5, "x"], "b": {"c": None}}
    changed = [
        json_values.text_of(json_values.mutated(value, chance_of(0, "values", i))[0]) for i in range(200)
    ]
    assert value == {"a": [1, 2.5, "x"], "b": {"c": None}}
    assert len(set(changed)) > 100


def test_damaged_caches(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    assert failures(caches.prepare(tmp_path / "shared"), tmp_path, range(40)) == []


class Forgetful(FeatureCache):
    """Gives features with one bit changed."""

    def get_many(self, fingerprint, digests):
        found = super().get_many(fingerprint, digests)
        for vector in list(found.values())[:1]:
            vector.view(np.uint8)[0] ^= 1
        return found


def test_caches_find_one_bit(tmp_path: Path) -> None:
    caches.check(FeatureCache(tmp_path), caches.vectors())
    with pytest.raises(BrokenError, match="features are wrong"):
        caches.check(Forgetful(tmp_path), caches.vectors())


class Useless(FeatureCache):
    """Keeps nothing, and does not notice."""

    def put_many(self, fingerprint, digests, vectors):
        super().put_many(fingerprint, digests[1:], vectors[1:])


def test_caches_find_one_that_is_useless_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    caches.require_mended(tmp_path / "good", caches.vectors())
    monkeypatch.setattr(caches, "FeatureCache", Useless)
    monkeypatch.setattr(caches, "DIGESTS", caches.DIGESTS[:1])
    with pytest.raises(BrokenError, match="never found"):
        caches.require_mended(tmp_path / "bad", caches.vectors())


def test_changed_records(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    assert failures(records.prepare(tmp_path / "shared"), tmp_path, (1, 2, 3, 100)) == []


def test_records_find_what_is_not_sound() -> None:
    records.require_sound(from_tests("fake_records").fake_record())
    for spoil in (
        lambda record: record.steps[0].per_class.update({"class 00": 1.5}),
        lambda record: record.truth.__setitem__(0, 1.0),
        lambda record: record.class_order.append(record.class_order[0]),
    ):
        record = from_tests("fake_records").fake_record()
        spoil(record)
        with pytest.raises(BrokenError):
            records.require_sound(record)


# ---- images


def test_malformed_images(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    tries = images.prepare(tmp_path / "shared")
    assert failures(tries, tmp_path, range(200)) == []


def test_changed_images_are_neither_all_good_nor_all_bad(tmp_path: Path) -> None:
    for name, data in image_files.samples().items():
        path = tmp_path / "image"
        path.write_bytes(data)
        assert images.usable(path), name
    changed = [
        image_files.mutated(name, data, chance_of(0, name, i))[0]
        for name, data in image_files.samples().items()
        for i in range(20)
    ]
    good = 0
    for data in changed:
        path.write_bytes(data)
        good += images.usable(path)
    assert 0.1 < good / len(changed) < 0.9


@pytest.mark.parametrize("broken", [lambda path: open_image(path).convert("L"), lambda path: 1 / 0])
def test_images_find_a_reader_that_breaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken) -> None:
    monkeypatch.setattr(images, "open_image", broken)
    (tmp_path / "shared").mkdir()
    assert failures(images.prepare(tmp_path / "shared"), tmp_path, range(20))


def test_folders_with_bad_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = folders.tries(tmp_path / "shared", 40)
    assert failures(tries, tmp_path, range(2)) == []
    real = folders._learned
    monkeypatch.setattr(folders, "_learned", lambda folder: (real(folder)[0], set()))
    assert failures(tries, tmp_path, range(2))


# ---- requests


def test_malformed_requests(tmp_path: Path) -> None:
    assert failures(uploads.prepare(tmp_path), tmp_path, range(80)) == []


@pytest.mark.parametrize(
    ("where", "broken"),
    [
        ("layup.serving.uploads.Form.finish", lambda form: 1 / 0),
        (
            "layup.serving.limits.Room.share",
            lambda room: nullcontext(lambda count: setattr(room, "taken", 1)),
        ),
        ("layup.serving.routes.photos.Photos.id", lambda photos, turn: str(Path("id").write_text("x"))),
    ],
)
def test_requests_find_a_server_that_breaks(tmp_path: Path, monkeypatch, where, broken) -> None:
    monkeypatch.setattr(where, broken)
    monkeypatch.chdir(tmp_path)
    uploads.server.cache_clear()
    try:
        assert failures(uploads.prepare(tmp_path), tmp_path, range(40))
    finally:
        uploads.server.cache_clear()


# ---- exact sums


def test_all_ways_to_the_same_sums_have_one_hash(tmp_path: Path) -> None:
    for index in range(60):
        exact.attempt(chance_of(0, "exact", index), tmp_path)


def test_another_hash_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here because nothing is forgotten."""
    monkeypatch.setattr(GramStatistics, "revert", lambda self, x, y: None)
    with pytest.raises(BrokenError, match="another hash"):
        _ = [exact.attempt(chance_of(0, "exact", index), tmp_path) for index in range(60)]


# ---- histories


def test_histories(tmp_path: Path) -> None:
    for index in range(3):
        histories.live(chance_of(0, "histories", index), tmp_path, 150)


@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param(0, 400, id="early"),
        pytest.param(500, 700, id="later"),
        pytest.param(1500, 1700, id="late", marks=pytest.mark.slow),
    ],
)
def test_histories_find_sums_that_are_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: int, last: int
) -> None:
    """However much was merged before."""
    real = GramStatistics.remove

    def sloppy(self: GramStatistics, part: GramStatistics) -> None:
        real(self, part)
        if self.labels and int(tried[0].split()[1].rstrip(",")) >= first:  # step 1500, forget; …
            self._held.rows[0] = self._held.rows[0] * (1 + 1e-7)

    monkeypatch.setattr(GramStatistics, "remove", sloppy)
    with pytest.raises(BrokenError, match="not th"):
        histories.live(chance_of(0, "histories", 0), tmp_path, last)


def test_a_merge_makes_no_peak_of_its_own() -> None:
    rows = ledger.Rows(1)
    root = ledger.Ledger(rows)
    root.take([(rows.add(np.array([3.0])), "a")])
    assert root.merged(root.copy(), root).peak == 9.0
    assert root.merged(root.copy()).peak == 18.0


def test_histories_find_what_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RidgeClassifier, "revert", lambda self, x, y: self)
    with pytest.raises(BrokenError):
        histories.live(chance_of(0, "histories", 0), tmp_path, 400)


@pytest.mark.parametrize("index", range(5))
def test_strangers_always_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: int) -> None:
    """Whatever is known, and however much: a stranger is not forgotten."""
    tested: list[int] = []
    real = histories.Life.refuses

    def refuses(self: histories.Life, model: RidgeClassifier, samples: Sequence[ledger.Sample]) -> None:
        real(self, model, samples)
        tested.append(model.statistics_.total)

    steps = (histories.learn, histories.forget_a_stranger)
    drawn: list[int] = []
    monkeypatch.setattr(histories, "COMMON", steps)
    monkeypatch.setattr(histories, "RARE", steps)
    monkeypatch.setattr(histories.Life, "refuses", refuses)
    monkeypatch.setattr(histories, "about", lambda what: drawn.append("stranger" in what) or nullcontext())
    histories.live(chance_of(0, "histories", index), tmp_path, 60)
    assert len(tested) == sum(drawn) > 10
    assert 2 <= min(tested) <= max(tested) <= histories.DIM // 2


def test_histories_of_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_histories, "STEPS", 25)
    tries = model_histories.prepare(tmp_path)
    assert failures(tries, tmp_path, range(2)) == []
    monkeypatch.setattr(ImageModel, "merge", lambda self, other, base=None: self)
    assert failures(tries, tmp_path, range(3))


# ---- servers


def test_killed_servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tries = serving.prepare(tmp_path)
    monkeypatch.setattr(serving, "KILLS", 1)
    assert failures(tries, tmp_path, [0]) == []


def test_killed_servers_find_a_journal_that_keeps_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = serving.prepare(tmp_path)
    monkeypatch.setattr(Journal, "append", lambda *_: None)
    (failure,) = failures(tries, tmp_path, [0])
    assert failure.kind == "the model is not what was confirmed"


@pytest.mark.slow
def test_killed_servers_find_a_lesson_that_is_done_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = serving.prepare(tmp_path)
    monkeypatch.setattr(home, "answers_of", lambda filed: ())  # as if keys were not kept
    assert failures(tries, tmp_path, range(5))  # a kill after a lesson that may be done twice shows nothing


# ---- bounds


def test_bounds_of_time_and_memory() -> None:
    with pytest.raises(HungError), time_limit(0.05):
        time.sleep(5)
    with pytest.raises(BrokenError, match="MB of memory"), memory_limit(50):
        np.ones(5 * 10**7)  # much more, as the system may have taken some away meanwhile
    with memory_limit(50):
        np.ones(10**5)


def swallowing(work) -> None:
    """As some libraries do with whatever goes wrong."""
    with contextlib.suppress(BaseException):
        work()


def test_what_may_not_be_touched(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_text("ours")
    with kept_inside(tmp_path / "in"):
        (tmp_path / "in" / "file").read_text()
        Path(os.__file__).read_text()
    for reach in (
        lambda: (tmp_path / "out").write_text("theirs"),
        lambda: (mutations.BAIT / "config.json").read_text(),
        lambda: subprocess.run([sys.executable, "--version"]),
        lambda: os.system("true"),
    ):
        with pytest.raises(TrespassError), kept_inside(tmp_path / "in"):
            reach()
    with pytest.raises(BrokenError, match="reached outside"), kept_inside(tmp_path / "in"):
        swallowing(lambda: os.system("true"))
    assert not (tmp_path / "out").exists()


def test_sentences() -> None:
    require_sentence(InputError("One sentence."))
    for text in ("", "two\nlines", "\x1b[31mred", "x" * 5000):
        with pytest.raises(BrokenError):
            require_sentence(InputError(text))


def test_commands_are_run_or_refused(tmp_path: Path) -> None:
    assert "vit-nano" in command.run("backbones")
    with pytest.raises(command.RefusedError, match=r"Cannot read"):
        command.run("info", tmp_path / "nothing.layup")
    with pytest.raises(BrokenError, match="ended with 2"):
        command.run("info", "--nonsense")


# ---- the runner


def attempt(index: int, chance, folder: Path) -> None:
    assert list(folder.iterdir()) == []
    (folder / "file").write_text("x")
    if index == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    if index == 5:
        require(False, "five is right", chance.random())
    if index == 7:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        time.sleep(60)


TOY = Promise("toy", "Numbers are right.", 12, lambda folder: Tries(attempt, 20), seconds=2)


@pytest.fixture
def one_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A process that is about to make tries of the toy; little time is allowed."""
    monkeypatch.setattr(worker, "GRACE", 0.2)
    made = worker.Worker(replace(TOY, seconds=0.2), Tries(attempt), 7, tmp_path / "worker")
    yield made
    made.end()


def test_the_clock_starts_with_the_try(one_worker: worker.Worker) -> None:
    os.kill(one_worker.process.pid, signal.SIGSTOP)
    one_worker.give([0, 1])
    time.sleep(0.6)
    assert not one_worker.overdue()
    os.kill(one_worker.process.pid, signal.SIGCONT)
    assert one_worker.connection.recv() is None
    time.sleep(0.6)
    assert not one_worker.overdue()  # as nothing is tried any more


def test_a_crash_is_no_hang_however_late_it_is_seen(one_worker: worker.Worker) -> None:
    one_worker.give([3, 4])
    one_worker.process.join()
    time.sleep(0.6)
    assert one_worker.overdue()
    failure, rest = one_worker.bury()
    assert (failure.index, failure.what, rest) == (3, "the process died with exit code -9", [4])


def test_a_process_that_does_not_end_is_ended(one_worker: worker.Worker) -> None:
    process = one_worker.process
    os.kill(process.pid, signal.SIGSTOP)
    one_worker.end()
    code = process.exitcode
    process.kill()
    one_worker._start()
    assert code == -signal.SIGKILL


@pytest.mark.slow
def test_a_crash_a_hang_and_an_error_are_one_failure_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "GRACE", 2)
    outcome = runner.run(TOY, 7, workers=2, show=False)
    assert outcome.tries == 20  # never fewer than it takes to go through every step
    assert [failure.index for failure in outcome.failures] == [3, 5, 7]
    crash, error, hang = (failure.what for failure in outcome.failures)
    assert "-9" in crash
    assert f"five is right: {chance_of(7, 'toy', 5).random()!r}" in error
    assert "hung" in hang
    alone = runner.run(TOY, 7, only=5, show=False)
    assert (alone.tries, [failure.what for failure in alone.failures]) == (1, [outcome.failures[1].what])


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(PROMISES, "toy", TOY)
    kept = str(tmp_path / "all.json")
    assert __main__.main(["toy", "--seed", "7", "--only", "5", "--json", kept]) == 1
    out, err = capsys.readouterr()
    assert "python -m torture toy --seed 7 --only 5" in err
    assert "BrokenError: five is right" in err  # all of the traceback, of a single try
    assert "Numbers are right." in out
    saved = json.loads((tmp_path / "all.json").read_text())
    assert saved["promises"][0]["failures"][0]["replay"] == "python -m torture toy --seed 7 --only 5"
    assert __main__.main(["toy", "--tries", "3"]) == 0
    for wrong in (["nonsense"], ["--only", "3"], ["kills", "power", "--only", "3"]):
        with pytest.raises(SystemExit) as end:
            __main__.main(wrong)
        assert end.value.code == 2


def test_the_table_is_of_all_promises_and_says_how_it_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(__main__, "PROMISES", {"toy": TOY, "other": replace(TOY, name="other")})
    page = tmp_path / "page.md"
    page.write_text(f"Before.\n{report.BEGIN}\nold\n{report.END}\nAfter.\n")
    with pytest.raises(SystemExit):
        __main__.main(["toy", "--tries", "3", "--markdown", str(page)])
    assert "--markdown keeps the table of all promises: name none" in capsys.readouterr().err
    assert "old" in page.read_text()
    assert __main__.main(["--seed", "8", "--tries", "2", "--workers", "1", "--markdown", str(page)]) == 0
    text = page.read_text()
    assert text.startswith("Before.\n")
    assert text.endswith("After.\n")
    assert "old" not in text
    for name in ("toy", "other"):
        assert re.search(rf"\| {name} \| Numbers are right\. \| 2 \| 0 \| \d+ s \|", text)
    assert "`python -m torture --seed 8 --tries 2 --workers 1`." in text


# ---- where it runs


def test_memory_is_used_only_if_it_can_be_and_has_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "MEMORY", tmp_path)
    monkeypatch.setattr(runner, "ROOM", 1)
    assert runner.quick() == tmp_path
    monkeypatch.setattr(runner, "ROOM", 2**62)
    assert runner.quick() is None
    monkeypatch.setattr(runner, "ROOM", 1)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert runner.quick() is None
    monkeypatch.setattr(runner, "MEMORY", tmp_path / "nowhere")
    assert runner.quick() is None


def test_a_run_that_is_ended_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MEMORY", tmp_path)
    monkeypatch.setattr(runner, "ROOM", 1)
    slow = Promise("slow", "", 4, lambda folder: Tries(lambda index, chance, home: time.sleep(60)))
    process = worker.fork.Process(target=runner.run, args=(slow, 0), kwargs={"show": False})
    process.start()
    while not list(tmp_path.glob("layup-torture-*/worker-*/try")):
        time.sleep(0.01)
    process.terminate()
    process.join()
    assert process.exitcode == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


def test_the_page_has_a_place_for_the_table_and_names_every_promise() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reliability.md").read_text()
    assert report.BEGIN in page.split(report.END)[0]
    words = " ".join(page.split())
    for promise in PROMISES.values():
        assert f"**`{promise.name}`: {promise.says}**" in words
