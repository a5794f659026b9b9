"""The provenance of a path: the commit, run, step, gates and inputs behind it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from graveler.base.names import path_key
from graveler.display import Shown
from graveler.errors import ObjectNotFoundError
from graveler.gates import Verdict
from graveler.model import REVERT, Commit, Entry
from graveler.reads import changes
from graveler.reads.view import Ref, find_value
from graveler.refs.expression import resolve_to_read
from graveler.runs.history import Targets
from graveler.runs.record import Input, RunRecord, decode_inputs
from graveler.runs.records import RunRecords
from graveler.runs.state import Publish
from graveler.values import deferred_entry

_AIRFLOW = {"job": "dag_id", "partition": "partition_key", "step": "task_id"}


@dataclass(frozen=True, slots=True)
class Origin:
    """The orchestrator's origin of a run, a step or a commit; "" for unknown fields.

    ``repo.runs.open(key, metadata=Origin("airflow", job="hourly", run_id=…).metadata())``

    Attributes:
        orchestrator: ``airflow``, ``dagster``, or another lower-case word.
        job: The DAG or job.
        run_id: The run of the DAG or job.
        partition: The partition of the run.
        step: The task or step.
        code_version: Version of the code: a git commit or a release.
        url: Link to the orchestrator's page of the run.
        hour: The hour that the run makes, as ``2013-01-01T05:00Z``.
    """

    orchestrator: str
    job: str = ""
    run_id: str = ""
    partition: str = ""
    step: str = ""
    code_version: str = ""
    url: str = ""
    hour: str = ""

    def _names(self) -> dict[str, str]:
        words = _AIRFLOW if self.orchestrator == "airflow" else {}
        own = {
            name: f"{self.orchestrator}.{words.get(name, name)}"
            for name in ("job", "run_id", "partition", "step")
        }
        return {
            "orchestrator": "orchestrator",
            **own,
            "code_version": "code.version",
            "url": "url",
            "hour": "hour",
        }

    def metadata(self) -> dict[str, str]:
        """Return the pairs for a run's or a step's metadata, without unknown fields."""
        pairs = {name: getattr(self, field) for field, name in self._names().items()}
        return {name: value for name, value in pairs.items() if value}

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> Self | None:
        """Return the origin in the metadata of a commit or a run; None without an orchestrator."""
        orchestrator = metadata.get("orchestrator", "")
        if not orchestrator:
            return None
        names = cls(orchestrator)._names()
        return cls(**{field: metadata.get(name, "") for field, name in names.items()})


@dataclass(frozen=True, slots=True)
class Why(Shown):
    """The provenance of a path.

    Attributes:
        path: The path; for a folder, with a slash at its end.
        entry: The present entry; None for a deleted path or a folder.
        commit: The commit that put the entry on the ref; for a run, the publishing commit. For
            a folder, the last commit that changed a file below it.
        made: The commit that made the entry: for a run, that of the step; else `commit`.
        run: The present record of the run, which may have run again since. None if no run made
            the entry, or its record does not exist.
        key: The run's key; "" if no run made the entry.
        attempt: The attempt of the run.
        step: The step; "" if the run committed without one.
        try_number: The try of the step, by the caller's count; 0 without a step.
        publish: The publish of the entry, in its present state on the target; None if unknown.
        gates: The gates that judged the publish.
        verdicts: Their verdicts, if the run's record still has them.
        inputs: The inputs of the run or the step.
        origin: The orchestrator, its job and run; None if unknown.
    """

    path: str
    entry: Entry | None
    commit: Commit
    made: Commit
    run: RunRecord | None = None
    key: str = ""
    attempt: int = 0
    step: str = ""
    try_number: int = 0
    publish: Publish | None = None
    gates: tuple[str, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    inputs: tuple[Input, ...] = ()
    origin: Origin | None = None

    @property
    def is_folder(self) -> bool:
        """Whether the path is a folder."""
        return self.path.endswith("/")


def why(records: RunRecords, path: str, ref: str) -> Why:
    """Return the provenance of `path`, a file or a folder, at `ref`."""
    stores = records.stores
    head = resolve_to_read(stores.refs, ref)
    key = path_key(path)
    value = find_value(Ref(stores, head), key)
    entry = None if value is None else deferred_entry(key, value, head.id)
    prefix = ""
    commits = changes.trace(stores, head, path=path, first_parent=True)
    commit = next(commits, None)
    if commit is not None and REVERT in commit.metadata and value is not None:
        # the file returned: the commit that brought it first is its origin
        brought = (one for one in commits if REVERT not in one.metadata)
        same = (one for one in brought if find_value(Ref(stores, one), key) == value)
        commit = next(same, commit)
    if commit is None:
        path = prefix = path.removesuffix("/") + "/"
        commit = next(changes.trace(stores, head, prefix=prefix, first_parent=True), None)
    if commit is None:
        raise ObjectNotFoundError(
            f"nothing at {path.removesuffix('/')!r} in {ref!r}, and there never was"
        )
    made = next(changes.trace(stores, commit, path="" if prefix else path, prefix=prefix), commit)
    own = made.metadata if "graveler.run" in made.metadata else commit.metadata
    run_key = own.get("graveler.run", "")
    run = records.find(run_key) if run_key else None
    published = () if run is None else Targets(stores).publishes(run)
    publish = next((item for item in published if item.commit == commit.id), None)
    return Why(
        path=path,
        entry=entry,
        commit=commit,
        made=made,
        run=run,
        key=run_key,
        attempt=int(own.get("graveler.attempt", "0")),
        step=own.get("graveler.step", ""),
        try_number=int(own.get("graveler.try", "0")),
        gates=tuple(filter(None, commit.metadata.get("graveler.gates", "").split(","))),
        publish=publish,
        verdicts=() if publish is None else publish.verdicts,
        inputs=_inputs(own, commit.metadata),
        origin=Origin.of(own) or Origin.of(commit.metadata),
    )


def _inputs(*all_metadata: Mapping[str, str]) -> tuple[Input, ...]:
    for metadata in all_metadata:
        if text := metadata.get("graveler.inputs"):
            return decode_inputs(text)
    return ()
