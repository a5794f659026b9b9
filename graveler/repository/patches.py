"""A commit of only the given changes: staged writes of the branch stay staged.

The branch moves in one compare-and-set, so the changes become visible together or not at all. A
process that dies before that leaves only bytes that no entry names.

A staged write of one of the paths hides the commit's value of the path. An older write must give way,
and a newer one must not. The live token is therefore sealed first if it holds such writes. The
compare-and-set that moves the branch makes the writes under sealed tokens void, as a commit of some
paths does. Later writes of other processes are under the new live token, above both.
"""

from collections.abc import Mapping
from dataclasses import replace

from graveler.committed.apply import apply
from graveler.committed.claims import claims_of
from graveler.errors import NoChangesError
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, claims_after, keep_head, land, make_commit
from graveler.publishing.tables import Watch, noted
from graveler.reads.stores import Stores
from graveler.repository import unfinished
from graveler.repository.bundles import seal
from graveler.repository.selective import GivingWay
from graveler.values import staged_changes


def commit_changes(
    stores: Stores, name: str, spec: CommitSpec, *, fence: str, writes: Mapping[bytes, bytes]
) -> Commit:
    """Commit `writes` (staged forms by key) on the current head of the branch."""
    unfinished.check(stores, name, fence, lambda key: key not in writes)
    if not fence:
        stores.refs.protection.check(name, "write")
    keys = sorted(writes)
    older = GivingWay(stores, name, lambda tokens: stores.staging.get_many(tokens, keys).items())

    def build(tip: Tip) -> BranchRecord | None:
        tables = Watch()
        changes = tables.of(staged_changes((key, writes[key]) for key in keys))
        applied = apply(stores.ranges, tip.head.metarange, changes, stores.splitting)
        record = older.beneath_voids(tip.record, tip.record.sealed_tokens)
        claims = claims_after(stores, (name, fence, spec), tip.head, applied.metarange, keys)
        if applied.changed or claims != claims_of(tip.head):
            named = noted(spec, tables.check(stores, tip.head, applied.metarange))
            made = make_commit(
                stores, tree=applied.metarange, parents=(tip.head,), spec=named, claims=claims
            )
            return replace(record, commit_id=made.id)
        if record != tip.record:
            keep_head(stores, record, tip.predicate)
        return None

    seal(stores, name, fence, keys=keys)
    guard = "" if fence else "commit"
    landed = land(stores, name, "commit", build, fence=fence, guard=guard)
    older.clear()
    unfinished.settle(stores, name, fence, keys)
    if landed.commit is None:
        raise NoChangesError(f"branch {name!r}: the head has all of these changes")
    return landed.commit
