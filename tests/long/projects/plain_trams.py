"""The files of the trams, and the calculation of `dagster_trams.py` in plain Python, without graveler."""

import json
from collections import defaultdict
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from tests.long.projects.berlin import hours, number

CAPACITY = {"M1": 31, "M4": 52, "M10": 44, "12": 18}
PRICES = {"single": 320, "ten": 2400, "month": 8600}
RIDES = {"single": 1, "ten": 10, "month": 60}

Rows = list[tuple[Any, ...]]


def deliver(landing: Path, day: date, *, lacks: int | None = None, crowded: bool = False) -> None:
    """Write the file of a day; line 12 may lack an hour, by its place, and may be too crowded."""
    with (landing / f"{day}.jsonl").open("w") as file:
        for line, capacity in CAPACITY.items():
            for place, hour in enumerate(hours(day)):
                if line == "12" and place == lacks:
                    continue
                for ticket in PRICES:
                    sold = number(line, hour, ticket, below=40)
                    rides = min(
                        sold * RIDES[ticket], number(hour, ticket, line, below=capacity * 12)
                    )
                    if line == "12" and crowded:
                        rides += capacity * 100
                    row = {
                        "line": line,
                        "hour": hour,
                        "ticket": ticket,
                        "sold": sold,
                        "rides": rides,
                    }
                    file.write(json.dumps(row) + "\n")


def calculate(landing: Path, days: list[date]) -> dict[str, dict[date, Rows]]:
    """Return the rows of `hourly`, `passes`, `line_days` and `bulletin` of consecutive days, sorted."""
    result: dict[str, dict[date, Rows]] = {
        "hourly": {},
        "passes": {},
        "line_days": {},
        "bulletin": {},
    }
    left = dict.fromkeys(PRICES, 0)
    for day in days:
        rides: dict[tuple[str, datetime], int] = defaultdict(int)
        cents: dict[tuple[str, datetime], int] = defaultdict(int)
        bought, ridden = dict.fromkeys(PRICES, 0), dict.fromkeys(PRICES, 0)
        for text in (landing / f"{day}.jsonl").read_text().splitlines():
            row = json.loads(text)
            key = row["line"], datetime.fromisoformat(row["hour"]).astimezone(UTC)
            rides[key] += row["rides"]
            cents[key] += row["sold"] * PRICES[row["ticket"]]
            bought[row["ticket"]] += row["sold"] * RIDES[row["ticket"]]
            ridden[row["ticket"]] += row["rides"]
        result["hourly"][day] = sorted((*key, rides[key], cents[key]) for key in rides)
        passes = []
        for ticket in PRICES:
            rest = left[ticket] + bought[ticket] - ridden[ticket]
            expired = max(rest, 0) // 10
            left[ticket] = rest - expired
            passes.append((ticket, bought[ticket], ridden[ticket], expired, left[ticket]))
        result["passes"][day] = sorted(passes)
        lines = []
        for line in CAPACITY:
            own = [row for row in result["hourly"][day] if row[0] == line]
            most = max(row[2] for row in own)
            busiest = min(row[1] for row in own if row[2] == most)
            lines.append(
                (line, len(own), sum(row[2] for row in own), sum(row[3] for row in own), busiest)
            )
        result["line_days"][day] = sorted(lines)
        result["bulletin"][day] = [
            (str(day),),
            *(
                (f"{row[0]}: {row[2]} rides in {row[1]} hours, {row[3] / 100:.2f} EUR",)
                for row in sorted(lines)
            ),
            (f"{sum(left.values())} rides are left on passes",),
        ]
    return result
