"""A tick: it commits acknowledged writes and publishes unpublished commits."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

from graveler.committed.apply import StagedChange
from graveler.errors import (
    GateFailedError,
    MergeConflictError,
    NoChangesError,
    RefNotFoundError,
    ThrottledError,
)
from graveler.gates import Gate
from graveler.ingest.delivery import IngestCandidacy
from graveler.ingest.hours import (
    commit_hour,
    hour_kinds,
    hour_pairs,
    hours_of,
    hours_text,
    late_hours,
    user_pairs,
)
from graveler.ingest.quarantine import Quarantines, before, refused_changes
from graveler.ingest.records import HourRecord, Standing
from graveler.ingest.release import Releases
from graveler.ingest.taking import Taking, Theirs
from graveler.ingest.unpublished import (
    INGEST,
    TARGET,
    IngestBranch,
    Point,
    find_removal,
    joined,
    last_sealed,
)
from graveler.model import Commit
from graveler.publishing.landing import CommitSpec
from graveler.reads.changes import diff_commits
from graveler.repository.commits import sealing
from graveler.repository.merges import find_bases
from graveler.repository.origins import in_quarantine, refuse_unpublished
from graveler.runs.record import Refusal, refusal_of

_ROUNDS = 1000
_REASON_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class Ticker:
    """The ticks of one ingestion branch."""

    branch: IngestBranch
    gates: tuple[Gate, ...]
    hold: bool

    def tick(self, hour: str, metadata: Mapping[str, str]) -> None:
        """Commit staged writes once as `hour`, and publish everything that can be published."""
        into = self.branch.into
        if Quarantines(self.branch).settle().into != into:  # collection keeps what waits for it
            self.branch.records.change_standing(lambda now: replace(now, into=into))
        Releases(self.branch).settle()
        head, target = self.branch.tips()
        Taking(self.branch).bring_up(head, target)
        self._commit(hour, {**metadata, TARGET: target.id})
        self._publish()

    def waits(self, change: str) -> bool:
        """Return whether a commit of the branch is neither published nor quarantined."""
        try:
            points = self.branch.unpublished()
        except RefNotFoundError:  # the branch was deleted
            return False
        return any(change == commit.id for point in points for commit in point.changes)

    def _commit(self, hour: str, metadata: Mapping[str, str]) -> None:
        """Commit for an hour that has no commit yet; concurrent ticks take turns."""
        with self.branch.stores.refs.turn(f"{self.branch.name}/tick"):
            record = self.branch.records.hour(hour)
            if record is None or not record.ticked:
                record = self._interrupted(hour)
            if record is not None and not self._takes_repairs(record):
                return
            commit = self._committed(hour, metadata)
            if commit is not None:
                self._keep(hour, commit)
            elif record is None:
                self._keep_empty(hour)

    def _interrupted(self, hour: str) -> HourRecord | None:
        """Record the commit that an interrupted tick of this hour has made, if any."""
        record = None
        for point in self.branch.unpublished():
            for change in point.changes:
                if INGEST in change.metadata and commit_hour(change) == hour:
                    record = self._keep(hour, change)
        return record

    def _takes_repairs(self, record: HourRecord) -> bool:
        if self.branch.records.standing().held is None or record.published:
            return False
        quarantines = self.branch.records.quarantines()
        return all(set(record.commits).isdisjoint(other.commits) for other in quarantines)

    def _committed(self, hour: str, metadata: Mapping[str, str]) -> Commit | None:
        stores, name = self.branch.stores, self.branch.name
        spec = CommitSpec(f"{name} {hour}", {**metadata, "hour": hour, INGEST: name})
        head, records = self.branch.head(), self.branch.records
        since = last_sealed(stores.refs.commits, head, lambda: records.standing().sealed)

        def sift(changes: Iterator[StagedChange]) -> Iterator[StagedChange]:
            if self.branch.policy == "ingest":
                return changes
            theirs = Theirs(self.branch, since, self.branch.target())
            return theirs.sift(hour, changes)

        try:
            commit = sealing.commit(stores, name, spec, sift=sift)
        except NoChangesError:
            if since != head:  # what was staged before is on a shelf, or nothing was
                records.change_standing(lambda now: replace(now, sealed=head.id))
            return None
        # another process may have committed our writes for an earlier hour
        elsewhere = commit.by_other and commit_hour(commit) != hour
        return None if elsewhere else commit

    def _keep(self, hour: str, commit: Commit) -> HourRecord:
        """Record a commit of an hour, unless the hour is published.

        A later commit is published like a commit of a user. Every tick of the hour has returned,
        or will return, the commits that the record names.
        """
        stores = self.branch.stores
        changes = diff_commits(stores, before(stores, commit), commit)
        late = late_hours(hour_kinds(changes, hour))

        def change(record: HourRecord) -> HourRecord:
            if record.published or commit.id in record.commits:
                return record
            both = tuple(sorted({*record.late, *late}))
            return replace(record, commits=(*record.commits, commit.id), late=both, ticked=True)

        return self.branch.records.change_hour(hour, change)

    def _keep_empty(self, hour: str) -> None:
        """Record that nothing was staged, and the waiting commit that may hold files of the hour."""
        points = self.branch.unpublished()
        behind = points[-1].changes[-1].id if points else ""

        def change(record: HourRecord) -> HourRecord:
            known = record.nonce and record.ticked
            return record if known else replace(record, behind=behind, ticked=True)

        self.branch.records.change_hour(hour, change)

    def _publish(self) -> None:
        for _ in range(_ROUNDS):
            standing = Quarantines(self.branch).settle()
            points = self.branch.unpublished()
            if not points:
                self._hold(standing, None)
                return
            held = self.hold and standing.held is not None
            point = joined(points) if held else points[0]
            if not all(map(self._is_ours, point.changes)):  # the branch may be made of a run
                refuse_unpublished(self.branch.stores, point.commit, self.branch.target())
            self._remember(point)
            spec = self._spec(point)
            wanted = partial(self._is_present, point)
            try:
                self._check_quarantines(point)
                work = IngestCandidacy(self.branch, point.commit, spec, self.gates, wanted)
                if not work.publish() and Taking(self.branch).is_lost(*self.branch.tips()):
                    Taking(self.branch).bring_up(*self.branch.tips())  # an undo came between
            except (GateFailedError, MergeConflictError) as error:
                if isinstance(error, MergeConflictError) and (
                    Taking(self.branch).take() or self.branch.unpublished() != points
                ):
                    continue  # the branch, or another tick of it, has taken the target meanwhile
                now = self.branch.stores.clock.now()
                refusal = refusal_of(error, now, most=_REASON_CHARACTERS)
                if self.hold:
                    self._hold(standing, refusal)
                    if held or len(points) == 1:
                        return  # otherwise all points together may pass: a later one may repair it
                else:
                    changes = refused_changes(self.branch, self.gates, point, spec)
                    Quarantines(self.branch).decide(
                        changes, hours_of(changes), point.commit, refusal
                    )
        raise ThrottledError(
            f"branch {self.branch.name!r}: other processes keep publishing it; try again"
        )

    def _check_quarantines(self, point: Point) -> None:
        """Refuse a change that is in quarantine, and that an undo or a reset has brought back."""
        shelves = in_quarantine(self.branch.stores, (change.id for change in point.changes))
        for shelf in shelves.values():
            raise GateFailedError(f"gates have refused it before: release quarantine {shelf!r}")

    def _is_ours(self, change: Commit) -> bool:
        return change.metadata.get(INGEST) == self.branch.name and TARGET in change.metadata

    def _is_present(self, point: Point, target: Commit) -> bool:
        """Return whether every change of the point is on the branch, and the target has its base."""
        names, head = tuple(change.id for change in point.changes), self.branch.head()
        removed = find_removal(self.branch.stores.refs.commits, head, names)
        return removed == "" and not Taking(self.branch).is_lost(head, target)

    def _remember(self, point: Point) -> None:
        """Record the hours of these changes, which are slow to find once they are published."""
        for change in point.changes:
            hour = commit_hour(change)
            if INGEST in change.metadata:
                record = self.branch.records.hour(hour)
                if record is None or change.id not in record.commits:
                    self._keep(hour, change)

    def _hold(self, seen: Standing, refusal: Refusal | None) -> None:

        def change(standing: Standing) -> Standing:
            if standing.held is refusal or standing.nonce != seen.nonce:
                return standing  # another tick has judged it at the same time
            return replace(standing, held=refusal)

        self.branch.records.change_standing(change)

    def _spec(self, point: Point) -> CommitSpec:
        stores, name = self.branch.stores, self.branch.name
        hours = hours_of(point.changes)
        bases = find_bases(stores, point.commit, self.branch.target())
        base = (
            stores.refs.commits.get(bases.best[0].id) if bases else before(stores, point.changes[0])
        )
        pairs = {
            **user_pairs(point.changes[-1].metadata),
            **hour_pairs(
                hours[-1], hour_kinds(diff_commits(stores, base, point.commit), hours[-1])
            ),
            INGEST: name,
        }
        return CommitSpec(f"{name} {hours_text(hours)}", pairs)
