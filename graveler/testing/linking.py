"""Links to files that need not be there, for tests and benchmarks that read no byte of them."""

from collections.abc import Iterable

from graveler.model import Entry
from graveler.repository import Branch
from graveler.repository.writing import stage_written

__all__ = ["link_unseen"]


def link_unseen(branch: Branch, entries: Iterable[Entry]) -> int:
    """Stage entries as they are, as if the caller had just written their files; return how many.

    Args:
        branch: A branch, run or step.
        entries: Nothing about them is looked up.
    """
    return stage_written(branch.repository, branch.name, entries, fence=branch.fence)
