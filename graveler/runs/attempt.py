"""One attempt of a run in this process: its lease, its recorded inputs and its branches."""

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

from graveler.base.arguments import PathText, RefLike, optional, pairs, prefix_text, ref_text
from graveler.base.forks import watch
from graveler.errors import FencedError, GravelerError
from graveler.model import Commit, Entry
from graveler.reads.view import Observed, View, observed, read_from
from graveler.refs.expression import resolve_to_read
from graveler.repository.branch import Branch
from graveler.repository.writes.staged import StagedWrites
from graveler.runs import lifecycle
from graveler.runs.record import Input, RunHandle, RunRecord, folded
from graveler.runs.records import RunRecords
from graveler.tables.views import Ref

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PATIENCE_S = 10
_UNFOLDED = 1024
_log = logging.getLogger(__name__)


class Reads:
    """Records reads by folder; safe for threads."""

    def __init__(self) -> None:
        self._reads: set[Input] = set()
        self._recorded: set[Input] = set()
        self._lock = Lock()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which a thread of the parent may hold."""
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

    def observe(self, view: Observed, places: Iterable[str], files: bool, at: str) -> None:
        """Record what a view reads, files by their folders."""
        commit = at or read_from(view)
        for place in places:
            folder, slash, _ = place.rpartition("/") if files else (place, "", "")
            self.note(commit, folder + slash or place)

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
    """An attempt, whose work renews its lease."""

    def __init__(self, records: RunRecords, handle: RunHandle, record: RunRecord | None) -> None:
        self.stores = records.stores
        self.records = records
        self.handle = handle
        self._known = record

    @property
    def known(self) -> RunRecord:
        """The record as last read by this process; only fields that an attempt never changes are safe."""
        if self._known is None:
            found = self.records.get(self.handle.key)
            if found.fence == self.handle.fence:  # else the work itself is refused
                lifecycle.own(found, self.handle)
            self._known = found
        return self._known

    def saw(self, record: RunRecord) -> RunRecord:
        """Remember the present record, and return it."""
        self._known = record
        return record

    def renew(self, reads: Reads | None = None, *, early: bool = True) -> RunRecord:
        """Renew the lease and record the inputs."""
        new = () if reads is None else reads.new
        record = lifecycle.renew(self.records, self.handle, new, early=early)
        if reads is not None:
            reads.kept(new)
        return self.saw(record)

    def work(self, reads: Reads | None = None) -> None:
        """Renew the lease if a third of it is over, or if there are new inputs to record."""
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
        try:
            thread.start()
        except RuntimeError as error:  # no thread is left, or the interpreter is ending
            _log.warning("the lease is not renewed meanwhile: %s", error)
        try:
            yield
        finally:
            if os.getpid() == process and thread.is_alive():  # a fork does not have the thread
                over.set()
                thread.join(_PATIENCE_S)  # the store may hang


class ObservedRef(Observed, Ref):
    """A commit whose reads are observed."""

    @property
    def _read_from(self) -> str:
        return self.commit.id


class ObservedBranch(Observed, Branch):
    """A branch whose reads are observed."""

    @property
    def _read_from(self) -> str:
        return self.head.id

    @property
    def _unrecorded(self) -> Branch:
        return Branch(self.repository, self._name)

    def _view_of(self, ref: str) -> View:
        """Return the commit that a ref expression names, whose reads are observed."""
        return observed(ObservedRef, super()._view_of(ref), self._observer)


class RunBranch(ObservedBranch):
    """A branch of an attempt: its work renews the lease, and its reads are recorded.

    A read is recorded as an input from the commit of the target that the branch was forked from.
    """

    def __init__(self, attempt: Attempt, name: str, *, fence: str) -> None:
        super().__init__(attempt.stores, name, fence=fence)
        self._attempt = attempt
        self._author = attempt.handle.key
        self._reads = Reads()
        self._observer = self._reads.observe

    @property
    def _read_from(self) -> str:
        return self._attempt.known.base

    @property
    def inputs(self) -> tuple[Input, ...]:
        """The inputs that were read here so far."""
        return self._reads.all

    @property
    def _writes(self) -> StagedWrites:
        self._attempt.work()
        return super()._writes

    @cached_property
    def spark(self) -> "SparkSession":
        """The active Spark session, else a new one that is named after the run."""
        from graveler.frames.spark.session import running

        return running(self._attempt.handle.key)

    def commit(
        self,
        message: str,
        *,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
        allow_empty: bool = False,
        paths: Iterable[PathText] | None = None,
        mine: bool = False,
    ) -> Commit:
        """Commit the staged writes and return the commit, which also has the run's metadata.

        See `Branch.commit`.
        """
        self._attempt.work(self._reads)
        return super().commit(
            message,
            metadata={**self._attempt.known.metadata, **pairs(metadata, "metadata")},
            committer=committer,
            allow_empty=allow_empty,
            paths=paths,
            mine=mine,
        )

    def commit_changes(
        self,
        entries: Iterable[Entry] = (),
        *,
        deleted: Iterable[PathText] = (),
        expected: Mapping[str, Entry | None] | None = None,
        message: str,
        metadata: Mapping[str, str] | None = None,
        committer: str = "",
    ) -> Commit:
        """Commit only these changes; the commit also has the run's metadata.

        See `Branch.commit_changes`.
        """
        self._attempt.work(self._reads)
        return super().commit_changes(
            entries,
            deleted=deleted,
            expected=expected,
            message=message,
            metadata={**self._attempt.known.metadata, **pairs(metadata, "metadata")},
            committer=committer,
        )

    def record_reads(self) -> None:
        """Record the inputs of this process on the run, whose own process does not see them."""
        self._attempt.work(self._reads)

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

        Each renewal also records the inputs since the last one.

        Args:
            until: Called before each renewal, in the thread; True ends the renewals.
        """
        return self._attempt.renewing(self._reads, until)

    def view(self, ref: str | Commit | RefLike | None = None) -> ObservedRef:
        """Return a read-only view, whose reads are recorded as inputs of the run.

        Args:
            ref: A ref expression; by default the commit of the target that the run was forked from.
        """
        name: str | None = optional(ref_text, ref, "ref", within=self.repository)
        refs = self.repository.refs
        commit = refs.commits.get(self._read_from) if name is None else resolve_to_read(refs, name)
        view = Ref(self.repository, commit, name=name or self._attempt.known.into)
        return observed(ObservedRef, view, self._observer)

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
