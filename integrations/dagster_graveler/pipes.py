"""Programs that Dagster starts by Pipes, as spark-submit, in a step of the graveler run.

The asset hands the run on: ``client.run(context=context, command=[...],
extras=graveler.extras(context))``. The program writes::

    with open_dagster_pipes() as pipes, open_graveler_step(pipes) as step:
        graveler.spark.write(step, frame, "output/flights/")

This module needs no Dagster; the program needs ``dagster-pipes`` and graveler.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol

from dagster_graveler.run.lakes import open_lake
from dagster_graveler.run.steps import start_step
from graveler.errors import InvalidInputError
from graveler.lake import RunHandle, Step

__all__ = ["EXTRA", "Pipes", "open_graveler_step", "pack"]

EXTRA: Final = "graveler"
"""Name of the extra that the run travels in."""


class Pipes(Protocol):
    """What is used of Dagster's ``PipesContext``."""

    @property
    def extras(self) -> Mapping[str, Any]:
        """What the asset handed on."""

    @property
    def is_asset_step(self) -> bool:
        """Whether an asset is made."""

    @property
    def asset_keys(self) -> Any:
        """Those that are made."""

    def report_asset_materialization(
        self, metadata: Any = None, data_version: Any = None, asset_key: Any = None
    ) -> None:
        """Tell Dagster that an asset was made."""


def pack(
    handle: RunHandle, step: str, *, try_number: int, metadata: Mapping[str, str]
) -> dict[str, Any]:
    """Return the extras by which another process works in a step of the run; no secrets."""
    return {
        EXTRA: {
            "run": json.loads(handle.to_json()),
            "step": step,
            "try": try_number,
            "metadata": dict(metadata),
        }
    }


@contextmanager
def open_graveler_step(pipes: Pipes, *, lake: str = "", report: bool = True) -> Iterator[Step]:
    """Open the step that the asset handed on, in another program, for a ``with`` block.

    Leaving the block commits, an exception leaves nothing. The run's lease is renewed meanwhile.

    Args:
        pipes: What ``open_dagster_pipes()`` gives.
        lake: Where the lake is for this program; where the asset has it if not given.
        report: Tell Dagster that the assets of the step were made, and in which commit.

    Raises:
        InvalidInputError: The asset handed no run on, or the same step to two programs.
        FencedError: The Dagster run is over, or a newer one has taken its work over.
    """
    extra = pipes.extras.get(EXTRA)
    if not isinstance(extra, Mapping) or not {"run", "step", "try", "metadata"} <= set(extra):
        raise InvalidInputError(
            "no graveler run was handed on to this program: start it with "
            "`client.run(..., extras=graveler.extras(context))`"
        )
    handle = RunHandle.from_json(json.dumps(extra["run"]))
    run = open_lake(lake or handle.location).repository(handle.repository).runs.attach(handle)
    with (
        run.renewing(),
        start_step(run, extra["step"], try_number=extra["try"], metadata=extra["metadata"]) as step,
    ):
        yield step
    if report and pipes.is_asset_step:
        metadata = {
            "graveler/branch": run.branch,
            "graveler/commit": (step.result or run.head).id,
        }
        for key in pipes.asset_keys:
            pipes.report_asset_materialization(metadata=metadata, asset_key=key)
