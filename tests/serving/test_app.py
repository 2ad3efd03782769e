"""The API: what it answers, and how it refuses."""

from __future__ import annotations

import json
import logging

import pytest

from layup import load
from layup.errors import BusyError, NotEnoughMemoryError, ReadOnlyError, StorageError
from layup.serving import DemoPhotos
from live import wait_until
from models import small_network
from servers import client, files, new_model, photo


@pytest.fixture
def asking():
    with client() as found:
        yield found


@pytest.fixture
def taught(asking):
    """Two classes of two photos: 0 and 1 are cats, 2 and 3 dogs."""
    labels = {"labels": ["cat", "cat", "dog", "dog"]}
    asking.post("/teach", files=files(*map(photo, range(4))), data=labels).raise_for_status()
    return asking


def code(answer) -> tuple[int, str]:
    """How a request was refused; the sentence has an end, and no path."""
    error = answer.json()["error"]
    assert set(answer.json()) == {"error"}
    assert set(error) == {"code", "message"}
    assert error["message"][0].isupper()
    assert error["message"][-1] in ".'"
    return answer.status_code, error["code"]


def test_predictions_are_those_of_the_model(taught):
    model = new_model()
    model.learn([photo(i) for i in range(4)], ["cat", "cat", "dog", "dog"])
    expected = model.predictions([photo(5), photo(2)])
    found = taught.post("/predict?top=0", files=files(photo(5), photo(2))).json()
    assert found["version"] == 1
    assert [each["label"] for each in found["predictions"]] == expected.labels
    for each, row in zip(found["predictions"], expected.probabilities, strict=True):
        own = dict(zip(expected.classes, row.tolist(), strict=True))
        assert each["probabilities"] == pytest.approx(own, abs=1e-6)
    assert [each["learned_as"] for each in found["predictions"]] == [[], ["dog"]]
    for each, one in zip(found["predictions"], expected.each(), strict=True):
        assert 0 <= each["none_of_these"] <= 1
        assert each["unknown"] is one.unknown


def test_the_most_probable_classes_come_first(taught):
    for top, count in ((0, 2), (1, 1), (2, 2), (100, 2)):
        (found,) = taught.post(f"/predict?top={top}", files=files(photo(7))).json()["predictions"]
        assert len(found["probabilities"]) == count
        assert next(iter(found["probabilities"])) == found["label"]


def test_a_bad_photo_fails_alone(taught):
    found = taught.post("/predict", files=files(b"no image", photo(0), b"")).json()["predictions"]
    assert [each["error"] is None for each in found] == [False, True, False]
    assert "'0.png'" in found[0]["error"]["message"]
    assert "'2.png'" in found[2]["error"]["message"]
    lesson = taught.post("/teach", files=files(b"no image", photo(4)), data={"label": "eel"}).json()
    assert [each["status"] for each in lesson["photos"]] == ["bad", "learned"]
    assert lesson["learned"] == {"eel": 1}
    assert lesson["message"] == "Learned 1 photo. Cannot be used: 1 photo."


def test_nothing_is_said_by_a_model_that_knows_nothing(asking):
    for path in ("/predict", "/explain", "/suggest"):
        assert code(asking.post(path, files=files(photo(0)))) == (409, "nothing-learned")
    assert code(asking.get("/audit")) == (409, "nothing-learned")
    found = asking.get("/classes").json()
    assert (found["version"], found["classes"], found["expected"]) == (0, [], None)


def test_a_photo_counts_once_and_moves_when_asked_to(taught):
    again = taught.post("/teach", files=files(photo(0)), data={"label": "cat"}).json()
    assert (again["learned"], again["known"], again["photos"][0]["status"]) == ({}, 1, "known")
    other = taught.post("/teach", files=files(photo(0)), data={"label": "dog"}).json()
    assert (other["learned"], other["photos"][0]["status"]) == ({}, "conflict")
    assert other["photos"][0]["learned_as"] == ["cat"]
    moved = taught.post("/teach", files=files(photo(0)), data={"label": "dog", "relabel": "true"}).json()
    assert (moved["moved"], moved["photos"][0]["status"]) == (1, "moved")
    assert moved["counts"] == {"cat": 1, "dog": 3}
    assert moved["message"] == "Moved 1 photo to another class."


def test_labels_belong_to_photos(asking):
    three = files(*map(photo, range(3)))
    for data in ({}, {"label": "a", "labels": ["a", "b", "c"]}, {"labels": ["a", "b"]}, {"label": ""}):
        assert code(asking.post("/teach", files=three, data=data)) == (422, "invalid")
    for data in ({"label": "a" * 1001}, {"labels": ["a", "b" * 1001, "c"]}):
        refused = asking.post("/teach", files=three, data=data)
        assert code(refused) == (422, "invalid")
        assert "1,001 letters is too long" in refused.json()["error"]["message"]
    assert asking.get("/classes").json()["classes"] == []


def test_a_key_counts_once(asking):
    headers = {"Idempotency-Key": "first"}
    first = asking.post("/teach", files=files(photo(0)), data={"label": "a"}, headers=headers).json()
    again = asking.post("/teach", files=files(photo(0)), data={"label": "a"}, headers=headers).json()
    assert first == again
    assert first["learned"] == {"a": 1}
    undone = asking.post("/undo", headers=headers)  # the same key for another verb is another one
    assert undone.json()["forgotten"] == {"a": 1}
    other = asking.post("/teach", files=files(photo(1), photo(2)), data={"label": "b"}, headers=headers)
    assert other.json()["learned"] == {"b": 2}  # so is another request
    for key in ("", "x" * 201, "schlüssel".encode()):
        refused = asking.post("/undo", headers={"Idempotency-Key": key})
        assert code(refused) == (422, "invalid")


def test_a_key_counts_once_also_after_the_server_has_ended(tmp_path):
    headers = {"Idempotency-Key": "~" * 200}
    answers = []
    for _ in range(2):
        with client(tmp_path / "m.layup") as asking:
            sent = asking.post("/teach", files=files(photo(0)), data={"label": "a"}, headers=headers)
            answers.append(sent.json())
    assert answers[0] == answers[1]
    assert answers[0]["learned"] == {"a": 1}


def test_photos_are_forgotten_by_their_files(taught):
    done = taught.post("/forget", files=files(photo(0))).json()
    assert (done["forgotten"], done["exact"], done["counts"]) == ({"cat": 1}, True, {"cat": 1, "dog": 2})
    assert done["message"] == "Forgot 1 photo. The sums are now as if the model had never seen them."
    again = taught.post("/forget", files=files(photo(0))).json()
    assert (again["photos"][0]["status"], again["message"]) == ("unknown", "Never learned: 1 photo.")


def test_a_class_is_forgotten_by_its_name(taught):
    done = taught.post("/forget", json={"class": "cat"}).json()
    assert (done["forgotten"], done["counts"]) == ({"cat": 2}, {"dog": 2})
    assert code(taught.post("/forget", json={"class": "cat"})) == (404, "unknown-class")


@pytest.mark.parametrize(
    "body",
    [{}, {"class": "cat", "ids": ["0" * 32]}, {"ids": []}, {"ids": "cat"}, {"label": "cat"}, [], 1],
)
def test_what_is_to_be_forgotten_must_be_clear(taught, body):
    assert code(taught.post("/forget", json=body)) == (422, "invalid")
    assert len(taught.get("/classes").json()["classes"]) == 2


def test_json_must_be_json(taught):
    for text in (b"", b"null", b"{", b"\xff", b'{"class": NaN}', b"[" * 100_000):
        answer = taught.post("/forget", content=text, headers={"Content-Type": "application/json"})
        assert code(answer) == (422, "invalid")


def test_classes_are_renamed_and_become_one(taught):
    done = taught.post("/rename", json={"old": "cat", "new": "tabby"}).json()
    assert done["counts"] == {"dog": 2, "tabby": 2}
    assert done["message"] == "Renamed 'cat' to 'tabby', which has 2 photos now."
    done = taught.post("/rename", json={"old": "tabby", "new": "dog"}).json()
    assert done["counts"] == {"dog": 4}
    assert done["message"] == "Renamed 'tabby' to 'dog', which has 4 photos now."
    assert code(taught.post("/rename", json={"old": "cat", "new": "x"})) == (404, "unknown-class")
    assert code(taught.post("/rename", json={"old": "dog", "new": "a\nb"})) == (422, "invalid")


def test_the_last_lesson_is_taken_back(taught):
    before = taught.get("/model/info").json()["state_hash"]
    taught.post("/teach", files=files(photo(9)), data={"label": "eel"}).raise_for_status()
    assert taught.get("/model/info").json()["state_hash"] != before
    done = taught.post("/undo").json()
    assert done["forgotten"] == {"eel": 1}
    assert taught.get("/model/info").json()["state_hash"] == before


def test_an_answer_has_its_reasons(taught):
    found = taught.post("/explain?heat=true", files=files(photo(0))).json()
    assert {found["label"], found["second"]} == {"cat", "dog"}
    assert len(found["heat"]["drops"]) == 8
    assert found["lead"] == pytest.approx(sum(part["lead"] for part in found["parts"]))
    assert taught.post("/explain?heat=false", files=files(photo(0))).json()["heat"] is None
    assert code(taught.post("/explain", files=files(photo(0), photo(1)))) == (422, "invalid")
    assert code(taught.post("/explain?heat=false", files=files(b"no image"))) == (422, "bad-image")


def test_photos_that_teach_most_are_suggested(taught):
    sent = files(photo(0), photo(8), b"no image", photo(9))
    found = taught.post("/suggest?count=1", files=sent).json()
    assert found["known"] == 1
    (one,) = found["photos"]
    assert one["name"] in ("1.png", "3.png")
    (predicted,) = taught.post("/predict", files=[sent[int(one["name"][0])]]).json()["predictions"]
    assert (one["guess"], one["id"]) == (predicted["label"], predicted["id"])
    (bad,) = found["bad"]
    assert bad["name"] == "2.png"


def test_known_photos_are_judged_without_being_at_hand(taught):
    """As the model itself says of the same photos, when it has them."""
    taught.post("/teach", files=files(photo(20)), data={"label": "eel"}).raise_for_status()
    model, labels = new_model(), ["cat", "cat", "dog", "dog", "eel"]
    contents = [photo(i) for i in (0, 1, 2, 3, 20)]
    model.learn(contents, labels)
    expected = model.audit(contents, labels)
    found = taught.get("/audit").json()
    ids = [each["id"] for each in taught.post("/predict", files=files(*contents)).json()["predictions"]]
    assert (found["version"], found["judged"], found["alone"], found["not_judged"]) == (2, 4, 1, 0)
    assert {each["id"]: each["suggested"] for each in found["wrong"]} == {
        ids[each.index]: each.suggested for each in expected.suspects
    }
    assert found["confusion"] == expected.confusion.to_dict()
    assert sum(map(sum, found["confusion"]["counts"])) == 4
    assert found["expected"]["accuracy"] == expected.expected.accuracy
    assert found["needs_more"] == expected.expected.needs_more


def test_photos_are_forgotten_by_their_ids(taught):
    (one,) = taught.post("/predict", files=files(photo(0))).json()["predictions"]
    done = taught.post("/forget", json={"ids": [one["id"]]}).json()
    assert (done["forgotten"], done["exact"], done["counts"]) == ({"cat": 1}, True, {"cat": 1, "dog": 2})
    assert done["photos"][0]["id"] == one["id"]


def test_the_download_is_the_model(taught, tmp_path):
    answer = taught.get("/model")
    assert answer.headers["content-disposition"] == 'attachment; filename="model.layup"'
    assert int(answer.headers["content-length"]) == len(answer.content)
    path = tmp_path / "m.layup"
    path.write_bytes(answer.content)
    model = load(path, backbone=small_network())
    assert model.counts_ == {"cat": 2, "dog": 2}
    assert model.state_hash == taught.get("/model/info").json()["state_hash"]


def test_the_log_names_all_lessons(taught):
    taught.post("/rename", json={"old": "cat", "new": "tabby"}).raise_for_status()
    first, second = taught.get("/log").json()["entries"]
    assert (first["action"], first["learned"]) == ("learn", {"cat": 2, "dog": 2})
    assert (second["action"], second["note"]) == ("rename", "cat → tabby")


def test_it_says_which_version_the_accuracy_is_about(taught):
    wait_until(lambda: taught.get("/classes").json()["judged"] == 1)
    assert taught.get("/classes").json()["expected"]["tested"] == 4
    done = taught.post("/teach", files=files(photo(9)), data={"label": "cat"}).json()
    assert done["version"] == 2
    wait_until(lambda: taught.get("/classes").json()["judged"] == 2)
    assert taught.get("/classes").json()["expected"]["tested"] == 5


def test_a_photo_that_cannot_be_explained_is_named(taught):
    answer = taught.post("/explain", files=files(b"no image"))
    assert code(answer) == (422, "bad-image")
    assert answer.json()["error"]["message"].startswith("Cannot use '0.png': it is not an image")


def test_it_says_what_is_kept(taught):
    wait_until(lambda: taught.get("/classes").json()["expected"] is not None)  # it is estimated meanwhile
    found = taught.get("/model/info").json()
    assert "never written, logged or kept" in found["keeps"]
    assert ("download it to keep it" in found["keeps"]) is not found["saved"]
    assert found["classes"] == {"cat": 2, "dog": 2}
    assert found["expected"] == taught.get("/classes").json()["expected"]


def test_what_it_counts_can_be_read(taught):
    taught.post("/predict", files=files(photo(0), b"no image"))
    taught.get("/no/such/path")
    text = taught.get("/metrics").text
    assert 'layup_requests_total{method="POST",path="/predict",status="200"} 1\n' in text
    assert 'layup_requests_total{method="GET",path="other",status="404"} 1\n' in text
    assert 'layup_request_photos_sum{path="/predict"} 2\n' in text
    assert 'layup_request_seconds_count{path="/teach"} 1\n' in text
    assert "layup_classes 2\n" in text
    assert "layup_ready 1\n" in text
    assert "/no/such" not in text


def test_health_needs_nothing(asking):
    assert asking.get("/v2/health/live").json() == {"live": True}
    assert asking.get("/v2/health/ready").json() == {"ready": True}


def test_what_there_is_not_is_refused_with_a_sentence(asking):
    assert code(asking.get("/nothing")) == (404, "not-found")
    assert code(asking.get("/page/../app.py")) == (404, "not-found")
    assert code(asking.get("/page/%2e%2e%2fapp.py")) == (404, "not-found")
    assert code(asking.get("/demo/a.png")) == (404, "not-found")
    assert asking.get("/demo").json() == {"about": "", "photos": []}
    assert code(asking.get("/docs")) == (404, "not-found")
    assert code(asking.delete("/teach")) == (405, "method-not-allowed")
    assert code(asking.post("/predict?top=-1", files=files(photo(0)))) == (422, "invalid")


def test_the_demo_has_pictures():
    with client(demo=DemoPhotos({"a.png": photo(0)}, "Try it.")) as asking:
        shown = {"about": "Try it.", "photos": [{"name": "a.png", "url": "/demo/a.png"}]}
        assert asking.get("/demo").json() == shown
        assert asking.get("/demo/a.png").content == photo(0)
        assert code(asking.get("/demo/b.png")) == (404, "not-found")


@pytest.mark.parametrize(
    ("error", "status", "word"),
    [
        (BusyError("Too much waits already. Come again.", retry_after=2.5), 503, "busy"),
        (NotEnoughMemoryError("This would not fit into memory."), 503, "not-enough-memory"),
        (ReadOnlyError("This copy only follows another model."), 403, "read-only"),
        (StorageError("Cannot write '/home/somebody/m.layup'."), 500, "storage"),
        (ZeroDivisionError("in /usr/lib/python"), 500, "unforeseen"),
    ],
)
def test_errors_of_the_model_are_refusals_without_paths(taught, monkeypatch, caplog, error, status, word):
    def fail(*_: object, **__: object) -> None:
        raise error

    live = taught.app.state.service.live
    monkeypatch.setattr(live, "teach", fail)
    with caplog.at_level(logging.ERROR, "layup.serving"):
        answer = taught.post("/teach", files=files(photo(9)), data={"label": "a"})
    assert code(answer) == (status, word)
    assert ("retry-after" in answer.headers) is (status == 503)
    said = answer.json()["error"]["message"]
    if status == 500:
        assert "/" not in said
        (record,) = caplog.records
        assert record.args[0] in said
        assert record.exc_info[1] is error
    if isinstance(error, BusyError):
        assert answer.headers["retry-after"] == "3"


def test_the_description_is_whole_and_needs_nothing_from_elsewhere(asking):
    found = asking.get("/openapi.json").json()
    assert "http" not in json.dumps(found).replace("httpss", "")
    for path, methods in found["paths"].items():
        for method, about in methods.items():
            assert about["summary"], path
            assert about["responses"]["200"], (method, path)
    assert "security" not in json.dumps(found)
