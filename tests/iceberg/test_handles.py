"""Handles of tables of the catalog: read as frames of any library, and changed by runs and steps."""

from datetime import UTC, datetime, timedelta, timezone

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graveler.errors import InvalidInputError, ObjectNotFoundError, ReadOnlyError
from tests.harness.iceberg import catalog_of, delays, with_table
from tests.harness.iceberg_lines import new_line

FRAME = pd.DataFrame({"hour": ["05", "05", "06"], "delay": [1, 2, 3]})
NAN = float("nan")


@pytest.fixture
def flights(repo):
    branch = repo.branch("main")
    branch.table("db.flights").append(FRAME)
    return branch.table("db.flights")


def numbers(frame):
    frame = frame.to_arrow_table() if isinstance(frame, duckdb.DuckDBPyRelation) else frame
    return sorted(pa.table(frame)["delay"].to_pylist())


@pytest.mark.parametrize("as_", [pd.DataFrame, pl.DataFrame, pa.Table, "duckdb", "polars"])
def test_every_library_reads_a_table(repo, flights, as_):
    table = repo.ref("main").table("db.flights")
    assert (table.rows, table.columns) == (3, {"hour": "large_string", "delay": "int64"})
    assert numbers(table.read(as_)) == [1, 2, 3]
    found = table.read(as_, columns=["delay"], where=[("hour", "==", "05"), ("delay", ">", 1)])
    assert numbers(found) == [2]
    assert flights.read("pandas", columns=["delay", "hour"]).columns.to_list() == ["delay", "hour"]


def test_lazy_frames_have_the_rows(flights):
    late = flights.scan("polars", where=[("delay", ">=", 2)])
    assert isinstance(late, pl.LazyFrame)
    assert numbers(late.collect()) == [2, 3]
    assert numbers(flights.scan("duckdb")) == [1, 2, 3]


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({"columns": ["delya"]}, "has no 'delya': choose of hour, delay"),
        ({"where": [("delay", ">", "x")]}, "column 'delay' is int64"),
        ({"as_": "spark"}, "which Spark reads through its catalog"),
    ],
)
def test_what_cannot_be_read_is_refused(flights, terms, words):
    with pytest.raises(InvalidInputError, match=words):
        flights.read(**{"as_": "pandas", **terms})


def test_only_files_that_may_have_rows_are_planned(repo, flights, monkeypatch):
    flights.append(FRAME.assign(delay=[50, 60, 70]))
    one = flights.in_catalog.read("pyarrow", where=[("delay", ">", 40)])
    assert numbers(one) == [50, 60, 70]
    opened = []
    kept = type(repo.ref("main")).read_range

    def read_range(view, entry, start, length):
        opened.append(entry.path)
        return kept(view, entry, start, length)

    monkeypatch.setattr("graveler.reads.view.Ref.read_range", read_range)
    flights.read("pandas", where=[("delay", ">", 40)])
    assert len({path for path in opened if path.endswith(".parquet")}) == 1


def test_rows_are_appended_overwritten_and_deleted(repo, flights):
    main = catalog_of(repo.branch("main"))
    flights.append(pl.DataFrame({"hour": ["07"], "delay": [4]}))
    flights.overwrite(pa.table({"hour": ["05"], "delay": [9]}), where={"hour": "05"})
    assert delays(main) == [3, 4, 9]
    flights.delete([("delay", "in", [3, 4])])
    assert delays(main) == [9]
    flights.overwrite(duckdb.from_arrow(pa.table({"hour": ["08"], "delay": [1]})))
    assert delays(main) == [1]
    assert repo.fsck().sound


def test_a_table_is_made_with_the_types_of_the_frame(repo):
    table = repo.branch("main").table("a.b.times")
    east = timezone(timedelta(hours=2))
    frame = pd.DataFrame(
        {
            "at": pd.to_datetime(["2013-01-01T05:00", "2013-01-01T06:00"]).tz_localize(east),
            "kind": pd.Categorical(["x", None]),
            "n": [1.5, NAN],
        }
    )
    table.append(frame[frame["n"].notna()])  # its index has no name
    assert table.columns == {"at": "timestamp[us, tz=UTC]", "kind": "large_string", "n": "double"}
    row = {"at": datetime(2013, 1, 1, 3, tzinfo=UTC), "kind": "x", "n": 1.5}
    assert table.read("pyarrow").to_pylist() == [row]


def test_a_name_is_a_table_only_if_it_cannot_be_a_folder(repo):
    branch = repo.branch("main")
    branch.write(FRAME, "db.flights")
    assert branch.table("db.flights").rows == 3
    branch.commit("a folder with a dot")
    with_table(catalog_of(branch), 7)
    assert branch.table("db.flights").rows == 1
    assert branch.table("db.flights/").rows == 3
    branch.write(FRAME, "flights.csv")
    for path in ("flights.csv", "flights", "db/flights"):
        with pytest.raises(InvalidInputError, match="and `write` writes it"):
            branch.table(path).append(FRAME)
    with pytest.raises(InvalidInputError, match="append, overwrite or delete"):
        branch.table("db.flights").write(FRAME)
    with pytest.raises(ReadOnlyError, match="can only be read"):
        repo.ref("main").table("db.flights").append(FRAME)
    with pytest.raises(ObjectNotFoundError, match="nothing to read at"):
        repo.ref("main").table("db.other").read("pandas")
    with pytest.raises(ObjectNotFoundError, match=r"no table 'db\.other' in the catalog of main"):
        branch.table("db.other").delete({"delay": 1})


def test_what_pyiceberg_cannot_do_is_refused_in_its_words(repo, flights, tmp_path):
    with pytest.raises(InvalidInputError, match="more columns: late"):
        flights.append(FRAME.assign(late=1))
    with pytest.raises(InvalidInputError, match="list: give a frame"):
        flights.append([1])
    repo.links.allow(f"file://{tmp_path}/others")
    line = new_line(f"file://{tmp_path}/others")
    line.append()
    line.delete_equal()
    (tmp_path / "others/v1.metadata.json").write_text(line.metadata.model_dump_json())
    location = f"file://{tmp_path}/others/v1.metadata.json"
    catalog_of(repo.branch("main")).register_table("db.equal", location)
    for as_ in ("pandas", "duckdb"):
        with pytest.raises(InvalidInputError, match="does not yet support equality deletes"):
            repo.ref("main").table("db.equal").read(as_)


VALUES = st.tuples(
    st.one_of(st.none(), st.integers(-3, 3)),
    st.one_of(st.none(), st.sampled_from([-1.5, 0.0, 2.0, NAN])),
    st.one_of(st.none(), st.sampled_from(["", "a", "b" * 17, "b" * 16 + "c"])),
)
WANTED = st.lists(
    st.one_of(
        st.tuples(st.just("n"), st.sampled_from(["==", "!=", "<", ">="]), st.integers(-3, 3)),
        st.tuples(
            st.just("x"), st.sampled_from(["==", "!=", "<", ">="]), st.sampled_from([0.0, NAN])
        ),
        st.tuples(st.just("s"), st.sampled_from(["<", ">"]), st.sampled_from(["a", "b" * 17])),
        st.tuples(st.sampled_from("nxs"), st.sampled_from(["==", "!="]), st.none()),
        st.tuples(st.just("n"), st.sampled_from(["in", "not in"]), st.just([1, 2, None])),
    ),
    max_size=2,
)
KINDS = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("s", pa.large_string())])


@settings(max_examples=12)
@given(st.lists(st.lists(VALUES, min_size=1, max_size=4), min_size=1, max_size=3), WANTED)
def test_conditions_mean_what_they_mean_for_folders(shared_repo, parts, wanted):
    branch = shared_repo.branch("main")
    table, folder = branch.table("db.t"), branch.table("t/")
    for at, rows in enumerate(parts):
        frame = pa.table([[*column] for column in zip(*rows, strict=True)], schema=KINDS)
        (table.append if at else table.overwrite)(frame)
        folder.write(frame, mode="append" if at else "overwrite")
    found, expected = (
        sorted(map(str, each.read("pyarrow", where=wanted).to_pylist())) for each in (table, folder)
    )
    assert found == expected


@pytest.fixture(scope="module")
def shared_repo(tmp_path_factory):
    import graveler

    with graveler.init(tmp_path_factory.mktemp("shared") / "lake") as lake:
        yield lake.create_repository("flights")


def test_a_step_that_runs_again_does_not_append_twice(repo, flights):
    with repo.run("hour 7") as run:
        for try_number in (1, 2):
            with run.step("load", try_number=try_number) as step:
                step.table("db.flights").append(FRAME.tail(1))
                step.table("db.new").append(FRAME)
            assert (run.table("db.flights").rows, run.table("db.new").rows) == (4, 3)
        with pytest.raises(ZeroDivisionError), run.step("fails") as step:
            step.table("db.flights").append(FRAME)
            raise ZeroDivisionError
    assert (flights.rows, repo.ref("main").table("db.new").rows) == (4, 3)


def test_a_run_that_runs_again_replaces_what_it_published(repo, flights):
    for rows in (FRAME, FRAME.tail(1)):
        with repo.run("hour 7") as run, run.step("load") as step:
            step.table("db.flights").append(rows)
    assert flights.rows == 4


def test_a_run_notes_the_folder_of_a_table_that_it_reads(repo, flights):
    with repo.run("hour") as run:
        run.table("db.flights").read("pandas")
        run.put("report", b"1")
    assert {each.prefix for each in repo.runs.get("hour").inputs} == {"db/flights/"}


def test_snapshots_name_the_run(repo, flights):
    with repo.run("hour 7") as run, run.step("load") as step:
        step.table("db.flights").append(FRAME)
    summary = catalog_of(repo.branch("main")).load_table("db.flights").current_snapshot().summary
    assert summary["graveler.run"] == "hour 7"


def test_steps_append_to_one_table_and_one_runs_again(repo, flights):
    with repo.run("hour 7") as run:
        with run.step("a") as first, run.step("b") as second:
            first.table("db.flights").append(FRAME)
            second.table("db.flights").append(FRAME)
        assert run.table("db.flights").rows == 9
        with run.step("a", try_number=2) as again:
            again.table("db.flights").append(FRAME.tail(1))
    assert flights.rows == 7
