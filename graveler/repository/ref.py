"""The read-only view of one commit."""

from contextlib import AbstractContextManager, nullcontext

from graveler.committed import get, scan
from graveler.model import Commit
from graveler.repository.listing import Scan, within
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
    def expression(self) -> str:
        """Id of the commit: wherever a ref is wanted, it stands for what it shows."""
        return self.commit.id

    @property
    def commit_id(self) -> str:
        """Id of the commit."""
        return self.commit.id

    def find_value(self, key: bytes) -> bytes | None:
        """Return the committed value record at the key, or None."""
        return get(self.repository.ranges, self.commit.metarange, key)

    def snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        """Give the commit's tree below `prefix`; it never changes, so nothing is copied."""
        del start
        stores, tree = self.repository, self.commit.metarange
        return nullcontext(lambda at: within(prefix, scan(stores.ranges, tree, at)))
