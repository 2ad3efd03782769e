"""The five routes, with what Label Studio 1.23.2 really sent: `recorded.json`, without its tokens."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from label_studios import KEY, SmallStudio, small_studio
from layup.serving import Tokens, create_app, following
from servers import URL, photo, service

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


@contextlib.contextmanager
def asking(small: SmallStudio | None, tokens: Tokens | None = None) -> Iterator[TestClient]:
    """Asks an application that works with this Label Studio."""
    with (
        service(tokens=tokens or Tokens()) as found,
        following(found.live, small.address if small else None, KEY, None) as teacher,
    ):
        yield TestClient(create_app(replace(found, teacher=teacher)), base_url=URL)


def counts(client: TestClient) -> dict[str, int]:
    return {each["label"]: each["count"] for each in client.get("/classes").json()["classes"]}


def test_what_label_studio_sent_is_followed_step_by_step(small: SmallStudio) -> None:
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
    with asking(small) as client:
        for message, expected in zip(RECORDED, steps, strict=True):
            remember(small, message["body"])
            answer = client.post(f"/label-studio{message['path']}", json=message["body"])
            assert answer.status_code == 200, answer.text
            assert answer.json().get("problems", []) == []
            assert counts(client) == expected
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


def test_no_request_names_the_address_or_the_key(small: SmallStudio) -> None:
    (setup,) = [message["body"] for message in RECORDED if message["path"] == "/setup"]
    assert (setup["hostname"], setup["access_token"]) == ("http://127.0.0.1:8099", "removed")
    with asking(small) as client:
        client.post("/label-studio/setup", json=setup)
        for message in RECORDED:
            client.post(f"/label-studio{message['path']}", json=message["body"])
    assert small.authorizations == {f"Token {KEY}"}


def test_it_is_there_and_counts(small: SmallStudio) -> None:
    with asking(small) as client:
        assert client.get("/label-studio/health").json() == {"status": "UP", "model_class": "layup"}
        assert "layup_photos_learned 0" in client.get("/label-studio/metrics").text


@pytest.mark.parametrize("path", ["/health", "/metrics", "/setup", "/predict", "/webhook"])
def test_without_a_label_studio_there_is_nothing(path: str) -> None:
    with asking(None) as client:
        answer = client.request("GET" if path in ("/health", "/metrics") else "POST", f"/label-studio{path}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "no-label-studio")


def test_the_token_comes_as_a_password_and_reading_is_not_teaching(small: SmallStudio) -> None:
    webhook = {"action": "PROJECT_UPDATED"}
    with asking(small, Tokens("full", "read")) as client:
        for password, health, teaching in (("full", 200, 200), ("read", 200, 403), ("wrong", 401, 401)):
            auth = ("any", password)
            assert client.get("/label-studio/health", auth=auth).status_code == health
            assert client.post("/label-studio/webhook", json=webhook, auth=auth).status_code == teaching
        assert client.get("/label-studio/health").status_code == 401


def test_a_configuration_that_does_not_fit_is_refused_in_a_sentence(small: SmallStudio) -> None:
    with asking(small) as client:
        answer = client.post("/label-studio/setup", json={"schema": "<View/>", "project": "1.2"})
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
    small: SmallStudio, caplog: pytest.LogCaptureFixture, path: str, body: Any
) -> None:
    with asking(small) as client:
        answer = client.post(f"/label-studio{path}", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid")
    assert "abel Studio" in caplog.text
