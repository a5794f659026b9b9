"""The public interface of an ingestion branch."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from graveler.base.arguments import BranchLike, branch_text, choice, hour_name, text
from graveler.base.names import check_branch, check_caller_pairs
from graveler.base.retries import retry
from graveler.errors import InvalidInputError
from graveler.gates import Gate, as_gates
from graveler.gates.gate import Check
from graveler.ingest.hours import Hour, Release, Status, Tick, commit_hour, tick_hour
from graveler.ingest.records import HourRecord, HourState, IngestRecords, Quarantine
from graveler.ingest.release import Releases
from graveler.ingest.shelves import Shelves
from graveler.ingest.taking import Taking
from graveler.ingest.ticker import Ticker
from graveler.ingest.unpublished import IngestBranch, published_by
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler.reads.versions import uncommitted
from graveler.refs.history import is_ancestor
from graveler.repository.branch import Branch
from graveler.repository.strategies import Strategy, check_strategy
from graveler.runs.record import Refusal

POLICIES = ("hold", "quarantine")
CONFLICT_POLICIES = ("refuse", "target", "ingest")


_ASIDE = {
    "hold": HourState.HELD,
    "quarantine": HourState.QUARANTINED,
    "": HourState.QUARANTINED,
}
"""The state of an hour by the policy under which writes of it were set aside, if not ``target``."""


class Ingestion:
    """A branch on which writers stage files continuously, published hour by hour.

    ::

        ingestion = repo.ingestion(gates=[complete], on_refusal="quarantine")
        ingestion.branch.put("input/2013/01/01/05:00/part-0.csv", data)    # any writer, any time
        ingestion.tick("2013-01-01T05:00Z")                                # once an hour

    Attributes:
        name: Name of the branch.
        into: The branch to which it is published.
        on_refusal: ``hold`` or ``quarantine``.
        on_conflict: ``refuse``, ``target`` or ``ingest``.
    """

    def __init__(
        self,
        stores: Stores,
        branch: str = "ingest",
        *,
        into: str = "main",
        gates: Iterable[Gate | Check] | Gate | Check = (),
        on_refusal: str = "hold",
        on_conflict: str = "refuse",
    ) -> None:
        into, on_refusal = text(into, "into"), choice(on_refusal, "on_refusal", POLICIES)
        branch = text(branch, "branch")
        if check_branch(branch) == into:
            raise InvalidInputError(
                f"ingestion branch {branch!r} is what it would be published to: choose another"
            )
        self.name = branch
        self.into = into
        self.on_refusal = on_refusal
        self.on_conflict = choice(on_conflict, "on_conflict", CONFLICT_POLICIES)
        policy = on_refusal if on_conflict == "refuse" else on_conflict
        self._stores = stores
        self._gates = as_gates(gates)
        self._records = IngestRecords(stores, branch)
        self._branch = IngestBranch(stores, self._records, branch, into, policy)
        self._ticker = Ticker(self._branch, self._gates, hold=on_refusal == "hold")

    def __repr__(self) -> str:
        return f"<Ingestion {self.name} into {self.into} of {self._stores.name}>"

    @property
    def branch(self) -> Branch:
        """The branch to stage on; created from the target's head if it does not exist."""
        self._ensure()
        return Branch(self._stores, self.name)

    def tick(
        self,
        hour: datetime | str | None = None,
        *,
        metadata: Mapping[str, str] | None = None,
    ) -> Tick:
        """Commit the acknowledged writes, judge the commit and publish it; later writes stay staged.

        Any number of processes may call it for one hour, at the same time or repeatedly. One of
        them commits, one publishes, and all get the same result. The next tick of any hour
        finishes an interrupted tick. Writers never wait.

        Args:
            hour: The hour, which identifies the tick; by default the last full hour. It may be any
                minute, for more frequent ticks.
            metadata: Metadata of the commit and of the commit that publishes it.

        Returns:
            The state of the hour. A refusal is part of it and is not raised.

        Raises:
            ProtectedBranchError: The branch forbids commits, or the target forbids merges.
        """
        hour = None if hour is None else hour_name(hour)
        name = tick_hour(hour, self._stores.clock.now())
        pairs = check_caller_pairs(f"tick {name}", metadata)
        self._ensure()

        def attempt(_number: int) -> Hour | None:
            self._ticker.tick(name, pairs)
            state = self._hour(self._records.hour(name) or HourRecord(name))
            # a concurrent tick may have committed a repair while this one ended the hold
            return None if state.state is HourState.COMMITTED else state

        stores = self._stores
        state = retry(stores.clock, stores.ids, f"branch {self.name!r}", attempt)
        return Tick(**{field: getattr(state, field) for field in Hour.__slots__})

    def hour(self, hour: datetime | str) -> Hour | None:
        """Return the state of an hour; None before its first tick."""
        record = self._records.hour(tick_hour(hour_name(hour), self._stores.clock.now()))
        return None if record is None else self._hour(record)

    def pending(self) -> tuple[Hour, ...]:
        """Return the hours that are committed and not published, oldest first."""
        if self._stores.refs.branches.find(self.name) is None:
            return ()
        held = self._records.standing().held
        state = HourState.COMMITTED if held is None else HourState.HELD
        return tuple(
            Hour(hour, state, commit=change, late=record.late if record else (), refused=held)
            for point in self._branch.unpublished()
            for change in point.changes
            for hour in (commit_hour(change),)
            for record in (self._records.hour(hour),)
        )

    def quarantined(self) -> tuple[Quarantine, ...]:
        """Return the quarantines that are neither released nor deleted, by name.

        Repair a quarantine on ``repo.branch(name)``.
        """
        branches = self._stores.refs.branches
        return tuple(
            quarantine
            for quarantine in self._records.quarantines()
            if not quarantine.released and branches.find(quarantine.name) is not None
        )

    def release(
        self,
        name: str | BranchLike,
        *,
        gates: Iterable[Gate | Check] | Gate | Check | None = None,
        strategy: Strategy | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Release:
        """Publish a quarantine, repaired or not, if the gates pass, and delete its branch.

        Writes staged on the branch are committed first. Idempotent.

        Args:
            gates: The gates that judge it; by default those of the ingestion.
            strategy: What to do if a later hour has written the same paths: ``dest-wins`` keeps
                that hour's files, ``source-wins`` uses those of the quarantine.
            metadata: Metadata of the commit that publishes it; by default that of the tick.

        Raises:
            GateFailedError: A gate refuses it; it stays in quarantine.
            MergeConflictError: A later hour or another writer has changed the same paths, and
                no strategy is given; it stays in quarantine.
            NotFoundError: No such quarantine.
            RefNotFoundError: Its branch was deleted.
        """
        name = branch_text(name, "name", within=self._stores)
        check_strategy(strategy)
        chosen = self._gates if gates is None else as_gates(gates)
        pairs = None if metadata is None else check_caller_pairs(f"release {name}", metadata)
        commit, already = Releases(self._branch).release(
            name, chosen, strategy=strategy, metadata=pairs
        )
        return Release(name, commit, already)

    def status(self) -> Status:
        """Return the state of the branch."""
        exists = self._stores.refs.branches.find(self.name) is not None
        pending = self.pending()
        return Status(
            branch=self.name,
            into=self.into,
            staged=sum(1 for _ in uncommitted(self._stores, self.name)) if exists else 0,
            pending=pending,
            held=pending[0].refused if pending else None,
            quarantined=self.quarantined(),
        )

    def _ensure(self) -> None:
        if self._stores.refs.branches.find(self.name) is None:
            Taking(self._branch).begin()

    def _hour(self, record: HourRecord) -> Hour:
        """Compute the state of an hour; its record only says where to look."""
        held = self._records.standing().held  # read before looking up whether the hour is published
        quarantines = [
            quarantine
            for quarantine in self._records.quarantines()
            if not set(quarantine.commits).isdisjoint(record.commits)
        ]
        branches = self._stores.refs.branches
        inside = [
            quarantine
            for quarantine in quarantines
            if not quarantine.released and branches.find(quarantine.name) is not None
        ]
        if not inside:
            record = self._closed(record, quarantines)
        aside = {} if inside else Shelves(self._branch).waiting(record)
        commits = self._stores.refs.commits
        published = commits.get(record.published) if record.published and not inside else None
        last = record.commits[-1] if record.commits else record.behind
        refused: Refusal | None = None
        if inside:
            state, refused = HourState.QUARANTINED, inside[-1].refusal
        elif published is None and last and self._ticker.waits(last):
            state, refused = (HourState.HELD if held else HourState.COMMITTED), held
        else:
            if published is None and last:  # a concurrent tick may have published it meanwhile
                record = self._closed(record, quarantines)
                published = commits.get(record.published) if record.published else None
            state = HourState.EMPTY if published is None else HourState.PUBLISHED
            for quarantine in aside.values():
                if quarantine.policy in _ASIDE:
                    state, refused = _ASIDE[quarantine.policy], quarantine.refusal
        names = [quarantine.name for quarantine in (*inside, *aside.values())]
        return Hour(
            record.hour,
            state,
            commit=commits.get(record.commits[-1]) if record.commits else None,
            published=published,
            late=record.late,
            quarantined=tuple(dict.fromkeys(names)),
            refused=refused,
            set_aside=tuple(aside),
        )

    def _closed(self, record: HourRecord, quarantines: list[Quarantine]) -> HourRecord:
        """Record the commit that published the hour's last commit, if there is one."""
        refs = self._stores.refs
        now = refs.branches.get(self.into)
        target = refs.commits.get(now.commit_id)
        lost = record.published and record.line != now.line
        if lost and not is_ancestor(refs.commits, record.published, target.id):
            record = self._records.change_hour(record.hour, lambda now: replace(now, published=""))
        while record.commits and not record.published:
            published = self._published(record.commits[-1], quarantines, target)
            if published is None:
                return record
            last = record.commits[-1]

            def change(stored: HourRecord) -> HourRecord:
                same = stored.commits[-1:] == (last,) and not stored.published  # noqa: B023 - called at once
                return replace(stored, published=published, line=now.line) if same else stored  # noqa: B023

            record = self._records.change_hour(record.hour, change)
        return record

    def _published(
        self, identifier: str, quarantines: list[Quarantine], target: Commit
    ) -> str | None:
        commits = self._stores.refs.commits
        for quarantine in quarantines[::-1]:
            if quarantine.released and identifier in quarantine.commits:
                there = is_ancestor(commits, quarantine.released, target.id)
                return quarantine.released if there else None
        published = published_by(commits, commits.get(identifier), target)
        return None if published is None else published.id
