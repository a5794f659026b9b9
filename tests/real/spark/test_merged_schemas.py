"""The schema of a table is that of all its entries, by any writers and in any number of writes."""

from contextlib import contextmanager

import pytest
from pyspark.sql.types import IntegerType

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


def test_structs_are_merged_by_field(branch, write, read):
    (entry,) = write("select 1 id, named_struct('x', 1) s, 'a' extra")
    write("select 2 id, array(named_struct('x', 1)) l")
    write("select 3 id, named_struct('y', 'n', 'x', 2L) s")
    write("select 4 id, array(named_struct('x', 2, 'z', 3)) l")
    branch.put("t/copy.parquet", branch.get(entry.path))  # of another program
    frame = read()
    assert {*frame.columns} == {"id", "s", "l", "extra"}
    assert rows(frame.select("id", "s.x", "s.y", "extra", "l.x", "l.z")) == [
        (1, 1, None, "a", None, None),
        (1, 1, None, "a", None, None),
        (2, None, None, None, [1], [None]),
        (3, 2, "n", None, None, None),
        (4, None, None, None, [2], [3]),
    ]


@pytest.mark.parametrize(
    ("kinds", "whole"),
    [
        (("bigint", "tinyint", "int"), "bigint"),
        (("int", "double", "float"), "double"),
        (("decimal(5,2)", "int", "decimal(9,4)"), "decimal(14,4)"),
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


def test_other_types_are_refused_by_name(branch, write):
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
        write(f"select {now}, 'b' dt", partition_by=["dt"])
    assert [entry.path for entry in branch.entries()] == paths
    write(f"select {now}, 'a' dt", partition_by=["dt"], mode="overwrite")
    with pytest.raises(SchemaChangedError, match="'dt' is int and string"):
        write(f"select {now}, 1 dt", partition_by=["dt"])


TWO = ("cast(1.50 as decimal(5,2))", "cast(2.5 as decimal(5,1))"), "decimal(6,2)"
THREE = ("cast(2.55 as decimal(5,2))", "cast(null as decimal(5,2))", "7L"), "decimal(22,2)"


@pytest.mark.parametrize(
    ("decimals", "most", "name", "kind"),
    [(THREE, 0, "p", "parquet"), (TWO, 16, "p`q %", "parquet"), (THREE, 16, "p", "orc")],
    ids=["one scan", "an odd name", "orc"],
)
def test_partitions_of_decimals_are_read_right(
    branch, write, read, spark, monkeypatch, decimals, most, name, kind
):
    values, whole = decimals
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


@pytest.mark.parametrize(
    ("value", "other", "kind"),
    [
        ("9", 10, "int"),
        ("date'2026-01-01'", "2026-01-02", "date"),
        ("cast(1.50 as decimal(5,2))", 2.5, "decimal(5,2)"),
        ("timestamp'2026-01-01 05:00:00Z'", "2026-01-01 06%3A00%3A00Z", "timestamp"),
        ("'09'", 10, "string"),
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


def test_a_format_without_files_replaces_no_table(branch, write):
    write("select 1 id")
    before = list(branch.entries())
    with pytest.raises(InvalidInputError, match="'noop' has written no files"):
        write("select 2 id", format="noop", mode="overwrite")
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


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (
            ("select 1 id, 2 a, 3 b", {"partition_by": ["a"]}),
            ("select 1 id, 2 a, 3 b", {"partition_by": ["b"]}),
            r"the partition columns are \['b'\] in 't/b=3/.*, and \['a'\] in 't/a=2/",
        ),
        (
            ("select 'x' id, 1 dt", {"partition_by": ["dt"], "mode": "overwrite"}),
            ("select 1 id, 2 dt", {"partition_by": ["dt"], "mode": "overwrite"}),
            "'id' is int in .*, and string in",
        ),
    ],
    ids=["partitions", "types"],
)
def test_tables_are_compared_again_where_they_land(repo, spark, first, second, named):
    lake = gs.Tables(repo, spark)

    def both():
        with lake.transaction("main", message="late") as late:
            late.write(spark.sql(second[0]), "t/", **second[1])
            with lake.transaction("main", message="early") as early:
                early.write(spark.sql(first[0]), "t/", **first[1])

    with pytest.raises(SchemaChangedError, match=named):
        both()
    assert [commit.message for commit in repo.log("main", limit=1)] == ["early"]


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


def test_guessed_partitions_are_widened(branch, repo, write, read, monkeypatch):
    monkeypatch.setattr("graveler.frames.spark.schemas.PARTITIONS", "older.versions.keep.none")
    for number in ("9L", "10000000000"):
        write(f"select 'a' c, {number} n", format="csv", partition_by=["n"])
    monkeypatch.undo()
    assert read(format="csv").dtypes == [("_c0", "string"), ("n", "bigint")]


@pytest.mark.parametrize("kind", ["csv", "ddl"])
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
