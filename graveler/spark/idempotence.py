"""Which transactions of an application are in the history of a commit.

A commit that landed with ``txn=(app, version)`` has both in its metadata. They are looked for in
all of the history, also beyond merges of other branches, so that a version may come out of order.
What was searched once is remembered: the next search reads only the commits since.

A commit of a batch of a streaming query also names the query. A query whose checkpoint was lost counts from
0 again, and must not take its batches for those of the earlier one. Batches of one query come in order.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graveler.arguments import count, text
from graveler.errors import CheckpointError, InvalidInputError
from graveler.model import Commit
from graveler.refs import is_ancestor, log, outside

if TYPE_CHECKING:
    from graveler.refs import Commits

NAMES: Final = "txn."
"""How the names begin of the pairs that name a transaction."""

_APP: Final = "txn.app"
_VERSION: Final = "txn.version"
_QUERY: Final = "txn.query"


@dataclass(frozen=True, slots=True)
class Txn:
    """The name of a transaction.

    Attributes:
        app: The application.
        version: What of its work: a day, a batch.
        query: The streaming query whose batch it is, by the id in its checkpoint; "" for none.
    """

    app: str
    version: int
    query: str = ""

    @classmethod
    def of(cls, pair: Any) -> "Txn":
        """Return the name that a caller gives.

        Raises:
            InvalidInputError: It is no pair of a text and a whole number.
        """
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise InvalidInputError(f"txn={pair!r}: give a pair such as ('orders', 20260103)")
        return cls(text(pair[0], "txn[0]"), count(pair[1], "txn[1]"))

    @property
    def metadata(self) -> dict[str, str]:
        """The pairs of the commit."""
        pairs = {_APP: self.app, _VERSION: str(self.version)}
        return {**pairs, _QUERY: self.query} if self.query else pairs

    def __str__(self) -> str:
        return f"txn ({self.app!r}, {self.version})"


class Landed:
    """The transactions that the history of commits holds.

    Args:
        commits: The commits of the repository.
    """

    def __init__(self, commits: "Commits") -> None:
        self._commits = commits
        self._searched: dict[str, tuple[str, dict[Txn, Commit]]] = {}

    def find(self, txn: Txn, head: Commit) -> Commit | None:
        """Return the commit of a transaction, `head` or before it; None if there is none.

        Raises:
            CheckpointError: It is the first batch of its query there, and others have landed batches by the
                same name; or it comes before the latest batch of its query.
        """
        known = self._of(txn.app, head)
        if txn.query:
            _check_order(txn, known)
            return known.get(txn)
        return next((known[one] for one in known if one.version == txn.version), None)

    def _of(self, app: str, head: Commit) -> dict[Txn, Commit]:
        """Return the transactions of an application."""
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
                # the commit on the branch comes before that of the transaction's own
                found.setdefault(txn, commit)
        known = found | known
        self._searched[app] = (head.id, known)
        return known


def _check_order(txn: Txn, known: Mapping[Txn, Commit]) -> None:
    this = f"this is batch {txn.version} of query {txn.query}"
    own = [one.version for one in known if one.query == txn.query]
    # what was landed without a query of graveler's may be of this checkpoint
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
