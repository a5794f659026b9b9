"""What Dagster's event log says beside what main has: backfills, and assets of other runs."""

from pathlib import Path

import pytest

from tests.real.dagster.programs import offsets
from tests.real.dagster.programs.daemon import daemon_of

pytestmark = [  # Dagster itself uses what it has deprecated or previews
    pytest.mark.filterwarnings("ignore::dagster.PreviewWarning"),
    pytest.mark.filterwarnings("ignore:Property `ScheduleDefinition"),
]

DAYS = offsets.DAYS


@pytest.fixture
def world(lake, tmp_path, monkeypatch):
    """A daemon for the pipeline of days, and the file with the version of the raw data."""
    monkeypatch.setenv("TEST_LAKE", lake)
    monkeypatch.setenv("TEST_FOLDER", str(tmp_path))
    monkeypatch.setenv("DAGSTER_DISABLE_TELEMETRY", "1")
    with daemon_of(str(Path(offsets.__file__))) as daemon:
        yield daemon, tmp_path / "version"


def main_of(repo, asset):
    """Return the text of each day of an asset on main."""
    view = repo.ref("main")
    texts = {}
    for day in DAYS:
        path = f"{asset}/{day.replace('-', '/')}/00:00/data"
        texts[day] = view.get(path).decode() if view.exists(path) else None
    return texts


def test_a_backfill_that_dagster_splits_publishes_new_data(repo, world):
    daemon, version = world
    assets = ("raw", "balance", "days_publish")
    version.write_text("1")
    assert daemon.backfill(assets, DAYS) == "COMPLETED_SUCCESS"
    assert main_of(repo, "raw") == {DAYS[0]: "01.1", DAYS[1]: "02.1"}
    assert main_of(repo, "balance") == {DAYS[0]: "01.1", DAYS[1]: "01.1 02.1"}
    version.write_text("forbidden")  # on the second day
    assert daemon.backfill(assets, DAYS) == "COMPLETED_FAILED"
    assert main_of(repo, "raw") == {DAYS[0]: "01.forbidden", DAYS[1]: "02.1"}
    assert main_of(repo, "balance") == {DAYS[0]: "01.forbidden", DAYS[1]: "01.1 02.1"}
