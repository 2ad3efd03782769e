"""Configurations of projects, also those of strangers."""

from __future__ import annotations

import pytest

from layup.errors import InputError
from layup.serving.label_studio import Labelling

CHOICES = '<Choices name="kind" toName="photo"><Choice value="cat"/><Choice value="dog"/></Choices>'


def view(*tags: str, image: str = '<Image name="photo" value="$image"/>') -> str:
    return f"<View>{image}{''.join(tags)}</View>"


def said(*choices: object, **about: object) -> dict[str, object]:
    own = {"from_name": "kind", "to_name": "photo", "type": "choices", "value": {"choices": [*choices]}}
    return {**own, **about}


def test_the_photo_and_its_classes_are_found_among_other_tags() -> None:
    text = '<Header value="What is it?"/><TextArea name="note" toName="photo"/>'
    labelling = Labelling.parse(view(text, f"<View>{CHOICES}</View>"))
    assert labelling == Labelling("photo", "image", "kind", frozenset({"cat", "dog"}))


def test_an_alias_is_the_class_and_a_data_value_brings_its_own() -> None:
    alias = '<Choices name="kind" toName="photo"><Choice value="A tabby" alias="tabby"/></Choices>'
    assert Labelling.parse(view(alias)).labels == {"tabby"}
    own = Labelling.parse(view('<Choices name="kind" toName="photo" value="$options"/>'))
    assert own.labels is None
    assert own.best_of({"cat": 0.4, "owl": 0.6}) == "owl"


def test_choices_of_a_text_beside_the_photo_are_not_asked() -> None:
    text = (
        '<Text name="words" value="$text"/><Choices name="mood" toName="words"><Choice value="x"/></Choices>'
    )
    assert Labelling.parse(view(text, CHOICES)).choices == "kind"


@pytest.mark.parametrize(
    ("config", "why"),
    [
        (view(CHOICES, CHOICES.replace("kind", "age")), "'kind', 'age'"),
        (view(), "has none"),
        (view(CHOICES.replace('toName="photo"', "")), "has none"),
        (view(CHOICES.replace("<Choices ", '<Choices perRegion="true" ')), "regions"),
        (view(CHOICES, image='<Image name="photo" value="http://x/$image"/>'), "must name one value"),
        (view(CHOICES, image='<Image name="photo" valueList="$images"/>'), "must name one value"),
        ("", "not valid XML"),
        ("<View>", "not valid XML"),
        ("<View>&mystery;</View>", "not valid XML"),
        ("<View>\ud800</View>", "none"),
        (" " * 1_000_001, "1,000,001 characters"),
    ],
)
def test_what_gives_a_photo_no_single_class_is_refused(config: str, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Labelling.parse(config)


@pytest.mark.parametrize(
    "declared",
    [
        '<!DOCTYPE View [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>',
        '<!DOCTYPE View [<!ENTITY a SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE View SYSTEM "http://127.0.0.1:1/view.dtd">',
        "<!DOCTYPE View>",
    ],
)
def test_entities_are_never_declared(declared: str) -> None:
    with pytest.raises(InputError, match="document type"):
        Labelling.parse(declared + view(CHOICES))


def test_an_annotation_names_a_class_only_if_it_names_one_alone() -> None:
    labelling = Labelling.parse(view(CHOICES))
    assert labelling.label_of([said("cat")]) == "cat"
    assert labelling.label_of([said("cat", from_name="age"), {"type": "rectangle"}, said("dog")]) == "dog"
    assert labelling.label_of([said("u\u0308")]) == "ü"
    for result in (
        [],
        [said()],
        [said("cat", "dog")],
        [said("cat"), said("dog")],
        [said(7)],
        [said("")],
        [said("c\nat")],
        [said("cat", type="labels")],
        [said(value=None)],
        [said(value={"choices": "cat"})],
        ["cat", None],
    ):
        assert labelling.label_of(result) is None


def test_a_prediction_is_of_a_class_that_can_be_chosen() -> None:
    labelling = Labelling.parse(view(CHOICES))
    assert labelling.best_of({"owl": 0.9, "dog": 0.1}) == "dog"
    assert labelling.best_of({"owl": 0.9}) is None
    assert labelling.best_of({}) is None
