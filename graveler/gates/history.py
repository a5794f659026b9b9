"""Statistics of the files that earlier commits brought, stored by commit and prefix.

Key-value partition ``stats:<uid>``, key ``added/<commit>/<hash of the prefix>``. They need no
backup, because they can be computed again while the data exists; and they outlive the data.
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

_MOST_COMMITS: Final = 1_000

Seen = Mapping[tuple[str, str], Statistics]
"""Computed statistics, by commit and prefix."""


@dataclass(frozen=True, slots=True)
class Past:
    """The files that one commit brought below a prefix.

    Attributes:
        commit: Its id.
        created: When it was made.
        run: Key of the run that the commit published; "" if none.
        stats: Statistics of the files that the commit added or replaced.
    """

    commit: str
    created: datetime
    run: str
    stats: Statistics


def _key(commit: str, prefix: str) -> bytes:
    return f"added/{commit}/{sha256(prefix.encode()).hexdigest()[:32]}".encode()


def keep_statistics(stores: Stores, seen: Seen) -> None:
    """Store statistics that a gate has computed."""
    if seen:
        items = [(_key(*place), encode_json(found.encode())) for place, found in seen.items()]
        stores.kv.set_many(f"stats:{stores.uid}", items)


def known(stores: Stores, commit: str, prefix: str) -> Mapping[str, Any] | None:
    """Return the stored statistics of a commit's files, encoded, or None."""
    stored = stores.kv.get(f"stats:{stores.uid}", _key(commit, prefix))
    if stored is None:
        return None
    found: Mapping[str, Any] = decode_json(stored.value, "statistics")
    return found


def may_touch(commit: Commit, prefix: str) -> bool:
    """Return False if the spans of a commit show that it changed nothing below the prefix."""
    if commit.spans is None or not prefix:
        return True
    raw = path_key(prefix)
    return any(first[: len(raw)] <= raw <= last for first, last in commit.spans)


def last_touch(stores: Stores, head: str, prefixes: Sequence[str]) -> str:
    """Return the latest commit from `head` on that may have touched a prefix.

    Its id identifies the history of the prefixes: it covers all earlier commits, and no later
    commit changed anything there.
    """
    line = islice(log(stores.refs.commits, head, first_parent=True), _MOST_COMMITS)
    touching = (
        commit.id for commit in line if any(may_touch(commit, prefix) for prefix in prefixes)
    )
    return next(touching, head)
