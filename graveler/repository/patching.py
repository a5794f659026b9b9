"""A commit of given changes and nothing else: what is staged on the branch stays staged.

The tree is built off to the side and the branch moves in one compare-and-set, so the changes
are visible all together or not at all, and a process that dies before leaves nothing but bytes
that no entry names.
"""

from collections.abc import Mapping

from graveler.committed import apply
from graveler.errors import InternalError, NoChangesError
from graveler.model import BranchRecord, Commit
from graveler.records import staged_changes
from graveler.repository.landing import CommitSpec, Tip, land, make_commit
from graveler.repository.reading import newest_first
from graveler.repository.stores import Stores
from graveler.repository.writing import stage

__all__ = ["commit_changes"]


def commit_changes(
    stores: Stores, name: str, spec: CommitSpec, *, fence: str, writes: Mapping[bytes, bytes]
) -> Commit:
    """Commit `writes` (staged forms by key) on the branch's head, whatever that is by then.

    Raises:
        NoChangesError: The head is so already.
        ProtectedBranchError: The branch takes no writes or no commits.
        FencedError: A newer attempt of the run owns the branch.
        GateFailedError: A gate that the branch requires refuses; it did not move.
    """
    if not fence:
        stores.refs.protection.check(name, "write")
    ordered = sorted(writes.items())

    def build(tip: Tip) -> BranchRecord:
        changes = staged_changes(iter(ordered))
        applied = apply(stores.ranges, tip.head.metarange, changes, stores.splitting)
        if not applied.changed:
            _overrule(stores, tip.record, fence, writes)
            raise NoChangesError(f"branch {name!r}: the head has all of these changes")
        return tip.at(make_commit(stores, tree=applied.metarange, parents=(tip.head,), spec=spec))

    guard = "" if fence else "commit"
    landed = land(stores, name, "commit", build, fence=fence, guard=guard)
    if landed.commit is None:
        raise InternalError(f"branch {name!r}: a commit of given changes landed nothing")
    _overrule(stores, landed.tip.record, fence, writes)
    return landed.commit


def _overrule(
    stores: Stores, record: BranchRecord, fence: str, writes: Mapping[bytes, bytes]
) -> None:
    """Stage again what older staged writes of the same paths would hide."""
    tokens = [token for token in newest_first(record) if not stores.staging.is_empty(token)]
    if not tokens:
        return
    hidden = [
        (key, value)
        for key, value in writes.items()
        if stores.staging.get(tokens, key) not in {None, value}
    ]
    if hidden:
        stage(stores, record.name, fence, hidden)
