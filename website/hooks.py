"""What MkDocs calls: pages from elsewhere enter, links are rewritten, references are filled in."""

from __future__ import annotations

from typing import Any

from mkdocs.structure.files import File, Files
from pymdownx.slugs import slugify

from website import commands, names, repository
from website.links import rewritten
from website.notebooks import Notebook, in_order, read_notebook
from website.repository import PROSE, ROOT

NOTEBOOKS = "notebooks/"


def notebooks() -> dict[str, Notebook]:
    """The pages of all notebooks, by their place."""
    found = in_order((ROOT / "docs" / NOTEBOOKS).glob("*.ipynb"))
    return {f"{NOTEBOOKS}{path.stem}.md": read_notebook(path) for path in found}


def on_config(config: Any) -> Any:
    """Fill in what the navigation names by its folder only, and name headings as plain Markdown does."""
    config.nav = _filled(
        config.nav, {names.FOLDER: [room.place for room in names.rooms()], NOTEBOOKS: [*notebooks()]}
    )
    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    return config


def _filled(nav: list[Any], folders: dict[str, list[str]]) -> list[Any]:
    filled: list[Any] = []
    for entry in nav:
        if isinstance(entry, str):
            filled.append(entry)
            continue
        ((title, target),) = entry.items()
        if isinstance(target, list):
            filled.append({title: _filled(target, folders)})
        elif target not in folders:
            filled.append(entry)
        elif folders[target]:
            filled.append({title: folders[target]})
    return filled


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are not in `docs/`."""
    made = {place: (ROOT / path).read_text() for path, place in PROSE.items()}
    made |= {repository.place_of(path): repository.shown(path) for path in repository.linked_files()}
    made |= {room.place: names.page(room) for room in names.rooms()}
    for place, notebook in notebooks().items():
        made[place] = notebook.markdown
        for picture, content in notebook.pictures.items():
            files.append(File.generated(config, NOTEBOOKS + picture, content=content))
    for place, text in made.items():
        files.append(File.generated(config, place, content=text))
    config.extra["places"] = places(files)
    return files


def places(files: Files) -> dict[str, str]:
    """For each file of the repository that is on the site, its place there."""
    found = {f"docs/{file.src_uri}": file.src_uri for file in files if file.generated_by is None}
    found |= {f"docs/{place.removesuffix('.md')}.ipynb": place for place in notebooks()}
    found |= {f"docs/{file.src_uri}": file.src_uri for file in files.documentation_pages()}
    found |= {path: repository.place_of(path) for path in repository.linked_files()}
    return found | PROSE


def on_page_markdown(markdown: str, *, page: Any, config: Any, **_: Any) -> str:
    """Rewrite links, and fill in the two references."""
    here = page.file.src_uri
    path = next((path for path, place in PROSE.items() if place == here), f"docs/{here}")
    text = rewritten(markdown, path, config.extra["places"])
    for place, reference in ((commands.PLACE, commands.reference), (names.PLACE, names.packages)):
        if place in text:
            text = text.replace(place, reference())
    return text


def on_post_page(output: str, **_: Any) -> str:
    """Give the search a name for those who hear the page: the theme has none."""
    return output.replace('role="dialog"', 'role="dialog" aria-label="Search"')
