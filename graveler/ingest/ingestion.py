"""An ingestion branch, as its users see it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from graveler.arguments import (
    BranchLike,
    branch_text,
    choice,
    hour_name,
    text,
)
from graveler.arguments import (
    pairs as check_pairs,
)
from graveler.errors import InvalidInputError
from graveler.gates import Gate, as_gates
from graveler.gates.gate import Check
from graveler.ingest.hours import commit_hour, tick_hour
from graveler.ingest.line import published_by
from graveler.ingest.publishing import Publisher
from graveler.ingest.quarantining import Quarantines
from graveler.ingest.record import HourRecord, HourState, Quarantine
from graveler.ingest.records import IngestRecords
from graveler.ingest.releasing import Releases
from graveler.ingest.report import Hour, Release, Status, Tick
from graveler.ingest.ticking import Ticker
from graveler.model import Commit
from graveler.names import check_branch, check_caller_pairs
from graveler.reads.stores import Stores
from graveler.reads.view import uncommitted
from graveler.repository import branches
from graveler.repository.branch import Branch
from graveler.repository.merges import check_strategy
from graveler.runs.record import Refusal

_POLICIES: Final = ("hold", "quarantine")


class Ingestion:
    """A branch on which writers stage files all the time, published hour by hour.

    ::

        ingestion = repo.ingestion(gates=[complete], on_refusal="quarantine")
        ingestion.branch.put("input/2013/01/01/05:00/part-0.csv", data)    # any writer, any time
        ingestion.tick("2013-01-01T05:00Z")                                # once an hour

    Attributes:
        name: Name of the branch.
        into: Where it is published.
        on_refusal: ``hold`` or ``quarantine``.
    """

    def __init__(
        self,
        stores: Stores,
        branch: str = "ingest",
        *,
        into: str = "main",
        gates: Iterable[Gate | Check] | Gate | Check = (),
        on_refusal: str = "hold",
    ) -> None:
        into, on_refusal = text(into, "into"), choice(on_refusal, "on_refusal", _POLICIES)
        branch = text(branch, "branch")
        if on_refusal not in _POLICIES:
            raise InvalidInputError(f"on_refusal {on_refusal!r}: give one of {_POLICIES}")
        if check_branch(branch) == into:
            raise InvalidInputError(
                f"ingestion branch {branch!r} is what it would be published to: choose another"
            )
        self.name = branch
        self.into = into
        self.on_refusal = on_refusal
        self._stores = stores
        self._gates = as_gates(gates)
        self._records = IngestRecords(stores, branch)
        quarantines = Quarantines(stores, self._records, branch=branch, into=into)
        self._releases = Releases(stores, self._records, quarantines, branch, into)
        self._ticker = Ticker(
            stores,
            self._records,
            quarantines,
            self._releases,
            branch,
            into,
            hold=on_refusal == "hold",
        )

    def __repr__(self) -> str:
        return f"<Ingestion {self.name} into {self.into} of {self._stores.name}>"

    @property
    def branch(self) -> Branch:
        """The branch to stage on; made from the target's head where it is not there yet."""
        self._ensure()
        return Branch(self._stores, self.name)

    def tick(
        self,
        hour: datetime | str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> Tick:
        """Commit what has been acknowledged, judge it, publish it; what comes later stays staged.

        Any number of processes may call it for one hour, at once or again: one commits, one
        publishes, all get the same answer. A call that died is gone on with by the next one,
        of whatever hour. Writers never wait.

        Args:
            hour: What the tick is called, and what it is known again by; the last full hour
                where not given. It may be any minute, for ticks that come more often.
            metadata: Pairs for the commit and the commit that publishes it.

        Returns:
            What became of the hour. A refusal is told there, not raised.

        Raises:
            ProtectedBranchError: The branch takes no commits, or the target no merges.
        """
        hour = None if hour is None else hour_name(hour)
        check_pairs(metadata, "metadata")
        self._ensure()
        name = tick_hour(hour, self._stores.clock.now())
        pairs = check_caller_pairs(f"tick {name}", metadata or {})
        self._ticker.tick(name, pairs, self._publisher(self._gates))
        told = self._told(self._records.hour(name) or HourRecord(name))
        return Tick(**{field: getattr(told, field) for field in Hour.__slots__})

    def hour(self, hour: datetime | str) -> Hour | None:
        """Return where an hour stands, None where no tick has been called for it."""
        hour = hour_name(hour)
        record = self._records.hour(tick_hour(hour, self._stores.clock.now()))
        return None if record is None else self._told(record)

    def pending(self) -> tuple[Hour, ...]:
        """Return what is committed and not published, oldest first."""
        if self._stores.refs.branches.find(self.name) is None:
            return ()
        held = self._records.standing().held
        return tuple(
            Hour(
                commit_hour(change),
                HourState.COMMITTED if held is None else HourState.HELD,
                commit=change,
                late=self._late(change),
                refused=held,
            )
            for point in self._ticker.found()
            for change in point.changes
        )

    def quarantined(self) -> tuple[Quarantine, ...]:
        """Return what is in quarantine, by name: refused, and neither released nor deleted.

        ``repo.branch(name)`` is where a quarantine is mended.
        """
        branches = self._stores.refs.branches
        return tuple(
            kept
            for kept in self._records.quarantines()
            if not kept.released and branches.find(kept.name) is not None
        )

    def release(
        self,
        name: str | BranchLike,
        *,
        gates: Iterable[Gate | Check] | Gate | Check | None = None,
        strategy: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Release:
        """Publish what is in quarantine, mended or not, if the gates let it; its branch goes.

        What is staged there is committed first. Calling it again answers the same.

        Args:
            name: Of the quarantine.
            gates: Who judges; the ingestion's gates where not given.
            strategy: Where a later hour has written the same paths: ``dest-wins`` leaves that
                hour's files, ``source-wins`` takes those that were in quarantine.
            metadata: Pairs for the commit that publishes it; those of the tick where not given.

        Raises:
            GateFailedError: A gate refuses it; it stays in quarantine.
            MergeConflictError: A later hour, or somebody else, has written the same paths, and
                no strategy is given; it stays in quarantine.
            NotFoundError: No such quarantine.
            RefNotFoundError: Somebody has deleted its branch.
        """
        name = branch_text(name, "name")
        check_pairs(metadata, "metadata")
        check_strategy(strategy)
        chosen = self._gates if gates is None else as_gates(gates)
        pairs = None if metadata is None else check_caller_pairs(f"release {name}", metadata)
        commit, already = self._releases.release(
            name, self._publisher(chosen), strategy=strategy, metadata=pairs
        )
        return Release(name, commit, already)

    def status(self) -> Status:
        """Return how the branch stands."""
        there = self._stores.refs.branches.find(self.name) is not None
        return Status(
            branch=self.name,
            into=self.into,
            staged=sum(1 for _ in uncommitted(self._stores, self.name)) if there else 0,
            pending=self.pending(),
            held=self._records.standing().held,
            quarantined=self.quarantined(),
        )

    def _ensure(self) -> None:
        if self._stores.refs.branches.find(self.name) is None:
            branches.create_branch(self._stores, self.name, self.into, exist_ok=True)

    def _publisher(self, gates: tuple[Gate, ...]) -> Publisher:
        return Publisher(self._stores, self._records, self.into, gates)

    def _late(self, change: Commit) -> tuple[str, ...]:
        return self._ticker.late(change, commit_hour(change))

    def _told(self, record: HourRecord) -> Hour:
        commits = self._stores.refs.commits
        made = commits.get(record.commits[-1]) if record.commits else None
        kept = [
            one for one in self._records.quarantines() if set(one.commits) & set(record.commits)
        ]
        inside = [one for one in kept if not one.released]
        published = None if inside else self._published(record, made, kept)
        refused: Refusal | None = inside[-1].refusal if inside else None
        if inside:
            state = HourState.QUARANTINED
        elif published is not None:
            state = HourState.PUBLISHED
        elif made is None and not (record.behind and self._ticker.waits(record.behind)):
            state = HourState.EMPTY
        else:
            refused = self._records.standing().held
            state = HourState.COMMITTED if refused is None else HourState.HELD
        return Hour(
            record.hour,
            state,
            commit=made,
            published=published,
            late=record.late,
            quarantined=tuple(one.name for one in inside),
            refused=refused,
        )

    def _published(
        self, record: HourRecord, made: Commit | None, kept: list[Quarantine]
    ) -> Commit | None:
        """Return the commit that holds the last of the hour on the target; once seen it is kept."""
        commits = self._stores.refs.commits
        if record.published:
            return commits.get(record.published)
        if made is None:
            return None
        released = [one.released for one in kept if made.id in one.commits]
        if released:
            landed: Commit | None = commits.get(released[-1])
        else:
            target = commits.get(self._stores.refs.branches.get(self.into).commit_id)
            landed = published_by(commits, made, target)
        if landed is not None:
            found = landed.id
            self._records.change_hour(
                record.hour,
                lambda there: (
                    replace(there, published=found) if there.commits == record.commits else there
                ),
            )
        return landed
