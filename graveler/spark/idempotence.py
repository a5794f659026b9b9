"""The transactions of an application in the history of a commit.

A commit that landed with ``txn=(app, version)`` has both in its metadata; versions may come in any order.
A commit of a streaming batch also names the query, because a query that lost its checkpoint counts from
0 again. Searched commits are remembered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graveler.base.arguments import count, text
from graveler.errors import CheckpointError, InvalidInputError
from graveler.model import Commit
from graveler.refs.history import is_ancestor, log, outside

if TYPE_CHECKING:
    from graveler.refs.commits import Commits

NAMES = "txn."
"""Prefix of the metadata names that identify a transaction."""

_APP = "txn.app"
_VERSION = "txn.version"
_QUERY = "txn.query"


@dataclass(frozen=True, slots=True)
class Txn:
    """The name of a transaction."""

    app: str
    version: int
    query: str = ""

    @classmethod
    def of(cls, pair: Any) -> "Txn":
        """Return the name that a caller gives."""
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInputError(f"txn={pair!r}: give a pair such as ('orders', 20260103)")
        return cls(text(pair[0], "txn[0]"), count(pair[1], "txn[1]"))

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata of the commit."""
        pairs = {_APP: self.app, _VERSION: str(self.version)}
        return {**pairs, _QUERY: self.query} if self.query else pairs

    def __str__(self) -> str:
        return f"txn ({self.app!r}, {self.version})"


class Landed:
    """The transactions that the history of commits holds."""

    def __init__(self, commits: "Commits") -> None:
        self._commits = commits
        self._searched: dict[str, tuple[str, dict[Txn, Commit]]] = {}

    def find(self, txn: Txn, head: Commit) -> Commit | None:
        """Return the commit of a transaction, `head` or an ancestor; None if there is none."""
        known = self._of(txn.app, head)
        if txn.query:
            _check_order(txn, known)
            return known.get(txn)
        return next((known[one] for one in known if one.version == txn.version), None)

    def _of(self, app: str, head: Commit) -> dict[Txn, Commit]:
        start, known = self._searched.get(app, ("", {}))
        if start and is_ancestor(self._commits, start, head.id):
            history = outside(self._commits, head.id, start)
        else:
            known, history = {}, log(self._commits, head.id)
        found: dict[Txn, Commit] = {}
        for commit in history:
            version = commit.metadata.get(_VERSION, "")
            if commit.metadata.get(_APP) == app and version.isdecimal():
                txn = Txn(app, int(version), commit.metadata.get(_QUERY, ""))
                # the commit on the branch takes precedence over the transaction's own commit
                found.setdefault(txn, commit)
        known = found | known
        self._searched[app] = (head.id, known)
        return known


def _check_order(txn: Txn, known: Mapping[Txn, Commit]) -> None:
    this = f"this is batch {txn.version} of query {txn.query}"
    own = [one.version for one in known if one.query == txn.query]
    # a batch that landed without a query id may be of this checkpoint
    others = [one for one in known if one.query or one.version >= txn.version]
    if not own and others:
        last = max(others, key=lambda one: one.version)
        whose = f"of streaming query {last.query}" if last.query else "of no streaming query"
        raise CheckpointError(
            f"batch {last.version} of txn_app {txn.app!r} is in commit {known[last].id[:12]}, {whose}, and "
            f"{this}: was the checkpoint deleted, or the name used twice? Nothing has landed. Restore "
            "the checkpoint of that query, or give another txn_app: then everything that the new query "
            "reads lands, also what has landed before"
        )
    if own and txn.version < max(own):
        last = Txn(txn.app, max(own), txn.query)
        raise CheckpointError(
            f"batch {last.version} of txn_app {txn.app!r} is in commit {known[last].id[:12]}, and {this}: "
            "the checkpoint is older than the branch, or a second driver runs the query. Nothing has "
            "landed. Restore a checkpoint that is as new as the branch, or start with a new one and "
            "another txn_app"
        )
