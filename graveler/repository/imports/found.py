"""The files of an import, as described by a listing or an inventory, and their entries."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from graveler.base.globs import compiled
from graveler.errors import InvalidInputError, PermissionDeniedError
from graveler.model import Entry
from graveler.objects.address import AddressBook, is_own, place_of
from graveler.reads.stores import undeclared
from graveler.repository.writes.links import LinkRules, Owners, checked


@dataclass(frozen=True, slots=True)
class Found:
    """A file to import.

    Attributes:
        version: The version from its store: ``etag:<ETag>`` or ``mtime:<µs>``, or "" if unknown.
    """

    address: str
    path: str
    size: int
    version: str = ""
    mtime: datetime | None = None
    checksum: str = ""
    content_type: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict)
    where: str = ""


Piece = Callable[[], Iterator[Found]]
"""Yields some of the files of a source. It can be pickled and called by another process."""


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Return whether a path below a source is one of the texts, or matches one as a pattern."""
    exact, rules = frozenset(patterns), [compiled(pattern) for pattern in patterns]
    return lambda path: path in exact or any(rule.fullmatch(path) for rule in rules)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of the files of an import.

    Attributes:
        is_listing: Whether it is a listing of a store, in which no file comes twice.
    """

    name: str
    read: Callable[[], Iterator[Found]]
    pieces: Callable[[], Sequence[Piece]]
    size: Callable[[], int] = int
    is_listing: bool = False


class Entries:
    """Makes the entries of one import. It trusts the sizes and versions of its source."""

    files = size = 0

    def __init__(self, rules: LinkRules, prefix: str) -> None:
        self._rules = rules
        self._prefix = prefix
        self._book = AddressBook(rules.storage)
        self._owners = Owners(lambda: rules.neighbours, self._book)

    def of(self, found: Found) -> Entry:
        """Return the entry of a file, with a normalized address. The file is not looked up."""
        entry = Entry(
            path=self._prefix + found.path,
            address=found.address,
            size=found.size,
            checksum=found.checksum,
            content_type=found.content_type,
            mtime=found.mtime,
            metadata=found.metadata,
            version=found.version,
        )
        try:
            entry = self._allowed(checked(entry, self._book, self._owners))
        except (InvalidInputError, PermissionDeniedError) as error:
            raise error.saying(f"{found.where}: {error}") from error
        self.files += 1
        self.size += entry.size
        return entry

    def _allowed(self, entry: Entry) -> Entry:
        """Return an entry that lies in a declared place."""
        if is_own(entry.address):
            raise InvalidInputError(
                f"entry {entry.path!r}: {entry.address!r} is in the repository's own storage: copy "
                "the entry that has it, with branch.copy(…)"
            )
        if place_of(entry.address, self._rules.places) is None:
            raise undeclared(self._rules.repository, entry.address, self._rules.places)
        return entry
