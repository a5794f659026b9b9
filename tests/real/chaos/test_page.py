"""The page of the failure matrix."""

from datetime import UTC, datetime

import pytest

from tests.real.chaos.driving import Row
from tests.real.chaos.page import section, write
from tests.real.chaos.plan import Fate

FATE = Fate(datetime(2013, 1, 1, tzinfo=UTC), "exception")
ROW = Row(
    FATE,
    ["failed: ingest success, left failed (try 2), close_run failed"],
    ["unchanged"],
    ["parked, attempt 1"],
)
AGAIN = Row(
    FATE,
    [*ROW.ran, "success: ingest success, left success, close_run success"],
    [*ROW.main, "whole"],
    [*ROW.branch, "published, attempt 2"],
)


def test_a_row_shows_what_ran_main_the_branch_and_what_is_next():
    first = "**failed**: left failed (try 2), close_run failed | unchanged | parked, attempt 1"
    last = "**success**: every task that ran: success; main whole, published, attempt 2"
    assert section("dagster", [AGAIN]).splitlines()[-2] == f"| exception | {first} | {last} |"
    assert section("dagster", [ROW]).splitlines()[-2] == f"| exception | {first} | — |"


def test_writing_one_orchestrator_leaves_the_other(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# a\n<!-- airflow -->\nold\n<!-- /airflow -->\n<!-- dagster -->\n<!-- /dagster -->\n"
    )
    write(page, "dagster", [ROW])
    write(page, "airflow", [AGAIN])
    write(page, "airflow", [ROW])
    text = page.read_text()
    assert text.startswith("# a\n<!-- airflow -->\n")
    assert "old" not in text
    assert text.count("| exception |") == 2


def test_a_page_without_the_section_is_refused(tmp_path):
    (tmp_path / "page.md").write_text("# a\n")
    with pytest.raises(ValueError, match="has no section"):
        write(tmp_path / "page.md", "dagster", [ROW])
