"""Two hashes of an entry, and the ids of what holds it, all of them SHA-256.

================  ==============================================================
content identity  h over size, content type, user metadata, and the checksum if graveler
                  computed it, else the address and its version
record id         h( h(key) ‖ h(value record) )
range id          h( record id₁ ‖ … ‖ record idₙ )
metarange id      the same over its ranges: key = last key, value record = the range's
commit id         h over committer, message, metarange, time, metadata, parents
================  ==============================================================

The content identity decides diff, merge, conflicts and "nothing changed": equal files
written on two branches are equal, with any addresses and times. The
record id covers every byte of the value record, address and time included. All other ids
are made of record ids, so one id never stands for two sets of addresses.

The fields are framed (type byte, 8-byte big-endian length, bytes), so that no two
different inputs give the same bytes to the hash. ``docs/formats/identity.md`` has the
table with a worked example.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from hashlib import sha256

from graveler.clock import unix_us
from graveler.model import Entry

_TEXT = b"t"
_NUMBER = b"n"
_PAIRS = b"p"
_LIST = b"l"


def _text(value: str) -> bytes:
    raw = value.encode("utf-8", "surrogatepass")
    return _TEXT + len(raw).to_bytes(8, "big") + raw


def _number(value: int) -> bytes:
    return _NUMBER + value.to_bytes(8, "big", signed=True)


def _pairs(value: Mapping[str, str]) -> bytes:
    parts = [_PAIRS, len(value).to_bytes(8, "big")]
    for name in sorted(value):
        parts += (_text(name), _text(value[name]))
    return b"".join(parts)


def _list(values: Iterable[str]) -> bytes:
    items = [_text(value) for value in values]
    return b"".join([_LIST, len(items).to_bytes(8, "big"), *items])


def entry_identity(entry: Entry) -> bytes:
    """Return the content identity: 32 bytes that say what the entry holds.

    A declared checksum is not trusted: the address and the version that its
    store reported stand in for the content.
    """
    if entry.computed and entry.checksum:
        content = _text("checksum") + _text(entry.checksum)
    else:
        content = _text("address") + _text(entry.address) + _text(entry.version)
    return sha256(
        b"entry:2"
        + _number(entry.size)
        + content
        + _text(entry.content_type)
        + _pairs(entry.metadata)
    ).digest()


def record_id(key: bytes, value: bytes) -> bytes:
    """Return h(h(key) ‖ h(value record)), 32 bytes."""
    return sha256(sha256(key).digest() + sha256(value).digest()).digest()


def range_id(record_ids: Iterable[bytes]) -> bytes:
    """Return the id of the range that holds these records in this order, 32 bytes."""
    return sha256(b"".join(record_ids)).digest()


def commit_id(
    *,
    metarange: str,
    parents: tuple[str, ...],
    message: str,
    committer: str,
    created: datetime,
    metadata: Mapping[str, str],
) -> str:
    """Return the id of a commit, 64 hex digits.

    The generation is left out: it follows from the parents.
    """
    return sha256(
        b"commit:1"
        + _text(committer)
        + _text(message)
        + _text(metarange)
        + _number(unix_us(created))
        + _pairs(metadata)
        + _list(parents)
    ).hexdigest()
