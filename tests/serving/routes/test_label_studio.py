"""The five routes, with what Label Studio 1.23.2 really sent: `recorded.json`, without its tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from label_studios import KEY, SmallStudio, small_studio
from layup.serving import LiveModel, Tokens, create_app, following
from servers import URL, new_model, photo, service_of

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "label_studio" / "recorded.json").read_text()
)
UPLOADS = ["f921eef9-p0.png", "fb642b22-p1.png", "a2b72bc6-p2.png"]
"""Of the three tasks of the recording."""
