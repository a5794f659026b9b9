"""The process of a gate: it runs one check, and reads the candidate through the publisher."""

import os
import pickle
import resource
import select
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from io import BufferedReader
from pathlib import Path
from threading import Lock, Thread
from types import SimpleNamespace
from typing import Any, BinaryIO, NoReturn, cast

from graveler.base.clock import from_unix_us
from graveler.base.names import path_key
from graveler.base.read_only import only_judging
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
)
from graveler.gates.candidate import Candidate, RunContext
from graveler.gates.gate import Answer, Gate, ask, died
from graveler.gates.isolation.channel import Message, MessageReader, encode_answer, send
from graveler.gates.isolation.server import LONGEST_PIECE
from graveler.gates.source import Difference, Earlier, Source
from graveler.objects.verified import RangedFile, Verifier, verified_stream
from graveler.reads.files import refusal
from graveler.reads.stores import Stores
from graveler.values import decode_entry

_GRACE_S = 30.0
_LONGEST_REPLY = 1 << 30
_BUFFER = 1 << 20
_WATCH_MS = 1000


@dataclass(frozen=True, slots=True)
class Task:
    """A gate and its candidate, as sent to the process, without stores or credentials.

    Attributes:
        fields: The fields of commit, target and run that the gate may read.
    """

    gate: Gate
    fields: Mapping[str, Mapping[str, Any]]
    into: str
    action: str


def main() -> NoReturn:
    """Run the task of a fresh interpreter; the last argument is the descriptor of the channel."""
    channel = socket.socket(fileno=int(sys.argv[-1]))

    def receive() -> Task:
        message = MessageReader(channel, _LONGEST_REPLY, _LONGEST_REPLY).read()
        if message is None:
            raise BackendUnavailableError("the publisher is gone")
        task: Task = pickle.loads(message.payload)  # noqa: S301 - written by the publisher
        return task

    _run(receive, channel)


def run_forked(task: Task, channel: socket.socket) -> NoReturn:
    """Run the task in a forked process."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
        with suppress(ValueError, OSError):
            signal.signal(number, signal.SIG_DFL)
    with suppress(OSError):
        os.setsid()
    _run(lambda: task, channel)


def _run(receive: Callable[[], Task], channel: socket.socket) -> NoReturn:
    """Run the check and exit at once, because no cleanup code of the parent may run here."""
    try:
        channel.settimeout(None)
        Thread(target=_exit_with_publisher, args=(channel.fileno(),), daemon=True).start()
        try:
            answer = _judge(receive(), channel)
        except BaseException as error:  # noqa: BLE001 - sent as the answer
            answer = died(f"{type(error).__name__}: {error}")
        with suppress(OSError):
            send(channel, {"answer": encode_answer(answer)})
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def _exit_with_publisher(channel: int) -> None:
    """Kill the process group when the publisher's end of the channel is closed."""
    poll = select.poll()
    poll.register(channel, 0)  # it reports a hang-up, and a descriptor that the check has closed
    while not poll.poll(_WATCH_MS):
        continue
    os.killpg(0, signal.SIGKILL)


def _judge(task: Task, channel: socket.socket) -> Answer:
    gate = task.gate
    commit, target = (
        cast(Any, SimpleNamespace(**task.fields[name])) for name in ("commit", "target")
    )
    run = RunContext(**{"key": "", "attempt": 0, **task.fields["run"]})
    candidate = Candidate(
        RemoteSource(channel), commit, target=target, into=task.into, run=run, action=task.action
    )
    only_judging(gate.name)
    if gate.memory is not None:
        _limit_memory(gate.memory)
    # kill a check that holds the interpreter's lock after the publisher was killed
    signal.setitimer(signal.ITIMER_REAL, gate.seconds + _GRACE_S)
    send(channel, {"begun": True})
    return ask(gate, candidate)


def _limit_memory(more: int) -> None:
    """Limit the memory of the process to its present size and `more` bytes."""
    limit = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    resource.setrlimit(limit, (_taken() + more, resource.getrlimit(limit)[1]))


def _taken() -> int:
    status = Path("/proc/self/status")
    if not status.exists():
        return int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
    fields = dict(line.split(":", 1) for line in status.read_text().splitlines() if ":" in line)
    return int(fields["VmData"].split()[0]) * 1024


class RemoteSource(Source):
    """A candidate that is read through the publisher."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._reader = MessageReader(channel, _LONGEST_REPLY, LONGEST_PIECE)
        self._lock = Lock()

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
        """Yield the changes of the candidate against the target, or of a commit against its parent."""
        for key, before, after in self._list("changes", tree, prefix.hex()):
            yield bytes.fromhex(key), _bytes(before), _bytes(after)

    def open(self, tree: str, path: str) -> BinaryIO:
        """Return a readable, seekable stream of a file of a tree."""
        key = path_key(path)
        value = self.find(tree, key)
        if value is None:
            raise ObjectNotFoundError(f"nothing at {path!r} in the {tree}")
        entry = decode_entry(key, value)
        ranged = RangedFile(entry.size, partial(self.read, tree, path))
        verifier = Verifier(
            entry.size,
            entry.checksum,
            lambda actual, wanted: refusal(self.uri(entry.address), entry, actual, wanted),
        )
        return verified_stream(cast(BinaryIO, BufferedReader(ranged, _BUFFER)), verifier)

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
        for commit, created, run, hour, stats in self._list("past", prefix):
            yield Earlier(commit, from_unix_us(created), run, hour, stats)

    def goes_back(self) -> bool:
        """Return whether the candidate is in the history of the target."""
        return bool(self._ask("restores").body["value"])

    def now(self) -> datetime:
        """Return the time, by the repository's clock."""
        return datetime.fromisoformat(self._ask("now").body["value"])

    def _list(self, *request: Any) -> Iterator[Any]:
        """Yield the items of a listing, page by page."""
        page = self._ask(*request).body
        while page["listing"] is not None:
            yield from page["items"]
            page = self._ask("next", page["listing"]).body
        yield from page["items"]

    def _ask(self, *request: Any) -> Message:
        """Return the publisher's reply to a request."""
        with self._lock:
            send(self._channel, {"ask": request})
            reply = self._reader.read()
        if reply is None:
            raise BackendUnavailableError("the publisher is gone")
        if "error" in reply.body:
            _raise(*reply.body["error"])
        return reply


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


def _raise(name: str, message: str) -> NoReturn:
    """Raise an error of the publisher in this process."""
    kind = vars(sys.modules[GravelerError.__module__]).get(name)
    if isinstance(kind, type) and issubclass(kind, GravelerError):
        raise kind(message)
    raise BackendUnavailableError(f"the publisher could not read for this gate: {name}: {message}")
