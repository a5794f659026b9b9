"""The settings of collection: retention rules and adoption.

Without a rule, everything that a ref reaches is kept. If several patterns match a branch, a commit is
kept if any of their rules keeps it. Data files whose addresses lack the id of the storage, as version
0.2 named them, are deleted beside files of others only after they were listed and the user agreed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from graveler.base.records import Schema, integer, mapping, optional
from graveler.errors import NotFoundError
from graveler.refs.settings import Setting


@dataclass(frozen=True, slots=True)
class Keep:
    """How much of a branch's history is kept; all of it by default.

    Attributes:
        days: Keep commits younger than this many days, and the one that was the head before them.
        count: Keep this many commits; the head counts.
    """

    days: float | None = None
    count: int | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing ever expires."""
        return self.days is None and self.count is None

    def __or__(self, other: "Keep") -> "Keep":
        if self.everything or other.everything:
            return KEEP_ALL
        return Keep(_larger(self.days, other.days), _larger(self.count, other.count))

    def __str__(self) -> str:
        if self.everything:
            return "everything"
        parts = []
        if self.days is not None:
            parts.append(f"{self.days:g} {'day' if self.days == 1 else 'days'}")
        if self.count is not None:
            parts.append(f"{self.count} {'commit' if self.count == 1 else 'commits'}")
        return " or ".join(parts)


KEEP_ALL = Keep()


def _larger(left: Any, right: Any) -> Any:
    return right if left is None else left if right is None else max(left, right)


@dataclass(frozen=True, slots=True)
class Retention:
    """The rules of a repository.

    Attributes:
        default: The rule for branches that no pattern matches.
        patterns: Rules by shell pattern of branch names.
    """

    default: Keep = KEEP_ALL
    patterns: Mapping[str, Keep] = field(default_factory=dict)

    @property
    def keeps_everything(self) -> bool:
        """Whether no branch has a rule by which anything expires."""
        return self.default.everything and all(keep.everything for keep in self.patterns.values())

    def of(self, branch: str) -> Keep:
        """Return what is kept of a branch."""
        kept = None
        for pattern, keep in self.patterns.items():
            if fnmatchcase(branch, pattern):
                kept = keep if kept is None else kept | keep
        return self.default if kept is None else kept

    def changed(self, pattern: str | None, keep: Keep) -> "Retention":
        """Return the rules with another one for a pattern, or another default."""
        if pattern is None:
            return Retention(keep, self.patterns)
        return Retention(self.default, {**self.patterns, pattern: keep})

    def without(self, pattern: str | None) -> "Retention":
        """Return the rules without that of a pattern, or without the default."""
        if pattern is None:
            return Retention(KEEP_ALL, self.patterns)
        if pattern not in self.patterns:
            patterns = ", ".join(self.patterns) or "none"
            raise NotFoundError(f"no retention rule for {pattern!r} (there are: {patterns})")
        rest = {name: keep for name, keep in self.patterns.items() if name != pattern}
        return Retention(self.default, rest)


_KEEP = Schema(Keep, types={"count": optional(integer(least=1))}).row()
_RETENTION = Schema(
    Retention, types={"default": _KEEP, "patterns": mapping(_KEEP)}, states_format=True
)
RETENTION = Setting("retention", "retention rules", Retention(), _RETENTION)


@dataclass(frozen=True, slots=True)
class Adoption:
    """The times of the store's clock until which files were listed and adopted.

    Attributes:
        listed: The time of the last list, microseconds since 1970; 0 for none.
        agreed: Unnamed files that are older are graveler's; 0 for none.
    """

    listed: int = 0
    agreed: int = 0


@dataclass(frozen=True, slots=True)
class Adoptable:
    """Files that nothing names, and that are collected once they are adopted."""

    keys: tuple[str, ...] = ()
    bytes: int = 0


ADOPTION = Setting(
    "adoption", "adoption of files", Adoption(), Schema(Adoption, states_format=True)
)
