"""``with fs.transaction:`` makes one commit, or none."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from fsspec.transaction import Transaction

from graveler.errors import StateError
from graveler.fs.address import translated
from graveler.fs.file import GravelerFile
from graveler.fs.overlay_view import OverlayView

if TYPE_CHECKING:
    from graveler.model import Commit
    from graveler.repository.branch import Branch


def check_none_open(fs: Any) -> None:
    """Refuse a nested transaction. fsspec has one, and the end of the inner one would end both.

    Raises:
        StateError: The filesystem has an open transaction.
    """
    if fs._intrans:
        raise StateError(
            "this filesystem has an open transaction, and transactions do not nest: write in that "
            "one, or take another instance, GravelerFileSystem(…, skip_instance_cache=True)"
        )


class CommitTransaction(Transaction):  # type: ignore[misc]  # fsspec has no types
    """All writes, moves and deletions of the block become visible in one commit, or none.

    ::

        with fs.transaction(message="hour 05", metadata={"source": "bts"}) as transaction:
            fs.pipe("flights/dev/a", b"1")
            fs.rm("flights/dev/b")
        transaction.commits["flights/dev"].id

    The block reads its own writes. Each branch that it writes to gets its own commit.

    Attributes:
        commits: After the block, the commits by ``repository/branch``. Unchanged branches are
            missing.
    """

    def __init__(self, fs: object) -> None:
        super().__init__(fs)
        self.commits: dict[str, Commit] = {}
        self._message = ""
        self._metadata: dict[str, str] = {}
        self._pending: dict[str, OverlayView] = {}

    def __call__(self, *, message: str = "", metadata: Mapping[str, str] | None = None) -> Self:
        """Set message and metadata of the commit."""
        self._message, self._metadata = message, dict(metadata or {})
        return self

    def __enter__(self) -> Self:
        check_none_open(self.fs)
        super().__enter__()
        return self

    def pending(self, place: str, branch: "Branch") -> OverlayView:
        """Return the transaction's view of the branch, for reading and writing."""
        return self._pending.setdefault(place, OverlayView(branch))

    def known(self, place: str) -> OverlayView | None:
        """Return the transaction's view of the branch, or None if it has not written to it."""
        return self._pending.get(place)

    def complete(self, commit: bool = True) -> None:
        """Commit the writes, or discard them.

        Raises:
            OSError: A file is still open. Nothing is committed.
        """
        files: list[GravelerFile] = [file for file in self.files if not file.closed]
        pending, self._pending = self._pending, {}
        self.files.clear()
        try:
            for file in files:
                file.discard()
            if not commit:
                return
            if files:
                raise OSError(
                    f"{files[0].path} is still open at the end of the transaction, so nothing is "
                    "committed: close it before the block ends"
                )
            for place, changes in pending.items():
                with translated(place):
                    made = changes.commit(self._message, self._metadata)
                if made is not None:
                    self.commits[place] = made
        finally:
            if self.fs is not None:
                self.fs._intrans = False
                self.fs._transaction = None
