"""Where the catalog of a ref is in its tree: names of namespaces and tables, their folders and records.

A namespace ``db`` is the folder ``db/`` with the record ``db/_namespace.json``, and a table ``db.flights``
the folder ``db/flights/`` with the record ``db/flights/_table.json``, which points to its current
metadata, and an entry for each of its files.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.util import find_spec

from graveler.base.records import Schema
from graveler.errors import InvalidInputError, MissingDependencyError

Identifier = tuple[str, ...]
"""The names of a namespace, outermost first, or these and the name of a table."""

POINTER = "_table.json"
NAMESPACE = "_namespace.json"
ELSEWHERE = "_elsewhere"
"""The folder of a table's files that are in no folder that graveler issued."""
POINTER_TYPE = "application/vnd.graveler.table+json"

_RECORD = f"/{POINTER}".encode()
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SPECIAL = re.compile(r"[%/]|^[._]")
_ESCAPE = re.compile(r"%([0-9A-F]{2})")
_NO_NAMES = frozenset({"", ".", ".."})
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Pointer:
    """The record of a table.

    Attributes:
        uuid: The id that Iceberg gave the table.
        metadata: The address of its current metadata: a key in the repository's storage, or a URI.
    """

    uuid: str
    metadata: str


@dataclass(frozen=True, slots=True)
class Namespace:
    """The record of a namespace."""

    properties: Mapping[str, str] = field(default_factory=dict)


POINTERS = Schema(Pointer, "record of a table", states_format=True)
NAMESPACES = Schema(Namespace, "record of a namespace", states_format=True)


def folder(identifier: Identifier) -> str:
    """Return the folder of a namespace or a table, with a slash at its end; "" for no names."""
    return "".join(f"{_part(name, identifier)}/" for name in identifier)


def names_of(path: str) -> Identifier | None:
    """Return the names in ``db.flights``; None for a folder, a file, or what has one name."""
    from graveler.frames.formats import format_of

    names = tuple(path.split("."))
    plain = len(names) > 1 and all(names) and "/" not in path and format_of(path) is None
    return names if plain else None


def name_of(part: str) -> str:
    """Return the name for which a folder stands."""
    return _ESCAPE.sub(lambda found: chr(int(found[1], 16)), part)


def identifier_of(place: str) -> Identifier:
    """Return the names for which a folder stands, as `folder` made it."""
    return tuple(map(name_of, place.rstrip("/").split("/")))


def is_record(key: bytes, *values: object) -> bool:
    """Return whether a path has the record of a table in each version of it that is there."""
    known = [value for value in values if isinstance(value, bytes)]
    return key.endswith(_RECORD) and all(POINTER_TYPE.encode() in value for value in known)


def check_library() -> None:
    """Raise MissingDependencyError unless PyIceberg is installed."""
    if find_spec("pyiceberg") is None:
        raise MissingDependencyError(
            'tables of Iceberg need pyiceberg: pip install "graveler[iceberg]"'
        )


def shown(identifier: Identifier) -> str:
    """Return an identifier as messages show it."""
    return ".".join(identifier)


def _part(name: str, identifier: Identifier) -> str:
    if name in _NO_NAMES or _CONTROL.search(name):
        raise InvalidInputError(
            f"name {name!r} in {shown(identifier)!r}: give at least one character, no control "
            "characters, and not '.' or '..', which no client can send"
        )
    return _SPECIAL.sub(lambda found: f"%{ord(found[0]):02X}", name)


def path_of(table: str, address: str, start: str) -> str:
    """Return the path of the entry of a table's file.

    Args:
        table: The folder of the table.
        address: The file, as entries name it.
        start: ``tables/<storage id>/``, below which graveler issues folders.
    """
    if address.startswith(start):
        place = address.removeprefix(start).partition("/")[2]
    else:
        above, _, name = address.rpartition("/")
        place = f"{ELSEWHERE}/{sha256(above.encode()).hexdigest()[:_DIGITS]}/{name}"
    if place.rpartition("/")[2] in {"", POINTER, NAMESPACE}:
        raise InvalidInputError(f"file {address!r}: a file of a table cannot have this name")
    return table + place
