"""What others rely on: the public names, the types, the version."""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import version
from importlib.resources import files

import pytest

import layup
from layup import errors

PUBLIC = [
    "NMC",
    "Backbone",
    "Client",
    "FeatureCache",
    "FeatureExtractor",
    "FirstSession",
    "GramStatistics",
    "ImageModel",
    "LayNMC",
    "LayUP",
    "LayupError",
    "NearestMeanClassifier",
    "NoCache",
    "Preprocessing",
    "RidgeClassifier",
    "from_pretrained",
    "load",
    "load_backbone",
]


def test_public_names_are_pinned():
    """Adding one is a decision; removing one breaks a user's program."""
    assert layup.__all__ == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_is_there_and_documented(name):
    thing = getattr(layup, name)
    assert thing.__name__ == name
    assert thing.__module__.startswith("layup.")
    assert thing.__doc__


def test_star_import():
    names: dict[str, object] = {}
    exec("from layup import *", names)
    assert set(PUBLIC) <= set(names)


def test_dir_lists_the_public_names():
    assert dir(layup) == sorted(PUBLIC)


def test_unknown_names_are_attribute_errors():
    with pytest.raises(AttributeError, match="No layup attribute LayDown"):
        layup.LayDown  # noqa: B018
    assert not hasattr(layup, "LayDown")
    with pytest.raises(ImportError):
        exec("from layup import LayDown")


def test_the_version_is_the_installed_one():
    assert layup.__version__ == version("layup-cl")


def test_types_are_shipped():
    assert (files("layup") / "py.typed").is_file()


def test_all_errors_are_layup_errors():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert len(kinds) >= 10
    for kind in kinds:
        assert issubclass(kind, layup.LayupError)
        assert kind.__name__ in errors.__doc__


def test_every_error_is_called_one():
    names = [module.name for module in pkgutil.walk_packages(layup.__path__, "layup.")]
    assert len(names) > 100
    for name in names:
        for thing in vars(importlib.import_module(name)).values():
            if isinstance(thing, type) and issubclass(thing, BaseException) and thing.__module__ == name:
                assert thing.__name__.endswith("Error"), f"{name}.{thing.__name__}"


def test_what_was_given_wrongly_is_also_a_value_error():
    for kind in (errors.InputError, errors.UnknownNameError, errors.BadImageError, errors.ForgetError):
        assert issubclass(kind, ValueError)
