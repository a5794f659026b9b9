"""The IO managers of dagster-iceberg 0.3.14, unmodified, with PyIceberg 0.11: hours on branches, over REST alone."""

import json
import subprocess
from pathlib import Path

import pytest

import graveler
from graveler.config import program_environment
from graveler.iceberg import GravelerCatalog
from graveler.iceberg.engines import warehouse_of
from graveler.server import Server
from tests.harness.iceberg import TOKEN

PYTHON = Path(__file__).parents[3] / ".venv-dagster-iceberg/bin/python"
FOUR, FIVE, SIX = (f"2013-01-01-0{number}:00" for number in (4, 5, 6))


@pytest.fixture
def lake(tmp_path):
    with graveler.init(tmp_path / "lake") as lake:
        yield lake


@pytest.fixture
def server(lake):
    with Server(lake, token=TOKEN) as server:
        yield server


@pytest.fixture
def repo(lake):
    """A repository with a namespace, which the IO managers do not make."""
    repo = lake.create_repository("flights")
    GravelerCatalog.of(repo.branch("main")).create_namespace("db")
    return repo


@pytest.fixture
def materialize(server, tmp_path):
    """Materialize an hour with these delays on a branch; return the delays that the second asset read."""

    def run(branch, hour, *delays):
        properties = {"uri": server.iceberg, "warehouse": warehouse_of(branch), "token": TOKEN}
        program = Path(__file__).with_name("hours.py")
        done = subprocess.run(
            [PYTHON, program, json.dumps({"type": "rest", **properties}), hour, *map(str, delays)],
            env=program_environment({"HOME": str(tmp_path), "DAGSTER_DISABLE_TELEMETRY": "1"}),
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def rows_of(view):
    """Return the hours and delays of both tables, sorted, as PyIceberg reads them in this process."""
    tables = (GravelerCatalog.of(view).load_table(f"db.{name}") for name in ("flights", "worst"))
    return [
        sorted(
            (f"{row['hour']:%Y-%m-%d-%H:%M}", row["delay"])
            for row in table.scan().to_arrow().to_pylist()
        )
        for table in tables
    ]


def test_an_hour_on_a_branch_replaces_its_rows(repo, materialize):
    dev = repo.create_branch("dev", "main")
    assert materialize(dev, FIVE, 3, 9) == [3, 9]
    assert materialize(dev, SIX, 7) == [7]
    assert materialize(dev, FIVE, 1, 2) == [1, 2]
    expected = [[(FIVE, 1), (FIVE, 2), (SIX, 7)], [(FIVE, 2), (SIX, 7)]]
    assert rows_of(dev) == expected
    repo.merge("dev", into="main")
    assert rows_of(repo.ref("main")) == expected


def test_hours_that_are_runs_at_once_are_both_published(repo, materialize):
    with repo.run("hour 4") as run:
        materialize(run, FOUR, 5)
    five, six = (repo.runs.open(f"hour {number}") for number in (5, 6))
    for run, hour, delays in ((five, FIVE, (3, 9)), (six, SIX, (7,))):
        assert materialize(run, hour, *delays) == [*delays]
    six.publish()
    assert rows_of(repo.ref("main")) == [[(FOUR, 5), (SIX, 7)], [(FOUR, 5), (SIX, 7)]]
    five.publish()
    assert rows_of(repo.ref("main")) == [
        [(FOUR, 5), (FIVE, 3), (FIVE, 9), (SIX, 7)],
        [(FOUR, 5), (FIVE, 9), (SIX, 7)],
    ]
