"""The pipelines under chaos, as assets. Each step is a process.

``hours`` makes hours. ``split`` makes other hours, each with a value of the hour before, so that
Dagster splits its backfills. ``digest`` follows what ``split`` publishes.
"""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_graveler import (
    GravelerIOManager,
    GravelerResource,
    graveler_definitions,
    graveler_eager,
)
from graveler.config import environment
from graveler.gates import gate
from tests.real.chaos.faults import FaultInjector, parent_of
from tests.real.chaos.hours import (
    SPLIT_FIRST,
    STEPS,
    digest,
    judged,
    put_shared,
    run_step,
    split_balance,
    split_left,
)
from tests.real.chaos.plan import FIRST, key_of

FOLDER = Path(environment("CHAOS_FOLDER", "."))
CODE = FOLDER / "code"
"""A file whose text is the version of the code."""

_VERSION = CODE.read_text() if CODE.exists() else "1"
_MOST = timedelta(hours=500)
_FORMAT = "%Y-%m-%dT%H:%M"

hours = dg.HourlyPartitionsDefinition(start_date=FIRST, fmt=_FORMAT)
split_hours = dg.HourlyPartitionsDefinition(SPLIT_FIRST, end_date=SPLIT_FIRST + _MOST, fmt=_FORMAT)
HOUR_BEFORE = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=0)
_LATEST: Any = dg.AutomationCondition.in_latest_time_window()
_EAGER: Any = graveler_eager()
RETRY = dg.RetryPolicy(max_retries=1)


def striker(hour: str, task: str) -> FaultInjector:
    """Return the faults of a task. Its process's parent is the fork server of the run worker."""
    return FaultInjector(FOLDER, hour, task, parent=parent_of(parent_of()))


@gate("whole hour", reads="run")
def whole_hour(candidate):
    """The hour has exactly the expected files."""
    hour = datetime.fromisoformat(candidate.run.metadata["hour"])
    striker(key_of(hour), "gate").pause(None)
    return judged(candidate, hour)


@gate("changed code", reads="run")
def changed_code(candidate):
    """A gate that only the changed code has."""
    return bool(candidate.run.metadata["hour"])


class ArmedResource(GravelerResource):
    """The resource of graveler, with faults at the conditional writes of its processes."""

    def run(self, context):
        if isinstance(context, dg.AssetExecutionContext) and context.has_partition_key:
            striker(context.partition_key, context.op_handle.name).arm()
        return super().run(context)


def _work(context: dg.AssetExecutionContext, graveler: GravelerResource, name: str) -> None:
    hour = context.partition_time_window.start
    with graveler.step(context, name=name) as step:
        run_step(name, step, hour, striker(key_of(hour), name).pause)


def _asset(name: str, deps: list[str]) -> dg.AssetsDefinition:
    @dg.asset(name=name, deps=deps, partitions_def=hours, retry_policy=RETRY, code_version=_VERSION)
    def made(context: dg.AssetExecutionContext, graveler: GravelerResource) -> None:
        _work(context, graveler, name)

    return made


def _split() -> list[dg.AssetsDefinition]:
    @dg.asset(name="split_left", partitions_def=split_hours, retry_policy=RETRY)
    def left(context: dg.AssetExecutionContext, graveler: GravelerResource) -> str:
        for name in ("ingest", "left"):
            _work(context, graveler, name)
        return split_left(context.partition_time_window.start)

    @dg.asset(
        name="split_balance",
        ins={"values": dg.AssetIn("split_left", partition_mapping=HOUR_BEFORE)},
        partitions_def=split_hours,
        retry_policy=RETRY,
    )
    def balance(
        context: dg.AssetExecutionContext, graveler: GravelerResource, values: dict[str, str]
    ) -> str:
        for name in ("right", "curate"):
            _work(context, graveler, name)
        return split_balance(values.values())

    return [left, balance]


@dg.asset(
    name="digest",
    ins={"balance": dg.AssetIn("split_balance")},
    partitions_def=split_hours,
    retry_policy=RETRY,
    automation_condition=_EAGER.without(_LATEST),  # hours of 2016 are not the latest,
)
def digest_asset(
    context: dg.AssetExecutionContext, graveler: GravelerResource, balance: str
) -> str:
    hour = context.partition_time_window.start
    with graveler.step(context, name="shared") as step:
        put_shared(step, hour)
        striker(key_of(hour), "digest").pause(step)
    return digest(balance)


def definitions() -> dg.Definitions:
    """Return the pipelines. Their processes are forked from one that has imported everything."""
    resource = ArmedResource(lake=environment("CHAOS_LAKE", "lake"), repository="hours")
    manager = GravelerIOManager(graveler=resource)
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
    gates = [whole_hour] if _VERSION == "1" else [changed_code, whole_hour]
    made = [_asset(name, deps[name]) for name in STEPS]
    return dg.Definitions.merge(
        graveler_definitions(made, resource, gates=gates, io_manager=manager, name="hours"),
        graveler_definitions(
            _split(), resource, gates=[whole_hour], io_manager=manager, name="split"
        ),
        graveler_definitions([digest_asset], resource, io_manager=manager, name="digest"),
        dg.Definitions(executor=dg.multiprocess_executor.configured(processes)),
    )


defs = definitions()
