"""The base of all sensors: it looks into a repository until it finds what it waits for."""

from abc import abstractmethod
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseSensorOperator, Context, PokeReturnValue
from airflow.sdk.configuration import conf

from graveler.errors import RefNotFoundError, RepositoryNotFoundError
from graveler.lake import Repository
from graveler_airflow.dag.error_policy import final_failures
from graveler_airflow.hook import GravelerHook

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


class LakeSensor(BaseSensorOperator):
    """Waits in a worker, in a worker by turns (``mode="reschedule"``), or in the triggerer.

    It keeps no state between two looks, so that all three modes find the same.
    """

    ui_color = "#e0ecf4"

    def __init__(
        self,
        *,
        repo: str,
        ref: str,
        deferrable: bool | None,
        graveler_conn_id: str,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.repo = repo
        self.ref = ref
        self.graveler_conn_id = graveler_conn_id
        self.deferrable = (
            conf.getboolean("operators", "default_deferrable", fallback=False)
            if deferrable is None
            else deferrable
        )

    @abstractmethod
    def look(self, repository: Repository, context: Context) -> dict[str, Any] | None:
        """Return what the sensor waits for, or None if it has not arrived."""

    @abstractmethod
    def trigger(self, context: Context) -> "BaseTrigger":
        """Return the trigger that continues the wait in the triggerer."""

    def poke(self, context: Context) -> PokeReturnValue:
        """Look once."""
        found = None
        with final_failures():
            try:
                with GravelerHook(self.graveler_conn_id).repository(self.repo) as repository:
                    found = self.look(repository, context)
            except (RefNotFoundError, RepositoryNotFoundError) as error:
                self.log.info("It does not exist yet: %s", error)
        return PokeReturnValue(is_done=found is not None, xcom_value=found)

    def execute(self, context: Context) -> Any:
        """Wait, and return what was found."""
        if not self.deferrable:
            return super().execute(context)
        result = self.poke(context)
        if not result.is_done:
            self.defer(
                trigger=self.trigger(context),
                method_name="execute_complete",
                timeout=timedelta(seconds=self.timeout),
            )
        return result.xcom_value

    def execute_complete(self, context: Context, event: dict[str, Any]) -> dict[str, Any]:
        """Return what the trigger found."""
        return event
