"""The Hugging Face hub on this machine, as far as its own library asks it: repositories of models with files.

Routes, status codes and headers are those that huggingface_hub 2.4 requests and reads (`hf_api.py`,
`_commit_api.py`, `lfs.py`, `file_download.py`, `errors`): they were taken from its code, and not recorded
from the hub, which no test reaches. Large files come by git-LFS; the newer way, Xet, is switched off.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_of_somebody"


@dataclass
class Repository:
    """Files by commit, the newest last."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"0" * 40: {}})

    @property
    def head(self) -> str:
        return [*self.commits][-1]


@dataclass
class Hub:
    """What it holds, and what it was asked."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    objects: dict[str, bytes] = field(default_factory=dict)
    """Large files by their SHA-256."""
    asked: list[str] = field(default_factory=list)
    endpoint: str = ""


def _answer(
    hub: Hub, method: str, path: str, body: bytes, token: str | None
) -> tuple[int, dict[str, str], bytes]:
    """The status, headers and body of an answer."""
    hub.asked.append(f"{method} {path}")
    if path.startswith("/objects/"):
        hub.objects[path.removeprefix("/objects/")] = body
        return 200, {}, b""
    if path == "/api/validate-yaml":
        assert json.loads(body)["content"].startswith("---\n")
        return _json({"errors": [], "warnings": []})
    if method == "POST" and token != TOKEN:
        return _json({"error": "Invalid username or password."}, 401)
    if path == "/api/repos/create":
        asked = json.loads(body)
        name = f"{asked['organization']}/{asked['name']}"
        status = 409 if name in hub.repositories else 200
        hub.repositories.setdefault(
            name, Repository(asked.get("private", False) or asked.get("visibility") == "private")
        )
        return _json({"url": f"{hub.endpoint}/{name}", "name": name}, status)
    if path.endswith(".git/info/lfs/objects/batch"):
        wanted = json.loads(body)["objects"]
        actions = [
            {**each, "actions": {"upload": {"href": f"{hub.endpoint}/objects/{each['oid']}", "header": {}}}}
            for each in wanted
        ]
        return _json({"transfer": "basic", "objects": actions})
    if path.startswith("/api/models/"):
        return _changed(hub, path.removeprefix("/api/models/"), body)
    return _file(hub, path.removeprefix("/"), token)


def _changed(hub: Hub, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
    """Requests about a commit, or about a repository."""
    for verb in ("/preupload/", "/commit/"):
        if verb in path:
            name, _, _ = path.partition(verb)
            break
    else:
        return _json({"id": path.partition("/revision/")[0], "sha": "0" * 40})
    if name not in hub.repositories:
        return _missing("RepoNotFound", 404)
    if verb == "/preupload/":
        files = [
            {"path": each["path"], "uploadMode": "lfs" if each["path"].endswith(".layup") else "regular"}
            for each in json.loads(body)["files"]
        ]
        return _json({"files": [{**each, "shouldIgnore": False} for each in files]})
    repository = hub.repositories[name]
    files_now = dict(repository.commits[repository.head])
    for line in map(json.loads, body.splitlines()):
        value = line["value"]
        if line["key"] == "file":
            files_now[value["path"]] = base64.b64decode(value["content"])
        elif line["key"] == "lfsFile":
            contents = hub.objects[value["oid"]]
            assert hashlib.sha256(contents).hexdigest() == value["oid"]
            files_now[value["path"]] = contents
    commit = hashlib.sha1(repr(sorted(files_now.items())).encode()).hexdigest()
    repository.commits[commit] = files_now
    url = f"{hub.endpoint}/{name}/commit/{commit}"
    return _json({"success": True, "commitOid": commit, "commitUrl": url, "hookOutput": ""})


def _file(hub: Hub, path: str, token: str | None) -> tuple[int, dict[str, str], bytes]:
    """USER/NAME/resolve/REVISION/FILE."""
    name, _, rest = path.partition("/resolve/")
    revision, _, file = rest.partition("/")
    repository = hub.repositories.get(name)
    if repository is None or (repository.private and token != TOKEN):
        return _missing("RepoNotFound", 401 if token is None else 404)
    commit = repository.head if revision == "main" else revision
    if commit not in repository.commits:
        return _missing("RevisionNotFound", 404)
    contents = repository.commits[commit].get(unquote(file))
    if contents is None:
        return 404, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit}, b""
    return 200, {"X-Repo-Commit": commit, "ETag": f'"{hashlib.sha1(contents).hexdigest()}"'}, contents


def _json(value: Any, status: int = 200) -> tuple[int, dict[str, str], bytes]:
    return status, {"Content-Type": "application/json"}, json.dumps(value).encode()


def _missing(code: str, status: int) -> tuple[int, dict[str, str], bytes]:
    return status, {"X-Error-Code": code, "X-Error-Message": "Repository not found"}, b""


@contextmanager
def running() -> Iterator[Hub]:
    """A hub on a port of this machine."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            bearer = self.headers.get("Authorization", "").removeprefix("Bearer ") or None
            status, headers, contents = _answer(hub, self.command, urlsplit(self.path).path, body, bearer)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(contents)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(contents)

        do_GET = do_HEAD = do_POST = do_PUT = answer

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield hub
        finally:
            server.shutdown()
            thread.join(10)
