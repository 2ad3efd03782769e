"""Models of the same photos have the same sums, to the bit, and the same hash."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given as given_, settings, strategies as st

from layup import FirstSession, LayNMC, LayUP, load
from layup.errors import MismatchError
from layup.features import LastLayers, Rounded
from models import given, small_model, small_network

PHOTOS = [(number, "cat" if number % 3 else "dog") for number in range(18)]
OTHERS = [(number, "eel" if number % 2 else "cat") for number in range(20, 30)]


@pytest.fixture(scope="module")
def never():
    """The hash of a model that has seen nothing but these photos."""
    return small_model(PHOTOS).state_hash


def test_order_and_batches_do_not_matter(never):
    assert small_model(PHOTOS[::-1]).state_hash == never
    assert small_model(PHOTOS[7:], PHOTOS[:2], PHOTOS[2:7]).state_hash == never
    assert small_model(*([photo] for photo in PHOTOS)).state_hash == never


def test_what_was_forgotten_was_never_there(never):
    model = small_model(PHOTOS[:9], OTHERS, PHOTOS[9:])
    assert model.state_hash != never
    model.forget(*given(OTHERS))
    assert model.state_hash == never


def test_a_batch_that_was_undone_was_never_there(never):
    model = small_model(PHOTOS, OTHERS)
    model.undo()
    assert model.state_hash == never


def test_merged_models_are_one(never, tmp_path):
    base = small_model(PHOTOS[:4])
    base.save(tmp_path / "base.layup")
    one, two = (load(tmp_path / "base.layup", backbone=small_network()) for _ in range(2))
    one.learn(*given(PHOTOS[4:10]))
    two.learn(*given(PHOTOS[10:]))
    assert one.merge(two, base).state_hash == never
    assert small_model(PHOTOS[9:]).merge(small_model(PHOTOS[:12])).state_hash == never


def test_a_class_that_was_forgotten_by_its_root_was_never_there():
    others = [photo for photo in PHOTOS if photo[1] != "dog"]
    model = small_model(PHOTOS, per_class=True, anonymous=True)
    model.forget_class("dog")
    assert model.state_hash == small_model(others).state_hash


def test_a_renamed_class_was_never_called_otherwise(never):
    wrong = [(number, "hound" if label == "dog" else label) for number, label in PHOTOS]
    assert small_model(wrong).rename("hound", "dog").state_hash == never


@settings(max_examples=40, deadline=None)
@given_(st.lists(st.tuples(st.sampled_from(["learn", "forget", "undo", "merge"]), st.integers(0, 9))))
def test_every_history_that_ends_with_the_same_photos_has_the_same_hash(never, steps):
    model, there = small_model(), set()
    for verb, number in steps:
        photo = OTHERS[number]
        if verb == "learn":
            model.learn(*given([photo]))
            there.add(photo)
        elif verb == "merge":
            model.merge(small_model([photo]))
            there.add(photo)
        elif verb == "forget" and photo in there:
            model.forget(*given([photo]))
            there.remove(photo)
        elif verb == "undo" and not there:
            model.learn(*given([photo]))
            model.undo()
    model.learn(*given(PHOTOS))
    if there:
        model.forget(*given(sorted(there)))
    assert model.state_hash == never


def test_a_file_keeps_the_hash(never, tmp_path):
    model = small_model(PHOTOS)
    model.save(tmp_path / "m.layup")
    assert load(tmp_path / "m.layup", backbone=small_network()).state_hash == never


def test_what_else_a_model_is_does_not_matter(never):
    """The hash is of what was learned: not of how it is solved, or who is known."""
    assert small_model(PHOTOS, lam="gcv").state_hash == never
    assert small_model(PHOTOS, anonymous=True).state_hash == never


def test_other_photos_labels_and_layers_are_another_hash(never):
    found = {
        never,
        small_model(PHOTOS[:-1]).state_hash,
        small_model([*PHOTOS[:-1], (17, "dog")]).state_hash,
        small_model(PHOTOS, k=1).state_hash,
    }
    assert len(found) == 4


def test_sums_that_are_not_exact_have_no_hash():
    assert small_model(PHOTOS, exact=False).state_hash is None
    means = LayNMC(small_network())
    means.learn(*given(PHOTOS))
    assert means.state_hash is None


def test_models_are_exact_by_default_but_not_in_float32():
    assert LayUP("vit-nano").features == Rounded(LastLayers())
    assert LayUP("vit-nano", precision="float32").features == LastLayers()


def test_exact_and_other_models_are_not_merged():
    with pytest.raises(MismatchError, match="rounded to different steps"):
        small_model(PHOTOS).merge(small_model(OTHERS, exact=False))


def test_rounding_hardly_moves_scores():
    images = given(OTHERS)[0]
    exact, plain = (small_model(PHOTOS, exact=each).scores(images) for each in (True, False))
    np.testing.assert_allclose(exact, plain, atol=0.05)


def test_steps_are_those_of_the_network_that_was_tuned():
    model = LayUP("vit-nano", adapter=FirstSession("ssf", epochs=1), cache=False)
    model.learn(*given(PHOTOS))
    assert model.statistics_.steps.exponents == model.extractor_.steps
    assert model.state_hash is not None
