"""With Label Studio itself: LABEL_STUDIO names its command, as `…/bin/label-studio`; without that, skipped.

It runs on loopback alone, with a data folder and a user of its own, and sends nothing elsewhere.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from layup import LayUP
from photos import digits
from processes import COMMAND

LABEL_STUDIO = os.environ.get("LABEL_STUDIO", "")
TOKEN, KEY = "teaches", "0123456789abcdef0123456789abcdef01234567"
CONFIG = """<View>
  <Image name="photo" value="$image"/>
  <Choices name="kind" toName="photo"><Choice value="nought" alias="0"/><Choice value="1"/></Choices>
</View>"""
OWN = {
    "COLLECT_ANALYTICS": "false",
    "LATEST_VERSION_CHECK": "false",
    "SENTRY_DSN": "",
    "FRONTEND_SENTRY_DSN": "",
    "SSRF_PROTECTION_ENABLED": "false",  # both: it would not speak with a server on this machine
    "ML_BLOCK_LOCAL_IP": "false",
}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not LABEL_STUDIO, reason="LABEL_STUDIO does not name the command of Label Studio"),
]


class Site:
    """A web server, asked by JSON, with a token."""

    def __init__(self, address: str, authorization: str) -> None:
        self.address, self.authorization = address, authorization

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Authorization": self.authorization, "Content-Type": kind}
        request = urllib.request.Request(self.address + path, data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
        return json.loads(content) if content else None

    def wait(self, path: str, process: subprocess.Popen[bytes]) -> None:
        """Until it answers."""
        for _ in range(600):
            with contextlib.suppress(OSError):
                self.ask("GET", path)
                return
            assert process.poll() is None, "it has ended"
            time.sleep(0.5)
        raise AssertionError("it does not begin")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def running(command: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file, env={**os.environ, **environment})
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Label Studio, with one user."""
    home, port = tmp_path_factory.mktemp("label-studio"), free_port()
    user = ["--username", "user@example.invalid", "--password", "of no worth", "--user-token", KEY]
    where = ["--internal-host", "127.0.0.1", "--port", str(port), "--data-dir", str(home)]
    command = [LABEL_STUDIO, "start", "--no-browser", "--enable-legacy-api-token", *where, *user]
    with running(command, home / "log.txt", **OWN) as process:
        site = Site(f"http://127.0.0.1:{port}", f"Token {KEY}")
        site.wait("/api/projects", process)
        yield site


@pytest.fixture(scope="module")
def layup(studio: Site, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """`layup serve`, which knows that Label Studio."""
    home, port = tmp_path_factory.mktemp("served"), free_port()
    options = ["--backbone", "vit-nano", "--port", str(port), "--token", TOKEN]
    command = [sys.executable, "-c", COMMAND, "serve", str(home / "m.layup"), *options]
    own = {"LAYUP_CACHE": str(home), "LAYUP_KEYS": str(home), "LABEL_STUDIO_API_KEY": KEY}
    with running([*command, "--label-studio", studio.address], home / "log.txt", **own) as process:
        site = Site(f"http://127.0.0.1:{port}", f"Bearer {TOKEN}")
        site.wait("/v2/health/ready", process)
        yield site


def photos() -> list[bytes]:
    """Three noughts and three ones."""
    files = []
    for image in [*digits(0, 3), *digits(1, 3)]:
        file = io.BytesIO()
        Image.fromarray(image).save(file, "PNG")
        files.append(file.getvalue())
    return files


def taught(labels: dict[int, str]) -> str | None:
    """The hash of a model that was taught these photos directly."""
    model = LayUP("vit-nano")
    model.learn([photos()[number] for number in labels], [*labels.values()])
    return model.state_hash


class Labelling:
    """A project of Label Studio, connected to layup, with these photos."""

    def __init__(self, studio: Site, layup: Site, **password: str) -> None:
        self.studio = studio
        self.project = studio.ask("POST", "/api/projects", {"title": "digits", "label_config": CONFIG})["id"]
        address = layup.address if password else layup.address.replace("//", f"//layup:{TOKEN}@")
        backend = f"{address}/label-studio"
        connection = {"url": backend, "project": self.project, "title": "layup", **password}
        self.backend = studio.ask("POST", "/api/ml", connection)
        for number, content in enumerate(photos()):
            self._upload(f"{number}.png", content)
        listed = studio.ask("GET", f"/api/tasks?project={self.project}&fields=all&page_size=100")["tasks"]
        self.tasks = sorted(task["id"] for task in listed)

    def _upload(self, name: str, content: bytes) -> None:
        head = f'--of-parts\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        body = f"{head}Content-Type: image/png\r\n\r\n".encode() + content + b"\r\n--of-parts--\r\n"
        self.studio.ask(
            "POST", f"/api/projects/{self.project}/import", body, "multipart/form-data; boundary=of-parts"
        )

    def annotate(self, number: int, *choices: str) -> int:
        path = f"/api/tasks/{self.tasks[number]}/annotations"
        made: int = self.studio.ask("POST", path, {"result": said(*choices)})["id"]
        return made

    def change_webhook(self, **changes: Any) -> None:
        (hook,) = self.studio.ask("GET", f"/api/webhooks?project={self.project}")
        self.studio.ask("PATCH", f"/api/webhooks/{hook['id']}", changes)

    def predictions(self, number: int) -> list[Any]:
        path = f"/api/tasks/{self.tasks[number]}?project={self.project}"
        found: list[Any] = self.studio.ask("GET", path)["predictions"]
        return found


def said(*choices: str) -> list[Any]:
    value = {"choices": list(choices)}
    return [{"from_name": "kind", "to_name": "photo", "type": "choices", "value": value}] if choices else []


def state(layup: Site) -> str:
    found: str = layup.ask("GET", "/model/info")["state_hash"]
    return found


def test_annotations_are_learned_moved_and_forgotten_exactly(studio: Site, layup: Site) -> None:
    project = Labelling(studio, layup)
    assert project.backend["readable_state"] == "Connected"
    assert project.predictions(5) == []  # a model that knows nothing predicts nothing

    made = [project.annotate(number, label) for number, label in ((0, "0"), (1, "0"), (3, "1"), (4, "0"))]
    assert state(layup) == taught({0: "0", 1: "0", 3: "1", 4: "0"})
    studio.ask("PATCH", f"/api/annotations/{made[3]}", {"result": said("1")})
    assert state(layup) == taught({0: "0", 1: "0", 3: "1", 4: "1"})

    (prediction,) = project.predictions(5)
    assert prediction["result"] == said("1")
    assert 0 < prediction["score"] < 1
    assert prediction["model_version"].startswith("layup ")

    studio.ask("DELETE", f"/api/annotations/{made[1]}")
    assert state(layup) == taught({0: "0", 3: "1", 4: "1"})
    studio.ask("DELETE", f"/api/tasks/{project.tasks[3]}")
    assert state(layup) == taught({0: "0", 4: "1"})

    project.change_webhook(is_active=False)
    project.annotate(2, "0")  # these are not told
    studio.ask("DELETE", f"/api/annotations/{made[0]}")
    assert state(layup) == taught({0: "0", 4: "1"})
    studio.ask("POST", f"/api/ml/{project.backend['id']}/train", {})
    assert state(layup) == taught({2: "0", 4: "1"})


def test_the_task_that_the_model_is_least_sure_of_comes_next(studio: Site, layup: Site) -> None:
    project = Labelling(studio, layup)
    project.annotate(0, "0")
    project.annotate(3, "1")
    everything = {"selectedItems": {"all": True, "excluded": []}}
    studio.ask("POST", f"/api/dm/actions?id=retrieve_tasks_predictions&project={project.project}", everything)
    scores = {project.tasks[number]: project.predictions(number)[-1]["score"] for number in (1, 2, 4, 5)}
    newest = project.predictions(1)[-1]["model_version"]
    order = {"sampling": "Uncertainty sampling", "model_version": newest}
    studio.ask("PATCH", f"/api/projects/{project.project}", order)
    chosen = studio.ask("GET", f"/api/projects/{project.project}/next")["id"]
    assert chosen == min(scores, key=scores.__getitem__)
    assert len({*scores.values()}) == len(scores)


def test_without_the_token_it_is_not_connected(studio: Site, layup: Site) -> None:
    project = studio.ask("POST", "/api/projects", {"title": "locked", "label_config": CONFIG})["id"]
    connection = {"url": f"{layup.address}/label-studio", "project": project, "title": "layup"}
    with pytest.raises(urllib.error.HTTPError) as refused:
        studio.ask("POST", "/api/ml", connection)
    assert "authentication parameters" in refused.value.read().decode()


def test_the_token_as_a_password_serves_all_but_webhooks_which_need_a_header(
    studio: Site, layup: Site
) -> None:
    password = {"auth_method": "BASIC_AUTH", "basic_auth_user": "any", "basic_auth_pass": TOKEN}
    project = Labelling(studio, layup, **password)
    assert project.backend["readable_state"] == "Connected"
    before = state(layup)
    made = project.annotate(2, "1")
    assert state(layup) == before
    project.change_webhook(headers={"Authorization": f"Bearer {TOKEN}"})
    studio.ask("PATCH", f"/api/annotations/{made}", {"result": said("1")})
    assert state(layup) != before
    studio.ask("DELETE", f"/api/annotations/{made}")
