"""The runs of a repository: open, attach, find, list."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from graveler.errors import FencedError, InvalidInputError
from graveler.gates import Gate
from graveler.gates.gate import Check
from graveler.repository.stores import Stores
from graveler.runs import lifecycle
from graveler.runs.attaching import open_or_attach
from graveler.runs.record import RunHandle, RunRecord, RunRecords
from graveler.runs.run import Run
from graveler.runs.state import RunState

__all__ = ["Runs"]

_ON_FAILURE = ("park", "drop")
_log = logging.getLogger(__name__)


class Runs:
    """The runs of one repository."""

    def __init__(self, repository: Stores) -> None:
        self._repository = repository
        self._records = RunRecords(
            repository.kv, repository.uid, clock=repository.clock, ids=repository.ids
        )

    def open(
        self, key: str, *, into: str = "main", metadata: Mapping[str, str] | None = None
    ) -> Run:
        """Open a new attempt of the run `key`; every earlier attempt is fenced.

        An open or parked run goes on from what is committed on its branch; a new or published
        one starts from the target's present head.

        Args:
            key: Names the run by what it makes (its hour), any text.
            into: The branch to publish to.
            metadata: Pairs kept on the run and on its merge commit.
        """
        record = lifecycle.open_run(
            self._repository, self._records, key, into=into, metadata=dict(metadata or {})
        )
        return self._run(record)

    def open_or_attach(
        self,
        key: str,
        *,
        owner: str,
        into: str = "main",
        metadata: Mapping[str, str] | None = None,
    ) -> Run:
        """Open the run `key` for an owner that is several processes, as an orchestrator's run is.

        The first of them opens a new attempt, which fences those of other owners; the others
        get the same attempt, in whatever order they come. An attempt that is over is not opened
        again for its owner: a process that outlived its orchestrator run must not take the run
        from its successor.

        Args:
            key: Names the run by what it makes.
            owner: Names the opener, as the orchestrator's run id; unique, never used again.
            into: The branch to publish to.
            metadata: Pairs kept on the run and on its merge commit; the first opener's.

        Raises:
            FencedError: The owner's attempt was parked or abandoned, or a newer one was opened.
        """
        record = open_or_attach(
            self._repository,
            self._records,
            key,
            owner=owner,
            into=into,
            metadata=dict(metadata or {}),
        )
        return self._run(record)

    def attach(self, handle: RunHandle | str) -> Run:
        """Return the run of a handle from another process (the object or its JSON).

        Raises:
            InvalidInputError: The handle is of another repository.
        """
        if isinstance(handle, str):
            handle = RunHandle.from_json(handle)
        if handle.repository != self._repository.name:
            raise InvalidInputError(
                f"run handle is of repository {handle.repository!r}, not {self._repository.name!r}"
            )
        return Run(self._repository, self._records, handle)

    def get(self, key: str) -> RunRecord:
        """Return the record of a run, or raise RunNotFoundError."""
        return self._records.get(key)

    def list(self, state: RunState | str | None = None) -> Iterator[RunRecord]:
        """Yield the records of all runs, or of those in one state."""
        for record in self._records.list():
            if state is None or record.state == state:
                yield record

    def abandon(self, key: str, *, reason: str = "") -> RunRecord:
        """Give a run up: its branch goes, its record stays."""
        return lifecycle.abandon(self._repository, self._records, key, reason=reason)

    @contextmanager
    def run(
        self,
        key: str,
        *,
        into: str = "main",
        gates: Iterable[Gate | Check] = (),
        on_failure: str = "park",
        metadata: Mapping[str, str] | None = None,
        strategy: str | None = None,
    ) -> Iterator[Run]:
        """Open a run; at the end of the block commit and publish it, on an exception set it aside.

        Args:
            key: Names the run by what it makes.
            into: The branch to publish to.
            gates: Checks on what the branch would become.
            on_failure: ``park`` keeps what is committed for the next attempt, ``drop`` does not.
            metadata: Pairs kept on the run and on its merge commit.
            strategy: ``source-wins`` or ``dest-wins`` where paths conflict.
        """
        if on_failure not in _ON_FAILURE:
            raise InvalidInputError(f"on_failure {on_failure!r}: give one of {_ON_FAILURE}")
        run = self.open(key, into=into, metadata=metadata)
        try:
            yield run
            if run.result is None:  # else: published within the block
                run.commit_staged()
            run.publish(gates, strategy=strategy)
        except BaseException as error:
            self._set_aside(run, on_failure, f"{type(error).__name__}: {error}")
            raise

    def _set_aside(self, run: Run, on_failure: str, reason: str) -> None:
        """End a failed run without hiding why it failed."""
        try:
            if on_failure == "drop" and run.state is not RunState.PUBLISHED:
                run.abandon(reason)
            else:
                run.park(reason)
        except FencedError:
            _log.info("run %s: a newer attempt owns it", run.key)
        except Exception:  # noqa: BLE001 - the caller must see why the run failed, not this
            _log.exception("run %s could not be set aside; the next attempt will", run.key)

    def _run(self, record: RunRecord) -> Run:
        handle = RunHandle(
            location=self._repository.location,
            repository=self._repository.name,
            key=record.key,
            branch=record.branch,
            attempt=record.attempt,
            fence=record.fence,
        )
        return Run(self._repository, self._records, handle)
