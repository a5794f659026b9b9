"""What reading and writing need of a view and of a branch."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from graveler.model import Entry

if TYPE_CHECKING:
    from graveler.repository.stores import Stores

__all__ = ["Target", "View"]


class View(Protocol):
    """Something to read from: a ref, a branch, a run, a step, a gate's candidate."""

    repository: "Stores"

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """Yield the entries below `prefix`, in byte order of their paths."""

    def stat(self, path: str) -> Entry:
        """Return the entry at `path`, or raise ObjectNotFoundError."""

    def uri(self, entry: Entry) -> str:
        """Return the physical URI of an entry's file."""


class Target(View, Protocol):
    """Something to write to: a branch, a run, a step."""

    def new_address(self) -> str:
        """Return a fresh key prefix in the repository's storage, to write files below."""

    def _link_written(self, entries: Iterable[Entry]) -> int:
        """Stage entries of files that were just written below an address, and listed."""

    def delete_many(self, paths: Iterable[str]) -> int:
        """Stage the removal of paths."""
