"""What a merge of two commits starts from: their best common ancestors, and what is below these."""

from collections.abc import Iterable

from graveler.committed import EMPTY_METARANGE, Base, Bases
from graveler.model import Commit
from graveler.refs import merge_bases
from graveler.repository.stores import Stores

__all__ = ["find_bases"]


def find_bases(stores: Stores, source: Commit, dest: Commit) -> Bases | None:
    """Return the bases of a merge of the two, or None where they have no history in common.

    Raises:
        ExpiredError: Garbage collection removed the tree of one that must be read.
    """
    history = _History(stores, (source, dest))
    best = history.bases((source.id,), dest.id)
    return Bases(best, history.bases) if best else None


class _History:
    """The commits that one merge looks at; each is looked up once among the expired ones."""

    def __init__(self, stores: Stores, sides: Iterable[Commit]) -> None:
        self._stores = stores
        # nothing of a base is opened where a side has its tree, and that one's is there
        self._trees = {EMPTY_METARANGE, *(side.metarange for side in sides)}

    def bases(self, commits: tuple[str, ...], other: str) -> tuple[Base, ...]:
        found = merge_bases(self._stores.refs.commits, commits, other)
        return tuple(self._base(commit) for commit in found)

    def _base(self, commit: Commit) -> Base:
        if commit.metarange not in self._trees:
            self._stores.refs.expired.check_readable(commit.id)
            self._trees.add(commit.metarange)
        return Base(commit.id, commit.metarange)
