"""What tables are read from and written to: the protocols of trees."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from graveler.model import Entry

if TYPE_CHECKING:
    from graveler.reads.stores import Stores


class View(Protocol):
    """Something to read from: a ref, a branch, a run, a step, a gate's candidate."""

    @property
    def repository(self) -> "Stores":
        """The stores of the repository."""

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the entries below `prefix`, in byte order of their paths."""

    def stat(self, path: str) -> Entry:
        """Return the entry at `path`, or raise ObjectNotFoundError."""

    def get_many(self, paths: Iterable[Entry]) -> Iterator[tuple[Entry, bytes]]:
        """Yield each entry with the bytes of its file, which are verified."""

    def read_range(self, path: Entry, start: int, length: int) -> bytes:
        """Return at most `length` bytes of an entry's file, from `start` on."""

    def uri(self, entry: Entry) -> str:
        """Return the physical URI of an entry's file."""


class Target(View, Protocol):
    """Something to write to: a branch, a run, a step."""

    @property
    def _unrecorded(self) -> View:
        """A view whose reads are not inputs of a run, for reads that only serve a write."""

    def put(
        self,
        path: str,
        body: Path,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Entry:
        """Store a file and stage its entry."""

    def new_address(self) -> str:
        """Return a new key prefix in the repository's storage, to write files below."""

    def _link_written(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that were just written below an address and listed."""

    def delete_many(self, paths: Iterable[str]) -> int:
        """Stage the removal of paths."""
