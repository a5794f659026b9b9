"""Messages between the publisher and the process of a gate.

A message is its length, four bytes in big-endian order, and its bytes. The process sends JSON, because
its bytes are untrusted: ``{"begun": true}``, any number of ``{"ask": request}``, each of which gets a
reply, and one ``{"answer": …}``. The publisher sends pickled objects: the task of a fresh process, and
the replies.
"""

import json
import socket
from typing import Any, NoReturn

from graveler.base.records import ANY, FLAG, TEXT, array, mapping, read_fields, row
from graveler.errors import BackendUnavailableError, CorruptionError
from graveler.gates.declaration import plain, shortened
from graveler.gates.gate import LONGEST_REASON, Answer
from graveler.gates.statistics import STATISTICS, Statistics

_LENGTH = 4
_PIECE = 1 << 16
_MOST_SEEN = 64
_LARGEST_SEEN = 1 << 18


def send(channel: socket.socket, raw: bytes) -> None:
    """Send one message."""
    channel.sendall(len(raw).to_bytes(_LENGTH, "big") + raw)


class MessageReader:
    """Assembles messages from the bytes of a channel, which are untrusted."""

    def __init__(self, channel: socket.socket, longest: int) -> None:
        self._channel = channel
        self._longest = longest
        self._buffer = bytearray()

    def receive(self) -> bool:
        """Read bytes that have arrived; return False at the end of the channel."""
        piece = self._channel.recv(_PIECE)
        self._buffer += piece
        return bool(piece)

    def take(self) -> bytes | None:
        """Return the first complete message, or None."""
        length = int.from_bytes(self._buffer[:_LENGTH], "big")
        if length > self._longest:
            raise ValueError(f"a message of {length} bytes")
        if len(self._buffer) < _LENGTH + length:
            return None
        raw = bytes(self._buffer[_LENGTH : _LENGTH + length])
        del self._buffer[: _LENGTH + length]
        return raw

    def read(self) -> bytes:
        """Return the next message of the publisher."""
        while (raw := self.take()) is None:
            if not self.receive():
                raise BackendUnavailableError("the publisher is gone")
        return raw


def read_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object of a message, or raise ValueError."""
    try:
        body = json.loads(raw, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("a message that is nested too deeply") from None
    if type(body) is not dict:
        raise ValueError("a message that is no object")
    return body


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"a message that holds {name}")


def encode_answer(answer: Answer) -> dict[str, Any]:
    """Return an answer as JSON values, with the statistics of the candidate only."""
    return {
        "passed": answer.passed,
        "reason": answer.reason,
        "died": answer.died,
        "transient": answer.transient,
        "facts": dict(answer.facts),
        "seen": [
            [prefix, STATISTICS.plain(stats)]
            for (commit, prefix), stats in answer.seen.items()
            if not commit
        ],
    }


def read_answer(raw: Any) -> Answer:
    """Return the answer of a gate's process."""
    passed, reason, died, transient, facts, seen = read_fields(
        raw,
        "the answer",
        passed=FLAG,
        reason=TEXT,
        died=FLAG,
        transient=FLAG,
        facts=mapping(ANY),
        seen=array(row(TEXT, STATISTICS)),
    )
    if len(seen) > _MOST_SEEN:
        raise CorruptionError(f"the answer has statistics of {len(seen)} prefixes")
    for prefix, statistics in seen:
        _check_size(prefix, statistics)
    return Answer(
        passed=passed and not died,
        reason=shortened(reason, LONGEST_REASON),
        died=died,
        transient=transient,
        facts=plain(facts),
        seen={("", prefix): statistics for prefix, statistics in seen},
    )


def _check_size(prefix: str, statistics: Statistics) -> None:
    try:
        size = len(STATISTICS.encode(statistics))
    except ValueError:  # an infinite bound
        size = _LARGEST_SEEN + 1
    if size > _LARGEST_SEEN:
        raise CorruptionError(f"the answer has statistics of {prefix!r} that cannot be kept")
