"""What a request brings: into memory, and nowhere else."""

from __future__ import annotations

import tempfile

import pytest

from layup.serving import RequestLimits, uploads
from servers import client, files, photo

SMALL = RequestLimits(body=4000, image=1000, images=3, field=20)


@pytest.fixture(scope="module")
def asking():
    """A server with small limits that knows one photo."""
    with client(limits=SMALL) as found:
        found.post("/teach", files=files(photo(0)), data={"label": "a"}).raise_for_status()
        yield found


def refused(answer, status: int, code: str) -> str:
    """The sentence of a refusal."""
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (status, code), error
    assert error["message"].endswith((".", "'"))
    return error["message"]


def test_photos_and_fields_arrive_in_order(asking):
    answer = asking.post(
        "/teach", files=files(photo(0), photo(1), photo(2)), data={"labels": ["a", "b", "ä"]}
    ).json()
    assert [each["name"] for each in answer["photos"]] == ["0.png", "1.png", "2.png"]
    assert [each["label"] for each in answer["photos"]] == ["a", "b", "ä"]


def test_one_photo_may_be_the_whole_body(asking):
    for kind in ("image/png", "image/jpeg", "application/octet-stream", "IMAGE/PNG; q=1"):
        answer = asking.post("/predict", content=photo(0), headers={"Content-Type": kind})
        assert answer.json()["predictions"][0]["learned_as"] == ["a"]


def test_a_photo_that_is_too_large_fails_alone(asking):
    answer = asking.post("/predict", files=files(photo(0), bytes(1001), photo(1)))
    good, large, other = answer.json()["predictions"]
    assert (good["learned_as"], other["error"]) == (["a"], None)
    assert large["error"] == {
        "code": "too-large",
        "message": "'1.png' is larger than 1.0 kB, which is the most that is taken. Scale it down.",
    }


def test_too_much_is_refused(asking):
    refused(asking.post("/predict", files=files(bytes(1001))), 413, "too-large")
    refused(asking.post("/predict", files=files(*[bytes(9)] * 4)), 413, "too-many")
    refused(
        asking.post("/predict", content=bytes(4001), headers={"Content-Type": "image/png"}), 413, "too-large"
    )
    refused(
        asking.post("/predict", content=bytes(99_999), headers={"Content-Type": "image/png"}),
        413,
        "too-large",
    )
    refused(asking.post("/teach", files=files(photo(0)), data={"label": "x" * 21}), 413, "too-large")
    refused(asking.post("/teach", files=files(photo(0)), data={"label": ["x"] * 20}), 413, "too-many")


def test_a_body_without_a_length_is_counted_as_it_comes(asking):
    def parts():
        for _ in range(100):
            yield bytes(1000)

    answer = asking.post("/predict", content=parts(), headers={"Content-Type": "image/png"})
    refused(answer, 413, "too-large")


def test_json_has_a_limit_of_its_own(asking, monkeypatch):
    monkeypatch.setattr(uploads, "JSON", 100)
    answer = asking.post("/rename", json={"old": "x" * 100, "new": "y"})
    refused(answer, 413, "too-large")


@pytest.mark.parametrize(
    ("kind", "body", "status", "code"),
    [
        ("multipart/form-data", b"", 400, "bad-form"),
        ("multipart/form-data; boundary=", b"", 400, "bad-form"),
        (f"multipart/form-data; boundary={'x' * 300}", b"", 400, "bad-form"),
        ("multipart/form-data; boundary=x", b"", 400, "bad-form"),
        ("multipart/form-data; boundary=x", b"nonsense", 400, "bad-form"),
        ("multipart/form-data; boundary=x", b"--x\r\n", 400, "bad-form"),
        ("multipart/form-data; boundary=x", b"--x--\r\n", 422, "no-images"),
        ("multipart/form-data; boundary=x", b"--x\r\n\r\nabc\r\n--x--\r\n", 422, "invalid"),
        ("text/plain", b"abc", 415, "unsupported-type"),
        ("", b"abc", 415, "unsupported-type"),
        ("application/json", b"{}", 415, "unsupported-type"),
    ],
)
def test_what_is_no_upload_is_a_sentence(asking, kind, body, status, code):
    refused(asking.post("/predict", content=body, headers={"Content-Type": kind}), status, code)


def test_fields_that_are_not_meant_are_refused(asking):
    said = refused(asking.post("/predict", files=files(photo(0)), data={"top": "3"}), 422, "invalid")
    assert said == "There is no field 'top' here. What may be sent is 'images'."
    data = {"label": "a", "relabel": "yes"}
    refused(asking.post("/teach", files=files(photo(0)), data=data), 422, "invalid")
    data = {"label": ["a", "b"]}
    refused(asking.post("/teach", files=files(photo(0)), data=data), 422, "invalid")


def test_text_that_is_not_text_is_refused(asking):
    body = b'--x\r\nContent-Disposition: form-data; name="label"\r\n\r\n\xff\r\n--x--\r\n'
    answer = asking.post("/teach", content=body, headers={"Content-Type": "multipart/form-data; boundary=x"})
    refused(answer, 422, "invalid")


def test_names_of_files_are_short_and_printable(asking):
    form = [("images", (f"{'x' * 500}\x1b[2J.png", photo(0)))]
    (found,) = asking.post("/predict", files=form).json()["predictions"]
    assert len(found["name"]) == uploads.NAME
    assert found["name"].isprintable()


def test_an_upload_is_never_written_to_a_file(monkeypatch):
    """Not even a large one, which the framework's own reader would spool."""

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("something opens a temporary file")

    for name in ("TemporaryFile", "SpooledTemporaryFile", "NamedTemporaryFile", "mkstemp", "mkdtemp"):
        monkeypatch.setattr(tempfile, name, forbidden)
    large = photo(0) + bytes(3_000_000)
    with client() as found:
        taught = found.post("/teach", files=files(large), data={"label": "a"})
        assert taught.json()["learned"] == {"a": 1}
        found.post("/predict", content=large, headers={"Content-Type": "image/png"}).raise_for_status()
