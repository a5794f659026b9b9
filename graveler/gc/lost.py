"""Marks whose sweep the key-value store does not know, after it was restored from a backup.

That sweep has deleted a part of what the mark condemned, and only the storage shows which. So
each record of the mark is settled by what the storage holds.
"""

from dataclasses import replace

from graveler.gc.files import FileRecord, FileRecords, FileState
from graveler.gc.marks import WAITING, Mark, Marks, MarkState
from graveler.gc.store_clock import store_now
from graveler.refs.commits import Expired
from graveler.repository import Stores


def close_lost(stores: Stores, marks: Marks, mark: Mark) -> Mark:
    """Settle what a lost mark condemned, and close it. Idempotent.

    Commits whose trees are gone expire; those whose trees exist can be named again. The next mark
    condemns the remaining files that nothing names.

    Raises:
        StateError: The mark is not one that waits, or is swept.
    """
    _settle_commits(stores, mark)
    _settle_tables(stores, mark)
    epoch = stores.refs.epochs.read()
    if epoch.mark == mark.id:
        stores.refs.epochs.end(epoch)
    now = store_now(stores.objects, stores.uid)
    closed = marks.move(
        mark.id,
        WAITING,
        lambda there: replace(there, state=MarkState.LOST, swept=now, tokens=()),
    )
    marks.forget_pages(mark.id)
    return closed


def _settle_commits(stores: Stores, mark: Mark) -> None:
    expired = stores.refs.expired
    for commit, known in list(expired.list()):
        found = expired.find(commit) if known.mark == mark.id and not known.gone else None
        if found is None or found[0] != known:
            continue
        if expired.has_tree(commit):
            expired.remove(commit, found[1])
        else:
            expired.write(commit, Expired(mark.id, known.at, gone=True), found[1])


def _settle_tables(stores: Stores, mark: Mark) -> None:
    files = FileRecords(stores.kv, stores.uid)
    for identifier, known in list(files.list()):
        found = files.find(identifier) if known.mark == mark.id else None
        if found is None or found[0] != known or known.state is FileState.DELETED:
            continue
        if stores.ranges.is_stored(identifier):
            files.remove(identifier, found[1])
        else:
            files.write(identifier, FileRecord(mark.id, FileState.DELETED), found[1])
