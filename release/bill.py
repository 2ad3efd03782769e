"""The bill of materials: which packages somebody gets with layup, and under which licences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from layup import storage
from layup.tables import Table, to_markdown
from release.parts import Part


def to_cyclonedx(found: Sequence[Part]) -> str:
    """A bill in the format of CycloneDX 1.6, checked against its schema."""
    components = {part.name: _component(part) for part in found}
    bill, root = Bom(), components[found[0].name]
    bill.metadata.component = root
    for name, component in components.items():
        if component is not root:
            bill.components.add(component)
        needs = next(part.needs for part in found if part.name == name)
        bill.register_dependency(component, [components[each] for each in needs if each in components])
    text: str = JsonV1Dot6(bill).output_as_string(indent=1)
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"The bill of materials is not valid CycloneDX 1.6: {wrong}")
    return text


def _component(part: Part) -> Component:
    address = PackageURL("pypi", name=part.name, version=part.version)
    return Component(
        name=part.name,
        version=part.version,
        type=ComponentType.LIBRARY,
        purl=address,
        bom_ref=str(address),
        licenses=[DisjunctiveLicense(name=part.licence)],
    )


def to_table(found: Sequence[Part]) -> str:
    """The same for people, in Markdown."""
    rows = [[part.name, part.version, part.licence, ", ".join(sorted(part.extras))] for part in found]
    return to_markdown(Table.of(["package", "version", "licence, as it states it", "only with"], rows))


def write(found: Sequence[Part], folder: Path) -> list[Path]:
    """Both, next to what is released."""
    name = f"{found[0].name.replace('-', '_')}-{found[0].version}"
    written = {f"{name}.cdx.json": to_cyclonedx(found), f"{name}-licences.md": to_table(found)}
    for file, text in written.items():
        storage.write_text(folder / file, text)
    return [folder / file for file in written]
