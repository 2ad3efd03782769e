"""Who may ask what: tokens, and which hosts and pages a request may come by.

A page on another host could make a visitor's browser send requests to a server on the visitor's own machine,
directly or after its name has changed its address (DNS rebinding). So the host that a request names must be
one that is served, and a page must come from it.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers

from layup.errors import InputError
from layup.formats import brief
from layup.serving.refusals import RequestError

LOCAL = ("localhost", "127.0.0.1", "::1")
"""Names of this machine that no other one has."""
EVERYWHERE = ("0.0.0.0", "::", "")
"""Addresses to listen at that stand for all of this machine's."""
LONGEST = 1000
"""Letters of a token."""
BASIC = "/label-studio/"
"""Below this path, the token may also come as a password: Label Studio knows no other way to send one."""

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' blob: data:",
    "media-src": "'self' blob:",
    "connect-src": "'self'",
    "manifest-src": "'self'",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
"""What the page may load: nothing that is not from here, and nothing that is written into it."""
HEADERS = {
    "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in POLICY.items()),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Of every answer."""


@dataclass(frozen=True)
class Tokens:
    """What a request must know: one token allows everything, another only reading. None: nothing is asked."""

    full: str | None = None
    read: str | None = None

    def __post_init__(self) -> None:
        for token, name in ((self.full, "token"), (self.read, "read_token")):
            if token is not None and not (
                0 < len(token) <= LONGEST and token.isascii() and token.isprintable()
            ):
                raise InputError(
                    f"A token must have 1 to {LONGEST:,} letters, digits and marks of ASCII. "
                    "Choose another one.",
                    about=name,
                )
        if self.read is not None and self.full is None:
            raise InputError(
                "There is a token for reading, but none for teaching: everybody could teach. Give both.",
                about="token",
            )

    def require_full(self, headers: Headers, path: str) -> None:
        """Refuse a request without the full token, if there is one."""
        if self.allow_all(headers, path):
            return
        given = given_token(headers, path)
        if same(given, self.read):
            raise RequestError(
                403, "read-only-token", "This token only allows reading. Give the one that allows everything."
            )
        self._refuse(given)

    def allow_all(self, headers: Headers, path: str) -> bool:
        """Whether a request may do everything."""
        return self.full is None or same(given_token(headers, path), self.full)

    def require_read(self, headers: Headers, path: str) -> None:
        """Refuse a request without one of the tokens, if there is one."""
        if self.full is None:
            return
        given = given_token(headers, path)
        # Both are compared, always, so that the time tells nothing.
        if not same(given, self.full) | same(given, self.read):
            self._refuse(given)

    def _refuse(self, given: str | None) -> None:
        said = "This server asks for a token." if given is None else "This is not a token of this server."
        raise RequestError(
            401,
            "token",
            f"{said} Send the header 'Authorization: Bearer TOKEN'.",
            {"WWW-Authenticate": 'Bearer realm="layup"'},
        )


def same(given: str | None, token: str | None) -> bool:
    """Whether two tokens are the same, in a time that does not tell how much of them is.

    >>> same("a", "a"), same("é", "a"), same(None, None)
    (True, False, False)
    """
    if given is None or token is None:
        return False
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def given_token(headers: Headers, path: str) -> str | None:
    """The token that a request brings.

    >>> given_token(Headers({"Authorization": "Bearer abc"}), "/predict")
    'abc'
    """
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() == "bearer":
        return value.strip()
    if kind.lower() == "basic" and path.startswith(BASIC):
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, ValueError):
            return None
    return None


@dataclass(frozen=True)
class Hosts:
    """The names by which a server may be asked.

    >>> hosts = Hosts.of("127.0.0.1", ["photos.example"])
    >>> [hosts.served(name) for name in ("localhost:8000", "photos.example", "evil.example", "[::1]:1", "")]
    [True, True, False, True, False]
    """

    names: frozenset[str]
    addresses: bool = False
    """Whether every address will do: a page that has an address for a name cannot have changed it."""

    @classmethod
    def of(cls, bound: str, allowed: Iterable[str] = ()) -> Hosts:
        """Those of a server that listens at `bound`, and others by which it is known."""
        names = {name.lower().strip("[]") for name in (*LOCAL, bound, *allowed)}
        return cls(frozenset(names - {*EVERYWHERE}), bound in EVERYWHERE)

    def served(self, host: str) -> bool:
        """Whether the header Host names this server, at whatever port."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        return name in self.names or (self.addresses and _is_address(name))

    def require(self, headers: Headers, method: str, path: str) -> None:
        """Refuse a request that names another host, or that another page has sent."""
        host = headers.get("host", "")
        if not self.served(host):
            raise RequestError(
                403,
                "wrong-host",
                f"This server is not known as {brief(host, 100)!r}, which the request names as its host. Use "
                "the address that it printed, or start it with this name as an allowed host.",
            )
        origin = headers.get("origin")
        other = origin is not None and not _same_origin(origin, host)
        shown = method == "GET" and path == "/"
        if other or (headers.get("sec-fetch-site") == "cross-site" and not shown):
            page = "another site" if origin is None else brief(origin, 100)
            raise RequestError(
                403,
                "wrong-origin",
                f"This request comes from a page of {page}. Only pages of this server may send requests.",
            )


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _same_origin(origin: str, host: str) -> bool:
    """Whether a page's origin is the host that it asks; a proxy may have taken https away."""
    scheme, separator, name = origin.lower().partition("://")
    return bool(separator) and scheme in ("http", "https") and name == host.lower()


def require_token(host: str, tokens: Tokens) -> None:
    """Refuse to listen where others can ask, if everybody may teach."""
    if host not in LOCAL and tokens.full is None:
        raise InputError(
            f"At {host!r}, other machines can reach this server, so it needs a token: without one everybody "
            "could teach it, and download it. Give one, or listen at 127.0.0.1.",
            about="token",
        )
