"""Whether the packages are there that a server needs, and nothing else of layup does."""

from __future__ import annotations

from importlib.util import find_spec

from layup.errors import MissingPackageError

PACKAGES = ("fastapi", "uvicorn", "python_multipart")


def require_installed() -> None:
    """Refuse to serve without the packages for it."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"A server needs other packages ({', '.join(missing)}). "
            "Install them: pip install 'layup-cl[serve]'."
        )
