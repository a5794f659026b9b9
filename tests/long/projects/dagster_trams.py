"""Tickets of a tram company in Berlin, on Dagster.

The pipeline `tickets` takes the sales of a day in, adds them up by line and hour, and counts the passes: each pass is
for a number of rides, and the rides that are left at the end of a day are those of the next one. A day has 24 hours, on
two days of the year 23 or 25. The pipeline `reports` starts with each day that `tickets` has published.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pandas as pd
import polars as pl

import graveler as engine
from dagster_graveler import (
    GravelerIOManager,
    GravelerResource,
    build_commit_sensor,
    graveler_definitions,
)
from graveler import checks

LINES = {"M1": 31, "M4": 52, "M10": 44, "12": 18}  # and the capacity of a tram
MISSING = {"allow_missing_partitions": True}
PERIODS = {"2026-03-28", "2026-10-22"}  # their first days; a period begins without passes
RIDES = {"single": 1, "ten": 10, "month": 60}
CENTS = {"single": 320, "ten": 2400, "month": 8600}

days = dg.DailyPartitionsDefinition("2026-03-28", end_date="2026-10-30", timezone="Europe/Berlin")
yesterday = dg.TimeWindowPartitionMapping(start_offset=-1, end_offset=-1)


class Landing(dg.ConfigurableResource[None]):
    """The folder in which the machines of the trams put a file for each day."""

    folder: str

    def day(self, key: str) -> pd.DataFrame:
        """Return the sales and the rides of a day."""
        return pd.read_json(
            Path(self.folder) / f"{key}.jsonl", lines=True, dtype={"line": str}, convert_dates=False
        )


# Gates


@engine.gate("no hour lost", prefix="sales/", reads="run")
def no_hour_lost(candidate):
    """Refuse a day that lacks an hour on one of the lines."""
    start = datetime.fromisoformat(candidate.run.metadata["hour"])
    window = days.time_window_for_partition_key(candidate.run.metadata["dagster.partition"])
    hours = set(hours_between(window.start, window.end))
    assert min(hours) == start, f"the day begins at {min(hours)}, and the run is about {start}"
    sales = candidate.read(candidate.run.hour_prefix("sales"), pd.DataFrame)
    for line in LINES:
        lacks = hours - set(sales.loc[sales["line"] == line, "hour"])
        assert not lacks, (
            f"line {line} has nothing at {', '.join(f'{hour:%H:%M}Z' for hour in sorted(lacks))}"
        )
    candidate.report(hours=len(hours), rows=len(sales))


@engine.gate("reports add up", prefix="line_days/", also=("hourly/",), reads="run")
def reports_add_up(candidate):
    """Refuse a report whose sums are not those of the hours."""
    report = candidate.read(candidate.run.hour_prefix("line_days"), pd.DataFrame)
    hourly = candidate.read(candidate.run.hour_prefix("hourly"), pd.DataFrame)
    assert report["cents"].sum() == hourly["cents"].sum(), (
        "the cents of the report are not those of the hours"
    )


TICKET_GATES = [
    no_hour_lost,
    checks.schema(
        "hourly/",
        {"line": "string", "hour": "timestamp[us, tz=UTC]", "rides": "int64", "cents": "int64"},
    ),
    checks.unique("hourly/", "line", "hour"),
    checks.in_range("passes/", "left", 0, 10_000_000),
    checks.only_within("sales/{hour}/", "hourly/{hour}/", "passes/{hour}/"),
]


def hours_between(start: datetime, end: datetime) -> list[datetime]:
    """Return the beginnings of the hours of a day, in UTC."""
    start, end = start.astimezone(UTC), end.astimezone(UTC)
    return [
        start + timedelta(hours=number)
        for number in range(round((end - start) / timedelta(hours=1)))
    ]


# The first pipeline: sales, hourly, passes


@dg.asset(partitions_def=days)
def sales(context: dg.AssetExecutionContext, landing: Landing) -> pd.DataFrame:
    """The sales and rides of a day as they arrived, with hours in UTC."""
    frame = landing.day(context.partition_key)
    frame["hour"] = pd.to_datetime(frame["hour"], utc=True).astype("datetime64[us, UTC]")
    return frame[["line", "hour", "ticket", "sold", "rides"]]


@dg.asset(partitions_def=days)
def hourly(sales: pl.DataFrame) -> pl.DataFrame:
    """Rides and takings by line and hour."""
    cents = pl.col("sold") * pl.col("ticket").replace_strict(CENTS, return_dtype=pl.Int64)
    return (
        sales.group_by("line", "hour")
        .agg(pl.col("rides").sum(), cents.sum().alias("cents"))
        .sort("line", "hour")
    )


@dg.asset(
    partitions_def=days,
    ins={"before": dg.AssetIn("passes", partition_mapping=yesterday, metadata=MISSING)},
)
def passes(
    context: dg.AssetExecutionContext, sales: pd.DataFrame, before: pd.DataFrame | None
) -> pd.DataFrame:
    """The rides that are left on all passes at the end of a day, by kind of ticket."""
    table = sales.groupby("ticket").agg(sold=("sold", "sum"), rides=("rides", "sum"))
    if context.partition_key in PERIODS:
        left = pd.Series(0, index=table.index)
    elif before is None:
        raise dg.Failure("the passes of the day before were not made", allow_retries=False)
    else:
        left = before.set_index("ticket")["left"]
    context.log.info("%s rides are left from the day before", left.sum())
    table["bought"] = table["sold"] * table.index.map(RIDES)
    table["expired"] = (left + table["bought"] - table["rides"]).clip(lower=0) // 10
    table["left"] = left + table["bought"] - table["rides"] - table["expired"]
    return table.reset_index()[["ticket", "bought", "rides", "expired", "left"]]


@dg.asset_check(asset=hourly, blocking=True, partitions_def=days)
def trams_are_not_too_full(hourly: pd.DataFrame) -> dg.AssetCheckResult:
    """More than forty full trams an hour are a fault of the counter."""
    full = hourly[hourly["rides"] > hourly["line"].map(LINES) * 40]
    return dg.AssetCheckResult(passed=full.empty, metadata={"hours": len(full)})


# The second pipeline: reports


@dg.asset(partitions_def=days)
def line_days(hourly: pd.DataFrame) -> pd.DataFrame:
    """Rides, takings and the busiest hour of each line."""
    rows = []
    for line, hours in hourly.groupby("line"):
        busiest = hours.sort_values(["rides", "hour"], ascending=[False, True]).iloc[0]
        rows.append(
            (
                line,
                len(hours),
                int(hours["rides"].sum()),
                int(hours["cents"].sum()),
                busiest["hour"],
            )
        )
    return pd.DataFrame(rows, columns=["line", "hours", "rides", "cents", "busiest"])


@dg.asset(partitions_def=days)
def bulletin(
    context: dg.AssetExecutionContext, line_days: pd.DataFrame, passes: pd.DataFrame
) -> str:
    """One line of text for each tram line, and one for the passes."""
    lines = [
        f"{row.line}: {row.rides} rides in {row.hours} hours, {row.cents / 100:.2f} EUR"
        for row in line_days.sort_values("line").itertuples()
    ]
    return (
        "\n".join(
            [context.partition_key, *lines, f"{passes['left'].sum()} rides are left on passes"]
        )
        + "\n"
    )


# Definitions


def build() -> dg.Definitions:
    """Return both pipelines, and the sensor that starts the second one."""
    lake = GravelerResource(lake=dg.EnvVar("TRAMS_LAKE"), repository="trams")
    tables = GravelerIOManager(graveler=lake)
    tickets = graveler_definitions(
        [sales, hourly, passes],
        lake,
        gates=TICKET_GATES,
        asset_checks=[trams_are_not_too_full],
        partitions_def=days,
        io_manager=tables,
        resources={"landing": Landing(folder=dg.EnvVar("TRAMS_LANDING"))},
        name="tickets",
    )
    reports = graveler_definitions(
        [line_days, bulletin],
        lake,
        gates=[reports_add_up, checks.only_within("line_days/{hour}/", "bulletin/{hour}/")],
        partitions_def=days,
        io_manager=tables,
        name="reports",
    )
    published_days = build_commit_sensor(
        "published_days",
        job=next(job for job in reports.jobs or () if job.name == "reports_job"),
        prefix="passes/",
        partitions_def=days,
        minimum_interval_seconds=2,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    return dg.Definitions.merge(
        tickets, reports, dg.Definitions(sensors=[published_days], executor=dg.in_process_executor)
    )


defs = build()
