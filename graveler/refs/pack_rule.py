"""The rule of packing: when branches are packed. Key ``settings/packing``.

The rule has a number of badly cut ranges, and the branches that it covers. Publishers read it in
the same round trip as the branch that they move.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from graveler.base.records import Schema
from graveler.refs.settings import Setting

AFTER = 100
"""The default: more than twice the number that appends leave in the worst of six workloads."""


@dataclass(frozen=True, slots=True)
class PackRule:
    """When a branch is packed.

    Attributes:
        after: The number of badly cut ranges in a head that triggers packing, or 0 for never.
        branches: Shell patterns of branch names. Empty: only the default branch of the repository.
    """

    after: int = AFTER
    branches: tuple[str, ...] = ()

    def covers(self, branch: str, default: str) -> bool:
        """Return whether the rule packs a branch."""
        if not self.after:
            return False
        if not self.branches:
            return branch == default
        return any(fnmatchcase(branch, pattern) for pattern in self.branches)


PACKING = Setting("packing", "rule of packing", PackRule(), Schema(PackRule))
