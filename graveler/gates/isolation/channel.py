"""Messages between the publisher and the process of a gate.

A message has four parts: the length of its JSON and the length of its payload, four bytes each in
big-endian order, a JSON object, and the payload, which is bytes of a file.
"""

import json
import socket
from typing import Any, Final, NamedTuple, NoReturn

_LENGTH: Final = 4
_HEAD: Final = 2 * _LENGTH
_PIECE: Final = 1 << 16


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
        channel: The channel to read.
        longest: Largest size of the JSON, in bytes.
        payload: Largest size of the payload, in bytes.
    """

    def __init__(self, channel: socket.socket, longest: int, payload: int) -> None:
        self._channel = channel
        self._limits = (longest, payload)
        self._buffer = bytearray()

    def receive(self) -> bool:
        """Read bytes that have arrived; return False at the end of the channel.

        Raises:
            TimeoutError: Nothing arrived within the channel's timeout.
        """
        piece = self._channel.recv(_PIECE)
        self._buffer += piece
        return bool(piece)

    def take(self) -> Message | None:
        """Return the first complete message, or None.

        Raises:
            ValueError: The bytes are not a message.
        """
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
