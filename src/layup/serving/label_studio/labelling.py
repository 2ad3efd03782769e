"""A project's labelling configuration, as far as it says how photos get their class.

It is XML that a stranger may have written: it is read by events, without a tree, and a document type, where
entities are declared, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self
from unicodedata import normalize
from xml.parsers import expat

from layup.errors import InputError
from layup.formats import has_controls

LONGEST = 1_000_000
"""Characters of a configuration."""
VARIABLE = re.compile(r"\$([^$.\[\]{}]+)")
"""How a tag names a value of the task's data. Paths into nested data are not read."""


@dataclass
class Tag:
    """One element, and the values of the choices inside."""

    name: str
    attributes: dict[str, str]
    choices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Labelling:
    """Which value of a task is its photo, and which tag says its class.

    >>> labelling = Labelling.parse('''<View>
    ...   <Image name="photo" value="$image"/>
    ...   <Choices name="kind" toName="photo"><Choice value="cat"/><Choice value="dog"/></Choices>
    ... </View>''')
    >>> labelling.label_of(labelling.result("dog"))
    'dog'
    >>> labelling.best_of({"cat": 0.2, "dog": 0.3, "horse": 0.5})
    'dog'
    """

    photo: str
    """The name of the image tag."""
    key: str
    """The photo's name in a task's data."""
    choices: str
    """The name of the tag with the classes."""
    labels: frozenset[str] | None
    """The classes that can be chosen; None if each task brings its own."""

    @classmethod
    def parse(cls, config: str) -> Self:
        """Read a configuration; one that does not give each photo one class is refused."""
        tags = read_tags(config)
        images = {tag.attributes.get("name", ""): tag for tag in tags if tag.name == "Image"}
        chosen = [tag for tag in tags if tag.name == "Choices" and tag.attributes.get("toName") in images]
        if len(chosen) != 1:
            found = ", ".join(repr(tag.attributes.get("name", "")) for tag in chosen) or "none"
            raise InputError(
                f"The labelling configuration must have one Choices tag for an Image tag, but has {found}. "
                "A model learns one class of each photo: use a project whose only Choices are its classes."
            )
        (choices,) = chosen
        if choices.attributes.get("perRegion", "").lower() == "true":
            raise InputError(
                "The Choices tag of the labelling configuration is about regions (perRegion). "
                "A model learns the class of a whole photo: remove perRegion."
            )
        image = images[choices.attributes["toName"]]
        own = "value" in choices.attributes
        labels = None if own else frozenset(normalize("NFC", each) for each in choices.choices)
        return cls(image.attributes["name"], _key_of(image), choices.attributes.get("name", ""), labels)

    def label_of(self, result: Sequence[Any]) -> str | None:
        """The class that an annotation's result names; None if it names none, or several."""
        values = [each.get("value") for each in result if self._is_ours(each)]
        chosen = [each for value in values if isinstance(value, Mapping) for each in _listed(value)]
        (label,) = chosen if len(chosen) == 1 else (None,)
        if not isinstance(label, str) or not label or has_controls(label):
            return None
        return normalize("NFC", label)

    def result(self, label: str) -> list[dict[str, Any]]:
        """How a prediction names a class."""
        about = {"from_name": self.choices, "to_name": self.photo, "type": "choices"}
        return [{**about, "value": {"choices": [label]}}]

    def best_of(self, scores: Mapping[str, float]) -> str | None:
        """The class with the highest score of those that can be chosen here; None if there is none."""
        allowed = [label for label in scores if self.labels is None or label in self.labels]
        return max(allowed, key=scores.__getitem__, default=None)

    def _is_ours(self, item: Any) -> bool:
        return (
            isinstance(item, Mapping)
            and item.get("type") == "choices"
            and item.get("from_name") == self.choices
        )


def _listed(value: Mapping[str, Any]) -> list[Any]:
    found = value.get("choices")
    return found if isinstance(found, list) else []


def _key_of(image: Tag) -> str:
    value = image.attributes.get("value", "")
    found = VARIABLE.fullmatch(value)
    if found is None:
        raise InputError(
            f"The Image tag of the labelling configuration has the value {value!r}. "
            "It must name one value of the task's data, such as $image."
        )
    return found[1]


def read_tags(config: str) -> list[Tag]:
    """All tags in order. Costs one pass; a document type is refused, so entities cannot grow.

    >>> [tag.name for tag in read_tags("<View><Image name='photo'/></View>")]
    ['View', 'Image']
    """
    if len(config) > LONGEST:
        raise InputError(
            f"The labelling configuration has {len(config):,} characters. At most {LONGEST:,} are read."
        )
    tags: list[Tag] = []
    inside: list[Tag] = []
    """The Choices tags that are open."""

    def opened(name: str, attributes: dict[str, str]) -> None:
        tag = Tag(name, attributes)
        tags.append(tag)
        if name == "Choices":
            inside.append(tag)
        elif name == "Choice" and inside:
            inside[-1].choices.append(attributes.get("alias") or attributes.get("value", ""))

    def closed(name: str) -> None:
        if name == "Choices":
            inside.pop()

    def refused(*_: object) -> None:
        raise InputError("The labelling configuration declares a document type. Remove <!DOCTYPE …>.")

    parser = expat.ParserCreate("utf-8")
    parser.StartElementHandler, parser.EndElementHandler = opened, closed
    parser.StartDoctypeDeclHandler = refused
    try:
        parser.Parse(config.encode(errors="replace"), True)
    except expat.ExpatError as error:
        raise InputError(f"The labelling configuration is not valid XML: {error}. Save it again.") from error
    return tags
