"""The base of all triggers: it looks into a repository until it finds what it waits for."""

import asyncio
from abc import abstractmethod
from typing import Any, Final, Generic, TypeVar

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from graveler.errors import RefNotFoundError, RepositoryNotFoundError
from graveler.lake import Repository
from graveler_airflow.hook import GravelerHook
from graveler_common.lakes import open_lake

_DOUBLINGS: Final = 20  # the pause has reached its maximum by then
_LONGEST_PAUSE: Final = 300.0

_Found = TypeVar("_Found")


def event_of(payload: dict[str, Any]) -> TriggerEvent:
    """Return the event that carries a payload."""
    return TriggerEvent(payload)  # type: ignore[no-untyped-call]


class LakeTrigger(BaseEventTrigger, Generic[_Found]):
    """Looks into a repository at intervals, and survives every error.

    An error may pass: it is logged, and the pauses grow. If it were raised, Airflow would
    restart the trigger at once, without any pause.
    """

    def __init__(
        self, *, repo: str, ref: str, poll_interval: float, graveler_conn_id: str, **others: Any
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.repo = repo
        self.ref = ref
        self.poll_interval = float(poll_interval)
        self.graveler_conn_id = graveler_conn_id
        self._others = others
        self._location = ""
        self._failures = 0

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the arguments that recreate this trigger."""
        return f"{type(self).__module__}.{type(self).__qualname__}", {
            "repo": self.repo,
            "ref": self.ref,
            "poll_interval": self.poll_interval,
            "graveler_conn_id": self.graveler_conn_id,
            **self._others,
        }

    @abstractmethod
    def look(self, repository: Repository) -> _Found:
        """Look once, in a thread of its own."""

    async def prepare(self) -> None:
        """Get ready for the first look; called until it succeeds."""

    async def found(self, *, final: tuple[type[Exception], ...] = ()) -> _Found | None:
        """Look once; return None if the ref does not exist or the lake cannot be read.

        Args:
            final: Errors that do not pass; they are raised.
        """
        try:
            await self.prepare()
            if not self._location:
                self._location = await GravelerHook(self.graveler_conn_id).aget_location()
            found = await asyncio.to_thread(self._open_and_look)
        except final:
            raise
        except Exception as error:  # noqa: BLE001 - drivers and Airflow raise errors of their own
            self._failures += 1
            self._location = ""  # the connection may have been corrected
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
                return None  # it may be created later

    async def pause(self) -> None:
        """Wait for the next look; each failure doubles the pause."""
        longest = max(_LONGEST_PAUSE, self.poll_interval)
        times = 2 ** min(self._failures, _DOUBLINGS)
        await asyncio.sleep(min(self.poll_interval * times, longest))
