"""The gate's end of the channel: it has no store, and requests every read from the publisher."""

import socket
import sys
from collections.abc import Iterator
from datetime import datetime
from io import BufferedReader
from threading import Lock
from typing import Any, BinaryIO, Final, NoReturn, cast

from graveler.clock import from_unix_us
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
)
from graveler.gates.footers import RangedFile
from graveler.gates.isolation.channel import Message, MessageReader, send
from graveler.gates.isolation.server import LONGEST_PIECE
from graveler.gates.source import Difference, Earlier, Source
from graveler.names import path_key
from graveler.objects.verified import Verifier, verified_stream
from graveler.reads.files import refusal
from graveler.reads.stores import Stores
from graveler.records import decode_entry

_LONGEST_ANSWER: Final = 1 << 30
_BUFFER: Final = 1 << 20


class RemoteSource(Source):
    """A candidate that is read through the publisher.

    Args:
        channel: The channel to the publisher.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._reader = MessageReader(channel, _LONGEST_ANSWER, LONGEST_PIECE)
        self._lock = Lock()
        self._done: list[int] = []

    @property
    def stores(self) -> Stores:
        """Refused: this process has no stores."""
        raise InvalidInputError(
            "a gate in a process of its own has no repository, only the candidate: read through "
            "the candidate, or run the gate without timeout, memory and isolated"
        )

    def find(self, tree: str, key: bytes) -> bytes | None:
        """Return the value record at a key of a tree, or None."""
        return _bytes(self._ask("find", tree, key.hex()).body["value"])

    def scan(self, tree: str, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield (key, value record) of a tree from `start` on below `prefix`."""
        for key, value in self._list("scan", tree, start.hex(), prefix.hex()):
            yield bytes.fromhex(key), bytes.fromhex(value)

    def has_below(self, prefix: str) -> bool:
        """Return whether the candidate has any path that starts with `prefix`."""
        return bool(self._ask("below", prefix).body["value"])

    def changes(self, tree: str, prefix: bytes) -> Iterator[Difference]:
        """Yield the changes of a tree: the candidate's to the target, a commit's to its first parent."""
        for key, before, after in self._list("changes", tree, prefix.hex()):
            yield bytes.fromhex(key), _bytes(before), _bytes(after)

    def open(self, tree: str, path: str) -> BinaryIO:
        """Return a readable, seekable stream of a file of a tree."""
        key = path_key(path)
        value = self.find(tree, key)
        if value is None:
            raise ObjectNotFoundError(f"nothing at {path!r} in the {tree}")
        entry = decode_entry(key, value)
        ranged = RangedFile(_Files(self, tree), path, entry.size)
        verifier = Verifier(
            entry.size,
            entry.checksum,
            lambda found, wanted: refusal(self.uri(entry.address), entry, found, wanted),
        )
        return verified_stream(cast(BinaryIO, BufferedReader(ranged, _BUFFER)), verifier)

    def get(self, tree: str, path: str) -> bytes:
        """Return the bytes of a file of a tree."""
        with self.open(tree, path) as file:
            return file.read()

    def read(self, tree: str, path: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes of a file of a tree, from `start` on."""
        pieces: list[bytes] = []
        while length > 0:
            piece = self._ask("read", tree, path, start, length).payload
            if not piece:
                break
            pieces.append(piece)
            start += len(piece)
            length -= len(piece)
        return b"".join(pieces)

    def uri(self, address: str) -> str:
        """Return the physical URI of an address."""
        return str(self._ask("uri", address).body["value"])

    def past(self, prefix: str) -> Iterator[Earlier]:
        """Yield the earlier commits that may have touched a prefix, the latest first."""
        for commit, created, run, stats in self._list("past", prefix):
            yield Earlier(commit, from_unix_us(created), run, stats)

    def goes_back(self) -> bool:
        """Return whether the candidate is in the history of the target."""
        return bool(self._ask("restores").body["value"])

    def now(self) -> datetime:
        """Return the time, by the repository's clock."""
        return datetime.fromisoformat(self._ask("now").body["value"])

    def _list(self, *question: Any) -> Iterator[Any]:
        """Yield the items of a listing, page by page."""
        page = self._ask(*question).body
        try:
            while page["listing"] is not None:
                yield from page["items"]
                with self._lock:
                    done, self._done = self._done, []
                page = self._ask("next", page["listing"], done).body
            yield from page["items"]
        finally:
            # sent with the next request: this may run in the middle of one
            if page["listing"] is not None:
                self._done.append(page["listing"])

    def _ask(self, *question: Any) -> Message:
        with self._lock:
            send(self._channel, {"ask": question})
            answer = self._reader.read()
        if answer is None:
            raise BackendUnavailableError("the publisher is gone")
        if "error" in answer.body:
            _raise(*answer.body["error"])
        return answer


class _Files:
    """The files of a tree, which are read by ranges."""

    def __init__(self, source: RemoteSource, tree: str) -> None:
        self._source = source
        self._tree = tree

    def get(self, path: str) -> bytes:
        return self._source.get(self._tree, path)

    def open(self, path: str) -> BinaryIO:
        return self._source.open(self._tree, path)

    def read(self, path: str, start: int, length: int) -> bytes:
        return self._source.read(self._tree, path, start, length)


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


def _raise(name: str, said: str) -> NoReturn:
    """Raise an error of the publisher in this process."""
    kind = vars(sys.modules[GravelerError.__module__]).get(name)
    if isinstance(kind, type) and issubclass(kind, GravelerError):
        raise kind(said)
    raise BackendUnavailableError(f"the publisher could not read for this gate: {name}: {said}")
