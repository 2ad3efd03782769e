"""λ searched across slices: by sums per fold, weights that go out, and counts that come back."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest

from layup import LayUP
from layup.algebra import FOLDS, LAMBDAS
from layup.algebra.ridge_classifier import HeldOutRidgeClassifier
from layup.errors import DamagedFileError, InputError
from layup.images import labelled_photos
from layup.model import ImageModel
from layup.sharding import AgainError, Plan, left, union, work
from layup.sharding.rounds import OPEN, Round
from layup.sharding.shard import shard_path
from photos import crops, save_crops


@pytest.fixture(scope="module")
def nano():
    return LayUP("vit-nano").backbone_


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return save_crops(tmp_path_factory.mktemp("photos"))


def searching(nano, **options):
    return LayUP(nano, 2, lam="search", **options)


def learned(nano, photos, **options):
    model, found = searching(nano, **options), labelled_photos(photos)
    model.learn(found.images, found.labels)
    return model


def merged(plan, order=lambda numbers: numbers):
    """Compute, merge, count, merge, until there is a model; also how often slices were computed."""
    turns = 0
    while True:
        for number in order(left(plan)):
            work(plan, number)
        turns += 1
        try:
            return union(plan)[0], turns
        except AgainError:
            assert left(plan)


@pytest.mark.parametrize("options", [{}, {"balance": True}, {"grid": "paper"}], ids=str)
@pytest.mark.parametrize("size", [7, 100])
def test_the_union_has_the_lambda_of_one_machine(nano, photos, tmp_path, size, options):
    plan = Plan.write(tmp_path / "plan", labelled_photos(photos), searching(nano, **options), size)
    model, turns = merged(plan, lambda numbers: numbers[::-1])
    whole = learned(nano, photos, **options)
    assert turns >= 2
    assert model.state_hash == whole.state_hash
    assert model.lambda_ == whole.lambda_
    images = crops(50, side=16)[40:]
    np.testing.assert_array_equal(model.predict(images), whole.predict(images))


def test_photos_are_split_as_on_one_machine_and_the_lists_say_how(nano, photos, tmp_path):
    plan = Plan.write(tmp_path / "plan", labelled_photos(photos), searching(nano), 11)
    assert (plan.folder / "slice-00000.csv").read_text().startswith("path,label,fold\n")
    folds = [fold for number in range(len(plan.slices)) for fold in plan.folds(number)]
    assert np.bincount(folds).tolist() == [10] * FOLDS
    _, shard = work(plan, 0)
    assert [part.total for part in shard.parts] == np.bincount(plan.folds(0), minlength=FOLDS).tolist()


def test_bad_photos_and_those_in_two_slices_keep_no_search_from_ending(nano, photos, tmp_path):
    folder = save_crops(tmp_path / "photos")
    (folder / "class 2/broken.jpg").write_bytes(b"no image")
    shutil.copy(folder / "class 0/000.png", folder / "class 3/copy.png")
    plan = Plan.write(tmp_path / "plan", labelled_photos(folder), searching(nano), 9)
    model, turns = merged(plan)
    assert turns >= 3  # without the copy; and to count
    assert model.state_hash == learned(nano, photos).state_hash  # folds may be others, and so may λ


def test_too_few_photos_are_not_searched(nano, photos, tmp_path):
    found = labelled_photos(photos)
    few = [found.labels.index(label) + turn for label in sorted({*found.labels}) for turn in range(3)]
    manifest = tmp_path / "few.csv"
    manifest.write_text("path,label\n" + "".join(f"{found.images[i]},{found.labels[i]}\n" for i in few))
    plan = Plan.write(tmp_path / "plan", labelled_photos(manifest), searching(nano), 5)
    model, turns = merged(plan)
    assert turns == 1
    assert model.lambda_ == learned(nano, manifest).lambda_ == 1.0


@pytest.fixture(scope="module")
def counted(nano, photos, tmp_path_factory):
    """A plan whose first round was counted, but not merged."""
    plan = Plan.write(tmp_path_factory.mktemp("plans") / "plan", labelled_photos(photos), searching(nano), 20)
    for number in left(plan):
        work(plan, number)
    with pytest.raises(AgainError, match=r"λ is searched .* 16 values of λ predict right: 0, 1\. Then merge"):
        union(plan)
    for number in left(plan):
        work(plan, number)
    return plan


@pytest.fixture
def own(counted, tmp_path):
    """A copy of it."""
    shutil.copytree(counted.folder, tmp_path / "plan")
    return Plan.read(tmp_path / "plan")


def test_what_was_counted_is_not_counted_again(own, monkeypatch):
    monkeypatch.setattr(Plan, "start", lambda *_, **__: pytest.fail("a model was loaded"))
    assert left(own) == []
    path, turn = work(own, 1)
    assert isinstance(turn, Round)
    assert path == turn.counts_path(1)
    assert turn.lams == LAMBDAS


def test_counts_that_are_lost_are_asked_for_again(own, counted):
    turn = Round.open_in(own)
    turn.counts_path(1).unlink()
    assert left(own) == [1]
    with pytest.raises(AgainError, match=r"predict right: 1\. Then merge"):
        union(own)
    path, _ = work(own, 1)
    assert path.read_bytes() == (counted.folder / path.name).read_bytes()


def test_weights_that_are_lost_are_made_again(own):
    turn = Round.open_in(own)
    lost = turn.files()[3]
    before = lost.read_bytes()
    lost.unlink()
    turn.counts_path(0).unlink()
    with pytest.raises(AgainError):
        union(own)
    assert lost.read_bytes() == before


def test_a_lost_shard_comes_before_what_is_counted(own):
    shard_path(own, 0).unlink()
    Round.open_in(own).counts_path(1).unlink()
    assert left(own) == [0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("round", "{"),
        ("round", json.dumps({"lams": "all", "sums": "0" * 64})),
        ("counts", "[]"),
        ("counts", json.dumps({"right": [[1, 2, 3]]})),
        ("counts", json.dumps({"right": [[1, 2, 3, 4]]})),
    ],
)
def test_damaged_files_are_named(own, name, text):
    counts = Round.open_in(own).counts_path(1)
    path, use = (counts, union) if name == "counts" else (own.folder / OPEN, left)
    path.write_text(text)
    with pytest.raises(DamagedFileError, match=path.name):
        use(own)


def test_weights_of_another_round_are_refused(own):
    turn = Round.open_in(own)
    other = Round(own, turn.lams, "0" * 64)
    shutil.copy(turn.files()[1], other.files()[1])
    with pytest.raises(DamagedFileError, match="another round"):
        other.weights(0)


def test_a_search_by_other_samples_is_refused(nano, photos, tmp_path):
    model = ImageModel(searching(nano).features, HeldOutRidgeClassifier(), backbone=nano)
    with pytest.raises(InputError, match="looks at all samples together"):
        Plan.write(tmp_path / "plan", labelled_photos(photos), model, 9)
