"""Messages between the publisher and the process of a gate, and a key-value store over them.

A message is four bytes of length, big end first, and JSON. The gate's process holds no key-value
store, nor credentials of one: it asks the publisher, who answers reads and nothing else.
"""

# What the methods of the store do is said once, at the port.
# ruff: noqa: D102

import json
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import islice
from threading import RLock
from typing import Any, Final, NoReturn

from graveler.errors import BackendUnavailableError, ReadOnlyError
from graveler.kv.store import KVStore, Predicate, Stored

__all__ = ["AskingKVStore", "MessageReader", "answer_read", "send"]

_LONGEST: Final = 64 << 20
_HEAD: Final = 4
_PAGE: Final = 500
_PIECE: Final = 1 << 16


def send(channel: socket.socket, message: dict[str, Any]) -> None:
    """Send one message."""
    raw = json.dumps(message).encode()
    channel.sendall(len(raw).to_bytes(_HEAD, "big") + raw)


class MessageReader:
    """Puts messages together from what arrives.

    Args:
        channel: Where they arrive.
    """

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._buffer = bytearray()

    def read(self) -> dict[str, Any] | None:
        """Return the next message, None where the other side is gone.

        Raises:
            TimeoutError: The channel's timeout was over before it was whole; it may be read on.
            ValueError: What arrived is no message.
        """
        while (message := self._whole()) is None:
            piece = self._channel.recv(_PIECE)
            if not piece:
                return None
            self._buffer += piece
        return message

    def _whole(self) -> dict[str, Any] | None:
        if len(self._buffer) < _HEAD:
            return None
        length = int.from_bytes(self._buffer[:_HEAD], "big")
        if length > _LONGEST:
            raise ValueError(f"a message of {length} bytes")
        if len(self._buffer) < _HEAD + length:
            return None
        raw = bytes(self._buffer[_HEAD : _HEAD + length])
        del self._buffer[: _HEAD + length]
        message = json.loads(raw)
        if not isinstance(message, dict):
            raise ValueError("a message that is no object")  # noqa: TRY004 - damage, not a type
        return message


def answer_read(kv: KVStore, question: dict[str, Any]) -> dict[str, Any]:
    """Return what a store says to the question of an `AskingKVStore`."""
    try:
        match question["read"]:
            case ["get", str(partition), str(key)]:
                stored = kv.get(partition, bytes.fromhex(key))
                return {"value": None if stored is None else stored.value.hex()}
            case ["scan", str(partition), str(start)]:
                page = islice(kv.scan(partition, bytes.fromhex(start)), _PAGE)
                return {"items": [[key.hex(), value.hex()] for key, value in page]}
            case ["partitions", str(prefix)]:
                return {"names": list(kv.partitions(prefix))}
            case other:
                return {"error": f"not a question: {other!r}"}
    except Exception as error:  # noqa: BLE001 - it is the asker's to raise
        return {"error": f"{type(error).__name__}: {error}"}


class AskingKVStore(KVStore):
    """A key-value store at the other end of a channel; it can only be read.

    Args:
        channel: To the publisher.
        reader: Of the same channel.
    """

    def __init__(self, channel: socket.socket, reader: MessageReader) -> None:
        self._channel = channel
        self._reader = reader
        self._lock = RLock()

    def get(self, partition: str, key: bytes) -> Stored | None:
        value = self._ask("get", partition, key.hex())["value"]
        # a predicate that no store has made: nothing can be written by it
        return None if value is None else Stored(bytes.fromhex(value), object())

    def get_each(self, partitions: Sequence[str], key: bytes) -> list[Stored | None]:
        return [self.get(partition, key) for partition in partitions]

    def scan(self, partition: str, start: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        while True:
            items = self._ask("scan", partition, start.hex())["items"]
            for key, value in items:
                yield bytes.fromhex(key), bytes.fromhex(value)
            if len(items) < _PAGE:
                return
            start = bytes.fromhex(items[-1][0]) + b"\0"

    def partitions(self, prefix: str) -> Iterator[str]:
        return iter(self._ask("partitions", prefix)["names"])

    def turn(self, name: str, patience: float) -> AbstractContextManager[bool]:
        _refuse()

    def set(self, partition: str, key: bytes, value: bytes) -> None:
        _refuse()

    def set_many(self, partition: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        _refuse()

    def set_if(self, partition: str, key: bytes, value: bytes, predicate: Predicate) -> None:
        _refuse()

    def delete(self, partition: str, key: bytes) -> None:
        _refuse()

    def delete_if(self, partition: str, key: bytes, predicate: Predicate) -> None:
        _refuse()

    def drop(self, partition: str) -> None:
        _refuse()

    def close(self) -> None:
        """Do nothing: the channel belongs to somebody else."""

    def _ask(self, *question: str) -> dict[str, Any]:
        with self._lock:
            send(self._channel, {"read": list(question)})
            answer = self._reader.read()
        if answer is None or "error" in answer:
            said = "it is gone" if answer is None else answer["error"]
            raise BackendUnavailableError(f"the publisher could not read for this gate: {said}")
        return answer


def _refuse() -> NoReturn:
    raise ReadOnlyError("the process of a gate has no key-value store to write to")
