"""Messages between the publisher and the process of a gate.

A message is four bytes of length of its JSON, four of its payload, both big end first, the JSON,
which is an object, and the payload, which are bytes of a file.
"""

import json
import socket
from typing import Any, Final, NamedTuple, NoReturn

__all__ = ["Message", "MessageReader", "send"]

_LENGTH: Final = 4
_HEAD: Final = 2 * _LENGTH
_PIECE: Final = 1 << 16


class Message(NamedTuple):
    """What one side tells the other."""

    said: dict[str, Any]
    payload: bytes = b""


def send(channel: socket.socket, said: dict[str, Any], payload: bytes = b"") -> None:
    """Send one message."""
    raw = json.dumps(said).encode()
    head = len(raw).to_bytes(_LENGTH, "big") + len(payload).to_bytes(_LENGTH, "big")
    channel.sendall(head + raw + payload)


class MessageReader:
    """Puts messages together from what arrives, and believes none of it.

    Args:
        channel: Where they arrive.
        longest: Bytes that a message may have, without its payload.
        payload: Bytes that its payload may have.
    """

    def __init__(self, channel: socket.socket, longest: int, payload: int) -> None:
        self._channel = channel
        self._limits = (longest, payload)
        self._buffer = bytearray()

    def receive(self) -> bool:
        """Take a piece of what has arrived; return whether the other side is still there.

        Raises:
            TimeoutError: Nothing arrived within the channel's timeout.
        """
        piece = self._channel.recv(_PIECE)
        self._buffer += piece
        return bool(piece)

    def take(self) -> Message | None:
        """Return the first message that is here whole, None while there is none.

        Raises:
            ValueError: What arrived is no message.
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
        """Return the next message, None where the other side is gone."""
        while (message := self.take()) is None:
            if not self.receive():
                return None
        return message


def _decoded(raw: bytes) -> dict[str, Any]:
    try:
        said = json.loads(raw, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("a message that is nested too deeply") from None
    if type(said) is not dict:
        raise ValueError("a message that is no object")
    return said


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"a message that holds {name}")
