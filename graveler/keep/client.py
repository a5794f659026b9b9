"""The client of Keep: blocks on as many servers as wanted, read from any of them.

A block's servers are tried in an order that only the block and the servers' ids decide. An answer
that may be better later is asked for again, for a bounded time. All requests may be repeated.
"""

import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

from graveler.base.background import Threads, batches
from graveler.base.clock import Clock, IdSource
from graveler.base.parallel import Bounds, in_order
from graveler.base.retries import NO_PROGRESS_S, Attempts, Retrier
from graveler.errors import (
    BackendUnavailableError,
    ConflictError,
    CorruptionError,
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageFullError,
)
from graveler.keep.cache import BlockCache
from graveler.keep.locators import BLOCK_BYTES, EMPTY, Locator
from graveler.keep.placement import Copies, servers_for
from graveler.keep.signatures import Signer
from graveler.keep.transport import Answer, Content, Request, Server, Transport

_ALL = 200
_OK = frozenset({_ALL, 206})
_GONE = frozenset({404, 410})
_NO_RIGHT = frozenset({401, 403})
_REFUSED = frozenset({400, 405, 411, 413, 416, 422})
_LATER = frozenset({408, 409, 423, 429})
_FULL = 507
_SERVER_ERROR = 500
_COLLISION = "collision"
_COUNT = re.compile(r"[0-9]{1,9}")
_NO_ANSWER = 504
_DAMAGED = 0
_ASKED_AT_ONCE = 5_000
_HAVE_BYTES = 1 << 20
_MOST_ASKED = 8
_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class _Said(NamedTuple):
    """The last answer of a server in a call.

    Attributes:
        again: Whether the same request may succeed later.
    """

    status: int
    text: str
    again: bool


@dataclass
class _Call:
    """What the servers said in one call, by their addresses."""

    what: str
    reads: bool
    id: str
    said: dict[str, _Said] = field(default_factory=dict)
    damaged: set[str] = field(default_factory=set)

    def asks(self, server: Server) -> bool:
        """Return whether a server has not said its last word."""
        said = self.said.get(server.url)
        return said is None or said.again

    @property
    def is_open(self) -> bool:
        """Whether any server may answer otherwise later."""
        return any(said.again for said in self.said.values())

    @property
    def collides(self) -> bool:
        """Whether a server has other bytes of the same MD5."""
        return any(
            said.status == _SERVER_ERROR and _COLLISION in said.text.lower()
            for said in self.said.values()
        )

    def note(self, server: Server, status: int, text: str) -> None:
        """Note what a server said."""
        again = status in _LATER or (status >= _SERVER_ERROR and status != _FULL)
        self.said[server.url] = _Said(status, text, again)

    def note_damage(self, server: Server, text: str) -> None:
        """Note that an answer was not what was asked for. A reader asks once more."""
        _log.warning("%s: %s %s", self.what, server.url, text)
        again = self.reads and server.url not in self.damaged
        self.damaged.add(server.url)
        self.said[server.url] = _Said(_DAMAGED, text, again)

    def error(self, done: str = "") -> GravelerError:
        """Return the error of what all servers said."""
        said = "; ".join(f"{url}: {each.text}" for url, each in sorted(self.said.items()))
        heard = {each.status for each in self.said.values()}
        found = heard - _OK
        way = "" if found else "; add servers (`graveler keep servers add`), and repeat"
        message = f"{self.what}{done}: {said or 'there is no server for it'}{way}"
        if self.is_open or not found:
            return BackendUnavailableError(message)
        if self.reads and found <= _GONE:
            return ObjectNotFoundError(message)
        if self.reads and _DAMAGED in found:
            return CorruptionError(message)
        if _FULL in found:
            return StorageFullError(message)
        if not found.isdisjoint(_NO_RIGHT):
            return PermissionDeniedError(message)
        return (InvalidInputError if heard <= _REFUSED else BackendUnavailableError)(message)


class KeepClient:
    """Stores and reads blocks. Threads share it, and a forked child may use it.

    Args:
        servers: Returns the servers of now. It is called for each try.
        replication: The copies of each block that are wanted.
        signer: Signs the locators of blocks that are read, in place of the servers.
        tls_ca: The certificates that sign those of the servers, as PEM; "" for those of the machine.
        limit_s: Seconds without progress after which a call ends.
    """

    def __init__(
        self,
        servers: Callable[[], Iterable[Server]],
        token: str = "",
        *,
        clock: Clock,
        ids: IdSource,
        replication: int = 2,
        cache: BlockCache | None = None,
        signer: Signer | None = None,
        tls_ca: str = "",
        limit_s: float = NO_PROGRESS_S,
    ) -> None:
        self.replication = replication
        self.cache = BlockCache() if cache is None else cache
        self.damaged = 0
        self._servers = servers
        self._copies: dict[str, int] = {}  # that a server made of the last block
        self._token = token
        self._clock = clock
        self._ids = ids
        self._signer = signer
        self._retrier = Retrier(clock, ids, limit_s=limit_s)
        self._transport = Transport(
            token, clock=clock, silence_s=self._retrier.try_s, tls_ca=tls_ca
        )

    def close(self) -> None:
        """Close the connections. The client may still be used."""
        self._transport.close()

    def put(
        self, content: Content, *, replicas: int | None = None, classes: Collection[str] = ()
    ) -> Locator:
        """Store a block. On return, at least so many copies of it are durable.

        Args:
            classes: Storage classes, each of which gets so many copies.

        Returns:
            The locator, with the signature that a server gave.

        Raises:
            ConflictError: A server has other bytes of the same MD5.
            StorageFullError: Too few servers have room.
            BackendUnavailableError: Too few servers stored it. The message has all answers.
        """
        content = memoryview(content).cast("B")
        wanted = self.replication if replicas is None else replicas
        if wanted < 1 or len(content) > BLOCK_BYTES:
            raise InvalidInputError(
                f"{wanted} copies of {len(content)} bytes: give 1 or more of at most {BLOCK_BYTES}"
            )
        if not content:
            return EMPTY
        copies = Copies(wanted, frozenset(classes), Locator.of(content))
        call = self._call(f"store block {copies.locator.digest}", reads=False)
        attempts = self._retrier.attempts(call.what)
        while True:
            self._store(content, copies, call)
            if call.collides:
                attempts.succeeded()  # the servers did answer
                raise ConflictError(
                    f"{call.error(str(copies))}; other bytes have this MD5, so the block is not stored, "
                    "and the copies of this put go after their time to live: change the content"
                )
            if not copies.missing:
                attempts.succeeded()
                return copies.locator
            _again(call, attempts, str(copies))

    def _store(self, content: memoryview, copies: Copies, call: _Call) -> None:
        """Ask each server once, at a time as many as probably store the copies that are missing."""
        left = [
            server
            for server in self._ordered(copies.locator)
            if call.asks(server)
            and not server.read_only
            and not (
                copies.classes and server.classes and copies.classes.isdisjoint(server.classes)
            )
        ]
        pending: dict[Future[Answer | None], Server] = {}
        with Threads(max(1, min(copies.missing, len(left)))) as pool:
            while True:
                while (
                    left
                    and not call.collides
                    and sum(map(self._coming, pending.values())) < copies.missing
                ):
                    server = left.pop(0)
                    headers = {"X-Keep-Desired-Replicas": f"{copies.wanted}"}
                    if names := copies.missing_classes:
                        headers["X-Keep-Storage-Classes"] = ", ".join(names)
                    request = Request("PUT", f"/{copies.locator.digest}", headers, content)
                    pending[pool.submit(self._sent, call, server, request)] = server
                if not pending:
                    return
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    server = pending.pop(future)
                    before, answer = copies.total, future.result()
                    if answer is not None and (fault := copies.add(answer)):
                        call.note_damage(server, fault)
                    self._copies[server.url] = max(1, copies.total - before)

    def _coming(self, server: Server) -> int:
        return self._copies.get(server.url, 1)

    def get(self, locator: Locator) -> bytes:
        """Return a block, which is verified.

        Raises:
            ObjectNotFoundError: No server has it.
            CorruptionError: All copies are damaged.
            PermissionDeniedError: The signature is missing or expired, or the token is refused.
            BackendUnavailableError: A server that may have it did not answer.
        """
        if (locator.digest, locator.size) == (EMPTY.digest, EMPTY.size):
            return b""
        return self.cache.get(locator, lambda: self._fetched(locator))

    def _fetched(self, locator: Locator) -> bytes:
        return self._asked("GET", locator, lambda answer: _whole(answer, locator))

    def read(self, locator: Locator, offset: int, size: int, *, verify: bool = True) -> bytes:
        """Return a part of a block.

        Args:
            verify: Whether the whole block is read, verified and cached. Otherwise only the part is
                read, and damage is not noticed here.
        """
        if not 0 <= offset <= offset + size <= (locator.size or 0):
            raise InvalidInputError(
                f"{size} bytes from {offset} of a block of {locator.size}: give a part of it"
            )
        if not size:
            return b""
        content = self.get(locator) if verify else self.cache.find(locator)
        if content is not None:
            return content[offset : offset + size]

        def part(answer: Answer) -> bytes | None:
            if answer.status == _ALL:  # a server without ranges
                content = _whole(answer, locator)
                return None if content is None else content[offset : offset + size]
            place = f"bytes {offset}-{offset + size - 1}/"
            right = answer.headers.get("Content-Range", place).startswith(place)
            return answer.body if right and len(answer.body) == size else None

        return self._asked("GET", locator, part, Range=f"bytes={offset}-{offset + size - 1}")

    def head(self, locator: Locator) -> int:
        """Return the size of a block, which a server has found."""

        def size(answer: Answer) -> int | None:
            text = answer.headers.get("Content-Length", "")
            return int(text) if _COUNT.fullmatch(text) else None

        return self._asked("HEAD", locator, size)

    def have(self, locators: Iterable[Locator], *, touch: bool = True) -> dict[str, int]:
        """Return for the MD5 of each block how many servers have it; one with two addresses counts once.

        Servers that do not answer are asked again as long as a block has fewer copies than wanted.
        The counts are then those of the others.

        Args:
            touch: Whether the servers keep what they have for another time to live.

        Raises:
            BackendUnavailableError: A block was not found, and not all servers answered.
        """
        digests = list(dict.fromkeys(locator.digest for locator in locators))
        counts = dict.fromkeys(digests, 0)
        if EMPTY.digest in counts:
            counts[EMPTY.digest] = self.replication
            digests.remove(EMPTY.digest)
        if not digests:
            return counts
        call = self._call(f"look for {len(digests)} blocks", reads=False)
        attempts = self._retrier.attempts(call.what)

        def ask(server: Server) -> tuple[set[str], set[str]]:
            return self._missing(server, digests, call, touch=touch)

        seen: set[str] = set()
        while True:
            servers = [server for server in self._current() if call.asks(server)]
            bounds: Bounds[Server] = Bounds(_MOST_ASKED, _MOST_ASKED, lambda _: 0)
            for missing, volumes in in_order(ask, servers, bounds):
                for digest in digests if not volumes or volumes - seen else ():
                    counts[digest] += digest not in missing
                seen |= volumes
            fewest = min(counts.values())
            if fewest >= self.replication or not call.is_open:
                attempts.succeeded()
            elif attempts.again(call.error()):
                continue
            if not fewest and {said.status for said in call.said.values()} != {_ALL}:
                raise call.error()
            return counts

    def untrash(self, locator: Locator) -> int:
        """Bring a trashed block back, and return how many servers have it now.

        Raises:
            ObjectNotFoundError: No server has it, not even in its trash.
            BackendUnavailableError: A server that may have it did not answer.
        """
        call = self._call(f"untrash block {locator.digest}", reads=True)
        request = Request("PUT", f"/untrash/{locator.digest}")
        answers = [self._sent(call, server, request) for server in self._current()]
        if not any(answers):
            raise call.error()
        return len(answers) - answers.count(None)

    def _missing(
        self, server: Server, digests: Sequence[str], call: _Call, *, touch: bool
    ) -> tuple[set[str], set[str]]:
        """Return the blocks that a server does not have, all if it did not say, and its volumes."""
        missing, volumes = set[str](), set[str]()
        for batch in batches(digests, _ASKED_AT_ONCE):
            asked = json.dumps({"blocks": batch, "touch": touch}).encode()
            request = Request("POST", "/have", {}, asked, most=_HAVE_BYTES)
            answer = self._sent(call, server, request)
            if answer is None:
                return set(digests), set()
            try:
                found = json.loads(answer.body)
                missing.update(found["missing"])
                volumes.update(found.get("volumes", ()))
            except (ValueError, TypeError, KeyError):
                call.note_damage(server, f"answered {answer.text}")
                return set(digests), set()
        return missing, volumes

    def _asked(
        self, verb: str, locator: Locator, take: Callable[[Answer], _T | None], **headers: str
    ) -> _T:
        """Return what `take` makes of the first good answer; it returns None for a damaged one."""
        call = self._call(f"{verb.lower()} block {locator.digest}", reads=True)
        request = Request(verb, f"/{self._name(locator)}", headers, most=locator.size or 0)
        attempts = self._retrier.attempts(call.what)
        while True:
            for server in filter(call.asks, self._ordered(locator)):
                answer = self._sent(call, server, request)
                if answer is None:
                    continue
                taken = take(answer)
                if taken is not None:
                    attempts.succeeded()
                    return taken
                self.damaged += 1
                call.note_damage(server, "sent other bytes")
            _again(call, attempts)

    def _sent(self, call: _Call, server: Server, request: Request) -> Answer | None:
        """Return the answer of a server that did not refuse, and note what it said."""
        named = replace(request, headers={**request.headers, "X-Request-Id": call.id})
        try:
            answer = self._transport.send(server, named)
        except PermissionDeniedError as error:
            call.note(server, min(_NO_RIGHT), str(error))
        except BackendUnavailableError as error:
            call.note(server, _NO_ANSWER, str(error.__cause__) or str(error))
        else:
            call.note(server, answer.status, answer.text if answer.status not in _OK else "done")
            return answer if answer.status in _OK else None
        return None

    def _current(self) -> list[Server]:
        """Return the servers of now, each address once: copies are counted by address."""
        return list({server.url: server for server in self._servers()}.values())

    def _ordered(self, locator: Locator) -> list[Server]:
        """Return the servers in the order in which they are tried for a block."""
        servers = {server.uuid: server for server in self._current()}
        named = {hint[2:] for hint in locator.hints if hint.startswith("K@")}
        ordered = [servers[uuid] for uuid in servers_for(locator.digest, servers)]
        return sorted(
            ordered, key=lambda each: (each.uuid not in named, self._transport.is_down(each))
        )

    def _name(self, locator: Locator) -> str:
        """Return the locator as a server is asked for it."""
        if self._signer is not None:
            expiry = int(self._clock.now().timestamp()) + self._signer.ttl
            locator = self._signer.sign(locator, self._token, expiry)
        if locator.size is None:
            return "+".join((locator.digest, *locator.hints))
        return str(locator)

    def _call(self, what: str, *, reads: bool) -> _Call:
        return _Call(what, reads, f"req-{self._ids.unique()[-20:]}")


def _again(call: _Call, attempts: Attempts, done: str = "") -> None:
    """Wait until the call is tried again, or raise its error."""
    error = call.error(done)
    if not call.is_open:
        attempts.succeeded()  # the servers did answer
        raise error
    if not attempts.again(error):
        raise error


def _whole(answer: Answer, locator: Locator) -> bytes | None:
    """Return the block of an answer, or None if it is damaged."""
    is_right = answer.digest == locator.digest and len(answer.body) == locator.size
    return answer.body if is_right else None
