"""A gate reads the rows of the candidate and those that are new, wherever it runs."""

import polars as pl
import pytest

from graveler.errors import GateFailedError
from graveler.gates import Gate, checks
from tests.gates import frames

WAYS = ["here", "in a process", "in a fork"]


@pytest.fixture(params=["repo", "disk"])
def target(request):
    """A repository in memory or on disk, with a table, one of whose files a run replaces."""
    made = request.getfixturevalue(request.param)
    main = made.branch("main")
    main.write(pl.DataFrame({"n": [0]}), "t/day=0/a.parquet")
    main.write(pl.DataFrame({"n": [1, 2]}), "t/day=1/a.parquet")
    main.commit("a table")
    return made


def publish(repo, check, way="here", key="hour", **terms):
    named = (lambda candidate: check(candidate)) if way == "in a fork" else check  # noqa: PLW0108
    gate = Gate("tables", named, prefix="t/", also=("u/",), isolated=way != "here", **terms)
    with repo.run(key, gates=[gate]) as run:
        run.write(pl.DataFrame({"n": [3]}), "t/day=1/a.parquet", mode="overwrite")
        run.write(pl.DataFrame({"n": [4, 5]}), "t/day=2/b.parquet", mode="overwrite")
        run.put("t/_SUCCESS", b"")


@pytest.mark.parametrize("way", WAYS)
def test_a_gate_reads_tables_with_every_library(target, way):
    check = frames.reads_in_a_fork if way == "in a fork" else frames.reads_tables
    publish(target, check, way)
    assert target.ref("main").read("t/", "polars")["n"].to_list() == [0, 3, 4, 5]


def test_a_gate_of_changes_reads_new_rows_only(repo):
    publish(repo, frames.reads_new_rows, reads="changes")
    with pytest.raises(GateFailedError, match="files that do not change"):
        publish(repo, frames.reads_all, key="2", reads="changes")


def test_no_new_rows_are_an_error(repo):
    with pytest.raises(GateFailedError, match="no file below 'u/' is new"):
        publish(repo, frames.of_no_rows)


@pytest.mark.parametrize(
    "rows",
    [
        "from 'new:t/day=1/a.parquet'",
        "from 'new:t/day=1/'",
        "from 'new:t/day=1'",
        "from 'new:t/'",
    ],
)
def test_a_check_of_a_file_or_a_folder_sees_its_new_rows(repo, rows):
    query = checks.sql(rows)
    with pytest.raises(GateFailedError, match="n=3"), repo.run("hour", gates=[query]) as run:
        run.write(pl.DataFrame({"n": [3]}), "t/day=1/a.parquet")
