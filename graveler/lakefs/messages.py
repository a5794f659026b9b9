"""The records of lakeFS: value records, entries, ranges, commits, refs, and their ids.

An id is the SHA-256 of typed items: a type byte, then the item. All functions raise `WireError`.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import NamedTuple

from graveler.lakefs.wire import Message, WireError, read_signed

_BYTES = b"\x00"
_TEXT = b"\x01"
_NUMBER = b"\x02\x08"
_TEXTS = b"\x03"
_PAIRS = b"\x04"
_EMBEDDED = b"\x05"
_OLD_PARENTS = 0
"""The version of commits whose main parent is the last one. In version 1 it is the first one."""


def decode_value(raw: bytes) -> tuple[bytes, bytes]:
    """Return (identity, data) of a value record. Further bytes are ignored."""
    size, at = read_signed(raw, 0)
    identity = raw[at : at + size]
    if size < 0 or len(identity) != size:
        raise WireError(f"value record of {len(raw)} bytes: an identity of {size}")
    length, start = read_signed(raw, at + size)
    data = raw[start : start + length]
    if length < 0 or len(data) != length:
        raise WireError(f"value record of {len(raw)} bytes: data of {length}")
    return identity, data


class LakefsEntry(NamedTuple):
    """The entry of an object."""

    address: str
    relative: bool
    mtime_us: int | None
    size: int
    etag: str
    metadata: Mapping[str, str]
    content_type: str


_BY_PREFIX, _RELATIVE, _FULL = 0, 1, 2


def decode_entry(data: bytes) -> LakefsEntry:
    """Return the entry in the data of a value record."""
    message = Message(data, "Entry")
    address, kind = message.text(1), message.number(6)
    if kind not in {_BY_PREFIX, _RELATIVE, _FULL}:
        raise WireError(f"Entry: address type {kind}: 0 to 2 are read")
    moment = message.moment_us(2)
    return LakefsEntry(
        address=address,
        relative=kind == _RELATIVE or (kind == _BY_PREFIX and "://" not in address),
        mtime_us=None if moment is None else moment[1],
        size=message.number(3),
        etag=message.text(4),
        metadata=message.pairs(5),
        content_type=message.text(7),
    )


class LakefsRange(NamedTuple):
    """A range, from the record of its metarange."""

    id: str
    min_key: bytes
    max_key: bytes


def decode_range(key: bytes, value: bytes) -> LakefsRange:
    """Return the range of a metarange's record."""
    identity, data = decode_value(value)
    first = Message(data, "RangeData").binary(1)
    return LakefsRange(checked_id(identity.decode("latin-1")), first, key)


class LakefsCommit(NamedTuple):
    """A commit."""

    id: str
    committer: str
    message: str
    created_us: int
    metarange: str
    metadata: Mapping[str, str]
    parents: tuple[str, ...]


def decode_commit(key: bytes, value: bytes) -> LakefsCommit:
    """Return a commit of a dump, or raise an error if it does not match its id."""
    message = Message(decode_value(value)[1], "CommitData")
    identifier = message.text(1)
    if identifier.encode() != key:
        raise WireError(f"commit {identifier!r} is stored as {key!r}")
    parents = message.texts(7)
    seconds, created_us = message.moment_us(4) or (0, 0)
    commit = LakefsCommit(
        id=identifier,
        committer=message.text(2),
        message=message.text(3),
        created_us=created_us,
        metarange=message.text(5),
        metadata=message.pairs(6),
        parents=parents,
    )
    computed = commit_id(commit, seconds)
    if computed != identifier:
        raise WireError(f"commit {identifier!r} does not match its id (it computes to {computed})")
    if commit.metarange:
        checked_id(commit.metarange)
    return commit._replace(parents=parents[::-1]) if message.number(8) == _OLD_PARENTS else commit


def decode_ref(key: bytes, value: bytes) -> tuple[str, str]:
    """Return name and commit id of a branch or a tag of a dump."""
    message = Message(decode_value(value)[1], "branch or tag")
    name = message.text(1)
    if name.encode() != key:
        raise WireError(f"branch or tag {name!r} is stored as {key!r}")
    return name, checked_id(message.text(2))


def checked_id(identifier: str) -> str:
    """Return an id, or raise an error if it has not 64 hex digits."""
    if len(identifier) != 64 or not set(identifier) <= set("0123456789abcdef"):
        raise WireError(f"{identifier[:80]!r} is not an id of 64 hexadecimal digits")
    return identifier


def _number(value: int) -> bytes:
    return _NUMBER + value.to_bytes(8, "big", signed=True)


def _text(value: str) -> bytes:
    raw = value.encode()
    return _TEXT + _number(len(raw)) + raw


def framed_pairs(pairs: Mapping[str, str]) -> bytes:
    """Return a map of texts as an item of an id, sorted by the bytes of its keys."""
    items = sorted(pairs.items(), key=lambda pair: pair[0].encode())
    return _PAIRS + _number(len(items)) + b"".join(_text(key) + _text(one) for key, one in items)


def framed_record(key: bytes, value: bytes) -> bytes:
    """Return a record as an item of the id of a range or metarange."""
    return b"%d%b|%d%b|" % (len(key), key, len(value), value)


def commit_id(commit: LakefsCommit, seconds: int) -> str:
    """Return the id of a commit whose parents are in the stored order."""
    listed = _TEXTS + _number(len(commit.parents)) + b"".join(map(_text, commit.parents))
    parents = sha256(listed).digest()
    return sha256(
        _text("commit:v1")
        + _text(commit.committer)
        + _text(commit.message)
        + _text(commit.metarange)
        + _number(seconds)
        + framed_pairs(commit.metadata)
        + _EMBEDDED
        + _BYTES
        + _number(len(parents))
        + parents
    ).hexdigest()
