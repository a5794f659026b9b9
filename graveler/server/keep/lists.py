"""The documents that a client or the data manager sends: lists of blocks, in both their forms."""

import json
import re
from collections.abc import Mapping
from typing import Any

from graveler.errors import InvalidInputError
from graveler.keep.locators import Locator
from graveler.keep.workers import PullItem, TrashItem
from graveler.server.messages import Body, HttpError

MOST_BYTES = 256 << 20
_HAVE_BYTES = 1 << 20
_PIECE_BYTES = 1 << 20
_MOST_BLOCKS = 10_000
_SERVER = re.compile(
    r"(?:https?|keep\+tls)://[^/\s]+/?|[^/\s:]+:[0-9]{1,5}|\[[0-9A-Fa-f:.]+\]:[0-9]{1,5}"
)


def document(body: Body | None, most: int = MOST_BYTES) -> Any:
    """Return the JSON document of a body of at most so many bytes.

    Raises:
        InvalidInputError: The body is none.
    """
    pieces, size = [], 0
    while body is not None and (piece := body.read(_PIECE_BYTES)):
        pieces.append(piece)
        size += len(piece)
        if size > most:
            raise HttpError(413, f"a list has at most {most} bytes")
    try:
        return json.loads(b"".join(pieces))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"the body is not JSON: {error}") from None


def have(body: Body | None) -> tuple[list[str], bool]:
    """Return the hashes that a client asks for, and whether they are to be kept."""
    found = document(body, _HAVE_BYTES)
    blocks = _field(found, "blocks", list)
    if len(blocks) > _MOST_BLOCKS:
        raise InvalidInputError(f"{len(blocks)} blocks: ask for at most {_MOST_BLOCKS} at once")
    return [_locator(each).digest for each in blocks], found.get("touch") is True


def pulls(found: Any) -> list[PullItem]:
    """Return the items of a pull list."""
    if not isinstance(found, list):
        raise InvalidInputError("a pull list is an array")
    return [_pull(item) for item in found]


def _pull(item: Any) -> PullItem:
    locator = _locator(_field(item, "locator", str))
    if locator.size is None:
        raise InvalidInputError(f"{item['locator']!r} has no size: give hash+size")
    servers = _field(item, "servers", list)
    for server in servers:
        if not isinstance(server, str) or not _SERVER.fullmatch(server):
            raise InvalidInputError(f"server {server!r}: give host:port or the address of a server")
    return PullItem(locator, tuple(servers), _volume(item))


def trash(found: Any) -> tuple[list[TrashItem], float | None]:
    """Return the items of a trash list in either form, and when it ends, in seconds since 1970."""
    if isinstance(found, list):
        return [
            TrashItem(
                _locator(_field(item, "locator", str)).digest,
                _field(item, "block_mtime", int),
                _volume(item),
            )
            for item in found
        ], None
    blocks = _field(found, "trash_blocks", list)
    expires = _field(found, "expiration_time", int)
    return [TrashItem(_locator(each).digest, None, None) for each in blocks], expires


def _locator(text: Any) -> Locator:
    if not isinstance(text, str):
        raise InvalidInputError(f"{text!r} is not the locator of a block")
    return Locator.parse(text)


def _volume(item: Mapping[str, Any]) -> str | None:
    volume = item.get("mount_uuid") or None
    if not isinstance(volume, str | None):
        raise InvalidInputError(f"mount_uuid {volume!r}: give the UUID of a volume")
    return volume


def _field(item: Any, name: str, kind: type) -> Any:
    value = item.get(name) if isinstance(item, Mapping) else None
    if type(value) is not kind:
        raise InvalidInputError(f"{str(item)[:80]!r} needs {name!r}, a JSON {kind.__name__}")
    return value
