"""A commit of given changes and nothing else: what is staged on the branch stays staged.

The tree is built off to the side and the branch moves in one compare-and-set, so the changes
are visible all together or not at all, and a process that dies before leaves nothing but bytes
that no entry names.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from graveler.committed import apply, differing_spans
from graveler.errors import NoChangesError, ThrottledError
from graveler.model import BranchRecord, Commit
from graveler.records import staged_changes
from graveler.refs import advance, backoff
from graveler.repository.reading import newest_first
from graveler.repository.stores import Stores
from graveler.repository.writing import check_fence, owned, stage

__all__ = ["commit_changes"]

_ATTEMPTS: Final = 200


def commit_changes(  # noqa: PLR0913 - the fields of a commit
    stores: Stores,
    name: str,
    *,
    fence: str,
    writes: Mapping[bytes, bytes],
    message: str,
    metadata: Mapping[str, str],
    committer: str,
) -> Commit:
    """Commit `writes` (staged forms by key) on the branch's head, whatever that is by then.

    Raises:
        NoChangesError: The head is so already.
        ProtectedBranchError: The branch takes no writes or no commits.
        FencedError: A newer attempt of the run owns the branch.
        GateFailedError: A gate that the branch requires refuses; it did not move.
    """
    if not fence:
        for action in ("write", "commit"):
            stores.refs.protection.check(name, action)
    refs, ordered = stores.refs, sorted(writes.items())
    with owned(name, fence), refs.turn(name):
        for attempt in range(_ATTEMPTS):
            record, predicate = refs.branches.get_for_update(name)
            check_fence(record, fence)
            head = refs.commits.get(record.commit_id)
            changes = staged_changes(iter(ordered))
            tree = apply(stores.ranges, head.metarange, changes, stores.splitting).metarange
            if tree == head.metarange:
                _overrule(stores, record, fence, writes)
                raise NoChangesError(f"branch {name!r}: the head has all of these changes")
            made = refs.commits.add(
                metarange=tree,
                parents=(head.id,),
                message=message,
                committer=committer,
                created=stores.clock.now(),
                metadata=metadata,
                spans=differing_spans(stores.ranges, head.metarange, tree),
            )
            if not fence:
                stores.ask_gates("commit", name, made, head)
            moved = replace(record, commit_id=made.id)
            if advance(refs, moved, predicate, action="commit"):
                _overrule(stores, record, fence, writes)
                return made
            backoff(stores.clock, stores.ids, attempt)
    raise ThrottledError(f"branch {name!r} is busy: lost {_ATTEMPTS} races; try again")


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
