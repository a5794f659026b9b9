"""The deliveries of the meters, and the calculation of `airflow_meters.py` in plain Python, without graveler."""

import csv
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from tests.long.projects.berlin import BERLIN, hours, number

HOUSEHOLDS = {"Abel": ["m-01", "m-02"], "Brandt": ["m-03"], "Celik": ["m-04", "m-05"]}
COLUMNS = {
    "costs": ["meter", "hour", "watt_hours", "cost"],
    "balances": ["meter", "balance", "paid_in", "counter"],
    "invoices": ["household", "used", "at_night", "cost", "balance", "day"],
}

Rows = list[tuple[Any, ...]]


def deliver(landing: Path, day: date, *, lacks: str = "") -> None:
    """Write the files of a day; the meter `lacks` misses the hour that the clock shows twice, or the third one."""
    for kind in ("readings", "prices"):
        (landing / kind).mkdir(parents=True, exist_ok=True)
    with (landing / "readings" / f"{day}.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["meter", "hour", "watt_hours"])
        for meter in sorted(meter for meters in HOUSEHOLDS.values() for meter in meters):
            for place, hour in enumerate(hours(day)):
                if meter != lacks or place != 3:
                    rows.writerow([meter, hour, number(meter, hour, below=3000)])
    with (landing / "prices" / f"{day}.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["hour", "price"])
        rows.writerows([hour, 18 + number(hour, below=30) * 10] for hour in hours(day))


def utc(hour: str) -> datetime:
    """Return the moment of an hour with an offset, in UTC."""
    return datetime.fromisoformat(hour).astimezone(UTC)


def calculate(landing: Path, days: list[date]) -> dict[str, dict[date, Rows]]:
    """Return the rows of `costs`, `balances` and `invoices` of the days of one period, sorted."""
    result: dict[str, dict[date, Rows]] = {"costs": {}, "balances": {}, "invoices": {}}
    balances = {meter: 50_000_000 for meters in HOUSEHOLDS.values() for meter in meters}
    counters = dict.fromkeys(balances, 0)
    for day in days:
        with (landing / "prices" / f"{day}.csv").open() as file:
            prices = {utc(row["hour"]): int(row["price"]) for row in csv.DictReader(file)}
        with (landing / "readings" / f"{day}.csv").open() as file:
            readings = [
                (row["meter"], row["hour"], int(row["watt_hours"])) for row in csv.DictReader(file)
            ]
        costs = sorted(
            (meter, utc(hour), used, used * prices[utc(hour)]) for meter, hour, used in readings
        )
        result["costs"][day] = costs
        paid_in = dict.fromkeys(balances, 0)
        for meter, _hour, used, cost in costs:
            balances[meter] -= cost
            counters[meter] += used
        for meter, balance in balances.items():
            if balance < 10_000_000:
                paid_in[meter] = 30_000_000
                balances[meter] += 30_000_000
        result["balances"][day] = sorted(
            (meter, balances[meter], paid_in[meter], counters[meter]) for meter in balances
        )
        invoices = []
        for household, meters in HOUSEHOLDS.items():
            own = [row for row in costs if row[0] in meters]
            night = [row for row in own if not 6 <= row[1].astimezone(BERLIN).hour < 22]
            invoices.append(
                (
                    household,
                    sum(row[2] for row in own),
                    sum(row[2] for row in night),
                    sum(row[3] for row in own),
                    sum(balances[meter] for meter in meters),
                    str(day),
                )
            )
        result["invoices"][day] = sorted(invoices)
    return result
