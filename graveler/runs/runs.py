"""The runs of a repository: open, attach, find, list."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Unpack

from graveler.base import arguments as args
from graveler.base.arguments import BranchLike, Moment
from graveler.base.names import hour_of_run
from graveler.display import listing
from graveler.errors import FencedError, InvalidInputError
from graveler.gates import Gate, as_gates
from graveler.gates.gate import Check
from graveler.model import MESSAGE_BYTES, RUN_KEY_BYTES, Commit
from graveler.reads.stores import Stores
from graveler.refs.branches import check_fence, owned
from graveler.repository.strategies import Strategy, check_strategy
from graveler.runs import lifecycle
from graveler.runs.attempt import Attempt, RunBranch
from graveler.runs.opener import RunTerms, Terms, open_or_attach, open_run
from graveler.runs.reaper import Reaped, reap, reap_due
from graveler.runs.record import LIVE, RunHandle, RunOutline, RunRecord
from graveler.runs.records import RunRecords
from graveler.runs.rollback import Rollback, RollbackPlan, on_targets, plan, readers, rollback
from graveler.runs.run import Run
from graveler.runs.state import Publish, RunState
from graveler.runs.steps.environment import STEP, OpenStep, StepEnvironment, open_step_of
from graveler.runs.steps.step import Step

_REAPED_EVERY = timedelta(minutes=5)
_log = logging.getLogger(__name__)


class Runs:
    """The runs of one repository."""

    def __init__(self, repository: Stores) -> None:
        self._repository = repository
        self._records = RunRecords(repository)
        self._reaped: datetime | None = None

    def open(
        self,
        key: str,
        *,
        accepts: Callable[[RunRecord | None], None] | None = None,
        **terms: Unpack[RunTerms],
    ) -> Run:
        """Open a new attempt of the run `key`; every earlier attempt is fenced.

        An open or parked run resumes with the commits of its branch, unless it was opened with
        ``on_failure="drop"``. Any other run starts from the present head of the target.

        Args:
            key: Any text that names the run by its output, such as its hour.
            accepts: As for `open_or_attach`.
            terms: Any of ``into``, ``metadata``, ``on_failure``, ``lease`` and ``ttl``; see
                `RunTerms`.
        """
        checked = Terms.of(key, within=self._repository, accepts=accepts, **terms)
        record = open_run(self._records, checked)
        self._reap_later(record.branch)
        return self._run(record)

    def _reap_later(self, but: str) -> None:
        now = self._repository.clock.now()
        if self._reaped is not None and abs(now - self._reaped) < _REAPED_EVERY:
            return

        def task() -> None:
            if reap_due(self._records, but=but):
                self._reaped = now

        self._repository.staging.background.run(task)

    def open_or_attach(
        self,
        key: str,
        *,
        owner: str,
        accepts: Callable[[RunRecord | None], None] | None = None,
        **terms: Unpack[RunTerms],
    ) -> Run:
        """Open the run `key` for an owner of several processes, such as an orchestrator's run.

        The first process opens a new attempt, which fences those of other owners; the others
        get the same attempt, in any order. An attempt that is over is not opened again for its
        owner: a process that outlives its orchestrator run must not take the run from its
        successor. The exception is an attempt that was parked because its lease expired: if no
        other owner has opened the run since, the owner gets a new attempt.

        Args:
            key: Text that names the run by its output.
            owner: Name of the opener, such as the orchestrator's run id; unique, never used again.
            accepts: Called with the run's record before an attempt is opened, with None for a new
                run, possibly twice; an exception refuses the attempt, and the run does not change.
            terms: As for `open`; those of the first process apply.

        Raises:
            FencedError: The owner's attempt was parked or abandoned, or a newer one was opened.
        """
        owner = args.text(owner, "owner", most=RUN_KEY_BYTES)
        checked = Terms.of(key, within=self._repository, owner=owner, accepts=accepts, **terms)
        return self._run(open_or_attach(self._records, checked))

    def attach(self, handle: RunHandle | str) -> Run:
        """Return the run of a handle, given as object or as JSON by another process.

        Raises:
            InvalidInputError: The handle belongs to another repository.
        """
        if isinstance(handle, str):
            handle = RunHandle.from_json(handle)
        args.instance(handle, "handle", RunHandle, "a RunHandle, or its JSON")
        if handle.repository != self._repository.name:
            raise InvalidInputError(
                f"run handle is of repository {handle.repository!r}, not {self._repository.name!r}"
            )
        handle = replace(handle, location=self._repository.location)
        return Run(Attempt(self._records, handle, None))

    def branch(self, name: str, fence: str) -> RunBranch:
        """Return the branch of a run or a step for a process that was given its name and its fence.

        Raises:
            FencedError: The attempt of the run, or the try of the step, is over.
            InvalidInputError: The branch is that of no run.
        """
        refs = self._repository.refs
        with owned(name, fence):
            check_fence(refs.branches.get(name), fence)
        record = self._records.owner_of(name)
        if record is None:
            raise InvalidInputError(f"branch {name!r} is that of no run: write it without a fence")
        attempt = Attempt(self._records, self._records.handle(record), record)
        return Run(attempt) if name == record.branch else RunBranch(attempt, name, fence=fence)

    def handle_of(self, given: StepEnvironment) -> RunHandle:
        """Return the handle of the run that environment variables name, by handle or by key.

        Raises:
            RunNotFoundError: No run has the key.
            RunStateError: The run that the key names is parked or over, and was not published.
        """
        states = (RunState.OPEN, RunState.PUBLISHING, RunState.PUBLISHED)
        return _checked(given).handle(self._records, states)

    def open_step(self, given: StepEnvironment) -> OpenStep:
        """Return the step that another process has opened and named by environment variables.

        Raises:
            FencedError: The try of the step is over.
            InvalidInputError: The variables name no open step.
        """
        return open_step_of(self._records, _checked(given))

    @contextmanager
    def working(self, given: StepEnvironment) -> Iterator[Step | OpenStep]:
        """Work in the step that environment variables name, for a ``with`` block.

        If another process has opened the step, that process joins it. Otherwise the step is opened
        here and joins at the end of the block. An exception drops it.

        Raises:
            FencedError: A newer attempt owns the run, or the try of the step is over.
            InvalidInputError: The variables name no run, or no step.
        """
        leaving: SystemExit | None = None
        with self._work(_checked(given)) as step:
            try:
                yield step
            except SystemExit as error:
                if error.code not in (None, 0):
                    raise
                leaving = error
        if leaving is not None:
            raise leaving

    @contextmanager
    def _work(self, given: StepEnvironment) -> Iterator[Step | OpenStep]:
        if given.is_open:
            step = self.open_step(given)
            yield step
            step.record_reads()
            return
        handle = given.handle(self._records)
        if given.step is None:
            raise InvalidInputError(
                f"no step of run {handle.key!r} in the environment: set {STEP} to a name, or give "
                "--step"
            )
        run, named = self.attach(handle), given.step
        with (
            run.renewing(),
            run.step(
                named.name,
                try_number=named.try_number,
                metadata=named.metadata,
                owner=named.owner,
            ) as started,
        ):
            yield started

    def get(self, key: str) -> RunRecord:
        """Return the record of a run, or raise RunNotFoundError."""
        return self._records.get(args.run_key(key))

    @listing
    def list(
        self,
        state: RunState | str | None = None,
        *,
        live: bool = False,
        limit: int | None = None,
        after: RunRecord | str | None = None,
    ) -> Iterator[RunRecord]:
        """Yield the records of all runs, or of those in one state, the latest opened first.

        It reads no more than it yields, except for runs of other states between them. For unfinished
        runs, only these are read.

        Args:
            live: Only runs that are not over: open, publishing or parked.
            after: Only runs after this one, the last of the previous page: its record or its key.
                A run that was opened again since has a new position; its record keeps the old
                position.

        Raises:
            RunNotFoundError: `after` is the key of no run.
        """
        state = None if state is None else args.choice(state, "state", RunState)
        args.flag(live, "live"), args.optional(args.count, limit, "limit")
        if not isinstance(after, RunRecord | None):
            after = self._records.get(args.text(after, "after"))
        source = self._records.live if live or state in LIVE else self._records.latest
        return islice((one for one in source(after) if state in (None, one.state)), limit)

    def hours(self) -> Iterator[tuple[datetime, str]]:
        """Yield the time that the key of each run names, and its branch, the latest opened first.

        A time is in the first 80 characters, as in ``flights 2013-01-01T05:00Z`` or ``2013/01/01/05:00``,
        in UTC. Runs without one are left out. No record of a run is read, see `outlines`.
        """
        for _, branch in self._records.index.opened(b""):
            if (hour := hour_of_run(branch)) is not None:
                yield hour, branch

    def outlines(self, branches: Iterable[str]) -> Iterator[RunOutline]:
        """Yield what a list shows of the runs that have these branches, in their order."""
        return self._records.outlines(args.texts(branches, "branches"))

    def states(self) -> Mapping[RunState, int]:
        """Return the number of runs in each state; reads all runs."""
        return Counter(record.state for record in self._records.list())

    def needed_commits(self) -> Iterator[str]:
        """Yield the commits that unfinished runs need; reads all runs."""
        for record in self._records.list():
            if record.live:
                yield from filter(None, (record.base, record.head, record.candidate))

    def park(
        self, key: str, *, owner: str | None = None, attempt: int | None = None, reason: str = ""
    ) -> RunRecord:
        """Park a run from outside, for example from a sensor of failed orchestrator runs.

        A run that is over or parked does not change.

        Args:
            owner: Park only if the present attempt belongs to this owner.
            attempt: Park only if this is the present attempt.

        Raises:
            FencedError: Another attempt is present.
        """
        handle = self._records.handle(self._present(key, owner, attempt))
        return lifecycle.park(self._records, handle, reason=args.reason_text(reason))

    def abandon(
        self, key: str, *, owner: str | None = None, attempt: int | None = None, reason: str = ""
    ) -> RunRecord:
        """Abandon a run: its branch is deleted, its record stays.

        Args:
            owner: Abandon only if the present attempt belongs to this owner.
            attempt: Abandon only if this is the present attempt.

        Raises:
            RunStateError: The run is published.
            FencedError: Another attempt is present.
        """
        key, reason = args.run_key(key), args.reason_text(reason)
        if owner is not None:
            attempt = self._present(key, owner, attempt).attempt
        args.optional(args.count, attempt, "attempt", least=1)
        return lifecycle.abandon(self._records, key, reason=reason, attempt=attempt)

    def _present(self, key: str, owner: str | None, attempt: int | None) -> RunRecord:
        key, owner = args.run_key(key), args.optional(args.text, owner, "owner")
        args.optional(args.count, attempt, "attempt", least=1)
        record = self._records.get(key)
        if owner is not None and record.owner != owner:
            raise FencedError(
                f"run {key!r}: attempt {record.attempt} is of {record.owner or 'nobody named'!r}, "
                f"not of {owner!r}"
            )
        if attempt is not None and record.attempt != attempt:
            raise FencedError(f"run {key!r} is at attempt {record.attempt}, not {attempt}")
        return record

    def reap(
        self,
        *,
        dry_run: bool = True,
        now: Moment | None = None,
        limit: int | None = None,
        everything: bool = False,
    ) -> Sequence[Reaped]:
        """Reap the runs that their orchestrator did not end.

        An attempt whose lease has expired is settled if it was publishing. Otherwise it is parked,
        or dropped if it was opened with ``drop``. A run that was parked for longer than its time to
        live is abandoned. Each change is one compare-and-set, which an opener or the attempt
        itself may win. No other branch changes.

        Only runs that are due are read.

        Args:
            dry_run: Only return what would be done.
            now: The time to compare with; by default the repository's clock. Clocks may differ by a
                third of a lease.
            limit: Largest number of runs to reap.
            everything: Check every run and every run's branch, to find branches of a process that
                died while another process ended its run.

        Returns:
            The actions, or the planned actions.
        """
        args.flag(dry_run, "dry_run"), args.optional(args.count, limit, "limit")
        return reap(
            self._records,
            dry_run=dry_run,
            now=self._repository.clock.now() if now is None else args.moment(now, "now"),
            limit=limit,
            everything=everything,
        )

    def publishes(self, key: str) -> tuple[Publish, ...]:
        """Return the publishes of a run with their present state on the targets, the oldest first.

        `RunRecord.publishes` is not compared with the targets: it does not show a reset, or a revert
        by other means than `rollback`.

        Raises:
            RunNotFoundError: No such run.
        """
        record = self._records.get(args.run_key(key))
        return next(on_targets(self._records, [record])).publishes

    def on_targets(self, records: Iterable[RunRecord]) -> Iterator[RunRecord]:
        """Yield records of runs with the present state of their publishes on the targets.

        Their `RunRecord.published`, `commit` and `on_target` therefore show a reset, and a revert by
        other means than `rollback`. Each target is read once, down to the oldest of the publishes.
        """
        return on_targets(
            self._records, args.each(records, "records", RunRecord, "records of runs")
        )

    def plan_rollback(
        self, key_or_commit: str | Commit, *, into: str | BranchLike | None = None
    ) -> RollbackPlan:
        """Return the publish that `rollback` would revert, and its readers; nothing changes.

        Raises:
            RunStateError: The run has published nothing, or its target has lost it.
            NoChangesError: The run changed nothing.
            RunNotFoundError: It is neither a run nor a commit of one.
        """
        target = args.optional(args.branch_text, into, "into", within=self._repository)
        return plan(self._records, args.run_or_commit(key_or_commit), into=target)

    def rollback(
        self,
        key_or_commit: str | Commit,
        *,
        into: str | BranchLike | None = None,
        message: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Rollback:
        """Roll back what a run published, by one revert commit on its target.

        The state of the run does not matter: a later attempt that is open, parked or abandoned does
        not change an earlier publish. An attempt that was forked from the reverted publish can no
        longer be published, and the next one starts from the target.

        Idempotent: a second call returns the same commit. `plan_rollback` shows what it reverts.

        Args:
            key_or_commit: The run's key, for its last publish that changed a file, or the id of
                the commit that published it.
            into: With a key, only publishes to this branch count.
            message: Message of the commit; by default a description.

        Raises:
            MergeConflictError: Later changes overlap; they are listed, and the target does not move.
            RunStateError: The run has published nothing, or its target has lost it.
            NoChangesError: The run changed nothing, or none of its changes are left.
            RunNotFoundError: It is neither a run nor a commit of one.
            ProtectedBranchError: The target does not allow reverts.
        """
        return rollback(
            self._records,
            args.run_or_commit(key_or_commit),
            into=args.optional(args.branch_text, into, "into", within=self._repository),
            message=args.optional(args.text, message, "message", most=MESSAGE_BYTES),
            metadata=args.pairs(metadata, "metadata"),
        )

    def readers(self, key_or_commit: str | Commit) -> tuple[RunRecord, ...]:
        """Return the runs that have read the output of a published run, by key.

        The result is based on reads through the run, its steps and their views, and on reads recorded
        by `Run.reads`.

        Args:
            key_or_commit: As for `rollback`.
        """
        return readers(self._records, args.run_or_commit(key_or_commit))

    def _run(self, record: RunRecord) -> Run:
        return Run(Attempt(self._records, self._records.handle(record), record))


@contextmanager
def running(
    runs: Runs,
    key: str,
    *,
    gates: Iterable[Gate | Check] | Gate | Check,
    strategy: Strategy | None,
    **terms: Unpack[RunTerms],
) -> Iterator[Run]:
    """Open a run; commit and publish it at the end of the block, close it on an exception."""
    check_strategy(strategy)
    checked = as_gates(gates)
    run = runs.open(key, **terms)
    try:
        yield run
        if run.result is None:  # otherwise it was published within the block
            run.commit_staged()
        run.publish(checked, strategy=strategy)
    except BaseException as error:
        _close_failed(run, f"{type(error).__name__}: {error}")
        if isinstance(error, SystemExit) and error.code in (None, 0):
            _log.warning("run %r is not published: sys.exit() has left its block", run.key)
        raise


def _close_failed(run: Run, reason: str) -> None:
    try:
        if run.close(reason).attempt != run.attempt:
            _log.info("run %r: a newer attempt owns it", run.key)
    except Exception:  # noqa: BLE001 - must not mask the run's error
        _log.exception("run %r could not be parked; the next attempt will park it", run.key)


def _checked(given: object) -> StepEnvironment:
    return args.instance(given, "given", StepEnvironment, "a StepEnvironment")
