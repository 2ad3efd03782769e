"""A model that threads use together."""

from __future__ import annotations

import io
from pathlib import Path

from PIL import Image

from layup import load
from layup.serving import LiveModel
from models import picture, small_model


def photo(number: int) -> bytes:
    """The contents of a file."""
    file = io.BytesIO()
    Image.fromarray(picture(number)).save(file, "PNG")
    return file.getvalue()


def test_what_is_taught_is_predicted_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "m.layup"
    with LiveModel.open(path, new=small_model) as live:
        done = live.teach([photo(0), b"no image", photo(1)], ["cat", "cat", "dog"])
        assert [each.status for each in done.photos] == ["learned", "bad", "learned"]
        assert done.learned == done.counts == {"cat": 1, "dog": 1}
        answer = live.predict([photo(0)])
        assert answer.predictions.labels == ["cat"]
        assert answer.learned_as == [("cat",)]
    assert load(path, backbone=small_model().backbone_).counts_ == {"cat": 1, "dog": 1}
