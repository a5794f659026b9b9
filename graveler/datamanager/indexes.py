"""Indexes of volumes: text of a server, read into arrays.

A line is ``digest+size mtime``, and one blank line at the end says that the index is complete. An
index with any fault is rejected as a whole, because a copy that is not seen looks like a lost one.
"""

import re
from binascii import unhexlify
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from graveler.errors import BackendUnavailableError, CorruptionError, InvalidInputError
from graveler.keep.locators import Locator

KEY = np.dtype([("high", ">u8"), ("low", ">u8"), ("size", ">u4")])
"""A block, in 20 bytes: its digest, and its size."""
COPY = np.dtype([*KEY.descr, ("mtime", "<i8")])
"""A copy on a volume: its block, and when it was written or touched, in ns since 1970."""

_ENOUGH = 1 << 20
_NS = 10**9
_SECONDS_BELOW = 10**12
_DIGITS = 32
_PREFIX = re.compile(rf"[0-9a-f]{{0,{_DIGITS}}}")
_REST = rb"\+[0-9]{1,8} (?:[0-9]{1,18}|[1-8][0-9]{18})\n"
_LINE = re.compile(rb"[0-9a-f]{32}" + _REST)


def keys(locators: Iterable[Locator]) -> NDArray[np.void]:
    """Return blocks as an array of `KEY`."""
    raw = [unhexlify(each.digest) + (each.size or 0).to_bytes(4, "big") for each in locators]
    return np.frombuffer(b"".join(raw), KEY)


def check_prefix(prefix: str) -> str:
    """Return the prefix of digests, or raise InvalidInputError."""
    if not _PREFIX.fullmatch(prefix):
        raise InvalidInputError(f"prefix={prefix!r}: give at most {_DIGITS} digits of 0-9 and a-f")
    return prefix


def read_index(
    pieces: Iterable[bytes], server: str, volume: str, prefix: str = ""
) -> NDArray[np.void]:
    """Return the copies of an index, an array of `COPY`.

    Args:
        pieces: The text, cut anywhere.
        prefix: What every digest begins with.

    Raises:
        BackendUnavailableError: The index ends before its mark.
        CorruptionError: A line is not one of an index, or has another prefix.
    """
    pattern = rb"(?:%b[0-9a-f]{%d}%b)*+" % (prefix.encode(), _DIGITS - len(prefix), _REST)
    lines = re.compile(pattern)
    what = f"the index of volume {volume} of server {server}"
    parts, count, complete = [np.empty(0, COPY)], 0, False
    for text in _whole_lines(pieces):
        found = lines.match(text)
        end = found.end() if found and not complete else 0
        parts.append(_copies(text[:end]))
        count += len(parts[-1])
        rest = text[end:]
        if rest == b"\n" and not complete:
            complete = True
        elif b"\n" in rest or (rest and complete):
            fault = "after the blank line of the end" if complete else _fault(rest, prefix)
            line = rest[:100].decode("latin-1").partition("\n")[0]
            raise CorruptionError(
                f"{what} is rejected for line {count + 1 + complete}, which is {fault}: {line!r}; "
                "nothing was decided"
            )
        elif rest:
            break
    if not complete:
        raise BackendUnavailableError(
            f"{what} ends after line {count} without the blank line that marks its end: the server "
            "failed or the connection broke; repeat when the server answers in full"
        )
    return np.concatenate(parts)


def _whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    held = bytearray()
    for piece in pieces:
        held += piece
        if len(held) >= _ENOUGH:
            end = held.rfind(b"\n") + 1 or len(held)
            yield bytes(held[:end])
            del held[:end]
    yield bytes(held)


def _copies(lines: bytes) -> NDArray[np.void]:
    fields = lines.replace(b"+", b" ").split()
    copies = np.empty(len(fields) // 3, COPY)
    digests = np.frombuffer(unhexlify(b"".join(fields[::3])), ">u8")
    copies["high"], copies["low"] = digests[::2], digests[1::2]
    copies["size"] = np.fromiter(map(int, fields[1::3]), np.uint32, len(copies))
    mtime = np.fromiter(map(int, fields[2::3]), np.int64, len(copies))
    copies["mtime"] = np.where(mtime < _SECONDS_BELOW, mtime * _NS, mtime)
    return copies


def _fault(rest: bytes, prefix: str) -> str:
    if rest.startswith(b"\n"):
        return "blank, but not the end"
    if _LINE.match(rest):
        return f"of another prefix than {prefix!r}"
    return "not the line of a block"
