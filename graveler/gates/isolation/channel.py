"""Messages between the publisher and the process of a gate.

A message has four parts: the length of its JSON object and the length of its payload, four bytes
each in big-endian order, then the object, then the payload: a pickled task or bytes of a file.
The publisher sends the task of a fresh process. The process sends ``{"begun": true}``, any number of
``{"ask": request}``, each of which gets a reply, and one ``{"answer": …}``.
"""

import json
import socket
from typing import Any, NamedTuple, NoReturn

from graveler.base.records import Fields, encode_json
from graveler.errors import CorruptionError
from graveler.gates.declaration import plain, shortened
from graveler.gates.gate import LONGEST_REASON, Answer
from graveler.gates.statistics import Statistics

_LENGTH = 4
_HEAD = 2 * _LENGTH
_PIECE = 1 << 16
_MOST_SEEN = 64
_LARGEST_SEEN = 1 << 18


class Message(NamedTuple):
    """One message: a JSON object and bytes."""

    body: dict[str, Any]
    payload: bytes = b""


def send(channel: socket.socket, body: dict[str, Any], payload: bytes = b"") -> None:
    """Send one message."""
    raw = json.dumps(body).encode()
    head = len(raw).to_bytes(_LENGTH, "big") + len(payload).to_bytes(_LENGTH, "big")
    channel.sendall(head + raw + payload)


class MessageReader:
    """Assembles messages from the bytes of a channel, which are untrusted.

    Args:
        longest: Largest size of the JSON, in bytes.
        payload: Largest size of the payload, in bytes.
    """

    def __init__(self, channel: socket.socket, longest: int, payload: int) -> None:
        self._channel = channel
        self._limits = (longest, payload)
        self._buffer = bytearray()

    def receive(self) -> bool:
        """Read bytes that have arrived; return False at the end of the channel."""
        piece = self._channel.recv(_PIECE)
        self._buffer += piece
        return bool(piece)

    def take(self) -> Message | None:
        """Return the first complete message, or None."""
        head = self._buffer[:_HEAD]
        if len(head) < _HEAD:
            return None
        lengths = int.from_bytes(head[:_LENGTH], "big"), int.from_bytes(head[_LENGTH:], "big")
        if any(length > most for length, most in zip(lengths, self._limits, strict=True)):
            raise ValueError(f"a message of {lengths[0]} and {lengths[1]} bytes")
        end, last = _HEAD + lengths[0], _HEAD + sum(lengths)
        if len(self._buffer) < last:
            return None
        raw, payload = bytes(self._buffer[_HEAD:end]), bytes(self._buffer[end:last])
        del self._buffer[:last]
        return Message(_decoded(raw), payload)

    def read(self) -> Message | None:
        """Return the next message; None at the end of the channel."""
        while (message := self.take()) is None:
            if not self.receive():
                return None
        return message


def _decoded(raw: bytes) -> dict[str, Any]:
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
        "facts": dict(answer.facts),
        "seen": [
            [prefix, stats.encode()]
            for (commit, prefix), stats in answer.seen.items()
            if not commit
        ],
        "rule": answer.rule,
    }


def read_answer(raw: Any) -> Answer:
    """Return the answer of a gate's process."""
    fields = Fields(raw, "the answer")
    seen = [_seen(item) for item in fields.array("seen")]
    if len(seen) > _MOST_SEEN:
        raise CorruptionError(f"the answer has statistics of {len(seen)} prefixes")
    died = fields.flag("died")
    return Answer(
        passed=fields.flag("passed") and not died,
        reason=shortened(fields.text("reason"), LONGEST_REASON),
        died=died,
        facts=plain(fields.mapping("facts")),
        seen={("", prefix): statistics for prefix, statistics in seen},
        rule=None if fields.value("rule") is None else fields.text("rule"),
    )


def _seen(item: Any) -> tuple[str, Statistics]:
    match item:
        case [str(prefix), dict(raw)]:
            statistics = Statistics.decode(raw)
        case _:
            raise CorruptionError("the answer has statistics that cannot be read")
    try:
        size = len(encode_json(statistics.encode()))
    except ValueError:  # an infinite bound
        size = _LARGEST_SEEN + 1
    if size > _LARGEST_SEEN:
        raise CorruptionError(f"the answer has statistics of {prefix!r} that cannot be kept")
    return prefix, statistics
