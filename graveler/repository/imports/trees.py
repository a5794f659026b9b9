"""Imports that build a tree apart from the branch and land it in one commit."""

from collections.abc import Callable

from graveler.base.telemetry import COMMIT
from graveler.committed.apply import Applied
from graveler.errors import NoChangesError, StateError
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, claims_after, land, look, make_commit
from graveler.publishing.tracing import traced
from graveler.reads.listing import within
from graveler.reads.stores import Stores
from graveler.reads.view import newest_first

BuildTree = Callable[[str], Applied]
"""Applies the import to the tree of a metarange id. It runs again if the branch has moved."""


def land_tree(
    stores: Stores, name: str, spec: CommitSpec, build: BuildTree, *, prefix: bytes, fence: str = ""
) -> Commit:
    """Commit the tree that an import makes from the head.

    Args:
        build: Makes the tree. On return all of it is in the store.
        prefix: The start of the keys that the import writes.
        fence: The fence of the run that owns the branch, or "" for a user's branch.
    """

    def make(tip: Tip) -> BranchRecord:
        if tip.rules is not None:
            tip.rules.check(name, "write")
        _check_unstaged(stores, tip.record, prefix)
        applied = build(tip.head.metarange)
        if not applied.changed:
            raise NoChangesError(f"branch {name!r}: the head has all of the import already")
        tree = applied.metarange
        claims = claims_after(stores, (name, fence, spec), tip.head, tree)
        made = make_commit(stores, tree=tree, parents=(tip.head,), spec=spec, claims=claims)
        return tip.at(made)

    with traced(stores, COMMIT, {"vcs.ref.head.name": name}) as work:
        first = look(stores, name, fence=fence, rules=not fence)
        guard = "" if fence else "commit"
        landed = land(stores, name, "commit", make, fence=fence, guard=guard, first=first)
        work.end(landed.head, landed=True)
        return landed.head


def _check_unstaged(stores: Stores, record: BranchRecord, prefix: bytes) -> None:
    """Refuse staged writes below the import's prefix, because they would hide the import."""
    staged = stores.staging.scan(newest_first(record), prefix)
    for key, _ in within(prefix, staged):
        raise StateError(
            f"branch {record.name!r} has a staged write of {key.decode()!r}, below the folder of the "
            "import, which would hide it: commit it or discard it first"
        )
