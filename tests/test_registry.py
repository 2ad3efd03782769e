from __future__ import annotations

import pytest

from layup.errors import UnknownNameError
from layup.registry import Registry, unknown_name


@pytest.fixture
def methods() -> Registry[int]:
    registry: Registry[int] = Registry("method")
    for number, name in enumerate(["layup", "nmc", "ranpac"]):
        registry.register(name)(lambda number=number: number)
    return registry


def test_a_registry_is_a_mapping_in_the_order_of_registration(methods: Registry[int]) -> None:
    assert list(methods) == ["layup", "nmc", "ranpac"]
    assert len(methods) == 3
    assert "nmc" in methods
    assert "NMC" not in methods
    assert [make() for make in methods.values()] == [0, 1, 2]


def test_registering_gives_the_factory_back(methods: Registry[int]) -> None:
    def factory() -> int:
        return 7

    assert methods.register("seven")(factory) is factory
    assert methods["seven"]() == 7


def test_an_unknown_name_lists_the_known_ones_and_the_nearest(methods: Registry[int]) -> None:
    with pytest.raises(UnknownNameError) as caught:
        methods["ranpack"]
    assert str(caught.value) == (
        "Unknown method 'ranpack'. Known: layup, nmc, ranpac. Did you mean 'ranpac'?"
    )


def test_nothing_is_guessed_where_nothing_is_near() -> None:
    assert str(unknown_name("method", "svm", ["layup"])) == "Unknown method 'svm'. Known: layup."
    assert str(unknown_name("metric", 3, ["cosine"])) == "Unknown metric 3. Known: cosine."  # type: ignore[arg-type]
