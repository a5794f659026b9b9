"""The read-only view of one commit."""

from collections.abc import Iterator

from graveler.committed import get, scan
from graveler.model import Commit
from graveler.repository.listing import within
from graveler.repository.stores import Stores
from graveler.repository.view import View

__all__ = ["Ref"]


class Ref(View):
    """A tree as one commit holds it; it never changes, whatever happens to the branch.

    Attributes:
        commit: The commit.
    """

    def __init__(self, repository: Stores, commit: Commit, *, name: str = "") -> None:
        self.repository = repository
        self.commit = commit
        self._name = name or commit.id[:12]

    def __repr__(self) -> str:
        return f"<Ref {self._name} = {self.commit.id[:12]} of {self.repository.name}>"

    @property
    def name(self) -> str:
        """The expression it was made of."""
        return self._name

    @property
    def commit_id(self) -> str:
        """Id of the commit."""
        return self.commit.id

    def find_value(self, key: bytes) -> bytes | None:
        """Return the committed value record at the key, or None."""
        return get(self.repository.ranges, self.commit.metarange, key)

    def scan_values(self, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield committed (key, value record) from `start` on below `prefix`."""
        return within(prefix, scan(self.repository.ranges, self.commit.metarange, start))
