"""Prepaid electricity meters in Berlin, on Airflow.

`meters` charges each day at the prices of its hours, and takes the cost from the balance of the day before. A day has
24 hours, on two days of the year 23 or 25. `invoices` has a run for each day that `meters` has published, and adds up
the meters of each household.
"""

from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
from airflow.sdk import (
    DAG,
    CronDataIntervalTimetable,
    PartitionedAssetTimetable,
    Variable,
    dag,
    task,
)

import graveler
import graveler.frames
from graveler import checks
from graveler_airflow import (
    GravelerNotifier,
    GravelerPartitionsOperator,
    TaskStep,
    graveler_asset,
    graveler_partitions,
    graveler_run,
)

BERLIN = ZoneInfo("Europe/Berlin")
PERIODS = {
    date(2026, 3, 28),
    date(2026, 10, 22),
}  # their first days; a period begins with the opening balance
OPENING_BALANCE = 50_000_000  # in thousandths of a cent
TOP_UP_BELOW = 10_000_000
TOP_UP = 30_000_000
METERS = {"m-01": "Abel", "m-02": "Abel", "m-03": "Brandt", "m-04": "Celik", "m-05": "Celik"}


# Days and folders


def beginning(day: date) -> datetime:
    """Return the midnight in Berlin with which a day begins, in UTC."""
    return datetime.combine(day, time(), BERLIN).astimezone(UTC)


def hours_of(day: date) -> list[datetime]:
    """Return the beginnings of the hours of a day in Berlin, in UTC: 23, 24 or 25."""
    start, end = beginning(day), beginning(day + timedelta(days=1))
    return [
        start + timedelta(hours=number)
        for number in range(round((end - start) / timedelta(hours=1)))
    ]


def folder(root: str, day: date) -> str:
    """Return the folder of a day, as `hour_prefix` returns it in the run of that day."""
    return f"{root}/{beginning(day):%Y/%m/%d/%H:%M}/"


def day_of(step: TaskStep) -> date:
    """Return the day in Berlin that the DAG run of a step is about."""
    return step.hour.astimezone(BERLIN).date()


def landed(kind: str, day: date) -> pd.DataFrame:
    """Return a file that the meters or the exchange have delivered, with its hours in UTC."""
    frame = pd.read_csv(Path(Variable.get("meters_landing")) / kind / f"{day}.csv")
    frame["hour"] = pd.to_datetime(frame["hour"], utc=True).astype("datetime64[us, UTC]")
    return frame


# Gates


def judged_day(candidate) -> date:
    """Return the day in Berlin that the run of a candidate is about."""
    return datetime.fromisoformat(candidate.run.metadata["hour"]).astimezone(BERLIN).date()


@task.graveler_gate(prefix="readings/", also=("prices/",), reads="run")
def every_hour_is_there(candidate):
    """Refuse a day that lacks an hour of a meter or of the prices, or has one too many."""
    day = judged_day(candidate)
    hours = set(hours_of(day))
    readings = candidate.read(candidate.run.hour_prefix("readings"), pd.DataFrame)
    for meter, rows in readings.groupby("meter"):
        lacks = hours - set(rows["hour"])
        assert not lacks, f"{meter} has no reading at {min(lacks).astimezone(BERLIN):%H:%M %z}"
        assert len(rows) == len(hours), (
            f"{meter} has {len(rows)} readings on {day}, which has {len(hours)} hours"
        )
    lost = set(METERS) - set(readings["meter"])
    assert not lost, f"no reading of {', '.join(sorted(lost))}"
    prices = candidate.read(candidate.run.hour_prefix("prices"), pd.DataFrame)
    assert set(prices["hour"]) == hours, (
        f"{len(prices)} prices on {day}, which has {len(hours)} hours"
    )
    candidate.report(hours=len(hours))


@graveler.gate(prefix="balances/", also=("costs/",), reads="run")
def balances_add_up(candidate):
    """Refuse a balance that is not the balance of the day before, minus the costs, plus what was paid in."""
    balances = candidate.read(candidate.run.hour_prefix("balances"), pd.DataFrame).set_index(
        "meter"
    )
    costs = (
        candidate.read(candidate.run.hour_prefix("costs"), pd.DataFrame)
        .groupby("meter")["cost"]
        .sum()
    )
    day = judged_day(candidate)
    before = pd.Series(OPENING_BALANCE, index=balances.index)
    if day not in PERIODS:
        before = candidate.read(
            folder("balances", day - timedelta(days=1)), pd.DataFrame
        ).set_index("meter")["balance"]
    wrong = balances["balance"] != before - costs + balances["paid_in"]
    assert not wrong.any(), f"wrong balances: {', '.join(balances.index[wrong])}"


METER_GATES = [
    balances_add_up,
    checks.schema(
        "readings/", {"meter": "string", "hour": "timestamp[us, tz=UTC]", "watt_hours": "int64"}
    ),
    checks.in_range("readings/", "watt_hours", 0, 20_000),
    checks.unique("readings/", "meter", "hour"),
    checks.only_within("readings/{hour}/", "prices/{hour}/", "costs/{hour}/", "balances/{hour}/"),
]


# The first pipeline: readings, prices, costs, balances

balances_on_main = graveler_asset("balances on main", "meters", prefix="balances/", poll_interval=2)
days_of_balances = graveler_partitions("balances by day", "meters", prefix="balances/")


@dag(
    schedule=CronDataIntervalTimetable("0 0 * * *", timezone="Europe/Berlin"),
    start_date=beginning(date(2026, 3, 28)),
    end_date=beginning(date(2026, 10, 29)),
    catchup=False,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=1), "depends_on_past": True},
    on_failure_callback=GravelerNotifier(repo="meters"),
)
def meters():
    """Charge a day, and take its cost from the balances."""

    @task.graveler
    def intake(step):
        day = day_of(step)
        step.write(landed("readings", day), step.hour_prefix("readings"), mode="overwrite")
        step.write(landed("prices", day), step.hour_prefix("prices"), mode="overwrite")

    @task.graveler
    def charge(step):
        day = day_of(step)
        costs = step.read(step.hour_prefix("readings"), pd.DataFrame).merge(
            step.read(step.hour_prefix("prices"), pd.DataFrame), on="hour", validate="many_to_one"
        )
        costs["cost"] = costs["watt_hours"] * costs.pop("price")
        step.write(
            costs.sort_values(["meter", "hour"]), step.hour_prefix("costs"), mode="overwrite"
        )

        table = costs.groupby("meter").agg(used=("watt_hours", "sum"), cost=("cost", "sum"))
        if day in PERIODS:
            table["before"], table["counter"] = OPENING_BALANCE, 0
        else:
            yesterday = graveler.frames.read(
                step.view(), folder("balances", day - timedelta(days=1)), pd.DataFrame
            )
            yesterday = yesterday.set_index("meter")
            table["before"], table["counter"] = yesterday["balance"], yesterday["counter"]
        left = table["before"] - table["cost"]
        table["paid_in"] = (left < TOP_UP_BELOW).astype("int64") * TOP_UP
        table["balance"] = left + table["paid_in"]
        table["counter"] += table["used"]
        balances = table.reset_index()[["meter", "balance", "paid_in", "counter"]]
        step.write(balances, step.hour_prefix("balances"), mode="overwrite")

    with graveler_run("meters", gates=METER_GATES) as run:
        intake(run) >> every_hour_is_there(run) >> charge(run)


meters()


# An event for each day that has been published

with DAG("meters_days", schedule=[balances_on_main]):
    GravelerPartitionsOperator(task_id="days", outlets=[days_of_balances])


# The second pipeline: invoices of households


@graveler.gate(prefix="invoices/", also=("costs/",), reads="run")
def invoices_are_complete(candidate):
    """Refuse invoices whose sum is not the sum of the costs."""
    invoices = candidate.read(candidate.run.hour_prefix("invoices"), pd.DataFrame)
    costs = candidate.read(candidate.run.hour_prefix("costs"), pd.DataFrame)
    assert invoices["cost"].sum() == costs["cost"].sum(), (
        f"the invoices are {invoices['cost'].sum()}, and the costs are {costs['cost'].sum()}"
    )
    candidate.report(households=len(invoices))


@dag(
    schedule=PartitionedAssetTimetable(assets=days_of_balances),
    start_date=beginning(min(PERIODS)),
    max_active_runs=2,
    default_args={"retries": 1, "retry_delay": timedelta(seconds=1)},
)
def invoices():
    """Add up the meters of each household, for one day."""

    @task.graveler
    def households(step):
        day = day_of(step)
        costs = step.read(step.hour_prefix("costs"), pd.DataFrame)
        costs["household"] = costs["meter"].map(METERS)
        local = costs["hour"].dt.tz_convert("Europe/Berlin").dt.hour
        costs["at_night"] = costs["watt_hours"].where((local < 6) | (local >= 22), 0)
        table = costs.groupby("household").agg(
            used=("watt_hours", "sum"), at_night=("at_night", "sum"), cost=("cost", "sum")
        )
        now = step.read(step.hour_prefix("balances"), pd.DataFrame)
        table["balance"] = (
            now.assign(household=now["meter"].map(METERS)).groupby("household")["balance"].sum()
        )
        table["day"] = str(day)
        step.write(table.reset_index(), step.hour_prefix("invoices"), mode="overwrite")
        for row in table.reset_index().itertuples():
            letter = f"{row.household}: {row.used} Wh on {day}, {row.cost / 100_000:.2f} EUR\n"
            step.put(f"{step.hour_prefix('letters')}{row.household}.txt", letter.encode())

    gates = [invoices_are_complete, checks.only_within("invoices/{hour}/", "letters/{hour}/")]
    with graveler_run("meters", gates=gates) as run:
        households(run)


invoices()
