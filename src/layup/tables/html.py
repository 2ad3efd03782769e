"""Tables as HTML: all text is escaped, and `style_sheet` has what pages with tables look like."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from layup.tables.table import SHORT, Table


def to_html(table: Table, caption: str = "", anchor: str = "table") -> Markup:
    """A table that scrolls by itself, and why cells are empty.

    caption: what the table is called where it has no title; heard, but not seen.
    anchor: what the ids of the reasons begin with; no two tables of a page may have the same.

    >>> "<td>&lt;b&gt;</td>" in to_html(Table.of(["x", "y"], [["1", "<b>"]])).replace(' class="short"', "")
    True
    """
    template = environment("layup.tables").get_template("table.html.j2")
    name = table.title or caption
    return Markup(template.render(table=table, name=name, anchor=anchor, SHORT=SHORT).rstrip("\n"))


def style_sheet() -> Markup:
    """What pages with tables look like, to be put into such a page."""
    return Markup(files("layup.tables").joinpath("style.css").read_text("utf-8"))


@cache
def environment(package: str) -> Environment:
    """The templates of a package, which escape whatever they are given."""
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
    """A heading in as many lines as it needs, none of which ends within a name such as IN-R."""
    return Markup(re.sub(r"\S+-\S+", r'<span class="short">\g<0></span>', str(escape(text))))
