"""As a transformer: the rows of an extractor, in everything that scikit-learn builds of transformers."""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import pandas
import pytest
import sklearn
import torch
from PIL import Image
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.metadata_routing import get_routing_for_object
from torch import nn

from layup import Backbone, FeatureExtractor, Preprocessing, RidgeClassifier, load_backbone
from layup.errors import BadImageError, InputError, UnknownNameError
from layup.features import (
    Embedding,
    Extractor,
    FeatureCache,
    FeatureSpec,
    LastLayers,
    NoCache,
    OneLayer,
    Projected,
)
from layup.features.feature_extractor import NAMED
from photos import batch, crops, digits


@pytest.fixture(scope="module")
def nano() -> Backbone:
    return load_backbone("vit-nano")


def few(per_class: int, start: int = 0) -> tuple[list[Any], list[str]]:
    return batch({0: per_class, 1: per_class, 7: per_class}, start)


# ---- the rows


@pytest.mark.parametrize(
    "features", [LastLayers(2), OneLayer(3), Embedding(), LastLayers(), Projected(LastLayers(1), 20)]
)
def test_rows_are_those_of_the_features(features: FeatureSpec, nano: Backbone) -> None:
    images = crops(3) + digits(5, 2)
    found = FeatureExtractor("vit-nano", features).fit_transform(images)
    expected = features.build(nano, {"cache": False}).extract(images).rows
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32


def test_images_come_in_every_form(nano: Backbone, tmp_path: Any) -> None:
    pictures = crops(4)
    for number, picture in enumerate(pictures):
        Image.fromarray(picture).save(tmp_path / f"{number}.png")
    paths = [tmp_path / f"{number}.png" for number in range(4)]
    expected = Extractor(nano, nano.last(1), cache=NoCache()).extract(pictures).rows
    extractor = FeatureExtractor("vit-nano", LastLayers(1))
    tensors = torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)
    for images in (
        pictures,
        np.stack(pictures),
        tensors,
        paths,
        [str(path) for path in paths],
        (path.read_bytes() for path in paths),
        [io.BytesIO(path.read_bytes()) for path in paths],
        [Image.fromarray(picture) for picture in pictures],
        np.array([str(path) for path in paths]),
        pandas.Series([str(path) for path in paths], index=[3, 1, 4, 2]),
    ):
        np.testing.assert_array_equal(extractor.transform(images), expected)
    assert extractor.transform([]).shape == (0, nano.layers[-1].width)


def test_images_pass_through_the_network_once(nano: Backbone) -> None:
    own, images = nano.counted(), digits(4, 6)
    for k in (1, 3):
        for extractor in (FeatureExtractor(own, LastLayers(k)), FeatureExtractor(own, OneLayer(k))):
            extractor.fit_transform(images)
    assert own.passes.reading == 6
    FeatureExtractor(own, cache=False).transform(images)
    assert own.passes.reading == 12


def test_columns_are_named_by_layer_and_number(nano: Backbone) -> None:
    extractor = FeatureExtractor("vit-nano", LastLayers(2)).fit()
    names = extractor.get_feature_names_out()
    assert len(names) == 256
    assert [names[i] for i in (0, 127, 128, 255)] == [
        "blocks.10_0",
        "blocks.10_127",
        "blocks.11_0",
        "blocks.11_127",
    ]


@pytest.mark.parametrize("container", ["pandas", "polars"])
def test_set_output_gives_a_table(container: str) -> None:
    extractor = FeatureExtractor("vit-nano", LastLayers(1)).set_output(transform=container)
    images = digits(2, 3)
    for each in (extractor, sklearn.clone(extractor)):
        table = each.fit_transform(images)
        assert type(table).__module__.split(".")[0] == container
        assert list(table.columns) == extractor.get_feature_names_out().tolist()
        np.testing.assert_array_equal(
            table.to_numpy(), FeatureExtractor("vit-nano", LastLayers(1)).transform(images)
        )


def test_a_column_of_a_table_is_transformed_beside_others(tmp_path: Any) -> None:
    paths = []
    for number, picture in enumerate(crops(3)):
        paths.append(str(tmp_path / f"{number}.png"))
        Image.fromarray(picture).save(paths[-1])
    table = pandas.DataFrame({"photo": paths, "weight": [1.0, 2.0, 3.0]}, index=[5, 6, 7])
    both = make_column_transformer(
        (FeatureExtractor("vit-nano", LastLayers(1)), "photo"), ("passthrough", ["weight"])
    )
    found = both.set_output(transform="pandas").fit_transform(table)
    assert found.shape == (3, 129)
    assert found.index.tolist() == [5, 6, 7]
    with pytest.raises(InputError, match="Give one column of images, not a whole DataFrame"):
        FeatureExtractor("vit-nano").transform(table[["photo"]])
    assert found["remainder__weight" if "remainder__weight" in found else "passthrough__weight"].tolist() == [
        1,
        2,
        3,
    ]


# ---- in pipelines


@pytest.mark.parametrize(
    ("last", "routing"),
    [
        (LogisticRegression(max_iter=2000), False),
        (RandomForestClassifier(30, random_state=0), False),
        (RidgeClassifier("gcv"), True),
        (CalibratedClassifierCV(RidgeClassifier(1.0), cv=3), True),
    ],
    ids=lambda last: type(last).__name__,
)
def test_images_and_any_estimator_are_one_pipeline(last: Any, routing: bool) -> None:
    images, labels = few(12)
    with sklearn.config_context(enable_metadata_routing=routing):
        pipeline = make_pipeline(FeatureExtractor("vit-nano"), last).fit(images, labels)
        assert pipeline.score(*few(10, start=12)) > 0.85


def test_a_whole_pipeline_is_searched_and_validated(nano: Backbone) -> None:
    own = nano.counted()
    images, labels = few(9)
    pipeline = make_pipeline(FeatureExtractor(own), RidgeClassifier(1.0))
    search = GridSearchCV(pipeline, {"featureextractor__features": [OneLayer(12), LastLayers(6)]}, cv=3)
    search.fit(images, labels)
    first, second = search.cv_results_["mean_test_score"]
    assert first < second
    assert search.best_params_["featureextractor__features"] == LastLayers(6)
    assert cross_val_score(pipeline, np.stack(images), labels, cv=3).mean() == second
    calibrated = CalibratedClassifierCV(pipeline, cv=3).fit(images, labels)
    assert calibrated.predict_proba(images[:2]).shape == (2, 3)
    assert own.passes.reading == len(images)  # every fold, clone and search together


# ---- an estimator


def test_scikit_learn_finds_no_fault() -> None:
    with pytest.warns(UserWarning, match="requires input"):  # it has no images to try
        check_estimator(FeatureExtractor("vit-nano"))


def test_it_asks_for_no_metadata_and_has_the_names_of_scikit_learns_arguments() -> None:
    extractor = FeatureExtractor("vit-nano")
    with sklearn.config_context(enable_metadata_routing=True):
        wanted = get_routing_for_object(extractor)
        assert [getattr(wanted, method).requests for method in ("fit", "transform")] == [{}, {}]
    images = digits(0, 1)
    assert extractor.fit(X=images, y=["0"]).transform(X=images).shape == (1, 6 * 128)


def test_clones_share_the_network_and_nothing_else(nano: Backbone) -> None:
    cache = FeatureCache()
    extractor = FeatureExtractor(nano, LastLayers(2), cache=cache).set_output(transform="pandas")
    copy = sklearn.clone(extractor)
    assert copy.get_params() == extractor.get_params()
    assert copy.backbone is nano
    assert copy.cache is cache
    copy.set_params(features=LastLayers(1)).set_output(transform="default")
    assert extractor.features == LastLayers(2)
    assert isinstance(extractor.transform(digits(1, 1)), pandas.DataFrame)
    assert copy.transform(digits(1, 1)).shape == (1, 128)


def test_it_can_be_pickled_with_the_name_of_its_network_or_the_network_itself(nano: Backbone) -> None:
    images = digits(8, 2)
    expected = FeatureExtractor("vit-nano", LastLayers(1)).transform(images)
    by_name = pickle.dumps(FeatureExtractor("vit-nano", LastLayers(1)).fit(images))
    assert len(by_name) < 2000  # no network inside
    whole = pickle.dumps(FeatureExtractor(nano, LastLayers(1), cache=False))
    for pickled in (by_name, whole):
        np.testing.assert_array_equal(pickle.loads(pickled).transform(images), expected)


def test_your_own_network() -> None:
    own = Backbone.from_module(nn.Sequential(nn.Conv2d(3, 4, 3)), ["0"], Preprocessing((8, 8), (8, 8)))
    assert FeatureExtractor(own, Embedding()).fit_transform(crops(2)).shape == (2, 4)
    assert FeatureExtractor(own).get_feature_names_out().tolist() == ["0_0", "0_1", "0_2", "0_3"]


def test_its_text_and_its_diagram_show_what_it_reads() -> None:
    extractor = FeatureExtractor("vit-nano", LastLayers(6))
    assert repr(extractor) == "FeatureExtractor(backbone='vit-nano', features=LastLayers(k=6))"
    assert "FeatureExtractor" in make_pipeline(extractor, RidgeClassifier())._repr_html_()


# ---- what is refused


def test_bad_images_are_named_in_one_error() -> None:
    images = [*digits(3, 2), "no-such.jpg", b"Dear diary", *digits(4, 1)]
    with pytest.raises(BadImageError) as raised:
        FeatureExtractor("vit-nano").transform(images)
    assert str(raised.value).startswith(
        "Each image must have a row of features, but 2 of 5 cannot be used (number 2, 3; the first image is "
        "number 0). Leave them out. Cannot use 'no-such.jpg': there is no such file. Cannot use this bytes "
    )


def test_of_many_bad_images_the_first_are_named() -> None:
    images = [*digits(3, 1), *(f"{number}.jpg" for number in range(1, 41))]
    with pytest.raises(BadImageError, match=r"number 1, 2, 3, 4, 5, and 35 more") as raised:
        FeatureExtractor("vit-nano").transform(images)
    said = str(raised.value)
    assert [f"'{number}.jpg'" in said for number in (1, NAMED, NAMED + 1)] == [True, True, False]


def test_what_cannot_be_read_is_refused_by_fit() -> None:
    with pytest.raises(InputError, match="Use k between 1 and 12"):
        FeatureExtractor("vit-nano", LastLayers(13)).fit()
    with pytest.raises(InputError, match=r"features = 6 cannot be read from a network\. Give a value"):
        FeatureExtractor("vit-nano", 6).fit()  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="Did you mean 'vit-nano'"):
        FeatureExtractor("vit-nanno").fit()


@pytest.mark.parametrize("one", ["a.jpg", np.zeros((8, 8)), np.zeros((8, 8, 3)), Image.new("L", (8, 8))])
def test_one_image_is_not_a_list_of_images(one: Any) -> None:
    with pytest.raises(InputError, match="Give a list of images"):
        FeatureExtractor("vit-nano").transform(one)
