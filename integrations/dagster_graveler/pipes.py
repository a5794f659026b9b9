"""Programs that Dagster starts with Pipes, such as spark-submit, in a step of the graveler run.

The asset passes the run: ``client.run(context=context, command=[...],
extras=graveler.extras(context))``. The program writes::

    with open_dagster_pipes() as pipes, open_graveler_step(pipes) as step:
        step.write(frame, "output/flights/")

This module needs no Dagster; the program needs ``dagster-pipes`` and graveler.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from graveler.errors import InvalidInputError
from graveler.lake import Run, RunHandle, Step
from graveler_common.lakes import shared_lake

if TYPE_CHECKING:
    from dagster_pipes import PipesContext

EXTRA = "graveler"
"""The name of the extra that carries the run."""

RUN = "graveler/run"
ATTEMPT = "graveler/attempt"
COMMIT = "graveler/commit"


def pack(
    handle: RunHandle,
    name: str,
    *,
    try_number: int,
    metadata: Mapping[str, str],
    inputs: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """Return the extras with which another process works in a step of the run, without secrets."""
    return {
        EXTRA: {
            "run": json.loads(handle.to_json()),
            "step": name,
            "try": try_number,
            "metadata": dict(metadata),
            "inputs": {asset: dict(runs) for asset, runs in inputs.items()},
        }
    }


@contextmanager
def open_graveler_step(
    pipes: "PipesContext", *, lake: str = "", report: bool = True
) -> Iterator[Step]:
    """Open the step that the asset passed to this program, for a ``with`` block.

    Leaving the block commits; an exception drops the step. The run's lease is renewed meanwhile.

    Args:
        pipes: The result of ``open_dagster_pipes()``.
        lake: The lake's location for this program; the asset's location if not given.
        report: Whether to report the assets of the step and their commit to Dagster.

    Raises:
        InvalidInputError: The asset passed no run, or passed the same step to two programs.
        FencedError: The Dagster run is over, or a newer one has superseded it.
    """
    extra = pipes.extras.get(EXTRA)
    if not isinstance(extra, Mapping) or not {"run", "step", "try", "metadata"} <= set(extra):
        raise InvalidInputError(
            "no graveler run was passed to this program: start it with "
            "`client.run(..., extras=graveler.extras(context))`"
        )
    handle = RunHandle.from_json(json.dumps(extra["run"]))
    run = shared_lake(lake or handle.location).repository(handle.repository).runs.attach(handle)
    with (
        run.renewing(),
        start_step(run, extra["step"], try_number=extra["try"], metadata=extra["metadata"]) as step,
    ):
        yield step
    if report and pipes.is_asset_step:
        metadata = {**run_marks(run), COMMIT: (step.result or run.head).id}
        for key in pipes.asset_keys:
            pipes.report_asset_materialization(metadata=metadata, asset_key=key)


def run_marks(run: Run) -> dict[str, Any]:
    """Return the metadata with which a materialization names its graveler run."""
    return {RUN: run.key, ATTEMPT: run.attempt, "graveler/branch": run.branch}


def start_step(run: Run, name: str, *, try_number: int, metadata: Mapping[str, str]) -> Step:
    """Return a step of the run; refuse a second step of the same name in one try."""
    step = run.step(name, try_number=try_number, metadata=metadata)
    if step.earlier is None:
        return step
    marks = {"graveler.try": str(try_number), "dagster.run_id": metadata.get("dagster.run_id")}
    if all(step.earlier.metadata.get(mark) == value for mark, value in marks.items()):
        step.discard()
        raise InvalidInputError(
            f"step {name!r} was done already in this try, and a second one would undo its work: "
            "write in one `with` block, or give each block a name of its own, as "
            "`graveler.step(context, name=...)` or `graveler.extras(context, name=...)`"
        )
    return step
