"""The read-only view of one commit."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from graveler.committed import get, scan
from graveler.errors import CorruptionError
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
        with self._readable():
            return get(self.repository.ranges, self.commit.metarange, key)

    def snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        """Give the commit's tree below `prefix`; it never changes, so nothing is copied."""
        del start
        return nullcontext(lambda at: self._scan(at, prefix))

    def _scan(self, start: bytes, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self._readable():
            tree = scan(self.repository.ranges, self.commit.metarange, start)
            yield from within(prefix, tree)

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Tell a tree that garbage collection removes while it is read from a damaged one."""
        try:
            yield
        except CorruptionError:
            self.repository.refs.expired.check_readable(self.commit.id)
            raise
