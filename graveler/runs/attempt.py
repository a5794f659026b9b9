"""One attempt of a run in this process: its lease, its recorded inputs and its branches."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from threading import Event, Lock, Thread
from typing import Final

from graveler.arguments import PathText, RefLike, optional, pairs, prefix_text, ref_text
from graveler.errors import FencedError, GravelerError
from graveler.model import Commit
from graveler.reads.listing import Scan
from graveler.reads.stores import Stores
from graveler.reads.view import Ref
from graveler.refs import resolve_to_read
from graveler.repository.branch import Branch
from graveler.repository.writes import StagedWrites
from graveler.runs import lifecycle
from graveler.runs.record import Input, RunHandle, RunRecord, folded
from graveler.runs.records import RunRecords

_PATIENCE_S: Final = 10
_UNFOLDED: Final = 1024
_log = logging.getLogger(__name__)


class Reads:
    """Records reads by folder; safe for threads."""

    def __init__(self) -> None:
        self._reads: set[Input] = set()
        self._recorded: set[Input] = set()
        self._lock = Lock()

    def note(self, commit: str, prefix: str) -> None:
        """Record that the files below `prefix` were read from a commit."""
        read = Input(commit, prefix)
        if read in self._reads:
            return
        with self._lock:
            self._reads.add(read)
            if len(self._reads) > _UNFOLDED:
                self._reads = set(folded(self._reads))

    def note_path(self, commit: str, path: str) -> None:
        """Record that a file was read, by its folder."""
        folder, slash, _ = path.rpartition("/")
        self.note(commit, folder + slash or path)

    @property
    def new(self) -> tuple[Input, ...]:
        """The inputs that are not yet on the run's record."""
        with self._lock:
            return tuple(self._reads - self._recorded)

    @property
    def all(self) -> tuple[Input, ...]:
        """All inputs."""
        with self._lock:
            return folded(self._reads)

    def kept(self, inputs: Iterable[Input]) -> None:
        """Note that these inputs are on the record."""
        with self._lock:
            self._recorded.update(inputs)


class Attempt:
    """An attempt, whose work renews its lease.

    Attributes:
        stores: The repository.
        records: The runs of the repository.
        handle: The handle of the attempt.
    """

    def __init__(self, records: RunRecords, handle: RunHandle, record: RunRecord | None) -> None:
        self.stores = records.stores
        self.records = records
        self.handle = handle
        self._known = record

    @property
    def known(self) -> RunRecord:
        """The record as last read by this process; only fields that an attempt never changes are safe."""
        if self._known is None:
            self._known = self.records.get(self.handle.key)
        return self._known

    def saw(self, record: RunRecord) -> RunRecord:
        """Remember the present record, and return it."""
        self._known = record
        return record

    def renew(self, reads: Reads | None = None, *, early: bool = True) -> RunRecord:
        """Renew the lease and record what was read."""
        new = () if reads is None else reads.new
        record = lifecycle.renew(self.records, self.handle, new, early=early)
        if reads is not None:
            reads.kept(new)
        return self.saw(record)

    def work(self, reads: Reads | None = None) -> None:
        """Renew the lease if a third of it is over, or if there are new inputs to record.

        Raises:
            FencedError: The attempt is over.
        """
        known = self.known
        left = known.lease_until - self.stores.clock.now()
        if left < known.lease * 2 / 3 or (reads is not None and reads.new):
            self.renew(reads, early=False)

    @contextmanager
    def renewing(
        self, reads: Reads | None = None, until: Callable[[], bool] | None = None
    ) -> Iterator[None]:
        """Renew the lease from a thread until the block ends or `until` returns True."""
        process, over = os.getpid(), Event()
        pause = self.known.lease.total_seconds() / 3

        def beat() -> None:
            while not over.wait(pause):
                try:
                    if until is not None and until():
                        return
                    self.renew(reads, early=False)
                except FencedError as error:
                    _log.warning("the lease is no longer renewed: %s", error)
                    return
                except GravelerError as error:
                    _log.warning("the lease could not be renewed; the thread will retry: %s", error)

        thread = Thread(target=beat, name=f"lease of {self.handle.branch}", daemon=True)
        thread.start()
        try:
            yield
        finally:
            if os.getpid() == process:  # a forked process does not have the thread
                over.set()
                thread.join(_PATIENCE_S)  # the store may hang


class RunView(Ref):
    """A commit as a run reads it: every read is recorded as an input of the run."""

    def __init__(self, repository: Stores, commit: Commit, reads: Reads, *, name: str = "") -> None:
        super().__init__(repository, commit, name=name)
        self._reads = reads

    def _find_value(self, key: bytes) -> bytes | None:
        """Return the committed value record at the key, or None."""
        self._reads.note_path(self.commit.id, key.decode())
        return super()._find_value(key)

    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        """Return the commit's tree below `prefix`."""
        self._reads.note(self.commit.id, prefix.decode())
        return super()._snapshot(start, prefix)


class RunBranch(Branch):
    """A branch of an attempt: its work renews the lease, and its reads are recorded.

    A read is recorded as an input from the commit of the target that the branch was forked from.
    """

    def __init__(self, attempt: Attempt, name: str, *, fence: str) -> None:
        super().__init__(attempt.stores, name, fence=fence)
        self._attempt = attempt
        self._reads = Reads()

    @property
    def _writes(self) -> StagedWrites:
        self._attempt.work()
        return super()._writes

    def _find_value(self, key: bytes) -> bytes | None:
        """Return the value record at the key, staged or committed, or None."""
        self._reads.note_path(self._attempt.known.base, key.decode())
        return super()._find_value(key)

    def _snapshot(self, start: bytes, prefix: bytes) -> AbstractContextManager[Scan]:
        """Return the head below `prefix`, with the staged writes."""
        self._reads.note(self._attempt.known.base, prefix.decode())
        return super()._snapshot(start, prefix)

    def has_below(self, prefix: PathText) -> bool:
        """Return whether any path starts with `prefix`; at most one path is read."""
        prefix = prefix_text(prefix, "prefix")
        self._reads.note(self._attempt.known.base, prefix)
        return super().has_below(prefix)

    def commit(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
        allow_empty: bool = False,
    ) -> Commit:
        """Commit the staged writes and return the commit, which also has the run's pairs.

        See `Branch.commit`.
        """
        self._attempt.work(self._reads)
        return super().commit(
            message,
            metadata={**self._attempt.known.metadata, **pairs(metadata, "metadata")},
            committer=committer,
            allow_empty=allow_empty,
        )

    def renew(self) -> RunRecord:
        """Renew the lease: the attempt counts as alive for one lease from now on.

        Writes, commits and steps renew the lease. Call this in long work without them, or use
        `renewing`.

        Raises:
            FencedError: The attempt is over: it was parked or abandoned, or a newer one was opened.
        """
        return self._attempt.renew(self._reads)

    def renewing(self, until: Callable[[], bool] | None = None) -> AbstractContextManager[None]:
        """Renew the lease from a thread during a ``with`` block, for example around a Spark job.

        What was read since the last renewal is recorded with it.

        Args:
            until: Called before each renewal, in the thread; True ends the renewals.
        """
        return self._attempt.renewing(self._reads, until)

    def view(self, ref: str | Commit | RefLike | None = None) -> RunView:
        """Return a read-only view, whose reads are recorded as inputs of the run.

        Args:
            ref: A ref expression; by default the commit of the target that the run was forked from.
        """
        name: str | None = optional(ref_text, ref, "ref")
        stores = self.repository
        base = self._attempt.known.base
        refs = stores.refs
        commit = refs.commits.get(base) if name is None else resolve_to_read(refs, name)
        return RunView(stores, commit, self._reads, name=name or self._attempt.known.into)

    def reads(self, prefix: PathText = "", ref: str | Commit | RefLike | None = None) -> Input:
        """Record that the run reads the files below a prefix, by any means.

        Reads through the run, its steps and their `view` are recorded without this call.

        Args:
            prefix: Start of the paths; "" for the whole tree.
            ref: A ref expression; by default the commit of the target that the run was forked from.
        """
        prefix = prefix_text(prefix, "prefix")
        commit = self.view(ref).commit.id
        self._reads.note(commit, prefix)
        return Input(commit, prefix)
