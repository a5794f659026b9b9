"""The reads and writes of a task: noted while it works, and reported to OpenLineage at its end.

A note costs nothing. The changes of a commit are read only for an event, in the process that
Airflow forks to send the event.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from graveler.gates import Verdict
from graveler.gates.gate import Gate
from graveler.lake import Run, RunHandle, Step
from graveler.model import Commit
from graveler.reads.stores import Stores
from graveler_airflow.lineage.naming import unpublished


@dataclass(frozen=True, slots=True)
class Part:
    """Some files of one commit: those below a prefix, or those that differ from another commit.

    Attributes:
        location: The lake; "" for that of the connection.
        ref: The name for the branch in the names of the datasets.
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


@dataclass(slots=True)
class TaskWork:
    """The reads and writes of one try of a task."""

    inputs: list[Part] = field(default_factory=list)
    outputs: list[Part] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    judgements: list[tuple[Verdict, str]] = field(default_factory=list)
    tags: dict[str, str] = field(default_factory=dict)

    def note_commit(
        self, conn_id: str, stores: Stores, branch: str, commit: Commit, source: str = ""
    ) -> None:
        """Note a commit that the task has made on a branch, by which it may have merged `source`."""
        self.tags |= {
            "graveler.repository": stores.name,
            "graveler.branch": branch,
            "graveler.commit": commit.id,
        }
        if not commit.parents:
            return
        part = Part(conn_id, stores.location, stores.name, branch, commit.id)
        part = replace(part, changes=(commit.parents[0], commit.id))
        self.outputs.append(part)
        if source:
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
        self.judgements += [(verdict, prefixes.get(verdict.gate, "")) for verdict in verdicts]
