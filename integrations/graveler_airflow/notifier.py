"""Messages about the outcome of runs."""

import asyncio
from collections.abc import Callable, ItemsView, Iterator, Sequence
from contextlib import suppress
from typing import Any

import httpx
from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowException

from graveler.errors import GravelerError, InvalidInputError
from graveler.ingest import Ingestion
from graveler.lake import Repository, RunState
from graveler_airflow.dag.context import dag_run_page
from graveler_airflow.hook import GravelerHook
from graveler_airflow.operators.ingestion import GravelerIngestOperator

_TIMEOUT = 30


class GravelerNotifier(BaseNotifier):
    """Reports the graveler runs of a DAG run: their states, branches and refusals.

    For a DAG with a `GravelerIngestOperator` it also reports held hours and quarantines.

    ::

        @dag(on_failure_callback=GravelerNotifier(repo="flights", webhook="{{ var.value.chat }}"))

    It does not affect the DAG run: if the lake cannot be read, the message says so. Without `send`
    and `webhook` it writes to the log.

    Args:
        repo: The repository; the connection's if not given.
        send: A function that delivers the text.
        webhook: An address that accepts ``{"text": "…"}`` by POST, as chat programs do.
        graveler_conn_id: The connection of the lake.
    """

    template_fields: Sequence[str] = ("repo", "webhook", "graveler_conn_id")

    def __init__(
        self,
        *,
        repo: str = "",
        send: Callable[[str], Any] | None = None,
        webhook: str = "",
        graveler_conn_id: str = GravelerHook.default_conn_name,
    ) -> None:
        super().__init__()
        self.repo = repo
        self.send = send
        self.webhook = webhook
        self.graveler_conn_id = graveler_conn_id

    def notify(self, context: Any) -> None:
        """Send the message."""
        self._send(self.text(context))

    async def async_notify(self, context: Any) -> None:
        """Send the message from the triggerer, which must not block, as for a deadline of a DAG."""
        location = ""
        hook = GravelerHook(self.graveler_conn_id)
        with suppress(GravelerError, AirflowException):  # the report says why
            location = await hook.aget_location()
        await asyncio.to_thread(lambda: self._send(self._text(context, hook, location)))

    def _send(self, text: str) -> None:
        if self.send is not None:
            self.send(text)
        if self.webhook:
            if not self.webhook.startswith(("https://", "http://")):
                raise InvalidInputError("webhook: give an http or https address")
            answer = httpx.post(self.webhook, json={"text": text}, timeout=_TIMEOUT)
            answer.raise_for_status()
        if self.send is None and not self.webhook:
            self.log.warning("%s", text)

    def text(self, context: Any) -> str:
        """Return the message about the DAG run's graveler runs."""
        return self._text(context, GravelerHook(self.graveler_conn_id))

    def _text(self, context: Any, hook: GravelerHook, location: str = "") -> str:
        if "dag" in context:  # the reduced context of a DAG's callback always has these values
            dag_id, run_id = context["dag"].dag_id, context["run_id"]
        else:  # a deadline has only the fields of the DAG run
            dag_id, run_id = context["dag_run"]["dag_id"], context["dag_run"]["dag_run_id"]
        mine = {"airflow.dag_id": dag_id, "airflow.run_id": run_id}.items()
        try:
            with hook.opened(self.repo, location) as repository:
                lines = list(_report(repository, mine))
                for ingestion in _ingestions(context, hook, repository):
                    lines += _unpublished(ingestion)
        except (GravelerError, AirflowException) as error:
            lines = [f"The lake cannot be read: {error}"]
        lines = lines or ["It has opened no graveler run"]
        url = dag_run_page(dag_id, run_id)
        return "\n".join([f"{dag_id}, run {run_id}", *lines, *([url] if url else [])])


def _ingestions(context: Any, hook: GravelerHook, repository: Repository) -> Iterator[Ingestion]:
    """Yield the ingestion branches of the repository that tasks of the DAG tick."""
    dag = context.get("dag")
    names = {
        (task.branch, task.into)
        for task in (() if dag is None else dag.tasks)
        if isinstance(task, GravelerIngestOperator)
        and task.graveler_conn_id == hook.graveler_conn_id
        and (task.repo or hook.default_repository) == repository.name
        and "{" not in f"{task.branch}{task.into}"
    }
    for branch, into in sorted(names):
        yield repository.ingestion(branch, into=into)


def _unpublished(ingestion: Ingestion) -> Iterator[str]:
    for hour in ingestion.pending():
        if hour.refused is not None:
            yield f"{ingestion.name} is held, {ingestion.into} has not moved: {hour.refused.reason}"
            break
    for quarantine in ingestion.quarantined():
        yield f"In quarantine on branch {quarantine.name}: {quarantine.refusal.reason}"


def _report(repository: Repository, mine: ItemsView[str, str]) -> Iterator[str]:
    for record in repository.runs.on_targets(repository.runs.list()):
        if not mine <= record.metadata.items():
            continue
        where = f"{repository.name}, attempt {record.attempt}"
        if record.state is RunState.PUBLISHED:
            yield f"Published to {record.into} of {where}: {record.commit}"
            continue
        on_target = f", {record.on_target}" if record.published else ""
        yield (
            f"{record.state} on branch {record.branch} of {where}; {record.into} has not moved"
            f"{on_target}"
        )
        refusals = [verdict for verdict in record.verdicts if verdict.refuses]
        yield from (f"Refused by {verdict.gate}: {verdict.reason}" for verdict in refusals)
        if record.reason and not refusals:
            yield record.reason
