"""``graveler iceberg``, and how the other verbs show tables of Iceberg."""

from pathlib import Path

import pytest
from pyiceberg.catalog.sql import SqlCatalog

from tests.harness.iceberg import catalog_of, compact, delays, named_files, rows, with_table


@pytest.fixture
def main(repo):
    catalog = catalog_of(repo.branch("main"))
    table = with_table(catalog, 1, 2)
    table.append(rows(3, 4, 5))
    return catalog


@pytest.fixture
def dev(repo, main):
    """A branch on which a table has changed, with a file beside it."""
    repo.create_branch("dev")
    catalog = catalog_of(repo.branch("dev"))
    table = catalog.load_table("db.flights")
    table.append(rows(6))
    table.delete("delay < 6")
    repo.branch("dev").put("readme.txt", b"hello")
    repo.branch("dev").commit("more")
    return catalog


LINE = "~ db/flights/  append, delete: snapshots +2; rows +1 -5; files +1 -2"


def test_a_diff_has_one_line_for_a_table(cli, dev):
    assert cli("diff", "main", "dev").out.splitlines() == [LINE, "+ readme.txt  5 B"]
    assert cli("diff", "main", "dev", "db/").out.splitlines() == [LINE]
    first, second = cli("diff", "main", "dev", "--json").lines
    assert (first["path"], first["kind"], second["path"]) == (
        "db/flights/",
        "changed",
        "readme.txt",
    )
    assert first["table"] == {
        "operations": ["append", "delete"],
        "snapshots": {"added": 2, "removed": 0},
        "rows": {"added": 1, "removed": 5},
        "files": {"added": 1, "removed": 2},
    }


def test_the_files_of_a_table_are_shown_on_request(cli, dev):
    every = cli("diff", "main", "dev", "--all").out.splitlines()
    assert "~ db/flights/_table.json" in "\n".join(every)
    names = cli("diff", "main", "dev", "--name-only").out.splitlines()
    assert len(every) == len(names) > 5
    assert (
        cli("diff", "main", "dev", "--stat").out.splitlines()[-1].startswith(f"{len(names)} files")
    )
    data = [name for name in names if name.startswith("db/flights/data/")]
    for prefix in ("db/flights/data/", "db/**/*.parquet"):
        shown = cli("diff", "main", "dev", prefix).out.splitlines()
        assert [line.split()[1] for line in shown] == data


def test_a_commit_shows_its_tables(cli, repo, main):
    assert cli("show", "main").out.splitlines()[-1] == (
        "~ db/flights/  append: snapshots +1; rows +3; files +1"
    )
    assert len(cli("show", "main", "--all").out.splitlines()) > len(cli("show").out.splitlines())
    assert {change["path"] for change in cli("show", "--json").json["changes"]} > {
        "db/flights/_table.json"
    }
    with main.load_table("db.flights").transaction() as transaction:
        transaction.set_properties(owner="ann")
    assert cli("show").out.splitlines()[-1] == "~ db/flights/  table: no other snapshots"
    main.rename_table("db.flights", "db.trips")
    assert cli("show").out.splitlines()[-2:] == [
        "- db/flights/  table: snapshots -2; rows -5; files -2",
        "+ db/trips/  append: snapshots +2; rows +5; files +2",
    ]


def test_a_compaction_of_many_files_is_one_line(cli, repo, main):
    table = main.load_table("db.flights")
    for number in range(6, 16):
        table.append(rows(number))
    compact(table)
    assert cli("diff", "main~1", "main").out.splitlines() == [
        "~ db/flights/  replace: snapshots +1; rows +15 -15; files +1 -12"
    ]
    assert delays(main) == list(range(1, 16))


def test_a_table_of_links_and_a_staged_copy_are_one_line(cli, repo, main, tmp_path):
    with SqlCatalog(
        "default", uri=f"sqlite:///{tmp_path}/o.db", warehouse=f"file://{tmp_path}/o"
    ) as other:
        with_table(other, 1, table="db.far")
    repo.links.allow(f"file://{tmp_path}/o")
    said = cli("iceberg", "register", "main", "db.far", "--from", f"sqlite:///{tmp_path}/o.db")
    assert said.out == "registered db.far on main\n"
    assert cli("show").out.splitlines()[-1] == "+ db/far/  append: snapshots +1; rows +1; files +1"
    assert cli("cp", "-r", "main:db/far/", "main:db/copy/").code == 0
    assert cli("diff", "main").out.splitlines() == [
        "+ db/copy/  append: snapshots +1; rows +1; files +1"
    ]
    repo.branch("main").commit("copy")
    assert delays(main, "db.copy") == [1]


def test_a_table_whose_metadata_is_gone_is_still_a_line(cli, repo, dev):
    Path(dev.load_table("db.flights").metadata_location.removeprefix("file://")).write_text("{")
    first, second = cli("diff", "main", "dev").out.splitlines()
    assert first.startswith("~ db/flights/  table, whose metadata cannot be read: ")
    assert second == "+ readme.txt  5 B"
    assert "cannot be read" in cli("diff", "main", "dev", "--json").lines[0]["table"]["unknown"]


def test_a_diff_without_tables_needs_no_pyiceberg(cli, repo, monkeypatch, dev):
    monkeypatch.setattr("graveler.tables.layout.find_spec", lambda _: None)
    assert cli("diff", "main", "dev", "readme.txt").out == "+ readme.txt  5 B\n"
    assert "cannot be read" in cli("diff", "main", "dev").out


@pytest.mark.parametrize("path", ["db/flights/_table.json", "db/flights/"])
def test_why_and_log_work_on_a_table(cli, repo, main, path):
    with repo.run("hour 05") as run:
        catalog_of(run).load_table("db.flights").append(rows(6))
    messages = [line["message"] for line in cli("log", "main", path, "--json").lines]
    assert "append db.flights" in messages
    assert "create db.flights" in messages
    why = cli("why", path).out
    assert "hour 05" in why


def test_tables_are_listed(cli, repo, main):
    with_table(main, table="db.raw.empty")
    assert cli("iceberg", "tables").out.splitlines() == [
        "db.flights  5 rows  2 files  2 snapshots",
        "db.raw.empty  0 rows  0 files  0 snapshots",
    ]
    old = cli("iceberg", "tables", "main~3", "--json").json
    assert old == {"table": "db.flights", "rows": 2, "files": 1, "snapshots": 1}


def test_snapshots_expire(cli, repo, main):
    assert cli("iceberg", "expire", "main").out == "no snapshot expires\n"
    assert cli("iceberg", "expire", "main", "--older-than", "7d", "--keep", "1").out == (
        "no snapshot expires\n"
    )
    said = cli("iceberg", "expire", "main", "--table", "db.flights", "--keep", "1", "--json")
    assert said.json == {"table": "db.flights", "expired": 1}
    assert cli("show").out.splitlines()[-1] == "~ db/flights/  table: snapshots -1"
    assert delays(main) == [1, 2, 3, 4, 5]


def test_tables_are_exported(cli, repo, main, tmp_path):
    repo.tags.create("v1")
    where = ["--to", f"sqlite:///{tmp_path}/o.db", "--with", f"warehouse=file://{tmp_path}/o"]
    said = cli("iceberg", "export", "v1", *where)
    assert said.out.startswith(
        f"exported db.flights as file://{tmp_path}/o/db/flights/metadata/00000-"
    )
    again = cli("iceberg", "export", "v1", "db.flights", *where)
    assert (again.code, again.err) == (
        1,
        "error: catalog default has a table db.flights already: drop it there, and export again\n",
    )
    with SqlCatalog("default", uri=f"sqlite:///{tmp_path}/o.db") as other:
        table = other.load_table("db.flights")
        assert "gc.enabled" not in table.properties
        assert len(named_files(table)) == 7


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["expire", "main", "--table", "db.none"], 1, "error: Table does not exist: db.none"),
        (["expire", "main", "--table", "db..x"], 2, "give names with dots between them"),
        (["expire", "main", "--older-than", "x"], 2, "--older-than 'x'"),
        (["expire", "none"], 1, "none"),
        (["expire", "main", "--keep", "0"], 2, "--keep"),
        (["expire", "v1", "--keep", "1"], 1, "v1"),
        (["register", "main", "db.x", "--from", "nowhere"], 1, "'nowhere': give its URI"),
        (["register", "main", "db.x"], 2, "--from"),
        (["export", "main", "--to", "nowhere"], 1, "'nowhere': give its URI"),
        (["export", "main", "--to", "sqlite://", "--with", "x"], 2, "--with 'x': give NAME=VALUE"),
        (["tables", "none"], 1, "none"),
    ],
)
def test_a_wrong_call_is_one_line(cli, repo, main, arguments, code, words):
    repo.tags.create("v1")
    head = repo.branch("main").head
    said = cli("iceberg", *arguments)
    assert (said.code, len(said.err.splitlines())) == (code, 1)
    assert words in said.err
    assert repo.branch("main").head == head


def test_without_pyiceberg_the_way_out_is_told(cli, repo, monkeypatch):
    monkeypatch.setattr("graveler.tables.layout.find_spec", lambda _: None)
    said = cli("iceberg", "tables")
    assert (said.code, 'pip install "graveler[iceberg]"' in said.err) == (1, True)
