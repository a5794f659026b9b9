"""The hourly pipeline under chaos, as assets. Each step is a process."""

from pathlib import Path

import dagster as dg

from dagster_graveler import GravelerIOManager, GravelerResource, graveler_definitions
from graveler.config import environment
from graveler.gates import gate
from tests.real.chaos.faults import FaultInjector, parent_of
from tests.real.chaos.hours import STEPS, expected, run_step
from tests.real.chaos.plan import FIRST, key_of

hours = dg.HourlyPartitionsDefinition(start_date=FIRST, fmt="%Y-%m-%dT%H:%M")
FOLDER = Path(environment("CHAOS_FOLDER", "."))


def striker(hour: str, task: str) -> FaultInjector:
    """Return the faults of a task. Its process's parent is the fork server of the run worker."""
    return FaultInjector(FOLDER, hour, task, parent=parent_of(parent_of()))


@gate("whole hour", reads="run")
def whole_hour(candidate):
    """The hour has exactly the expected files."""
    hour = hours.time_window_for_partition_key(candidate.run.metadata["dagster.partition"]).start
    striker(key_of(hour), "gate").pause(None)
    there = {
        entry.path
        for root in ("input", "left", "right", "curated")
        for entry in candidate.entries(f"{root}/{hour:%Y/%m/%d/%H:%M}/")
    }
    return there == set(expected(hour)) or f"not the files of the hour: {sorted(there)}"


class ArmedResource(GravelerResource):
    """The resource of graveler, with faults at the conditional writes of its processes."""

    def run(self, context):
        if isinstance(context, dg.AssetExecutionContext) and context.has_partition_key:
            striker(context.partition_key, context.op_handle.name).arm()
        return super().run(context)


def _asset(name: str, deps: list[str]) -> dg.AssetsDefinition:
    @dg.asset(
        name=name,
        deps=deps,
        partitions_def=hours,
        retry_policy=dg.RetryPolicy(max_retries=1),
    )
    def made(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
        hour = context.partition_time_window.start
        with graveler.step(context) as step:
            run_step(name, step, hour, striker(key_of(hour), name).pause)

    return made


def definitions() -> dg.Definitions:
    """Return the pipeline. Its processes are forked from one that has imported everything."""
    resource = ArmedResource(lake=environment("CHAOS_LAKE", "lake"), repository="hours")
    deps: dict[str, list[str]] = {
        "ingest": [],
        "left": ["ingest"],
        "right": ["ingest"],
        "curate": ["left", "right"],
    }
    processes = {
        "max_concurrent": 2,
        "start_method": {
            "forkserver": {"preload_modules": ["tests.real.chaos.orchestrators.dagster_pipeline"]}
        },
    }
    return dg.Definitions.merge(
        graveler_definitions(
            [_asset(name, deps[name]) for name in STEPS],
            resource,
            gates=[whole_hour],
            partitions_def=hours,
            io_manager=GravelerIOManager(graveler=resource),
            name="hours",
        ),
        dg.Definitions(executor=dg.multiprocess_executor.configured(processes)),
    )


defs = definitions()
