"""Triggers: what tells Airflow, without a worker, that a lake has moved on."""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from graveler.clock import SystemClock
from graveler.errors import InvalidInputError, RefNotFoundError, RepositoryNotFoundError
from graveler.lake import Repository
from graveler_airflow.hook import GravelerHook
from graveler_airflow.lakes import open_lake
from graveler_airflow.waiting.commits import MOST, CommitRange, beginning, commits_since, tell
from graveler_airflow.waiting.objects import find_objects

__all__ = ["GravelerCommitTrigger", "GravelerObjectTrigger", "LakeTrigger"]

_DOUBLED: Final = 20  # times, after which it is the longest pause in any case
_LONGEST_PAUSE: Final = 300.0
_SETTLING: Final = 5.0  # seconds after which an event is out of the triggerer's hands

_Found = TypeVar("_Found")


def _event(payload: dict[str, Any]) -> TriggerEvent:
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]


class LakeTrigger(BaseEventTrigger, Generic[_Found]):
    """Looks into a repository again and again, whatever happens.

    An error may pass: it is logged, and the pauses grow. Were it raised, Airflow would start
    the trigger again at once, and so on.
    """

    def __init__(
        self, *, repo: str, ref: str, poll_interval: float, graveler_conn_id: str, **told: Any
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.repo = repo
        self.ref = ref
        self.poll_interval = float(poll_interval)
        self.graveler_conn_id = graveler_conn_id
        self._told = told
        self._location = ""
        self._failures = 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments that make this trigger anew."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "repo": self.repo,
            "ref": self.ref,
            "poll_interval": self.poll_interval,
            "graveler_conn_id": self.graveler_conn_id,
            **self._told,
        }

    @abstractmethod
    def look(self, repository: Repository) -> _Found:
        """Look once, in a thread of its own."""

    async def prepare(self) -> None:
        """Get ready for the first look; called until it succeeds."""

    async def found(self, *, final: tuple[type[Exception], ...] = ()) -> _Found | None:
        """Look once; return None where the ref is not there, or nobody can tell.

        Args:
            final: Errors that do not pass, and are raised.
        """
        try:
            await self.prepare()
            if not self._location:
                self._location = await GravelerHook(self.graveler_conn_id).aget_location()
            found = await asyncio.to_thread(self._open_and_look)
        except final:
            raise
        except Exception as error:  # noqa: BLE001 - also a driver's own, and Airflow's
            self._failures += 1
            self._location = ""  # the connection may have been mended
            self.log.warning(
                "Cannot look at %s of repository %s (%d times in a row): %s: %s",
                *(self.ref, self.repo, self._failures, type(error).__name__, error),
            )
            return None
        self._failures = 0
        return found

    def _open_and_look(self) -> _Found | None:
        with open_lake(self._location) as lake:
            try:
                return self.look(lake.repository(self.repo))
            except (RefNotFoundError, RepositoryNotFoundError):
                return None  # not yet, or not any more

    async def pause(self) -> None:
        """Wait for the next look: longer with each failure."""
        longest = max(_LONGEST_PAUSE, self.poll_interval)
        times = 2 ** min(self._failures, _DOUBLED)
        await asyncio.sleep(min(self.poll_interval * times, longest))


class GravelerCommitTrigger(LakeTrigger[CommitRange]):
    """Tells of every commit that a ref gains, each by an event of its own, oldest first.

    It goes along first parents: a run that is published is one commit. As the watcher of an
    asset it keeps how far it got with the asset, and goes on from there when the triggerer
    comes back. An event is told at least once: a triggerer that dies in between tells it
    again, so let consumers go by the commit's id.

    A branch that was reset, or deleted and made anew, no longer comes from what was told of
    last; the first event after that says so (``rewound_from``), and it comes even where the
    branch gained nothing by it.

    Args:
        repo: The repository; it need not be there yet.
        ref: A branch, or any ref expression.
        prefix: Only commits that changed something below it.
        since: A ref expression: commits after it, where nothing was told yet. Else those after
            the trigger began.
        begun: In place of `since`: commits after this time, in ISO 8601.
        once: End with one event for all that was found, as a task that waits wants it.
        asset: Name of the asset that is watched. Airflow makes one trigger of two that are
            alike, and one that serves two assets cannot keep how far it got.
        poll_interval: Seconds between two looks; one costs a read of the branch's record.
        graveler_conn_id: The connection that says where the lake is.
    """

    def __init__(  # noqa: PLR0913 - all but the repository have a default
        self,
        repo: str,
        ref: str = "main",
        *,
        prefix: str = "",
        since: str = "",
        begun: str = "",
        once: bool = False,
        asset: str = "",
        poll_interval: float = 30.0,
        graveler_conn_id: str = GravelerHook.default_conn_name,
    ) -> None:
        super().__init__(
            repo=repo,
            ref=ref,
            poll_interval=poll_interval,
            graveler_conn_id=graveler_conn_id,
            prefix=prefix,
            since=since,
            begun=begun,
            once=once,
            asset=asset,
        )
        self.prefix = prefix
        self.since = since
        self.once = once
        self._begun = datetime.fromisoformat(begun) if begun else SystemClock().now()
        self._cursor: str | None = None
        self._kept: str | None = None
        self._loaded = False
        self._news: list[dict[str, Any]] = []

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each commit; with `once`, one for all that was found, and end."""
        final = (InvalidInputError,) if self.once else ()
        while True:
            range_ = await self.found(final=final)
            if self.once and range_ is not None and range_.commits:
                yield _event(range_.told(self.repo, self.ref, self.prefix))
                return
            if range_ is not None and not self.once:
                for news in self._news:
                    yield _event(news)
                self._cursor = range_.to
                await self._keep(told=bool(self._news))
                if len(range_.commits) == MOST:
                    continue  # there are more
            await self.pause()

    def look(self, repository: Repository) -> CommitRange:
        """Return what the ref gained."""
        since = self._cursor
        if since is None:
            since = beginning(repository, self.ref, since=self.since, at=self._begun)
        found = commits_since(repository, self.ref, since, prefix=self.prefix)
        self._news = [self._payload(tell(commit)) for commit in found.commits]
        if found.rewound:
            if not self._news:
                self._news.append(self._payload(tell(repository.commit(found.to))))
            self._news[0]["rewound_from"] = since
        return found

    def _payload(self, told: dict[str, Any]) -> dict[str, Any]:
        return {"repository": self.repo, "ref": self.ref, "prefix": self.prefix, **told}

    @property
    def _key(self) -> str:
        return f"graveler {self.repo} {self.ref} {self.prefix}".strip()

    async def prepare(self) -> None:
        """Read how far an earlier triggerer got."""
        store = self.asset_state_store
        if self._loaded or store is None:
            return
        try:
            kept = await store.aget(self._key)
        except ValueError as error:
            self.log.warning("No cursor: commits are missed while no triggerer runs: %s", error)
            self.asset_state_store = None
            return
        self._loaded = True
        if isinstance(kept, str):
            self._cursor = self._kept = kept

    async def _keep(self, *, told: bool) -> None:
        """Keep how far this one got, once the events have left it."""
        store, cursor = self.asset_state_store, self._cursor
        if store is None or cursor == self._kept:
            return
        if told:
            await asyncio.sleep(min(_SETTLING, self.poll_interval))
        try:
            await store.aset(self._key, cursor)
        except Exception as error:  # noqa: BLE001 - Airflow's own; the next look tries again
            self.log.warning("Cannot keep the cursor %s: %s", cursor, error)
        else:
            self._kept = cursor


class GravelerObjectTrigger(LakeTrigger[dict[str, Any] | None]):
    """Ends with one event when a ref has so many files below a prefix.

    Args:
        repo: The repository; it need not be there yet.
        ref: A branch, of which what is committed counts, or any ref expression.
        prefix: Of their paths; a whole path is one, too.
        since: Only files that were added or changed since this commit.
        at_least: How many there must be.
        poll_interval: Seconds between two looks.
        graveler_conn_id: The connection that says where the lake is.
    """

    def __init__(  # noqa: PLR0913 - all but two have a default
        self,
        repo: str,
        prefix: str,
        *,
        ref: str = "main",
        since: str = "",
        at_least: int = 1,
        poll_interval: float = 30.0,
        graveler_conn_id: str = GravelerHook.default_conn_name,
    ) -> None:
        super().__init__(
            repo=repo,
            ref=ref,
            poll_interval=poll_interval,
            graveler_conn_id=graveler_conn_id,
            prefix=prefix,
            since=since,
            at_least=at_least,
        )
        self.prefix = prefix
        self.since = since
        self.at_least = at_least

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event when the files are there."""
        while True:
            found = await self.found(final=(InvalidInputError,))
            if found is not None:
                yield _event(found)
                return
            await self.pause()

    def look(self, repository: Repository) -> dict[str, Any] | None:
        """Return the files, or None where they are too few."""
        return find_objects(
            repository, self.ref, self.prefix, since=self.since, at_least=self.at_least
        )
