"""What earlier commits brought to a folder: statistics kept by commit and prefix.

Key-value partition ``stats:<uid>``, key ``added/<commit>/<hash of the prefix>``. They can be had
again from the data while it is there, so that they need no backup; and they outlive it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from graveler.gates.statistics import Statistics
from graveler.model import Commit
from graveler.names import path_key
from graveler.records import decode_json, encode_json
from graveler.refs import log
from graveler.repository.stores import Stores

__all__ = ["Past", "Seen", "keep_statistics", "known", "last_touch", "may_touch"]

_MOST_COMMITS: Final = 1_000

Seen = Mapping[tuple[str, str], Statistics]
"""Statistics that were looked up, by commit and prefix."""


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


def _key(commit: str, prefix: str) -> bytes:
    return f"added/{commit}/{sha256(prefix.encode()).hexdigest()[:32]}".encode()


def keep_statistics(stores: Stores, seen: Seen) -> None:
    """Keep statistics that a gate has looked up."""
    if seen:
        items = [(_key(*place), encode_json(found.encode())) for place, found in seen.items()]
        stores.kv.set_many(f"stats:{stores.uid}", items)


def known(stores: Stores, commit: str, prefix: str) -> Mapping[str, Any] | None:
    """Return the encoded statistics that are kept of what a commit brought, None where none are."""
    stored = stores.kv.get(f"stats:{stores.uid}", _key(commit, prefix))
    if stored is None:
        return None
    found: Mapping[str, Any] = decode_json(stored.value, "statistics")
    return found


def may_touch(commit: Commit, prefix: str) -> bool:
    """Return False where what is kept beside a commit says that it changed nothing there."""
    if commit.spans is None or not prefix:
        return True
    raw = path_key(prefix)
    return any(first[: len(raw)] <= raw <= last for first, last in commit.spans)


def last_touch(stores: Stores, head: str, prefixes: Sequence[str]) -> str:
    """Return the latest commit from `head` on that may have touched a prefix.

    It stands for the history of the prefixes: what lies before it is named by its id, and no
    later commit brought anything there.
    """
    line = islice(log(stores.refs.commits, head, first_parent=True), _MOST_COMMITS)
    touching = (
        commit.id for commit in line if any(may_touch(commit, prefix) for prefix in prefixes)
    )
    return next(touching, head)
