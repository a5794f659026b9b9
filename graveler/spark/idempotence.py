"""Which transactions of an application are in the history of a commit.

A commit that landed with ``txn=(app, version)`` has both in its metadata. They are looked for in
all of the history, also beyond merges of other branches, so that a version may come out of order.
What was searched once is remembered: the next search reads only the commits since.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from graveler.arguments import count, text
from graveler.errors import InvalidInputError
from graveler.model import Commit
from graveler.refs import is_ancestor, log, outside

if TYPE_CHECKING:
    from graveler.refs import Commits

_APP: Final = "txn.app"
_VERSION: Final = "txn.version"


@dataclass(frozen=True, slots=True)
class Txn:
    """The name of a transaction.

    Attributes:
        app: The application.
        version: What of its work: a day, a batch.
    """

    app: str
    version: int

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
        return {_APP: self.app, _VERSION: str(self.version)}


class Landed:
    """The transactions that the history of commits holds.

    Args:
        commits: The commits of the repository.
    """

    def __init__(self, commits: "Commits") -> None:
        self._commits = commits
        self._searched: dict[str, tuple[str, dict[str, Commit]]] = {}

    def find(self, txn: Txn, head: Commit) -> Commit | None:
        """Return the commit of a transaction, `head` or before it; None if there is none."""
        start, known = self._searched.get(txn.app, ("", {}))
        if start and is_ancestor(self._commits, start, head.id):
            history = outside(self._commits, head.id, start)
        else:
            known, history = {}, log(self._commits, head.id)
        found: dict[str, Commit] = {}
        for (
            commit
        ) in history:  # the commit on the branch comes before that of the transaction's own
            if commit.metadata.get(_APP) == txn.app:
                found.setdefault(commit.metadata.get(_VERSION, ""), commit)
        known = found | known
        self._searched[txn.app] = (head.id, known)
        return known.get(str(txn.version))
