"""Many workers predict what one process predicts, in the same order, and say the same of bad files."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import timm
from safetensors.torch import save_model

from layup import LayUP, load, load_backbone
from layup.cluster import Cluster
from layup.errors import ConsentError, InputError, LayupError
from layup.images import unlabelled_photos
from layup.model import spread, spread_predictions
from photos import save_crops

ray = pytest.importorskip("ray", reason="Ray is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")
# Workers cannot import tests: what is defined here is sent to them.
ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    return save_crops(tmp_path_factory.mktemp("photos"), count=150)


@pytest.fixture(scope="module")
def path(photos, tmp_path_factory):
    images = sorted(photos.rglob("*.png"))[:60]
    model = LayUP("vit-nano", 2)
    model.learn(images, [image.parent.name for image in images])
    model.expect()
    model.save(path := tmp_path_factory.mktemp("model") / "m.layup")
    return path


@pytest.fixture(autouse=True)
def small_tasks(monkeypatch):
    monkeypatch.setattr(spread, "TOGETHER", 32)


def require_same(found, expected):
    assert (found.classes, found.kept, found.bad) == (expected.classes, expected.kept, expected.bad)
    assert found.labels == expected.labels
    np.testing.assert_array_equal(found.scores, expected.scores)
    np.testing.assert_array_equal(found.familiarity, expected.familiarity)
    assert [*found.each()] == [*expected.each()]


def test_a_worker_predicts_what_the_model_predicts(path, photos):
    """In this process, without Ray: from its file, or from what is sent."""
    images = [*sorted(photos.rglob("*.png"))[:20], Path("none.jpg")]
    expected = load(path).predictions(images)
    for place in (str(path), "/nowhere/m.layup"):
        answer = spread.Predictor(place, path.read_bytes(), {"workers": 0})(images)
        require_same(answer.predictions, expected)
        assert answer.unseen == {"none.jpg"}


@pytest.mark.slow
def test_predictions_are_those_of_one_process(local, path, photos, tmp_path, monkeypatch):
    monkeypatch.chdir(photos)  # paths may be relative
    (tmp_path / "bad.jpg").write_bytes(b"no image")
    images = [image.relative_to(photos) for image in sorted(photos.rglob("*.png"))]
    images[40], images[99], images[149] = tmp_path / "bad.jpg", Path("none.jpg"), Path("none.png")
    found = spread_predictions(path, images, Cluster())
    assert [bad.index for bad in found.bad] == [40, 99, 149]
    require_same(found, load(path).predictions(images))


@pytest.mark.slow
def test_photos_in_an_archive_are_predicted(local, path, photos, tmp_path):
    with zipfile.ZipFile(tmp_path / "photos.zip", "w") as archive:
        for image in sorted(photos.rglob("*.png"))[:70]:
            archive.write(image, image.name)
    images = unlabelled_photos(tmp_path / "photos.zip")
    require_same(spread_predictions(path, images, Cluster()), load(path).predictions(images))


class Elsewhere(spread.Predictor):
    """A worker on a machine that does not see the model."""

    def __init__(self, path, content, loading):
        super().__init__("/nowhere/m.layup", content, loading)


@pytest.mark.slow
def test_a_model_that_a_worker_does_not_see_is_sent(local, path, photos, monkeypatch):
    monkeypatch.setattr(spread, "Predictor", Elsewhere)
    images = sorted(photos.rglob("*.png"))[:40]
    require_same(spread_predictions(path, images, Cluster()), load(path).predictions(images))


class ShortSighted(spread.Predictor):
    """A worker on a machine that lacks a photo."""

    def __call__(self, images):
        found = super().__call__(images)
        return spread.Answer(found.predictions, "host", frozenset({str(images[0])}))


@pytest.mark.slow
def test_photos_that_a_worker_does_not_see_are_one_sentence(local, path, photos, monkeypatch):
    monkeypatch.setattr(spread, "Predictor", ShortSighted)
    with pytest.raises(InputError, match=r"'host' does not see 1 of the photos' files"):
        spread_predictions(path, sorted(photos.rglob("*.png"))[:40], Cluster())


@pytest.mark.slow
def test_weights_that_workers_lack_are_one_sentence(local, photos, tmp_path):
    weights = tmp_path / "weights.safetensors"
    save_model(timm.create_model("test_vit"), str(weights))
    images = sorted(photos.rglob("*.png"))[:4]
    model = LayUP(load_backbone("test_vit", weights=weights), lam=1.0)
    model.learn(images, [image.parent.name for image in images])
    model.save(tmp_path / "m.layup")
    with pytest.raises(ConsentError, match=r"A worker on '.*' cannot begin: .* asks for") as raised:
        spread_predictions(tmp_path / "m.layup", images, Cluster())
    assert raised.value.about == "allow_backbone"
    weights.unlink()
    with pytest.raises(LayupError, match=r"A worker on '.*' cannot begin: .*weights.safetensors"):
        spread_predictions(tmp_path / "m.layup", images, Cluster(), allow_backbone=True)
