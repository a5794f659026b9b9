"""A step: a part of a run on its own branch, which joins the run on success.

Steps run in parallel and never see each other's partial writes. A step that runs again replaces
the writes of its earlier success, which the claims of the branch tell (`graveler.committed.claims`). A
later change of another step to the same path stays.
"""

import logging
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from graveler.base.arguments import text
from graveler.base.names import check_caller_pairs, step_branch
from graveler.committed.claims import claims_of
from graveler.committed.diff import same_records
from graveler.config import exported
from graveler.errors import FencedError, NoChangesError
from graveler.model import MESSAGE_BYTES, BranchRecord, Commit
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit, tip_of
from graveler.publishing.tables import check_merged, noted, tables_outside
from graveler.refs.branches import owned
from graveler.refs.refs import Look
from graveler.repository.merges import merge_trees, reconciled
from graveler.repository.reconciliation import Reconciliation, Trees, trees_of
from graveler.repository.writes.borrowed import Hold, holding
from graveler.runs.attempt import Attempt, RunBranch
from graveler.runs.branch import create_or_replace, discard_branch, drop_branch, head_of
from graveler.runs.record import encode_inputs
from graveler.runs.steps.earlier import WORK, earlier_join, find_step, undone, work_id
from graveler.runs.steps.environment import StepHandle, step_variables

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Try:
    """One try of a step.

    Attributes:
        start: The fork without the work of the earlier success.
        earlier: The commit with which the work that this try replaces joined, or None.
        owner: The owner of the step, or "".
    """

    step: str
    try_number: int
    number: int
    fence: str
    metadata: Mapping[str, str]
    fork: Commit
    start: Commit
    earlier: Commit | None
    how: Mapping[str, bool]
    owner: str


def open_step(
    attempt: Attempt,
    *,
    name: str,
    try_number: int,
    metadata: Mapping[str, str],
    keeps_tables: bool = False,
    owner: str = "",
) -> "Step":
    """Start a try of the step `name` on its own branch, and fence its earlier tries."""
    stores, records, run = attempt.stores, attempt.records, attempt.handle
    branch = step_branch(run.branch, name)
    check_caller_pairs(f"step {name!r}", metadata)
    refs = stores.refs
    mine, of_run, newest = refs.together.read(
        records.place(run.key), refs.branches.place(run.branch), records.try_place(branch)
    )
    attempt.saw(records.read(run.key, mine) or records.get(run.key))
    attempt.work()
    fork = head_of(stores, run, of_run and of_run.record)
    number, fence = records.next_try(branch, run.attempt, newest, owner)
    known = attempt.known
    earlier = earlier_join(stores, known, fork, branch, name)
    how = {"fresh": known.fresh, "keeps_tables": keeps_tables}
    with holding(stores) as hold:
        start = fork
        trees = undone(stores, fork, branch, earlier, hold, **how)
        if trees != trees_of(fork):
            spec = CommitSpec(f"{name}: without its earlier try", {"graveler.run": run.key})
            start = make_commit(
                stores, tree=trees.files, parents=(fork,), spec=spec, claims=trees.claims
            )
        record = BranchRecord(
            name=branch,
            commit_id=start.id,
            staging_token=stores.ids.unique(),
            attempt=run.attempt,
            fence=fence,
            hidden=True,
        )

        def newest_try(_: BranchRecord) -> BranchRecord:
            if records.last_try_fence(branch) != fence:
                raise FencedError(f"step branch {branch!r}: a newer try was started meanwhile")
            return record

        named, found = refs.name_and_read(refs.branches.place(run.branch))
        create_or_replace(stores, record, lambda: record, newest_try, named=named, missing=True)
    try:
        # if the run was opened again, leave no branch
        now = found[0] and found[0].record if found else refs.branches.find(run.branch)
        head_of(stores, run, now)
    except FencedError:
        drop_branch(stores, branch, up_to=run.attempt)
        raise
    pairs = {**known.metadata, **metadata}
    work = _Try(name, try_number, number, fence, pairs, fork, start, earlier, how, owner)
    return Step(attempt, work)


class Step(RunBranch):
    """One try of a step, to read and write; a context manager.

    Leaving the block commits the staged writes and joins the step to the run's branch in one
    commit; an exception discards the try.

    Attributes:
        run: The handle of the run.
        step: Name of the step.
        try_number: The caller's count of tries, stored in the commit.
        earlier: The commit with which the step last joined the run, which this try replaces; None
            if the step never joined.
        into: The branch to which the run publishes.
        base: Id of the commit of that branch from which the run was forked.
        start: The commit on the step's branch from which the try starts.
        result: After the join: the run's commit, or None if the step changed nothing.
    """

    def __init__(self, attempt: Attempt, work: _Try) -> None:
        branch = step_branch(attempt.handle.branch, work.step)
        super().__init__(attempt, branch, fence=work.fence)
        self.run = attempt.handle
        self.step = work.step
        self.try_number = work.try_number
        self.earlier = work.earlier
        self.into = attempt.known.into
        self.base = attempt.known.base
        self.start = work.start
        self.result: Commit | None = None
        self._work = work
        self._process = os.getpid()

    def __enter__(self) -> Self:
        self._process = os.getpid()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if os.getpid() != self._process:
            return  # a forked child: its parent joins or discards the step
        try:
            if error is None:
                self.join()
        except BaseException:
            self._discard_quietly()
            raise
        if error is not None:
            self._discard_quietly()

    def environment(self) -> dict[str, str]:
        """Return the variables with which another process works in this step until it is joined.

        ``graveler.attach()``, the verbs of the command line and ``grav://`` addresses read them from
        the environment of their process. ``GRAVELER_URL`` is the address of the step's files. They
        have no secret, unless the lake's settings are in a variable themselves.
        """
        work = self._work
        handle = StepHandle(work.step, work.try_number, dict(work.metadata), self._fence)
        return step_variables(self.run, handle)

    def exported(self) -> AbstractContextManager[None]:
        """Set the variables of `environment` in this process, for a ``with`` block.

        For libraries that start programs with the environment of their process, such as dagster-dbt.
        The variables belong to the whole process: export one step at a time.
        """
        return exported(self.environment())

    def _keep(self) -> str:
        # the writes of the earlier try are undone here; equal content written again is the same file
        return "" if self.earlier is None else self._work.fork.metarange

    def _marks(self) -> dict[str, str]:
        return {"graveler.run": self.run.key, "graveler.step": self.step}

    def discard(self) -> None:
        """Discard the try: delete the step's branch."""
        discard_branch(self.repository, self._name, lambda now: now.fence == self._fence)

    def undo(self) -> Commit | None:
        """Join without writes, which undoes the step's earlier success.

        Returns:
            The commit on the run's branch; None if the step had not joined before.

        Raises:
            FencedError: A newer try of the step, or attempt of the run, was opened.
        """
        try:
            return self.join(f"{self.step}: undone")
        except BaseException:
            self._discard_quietly()
            raise

    def _discard_quietly(self) -> None:
        try:
            self.discard()
            self._end(None)
        except Exception:  # noqa: BLE001 - must not mask the first error
            _log.exception(
                "step %r: its branch could not be dropped; the run's end will", self.step
            )

    def join(self, message: str = "") -> Commit | None:
        """Commit the staged writes and merge the step into the run's branch in one commit.

        Args:
            message: Message of that commit; by default the step and its try.

        Returns:
            The commit on the run's branch; None if the step changed nothing.

        Raises:
            FencedError: A newer try of the step, or attempt of the run, was opened.
            MergeConflictError: Another step changed the same paths differently.
        """
        message = text(message, "message", empty=True, most=MESSAGE_BYTES)
        title = f"{self.step} (try {self.try_number})"
        try:
            done = self.commit(title)
        except NoChangesError:
            with owned(self._name, self._fence):
                done = self.head
        self.result = self._join(done, message or title)
        self._end("" if self.result is None else self.result.id)
        self.discard()
        return self.result

    def _end(self, joined: str | None) -> None:
        if self._work.owner:
            self._attempt.records.end_try(self._name, self._fence, joined)

    def _join(self, done: Commit, message: str) -> Commit | None:
        stores, work = self.repository, self._work
        metadata = {
            **work.metadata,
            "graveler.run": self.run.key,
            "graveler.attempt": str(self.run.attempt),
            "graveler.step": self.step,
            "graveler.try": str(self.try_number),
            "graveler.step_number": str(work.number),
            "graveler.step_base": work.start.id,
            "graveler.step_head": done.id,
            WORK: work_id(stores, done, self._name),
        }
        if read := self._reads.all:
            metadata["graveler.inputs"] = encode_inputs(read)
        spec = CommitSpec(message, metadata)

        refs, places = stores.refs, self._attempt.records
        into, newest = refs.together.read(
            refs.branches.place(self.run.branch), places.try_place(self._name)
        )
        first = None
        fence: str | None = None
        if into is not None:
            with owned(self.run.branch, self.run.fence):
                first = tip_of(stores, Look.of(into, None), fence=self.run.fence)
            fence = "" if newest is None else newest.record.fence

        def build(tip: Tip) -> BranchRecord | None:
            nonlocal fence
            fence = fence if tip is first else places.last_try_fence(self._name)
            if fence != self._fence:
                raise FencedError(f"step {self.step!r}: a newer try was started")
            trees = self._joined_trees(tip.head, done, hold)
            if (
                self.earlier is None
                and trees.claims == claims_of(tip.head)
                and same_records(stores.ranges, tip.head.metarange, trees.files)
            ):
                return None
            check_merged(stores, work.start.metarange, done, tip.head, trees.files)
            named = noted(spec, tables_outside(stores, done, tip.head))
            made = make_commit(
                stores, tree=trees.files, parents=(tip.head,), spec=named, claims=trees.claims
            )
            return tip.at(made)

        with holding(stores) as hold:
            return land(
                stores, self.run.branch, "step", build, fence=self.run.fence, first=first
            ).commit

    def _joined_trees(self, head: Commit, done: Commit, hold: Hold) -> Trees:
        stores, work = self.repository, self._work
        latest = find_step(stores, head.id, key=self.run.key, step=self.step)
        if latest is not None and int(latest.metadata["graveler.step_number"]) > work.number:
            raise FencedError(f"step {self.step!r}: a newer try has joined the run already")
        if head.id == work.fork.id:
            now, new = trees_of(head), trees_of(done)
            if self.earlier is not None and same_records(stores.ranges, now.files, new.files):
                return Trees(now.files, new.claims)  # in the ranges that are there
            return new
        trees = undone(stores, head, self._name, latest or self.earlier, hold, **work.how)
        what = f"step {self.step!r} of run {self.run.key!r}"
        start = trees_of(work.start)
        both = Reconciliation.of(stores, None, start, trees_of(done), trees, joins=True)
        merged = merge_trees(
            stores,
            base=start.files,
            source=done.metarange,
            dest=trees.files,
            strategy=both.settled,
            what=what,
            lines=(done, head),
        )
        return reconciled(stores, both, merged, what=what, lines=(done, head))
