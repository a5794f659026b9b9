"""A trigger that waits for an hour of an ingestion branch."""

from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import TriggerEvent

from graveler.errors import InvalidInputError
from graveler.lake import Repository
from graveler_airflow.hook import GravelerHook
from graveler_airflow.triggers import LakeTrigger
from graveler_airflow.waiting.hours import published_hour

__all__ = ["GravelerIngestTrigger"]


class GravelerIngestTrigger(LakeTrigger[dict[str, Any] | None]):
    """Ends with one event when an hour of an ingestion branch is published.

    Args:
        repo: The repository; it need not be there yet.
        hour: A time.
        branch: The ingestion branch.
        into: The branch it is published to.
        poll_interval: Seconds between two looks.
        graveler_conn_id: The connection that says where the lake is.
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
        """Return the class and the arguments that make this trigger anew."""
        name, arguments = super().serialize()
        into = arguments.pop("ref")
        return name, {**arguments, "into": into, "hour": self.hour, "branch": self.branch}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event when the hour is published."""
        while True:
            found = await self.found(final=(InvalidInputError,))
            if found is not None:
                yield TriggerEvent(found)  # type: ignore[no-untyped-call]
                return
            await self.pause()

    def look(self, repository: Repository) -> dict[str, Any] | None:
        """Return the hour and the commit, or None where it is not published."""
        return published_hour(repository, self.branch, self.ref, self.hour)
