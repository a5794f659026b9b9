"""The surface of Keep: requests of clients of graveler and of Arvados, and of the data manager."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hmac import compare_digest
from io import BytesIO
from itertools import chain
from typing import Any

from graveler.errors import (
    ConflictError,
    CorruptionError,
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    RetryableError,
    StateError,
    StorageFullError,
)
from graveler.iam.access import STRANGER, Access, Identity
from graveler.keep.locators import EMPTY, Locator
from graveler.keep.signatures import Fault, Signer
from graveler.keep.store import BlockStore
from graveler.keep.transfers import TooLargeError
from graveler.keep.workers import PullList, TrashList
from graveler.server.keep import lists
from graveler.server.keep.blocks import BlockDownload, Length, PacedBody, part_of
from graveler.server.messages import Answer, HttpError, Request, refuse_web_pages
from graveler.server.tokens import TokenCheck

_TOKEN = re.compile(r"(?i:bearer|oauth2) +(\S+)")
_LOCATOR = re.compile(r"/{1,2}([0-9a-f]{32}[^/]*)")
_INDEX = re.compile(r"/index(?:/([0-9a-f]{0,32}))?")
_BLOCKS = re.compile(r"/mounts/([a-z0-9]{5}-nyw5e-[a-z0-9]{15})/blocks/?([0-9a-f]{0,32})")
_PREFIX = re.compile(r"[0-9a-f]{0,32}")
_OF_BLOCK = re.compile(r"/(touch|untrash)/([0-9a-f]{32}[^/]*)")
_LINES = 1_000
_NO_BODY = BytesIO()
_PING = "/_health/ping"
READ, WRITE, MANAGE = "keep:read", "keep:write", "keep:manage"
TOO_RECENT = StateError
"""What the store raises for a block that is too young to be deleted."""

_STATUSES: tuple[tuple[type[GravelerError], int], ...] = (
    (TooLargeError, 413),
    (ObjectNotFoundError, 404),
    (InvalidInputError, 400),
    (PermissionDeniedError, 403),
    (TOO_RECENT, 422),
    (CorruptionError, 502),
    (StorageFullError, 507),
    (RetryableError, 503),  # clients of Arvados repeat after 503, and give up after 429
    (ConflictError, 500),  # two blocks of one hash
)
_METRICS = "graveler_keep"
MANAGER = Identity("the data manager", admin=True)
"""The holder of the token that the servers of a system and its data manager share."""


@dataclass(frozen=True)
class Terms:
    """How a server answers.

    Attributes:
        token: What the data manager and the servers of the system show.
        access: The users of the lake, who need ``keep:read``, ``keep:write`` or ``keep:manage``.
        verifies: Whether each read verifies the block, and not only a read that asks for it.
        compat: Whether answers are those of today's keepstore where it differs from the design of
            2014: a write needs no token, and the deletion of a young block does nothing.
    """

    token: str
    access: Access
    signer: Signer
    verifies: bool = True
    compat: bool = False


class Keep:
    """The surface of one block store."""

    prefix = ""
    grants: tuple[str, ...] = ()
    methods = frozenset({"GET", "HEAD", "PUT", "POST", "DELETE", "TOUCH", "OPTIONS"})
    accept = staticmethod(refuse_web_pages)

    def __init__(self, store: BlockStore, trash: TrashList, pulls: PullList, terms: Terms) -> None:
        self._store = store
        self._trash = trash
        self._pulls = pulls
        self._terms = terms
        self._signer = terms.signer
        self._compat = terms.compat
        self._documents: dict[str, Callable[[], Any]] = {
            "/mounts": store.mounts,
            "/state.json": self._state,
            "/status.json": self._state,
        }

    def identify(self, request: Request, check: TokenCheck) -> Identity | None:
        """Return who sends a request; no token is needed to look whether the server is up."""
        if request.method == "OPTIONS" or request.target == _PING:
            return STRANGER
        token = token_of(request)
        if compare_digest(token.encode("utf-8", "replace"), self._terms.token.encode()):
            return MANAGER
        if (
            not token
            and self._compat
            and request.method == "PUT"
            and _LOCATOR.fullmatch(request.path)
        ):
            return STRANGER
        return check.identify({}, f"Bearer {token}")

    def answer(self, request: Request) -> Answer:
        """Carry out a request."""
        method, path = request.method, request.path
        if method == "OPTIONS" or path == _PING:
            return Answer.json({"health": "OK"}) if method == "GET" else Answer()
        if found := _LOCATOR.fullmatch(path):
            work = {
                "GET": self._get,
                "HEAD": self._head,
                "PUT": self._put,
                "DELETE": self._delete,
                "TOUCH": self._touch,
            }.get(method)
            if work is not None and (method in {"GET", "HEAD"} or not path.startswith("//")):
                return work(request, Locator.parse(found[1]))
        elif found := _OF_BLOCK.fullmatch(path):
            work = {("POST", "touch"): self._touch, ("PUT", "untrash"): self._untrash}.get(
                (method, found[1])
            )
            if work is not None:
                return work(request, Locator.parse(found[2]))
        elif method == "POST" and path == "/have":
            return self._have(request)
        else:
            self._require(request, MANAGE)
            if method == "GET":
                return self._documented(request, path)
            if method == "PUT" and path in {"/pull", "/trash"}:
                return self._replace(request, path)
        raise HttpError(400, f"{method} {path[:80]!r} is not a request of Keep")

    def failure(self, error: HttpError | GravelerError) -> Answer:
        """Return the answer to a request that failed."""
        return _failure(error)

    def _require(self, request: Request, action: str) -> None:
        if request.identity is not MANAGER:
            self._terms.access.check(request.identity, action)

    def _get(self, request: Request, locator: Locator) -> Answer:
        self._may_read(request, locator)
        if locator.size is None and locator.digest != EMPTY.digest:
            raise HttpError(405, "a block is read by its hash and size: /hash+size")
        block = self._store.get(locator, verify=self._verifies(request))
        try:
            part = part_of(request.headers.get("range", ""), block.size)
        except HttpError:
            block.close()
            raise
        headers = {"Content-Type": "application/octet-stream"}
        if part is None:
            return Answer(headers=headers, download=BlockDownload(block, 0, block.size))
        start, length = part
        headers["Content-Range"] = f"bytes {start}-{start + length - 1}/{block.size}"
        return Answer(206, headers=headers, download=BlockDownload(block, start, length))

    def _head(self, request: Request, locator: Locator) -> Answer:
        self._may_read(request, locator)
        size = self._store.size(locator, verify=self._verifies(request))
        return Answer(download=Length(size))

    def _may_read(self, request: Request, locator: Locator) -> None:
        """Refuse a reader without the right, or without a signature for its token."""
        self._require(request, READ)
        token = token_of(request)
        if request.identity is MANAGER or locator.digest == EMPTY.digest:
            return
        fault = self._signer.fault(locator, token, self._store.clock.now().timestamp())
        if fault is not None:
            status = 401 if fault is Fault.EXPIRED else 400 if self._compat else 403
            raise HttpError(status, f"the signature of the locator is {fault}")

    def _verifies(self, request: Request) -> bool:
        return self._terms.verifies or request.flag("checksum", default=False)

    def _put(self, request: Request, locator: Locator) -> Answer:
        self._may_write(request)
        stated = request.headers.get("content-length")
        size = None if stated is None else int(stated)
        if not self._compat and locator.size is not None and size not in {None, locator.size}:
            raise HttpError(400, f"the body has {size} bytes, and the locator says {locator.size}")
        classes = request.headers.get("x-keep-storage-classes", "")
        put = self._store.put(
            locator.digest,
            PacedBody(request.body or _NO_BODY),
            size,
            classes=[each for name in classes.split(",") if (each := name.strip())],
        )
        self._may_write(request)  # also after the time that the body took
        expiry = int(self._store.clock.now().timestamp()) + self._signer.ttl
        confirmed = ", ".join(f"{name}={count}" for name, count in sorted(put.classes.items()))
        headers = {
            "X-Keep-Replicas-Stored": str(put.replicas),
            "X-Keep-Storage-Classes-Confirmed": confirmed,
            "X-Graveler-Volumes": ", ".join(put.volumes),
        }
        signed = self._signer.sign(put.locator, token_of(request), expiry)
        return Answer(content=f"{signed}\n".encode(), headers=headers)

    def _may_write(self, request: Request) -> None:
        if token_of(request) or not self._compat:
            self._require(request, WRITE)

    def _delete(self, request: Request, locator: Locator) -> Answer:
        self._require(request, MANAGE)
        try:
            deleted = self._store.delete(locator.digest)
        except TOO_RECENT:
            if self._compat:
                return Answer()
            raise
        copies = {
            "copies_deleted": deleted.copies_deleted,
            "copies_not_deleted": deleted.copies_not_deleted,
        }
        return Answer.json(copies)

    def _touch(self, request: Request, locator: Locator) -> Answer:
        self._require(request, MANAGE)
        self._store.touch(locator.digest)
        return Answer()

    def _untrash(self, request: Request, locator: Locator) -> Answer:
        self._require(request, MANAGE)
        volumes = self._store.untrash(locator.digest)
        return Answer(content=f"untrashed on {', '.join(volumes)}\n".encode())

    def _have(self, request: Request) -> Answer:
        """Answer which of many blocks are missing, and keep the others for another time to live."""
        self._require(request, WRITE)
        digests, touch = lists.have(request.body)
        missing = self._store.have(digests, touch=touch)
        return Answer.json({"missing": missing, "volumes": list(self._store.volumes)})

    def _documented(self, request: Request, path: str) -> Answer:
        if path in self._documents:
            return Answer.json(self._documents[path]())
        if path == "/metrics":
            return Answer(content=_metrics(self._store.state()).encode())
        if found := _INDEX.fullmatch(path):
            prefix = found[1] or request.query.get("prefix", "")
            return self._index(prefix, "")
        if found := _BLOCKS.fullmatch(path):
            return self._index(found[2] or request.query.get("prefix", ""), found[1])
        raise HttpError(400, f"GET {path[:80]!r} is not a request of Keep")

    def _index(self, prefix: str, volume: str) -> Answer:
        if not _PREFIX.fullmatch(prefix):
            raise HttpError(400, f"prefix {prefix[:40]!r}: give up to 32 of 0-9, a-f")
        if volume:
            self._store.volume(volume)
        pieces = _pieces(self._store.index(prefix, volume))
        return Answer(
            pieces=chain([next(pieces)], pieces)
        )  # a lost disk is an error before the answer

    def _replace(self, request: Request, path: str) -> Answer:
        found = lists.document(request.body)
        if path == "/pull":
            self._pulls.replace(lists.pulls(found))
        else:
            self._trash.replace(*lists.trash(found))
        return Answer()

    def _state(self) -> dict[str, Any]:
        done = {"trash": self._trash.receipt(), "pull": self._pulls.receipt()}
        lists_done = {name: receipt._asdict() for name, receipt in done.items()}
        return {**self._store.state(), "lists": lists_done}


def token_of(request: Request) -> str:
    """Return the token that a request shows, or ""."""
    found = _TOKEN.fullmatch(request.headers.get("authorization", ""))
    return found[1] if found else request.query.get("api_token", "")


def _pieces(lines: Iterator[str]) -> Iterator[bytes]:
    """Yield lines of an index in pieces, and the empty line that says that it is complete."""
    some: list[str] = []
    for line in lines:
        some.append(f"{line}\n")
        if len(some) == _LINES:
            yield "".join(some).encode()
            some.clear()
    yield "".join([*some, "\n"]).encode()


def _failure(error: HttpError | GravelerError) -> Answer:
    """Return the answer to a request that failed: a status, and the error as text."""
    if isinstance(error, HttpError):
        status = error.status
    else:
        status = next((code for kind, code in _STATUSES if isinstance(error, kind)), 500)
    return Answer(status, f"{error}\n".encode("utf-8", "replace"))


def _metrics(state: Mapping[str, Any]) -> str:
    """Return the numbers of a state document; those of a volume have its UUID as a label."""
    rows = {f"buffers_{name}": value for name, value in state["buffers"].items()}
    for volume in state["volumes"]:
        label = f'{{volume="{volume["uuid"]}"}}'
        names = {"free": "free_bytes", "total": "total_bytes", "set_aside": "set_aside"}
        rows |= {f"{names[name]}{label}": volume[name] for name in names if name in volume}
        rows |= {f"{name}{label}": value for name, value in volume["counters"].items()}
    return "".join(f"{_METRICS}_{name} {value}\n" for name, value in rows.items())
