"""A day of hourly runs on a real Airflow, four at once, that append to two tables and write a file.

Tasks are killed, an hour is refused, and an hour runs again. Each commit of main is read by PyIceberg, and compared
with what the published hours landed.
"""

import csv
import io
import sys
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import fmean

import pytest

import graveler
from graveler.demo.flights import hour_folder, load_flights
from graveler.iceberg import GravelerCatalog
from tests.harness.wires import free_port
from tests.real.airflow.home import AIRFLOW, ROOT, Home

pytestmark = [pytest.mark.slow, pytest.mark.service("airflow"), pytest.mark.crash]
FIRST = datetime(2013, 1, 1, 10, tzinfo=UTC)
DAY = [FIRST + timedelta(hours=number) for number in range(24)]  # five of them have no flights
REFUSED, AGAIN = DAY[8], DAY[10]
DAG = "iceberg_airflow"


@pytest.fixture
def home(tmp_path):
    """An Airflow home with the DAG, and a lake with its tables."""
    home = Home(tmp_path, free_port())
    home.dags.mkdir()
    home.marks.mkdir()
    text = (ROOT / "dags/iceberg_airflow.py").read_text("utf-8")
    dying = Path(__file__).with_name("killed_loads.py").read_text("utf-8")
    (home.dags / "iceberg_airflow.py").write_text(f"{text}\n\n{dying}", "utf-8")
    with graveler.init(home.lake) as lake:
        lake.create_repository("flights").protection.add("main")
    home.run(sys.executable, ROOT / "dags/iceberg_tables.py", home.lake)
    home.run(AIRFLOW, "db", "migrate")
    return home


@pytest.fixture
def airflow(home):
    with home.services() as api:
        api.sign_in()
        yield api


@pytest.fixture
def repo(home):
    with graveler.open(home.lake) as lake:
        yield lake.repository("flights")


@pytest.fixture(scope="module")
def flights():
    return load_flights().flights


def land(home, hour, text):
    """Write the file of an hour as its sender does; return the text."""
    file = home.landing / hour_folder(hour) / "flights.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, "utf-8")
    return text


def rows_of(text):
    """Return the rows of both tables for the file of an hour, by a plain calculation."""
    flights = []
    delays: dict[tuple[datetime, str], list[float]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        hour = datetime.fromisoformat(row["time_hour"])
        delay = None if row["dep_delay"] == "NA" else float(row["dep_delay"])
        names = (row["origin"], row["carrier"], int(row["flight"]), row["dest"])
        flights.append((hour, *names, delay))
        known = delays.setdefault((hour, row["origin"]), [])
        known += [] if delay is None else [delay]
    means = [(*key, round(fmean(each), 6) if each else None) for key, each in delays.items()]
    return Counter(flights), Counter(means)


def read(ref):
    """Return the rows of both tables at a ref by PyIceberg, and the texts of its files by hour."""
    catalog = GravelerCatalog.of(ref)
    found = []
    for name in ("db.flights", "db.delays"):
        rows = catalog.load_table(name).scan().to_arrow().to_pylist()
        plain = (tuple(row.values()) for row in rows)
        found.append(
            Counter((*row[:-1], row[-1] and round(row[-1], 6)) if row else row for row in plain)
        )
    return found, {entry.path: ref.get(entry).decode() for entry in ref.entries("raw/")}


def states_of(repo):
    """Return the commits that main was at, oldest first."""
    commits = [repo.ref("main").commit]
    while commits[0].parents:
        commits.insert(0, repo.ref(commits[0].parents[0]).commit)
    return commits


def judge(repo, landed):
    """Compare each commit of main with the texts that the published hours landed.

    Return the hours, oldest first, and for how many of them main had moved since their runs began.
    """
    published: Counter[datetime] = Counter()
    texts, hours, merged = {}, [], 0
    _, tables, *commits = states_of(repo)
    assert tables.metadata["graveler.run"] == "tables"
    for commit in commits:
        hour = datetime.fromisoformat(commit.metadata["hour"])
        hours.append(hour)
        merged += repo.runs.get(commit.metadata["graveler.run"]).base != commit.parents[0]
        texts[f"raw/{hour:%Y/%m/%d/%H:%M}/flights.csv"] = landed[hour][published[hour]]
        published[hour] += 1
        of_hours = zip(*map(rows_of, texts.values()), strict=True)
        expected = [Counter(row for rows in each for row in rows.elements()) for each in of_hours]
        assert read(repo.ref(commit.id)) == (expected, texts), f"{commit.message}: {commit.id}"
    return hours, merged


def text_of(hour):
    return f"{hour:%Y-%m-%dT%H:%M}"


def run_hours(airflow, hours, behaviour="none"):
    """Run hours by a backfill, and return the state of each."""
    before = {
        backfill["id"]
        for backfill in airflow.call("GET", f"/api/v2/backfills?dag_id={DAG}")["backfills"]
    }
    airflow.call(
        "POST",
        "/api/v2/backfills",
        {
            "dag_id": DAG,
            "from_date": f"{text_of(hours[0])}:00Z",
            "to_date": f"{text_of(hours[-1])}:00Z",
            "max_active_runs": 4,
            "reprocess_behavior": behaviour,
        },
    )

    def is_over():
        made = airflow.call("GET", f"/api/v2/backfills?dag_id={DAG}")["backfills"]
        return all(each["completed_at"] for each in made if each["id"] not in before)

    airflow.wait(is_over, f"the backfill of {len(hours)} hours")
    return airflow.finished(DAG, len(hours))


def test_main_has_the_published_hours_at_every_commit(airflow, home, repo, flights):
    landed = {hour: [land(home, hour, flights.text(hour))] for hour in DAY}
    land(home, REFUSED, flights.text(REFUSED) + flights.lines[f"{text_of(REFUSED)}:00Z"][0])

    states = run_hours(airflow, DAY)
    assert {name for name, state in states.items() if state != "success"} == {text_of(REFUSED)}
    assert len(list(home.marks.iterdir())) == 3  # tries were killed
    reason = repo.runs.get(f"{DAG} {text_of(REFUSED)}").reason
    assert "carrier, flight occur more than once" in reason
    hours, merged = judge(repo, landed)
    assert sorted(hours) == [hour for hour in DAY if hour != REFUSED]
    assert merged > len(DAY) // 3

    landed[AGAIN].append(land(home, AGAIN, "".join(flights.text(AGAIN).splitlines(True)[:20])))
    states = run_hours(airflow, [AGAIN], "completed")
    assert states[text_of(AGAIN)] == "success"
    hours, _ = judge(repo, landed)
    assert hours[-1] == AGAIN
    assert repo.fsck().sound
