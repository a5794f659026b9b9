"""Maintenance of a repository: the rule of packing, and the work that a scheduler starts daily."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from graveler.base.arguments import count, optional, texts
from graveler.errors import (
    GravelerError,
    InvalidInputError,
    ProtectedBranchError,
    RefNotFoundError,
)
from graveler.model import BranchRecord
from graveler.reads.stores import Stores
from graveler.refs.pack_rule import PACKING, PackRule
from graveler.repository.commits.packing import PackResult, pack, waiting
from graveler.repository.positions import delete_branch
from graveler.runs.reaper import Reaped
from graveler.runs.record import RunRecord

if TYPE_CHECKING:
    from graveler.gc.marks import Mark

_SOON = timedelta(days=3)
_DAY = 24
_log = logging.getLogger(__name__)


class Packing:
    """The rule of packing; a publish packs a branch if that is cheap, else `Repository.maintain`."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def __repr__(self) -> str:
        return f"<Packing of {self._stores.name}>"

    def show(self) -> PackRule:
        """Return the rule."""
        return self._stores.refs.settings.get(PACKING)

    def set(self, *, after: int | None = None, branches: Iterable[str] | None = None) -> PackRule:
        """Change the rule, and return it.

        ::

            repo.packing.set(after=200, branches=["main", "release-*"])

        Args:
            after: A branch is packed once its head has this many badly cut ranges; 0 for never.
            branches: Shell patterns of the branches that are packed; an empty list stands for the
                default branch of the repository.

        Raises:
            InvalidInputError: A number below 0, an empty pattern, or nothing to change.
        """
        if after is None and branches is None:
            raise InvalidInputError("nothing to set: give after, branches or both")
        patterns = None if branches is None else tuple(sorted(set(texts(branches, "branches"))))
        optional(count, after, "after")

        def change(rule: PackRule) -> PackRule:
            return PackRule(
                rule.after if after is None else after,
                rule.branches if patterns is None else patterns,
            )

        return self._stores.refs.settings.change(PACKING, change)


@dataclass(frozen=True, slots=True)
class BranchState:
    """The result of maintenance on a branch that the rule of packing covers.

    Attributes:
        branch: Its name.
        badly_cut: Number of badly cut ranges of its head before maintenance.
        due: Whether the rule requires a pack.
        packed: The result of the pack; None if there was none, as in a dry run or after an error.
    """

    branch: str
    badly_cut: int
    due: bool
    packed: PackResult | None = None


@dataclass(frozen=True, slots=True)
class BranchEnd:
    """A branch that has ended or ends soon.

    Attributes:
        branch: Its name.
        ends: When it ends.
        deleted: Whether it was deleted, or would be without a dry run.
        reason: Why not: it ends in some days, or what keeps it. "" if it was deleted.
    """

    branch: str
    ends: datetime
    deleted: bool
    reason: str


@dataclass(slots=True)
class Maintenance:
    """The result of maintenance, or of its dry run.

    Attributes:
        dry_run: Whether nothing was changed.
        branches: The branches that the rule of packing covers, by name.
        reaped: The unfinished runs that were reaped.
        ending: The branches that have ended or end soon, by name.
        marks: The marks of garbage collection: the new one and the swept ones.
        errors: One for each part that failed; its message names the part.
    """

    dry_run: bool
    branches: list[BranchState] = field(default_factory=list)
    reaped: list[Reaped] = field(default_factory=list)
    ending: list[BranchEnd] = field(default_factory=list)
    marks: "list[Mark]" = field(default_factory=list)
    errors: list[GravelerError] = field(default_factory=list)

    def check(self) -> None:
        """Raise the first error, if there is one; its message has all errors."""
        if self.errors:
            first = self.errors[0]
            raise first.saying("; ".join(map(str, self.errors))) from first

    @contextmanager
    def part(self, what: str) -> Iterator[None]:
        """Do one part of the work; its error is recorded, and the other parts continue."""
        try:
            yield
        except GravelerError as error:
            _log.warning("maintenance: %s failed: %s", what, error)
            self.errors.append(error.saying(f"{what}: {error}"))


def pack_due(stores: Stores, done: Maintenance) -> None:
    """Pack the branches that the rule of packing covers, if they are due."""
    rule = stores.refs.settings.get(PACKING)
    for record in list(stores.refs.branches.list(runs=False)):
        if not rule.covers(record.name, stores.default_branch):
            continue
        with done.part(f"branch {record.name!r}"):
            try:
                done.branches.append(_packed(stores, record.name, rule.after, done.dry_run))
            except RefNotFoundError:
                continue  # deleted meanwhile


def _packed(stores: Stores, name: str, after: int, dry_run: bool) -> BranchState:
    head = stores.refs.commits.get(stores.refs.branches.get(name).commit_id)
    found = waiting(stores, head).ranges
    due = found >= after
    packed = pack(stores, name) if due and not dry_run else None
    return BranchState(name, found, due, packed)


def end_branches(stores: Stores, runs: Iterable[RunRecord], done: Maintenance) -> None:
    """Delete the branches that have ended, and name those that end soon.

    Args:
        runs: The unfinished runs.
    """
    now = stores.clock.now()
    keys = {run.into: run.key for run in runs}

    def kept(record: BranchRecord) -> str:
        if record.ends is None or record.ends > now:
            return _left(record.ends, now)
        if record.name in keys:
            return f"run {keys[record.name]!r} is to be published to it"
        tokens = (record.staging_token, *record.sealed_tokens)
        if not all(map(stores.staging.is_empty, tokens)):
            return "files are staged on it"
        return ""

    for record in list(stores.refs.branches.list(runs=False)):
        if record.ends is None or record.ends - now > _SOON:
            continue
        with done.part(f"branch {record.name!r}"):
            try:
                reason = _ended(stores, record, kept, done.dry_run)
            except RefNotFoundError:
                continue  # deleted meanwhile
            done.ending.append(BranchEnd(record.name, record.ends, not reason, reason))


def _ended(
    stores: Stores, record: BranchRecord, kept: Callable[[BranchRecord], str], dry_run: bool
) -> str:
    """Delete a branch. Return why it stays, or ""."""
    try:
        if not dry_run:
            return delete_branch(stores, record.name, unless=kept)
        reason = kept(record)
        if not reason:
            stores.refs.protection.check(record.name, "delete")
    except ProtectedBranchError:
        return "it is protected against delete"
    return reason


def _left(ends: datetime | None, now: datetime) -> str:
    if ends is None:
        return "its end was taken away"
    hours = (ends - now) // timedelta(hours=1)
    number, unit = (hours // _DAY, "day") if hours >= _DAY else (hours, "hour")
    return (
        f"ends in {number} {unit}{'' if number == 1 else 's'}" if hours else "ends within an hour"
    )
