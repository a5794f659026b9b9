import json
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from graveler.demo import DemoResult, HourResult
from graveler.demo.report import summarize
from graveler.gates import Verdict

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_the_demo_makes_a_lake_and_a_report(cli, tmp_path):
    # in a separate process, because the demo stops its Spark, which other tests share
    place = tmp_path / "two words"
    (place / "lake").mkdir(parents=True)
    (place / "lake" / "graveler.toml").write_text("an earlier demo", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "graveler.cli", "demo", place, "--hours", "2", "--json", "--fresh"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0
    said = json.loads(done.stdout)
    assert [run["state"] for run in said["runs"]] == ["PUBLISHED", "PARKED", "PUBLISHED"]
    assert said["flights"] == said["expected"] > 0
    assert "no duplicates" in said["runs"][1]["message"]
    assert Path(said["report"]).read_text("utf-8").startswith("<!doctype html>")
    lake = Path(said["lake"])
    head = cli("log", "-n", "1", "--json", "-C", lake).json
    assert head["id"] == said["runs"][2]["commit"]
    assert cli("fsck", "--checksums", "-C", lake).code == 0


@pytest.mark.parametrize("options", [[], ["--fresh"]])
def test_a_folder_with_other_things_in_it_is_left_alone(cli, tmp_path, options):
    (tmp_path / "lake").mkdir()
    (tmp_path / "thesis.txt").write_text("years of work", "utf-8")
    said = cli("demo", tmp_path, *options)
    assert said.code == 1
    assert "thesis.txt" in said.err
    assert sorted(item.name for item in tmp_path.iterdir()) == ["lake", "thesis.txt"]
    assert cli("demo", tmp_path / "thesis.txt", *options).code == 1


def test_an_earlier_demo_is_kept_unless_a_fresh_one_is_asked_for(cli, tmp_path):
    (tmp_path / "lake").mkdir()
    said = cli("demo", tmp_path, "--json")
    assert (said.code, said.error["code"]) == (1, "already-exists")
    assert "--fresh" in said.error["message"]
    assert (tmp_path / "lake").is_dir()


def test_hours_are_a_number_from_one(cli, tmp_path):
    assert cli("demo", tmp_path / "new", "--hours", "0").code == 2
    assert not (tmp_path / "new").exists()


def test_the_summary_tells_the_runs_and_what_was_stopped(capsys):
    good = HourResult(
        hour=datetime(2013, 1, 1, 10, tzinfo=UTC),
        key="flights 10",
        state="PUBLISHED",
        attempt=1,
        commit="c" * 64,
        rows=6,
        ranges_written=2,
        ranges_reused=1,
        seconds=1.25,
        verdicts=(Verdict("rows", True, "error"),),
        damaged=False,
    )
    bad = replace(
        good,
        hour=datetime(2013, 1, 1, 11, tzinfo=UTC),
        key="flights 11",
        state="PARKED",
        rows=0,
        verdicts=(Verdict("dups", False, "error", "9 flights [bold]twice"),),
    )
    again = replace(bad, state="PUBLISHED", attempt=2, rows=52, verdicts=good.verdicts)
    result = DemoResult(
        lake=Path("there/demo lake/lake"),
        repository="flights",
        landing=Path("there/landing"),
        runs=(good, bad, again),
        flights=58,
        expected=58,
        seconds=20.0,
        spark_seconds=5.0,
    )
    summarize(result, Path("there/report.html"), shown_as="demo lake")
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines.pop().endswith(" -C 'demo lake/lake' log main --first-parent")
    assert lines == [
        "hour (UTC) state attempt flights ranges new reused seconds",
        "2013-01-01 10:00 published 1 6 2 1 1.2",
        "2013-01-01 11:00 stopped 1 - - - 1.2",
        "2013-01-01 11:00 published 2 52 2 1 1.2",
        "",
        "2 hours published, 58 of 58 flights in main, 4 ranges written and 2 reused, "
        "in 20.0 s (5.0 s of them to start Spark)",
        "11:00 was stopped, main did not move; attempt 2 brought it whole and was published",
        "dups: 9 flights [bold]twice",
        "",
        "report there/report.html",
    ]
