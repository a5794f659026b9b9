"""Who made a run: the pairs by which its commits name their orchestrator."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

__all__ = ["Origin"]

_JOB: Final = {"airflow": "dag_id", "dagster": "job"}
_PARTITION: Final = {"airflow": "partition_key", "dagster": "partition"}
_STEP: Final = {"airflow": "task_id", "dagster": "step"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a run, a step or a commit comes from; "" for what is not known.

    ``repo.runs.open(key, metadata=Origin("airflow", job="hourly", run_id=…).metadata())``

    Attributes:
        orchestrator: ``airflow``, ``dagster``, or any other lower-case word.
        job: The DAG or job.
        run_id: Its run.
        partition: What the run is for.
        step: The task or step.
        code_version: Of the code that ran: a git commit, a release.
        url: A link back to the orchestrator's page of the run.
        hour: The hour that is made, as ``2013-01-01T05:00Z``.
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
        prefix = self.orchestrator
        return {
            "orchestrator": "orchestrator",
            "job": f"{prefix}.{_JOB.get(prefix, 'job')}",
            "run_id": f"{prefix}.run_id",
            "partition": f"{prefix}.{_PARTITION.get(prefix, 'partition')}",
            "step": f"{prefix}.{_STEP.get(prefix, 'step')}",
            "code_version": "code.version",
            "url": "url",
            "hour": "hour",
        }

    def metadata(self) -> dict[str, str]:
        """Return the pairs for a run's or a step's metadata; what is not known is left out."""
        pairs = {name: getattr(self, field) for field, name in self._names().items()}
        return {name: value for name, value in pairs.items() if value}

    @classmethod
    def of(cls, metadata: Mapping[str, str]) -> Self | None:
        """Return what the pairs of a commit or a run say, or None where no orchestrator is named."""
        orchestrator = metadata.get("orchestrator", "")
        if not orchestrator:
            return None
        names = cls(orchestrator)._names()
        return cls(**{field: metadata.get(name, "") for field, name in names.items()})
