"""A small Label Studio on loopback, which gives out photos and tells of events, as the real one does."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from layup.serving.label_studio import Event

KEY = "the key of a user"
CONFIG = """<View>
  <Image name="photo" value="$image"/>
  <Choices name="kind" toName="photo"><Choice value="cat"/><Choice value="dog"/><Choice value="owl"/>
  </Choices>
</View>"""
BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


class SmallStudio:
    """One project of photos, and what is said of them."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.files: dict[str, bytes] = {}
        self.tasks: dict[int, dict[str, Any]] = {}
        self.annotations: dict[int, dict[str, Any]] = {}
        self.authorizations: set[str | None] = set()
        """All that was sent to prove who asks."""
        self.per_page = 100
        self.on_page = lambda page: None
        """Called before a page of tasks is sent."""
        self._clock = 0
        self._gone = 0

    # ---- what its users do; each returns the event that is told

    def add(self, contents: bytes) -> int:
        number = len(self.files) + 1
        path = f"/data/upload/1/{number}.png"
        self.files[path] = contents
        self.tasks[number] = {"id": number, "data": {"image": path}}
        return number

    def annotate(self, task: int, *choices: str, **more: Any) -> Event:
        number = 1 + len(self.annotations) + self._gone
        self.annotations[number] = {"id": number, "task": task, **self._said(choices), **more}
        return self._told("ANNOTATION_CREATED", self.annotations[number])

    def update(self, number: int, *choices: str, **more: Any) -> Event:
        self.annotations[number] = {**self.annotations[number], **self._said(choices), **more}
        return self._told("ANNOTATION_UPDATED", self.annotations[number])

    def delete(self, *numbers: int) -> Event:
        for number in numbers:
            del self.annotations[number]
        self._gone += len(numbers)
        return self.event("ANNOTATIONS_DELETED", annotations=[{"id": number} for number in numbers])

    def delete_task(self, number: int) -> Event:
        del self.tasks[number]
        kept = {each["id"]: each for each in self.annotations.values() if each["task"] != number}
        self._gone += len(self.annotations) - len(kept)
        self.annotations = kept
        return self.event("TASKS_DELETED", tasks=[{"id": number}])

    def event(self, action: str, config: str = CONFIG, **more: Any) -> Event:
        project = {"id": 1, "label_config": config}
        return Event.model_validate({"action": action, "project": project, **more})

    # ---- the rest is private

    def _said(self, choices: tuple[str, ...]) -> dict[str, Any]:
        self._clock += 1
        time = (BEGINNING + timedelta(seconds=self._clock)).isoformat()
        value = {"choices": list(choices)}
        result = [{"from_name": "kind", "to_name": "photo", "type": "choices", "value": value}]
        return {"result": result if choices else [], "updated_at": time}

    def _told(self, action: str, annotation: dict[str, Any]) -> Event:
        return self.event(action, annotation=annotation, task=self.tasks[annotation["task"]])

    def _listed(self, number: int) -> dict[str, Any]:
        said = [each for each in self.annotations.values() if each["task"] == number]
        return {**self.tasks[number], "annotations": said}

    def answer(self, path: str) -> bytes | None:
        """What is at a path; None if there is nothing."""
        if path in self.files:
            return self.files[path]
        parts = urlsplit(path)
        if parts.path == "/api/tasks":
            page = int(parse_qs(parts.query)["page"][0])
            self.on_page(page)
            numbers = sorted(self.tasks)[(page - 1) * self.per_page : page * self.per_page]
            listed = {"tasks": [self._listed(number) for number in numbers], "total": len(self.tasks)}
            return json.dumps(listed).encode()
        number = parts.path.removeprefix("/api/tasks/")
        if number.isdigit() and int(number) in self.tasks:
            return json.dumps(self._listed(int(number))).encode()
        return None


class Handler(BaseHTTPRequestHandler):
    """Answers with what the small studio has."""

    studio: SmallStudio

    def do_GET(self) -> None:
        self.studio.authorizations.add(self.headers["Authorization"])
        allowed = self.headers["Authorization"] == f"Token {KEY}"
        content = self.studio.answer(self.path) if allowed else None
        self.send_response(401 if not allowed else 200 if content is not None else 404)
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""


@contextlib.contextmanager
def answering(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address of a server on loopback."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def small_studio() -> Iterator[SmallStudio]:
    """A small Label Studio that answers."""
    handler = type("Own", (Handler,), {})
    with answering(handler) as address:
        handler.studio = SmallStudio(address)
        yield handler.studio
