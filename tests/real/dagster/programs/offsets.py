"""A pipeline whose days need the day before, so that Dagster splits its backfills by asset."""

from pathlib import Path

import dagster as dg

from dagster_graveler import GravelerIOManager, GravelerResource, graveler_definitions
from graveler.config import environment
from graveler.gates import gate

days = dg.DailyPartitionsDefinition("2013-01-01", end_date="2013-01-03")
DAYS = ("2013-01-01", "2013-01-02")
DAY_BEFORE = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=0)


@dg.asset(partitions_def=days)
def raw(context: dg.AssetExecutionContext) -> str:
    version = (Path(environment("TEST_FOLDER")) / "version").read_text()
    return f"{context.partition_key[-2:]}.{version}"


@dg.asset(
    partitions_def=days,
    ins={"raw": dg.AssetIn(partition_mapping=DAY_BEFORE)},
)
def balance(raw: dict[str, str]) -> str:
    return " ".join(raw[day] for day in sorted(raw))


@gate(prefix="balance/", reads="run")
def nothing_forbidden(candidate):
    day = candidate.run.metadata["dagster.partition"].replace("-", "/")
    text = candidate.get(f"balance/{day}/00:00/data").decode()
    return "02.forbidden" not in text or f"{day}: {text}"


lake = GravelerResource(lake=dg.EnvVar("TEST_LAKE"), repository="flights")
defs = dg.Definitions.merge(
    graveler_definitions(
        [raw, balance],
        lake,
        gates=[nothing_forbidden],
        io_manager=GravelerIOManager(graveler=lake),
        name="days",
    ),
    dg.Definitions(executor=dg.in_process_executor),
)
