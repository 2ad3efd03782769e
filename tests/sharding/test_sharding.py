"""A plan, its shards, and their union: the very model that one machine gives."""

from __future__ import annotations

import json
import shutil
import tracemalloc
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from PIL import Image

from layup import LayUP, load, storage
from layup.errors import DamagedFileError, InputError
from layup.images import labelled_parts, labelled_photos
from layup.sharding import Plan, Shard, compute, is_plan, union
from layup.sharding.shard import shard_path
from layup.sharding.unions import doubled
from photos import crops, save_crops


@pytest.fixture(scope="module")
def nano():
    return LayUP("vit-nano").backbone_


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return save_crops(tmp_path_factory.mktemp("photos"))


@pytest.fixture
def plan(photos, nano, tmp_path):
    """Slices of 9, the last of 4."""
    return Plan.write(tmp_path / "plan", labelled_photos(photos), LayUP(nano, 2), 9)


@pytest.fixture(scope="module")
def whole(photos, nano):
    """What one machine gives."""
    model = LayUP(nano, 2)
    found = labelled_photos(photos)
    model.learn(found.images, found.labels)
    return model


def compute_all(plan, order=None):
    return [compute(plan, number) for number in order or range(len(plan.slices))]


def test_the_union_is_the_model_of_one_machine(plan, whole):
    compute_all(plan, [4, 0, 2, 3, 1])
    model, bad = union(plan)
    assert bad == []
    assert model.state_hash == whole.state_hash
    assert model.counts_ == whole.counts_
    assert model.classifier_.chosen() == whole.classifier_.chosen()
    images = crops(50, side=16)[40:]
    np.testing.assert_array_equal(model.predict(images), whole.predict(images))
    np.testing.assert_allclose(model.scores(images), whole.scores(images), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [1, 7, 40, 1000])
def test_the_size_of_slices_does_not_matter(photos, nano, tmp_path, whole, size):
    plan = Plan.write(tmp_path / "plan", labelled_photos(photos), LayUP(nano, 2), size)
    assert len(plan.slices) == -(-40 // size)
    compute_all(plan)
    assert union(plan)[0].state_hash == whole.state_hash


def test_the_union_knows_its_photos(plan, photos, whole, tmp_path):
    compute_all(plan)
    model, _ = union(plan)
    assert model.knows_all
    found = labelled_photos(photos)
    assert model.learn(found.images, found.labels).known == 40
    model.forget(found.images[:5])
    assert model.state_hash != whole.state_hash
    model.save(tmp_path / "m.layup")
    assert load(tmp_path / "m.layup").state_hash == model.state_hash


def test_a_shard_has_the_same_bytes_whenever_it_is_computed(plan, monkeypatch, tmp_path):
    path, _ = compute(plan, 1)
    before = path.read_bytes()
    path.unlink()
    monkeypatch.setenv("LAYUP_CACHE", str(tmp_path / "another cache"))
    again, _ = compute(plan, 1)
    assert again == path
    assert again.read_bytes() == before


def test_a_shard_that_is_there_is_not_computed_again(plan, monkeypatch):
    path, shard = compute(plan, 1)
    monkeypatch.setattr(Plan, "start", lambda *_, **__: pytest.fail("a model was loaded"))
    same, found = compute(plan, 1)
    assert same == path
    assert found.sums.digest() == shard.sums.digest()


def test_a_photo_in_two_slices_counts_once_in_the_first(photos, nano, tmp_path, whole):
    twice = save_crops(tmp_path / "photos")
    shutil.copy(twice / "class 0/000.png", twice / "class 3/copy.png")  # another class: the first counts
    shutil.copy(twice / "class 1/001.png", twice / "class 1/zzz.png")
    plan = Plan.write(tmp_path / "plan", labelled_photos(twice), LayUP(nano, 2), 6)
    compute_all(plan)
    with pytest.raises(
        InputError, match=r"2 photos are in several slices.*Compute these slices again.*: 3, 6"
    ):
        union(plan)
    with pytest.raises(InputError, match=r"2 of 7 slices .* were not computed yet: 3, 6"):
        union(plan)
    compute_all(plan, [3, 6])
    model, _ = union(plan)
    assert model.state_hash == whole.state_hash


def test_a_photo_twice_in_a_slice_counts_once(nano, tmp_path, whole):
    twice = save_crops(tmp_path / "photos")
    shutil.copy(twice / "class 1/001.png", twice / "class 1/zzz.png")
    plan = Plan.write(tmp_path / "plan", labelled_photos(twice), LayUP(nano, 2), 100)
    [(_, shard)] = compute_all(plan)
    assert (shard.planned, shard.twice, shard.sums.total) == (41, 1, 40)
    assert union(plan)[0].state_hash == whole.state_hash


def test_bad_photos_are_named_and_left_out(photos, nano, tmp_path, whole):
    with_bad = save_crops(tmp_path / "photos")
    (with_bad / "class 2/broken.jpg").write_bytes(b"no image")
    plan = Plan.write(tmp_path / "plan", labelled_photos(with_bad), LayUP(nano, 2), 10)
    compute_all(plan)
    model, bad = union(plan)
    assert len(bad) == 1
    assert "broken.jpg" in bad[0]
    assert model.state_hash == whole.state_hash


def test_a_slice_without_a_usable_photo_holds_nothing(nano, tmp_path, whole):
    """A photo that is bad, or in an earlier slice, must not keep the others from being merged."""
    folder = save_crops(tmp_path / "photos")
    (folder / "class 2/broken.jpg").write_bytes(b"no image")
    shutil.copy(folder / "class 0/000.png", folder / "class 3/copy.png")
    plan = Plan.write(tmp_path / "plan", labelled_photos(folder), LayUP(nano, 2), 1)
    compute_all(plan)
    with pytest.raises(InputError, match="1 photos are in several slices"):
        union(plan)
    compute_all(plan)
    model, bad = union(plan)
    assert len(bad) == 1
    assert model.state_hash == whole.state_hash


def test_a_plan_without_any_usable_photo_says_why(nano, tmp_path):
    (tmp_path / "photos/cat").mkdir(parents=True)
    (tmp_path / "photos/cat/broken.jpg").write_bytes(b"no image")
    plan = Plan.write(tmp_path / "plan", labelled_photos(tmp_path / "photos"), LayUP(nano, 2), 5)
    compute_all(plan)
    with pytest.raises(InputError, match=r"No photo of .* can be used: .*broken\.jpg"):
        union(plan)


@pytest.mark.parametrize("lam", [1.0, "gcv"])
def test_the_papers_classifier_from_the_sums(photos, nano, tmp_path, lam):
    plan = Plan.write(tmp_path / "plan", labelled_photos(photos), LayUP(nano, 2, lam), 15)
    compute_all(plan)
    model, _ = union(plan)
    one = LayUP(nano, 2, lam)
    found = labelled_photos(photos)
    one.learn(found.images, found.labels)
    assert model.state_hash == one.state_hash
    np.testing.assert_array_equal(model.scores(found.images[:3]), one.scores(found.images[:3]))


@pytest.mark.slow
def test_the_strength_is_the_same_where_samples_choose_it(nano, tmp_path):
    """More than a thousand samples, so that some are drawn."""
    from layup.benchmark.datasets import load_dataset

    digits = load_dataset("digits").train
    folder = tmp_path / "digits"
    for number, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
        path = folder / label / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.asarray(image)).save(path)
    found = labelled_photos(folder)
    assert len(found.labels) > 1000
    plan = Plan.write(tmp_path / "plan", found, LayUP(nano), 300)
    compute_all(plan)
    one = LayUP(nano)
    one.learn(found.images, found.labels)
    model, _ = union(plan)
    assert one.classifier_.chosen()["strength"] != 1.0
    assert model.classifier_.chosen() == one.classifier_.chosen()
    assert model.state_hash == one.state_hash


# What is refused


def test_missing_shards_are_named(plan):
    compute_all(plan, [0, 2])
    with pytest.raises(InputError, match=r"3 of 5 slices .* were not computed yet: 1, 3, 4\."):
        union(plan)


def test_a_shard_of_another_plan_is_refused(plan, photos, nano, tmp_path):
    other = Plan.write(tmp_path / "other", labelled_photos(photos), LayUP(nano, 2), 10)
    compute_all(plan)
    path, _ = compute(other, 0)
    shutil.copy(path, shard_path(plan, 0))
    with pytest.raises(DamagedFileError, match="another plan"):
        union(plan)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda h, a: a.update(classes=a["classes"] + 1), "not those of its sums"),
        (lambda h, a: a.update(digests=a["digests"][:-1]), "do not fit"),
        (lambda h, a: h.update(twice=3), "account for all photos"),
        (lambda h, a: a.update({"gram 0": a["gram 0"] + 2.0**-30}), "multiples of its steps"),
        (lambda h, a: a.pop("rows"), "do not fit"),
    ],
)
def test_a_forged_shard_is_refused(plan, change, says):
    path, _ = compute(plan, 0)
    header, arrays = storage.read(path, "shard")
    change(header, arrays)
    storage.write(path, "shard", header, arrays)
    with pytest.raises(DamagedFileError, match=says):
        Shard.read(path, plan, 0)


def test_a_list_that_was_changed_is_refused(plan):
    path = plan.folder / "slice-00002.csv"
    path.write_text(path.read_text().replace("class 1", "class 2"))
    with pytest.raises(InputError, match="has changed since it was planned"):
        compute(plan, 2)


def test_another_start_is_refused(plan, nano):
    (plan.folder / "start.layup").unlink()
    LayUP(nano, 3).save(plan.folder / "start.layup")
    with pytest.raises(InputError, match="not the model that was planned"):
        compute(plan, 2)


def test_a_slice_that_is_not_there_is_refused(plan):
    with pytest.raises(InputError, match=r"no slice 5 .* it has 5"):
        compute(plan, 5)


def test_a_folder_without_a_plan_is_refused(tmp_path):
    assert not is_plan(tmp_path)
    with pytest.raises(InputError, match="is no plan"):
        Plan.read(tmp_path)


def test_a_damaged_plan_is_one_sentence(plan):
    path = plan.folder / "plan.json"
    values = json.loads(path.read_text())
    path.write_text(json.dumps({**values, "slices": ["x"]}))
    with pytest.raises(DamagedFileError):
        Plan.read(plan.folder)


def test_a_plan_is_read_as_it_was_written(plan):
    assert Plan.read(plan.folder) == plan
    with pytest.raises(InputError, match="holds another plan"):
        Plan.write(plan.folder, plan.photos(0), LayUP("vit-nano"), 9)


def test_the_same_plan_goes_on(plan, photos, nano):
    path, _ = compute(plan, 0)
    assert Plan.write(plan.folder, labelled_photos(photos), LayUP(nano, 2), 9) == plan
    assert path.exists()


def test_only_a_slice_is_held_while_planning(nano, tmp_path):
    given, told = 0, []

    def pairs():
        nonlocal given
        for number in range(25):
            given += 1
            yield f"/photos/{number}.jpg", "cat"

    plan = Plan.write(tmp_path / "plan", pairs(), LayUP(nano, 2), 10, done=lambda n: told.append((n, given)))
    assert told == [(10, 10), (10, 20), (5, 25)]
    assert plan.images == 25
    assert plan.photos(2).images == [f"/photos/{number}.jpg" for number in range(20, 25)]


@pytest.mark.slow
def test_planning_takes_the_same_memory_for_any_number_of_lines(nano, tmp_path):
    def peak(count):
        manifest = tmp_path / f"{count}.csv"
        rows = (f"/photos/{number % 100}/{number}.jpg,class {number % 100}\n" for number in range(count))
        with manifest.open("w") as file:
            file.writelines(chain(["path,label\n"], rows))
        tracemalloc.start()
        pairs = (pair for part in labelled_parts(manifest) for pair in part)
        plan = Plan.write(tmp_path / f"plan-{count}", pairs, LayUP(nano, 2), 10_000)
        highest = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert plan.images == count
        return highest

    few, many = peak(20_000), peak(200_000)
    assert many < 1.1 * few


def test_planning_that_fails_leaves_no_plan(nano, tmp_path):
    def broken(count):
        yield from ((f"/photos/{number}.jpg", "cat") for number in range(count))
        raise InputError("line 26: the label is empty")

    with pytest.raises(InputError, match="line 26"):
        Plan.write(tmp_path / "plan", broken(25), LayUP(nano, 2), 5)
    assert not is_plan(tmp_path / "plan")
    assert len([*(tmp_path / "plan").glob("slice-*.csv")]) == 5
    plan = Plan.write(
        tmp_path / "plan", [("/photos/1.jpg", "cat"), ("/photos/2.jpg", "dog")], LayUP(nano, 2), 1
    )
    assert len(plan.slices) == len([*plan.folder.glob("slice-*.csv")]) == 2


def test_a_plan_of_nothing_is_refused(nano, tmp_path):
    with pytest.raises(InputError, match="no photos to plan"):
        Plan.write(tmp_path / "plan", [], LayUP(nano, 2), 5)
    assert not is_plan(tmp_path / "plan")


@settings(max_examples=100)
@given(st.lists(st.lists(st.sampled_from([*range(6)]), unique=True, max_size=6), min_size=1, max_size=6))
def test_what_is_doubled_counts_in_the_first_part(parts):
    # The first halves of some are the same: these are compared as a whole.
    digests = [bytes([number // 2]) * 8 + bytes([number]) * 8 for number in range(6)]
    seen, expected = set(), {}
    for turn, part in enumerate(parts):
        if again := seen & {*part}:
            expected[turn] = {digests[number] for number in again}
        seen |= {*part}
    assert doubled([np.array([digests[number] for number in part], "S16") for part in parts]) == expected


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"exact": False}, "only if sums are exact"),
        ({"adapter": "ssf"}, "tuned on one machine"),
        ({"per_class": True}, "no root per class"),
    ],
)
def test_models_that_cannot_be_planned_are_refused(photos, nano, tmp_path, options, says):
    with pytest.raises(InputError, match=says):
        Plan.write(tmp_path / "plan", labelled_photos(photos), LayUP(nano, 2, **options), 9)
    assert not (tmp_path / "plan").exists()


def test_a_model_that_has_learned_is_no_start(photos, whole, tmp_path):
    with pytest.raises(InputError, match="has learned nothing"):
        Plan.write(tmp_path / "plan", labelled_photos(photos), whole, 9)
