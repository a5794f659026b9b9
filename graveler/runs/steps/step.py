"""A step: a part of a run on a branch of its own, which joins the run on success.

Steps run in parallel and never see each other's partial writes. A step that runs again replaces
the writes of its earlier success: the branch of the new try starts from the run's head with those
writes undone, and the join undoes what an earlier try joined meanwhile. A later change of another
step to the same path stays.

The commit that joins a step names, in its metadata, the trees before and after the step's
own work (``graveler.step_base``, ``graveler.step_head``); a later try undoes the difference of the
two. The metadata is part of the branch, so it moves by the same compare-and-set.
"""

import logging
from collections.abc import Mapping
from contextlib import suppress
from types import TracebackType
from typing import Literal, Self

from graveler.arguments import (
    text,
)
from graveler.committed import CONFLICT, Unresolved, apply, diff, get, same_records
from graveler.errors import (
    AlreadyExistsError,
    FencedError,
    NoChangesError,
    RefNotFoundError,
)
from graveler.identity import record_id
from graveler.model import MESSAGE_BYTES, BranchRecord, Commit
from graveler.names import check_caller_pairs, step_branch
from graveler.publishing.landing import CommitSpec, Tip, land, make_commit
from graveler.reads.stores import Stores
from graveler.records import value_identity
from graveler.refs import move, remove
from graveler.refs.branches import check_fence, owned
from graveler.repository.merges import merge_trees
from graveler.runs.attempt import Attempt, RunBranch
from graveler.runs.branch import drop_branch
from graveler.runs.inputs import encode_inputs
from graveler.runs.record import RunHandle
from graveler.runs.records import RunRecords
from graveler.runs.steps.history import own_steps

_log = logging.getLogger(__name__)


def find_step(stores: Stores, head: str, *, key: str, step: str) -> Commit | None:
    """Return the commit by which the step last joined the run, or None.

    Reads back from `head` over the run's own commits only.
    """
    own = own_steps(stores, head, key=key)
    return next((commit for name, commit in own if name == step), None)


def _without(stores: Stores, tree: str, joined: Commit) -> str:
    """Return `tree` with the work of an earlier success of a step undone.

    A path is restored if it is still as that work left it; a path that was changed since stays.
    """
    base = stores.refs.commits.find(joined.metadata["graveler.step_base"])
    head = stores.refs.commits.find(joined.metadata["graveler.step_head"])
    if base is None or head is None:
        _log.warning("step %s: earlier work is no longer known", joined.metadata["graveler.step"])
        return tree
    changes = (
        (
            change.key,
            None if change.left_value is None else record_id(change.key, change.left_value),
            change.left_value,
        )
        for change in diff(stores.ranges, base.metarange, head.metarange)
        if value_identity(get(stores.ranges, tree, change.key))
        == value_identity(change.right_value)
    )
    return apply(stores.ranges, tree, changes, stores.splitting).metarange


def open_step(
    attempt: Attempt, *, name: str, try_number: int, metadata: Mapping[str, str]
) -> "Step":
    """Start a try of the step `name` on a branch of its own, and fence its earlier tries.

    Raises:
        FencedError: A newer attempt owns the run.
    """
    stores, records, run = attempt.stores, attempt.records, attempt.handle
    branch = step_branch(run.branch, name)
    check_caller_pairs(f"step {name!r}", metadata)
    fork = _run_head(stores, run)
    number, fence = records.next_try(branch, run.attempt)
    earlier = find_step(stores, fork.id, key=run.key, step=name)
    for head in reversed(attempt.known.rounds):  # the latest round in which it ran, if not this one
        if earlier is None:
            earlier = find_step(stores, head, key=run.key, step=name)
    start = fork
    if earlier is not None:
        tree = _without(stores, fork.metarange, earlier)
        if not same_records(stores.ranges, fork.metarange, tree):
            spec = CommitSpec(f"{name}: without its earlier try", {"graveler.run": run.key})
            start = make_commit(stores, tree=tree, parents=(fork,), spec=spec)
    record = BranchRecord(
        name=branch,
        commit_id=start.id,
        staging_token=stores.ids.unique(),
        attempt=run.attempt,
        fence=fence,
        hidden=True,
    )
    _take_branch(stores, records, record)
    try:
        _run_head(stores, run)  # if the run was opened again, leave no branch
    except FencedError:
        drop_branch(stores, branch, up_to=run.attempt)
        raise
    return Step(
        attempt,
        fence=fence,
        number=number,
        name=name,
        try_number=try_number,
        metadata={**attempt.known.metadata, **metadata},
        fork=fork,
        start=start,
        earlier=earlier,
    )


def _run_head(stores: Stores, run: RunHandle) -> Commit:
    record = stores.refs.branches.find(run.branch)
    if record is None:
        raise FencedError(
            f"run {run.key!r}: its branch is gone, the run is over: it was published or given up; "
            "what is to be written after that needs a run of its own"
        )
    check_fence(record, run.fence)
    return stores.refs.commits.get(record.commit_id)


def _take_branch(stores: Stores, records: RunRecords, record: BranchRecord) -> None:
    dropped: tuple[str, ...] = ()

    def change(there: BranchRecord) -> BranchRecord:
        nonlocal dropped
        if records.last_try_fence(record.name) != record.fence:
            raise FencedError(f"step branch {record.name!r}: a newer try was started meanwhile")
        dropped = (there.staging_token, *there.sealed_tokens)
        return record

    while True:
        try:
            stores.refs.branches.create(record)
        except AlreadyExistsError:
            try:
                move(stores.refs, record.name, change, landed=lambda now: now.fence == record.fence)
            except RefNotFoundError:
                continue  # dropped between the two reads
        break
    stores.staging.drop(*dropped)


class Step(RunBranch):
    """One try of a step, to read and write; a context manager.

    Leaving the block commits the staged writes and joins the step to the run's branch in one
    commit; an exception discards the try.

    Attributes:
        step: Name of the step.
        try_number: The caller's count of tries, stored in the commit.
        earlier: The commit by which the step last joined the run, which this try replaces; None
            if the step never joined.
        result: After the join: the run's commit, or None if the step changed nothing.
    """

    def __init__(  # noqa: PLR0913 - called by open_step only
        self,
        attempt: Attempt,
        *,
        fence: str,
        number: int,
        name: str,
        try_number: int,
        metadata: Mapping[str, str],
        fork: Commit,
        start: Commit,
        earlier: Commit | None,
    ) -> None:
        super().__init__(attempt, step_branch(attempt.handle.branch, name), fence=fence)
        self.step = name
        self.try_number = try_number
        self.result: Commit | None = None
        self.run = attempt.handle
        self._records = attempt.records
        self._number = number
        self._metadata = dict(metadata)
        self._fork = fork
        self._start = start
        self.earlier = earlier

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.join()
        except BaseException:
            self._discard_quietly()
            raise
        if error is not None:
            self._discard_quietly()

    def _keep(self) -> str:
        # the earlier try's writes are undone here: equal content written again is the same file
        return "" if self.earlier is None else self._fork.metarange

    def _marks(self) -> dict[str, str]:
        return {"graveler.run": self.run.key, "graveler.step": self.step}

    def _inputs(self) -> dict[str, str]:
        read = self._reads.all
        return {"graveler.inputs": encode_inputs(read)} if read else {}

    def discard(self) -> None:
        """Discard the try: delete the step's branch."""
        stores = self.repository
        tokens = remove(stores.refs, self._name, lambda record: record.fence == self._fence)
        stores.staging.drop(*tokens)

    def undo(self) -> Commit | None:
        """Join with nothing written, which undoes the step's earlier success.

        Returns:
            The commit on the run's branch; None if the step had not joined before.

        Raises:
            FencedError: A newer try of the step, or attempt of the run, was opened.
        """
        try:
            return self.join(f"{self.step}: taken back")
        except BaseException:
            self._discard_quietly()
            raise

    def _discard_quietly(self) -> None:
        """Discard a failed try without masking its error."""
        try:
            self.discard()
        except Exception:  # noqa: BLE001 - must not mask the first error
            _log.exception(
                "step %s: its branch could not be dropped; the run's end will", self.step
            )

    def join(self, message: str = "") -> Commit | None:
        """Commit the staged writes and merge the step into the run's branch in one commit.

        Args:
            message: Message of that commit; by default the step and its try.

        Returns:
            The commit on the run's branch; None if the step changed nothing.

        Raises:
            FencedError: A newer try of the step, or attempt of the run, was opened.
            MergeConflictError: Another step changed the same paths, differently.
        """
        message = text(message, "message", empty=True, most=MESSAGE_BYTES)
        with suppress(NoChangesError):
            self.commit(f"{self.step} (try {self.try_number})")
        with owned(self._name, self._fence):
            done = self.head
        joined = self._join(done, message or f"{self.step} (try {self.try_number})")
        self.result = joined if joined.id != self._fork.id else None
        self.discard()
        return self.result

    def _join(self, done: Commit, message: str) -> Commit:
        """Land the step's work on the run's branch; return the fork if it changed nothing."""
        stores = self.repository
        spec = CommitSpec(
            message,
            {
                **self._metadata,
                "graveler.run": self.run.key,
                "graveler.attempt": str(self.run.attempt),
                "graveler.step": self.step,
                "graveler.try": str(self.try_number),
                "graveler.step_number": str(self._number),
                "graveler.step_base": self._start.id,
                "graveler.step_head": done.id,
                **self._inputs(),
            },
        )

        def build(tip: Tip) -> BranchRecord | None:
            tree = self._joined_tree(tip.head, done)
            if self.earlier is None and same_records(stores.ranges, tip.head.metarange, tree):
                return None
            return tip.at(make_commit(stores, tree=tree, parents=(tip.head,), spec=spec))

        landed = land(stores, self.run.branch, "step", build, fence=self.run.fence)
        return landed.commit or self._fork

    def _joined_tree(self, head: Commit, done: Commit) -> str:
        stores = self.repository
        dest = head.metarange
        latest = find_step(stores, head.id, key=self.run.key, step=self.step)
        if latest is not None and int(latest.metadata["graveler.step_number"]) > self._number:
            raise FencedError(f"step {self.step!r}: a newer try has joined the run already")
        if self._records.last_try_fence(self._name) != self._fence:
            raise FencedError(f"step {self.step!r}: a newer try was started")
        known = self.earlier.id if self.earlier is not None else ""
        if latest is not None and latest.id != known:
            dest = _without(stores, dest, latest)  # an earlier try joined while this one ran

        def settle(
            key: bytes, base: bytes | None, source: bytes | None, dest: bytes | None
        ) -> bytes | Literal[Unresolved.CONFLICT] | None:
            taken_back = value_identity(get(stores.ranges, self._start.metarange, key))
            if taken_back != value_identity(base) and taken_back == value_identity(source):
                return dest  # another step changed a path that this try only undid
            return CONFLICT

        return merge_trees(
            stores,
            base=self._fork.metarange,
            source=done.metarange,
            dest=dest,
            strategy=None,
            what=f"step {self.step!r} of run {self.run.key!r}",
            resolve=settle,
            lines=(done, head),
        )
