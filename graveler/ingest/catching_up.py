"""Bringing an ingestion branch up to its target, by a merge that changes nothing there.

Wanted where the target was changed in what the branch has written or is about to write again:
by a release from quarantine, or by a revert. Without it a path that the branch writes anew would
conflict with it. And once in a while, lest the two grow so far apart that to find what they have
in common takes long.
"""

from typing import Final

from graveler.ingest.line import CAUGHT_UP, INGEST
from graveler.model import BranchRecord
from graveler.refs import is_ancestor, line_outside
from graveler.repository.bases import find_bases
from graveler.repository.landing import CommitSpec, Tip, land, make_commit
from graveler.repository.merging import merge_trees
from graveler.repository.stores import Stores

__all__ = ["FAR", "catch_up", "is_behind"]

FAR: Final = 250
"""Generations between branch and target, from which on the branch is brought up to it."""
_REVERT: Final = "graveler.revert"


def is_behind(stores: Stores, branch: str, into: str) -> bool:
    """Return whether the target has gone far ahead of the branch, or something was reverted."""
    commits = stores.refs.commits
    head, target = (
        commits.get(stores.refs.branches.get(name).commit_id) for name in (branch, into)
    )
    if target.generation - head.generation > FAR:
        return True
    line = line_outside(commits, target.id, head.id)
    return any(_REVERT in commit.metadata for commit in line)


def catch_up(stores: Stores, branch: str, into: str) -> None:
    """Merge the target's head into the branch, if it is not there; what is staged stays staged.

    Where both changed a path the branch has its way: its own version is the later one, and is
    judged when it is published.
    """
    refs = stores.refs

    def build(tip: Tip) -> BranchRecord | None:
        target = refs.commits.get(refs.branches.get(into).commit_id)
        if is_ancestor(refs.commits, target.id, tip.head.id):
            return None
        bases = find_bases(stores, target, tip.head)
        if bases is None:
            return None  # no history in common: publishing reports it
        tree = merge_trees(
            stores,
            base=bases,
            source=target.metarange,
            dest=tip.head.metarange,
            strategy="dest-wins",
            what=f"{into} into {branch}",
        )
        spec = CommitSpec(f"{branch} caught up with {into}", {INGEST: branch, CAUGHT_UP: target.id})
        return tip.at(make_commit(stores, tree=tree, parents=(tip.head, target), spec=spec))

    land(stores, branch, "merge", build)
