"""Pages with tables that benchmarks write, between marks."""

from __future__ import annotations

import re

END = "<!-- end -->"


def filled(page: str, mark: str, text: str) -> str:
    """The page with a text between a mark and the next end.

    >>> filled("<!-- methods, bundled -->\\nold\\n<!-- end -->", "methods, bundled", "new")
    '<!-- methods, bundled -->\\nnew\\n<!-- end -->'
    """
    begin = f"<!-- {mark} -->"
    marked = re.compile(f"{re.escape(begin)}.*?{re.escape(END)}", flags=re.DOTALL)
    return marked.sub(lambda _: f"{begin}\n{text}\n{END}", page)
