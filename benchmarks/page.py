"""The tables of docs/performance.md, from the numbers that `layup bench --save docs/performance` has left.

python -m benchmarks.page
"""

from __future__ import annotations

import json
from pathlib import Path

from layup.performance import filled

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "performance.md"
NUMBERS = DOCS / "performance"


def main() -> None:
    saved = {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(NUMBERS.glob("*.json"))}
    PAGE.write_text(filled(PAGE.read_text("utf-8"), saved), "utf-8")


if __name__ == "__main__":
    main()
