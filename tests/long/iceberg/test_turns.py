"""One table on one branch: Spark, DuckDB and PyIceberg write in turn, and read each other's rows."""

import pyarrow as pa
import pytest

ALL = "select hour, carrier, delay from {}.db.flights"
DELETES_BESIDE_DATA = (
    "'format-version'='2', 'write.delete.mode'='merge-on-read', "
    "'write.update.mode'='merge-on-read', 'write.merge.mode'='merge-on-read'"
)


def rows(*given):
    schema = pa.schema([("hour", pa.int32()), ("carrier", pa.string()), ("delay", pa.int64())])
    return pa.Table.from_pylist(
        [dict(zip(schema.names, each, strict=True)) for each in given], schema=schema
    )


def of_pyiceberg(client):
    table = client.load_table("db.flights").scan().to_arrow()
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture
def engines(spark, duckdb, pyiceberg):
    """Let all three use a catalog, and return what checks that they read the same rows."""

    def use(name, catalog):
        spark.use(name, catalog)
        duckdb.use(name, catalog)
        client = pyiceberg(catalog)

        def same(*expected):
            wanted = sorted(expected)
            assert spark.sql(ALL.format(name)) == wanted
            assert duckdb.sql(ALL.format(name)) == wanted
            assert of_pyiceberg(client) == wanted

        return client, same

    return use


@pytest.fixture
def table(spark, repo, catalog):
    """A table that Spark has made on main, with the deletes of Spark beside its data."""
    spark.use("main", catalog(repo.branch("main")))
    spark.sql("create namespace main.db")
    spark.sql(
        "create table main.db.flights (hour int, carrier string, delay bigint) using iceberg "
        f"partitioned by (hour) tblproperties ({DELETES_BESIDE_DATA})"
    )
    spark.sql("insert into main.db.flights values (5, 'UA', 1), (5, 'DL', 2), (5, 'AA', 3)")


def test_three_engines_write_one_table_in_turn(spark, duckdb, repo, table, catalog, engines):
    branch = repo.create_branch("dev")
    client, same = engines("dev", catalog(branch))
    same((5, "UA", 1), (5, "DL", 2), (5, "AA", 3))
    spark.sql("delete from dev.db.flights where carrier = 'UA'")
    (deletes,) = spark.sql("select content, record_count from dev.db.flights.delete_files")
    assert deletes == (1, 1)
    same((5, "DL", 2), (5, "AA", 3))
    client.load_table("db.flights").append(rows((6, "UA", 4), (6, "DL", 5)))
    same((5, "DL", 2), (5, "AA", 3), (6, "UA", 4), (6, "DL", 5))
    duckdb.sql("insert into dev.db.flights values (7, 'UA', 6), (7, 'AA', 7)")
    duckdb.sql("delete from dev.db.flights where carrier = 'DL' and hour = 6")
    same((5, "DL", 2), (5, "AA", 3), (6, "UA", 4), (7, "UA", 6), (7, "AA", 7))
    spark.sql(
        "merge into dev.db.flights t using (select 7 hour, 'AA' carrier, 70L delay union all "
        "select 8, 'AA', 80L) s on t.hour = s.hour and t.carrier = s.carrier "
        "when matched then update set delay = s.delay when not matched then insert *"
    )
    same((5, "DL", 2), (5, "AA", 3), (6, "UA", 4), (7, "UA", 6), (7, "AA", 70), (8, "AA", 80))
    with pytest.warns(UserWarning, match="falling back to copy-on-write"):
        client.load_table("db.flights").delete("carrier = 'UA'")
    same((5, "DL", 2), (5, "AA", 3), (7, "AA", 70), (8, "AA", 80))
    duckdb.sql("update dev.db.flights set delay = delay + 1 where hour = 5")
    same((5, "DL", 3), (5, "AA", 4), (7, "AA", 70), (8, "AA", 80))
    spark.use("before", catalog(repo.ref("main")))
    assert spark.sql(ALL.format("before")) == [(5, "AA", 3), (5, "DL", 2), (5, "UA", 1)]
    assert repo.fsck().sound


def test_engines_work_in_a_run_that_is_published(spark, duckdb, repo, table, catalog, engines):
    with repo.run("hour 6") as run:
        client, same = engines("run", catalog(run))
        spark.sql(
            "merge into run.db.flights t using (select 5 hour, 'UA' carrier, 10L delay union all "
            "select 6, 'UA', 4L) s on t.hour = s.hour and t.carrier = s.carrier "
            "when matched then update set delay = s.delay when not matched then insert *"
        )
        with run.step("more") as step:
            duckdb.use("step", catalog(step))
            duckdb.sql("insert into step.db.flights values (6, 'DL', 5)")
        client.load_table("db.flights").append(rows((6, "AA", 6)))
        done = [(5, "UA", 10), (5, "DL", 2), (5, "AA", 3), (6, "UA", 4), (6, "DL", 5), (6, "AA", 6)]
        same(*done)
        assert of_main(spark) == [(5, "AA", 3), (5, "DL", 2), (5, "UA", 1)]
    assert of_main(spark) == sorted(done)
    commit = repo.commit("main")
    assert commit.metadata["graveler.run"] == "hour 6"
    assert {each.prefix for each in repo.runs.get("hour 6").inputs} == {"db/flights/"}


def of_main(spark):
    return spark.sql(ALL.format("main"))
