"""``with fs.transaction:`` makes one commit, or none."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

from fsspec.transaction import Transaction

from graveler.base.names import check_path, path_key
from graveler.errors import NoChangesError, StateError
from graveler.fs.address import translated
from graveler.fs.file import GravelerFile
from graveler.model import Commit, Entry
from graveler.objects.store import Body
from graveler.reads.listing import Scan, overlay
from graveler.reads.view import View, find_value, snapshot
from graveler.repository.branch import Branch
from graveler.repository.origins import checked
from graveler.values import TOMBSTONE, decode_entry, stage_entry, staged_value


def check_none_open(fs: Any) -> None:
    """Refuse a nested transaction. fsspec has one, and the end of the inner one would end both."""
    if fs._intrans:
        raise StateError(
            "this filesystem has an open transaction, and transactions do not nest: write in that "
            "one, or take another instance, GravelerFileSystem(…, skip_instance_cache=True)"
        )


class OverlayView(View):
    """The branch of a transaction with the transaction's writes.

    Bytes are stored at once. Their entries stay in this view until the transaction commits.
    """

    def __init__(self, branch: Branch) -> None:
        self.repository = branch.repository
        self.branch = branch
        self._writes: dict[bytes, bytes] = {}

    @property
    def name(self) -> str:
        """Name of the branch."""
        return self.branch.name

    def _find_value(self, key: bytes) -> bytes | None:
        write = self._writes.get(key)
        return find_value(self.branch, key) if write is None else staged_value(write)

    @contextmanager
    def _snapshot(self, start: bytes, prefix: bytes) -> Iterator[Scan]:
        writes = list(self._writes.items())  # a copy, because other threads may write meanwhile
        ours = sorted(item for item in writes if item[0].startswith(prefix))
        with snapshot(self.branch, start, prefix) as scan:
            yield Scan(
                lambda start: overlay((item for item in ours if item[0] >= start), scan(start)),
                origin=self.name,
            )

    def put(self, path: str, body: Body) -> Entry:
        """Store bytes that will be committed at `path`."""
        entry = self.branch.store(path, body)
        self.link_many([entry])
        return entry

    def link_many(self, entries: Iterable[Entry]) -> int:
        """Keep entries for the commit. Return their number."""
        count = 0
        for count, entry in enumerate(checked(self.repository, self.name, entries), 1):  # noqa: B007 - only the count is used
            key = check_path(entry.path)
            self._writes[key] = stage_entry(key, entry)
        return count

    def delete_many(self, paths: Iterable[str]) -> int:
        """Keep deletions for the commit. Return the number of paths."""
        keys = [path_key(path) for path in paths]
        self._writes.update(dict.fromkeys(keys, TOMBSTONE))
        return len(keys)

    def commit(self, message: str, metadata: dict[str, str]) -> Commit | None:
        """Commit all writes in one commit. Return it, or None if nothing changes."""
        entries, deleted = [], []
        for key, write in self._writes.items():
            value = staged_value(write)
            if value is None:
                deleted.append(key.decode())
            else:
                entries.append(decode_entry(key, value))
        if not self._writes:
            return None
        try:
            return self.branch.commit_changes(
                entries,
                deleted=deleted,
                message=message or self._default_message(),
                metadata=metadata,
            )
        except NoChangesError:
            return None

    def _default_message(self) -> str:
        count = len(self._writes)
        first = min(self._writes).decode()
        return f"write {first}" if count == 1 else f"write {count} files ({first}, …)"


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
