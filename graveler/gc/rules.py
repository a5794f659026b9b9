"""The settings of collection: retention rules and adoption.

Retention rules, key ``settings/retention``, say how long the history of a branch is kept.

Without a rule, everything that a ref reaches is kept. A rule has a number of days, a number of
commits, or both. A commit is kept if either keeps it. A rule belongs to a shell pattern of branch
names. If several patterns match a branch, a commit is kept if any of their rules keeps it. If no
pattern matches, the default applies.

Adoption, key ``settings/adoption``, is that of data files whose addresses lack the id of the storage.
Version 0.2 named files in a form that other programs also use. Beside files of others, such a file is
deleted only after it was listed and the user agreed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from graveler.base.records import Schema, integer, mapping, optional
from graveler.errors import InvalidInputError, NotFoundError
from graveler.refs.settings import Setting, Settings


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


class RetentionRules:
    """The stored rules of one repository."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def get(self) -> Retention:
        """Return the rules."""
        return self._settings.get(RETENTION)

    def set(self, keep: Keep, pattern: str | None = None) -> Retention:
        """Set the rule of a pattern, or the default; return all rules."""
        if keep.days is not None and not keep.days >= 0:
            raise InvalidInputError(f"keep {keep.days:g} days: give 0 or more")
        if keep.count is not None and keep.count < 1:
            raise InvalidInputError(f"keep {keep.count} commits: give 1 or more, the head counts")
        if pattern == "":
            raise InvalidInputError("the pattern is empty: give a branch name, or one with * in it")

        def change(rules: Retention) -> Retention:
            if pattern is None:
                return Retention(keep, rules.patterns)
            return Retention(rules.default, {**rules.patterns, pattern: keep})

        return self._settings.change(RETENTION, change)

    def remove(self, pattern: str | None = None) -> Retention:
        """Remove the rule of a pattern, or the default; return all rules."""

        def change(rules: Retention) -> Retention:
            if pattern is None:
                return Retention(KEEP_ALL, rules.patterns)
            if pattern not in rules.patterns:
                patterns = ", ".join(rules.patterns) or "none"
                raise NotFoundError(f"no retention rule for {pattern!r} (there are: {patterns})")
            return Retention(
                rules.default,
                {name: keep for name, keep in rules.patterns.items() if name != pattern},
            )

        return self._settings.change(RETENTION, change)


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
