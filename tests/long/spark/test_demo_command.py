import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_the_demo_makes_a_lake_and_a_report(cli, tmp_path):
    # in a separate process, because the demo stops its Spark, which other tests share
    place = tmp_path / "two words"
    (place / "lake").mkdir(parents=True)
    (place / "lake" / "graveler.toml").write_text("an earlier demo", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "graveler", "demo", place, "--hours", "2", "--fresh"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    said = " ".join(done.stdout.split())
    for part in (
        "2013-01-01 10:00 published 1 6",
        "2013-01-01 11:00 stopped 1 - - -",
        "2013-01-01 11:00 published 2 52",
        "2 hours published, 58 of 58 flights in main",
        "11:00 was stopped, main did not move; attempt 2 brought it whole and was published",
        "no duplicates:",
    ):
        assert part in said
    (report,) = place.rglob("report.html")
    assert report.read_text("utf-8").startswith("<!doctype html>")
    assert cli("fsck", "--checksums", "-C", place / "lake").code == 0


def test_a_folder_with_other_things_in_it_is_left_alone(cli, tmp_path):
    (tmp_path / "lake").mkdir()
    said = cli("demo", tmp_path, "--json")  # an earlier demo
    assert (said.code, said.error["code"]) == (1, "already-exists")
    assert "--fresh" in said.error["message"]
    (tmp_path / "thesis.txt").write_text("years of work", "utf-8")
    for options in ([], ["--fresh"]):
        said = cli("demo", tmp_path, *options)
        assert said.code == 1
        assert "thesis.txt" in said.err
        assert cli("demo", tmp_path / "thesis.txt", *options).code == 1
    assert sorted(item.name for item in tmp_path.iterdir()) == ["lake", "thesis.txt"]
    assert cli("demo", tmp_path / "new", "--hours", "0").code == 2
    assert not (tmp_path / "new").exists()
