"""The schema of a table is that of all its entries, by any writers and in any number of writes."""

import io
from contextlib import contextmanager

import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import IntegerType, LongType

import graveler.frames.spark.writer
import graveler.spark as gs
from graveler.errors import InvalidInputError, SchemaChangedError

ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def write(branch, spark):
    def write(sql, **options):
        return gs.write(branch, spark.sql(sql).coalesce(1), "t/", **options)

    return write


@pytest.fixture
def read(branch, spark):
    def read(**options):
        return gs.read(branch, "t/", spark=spark, **options)

    return read


@contextmanager
def zone(spark, name):
    before = spark.conf.get(ZONE)
    spark.conf.set(ZONE, name)
    try:
        yield
    finally:
        spark.conf.set(ZONE, before)


def rows(frame):
    return sorted((tuple(row) for row in frame.collect()), key=str)


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_structs_are_merged_by_field(write, read, kind):
    write("select 1 id, named_struct('x', 1) s, 'a' extra", format=kind)
    write("select 2 id, array(named_struct('x', 1)) l", format=kind)
    write("select 3 id, named_struct('y', 'n', 'x', 2L) s", format=kind)
    write("select 4 id, array(named_struct('x', 2, 'z', 3)) l", format=kind)
    frame = read(format=kind)
    assert {*frame.columns} == {"id", "s", "l", "extra"}
    assert rows(frame.select("id", "s.x", "s.y", "extra", "l.x", "l.z")) == [
        (1, 1, None, "a", None, None),
        (2, None, None, None, [1], [None]),
        (3, 2, "n", None, None, None),
        (4, None, None, None, [2], [3]),
    ]


@pytest.mark.parametrize(
    ("kinds", "whole"),
    [
        (("int", "bigint"), "bigint"),
        (("bigint", "tinyint", "int"), "bigint"),
        (("int", "double", "float"), "double"),
        (("decimal(5,2)", "int", "decimal(9,4)"), "decimal(14,4)"),
        (("bigint", "decimal(3,1)"), "decimal(21,1)"),
    ],
)
def test_numbers_are_widened(branch, repo, write, read, spark, kinds, whole):
    for number, kind in enumerate(kinds):
        write(f"select cast({number} as {kind}) n, map('k', cast({number} as {kind})) m")
    frame = read()
    assert frame.dtypes == [("n", whole), ("m", f"map<string,{whole}>")]
    found = [(row.n, row.m["k"]) for row in frame.orderBy("n").collect()]
    assert found == [(number, number) for number in range(len(kinds))]
    branch.commit("rows")
    assert gs.Tables(repo, spark).compact("dev", "t/").files_after == 1
    assert rows(read()) == rows(frame)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_other_types_are_refused_by_name(branch, write, mode):
    kinds = {
        "'a' is double and bigint": ("1L", "0.5D"),
        "'b' is string and int": ("1", "'x'"),
        r"'c\.x' is string and int": ("named_struct('x', 1)", "named_struct('x', 'a')"),
        "'d' is int and array<int>": ("array(1)", "1"),
        "'e' is struct<x:int,X:int>": ("named_struct('x', 1)", "named_struct('X', 1)"),
    }
    before, now = (
        ", ".join(
            f"{pair[side]} {name}" for name, pair in zip("abcde", kinds.values(), strict=True)
        )
        for side in (0, 1)
    )
    write(f"select {before}, 'a' dt", partition_by=["dt"])
    paths = [entry.path for entry in branch.entries()]
    with pytest.raises(SchemaChangedError, match="; ".join(kinds)):
        write(f"select {now}, 'b' dt", partition_by=["dt"], mode=mode)
    assert [entry.path for entry in branch.entries()] == paths
    write(f"select {now}, 'a' dt", partition_by=["dt"], mode="overwrite")


def test_partition_columns_keep_their_type(write, read):
    write("select 1 id, '01' dt", partition_by=["dt"])
    with pytest.raises(SchemaChangedError, match="'dt' is int and string"):
        write("select 1 id, 1 dt", partition_by=["dt"])
    assert rows(read()) == [(1, "01")]


@pytest.mark.parametrize(
    ("values", "whole"),
    [
        (("cast(1.50 as decimal(5,2))", "cast(2.5 as decimal(5,1))"), "decimal(6,2)"),
        (("cast(2.55 as decimal(5,2))", "cast(null as decimal(5,2))", "7L"), "decimal(22,2)"),
    ],
)
@pytest.mark.parametrize(
    ("most", "name", "kind"), [(0, "p", "parquet"), (16, "p`q %", "parquet"), (16, "p", "orc")]
)
def test_partitions_of_decimals_are_read_right(
    branch, write, read, spark, monkeypatch, values, whole, most, name, kind
):
    monkeypatch.setattr("graveler.frames.spark.scans._MOST_GROUPS", most)
    quoted = "`{}`".format(name.replace("`", "``"))
    for value in values:
        write(f"select 'a' c, {value} {quoted}", format=kind, partition_by=[name])
    wanted = {spark.sql(f"select {value}").first()[0] for value in values}
    frame = read(format=kind)
    assert frame.dtypes == [("c", "string"), (name, whole)]
    assert {row[name] for row in frame.collect()} == wanted
    for value in wanted - {None}:
        for found in (read(format=kind, where={name: value}), frame.where(f"{quoted} = {value}")):
            assert [row[name] for row in found.collect()] == [value]
    given = read(format=kind, schema=f"{quoted} decimal(30,4), c string")
    assert {row[name] for row in given.collect()} == wanted
    again = f"select 'b' c, cast({values[0]} as decimal(9,4)) {quoted}"
    write(again, format=kind, partition_by=[name], mode="overwrite")
    assert len([*branch.entries()]) == len(values)
    assert {row[name] for row in read(format=kind).collect()} == wanted


def test_entries_of_two_types_are_read_each_by_its_own(branch, repo, write, read):
    write("select 1L n, 'a' more")
    branch.commit("numbers")
    other = repo.create_branch("other", source="main")
    other.copy(branch, "t/", "u/")
    write("select 0.5D n", mode="overwrite")
    branch.copy(other, "u/", "t/")
    assert rows(read()) == [(0.5, None), (1.0, "a")]


def test_a_file_of_another_program_takes_no_columns_away(branch, write, read):
    (entry,) = write("select 1 id, named_struct('x', 1) s")
    write("select 2 id, named_struct('x', 1, 'y', 2) s, 'a' extra")
    branch.put("t/copy.parquet", branch.get(entry.path))
    assert rows(read().select("id", "s.y", "extra")) == [
        (1, None, None),
        (1, None, None),
        (2, 2, "a"),
    ]


@pytest.mark.parametrize(
    ("value", "other", "kind"),
    [
        ("9", 10, "int"),
        ("9", None, "int"),
        ("date'2026-01-01'", "2026-01-02", "date"),
        ("cast(1.50 as decimal(5,2))", 2.5, "decimal(5,2)"),
        ("timestamp'2026-01-01 05:00:00Z'", "2026-01-01 06%3A00%3A00Z", "timestamp"),
        ("1.5D", "1e10", "double"),
        ("true", "false", "boolean"),
        ("'09'", 10, "string"),
        ("cast('x' as binary)", "y", "binary"),
    ],
)
def test_other_programs_add_partitions_of_the_same_type(branch, write, read, value, other, kind):
    (entry,) = write(f"select 1 id, {value} p", partition_by=["p"])
    text = "__HIVE_DEFAULT_PARTITION__" if other is None else other
    branch.put(f"t/p={text}/other.parquet", branch.get(entry.path))
    branch.commit("rows")
    frame = read()
    assert frame.dtypes == [("id", "int"), ("p", kind)]
    assert len({row.p for row in frame.collect()}) == 2
    if kind == "int" and other:
        assert [row.p for row in frame.where("p > 9").collect()] == [10]
    write(f"select 2 id, {value} p", partition_by=["p"])
    branch.commit("more")
    assert len(rows(read())) == 3


def test_a_read_leaves_the_session_as_it_is(branch, write, read, spark, monkeypatch):
    for name in ("01", "x"):
        branch.put(f"t/day={name}/a.csv", b"1\n")
    write("select 1 id, 5 day", format="csv", partition_by=["day"])
    sets = []
    monkeypatch.setattr(type(spark.conf), "set", lambda _self, name, value: sets.append(name))
    assert rows(read(format="csv")) == [("1", "01"), ("1", "5"), ("1", "x")]
    assert sets == []
    monkeypatch.undo()
    monkeypatch.setattr(
        "graveler.frames.spark.loading._LISTED_BY_TASKS", "spark.sql.shuffle.partitions"
    )
    before = dict(spark.conf.getAll)
    copied = read(format="csv")
    assert dict(spark.conf.getAll) == before
    assert copied.sparkSession is spark
    assert copied.union(copied).count() == 6


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_format_without_files_replaces_no_table(branch, write, mode):
    write("select 1 id")
    before = list(branch.entries())
    with pytest.raises(InvalidInputError, match="'noop' has written no files"):
        write("select 2 id", format="noop", mode=mode)
    assert list(branch.entries()) == before


def test_a_table_is_compared_again_after_the_job(branch, write, spark, monkeypatch):
    def save(*args, **options):
        monkeypatch.undo()
        write("select 'x' id")
        return graveler.frames.spark.writer.save(*args, **options)

    monkeypatch.setattr("graveler.frames.spark.writer.save", save)
    with pytest.raises(SchemaChangedError, match="'id' is int and string"):
        write("select 1 id")
    assert len(list(branch.entries())) == 1


@pytest.fixture
def both(repo, spark):
    """Run two transactions that see the same table, and return the error of the second."""

    def both(first, second):
        lake = gs.Tables(repo, spark)
        with lake.transaction("main", message="late") as late:
            late.write(spark.sql(second.pop("sql")), "t/", **second)
            with lake.transaction("main", message="early") as early:
                early.write(spark.sql(first.pop("sql")), "t/", **first)

    return both


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (
            {"sql": "select 1 id, 2 a, 3 b", "partition_by": ["a"]},
            {"sql": "select 1 id, 2 a, 3 b", "partition_by": ["b"]},
            r"the partition columns are \['b'\] in 't/b=3/.*, and \['a'\] in 't/a=2/",
        ),
        (
            {"sql": "select 1 id, 2 a", "partition_by": ["a"], "format": "json"},
            {"sql": "select 1 id", "format": "json"},
            r"the partition columns are \[\] in 't/part-.*json', which is new, and \['a'\] in 't/a=2/",
        ),
        (
            {"sql": "select 1 id", "format": "csv"},
            {"sql": "select 1 id, 2 a", "partition_by": ["a"], "format": "csv"},
            r"the partition columns are \['a'\] in 't/a=2/.*, and \[\] in 't/part-",
        ),
        (
            {"sql": "select 'x' id", "mode": "overwrite"},
            {"sql": "select 1 id", "schema": "same"},
            "'id' is int in .*, and string in",
        ),
        (
            {"sql": "select 'x' id, 1 dt", "partition_by": ["dt"], "mode": "overwrite"},
            {"sql": "select 1 id, 2 dt", "partition_by": ["dt"], "mode": "overwrite"},
            "'id' is int in .*, and string in",
        ),
    ],
)
def test_tables_are_compared_again_where_they_land(repo, both, first, second, named):
    with pytest.raises(SchemaChangedError, match=named):
        both(first, second)
    assert [commit.message for commit in repo.log("main", limit=1)] == ["early"]


def test_writes_that_go_together_land_side_by_side(repo, both, spark):
    both({"sql": "select 1L id"}, {"sql": "select 2 id, 'a' more"})
    assert rows(gs.read(repo.ref("main"), "t/", spark=spark)) == [(1, None), (2, "a")]


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_every_zone_reads_the_hours_of_a_clock_change(write, read, spark, kind):
    moments = [1793509200, 1793512800]  # 01:00 twice
    with zone(spark, "America/New_York"):
        for second in moments:
            write(
                f"select {second} id, timestamp_seconds({second}) hour",
                partition_by=["hour"],
                mode="overwrite",
                format=kind,
            )
    for name in ("UTC", "America/New_York", "Asia/Tokyo"):
        with zone(spark, name):
            frame = read(
                format=kind, schema=None if kind == "parquet" else "id int, hour timestamp"
            )
            assert frame.dtypes == [("id", "int"), ("hour", "timestamp")]
            seconds = rows(frame.selectExpr("id", "unix_seconds(hour)"))
            assert seconds == [(moment, moment) for moment in moments]


def test_a_moment_is_replaced_from_any_zone(branch, write, read, spark):
    write("select 1 id, timestamp_seconds(1793509200.5) hour", partition_by=["hour"])
    with zone(spark, "America/New_York"):
        write(
            "select 2 id, timestamp_seconds(1793509200.5) hour union all select 3, null",
            partition_by=["hour"],
            mode="overwrite",
        )
    assert rows(read().selectExpr("id", "unix_micros(hour)")) == [(2, 1793509200500000), (3, None)]
    assert "t/hour=2026-11-01 05%3A00%3A00.5Z" in {
        entry.path.rpartition("/")[0] for entry in branch.entries()
    }


@pytest.mark.parametrize("kind", ["csv", "json", "orc"])
def test_partitions_of_every_format_are_of_the_written_type(write, read, kind):
    write("select 'a' c, 9L n", format=kind, partition_by=["n"])
    write("select 'b' c, 10000000000 n", format=kind, partition_by=["n"])
    assert isinstance(read(format=kind).schema["n"].dataType, LongType)


def test_guessed_partitions_are_widened(branch, repo, write, read, monkeypatch):
    monkeypatch.setattr("graveler.frames.spark.schemas.PARTITIONS", "older.versions.keep.none")
    for number in ("9L", "10000000000"):
        write(f"select 'a' c, {number} n", format="csv", partition_by=["n"])
    monkeypatch.undo()
    assert read(format="csv").dtypes == [("_c0", "string"), ("n", "bigint")]


@pytest.mark.parametrize("kind", ["csv", "json", "orc", "ddl"])
def test_many_writes_of_every_format_are_one_scan(write, read, monkeypatch, capsys, kind):
    monkeypatch.setattr("graveler.frames.spark.scans._MOST_GROUPS", 1)
    options = {"schema": "c string, n int"} if kind == "ddl" else {"format": kind}
    for number in (1, 2, 3):
        form = "parquet" if kind == "ddl" else kind
        write(f"select 'x' c, {number} n", format=form, partition_by=["n"])
    frame = read(**options)
    frame.explain()
    plan = capsys.readouterr().out
    assert plan.count("FileScan") == 1
    assert rows(frame) == [("x", 1), ("x", 2), ("x", 3)]
    assert isinstance(frame.schema["n"].dataType, IntegerType)


def _typed(view, kind, spark):
    gs.write(view, spark.sql(f"select cast(1 as {kind}) x").coalesce(1), "t/")


def _partitioned(view, column, spark):
    frame = spark.sql(f"select 1 x, 1 {column}").coalesce(1)
    gs.write(view, frame, "t/", partition_by=[column])


def _by_pandas(view, values, _spark):
    pandas.DataFrame({"x": values}).to_parquet(file := io.BytesIO())
    view.put("t/pandas.parquet", file.getvalue())


def _by_arrow(view, column, _spark):
    pq.write_table(pa.table({"x": [1]}), file := io.BytesIO())
    view.put(f"t/{column}=1/arrow.parquet", file.getvalue())


WRITES = {
    "types": ((_typed, "int"), (_typed, "string"), "'x' is string in .*, and int in"),
    "partitions": (
        (_partitioned, "day"),
        (_partitioned, "region"),
        r"the partition columns are \['region'\] in .*, and \['day'\] in",
    ),
    "pandas": ((_typed, "int"), (_by_pandas, ["a"]), "'x' is string in .*, and int in"),
    "beside pandas": ((_by_pandas, ["a"]), (_typed, "int"), "'x' is int in .*, and string in"),
    "pyarrow": (
        (_partitioned, "day"),
        (_by_arrow, "region"),
        r"the partition columns are \['region'\] in .*, and \['day'\] in",
    ),
}


@pytest.fixture(params=["commit", "join", "publish", "merge"])
def land_both(request, repo, monkeypatch):
    """Land two writes that do not see each other."""

    def land_both(first, second):
        if request.param == "commit":
            branch = repo.create_branch("both")
            first(branch)
            branch.commit("first")
            monkeypatch.setattr("graveler.frames.spark.writer.check_together", lambda *_: None)
            second(branch)
            branch.commit("second")
            return
        if request.param == "merge":
            views = [repo.create_branch(name) for name in ("one", "two")]
        else:
            runs = [repo.runs.open(key) for key in ("one", "two")]
            views = runs if request.param == "publish" else [runs[0].step(n) for n in "ab"]
        for view, write in zip(views, (first, second), strict=True):
            write(view)
            view.commit("rows")
        for view in views:
            if request.param == "join":
                view.join()
            elif request.param == "publish":
                view.publish()
            else:
                repo.merge(view, into="main")

    return land_both


@pytest.mark.parametrize("writes", WRITES)
def test_two_writes_that_make_no_table_do_not_both_land(land_both, spark, writes):
    first, second, named = WRITES[writes]
    with pytest.raises(SchemaChangedError, match=named):
        land_both(
            *(
                lambda view, write=write: write[0](view, write[1], spark)
                for write in (first, second)
            )
        )
