"""Tables as HTML: all text is escaped, and `style_sheet` is the style of pages with tables."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from layup.tables.table import SHORT, Table


def to_html(table: Table, caption: str = "", anchor: str = "table") -> Markup:
    """A table that scrolls by itself, and the reasons for empty cells.

    caption: the name of a table without a title, for screen readers only.
    anchor: the prefix of the ids of the reasons; different for every table of a page.

    >>> "<td>&lt;b&gt;</td>" in to_html(Table.of(["x", "y"], [["1", "<b>"]])).replace(' class="short"', "")
    True
    """
    template = environment("layup.tables").get_template("table.html.j2")
    name = table.title or caption
    return Markup(template.render(table=table, name=name, anchor=anchor, SHORT=SHORT).rstrip("\n"))


def style_sheet() -> Markup:
    """The style of pages with tables, to be put into such a page."""
    return Markup(files("layup.tables").joinpath("style.css").read_text("utf-8"))


@cache
def environment(package: str) -> Environment:
    """The templates of a package, which escape all values."""
    found = Environment(
        loader=PackageLoader(package, "."),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    found.filters["unbroken"] = _unbroken
    found.globals.update(to_html=to_html, style_sheet=style_sheet)
    return found


def _unbroken(text: str) -> Markup:
    """A heading that never breaks within a name such as IN-R."""
    return Markup(re.sub(r"\S+-\S+", r'<span class="short">\g<0></span>', str(escape(text))))
