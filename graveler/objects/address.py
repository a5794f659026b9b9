"""Addresses and keys. Each input is normalized, so that equal text means the same file.

The address of a file in the repository's own storage is its key, ``data/…``, that of any other file
a URI. Local paths are resolved; an S3 key stays unchanged, because two spellings name two objects.
"""

import os
import re
from collections.abc import Iterable
from posixpath import normpath
from urllib.parse import unquote

from graveler.errors import InvalidInputError
from graveler.objects.store import check_key, is_key

# pathlib takes three times as long, and a call has up to 100,000 addresses
# ruff: noqa: PTH114, PTH116, PTH120


DATA = "data/"
TABLES = "tables/"
FILES = (DATA, TABLES)
"""The folders of the files of entries in a repository's storage: what graveler writes, or lets others
write below an address of its own, and what engines write as the files of tables."""

LONGEST_SUFFIX = 24
"""The maximum length of the extensions in the key of a file."""

_UNIQUE = re.compile(
    rf"[0-9a-f]{{32}}((?=.{{0,{LONGEST_SUFFIX}}}\Z)(\.[0-9a-z]*){{0,2}}|/.+)", re.DOTALL
)
_TABLE = re.compile(
    r"_graveler/([0-9a-f]{64}|gc/[^/]+/(clock|addresses/[0-9a-f]{64}|[^/]+/[a-z]+-[0-9]{6,}))"
)
_OLD = "o"
_OF_A_STORAGE = re.compile(r"/(_graveler/|(data|tables)/([os][0-9a-f]{16}/)?[0-9a-f]{32})")
_FILE = "file://"
_ALIASES = {"s3a": "s3", "s3n": "s3"}
_LOCAL_HOST = "localhost/"
_NO_FILE = frozenset({"", ".", ".."})

_Inode = tuple[int, int]


def storage_id(uid: str, *, old: bool = False) -> str:
    """Return the id of the storage that a repository begins.

    Args:
        old: Whether version 0.2 began it. Its first files then have addresses without the id.
    """
    return f"{_OLD if old else 's'}{uid[-16:]}"


def is_old_storage(identifier: str) -> bool:
    """Return whether version 0.2 began the storage of this id."""
    return identifier.startswith(_OLD)


def is_made_for(identifier: str, key: str) -> bool:
    """Return whether graveler made the key of a file for the storage of this id."""
    starts = (f"{folder}{identifier}/" for folder in FILES)
    return any(key.startswith(start) and _is_unique(key, len(start)) for start in starts)


def is_table(key: str) -> bool:
    """Return whether a key is that of a table, or of a file of garbage collection."""
    return _TABLE.fullmatch(key) is not None


def is_old(key: str) -> bool:
    """Return whether a key has the form in which version 0.2 named the files of all storages."""
    return key.startswith(DATA) and _is_unique(key, len(DATA))


def _is_unique(key: str, start: int) -> bool:
    """Return whether the rest of a key is unique, and not in a storage below the file's folder."""
    unique = _UNIQUE.fullmatch(key, start) is not None
    return unique and _OF_A_STORAGE.search(key) is None and is_key(key)


def is_own(address: str | bytes) -> bool:
    """Return whether a stored address, text or UTF-8, is a key in the repository's own storage."""
    return (b"://" if isinstance(address, bytes) else "://") not in address  # type: ignore[operator]


def place_of(uri: str, places: Iterable[str]) -> str | None:
    """Return the innermost of the places that contain a file. All are normalized."""
    return max((place for place in places if uri.startswith(f"{place}/")), key=len, default=None)


def root_of(place: str) -> str:
    """Return the URI with which the store of a place is opened."""
    return "file:///" if place == _FILE else place


def linked_root(place: str) -> str:
    """Return the URI with which the store of a declared place is opened for its linked files."""
    root = root_of(place)
    return root.replace("file:", "linked:", 1) if root.startswith(_FILE) else root


class AddressBook:
    """Normalizes addresses, and remembers the folders that it has resolved."""

    def __init__(self, root: str) -> None:
        self._folders: dict[str, str] = {}
        self._above: dict[str, dict[_Inode, str]] = {}
        self._inodes: dict[str, _Inode | None] = {}
        self.root = self.place(root)

    def stored_form(self, address: str) -> str:
        """Return the key of an own file, or the URI of another file."""
        if not address:
            raise InvalidInputError("address '': give a full URI, or a key below data/")
        if "://" not in address and not address.startswith(("/", "file:")):
            return self._own(address, address)
        uri = self.uri(address)
        key = self.key_below(self.root, uri)
        if key is not None:
            return self._own(address, key)
        self._refuse_unusual(address, uri)
        return uri

    def uri(self, address: str) -> str:
        """Return the normalized form of a full URI or an absolute path that names a file."""
        scheme, rest = _parts(address)
        if scheme == "file":
            return _FILE + self._resolved(address, _local(address, rest))
        if not rest.partition("/")[2] or rest.endswith("/"):
            raise InvalidInputError(f"address {address!r} names no file")
        return f"{scheme}://{rest}"

    def place(self, address: str) -> str:
        """Return the normalized form of a folder or prefix, without a slash at the end."""
        scheme, rest = _parts(address)
        if scheme == "file":
            return _FILE + os.path.realpath(_local(address, rest)).rstrip("/")
        if not rest.strip("/"):
            raise InvalidInputError(f"place {address!r} names no bucket: give s3://bucket/prefix")
        return f"{scheme}://{rest}".rstrip("/")

    def key_below(self, place: str, uri: str) -> str | None:
        """Return the key of a file below a place, or None. Both URIs are normalized."""
        if uri.startswith(place + "/"):
            return uri[len(place) + 1 :]
        if place.startswith(_FILE) and uri.startswith(_FILE):
            # the same folder may be mounted twice
            folder, _, name = uri.removeprefix(_FILE).rpartition("/")
            inode = self._inode(place.removeprefix(_FILE))
            above = None if inode is None else self._folders_above(folder).get(inode)
            if above is not None:
                return f"{folder[len(above) :].lstrip('/')}/{name}".lstrip("/")
        return None

    def _own(self, address: str, key: str) -> str:
        if key.startswith(FILES) and normpath(key) == key:
            check_key(key)
            return key
        for text in (key, unquote(key)):
            plain = normpath(text.lstrip("/"))
            if plain.startswith(FILES):
                raise InvalidInputError(
                    f"address {address!r} is an unusual spelling of a file in the repository's own "
                    f"storage: give it as {plain!r}"
                )
        raise InvalidInputError(
            f"address {address!r} is neither a full URI of a file outside of the repository's "
            f"storage {self.root} nor a key below its {' or '.join(FILES)}"
        )

    def _refuse_unusual(self, address: str, uri: str) -> None:
        """Refuse an address that some programs, but not the store, take for an own file."""
        scheme, _, rest = uri.partition("://")
        if scheme == "file":
            return  # a resolved path has no other spelling
        for text in {rest, unquote(rest)}:
            key = self.key_below(self.root, f"{scheme}://{normpath(text)}")
            if key is not None:
                self._own(address, f"/{key}")

    def _resolved(self, address: str, path: str) -> str:
        if "%" in path and not os.path.lexists(path):
            plain = unquote(path)  # as pathlib writes URIs
            path = plain if os.path.lexists(plain) else path
        folder, name = os.path.split(path)
        if name in _NO_FILE:
            raise InvalidInputError(f"address {address!r} names no file")
        resolved = self._folders.get(folder)
        if resolved is None:
            resolved = self._folders[folder] = os.path.realpath(folder).rstrip("/")
        file = f"{resolved}/{name}"
        return os.path.realpath(file) if os.path.islink(file) else file

    def _folders_above(self, folder: str) -> dict[_Inode, str]:
        """Return a folder and the folders above it, by inode."""
        known = self._above.get(folder)
        if known is None:
            above = [folder]
            while above[-1].strip("/"):
                above.append(os.path.dirname(above[-1]))
            inodes = ((self._inode(upper), upper) for upper in reversed(above))
            known = {inode: upper for inode, upper in inodes if inode is not None}
            self._above[folder] = known
        return known

    def _inode(self, folder: str) -> _Inode | None:
        if folder not in self._inodes:
            try:
                status = os.stat(folder or "/")
            except OSError:
                self._inodes[folder] = None
            else:
                self._inodes[folder] = status.st_dev, status.st_ino
        return self._inodes[folder]


def _parts(address: str) -> tuple[str, str]:
    """Return the scheme, without aliases, and the rest of an address."""
    try:
        address.encode()
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"address {address!r} cannot be encoded in UTF-8") from error
    if "\0" in address:
        raise InvalidInputError(f"address {address!r} holds a NUL: leave it out")
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = "file", address.removeprefix("file:")
    scheme = scheme.lower()
    return _ALIASES.get(scheme, scheme), rest


def _local(address: str, rest: str) -> str:
    rest = rest.removeprefix(_LOCAL_HOST[:-1]) if rest.startswith(_LOCAL_HOST) else rest
    if not rest.startswith("/"):
        raise InvalidInputError(
            f"address {address!r} names a host, or no absolute path: give the whole path, as in "
            "file:///data/input"
        )
    return rest
