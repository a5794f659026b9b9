"""Triggers: they report to Airflow, without a worker, that a lake has changed."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any, Final

from airflow.triggers.base import TriggerEvent

from graveler.clock import SystemClock
from graveler.errors import InvalidInputError
from graveler.lake import Repository
from graveler_airflow.hook import GravelerHook
from graveler_airflow.waiting.commits import (
    MOST,
    CommitRange,
    commit_row,
    commits_since,
    starting_point,
)
from graveler_airflow.waiting.files import find_files, published_hour
from graveler_airflow.waiting.trigger import LakeTrigger, event_of

_SETTLING: Final = 5.0  # seconds after which an event is out of the triggerer's hands


class GravelerCommitTrigger(LakeTrigger[CommitRange]):
    """Reports every commit that a ref gains, each by an event of its own, oldest first.

    It follows first parents: a published run is one commit. As the watcher of an asset it
    stores its position with the asset and resumes from there when the triggerer restarts.
    Events are delivered at least once: a triggerer that dies may repeat one, so consumers
    must identify commits by their ids.

    A branch that was reset, or deleted and recreated, no longer descends from the last
    commit reported. The next event then names that commit (``rewound_from``), and it comes
    even if the branch gained no commit.

    Args:
        repo: The repository; it need not exist yet.
        ref: A branch, or any ref expression.
        prefix: Only commits that changed something below it.
        since: A ref expression: report commits after it, if no position is stored. Without it,
            commits after the start of the trigger.
        begun: Instead of `since`: report commits after this time, in ISO 8601.
        once: End with one event for all commits found, for a task that waits.
        asset: Name of the asset that is watched. Airflow merges triggers with equal arguments,
            and a trigger shared by two assets cannot store its position.
        poll_interval: Seconds between two looks; a look costs one read of the branch's record.
        graveler_conn_id: The connection of the lake.
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
        """Yield an event for each commit; with `once`, one for all that were found, and end."""
        final = (InvalidInputError,) if self.once else ()
        while True:
            range_ = await self.found(final=final)
            if self.once and range_ is not None and range_.commits:
                yield event_of(range_.row(self.repo, self.ref, self.prefix))
                return
            if range_ is not None and not self.once:
                for news in self._news:
                    yield event_of(news)
                self._cursor = range_.to
                await self._keep(settle=bool(self._news))
                if len(range_.commits) == MOST:
                    continue  # the ref has more
            await self.pause()

    def look(self, repository: Repository) -> CommitRange:
        """Return the commits that the ref gained."""
        since = self._cursor
        if since is None:
            since = starting_point(repository, self.ref, since=self.since, at=self._begun)
        found = commits_since(repository, self.ref, since, prefix=self.prefix)
        self._news = [self._payload(commit_row(commit)) for commit in found.commits]
        if found.rewound:
            if not self._news:
                self._news.append(self._payload(commit_row(repository.commit(found.to))))
            self._news[0]["rewound_from"] = since
        return found

    def _payload(self, row: dict[str, Any]) -> dict[str, Any]:
        return {"repository": self.repo, "ref": self.ref, "prefix": self.prefix, **row}

    @property
    def _key(self) -> str:
        return f"graveler {self.repo} {self.ref} {self.prefix}".strip()

    async def prepare(self) -> None:
        """Read the position that an earlier triggerer stored."""
        store = self.asset_state_store
        if self._loaded or store is None:
            return
        try:
            kept = await store.aget(self._key)
        except ValueError as error:
            self.log.warning(
                "No cursor can be stored: commits made while no triggerer runs are missed: %s",
                error,
            )
            self.asset_state_store = None
            return
        self._loaded = True
        if isinstance(kept, str):
            self._cursor = self._kept = kept

    async def _keep(self, *, settle: bool) -> None:
        """Store the position, once the events have left the triggerer."""
        store, cursor = self.asset_state_store, self._cursor
        if store is None or cursor == self._kept:
            return
        if settle:
            await asyncio.sleep(min(_SETTLING, self.poll_interval))
        try:
            await store.aset(self._key, cursor)
        except Exception as error:  # noqa: BLE001 - of Airflow; the next look tries again
            self.log.warning("Cannot store the cursor %s: %s", cursor, error)
        else:
            self._kept = cursor


class GravelerObjectTrigger(LakeTrigger[dict[str, Any] | None]):
    """Ends with one event when a ref has enough files below a prefix.

    Args:
        repo: The repository; it need not exist yet.
        ref: A branch, whose committed files count, or any ref expression.
        prefix: The beginning of their paths; a whole path is one, too.
        since: Only files added or changed since this commit.
        at_least: The number of files to wait for.
        poll_interval: Seconds between two looks.
        graveler_conn_id: The connection of the lake.
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
        """Yield one event when the files have arrived."""
        while True:
            found = await self.found(final=(InvalidInputError,))
            if found is not None:
                yield event_of(found)
                return
            await self.pause()

    def look(self, repository: Repository) -> dict[str, Any] | None:
        """Return the files, or None if there are too few."""
        return find_files(
            repository, self.ref, self.prefix, since=self.since, at_least=self.at_least
        )


class GravelerIngestTrigger(LakeTrigger[dict[str, Any] | None]):
    """Ends with one event when an hour of an ingestion branch is published.

    Args:
        repo: The repository; it need not exist yet.
        hour: A time.
        branch: The ingestion branch.
        into: The branch it is published to.
        poll_interval: Seconds between two looks.
        graveler_conn_id: The connection of the lake.
    """

    def __init__(
        self,
        repo: str,
        hour: str,
        *,
        branch: str = "ingest",
        into: str = "main",
        poll_interval: float = 30.0,
        graveler_conn_id: str = GravelerHook.default_conn_name,
    ) -> None:
        super().__init__(
            repo=repo,
            ref=into,
            poll_interval=poll_interval,
            graveler_conn_id=graveler_conn_id,
        )
        self.hour = hour
        self.branch = branch

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments that recreate this trigger."""
        name, arguments = super().serialize()
        into = arguments.pop("ref")
        return name, {**arguments, "into": into, "hour": self.hour, "branch": self.branch}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event when the hour is published."""
        while True:
            found = await self.found(final=(InvalidInputError,))
            if found is not None:
                yield event_of(found)
                return
            await self.pause()

    def look(self, repository: Repository) -> dict[str, Any] | None:
        """Return the hour and the commit, or None until it is published."""
        return published_hour(repository, self.branch, self.ref, self.hour)
