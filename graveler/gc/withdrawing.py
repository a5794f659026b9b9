"""Taking back what a mark has condemned, as far as no sweep has begun with it."""

from graveler.gc.files import FileRecords, FileState
from graveler.repository import Stores

__all__ = ["withdraw"]


def withdraw(stores: Stores, mark: str) -> None:
    """Remove the records by which `mark` condemned tables and commits; may be repeated."""
    files = FileRecords(stores.kv, stores.uid)
    for identifier, record in list(files.list()):
        if record.mark == mark:
            found = files.find(identifier)
            if found is not None and found[0] == record and record.state is FileState.CONDEMNED:
                files.remove(identifier, found[1])
    expired = stores.refs.expired
    for commit, known in list(expired.list()):
        if known.mark == mark and not known.gone:
            there = expired.find(commit)
            if there is not None and there[0] == known:
                expired.remove(commit, there[1])
