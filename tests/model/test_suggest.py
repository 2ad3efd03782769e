"""Suggestions: what a model knows little of, and nothing twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from layup import NMC, LayUP
from layup.algebra import Prior
from layup.errors import InputError
from models import given, picture, small_model
from photos import batch, crops


def test_the_first_lowers_the_variance_of_all_most() -> None:
    """As the inverse of Σ has it, tried photo by photo."""
    learned = [(0, "cat"), (1, "cat"), (2, "cat"), (8, "dog"), (9, "dog"), (10, "dog")]
    model = small_model(learned)
    pool = [picture(number) for number in range(20, 40)]
    sums = model.statistics_
    prior = Prior.of(sums)
    inverse = np.linalg.inv(sums.within_class_scatter() + prior.lam * np.diag(prior.scale**2))
    rows = model.extractor_.unrounded.extract(pool).rows - sums.prototypes.sum(axis=0) / sums.total
    variances = rows @ inverse @ rows.T
    lowered = (variances**2).sum(axis=1) / (1 + np.diagonal(variances))
    found = model.suggest(pool, 6).photos
    assert found[0].index == lowered.argmax()
    assert [each.guess for each in found] == model.predict([pool[each.index] for each in found]).tolist()
    scores = np.sort(model.scores([pool[each.index] for each in found]))
    assert [each.margin for each in found] == pytest.approx((scores[:, 1] - scores[:, 0]).tolist())


def test_copies_are_suggested_once() -> None:
    model = LayUP("vit-nano", cache=False)
    model.learn(*batch({0: 5, 1: 5}))
    photos = crops(60, side=64)[20:50]
    copies = [np.asarray(Image.fromarray(photo).resize((80, 80))) for photo in photos]
    taken = [each.index % 30 for each in model.suggest([*photos, *copies], 60).photos]
    assert len(taken) == len({*taken})
    assert len(taken) > 20


def test_learned_and_bad_photos_are_left_out(tmp_path: Path) -> None:
    model = small_model([(0, "cat"), (1, "dog")])
    found = model.suggest([picture(0), picture(5), tmp_path / "none.jpg"])
    assert [each.index for each in found.photos] == [1]
    assert (found.known, [each.index for each in found.bad]) == (1, [2])
    told = found.to_dict(["a.jpg", "b.jpg", "c.jpg"])
    assert {*told["photos"][0]} == {"path", "guess", "margin"}
    assert (told["photos"][0]["path"], told["bad"][0]["path"], told["known"]) == ("b.jpg", "c.jpg", 1)


def test_anonymous_models_suggest_too() -> None:
    model = small_model([(0, "cat"), (1, "dog")], anonymous=True)
    assert model.suggest([picture(0), picture(5)]).known == 0


def test_what_cannot_be_done_is_a_sentence(tmp_path: Path) -> None:
    model = small_model([(0, "cat"), (1, "dog")])
    with pytest.raises(InputError, match="All of these photos were learned already"):
        model.suggest(given([(0, "cat"), (1, "dog")])[0])
    with pytest.raises(InputError, match="None of the 1 given images can be used"):
        model.suggest([tmp_path / "none.jpg"])
    with pytest.raises(InputError, match="Cannot suggest 0 photos"):
        model.suggest([picture(5)], 0)
    for other in (small_model(), NMC("vit-nano", cache=False)):
        with pytest.raises(InputError, match="has learned nothing, or that keeps no Gram matrix"):
            other.suggest([picture(5)])
