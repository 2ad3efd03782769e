"""What the tests have and tries need too: slow twins of formulas, and made-up records.

Read from the files of `tests/`, so that there is one of each; the package itself has neither.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

TESTS = Path(__file__).parent.parent / "tests"


@cache
def from_tests(name: str) -> ModuleType:
    """A module of the tests.

    >>> from_tests("oracle").best({0.1: 0.5, 1.0: 0.5})
    1.0
    """
    spec = importlib.util.spec_from_file_location(f"torture_{name}", TESTS / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(f"There is no {TESTS / name}.py: tries need the tests.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
