"""What the API answers fits its description, whatever is asked: never a failure of the server itself."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import schemathesis
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)

from layup import Client
from layup.serving import Hosts, create_app
from servers import client, files, photo, running, service

FEW, MANY = 5, 50
"""Examples of each request: by default, of each mode, and in the slow run."""
CHECKS = [
    not_a_server_error,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
]
"""Not that what fits the description is accepted: bytes may be no image, and a class may be unknown."""
NOBODY = "http://127.0.0.1:1"
"""Where no Label Studio answers."""
REQUESTS = [
    *(
        ("POST", path)
        for path in ("/predict", "/teach", "/forget", "/rename", "/undo", "/explain", "/suggest")
    ),
    *(("GET", path) for path in ("/classes", "/audit", "/model", "/model/info", "/log", "/metrics")),
    *(("GET", f"/v2/health/{word}") for word in ("live", "ready")),
    *(("POST", f"/label-studio/{word}") for word in ("setup", "predict", "webhook")),
    *(("GET", f"/label-studio/{word}") for word in ("health", "metrics")),
]


@pytest.fixture(scope="module")
def described() -> Iterator[Any]:
    """The description of a server that knows two classes."""
    with client(hosts=Hosts.of("testserver"), label_studio=(NOBODY, "a key")) as asking:
        data = {"labels": ["cat", "dog"]}
        asking.post("/teach", files=files(photo(0), photo(1)), data=data).raise_for_status()
        yield schemathesis.openapi.from_asgi("/openapi.json", asking.app)


def test_every_request_is_tried_here(described):
    operations = [each.ok() for each in described.get_all_operations()]
    assert {(each.method.upper(), each.path) for each in operations} == set(REQUESTS)


def try_out(operation: Any, mode: GenerationMode, examples: int) -> int:
    """Send so many requests; how many were."""
    sent = 0

    @hypothesis.settings(max_examples=examples, suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        nonlocal sent
        sent += 1
        case.call_and_validate(checks=CHECKS)

    send()
    return sent


TRIES = [
    pytest.param(method, path, mode, id=f"{method} {path} {mode.value}")
    for method, path in REQUESTS
    for mode in GenerationMode
    if method == "POST" or mode is GenerationMode.POSITIVE  # the others have nothing that could be wrong
]


@pytest.mark.parametrize(("method", "path", "mode"), TRIES)
def test_answers_fit_the_description(described, method, path, mode):
    assert try_out(described[path][method], mode, FEW)


def test_requests_are_called_by_their_paths(described):
    called = described.raw_schema["paths"]["/label-studio/setup"]["post"]["operationId"]
    assert called == "label_studio_setup"


@pytest.mark.slow
def test_all_phases_find_nothing(tmp_path):
    """Examples, coverage, fuzzing, and what follows from answers, as a user of Schemathesis runs them."""
    with (
        service(tmp_path / "m.layup", label_studio=(NOBODY, "a key")) as found,
        running(create_app(found)) as url,
    ):
        Client(url).teach([photo(0), photo(1)], ["cat", "dog"])
        command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json", "--no-color"]
        checks = ",".join(each.__name__ for each in CHECKS)
        options = ["--phases", "examples,coverage,fuzzing,stateful", "-n", str(MANY), "--checks", checks]
        quiet = ["--suppress-health-check", "all", "--generation-database", "none"]
        done = subprocess.run([*command, *options, *quiet], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for phase in ("Examples", "Coverage", "Fuzzing", "Stateful"):
        assert re.search(rf"✅ +{phase}\b", done.stdout), done.stdout
