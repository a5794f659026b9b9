"""The rule of packing: when branches are packed. Key ``settings/packing``.

The rule has a number of badly cut ranges, and the branches that it covers. Publishers read it in
the same round trip as the branch that they move.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from graveler.base.records import Schema
from graveler.kv.record_store import Place, Version
from graveler.refs.settings import Setting, Settings

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


class PackRules:
    """The stored rule of one repository."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @property
    def place(self) -> Place:
        """The place of the rule, to read it together with others."""
        return self._settings.place(PACKING)

    @staticmethod
    def read(found: Version[Any] | None) -> PackRule:
        """Return the rule that was read at `place`."""
        return PACKING.default if found is None else found.record

    def get(self) -> PackRule:
        """Return the rule."""
        return self._settings.get(PACKING)

    def set(self, *, after: int | None, branches: tuple[str, ...] | None) -> PackRule:
        """Change the number, the patterns, or both. None keeps the value. Return the rule."""

        def change(rule: PackRule) -> PackRule:
            return PackRule(
                rule.after if after is None else after,
                rule.branches if branches is None else tuple(sorted(set(branches))),
            )

        return self._settings.change(PACKING, change)
