"""What earlier commits brought to a folder: statistics kept by commit and prefix.

Key-value partition ``stats:<uid>``, key ``added/<commit>/<hash of the prefix>``. They can be had
again from the data while it is there, so that they need no backup; and they outlive it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from graveler.errors import CorruptionError, NotFoundError
from graveler.gates.footers import Footer
from graveler.gates.statistics import Statistics, statistics
from graveler.model import Change, Commit, Entry
from graveler.names import path_key
from graveler.records import decode_json, encode_json
from graveler.refs import log
from graveler.repository.diffing import diff_commits
from graveler.repository.stores import Stores

__all__ = ["Past", "brought", "keep_statistics", "past", "seen_key"]

_MOST_COMMITS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Past:
    """What one commit brought below a prefix.

    Attributes:
        commit: Its id.
        created: When it was made.
        run: Key of the run that it published, "" where none.
        stats: Of the files that it added or replaced.
    """

    commit: str
    created: datetime
    run: str
    stats: Statistics


def brought(changes: Iterable[Change]) -> Iterator[Entry]:
    """Yield the files that changes add or replace."""
    for change in changes:
        if change.after is not None:
            yield change.after


def seen_key(commit: str, prefix: str) -> str:
    """Return the key of what a commit brought below a prefix."""
    return f"added/{commit}/{sha256(prefix.encode()).hexdigest()[:32]}"


def keep_statistics(stores: Stores, seen: Mapping[str, Mapping[str, Any]]) -> None:
    """Keep statistics that a gate has looked up."""
    if seen:
        items = [(key.encode(), encode_json(dict(found))) for key, found in seen.items()]
        stores.kv.set_many(f"stats:{stores.uid}", items)


def past(stores: Stores, head: Commit, prefix: str, seen: dict[str, Any]) -> Iterator[Past]:
    """Yield what each commit brought below a prefix, from `head` on along first parents.

    Args:
        stores: The repository; it is only read.
        head: Where to begin.
        prefix: Where.
        seen: What is read anew is added, to be kept.
    """
    for commit in islice(log(stores.refs.commits, head.id, first_parent=True), _MOST_COMMITS):
        if not commit.parents or not _may_touch(commit, prefix):
            continue
        found = _known(stores, commit, prefix, seen) or _read(stores, commit, prefix, seen)
        if found is not None and found.files:
            yield Past(commit.id, commit.created, commit.metadata.get("graveler.run", ""), found)


def _may_touch(commit: Commit, prefix: str) -> bool:
    """Return False where what is kept beside a commit says that it changed nothing there."""
    if commit.spans is None or not prefix:
        return True
    raw = path_key(prefix)
    return any(first[: len(raw)] <= raw <= last for first, last in commit.spans)


def _known(stores: Stores, commit: Commit, prefix: str, seen: dict[str, Any]) -> Statistics | None:
    key = seen_key(commit.id, prefix)
    if key in seen:
        return Statistics.decode(seen[key])
    stored = stores.kv.get(f"stats:{stores.uid}", key.encode())
    if stored is None:
        return None
    return Statistics.decode(decode_json(stored.value, "statistics"))


def _read(stores: Stores, commit: Commit, prefix: str, seen: dict[str, Any]) -> Statistics | None:
    footers: dict[str, Footer] = {}
    try:
        parent = stores.refs.commits.get(commit.parents[0])
        changes = diff_commits(stores, parent, commit, prefix=prefix)
        found = statistics(stores, brought(changes), footers)
    except (NotFoundError, CorruptionError):
        return None  # its data is gone, or never was what its names say: it tells nothing
    seen[seen_key(commit.id, prefix)] = found.encode()
    return found
