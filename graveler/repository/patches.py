"""A commit of given changes and nothing else: what is staged on the branch stays staged.

The branch moves in one compare-and-set, so the changes are visible all together or not at all. A
process that dies before leaves nothing but bytes that no entry names.

A staged write of one of the paths hides the commit's value of it. An older write must give way, a
newer one must not. So the live token is sealed first if it holds such writes, and the compare-and-set
that moves the branch puts a token with the commit's own values behind the sealed ones. Later writes
of other processes lie under the new live token, over both.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from graveler.committed.apply import apply
from graveler.errors import (
    NoChangesError,
    OutcomeUnknownError,
    PreconditionFailedError,
    ThrottledError,
)
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, LookAgain, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.refs import move
from graveler.refs.branches import check_fence, owned
from graveler.staging import laid_token
from graveler.values import staged_changes

_MOST_SEALED: Final = 64

_Writes = Sequence[tuple[bytes, bytes]]


def commit_changes(
    stores: Stores, name: str, spec: CommitSpec, *, fence: str, writes: Mapping[bytes, bytes]
) -> Commit:
    """Commit `writes` (staged forms by key) on the branch's head, whatever that is by then.

    Raises:
        NoChangesError: The head has all of these changes.
        ProtectedBranchError: The branch accepts no writes or no commits.
        FencedError: A newer attempt of the run owns the branch.
        GateFailedError: A gate that the branch requires refuses; the branch did not move.
        ThrottledError: 64 tokens are sealed on the branch: commit or discard what is staged.
    """
    if not fence:
        stores.refs.protection.check(name, "write")
    ordered = sorted(writes.items())
    token = ""

    def build(tip: Tip) -> BranchRecord:
        nonlocal token
        if token and token not in tip.record.sealed_tokens:
            stores.staging.drop(token)  # of a lost race
        changes = staged_changes(iter(ordered))
        applied = apply(stores.ranges, tip.head.metarange, changes, stores.splitting)
        token = _lay(stores, tip.record, ordered)
        sealed = (*tip.record.sealed_tokens, token) if token else tip.record.sealed_tokens
        if not applied.changed:
            if token:
                _replace(stores, tip, sealed)
            raise NoChangesError(f"branch {name!r}: the head has all of these changes")
        made = make_commit(stores, tree=applied.metarange, parents=(tip.head,), spec=spec)
        return replace(tip.at(made), sealed_tokens=sealed)

    _seal(stores, name, fence, ordered)
    guard = "" if fence else "commit"
    return land(stores, name, "commit", build, fence=fence, guard=guard).head


def _seal(stores: Stores, name: str, fence: str, writes: _Writes) -> None:
    """Give the branch a new live token if the present one holds older writes of these paths."""
    live = ""

    def change(record: BranchRecord) -> BranchRecord:
        nonlocal live
        check_fence(record, fence)
        live = record.staging_token
        if not _hidden(stores, (live,), writes):
            return record
        if len(record.sealed_tokens) >= _MOST_SEALED:
            raise ThrottledError(
                f"branch {name!r}: {_MOST_SEALED} tokens are sealed: commit or discard what is staged"
            )
        sealed = (*record.sealed_tokens, live)
        return replace(record, staging_token=stores.ids.unique(), sealed_tokens=sealed)

    with owned(name, fence):
        move(stores.refs, name, change, landed=lambda now: now.staging_token != live)


def _hidden(stores: Stores, tokens: Sequence[str], writes: _Writes) -> _Writes:
    """Return those of the writes that other writes under these tokens, oldest first, would hide."""
    filled = [token for token in reversed(tokens) if not stores.staging.is_empty(token)]
    if not filled:
        return ()
    return [
        (key, value)
        for key, value in writes
        if stores.staging.get(filled, key) not in {None, value}
    ]


def _lay(stores: Stores, record: BranchRecord, writes: _Writes) -> str:
    """Stage what sealed writes would hide under a token that no record names yet; "" for nothing."""
    hidden = _hidden(stores, record.sealed_tokens, writes)
    if not hidden:
        return ""
    token = laid_token(stores.ids)
    stores.staging.set_many(token, hidden)
    return token


def _replace(stores: Stores, tip: Tip, sealed: tuple[str, ...]) -> None:
    """Replace the sealed tokens of the record, without a commit."""
    record = replace(tip.record, sealed_tokens=sealed)
    try:
        stores.refs.branches.replace(record, tip.predicate)
    except (PreconditionFailedError, OutcomeUnknownError):
        raise LookAgain from None  # if it was replaced, the next try finds nothing hidden
