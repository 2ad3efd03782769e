"""Who may ask what."""

from __future__ import annotations

import asyncio

import pytest
from starlette.datastructures import Headers

from layup.errors import InputError
from layup.serving.guard import Hosts, Tokens, require_token
from layup.serving.refusals import RequestError
from servers import client, files, photo

TOKENS = Tokens("full", "read")
READING = [
    ("GET", "/classes"),
    ("GET", "/audit"),
    ("GET", "/model/info"),
    ("GET", "/log"),
    ("GET", "/metrics"),
    ("POST", "/predict"),
    ("POST", "/explain"),
    ("POST", "/suggest"),
]
CHANGING = [
    ("POST", "/teach"),
    ("POST", "/forget"),
    ("POST", "/rename"),
    ("POST", "/undo"),
    ("GET", "/model"),
]
OPEN = ["/v2/health/live", "/v2/health/ready", "/openapi.json"]


@pytest.fixture(scope="module")
def guarded():
    with client(tokens=TOKENS) as found:
        yield found


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize(("method", "path"), [*READING, *CHANGING])
def test_without_a_token_nothing_is_told_or_done(guarded, method, path):
    for headers in ({}, bearer("wrong"), bearer(""), bearer("fullread"), {"Authorization": "Basic OmZ1bGw="}):
        answer = guarded.request(method, path, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "token")
        assert answer.headers["www-authenticate"].startswith("Bearer")


@pytest.mark.parametrize(("method", "path"), CHANGING)
def test_a_token_for_reading_changes_nothing(guarded, method, path):
    answer = guarded.request(method, path, headers=bearer("read"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "read-only-token")


@pytest.mark.parametrize(("method", "path"), [*READING, *CHANGING])
def test_the_right_token_is_let_in(guarded, method, path):
    tokens = ["full"] if (method, path) in CHANGING else ["full", "read"]
    for token in tokens:
        assert guarded.request(method, path, headers=bearer(token)).status_code not in (401, 403)


def test_every_path_of_the_description_is_tried_here(guarded):
    described = {
        (method.upper(), path)
        for path, methods in guarded.get("/openapi.json").json()["paths"].items()
        for method in methods
    }
    ours = {(method, path) for method, path in described if not path.startswith("/label-studio/")}
    assert ours == {*READING, *CHANGING, *(("GET", path) for path in OPEN[:2])}


@pytest.mark.parametrize(("method", "path"), [*READING, *CHANGING])
def test_no_byte_of_a_query_gets_past_a_token(guarded, method, path):
    sent = []

    async def receive():
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "method": method, "path": path, "query_string": b"\xff=\xfe", "scheme": "http"}
    scope |= {"headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1), "root_path": ""}
    asyncio.run(guarded.app(scope, receive, send))
    assert sent[0]["status"] == 401


@pytest.mark.parametrize("path", OPEN)
def test_what_says_nothing_about_photos_is_open(guarded, path):
    assert guarded.get(path).status_code == 200


def test_the_password_of_label_studio_is_a_token_below_its_path_alone():
    basic = Headers({"Authorization": "Basic YW55Om15OmZ1bGw="})  # any:my:full
    Tokens("my:full").require_full(basic, "/label-studio/predict")
    with pytest.raises(RequestError, match="asks for a token"):
        Tokens("my:full").require_full(basic, "/predict")


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("127.0.0.1", True),
        ("127.0.0.1:8000", True),
        ("LOCALHOST:1", True),
        ("[::1]:8000", True),
        ("photos.example", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example", False),
        ("localhost@evil.example", False),
        ("192.168.1.5", False),
        ("", False),
        ("[", False),
    ],
)
def test_only_hosts_that_are_served_are_answered(host, allowed):
    assert Hosts.of("127.0.0.1", ["Photos.example"]).served(host) is allowed


def test_a_server_of_all_addresses_is_asked_by_any_address_but_no_name():
    hosts = Hosts.of("0.0.0.0")
    assert hosts.served("192.168.1.5:8000")
    assert hosts.served("[fe80::1]:8000")
    assert not hosts.served("rebound.example")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:81"},
        {"Origin": "file://127.0.0.1"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_other_sites_can_neither_read_nor_teach(headers):
    with client() as open_client:
        for method, path in (*READING, *CHANGING):
            answer = open_client.request(method, path, headers=headers)
            assert answer.status_code == 403
        taught = open_client.post("/teach", files=files(photo(0)), data={"label": "a"}, headers=headers)
        assert taught.status_code == 403
        named = headers.get("Host") or headers.get("Origin") or "another site"
        assert named in taught.json()["error"]["message"]
        assert open_client.get("/classes").json()["classes"] == []


@pytest.mark.parametrize("origin", ["http://127.0.0.1", "https://127.0.0.1"])
def test_the_page_itself_may_teach(origin):
    with client() as open_client:
        headers = {"Origin": origin, "Sec-Fetch-Site": "same-origin"}
        answer = open_client.post("/teach", files=files(photo(0)), data={"label": "a"}, headers=headers)
        assert answer.status_code == 200


def test_a_link_from_elsewhere_leads_to_the_page():
    with client() as open_client:
        answer = open_client.get("/", headers={"Sec-Fetch-Site": "cross-site"})
        assert answer.status_code != 403


@pytest.mark.parametrize("path", ["/", "/classes", "/nothing", "/openapi.json", "/v2/health/live"])
def test_every_answer_has_the_headers_that_keep_pages_apart(guarded, path):
    headers = guarded.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] in ("no-store", "no-cache")
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "photos.example"])
def test_where_others_can_ask_a_token_is_needed(host):
    with pytest.raises(InputError, match="needs a token") as refused:
        require_token(host, Tokens())
    assert refused.value.about == "token"
    require_token(host, Tokens("secret"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_on_this_machine_alone_none_is_needed(host):
    require_token(host, Tokens())


def test_tokens_that_cannot_protect_are_refused():
    with pytest.raises(InputError, match="everybody could teach"):
        Tokens(None, "read")
    for token in ("", "schlüssel", "two\nlines", "x" * 1001):
        with pytest.raises(InputError, match="A token must have"):
            Tokens(token)
