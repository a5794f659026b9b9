"""Bringing an ingestion branch up to its target, by a merge that changes nothing there.

A release from quarantine or a revert changes the target in what the branch has written. Without
this merge, a path that the branch writes again conflicts with that change. The merge is also made
when the two are far apart, so that finding what they have in common stays cheap.
"""

from typing import Final

from graveler.ingest.line import CAUGHT_UP, INGEST, TARGET
from graveler.model import BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.refs import is_ancestor, line_outside
from graveler.repository.merges import find_bases, merge_trees

FAR: Final = 250
"""Commits of the target, or generations, after which the branch is brought up to it."""
_REVERT: Final = "graveler.revert"


def is_behind(stores: Stores, branch: str, target: Commit) -> bool:
    """Return whether the target has gone far ahead of the branch, or something was reverted there.

    The newest commit of the branch names the head of its target at that time, so only what came
    to the target since then is read.
    """
    commits = stores.refs.commits
    head = commits.get(stores.refs.branches.get(branch).commit_id)
    if target.generation - head.generation > FAR:
        return True
    mark = head.metadata.get(TARGET) or head.metadata.get(CAUGHT_UP)
    known = head.id if mark is None or commits.find(mark) is None else mark
    line = line_outside(commits, target.id, known)
    return any(number == FAR or _REVERT in commit.metadata for number, commit in enumerate(line))


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
