"""The five routes, with what Label Studio 1.23.2 really sent: `recorded.json`, without its tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from label_studios import KEY, SmallStudio, small_studio
from layup.serving import Tokens
from servers import client, photo

RECORDED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent.parent / "label_studio" / "recorded.json").read_text()
)
UPLOADS = ["f921eef9-p0.png", "fb642b22-p1.png", "a2b72bc6-p2.png"]
"""Of the three tasks of the recording."""


@pytest.fixture
def small() -> Iterator[SmallStudio]:
    """With the photos and the tasks of the recording."""
    with small_studio() as found:
        found.files = {f"/data/upload/1/{name}": photo(number) for number, name in enumerate(UPLOADS)}
        found.tasks = {
            number: {"id": number, "data": {"image": path}}
            for number, path in enumerate(found.files, start=1)
        }
        yield found


@pytest.fixture
def asking(small: SmallStudio) -> Iterator[TestClient]:
    """Asks an application that works with this Label Studio."""
    with client(label_studio=(small.address, KEY)) as found:
        yield found


def counts(asking: TestClient) -> dict[str, int]:
    return {each["label"]: each["count"] for each in asking.get("/classes").json()["classes"]}


def test_what_label_studio_sent_is_followed_step_by_step(small: SmallStudio, asking: TestClient) -> None:
    steps = iter(
        [
            {},  # /setup
            {},  # TASKS_CREATED
            {"1": 1},  # ANNOTATION_CREATED
            {"0": 1},  # ANNOTATION_UPDATED
            {},  # ANNOTATIONS_DELETED
            {},  # ANNOTATION_CREATED, cancelled
            {"0": 1},  # ANNOTATION_CREATED
            {"0": 1},  # /predict, one task
            {"0": 1},  # /predict, two tasks
            {"0": 2},  # ANNOTATIONS_CREATED, from a prediction
            {"0": 2},  # START_TRAINING
            {"0": 1},  # ANNOTATIONS_DELETED
            {"0": 1},  # TASKS_DELETED
            {"0": 1},  # TASKS_DELETED
            {"0": 1},  # PROJECT_UPDATED
        ]
    )
    for message, expected in zip(RECORDED, steps, strict=True):
        remember(small, message["body"])
        answer = asking.post(f"/label-studio{message['path']}", json=message["body"])
        assert answer.status_code == 200, answer.text
        assert answer.json().get("problems", []) == []
        assert counts(asking) == expected
        if message["path"] == "/predict":
            assert [len(each) for each in answer.json()["results"]] == [1] * len(message["body"]["tasks"])
            assert answer.json()["results"][0][0]["result"][0]["value"] == {"choices": ["0"]}


def remember(small: SmallStudio, body: dict[str, Any]) -> None:
    """What Label Studio has by the time that it sends a message."""
    said = body.get("annotation", [])
    for each in said if isinstance(said, list) else [said]:
        small.annotations[each["id"]] = each
    if body.get("action") == "ANNOTATIONS_DELETED":
        for gone in body["annotations"]:
            del small.annotations[gone["id"]]


def test_no_request_names_the_address_or_the_key(small: SmallStudio, asking: TestClient) -> None:
    (setup,) = [message["body"] for message in RECORDED if message["path"] == "/setup"]
    assert (setup["hostname"], setup["access_token"]) == ("http://127.0.0.1:8099", "removed")
    asking.post("/label-studio/setup", json=setup)
    for message in RECORDED:
        asking.post(f"/label-studio{message['path']}", json=message["body"])
    assert small.authorizations == {f"Token {KEY}"}


def test_it_is_there_and_counts(asking: TestClient) -> None:
    assert asking.get("/label-studio/health").json() == {"status": "UP", "model_class": "layup"}
    assert "layup_photos_learned 0" in asking.get("/label-studio/metrics").text


@pytest.mark.parametrize("path", ["/health", "/metrics", "/setup", "/predict", "/webhook"])
def test_without_a_label_studio_there_is_nothing(path: str) -> None:
    with client() as asking:
        answer = asking.request("GET" if path in ("/health", "/metrics") else "POST", f"/label-studio{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no-label-studio")


def test_the_token_comes_as_a_password_and_reading_is_not_teaching(small: SmallStudio) -> None:
    webhook = {"action": "PROJECT_UPDATED"}
    with client(tokens=Tokens("full", "read"), label_studio=(small.address, KEY)) as asking:
        for password, health, teaching in (("full", 200, 200), ("read", 200, 403), ("wrong", 401, 401)):
            auth = ("any", password)
            assert asking.get("/label-studio/health", auth=auth).status_code == health
            assert asking.post("/label-studio/webhook", json=webhook, auth=auth).status_code == teaching
        assert asking.get("/label-studio/health").status_code == 401


def test_a_configuration_that_does_not_fit_is_refused_in_a_sentence(asking: TestClient) -> None:
    answer = asking.post("/label-studio/setup", json={"schema": "<View/>", "project": "1.2"})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"].startswith(
        "The labelling configuration must have one Choices tag"
    )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/webhook", {}),
        ("/webhook", {"action": "ANNOTATION_CREATED"}),
        ("/webhook", {"action": "ANNOTATION_CREATED", "project": {"id": 2**63, "label_config": ""}}),
        ("/webhook", {"action": "ANNOTATIONS_DELETED", "annotations": [{"id": -1}]}),
        ("/predict", {"tasks": [{"id": 1}], "label_config": ""}),
        ("/predict", {"tasks": {}, "label_config": ""}),
        ("/setup", []),
    ],
)
def test_what_has_another_form_is_refused_and_logged(
    asking: TestClient, caplog: pytest.LogCaptureFixture, path: str, body: Any
) -> None:
    answer = asking.post(f"/label-studio{path}", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")
    assert "abel Studio" in caplog.text
