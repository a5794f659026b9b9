"""Triggers: they report arrivals in a lake to Airflow without a worker."""

import asyncio
from collections.abc import AsyncIterator, Callable
from inspect import signature
from typing import Any, TypeVar

from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from graveler.base.clock import SystemClock
from graveler.errors import ExpiredError, GravelerError, RefNotFoundError, RepositoryNotFoundError
from graveler.lake import Repository
from graveler.model import Commit
from graveler_airflow.arrivals import (
    MOST,
    WAITS,
    CommitRange,
    commit_row,
    commits_since,
    plain_row,
    starting_point,
)
from graveler_airflow.dag.context import run_hour
from graveler_airflow.hook import GravelerHook
from graveler_common.failures import is_final
from graveler_common.lakes import open_lake

_SETTLING = 5.0  # seconds after which the triggerer has delivered an event
_DOUBLINGS = 20  # the pause has reached its maximum by then
_LONGEST_PAUSE = 300.0

_Result = TypeVar("_Result")


class _LakeTrigger(BaseEventTrigger):
    """Polls a repository. A transient error is logged, and the pauses grow.

    A subclass stores each of its arguments in an attribute of the same name.
    """

    def __init__(self, repo: str, *, poll_interval: float, graveler_conn_id: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.repo = repo
        self.poll_interval = float(poll_interval)
        self.graveler_conn_id = graveler_conn_id
        self._location = ""
        self._failures = 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments that recreate this trigger."""
        path = f"{type(self).__module__}.{type(self).__qualname__}"
        return path, {name: getattr(self, name) for name in signature(type(self)).parameters}

    async def prepare(self) -> None:
        """Prepare for the first poll; called before each poll."""

    def ends_with(self, error: Exception) -> bool:
        """Return whether an error ends the trigger, because a later poll would repeat it."""
        return False

    async def poll(self, look: Callable[[Repository], _Result]) -> _Result | None:
        """Call `look` in a thread; return None if the ref does not exist or the lake is unreadable."""
        try:
            await self.prepare()
            if not self._location:
                self._location = await GravelerHook(self.graveler_conn_id).aget_location()
            result = await asyncio.to_thread(self._call, look)
        except Exception as error:
            if self.ends_with(error):
                raise
            self._failures += 1
            self._location = ""  # the connection may have been corrected
            self.log.warning(
                "Cannot read repository %s (%d times in a row): %s: %s",
                *(self.repo, self._failures, type(error).__name__, error),
            )
            return None
        self._failures = 0
        return result

    def _call(self, look: Callable[[Repository], _Result]) -> _Result | None:
        with open_lake(self._location) as lake:
            try:
                return look(lake.repository(self.repo))
            except (RefNotFoundError, RepositoryNotFoundError):
                return None  # it may be created later

    async def pause(self) -> None:
        """Wait for the next poll; each failure doubles the pause."""
        longest = max(_LONGEST_PAUSE, self.poll_interval)
        times = 2 ** min(self._failures, _DOUBLINGS)
        await asyncio.sleep(min(self.poll_interval * times, longest))


class GravelerTrigger(_LakeTrigger):
    """Ends with one event when a lake has what a sensor waits for.

    An error that a later poll would repeat ends it, as it fails a sensor's poke.

    Args:
        waits_for: ``commits``, ``files`` or ``hour``, as `GravelerCommitSensor`,
            `GravelerObjectSensor` and `GravelerIngestSensor` wait for them.
        repo: The repository; it need not exist yet.
        poll_interval: Seconds between two polls.
        graveler_conn_id: The connection of the lake.
        **arguments: The arguments of that sensor: ``ref``, ``prefix``, ``since``, …; for commits also
            ``begun``, the time after which they count, in ISO 8601.
    """

    def __init__(
        self,
        waits_for: str,
        repo: str,
        *,
        poll_interval: float = 30.0,
        graveler_conn_id: str = GravelerHook.default_conn_name,
        **arguments: Any,
    ) -> None:
        super().__init__(repo, poll_interval=poll_interval, graveler_conn_id=graveler_conn_id)
        self.waits_for = waits_for
        self.arguments = arguments

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments that recreate this trigger."""
        path, given = super().serialize()
        arguments = given.pop("arguments")
        return path, {**given, **arguments}

    def render_template_fields(self, context: Context, jinja_env: Any = None) -> None:
        """Render the templates of a task that starts in the triggerer; Airflow calls it."""
        one: Any = _PullsOne(context["ti"])
        rendering: Any = {**context, "ti": one, "task_instance": one}
        super().render_template_fields(rendering, jinja_env)
        self.arguments = self.render_template(self.arguments, rendering, jinja_env)
        self.begin(context)

    def begin(self, context: Context) -> None:
        """Set missing arguments from the context of the waiting task."""
        run = context["dag_run"]
        if self.waits_for == "commits":
            self.arguments["begun"] = (run.start_date or run.run_after).isoformat()
        elif self.waits_for == "hour":
            self.arguments["hour"] = self.arguments["hour"] or run_hour(context).isoformat()

    def ends_with(self, error: Exception) -> bool:
        """Return whether an error ends the wait, as it fails a sensor's poke."""
        if isinstance(error, GravelerError):
            return is_final(error)
        return isinstance(error, AirflowNotFoundException)  # the connection is deleted

    def look(self, repository: Repository) -> dict[str, Any] | None:
        """Return the arrival, or None if the trigger must wait."""
        return WAITS[self.waits_for](repository, **self.arguments)

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event when `look` returns something, and end."""
        while (row := await self.poll(self.look)) is None:
            await self.pause()
        yield _event_of(row)


class GravelerCommitTrigger(_LakeTrigger):
    """Reports every commit that a ref gains in one event, oldest first; it watches an asset.

    It follows first parents, so a published run is one commit. It stores its position with the
    asset and resumes from there when the triggerer restarts. It survives every error, because
    Airflow would restart it at once without a pause. Events are delivered at least once: a
    triggerer that dies may repeat one, so consumers must identify commits by their ids.

    A branch that was reset, or deleted and recreated, no longer descends from the last
    reported commit. The next event then names that commit (``rewound_from``), and it comes
    even if the branch gained no commit.

    Args:
        repo: The repository; it need not exist yet.
        ref: A branch, or any ref expression.
        prefix: Only commits that changed something below it.
        since: A ref expression; commits after it are reported if no position is stored. By default
            commits after the start of the trigger are reported.
        asset: Name of the watched asset. It differs between assets, because Airflow merges triggers
            with equal arguments, and a trigger shared by two assets cannot store its position.
        poll_interval: Seconds between two polls; a poll costs one read of the branch's record.
        graveler_conn_id: The connection of the lake.
    """

    def __init__(
        self,
        repo: str,
        ref: str = "main",
        *,
        prefix: str = "",
        since: str = "",
        asset: str = "",
        poll_interval: float = 30.0,
        graveler_conn_id: str = GravelerHook.default_conn_name,
    ) -> None:
        super().__init__(repo, poll_interval=poll_interval, graveler_conn_id=graveler_conn_id)
        self.ref = ref
        self.prefix = prefix
        self.since = since
        self.asset = asset
        self._start = SystemClock().now()
        self._cursor: str | None = None
        self._stored: str | None = None
        self._loaded = False
        self._rows: list[dict[str, Any]] = []

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each commit."""
        while True:
            gained = await self.poll(self._advance)
            if gained is not None:
                for row in self._rows:
                    yield _event_of(row)
                self._cursor = gained.to
                await self._store(settle=bool(self._rows))
                if len(gained.commits) == MOST:
                    continue  # the ref has more commits
            await self.pause()

    def _advance(self, repository: Repository) -> CommitRange:
        """Return the commits after the cursor, and prepare their events."""
        since = self._cursor
        if since is None:
            since = starting_point(repository, self.ref, since=self.since, at=self._start)
        gained = commits_since(repository, self.ref, since, prefix=self.prefix)
        commits = gained.commits
        if gained.rewound and not commits:
            commits = (repository.commit(gained.to),)
        place = {"repository": self.repo, "ref": self.ref, "prefix": self.prefix}
        self._rows = [{**place, **_row(repository, commit, self.prefix)} for commit in commits]
        if gained.rewound:
            self._rows[0]["rewound_from"] = since
        return gained

    @property
    def _key(self) -> str:
        return f"graveler {self.repo} {self.ref} {self.prefix}".strip()

    async def prepare(self) -> None:
        """Read the position that an earlier triggerer stored."""
        store = self.asset_state_store
        if self._loaded or store is None:
            return
        try:
            stored = await store.aget(self._key)
        except ValueError as error:
            self.log.warning(
                "No cursor can be stored: commits made while no triggerer runs are missed: %s",
                error,
            )
            self.asset_state_store = None
            return
        self._loaded = True
        if isinstance(stored, str):
            self._cursor = self._stored = stored

    async def _store(self, *, settle: bool) -> None:
        """Store the position, once the events have left the triggerer."""
        store, cursor = self.asset_state_store, self._cursor
        if store is None or cursor == self._stored:
            return
        if settle:
            await asyncio.sleep(min(_SETTLING, self.poll_interval))
        try:
            await store.aset(self._key, cursor)
        except Exception as error:  # noqa: BLE001 - of Airflow; the next poll tries again
            self.log.warning("Cannot store the cursor %s: %s", cursor, error)
        else:
            self._stored = cursor


class _PullsOne:
    """A task instance whose ``xcom_pull`` requests the value of a task that is not mapped.

    Airflow's own task instance requests the values of all indexes if none is given. The triggerer
    does not support that request and never answers, so the trigger would never begin to wait.
    """

    def __init__(self, ti: Any) -> None:
        self._ti = ti

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ti, name)

    def xcom_pull(self, *args: Any, **kwargs: Any) -> Any:
        return self._ti.xcom_pull(*args, **{"map_indexes": -1, **kwargs})


def _row(repository: Repository, commit: Commit, prefix: str) -> dict[str, Any]:
    """Return a commit for an event; ``expired`` says why its hours can no longer be read."""
    try:
        return commit_row(repository, commit, prefix)
    except ExpiredError as error:
        return {**plain_row(commit), "partitions": [], "expired": str(error)}


def _event_of(payload: dict[str, Any]) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]
