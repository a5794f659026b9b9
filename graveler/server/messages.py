"""Requests and answers as surfaces see them."""

import json
import re
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote

from graveler.errors import GravelerError
from graveler.iam.access import STRANGER, Identity
from graveler.server.tokens import TokenCheck

Piece = bytes | memoryview
_MOST_PARAMETERS = 64
_NO_PAGE = frozenset({"", "none"})
_BROKEN_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")


class HttpError(Exception):
    """A request that is refused."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class ClientGoneError(ConnectionError):
    """The connection ended before the request did."""


class Body(Protocol):
    """The body of a request, which can be read once."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes; none at the end."""

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill at most this memory; return with how many bytes, 0 at the end."""


class Download(Protocol):
    """The body of an answer that is sent from an open file; it is sent or closed once.

    Attributes:
        length: Its size in bytes.
    """

    length: int

    def send(self, connection: socket.socket, write: Callable[[Piece], None], /) -> None:
        """Send the bytes by the socket, or by what writes to it, and close the file."""

    def close(self) -> None:
        """Close the file without sending it."""


@dataclass(frozen=True)
class Request:
    """A request.

    Attributes:
        identity: Who sent it, as the application has found.
    """

    method: str
    target: str
    headers: Mapping[str, str]
    body: Body | None
    identity: Identity = STRANGER

    @cached_property
    def query(self) -> Mapping[str, str]:
        """The parameters by lower-case name."""
        try:
            pairs = parse_qsl(
                self.target.partition("?")[2],
                keep_blank_values=True,
                errors="strict",
                max_num_fields=_MOST_PARAMETERS,
            )
        except ValueError as error:
            raise HttpError(400, f"the address cannot be read: {error}") from None
        query = {name.lower(): value for name, value in pairs}
        if doubled := [name for name, value in pairs if query[name.lower()] != value]:
            raise HttpError(400, f"the parameter {doubled[0]!r} comes twice")
        return query

    @property
    def path(self) -> str:
        """The decoded path."""
        path = self.target.partition("?")[0]
        if _BROKEN_PERCENT.search(path):
            raise HttpError(400, "a percent sign in the path is not followed by two digits")
        try:
            return unquote(path, errors="strict")
        except ValueError as error:
            raise HttpError(400, f"the address cannot be read: {error}") from None

    @property
    def address(self) -> str:
        """The address to which the client can send the request again, by its proxy if it has one."""
        scheme = "https" if self.headers.get("x-forwarded-proto") == "https" else "http"
        return f"{scheme}://{self.headers['host']}{self.target}"

    def text(self, name: str) -> str:
        """Return a parameter."""
        value = self.query.get(name, "")
        if not value:
            raise HttpError(400, f"the parameter {name!r} is missing")
        return value

    def number(self, name: str, default: int) -> int:
        """Return a parameter that is a number of 0 or more."""
        value = self.query.get(name, "")
        if not value or value == "null":
            return default
        if not (value.isascii() and value.isdecimal() and len(value) < 20):
            raise HttpError(400, f"{name}={value!r}: give a whole number from 0 on")
        return int(value)

    def flag(self, name: str, default: bool) -> bool:
        """Return a parameter that is true or false."""
        value = self.query.get(name, "").lower()
        if value not in {"", "true", "false"}:
            raise HttpError(400, f"{name}={value!r}: give true or false")
        return value == "true" if value else default


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request.

    Attributes:
        download: The body, if it is in a file.
        pieces: The body, if its length is not known; no piece is empty. An error ends the connection.
    """

    status: int = 200
    content: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    reason: str = ""
    download: Download | None = None
    pieces: Iterable[bytes] | None = None

    @classmethod
    def json(cls, document: Any, status: int = 200, reason: str = "") -> "Answer":
        """Return an answer whose body is a JSON document."""
        # no Content-Type: Spark's client lacks a class that reads it
        return cls(status, json.dumps(document).encode(), reason=reason)


class Surface(Protocol):
    """A protocol of the server.

    Attributes:
        grants: The paths where its clients exchange a secret for a token by OAuth 2.
    """

    prefix: str
    grants: tuple[str, ...]
    methods: frozenset[str]

    def accept(self, request: Request, /) -> None:
        """Refuse a request before anything of it is looked at, as `refuse_web_pages` does."""

    def identify(self, request: Request, check: TokenCheck, /) -> Identity | None:
        """Return who sends a request; None if it may not be answered."""

    def answer(self, request: Request, /) -> Answer:
        """Carry out a request whose client may send it."""

    def failure(self, error: HttpError | GravelerError, /) -> Answer:
        """Return the answer to a request that failed."""


def refuse_web_pages(request: Request) -> None:
    """Refuse a request that a web page causes in the browser of a reader."""
    if "origin" in request.headers or request.headers.get("sec-fetch-site", "") not in _NO_PAGE:
        raise HttpError(403, "the server does not answer requests of web pages")
