"""Telling people what became of a run."""

import json
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowException

from graveler.errors import GravelerError, InvalidInputError, RunNotFoundError
from graveler.lake import RunRecord, RunState
from graveler_airflow.context import run_key
from graveler_airflow.hook import GravelerHook
from graveler_airflow.pages import dag_run_page

__all__ = ["GravelerNotifier"]

_TIMEOUT = 30


class GravelerNotifier(BaseNotifier):
    """Says what became of the graveler run of a DAG run: its branch, why it was refused.

    ::

        @dag(on_failure_callback=GravelerNotifier(repo="flights", webhook="{{ var.value.chat }}"))

    It is for telling only: nothing depends on it, and where the lake cannot be asked it says
    that. Without `send` and `webhook` it writes to the log.

    Args:
        repo: The repository; the connection's where not given.
        send: A function that takes the text to wherever people read it.
        webhook: An address that takes ``{"text": "…"}`` by POST, as chat programs do.
        group_id: That of the `graveler_run`, where one was given.
        graveler_conn_id: The connection that says where the lake is.
    """

    template_fields: Sequence[str] = ("repo", "webhook")

    def __init__(
        self,
        *,
        repo: str = "",
        send: Callable[[str], Any] | None = None,
        webhook: str = "",
        group_id: str = "",
        graveler_conn_id: str = GravelerHook.default_conn_name,
    ) -> None:
        super().__init__()
        self.repo = repo
        self.send = send
        self.webhook = webhook
        self.group_id = group_id
        self.graveler_conn_id = graveler_conn_id

    def notify(self, context: Any) -> None:
        """Say it."""
        text = self.text(context)
        if self.send is not None:
            self.send(text)
        if self.webhook:
            _post(self.webhook, text)
        if self.send is None and not self.webhook:
            self.log.warning("%s", text)

    def text(self, context: Any) -> str:
        """Return what there is to say of the DAG run's graveler run."""
        run = context["dag_run"]
        lines = [f"{run.dag_id}, run {run.run_id}"]
        # a callback's context does not always name the partition, but its run does
        key = run_key({**context, "partition_key": run.partition_key}, self.group_id)
        try:
            with GravelerHook(self.graveler_conn_id).repository(self.repo) as repository:
                lines += _told(repository.runs.get(key), repository.name)
        except RunNotFoundError:
            lines.append("It has opened no graveler run")
        except (GravelerError, AirflowException) as error:
            lines.append(f"The lake cannot be asked what became of it: {error}")
        if url := dag_run_page(run.dag_id, run.run_id):
            lines.append(url)
        return "\n".join(lines)


def _told(record: RunRecord, repository: str) -> list[str]:
    where = f"{repository}, attempt {record.attempt}"
    if record.state is RunState.PUBLISHED:
        return [f"Published to {record.into} of {where}: {record.commit}"]
    lines = [f"{record.state} on branch {record.branch} of {where}; {record.into} has not moved"]
    refusals = [verdict for verdict in record.verdicts if verdict.refuses]
    lines += [f"Refused by {verdict.gate}: {verdict.reason}" for verdict in refusals]
    if record.reason and not refusals:
        lines.append(record.reason)
    return lines


def _post(address: str, text: str) -> None:
    if not address.startswith(("https://", "http://")):
        raise InvalidInputError("webhook: give an http or https address")
    request = urllib.request.Request(  # noqa: S310 - looked at above
        address,
        data=json.dumps({"text": text}).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
        answer.read()
