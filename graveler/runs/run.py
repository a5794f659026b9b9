"""The public class of one attempt of a run: its branch, its steps and its end."""

from collections.abc import Callable, Iterable, Mapping

from graveler.base import arguments as args
from graveler.display import Rows
from graveler.errors import NoChangesError
from graveler.gates import Gate, Verdict, as_gates
from graveler.gates.gate import Check
from graveler.model import MESSAGE_BYTES, RUN_KEY_BYTES, Commit
from graveler.repository.strategies import Strategy, check_strategy
from graveler.runs import lifecycle
from graveler.runs.attempt import Attempt, RunBranch
from graveler.runs.history import JoinedStep, joined_steps, lost_steps
from graveler.runs.publication import PublishResult, PublishTerms, preview_verdicts, publish
from graveler.runs.record import RunRecord, encode_inputs
from graveler.runs.rollback import on_targets
from graveler.runs.state import RunState
from graveler.runs.steps.environment import StepHandle, step_variables
from graveler.runs.steps.step import Step, open_step


class Run(RunBranch):
    """An attempt of a run, on the run's branch.

    Direct commits stay when the run is parked and opened again. Do work that a retry repeats in a
    step, which replaces the writes of its earlier try.

    Attributes:
        handle: The handle of this attempt, for other processes.
        result: The result of the publish; None before it.
    """

    def __init__(self, attempt: Attempt) -> None:
        super().__init__(attempt, attempt.handle.branch, fence=attempt.handle.fence)
        self.handle = attempt.handle
        self.result: PublishResult | None = None
        self._records = attempt.records

    def __repr__(self) -> str:
        return f"<Run {self.key!r} attempt {self.attempt} of {self.repository.name}>"

    @property
    def key(self) -> str:
        """Name of the run."""
        return self.handle.key

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self.handle.attempt

    @property
    def branch(self) -> str:
        """Name of the run's branch."""
        return self.handle.branch

    @property
    def record(self) -> RunRecord:
        """The present record of the run; a newer attempt may have changed it."""
        return self._records.get(self.key)

    @property
    def state(self) -> RunState:
        """The present state of the run."""
        return self.record.state

    @property
    def into(self) -> str:
        """The branch that the run publishes to."""
        return self.record.into

    @property
    def on_target(self) -> str:
        """The run's work that its target has now, as text: ``main has 1a2b3c4d5e6f of attempt 1``."""
        return next(on_targets(self._records, [self.record])).on_target

    def step(
        self,
        name: str,
        *,
        try_number: int = 1,
        metadata: Mapping[str, str] | None = None,
        tables: str = "replace",
        owner: str = "",
    ) -> Step:
        """Start a try of a step on a branch of its own; use it in a ``with`` block.

        Args:
            name: Name of the step; a new try replaces the earlier one.
            try_number: The caller's count of tries, stored in the commit.
            tables: What becomes of the Delta tables that an earlier try wrote. ``replace`` puts them
                back to the version before it. ``keep`` leaves them, and the step replaces its rows.
            owner: Name of the program that the step belongs to, such as the run of an orchestrator. In
                one attempt, the step then accepts no other owner.

        Raises:
            FencedError: A newer attempt owns the run.
            AlreadyExistsError: In this attempt, the step has another owner.
            MergeConflictError: Others wrote later versions of a table that is to be replaced.
            ExpiredError: An earlier file must return, and its bytes are gone.
        """
        return open_step(
            self._attempt,
            name=args.text(name, "name", most=RUN_KEY_BYTES),
            try_number=args.count(try_number, "try_number"),
            metadata=args.pairs(metadata, "metadata"),
            keeps_tables=args.choice(tables, "tables", ("replace", "keep")) == "keep",
            owner=args.text(owner, "owner", empty=True, most=RUN_KEY_BYTES),
        )

    def step_environment(
        self, name: str, *, try_number: int = 1, metadata: Mapping[str, str] | None = None
    ) -> dict[str, str]:
        """Return the variables with which another process opens and joins a step of this attempt.

        That process is ``graveler run exec -- COMMAND``, or it calls ``graveler.attach()``. For a
        step that this process has opened, see `Step.environment`.

        Args:
            try_number: The caller's count of tries, stored in the commit.
        """
        name = args.text(name, "name", most=RUN_KEY_BYTES)
        args.count(try_number, "try_number")
        handle = StepHandle(name, try_number, args.pairs(metadata, "metadata"))
        return step_variables(self.handle, handle)

    def undo_step(self, step: str, *, metadata: Mapping[str, str] | None = None) -> Commit | None:
        """Undo a step, as if it had run again and written nothing.

        A later change of another step to the same path stays, as in a retry.

        Returns:
            The commit on the run's branch; None if the step had not joined.

        Raises:
            FencedError: A newer attempt owns the run.
        """
        name = args.text(step, "step", most=RUN_KEY_BYTES)
        return self.step(name, try_number=0, metadata=metadata).undo()

    def joined_steps(self) -> Mapping[str, JoinedStep]:
        """Return the last join of each step, by its name; none after the run's branch is deleted."""
        return joined_steps(self.repository, self.record)

    def lost_steps(self, made: Mapping[str, str]) -> tuple[str, ...]:
        """Return the steps whose work would not be on the target if the run published now.

        The result is empty if the run's branch is deleted, because such a run cannot be published.

        Args:
            made: Steps that succeeded, each with the id of its commit on the run's branch.
        """
        return lost_steps(self.repository, self.record, args.pairs(made, "made"))

    def last_joins(self) -> Mapping[str, Commit]:
        """Return the commit with which each step of an owner last joined, in any attempt, by its name.

        The work may be lost since, as when the run's branch was deleted; see `lost_steps`.
        """
        commits = self.repository.refs.commits
        found = filter(None, map(commits.find, self._records.joins(self.branch)))
        return {commit.metadata["graveler.step"]: commit for commit in found}

    def _marks(self) -> dict[str, str]:
        marks = {"graveler.run": self.key, "graveler.attempt": str(self.attempt)}
        if read := self._reads.all:
            marks["graveler.inputs"] = encode_inputs(read)
        return marks

    def commit_staged(self) -> Commit | None:
        """Commit the staged writes, if there are any."""
        try:
            return self.commit(f"run {self.key}")
        except NoChangesError:
            return None

    def judge(self, gates: Iterable[Gate | Check] | Gate | Check) -> tuple[Verdict, ...]:
        """Run the gates on the tree that the target would get now; nothing moves.

        A publish runs the gates itself, but reuses these verdicts if their inputs are unchanged and
        the gates are built-in checks or have a version.

        Raises:
            MergeConflictError: The target changed the same paths.
            FencedError: A newer attempt owns the run.
            StateError: Writes are staged but not committed.
        """
        self._attempt.work()
        with self.renewing():
            return Rows(preview_verdicts(self._records, self.handle, as_gates(gates)))

    def publish(
        self,
        gates: Iterable[Gate | Check] | Gate | Check = (),
        *,
        strategy: Strategy | None = None,
        message: str = "",
        accepts: Callable[[Commit], None] | None = None,
    ) -> PublishResult:
        """Publish the run's committed head if every gate passes; idempotent.

        Args:
            gates: One check or several of the tree that the target would get.
            strategy: ``source-wins`` or ``dest-wins`` for paths that conflict.
            message: Message of the commit on the target; "" for one that names the run.
            accepts: Called with each head of the target before the candidate for it is built. If the
                target moves before that candidate lands, it is called again. An exception refuses the
                publish, and the target does not move.

        Raises:
            GateFailedError: A gate refused; the run is parked, the target did not move.
            MergeConflictError: The target changed the same paths; the run is parked.
            FencedError: A newer attempt owns the run.
            StateError: Writes are staged but not committed.
            InvalidInputError: The strategy is unknown.
        """
        check_strategy(strategy)
        message = args.text(message, "message", empty=True, most=MESSAGE_BYTES)
        terms = PublishTerms(strategy, message, args.optional(args.function, accepts, "accepts"))
        self._attempt.work(self._reads)
        with self.renewing():
            self.result = publish(
                self._records,
                self.handle,
                into=self._attempt.known.into,
                gates=as_gates(gates),
                terms=terms,
            )
        return self.result

    def close(self, reason: str = "") -> RunRecord:
        """End the attempt; an unpublished run is parked or dropped by its `on_failure`.

        Idempotent. An attempt that is over does not change; its record is returned.
        """
        return lifecycle.close(self._records, self.handle, reason=args.reason_text(reason))

    def park(self, reason: str = "") -> RunRecord:
        """Park the run for a newer attempt; idempotent, also after the publish.

        Raises:
            FencedError: A newer attempt owns the run.
        """
        return lifecycle.park(self._records, self.handle, reason=args.reason_text(reason))

    def abandon(self, reason: str = "") -> RunRecord:
        """Abandon the run: its branch is deleted, its record stays.

        Raises:
            RunStateError: The run is published.
            FencedError: A newer attempt owns the run.
        """
        return lifecycle.abandon(
            self._records, self.key, reason=args.reason_text(reason), mine=self.handle
        )
