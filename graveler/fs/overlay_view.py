"""The view of a transaction: the branch with the transaction's writes."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from graveler.base.names import check_path, path_key
from graveler.errors import NoChangesError
from graveler.model import Commit, Entry
from graveler.objects.store import Body
from graveler.reads.listing import Scan, overlay
from graveler.reads.view import View, find_value, snapshot
from graveler.repository.branch import Branch
from graveler.repository.origins import checked
from graveler.values import TOMBSTONE, decode_entry, stage_entry, staged_value


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
        """Return the value record at the key, from the transaction or else from the branch."""
        write = self._writes.get(key)
        return find_value(self.branch, key) if write is None else staged_value(write)

    @contextmanager
    def _snapshot(self, start: bytes, prefix: bytes) -> Iterator[Scan]:
        """Return the branch below `prefix` with the transaction's writes."""
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
