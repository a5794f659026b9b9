"""From the text that travels between tasks to a step to work in."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

from airflow.sdk import Context

from graveler.errors import FencedError, GravelerError, InvalidInputError, RunStateError
from graveler.lake import Run, RunHandle, RunState, Step
from graveler.model import Entry
from graveler.names import hour_folder
from graveler_airflow.dag.context import run_hour
from graveler_airflow.lakes import open_lake

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["TaskStep", "attached", "connection_of", "find_handle", "pack"]

_MARK: Final = "graveler.run"
_CONNECTION: Final = "graveler.conn_id"
_OPENED_BY: Final = "graveler.opened_by"
_GOING_ON: Final = (RunState.OPEN, RunState.PUBLISHING)


def pack(handle: RunHandle, conn_id: str = "", opened_by: str = "") -> dict[str, str]:
    """Return a handle as the value of an XCom: where the lake is, which run, no secret.

    Args:
        handle: The handle.
        conn_id: The connection by which the run was opened.
        opened_by: The id of the task that opened it.
    """
    return {_MARK: handle.to_json(), _CONNECTION: conn_id, _OPENED_BY: opened_by}


def find_handle(value: object) -> RunHandle | None:
    """Return the handle that `pack` made into `value`, or None where it is something else."""
    if not isinstance(value, Mapping) or _MARK not in value:
        return None
    return RunHandle.from_json(str(value[_MARK]))


def connection_of(value: object) -> str:
    """Return the connection that the run of a packed handle was opened by, or ""."""
    return str(value.get(_CONNECTION, "")) if isinstance(value, Mapping) else ""


@contextmanager
def attached(value: object) -> Iterator[Run]:
    """Open the lake that a packed handle is of, and the run in it, for a ``with`` block.

    Raises:
        InvalidInputError: It is no packed handle.
        BackendUnavailableError: There is no lake where the handle says.
        RepositoryNotFoundError: The lake has no such repository.
        FencedError: The attempt is over; the error says how it ended, and what to clear.
    """
    handle = find_handle(value)
    if handle is None:
        raise InvalidInputError(
            f"not a graveler run: {value!r}: pass what `with graveler_run(...) as run` gives"
        )
    with open_lake(handle.location) as lake:
        run = lake.repository(handle.repository).runs.attach(handle)
        try:
            yield run
        except (FencedError, RunStateError) as error:
            raise _explained(error, run, value) from error


def _explained(
    error: FencedError | RunStateError, run: Run, value: object
) -> FencedError | RunStateError:
    """Return an error that says more where the attempt is over and nobody has opened another.

    That is so for a task that was cleared without the one that opens the run.
    """
    try:
        record = run.record
    except GravelerError:
        return error
    if record.attempt != run.attempt or record.state in _GOING_ON:
        return error
    opener = str(value.get(_OPENED_BY, "")) if isinstance(value, Mapping) else ""
    return FencedError(
        f"attempt {run.attempt} of run {run.key!r} is over, the run is {record.state} "
        f"({record.reason or 'no reason given'}): clear {opener or 'the task that opens it'!r} as "
        "well, which opens the next attempt; clearing tasks without 'only failed' does"
    )


class TaskStep(Step):
    """What a ``@task.graveler`` function works in: a step of the run, with the run's hour.

    Everything a branch does, it does: ``put``, ``get``, ``open``, ``list``, ``delete``. What the
    function does here joins the run's branch in one commit when it returns, and is dropped if
    it raises.
    """

    context: Context

    @classmethod
    def of(cls, step: Step, context: Context) -> Self:
        """Return `step` with the context of the task that works in it."""
        bound = cls.__new__(cls)
        vars(bound).update(vars(step))
        bound.context = context
        return bound

    @property
    def hour(self) -> datetime:
        """The hour the DAG run is about, UTC."""
        return run_hour(self.context)

    def hour_prefix(self, root: str) -> str:
        """Return ``<root>/YYYY/MM/DD/hh:mm/``, the folder of the run's hour."""
        return f"{root.rstrip('/')}/{hour_folder(self.hour)}/"

    @cached_property
    def spark(self) -> "SparkSession":
        """A Spark session, started when first asked for."""
        from graveler.spark import session  # noqa: PLC0415 - heavy: only where it is used

        return session(app_name=self.run.key)

    def read(self, path: str, **options: Any) -> "DataFrame":
        """Return the table at `path` as a frame; see ``graveler.spark.read``."""
        from graveler.spark import read  # noqa: PLC0415 - heavy: only where it is used

        return read(self, path, spark=self.spark, **options)

    def write(self, df: "DataFrame", path: str, **options: Any) -> list[Entry]:
        """Write a frame as files below `path`; see ``graveler.spark.write``."""
        from graveler.spark import write  # noqa: PLC0415 - heavy: only where it is used

        return write(self, df, path, **options)
