"""Trees with the change of some commits put on them, or taken off them."""

from collections.abc import Iterable
from typing import Literal

from graveler.committed import CONFLICT, Bases, BaseValues, Unresolved, get
from graveler.committed.diff import same_content
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.repository.merges import merge_trees


def before(stores: Stores, change: Commit) -> Commit:
    """Return the commit that the change of a commit is counted from: its first parent."""
    return stores.refs.commits.get(change.parents[0])


def put_on(stores: Stores, tree: str, changes: Iterable[Commit]) -> str:
    """Return `tree` with the changes made upon it, in their order; they have their way."""
    for change in changes:
        tree = merge_trees(
            stores,
            base=before(stores, change).metarange,
            source=change.metarange,
            dest=tree,
            strategy="source-wins",
            what=f"commit {change.id[:12]}",
        )
    return tree


def put_on_unless_changed(
    stores: Stores, tree: str, change: Commit, *, bases: Bases, target: str
) -> str:
    """Return `tree` with one change made upon it, where the target left its paths alone.

    Args:
        stores: The repository.
        tree: The target's, with other changes of the same branch upon it.
        change: A commit of the branch.
        bases: What branch and target have in common.
        target: The target's tree.

    Raises:
        MergeConflictError: The target has changed a path of it, differently.
    """
    values = BaseValues(stores.ranges, bases)

    def settle(
        key: bytes, _base: bytes | None, source: bytes | None, _dest: bytes | None
    ) -> bytes | Literal[Unresolved.CONFLICT] | None:
        then = values.at(key)
        now = get(stores.ranges, target, key)
        same = then is not CONFLICT and same_content(then, now)
        return source if same else CONFLICT

    return merge_trees(
        stores,
        base=before(stores, change).metarange,
        source=change.metarange,
        dest=tree,
        strategy=None,
        what=f"commit {change.id[:12]}",
        resolve=settle,
    )


def taken_off(stores: Stores, tree: str, changes: Iterable[Commit]) -> str:
    """Return `tree` with the changes taken back, the newest first.

    A path that a later commit has changed stays as that one left it.
    """
    for change in reversed(tuple(changes)):
        tree = merge_trees(
            stores,
            base=change.metarange,
            source=before(stores, change).metarange,
            dest=tree,
            strategy="dest-wins",
            what=f"commit {change.id[:12]} taken off",
        )
    return tree
