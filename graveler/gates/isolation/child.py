"""The process of a gate: it runs one check, and reads the candidate through the publisher."""

# `Source` documents the methods of `RemoteSource`.
# ruff: noqa: D102

import json
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

from graveler.base.names import path_key
from graveler.base.read_only import only_judging
from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.gates.candidate import Candidate, RunContext
from graveler.gates.gate import Answer, Gate, ask, died
from graveler.gates.isolation.channel import MessageReader, encode_answer, send
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
    """A gate and its candidate, as sent to the process, without stores or credentials."""

    gate: Gate
    fields: Mapping[str, Mapping[str, Any]]
    into: str
    action: str


def main() -> NoReturn:
    """Run the task of a fresh interpreter; the last argument is the descriptor of the channel."""
    channel = socket.socket(fileno=int(sys.argv[-1]))

    _run(lambda: _read(MessageReader(channel, _LONGEST_REPLY)), channel)


def _read(reader: MessageReader) -> Any:
    return pickle.loads(reader.read())  # noqa: S301 - written by the publisher


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
            answer = _checked(receive(), channel)
        except BaseException as error:  # noqa: BLE001 - sent as the answer
            answer = died(f"{type(error).__name__}: {error}")
        with suppress(OSError):
            _say(channel, answer=encode_answer(answer))
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


def _checked(task: Task, channel: socket.socket) -> Answer:
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
    _say(channel, begun=True)
    return ask(gate, candidate)


def _say(channel: socket.socket, **message: Any) -> None:
    send(channel, json.dumps(message).encode())


def _limit_memory(more: int) -> None:
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
        self._reader = MessageReader(channel, _LONGEST_REPLY)
        self._lock = Lock()

    @property
    def stores(self) -> Stores:
        raise InvalidInputError(
            "a gate in a process of its own has no repository, only the candidate: read through "
            "the candidate, or run the gate without timeout, memory and isolated"
        )

    def find(self, tree: str, key: bytes) -> bytes | None:
        found: bytes | None = self._ask("find", tree, key.hex())
        return found

    def scan(self, tree: str, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._list("scan", tree, start.hex(), prefix.hex())

    def has_below(self, prefix: str) -> bool:
        return bool(self._ask("below", prefix))

    def changes(self, tree: str, prefix: bytes) -> Iterator[Difference]:
        return self._list("changes", tree, prefix.hex())

    def open(self, tree: str, path: str) -> BinaryIO:
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

    def get(self, tree: str, path: str) -> bytes:
        with self.open(tree, path) as file:
            return file.read()

    def read(self, tree: str, path: str, start: int, length: int) -> bytes:
        pieces = bytearray()
        while len(pieces) < length:
            piece = self._ask("read", tree, path, start + len(pieces), length - len(pieces))
            if not piece:
                break
            pieces += piece
        return bytes(pieces)

    def uri(self, address: str) -> str:
        return str(self._ask("uri", address))

    def past(self, prefix: str) -> Iterator[Earlier]:
        return self._list("past", prefix)

    def goes_back(self) -> bool:
        return bool(self._ask("restores"))

    def now(self) -> datetime:
        now: datetime = self._ask("now")
        return now

    def _list(self, *request: Any) -> Iterator[Any]:
        items, listing = self._ask(*request)
        while listing is not None:
            yield from items
            items, listing = self._ask("next", listing)
        yield from items

    def _ask(self, *request: Any) -> Any:
        with self._lock:
            _say(self._channel, ask=request)
            reply = _read(self._reader)
        if isinstance(reply, Exception):
            raise reply
        return reply
