# The DAG in the pictures: small hours of departures. One hour arrives damaged.
from collections import Counter
from datetime import UTC, datetime
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
from airflow.sdk import DAG, task

import graveler
from graveler_airflow import graveler_run, hourly

DAMAGED = 6
CARRIERS = ("AA", "B6", "DL", "EV", "UA", "WN")


def rows(hour, count):
    worst = 95 if hour.hour == DAMAGED else 80
    return [
        {
            "flight": 1000 + number,
            "carrier": CARRIERS[number % 6],
            "delay": (number * 37) % worst - 12,
        }
        for number in range(hour.hour * 11, hour.hour * 11 + count)
    ]


def parquet(found):
    file = BytesIO()
    pq.write_table(pa.Table.from_pylist(found), file)
    return file.getvalue()


def departures(candidate):
    for change in candidate.changes("departures/"):
        if change.after:
            yield from pq.read_table(BytesIO(candidate.get(change.path))).to_pylist()


@graveler.gate
def enough_rows(candidate):
    count = sum(1 for _ in departures(candidate))
    candidate.report(rows=count, least=40)
    return count >= 40 or f"{count} rows, where an hour has 40 or more"


@graveler.gate
def no_duplicates(candidate):
    flights = [row["flight"] for row in departures(candidate)]
    candidate.report(flights=len({*flights}), rows=len(flights))
    twice = len(flights) - len({*flights})
    return not twice or f"{twice} flights are there twice, the first is {min(flights)}"


@graveler.gate(severity="warn")
def usual_delays(candidate):
    delays = sorted(row["delay"] for row in departures(candidate))
    candidate.report(median=delays[len(delays) // 2], longest=delays[-1])
    return delays[-1] < 80 or f"the longest delay is {delays[-1]} minutes"


with DAG("departures", schedule=hourly(), start_date=datetime(2013, 1, 1, tzinfo=UTC)):

    @task.graveler
    def ingest(step):
        found = rows(step.hour, 44 + step.hour.hour)
        for part in range(3):
            step.put(
                step.hour_prefix("departures") + f"part-{part}.parquet", parquet(found[part::3])
            )
        if (
            step.hour.hour == DAMAGED
        ):  # the upload of the third part was repeated under another name
            step.put(step.hour_prefix("departures") + "part-3.parquet", parquet(found[2::3]))

    @task.graveler
    def summarise(step):
        flown = Counter(
            row["carrier"]
            for entry in step.entries(step.hour_prefix("departures"))
            for row in pq.read_table(BytesIO(step.get(entry.path))).to_pylist()
        )
        text = "\n".join(f"{carrier},{count}" for carrier, count in sorted(flown.items()))
        step.put(step.hour_prefix("summary") + "carriers.csv", text.encode())

    with graveler_run("flights", gates=[enough_rows, no_duplicates, usual_delays]) as run:
        ingest(run) >> summarise(run)
