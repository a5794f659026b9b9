"""A tick: commit what has been acknowledged, publish what is not published yet."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from graveler.errors import (
    GateFailedError,
    GravelerError,
    MergeConflictError,
    NoChangesError,
    ThrottledError,
)
from graveler.ingest.catching_up import catch_up, is_behind
from graveler.ingest.hours import commit_hour, hours_of, late_hours
from graveler.ingest.line import INGEST, TARGET, Point, find_off, points, whole
from graveler.ingest.publishing import Publisher
from graveler.ingest.quarantining import Quarantines, culprits
from graveler.ingest.record import HourRecord, Standing
from graveler.ingest.records import IngestRecords
from graveler.ingest.releasing import Releases
from graveler.ingest.trees import before
from graveler.model import Commit
from graveler.publishing.landing import CommitSpec
from graveler.reads.changes import diff_commits
from graveler.reads.stores import Stores
from graveler.repository import commits
from graveler.runs.record import Refusal

_ROUNDS: Final = 1000
_REASON_CHARACTERS: Final = 4000


@dataclass(frozen=True, slots=True)
class Ticker:
    """Does the ticks of one ingestion branch.

    Attributes:
        stores: The repository.
        records: Of the branch.
        quarantines: What takes changes off it.
        releases: What brings them back.
        branch: Its name.
        into: Where to publish.
        hold: Whether a refusal holds publishing; else the change goes to quarantine.
    """

    stores: Stores
    records: IngestRecords
    quarantines: Quarantines
    releases: Releases
    branch: str
    into: str
    hold: bool

    def tick(self, hour: str, metadata: Mapping[str, str], publisher: Publisher) -> None:
        """Commit what is staged as `hour`, once, and publish all that can be published."""
        self.quarantines.settle()
        self.releases.settle()
        target = self._head(self.into)
        if is_behind(self.stores, self.branch, target):
            catch_up(self.stores, self.branch, self.into)
        self._commit(hour, {**metadata, TARGET: target.id})
        self._publish(publisher)

    def found(self) -> tuple[Point, ...]:
        """Return what is committed and not published, oldest first."""
        return points(self.stores.refs.commits, self._head(self.branch), self._head(self.into))

    def _head(self, branch: str) -> Commit:
        refs = self.stores.refs
        return refs.commits.get(refs.branches.get(branch).commit_id)

    def waits(self, change: str) -> bool:
        """Return whether a commit of the branch is neither published nor taken off."""
        return any(change == one.id for point in self.found() for one in point.changes)

    def _commit(self, hour: str, metadata: Mapping[str, str]) -> None:
        """Commit for an hour that nobody has committed for; those who come together take turns.

        While publishing is held the hour that waits takes mends: then it is committed for again.
        """
        with self.stores.refs.turn(f"{self.branch}/tick"):
            record = self.records.hour(hour)
            if record is None:
                record = self._cut_off(hour)
            if record is not None and not self._takes_mends(record):
                return
            made = self._committed(hour, metadata)
            if made is not None:
                self._keep(hour, made)
            elif record is None:
                self._keep_empty(hour)

    def _cut_off(self, hour: str) -> HourRecord | None:
        """Keep what a tick of this hour that died has committed, if one has."""
        mine = [
            change
            for point in self.found()
            for change in point.changes
            if INGEST in change.metadata and commit_hour(change) == hour
        ]
        record = None
        for change in mine:
            record = self._keep(hour, change)
        return record

    def _takes_mends(self, record: HourRecord) -> bool:
        if self.records.standing().held is None or record.published:
            return False
        taken = {each for kept in self.records.quarantines() for each in kept.commits}
        return taken.isdisjoint(record.commits)

    def _committed(self, hour: str, metadata: Mapping[str, str]) -> Commit | None:
        try:
            spec = CommitSpec(
                f"{self.branch} {hour}", {**metadata, "hour": hour, INGEST: self.branch}
            )
            return commits.commit(self.stores, self.branch, spec)
        except NoChangesError:
            return None

    def late(self, change: Commit, hour: str) -> tuple[str, ...]:
        """Return the earlier hours of which a commit brings files."""
        return late_hours(diff_commits(self.stores, before(self.stores, change), change), hour)

    def _keep(self, hour: str, made: Commit) -> HourRecord:
        late = self.late(made, hour)

        def change(there: HourRecord) -> HourRecord:
            if made.id in there.commits:
                return there
            both = tuple(sorted({*there.late, *late}))
            return replace(there, commits=(*there.commits, made.id), late=both)

        return self.records.change_hour(hour, change)

    def _keep_empty(self, hour: str) -> None:
        """Keep that nothing was staged, and behind what: its files may be among what is held."""
        found = self.found()
        behind = found[-1].changes[-1].id if found else ""
        self.records.change_hour(
            hour, lambda there: there if there.nonce else replace(there, behind=behind)
        )

    def _publish(self, publisher: Publisher) -> None:
        for _ in range(_ROUNDS):
            self.quarantines.settle()
            found = self.found()
            standing = self.records.standing()
            if not found:
                self._hold(standing, None)
                return
            held = self.hold and standing.held is not None
            point = whole(found) if held else found[0]
            self._remember(point)
            try:
                publisher.publish(
                    point.commit, self._spec(point), wanted=partial(self._is_there, point)
                )
            except (GateFailedError, MergeConflictError) as error:
                refusal = self._refusal(error)
                if self.hold:
                    self._hold(standing, refusal)
                    if held or len(found) == 1:
                        return  # else all of it together may pass, mended since
                else:
                    changes = culprits(publisher, point, self._spec(point))
                    self.quarantines.decide(changes, hours_of(changes), point.commit, refusal)
        raise ThrottledError(f"branch {self.branch!r}: others publish it all the while; try again")

    def _is_there(self, point: Point) -> bool:
        """Return whether nobody has taken anything of the point off, or reset the branch."""
        changes = tuple(change.id for change in point.changes)
        return find_off(self.stores.refs.commits, self._head(self.branch), changes) == ""

    def _remember(self, point: Point) -> None:
        """Keep what hours these changes were committed for: later, history no longer tells fast."""
        for change in point.changes:
            hour = commit_hour(change)
            if INGEST in change.metadata and not self._is_known(hour, change):
                self._keep(hour, change)

    def _is_known(self, hour: str, change: Commit) -> bool:
        record = self.records.hour(hour)
        return record is not None and change.id in record.commits

    def _hold(self, seen: Standing, refusal: Refusal | None) -> None:
        """Have publishing held for this reason, or no more."""

        def change(there: Standing) -> Standing:
            if there.held is refusal or there.nonce != seen.nonce:
                return there  # somebody has judged it at the same time
            return replace(there, held=refusal)

        self.records.change_standing(change)

    def _refusal(self, error: GravelerError) -> Refusal:
        gates: tuple[str, ...] = ()
        if isinstance(error, GateFailedError):
            gates = tuple(verdict.gate for verdict in error.verdicts if verdict.refuses)
        return Refusal(self.stores.clock.now(), str(error)[:_REASON_CHARACTERS], gates)

    def _spec(self, point: Point) -> CommitSpec:
        """Return what the commit that publishes a point says: the pairs of its newest change."""
        newest = point.changes[-1]
        pairs = {
            key: text for key, text in newest.metadata.items() if not key.startswith("graveler.")
        }
        hours = hours_of(point.changes)
        pairs |= {"hour": hours[-1], INGEST: self.branch}
        if len(hours) > 1:
            pairs["hours"] = ",".join(hours)
        late = {each for change in point.changes for each in self.late(change, commit_hour(change))}
        if late:
            pairs["late"] = ",".join(sorted(late))
        return CommitSpec(f"{self.branch} {', '.join(hours)}", pairs)
