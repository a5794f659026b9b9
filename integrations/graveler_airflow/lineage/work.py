"""The reads and writes of a task: noted while it works, and reported to OpenLineage at its end.

A note costs nothing. The changes of a commit are read only for an event, in the process that
Airflow forks to send the event.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from graveler.gates import Verdict
from graveler.gates.gate import Gate
from graveler.lake import Run, RunHandle, Step
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler_airflow.lineage.naming import unpublished

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


@dataclass(frozen=True, slots=True)
class Part:
    """Some files of one commit: those below a prefix, or those that differ from another commit.

    Attributes:
        conn_id: The connection of the lake.
        location: The lake; "" for that of the connection.
        repo: The repository.
        ref: The name for the branch in the names of the datasets.
        version: The commit.
        prefix: Start of the paths.
        changes: The two commits between which the files differ; None for all files below the prefix.
        in_run: A commit of a run; files that it has changed belong to the run.
    """

    conn_id: str
    location: str
    repo: str
    ref: str
    version: str
    prefix: str = ""
    changes: tuple[str, str] | None = None
    in_run: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of a gate, and the prefix of the judged files."""

    verdict: Verdict
    prefix: str


class TaskWork:
    """The reads and writes of one try of a task.

    Attributes:
        inputs: The parts that it has read.
        outputs: The parts that it has written.
        links: Addresses of folders in other stores that it has read.
        judgements: The verdicts on its inputs.
        tags: Names and values that identify the work.
    """

    def __init__(self) -> None:
        self.inputs: list[Part] = []
        self.outputs: list[Part] = []
        self.links: list[str] = []
        self.judgements: list[Judgement] = []
        self.tags: dict[str, str] = {}

    def note_commit(self, conn_id: str, stores: Stores, branch: str, commit: Commit) -> None:
        """Note a commit that the task has made on a branch."""
        self.tags |= {
            "graveler.repository": stores.name,
            "graveler.branch": branch,
            "graveler.commit": commit.id,
        }
        if commit.parents:
            part = Part(conn_id, stores.location, stores.name, branch, commit.id)
            self.outputs.append(replace(part, changes=(commit.parents[0], commit.id)))

    def note_merge(
        self, conn_id: str, stores: Stores, commit: Commit, source: str, into: str
    ) -> None:
        """Note a commit with which the task has merged one branch into another."""
        self.note_commit(conn_id, stores, into, commit)
        for part in self.outputs[-1:]:
            self.inputs.append(replace(part, ref=source, version=commit.parents[-1]))

    def note_run(self, run: RunHandle) -> None:
        """Note the run that the task works on."""
        self.tags |= {
            "graveler.repository": run.repository,
            "graveler.branch": run.branch,
            "graveler.run": run.key,
            "graveler.attempt": str(run.attempt),
        }

    def note_step(self, conn_id: str, step: Step) -> None:
        """Note the reads of a step of a run, and its writes if it has joined.

        The lake is not read, because it may be closed, and a task that has joined must not fail here.
        """
        self.note_run(step.run)
        self.tags["graveler.step"] = step.step
        stores = step.repository
        part = Part(conn_id, stores.location, stores.name, step.into, step.base)
        for read in step.inputs:
            in_run = step.start.id if read.commit == step.base else ""
            self.inputs.append(
                replace(part, version=read.commit, prefix=read.prefix, in_run=in_run)
            )
        if step.result is not None:
            made = step.result
            work = (made.metadata["graveler.step_base"], made.metadata["graveler.step_head"])
            self.tags["graveler.commit"] = made.id
            self.outputs.append(
                replace(part, ref=unpublished(step.into), version=made.id, changes=work)
            )

    def note_judged(
        self, conn_id: str, run: Run, head: str, verdicts: Iterable[Verdict], gates: Iterable[Gate]
    ) -> None:
        """Note the work of a run that gates have judged, up to a commit of its branch."""
        record, stores = run.record, run.repository
        part = Part(conn_id, stores.location, stores.name, unpublished(record.into), head)
        self.inputs.append(replace(part, changes=(record.base, head)))
        prefixes = {gate.name: gate.prefix for gate in gates}
        self.judgements += [
            Judgement(verdict, prefixes.get(verdict.gate, "")) for verdict in verdicts
        ]


class ReportsLineage:
    """An operator that reports the reads and writes of its task to OpenLineage.

    Airflow's OpenLineage provider calls it in a separate process when the task has ended.
    """

    @cached_property
    def lineage(self) -> TaskWork:
        """The reads and writes of the task."""
        return TaskWork()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> "OperatorLineage[Any, Any]":
        """Return the datasets of a task that has ended, with commits as their versions."""
        from graveler_airflow.lineage.facets import lineage_of

        return lineage_of(self.lineage)
