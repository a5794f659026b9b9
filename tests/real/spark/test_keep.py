"""Tables on Keep, which tasks read and write, beside equal tables on disk, which Spark does."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pyspark.errors import PythonException
from pyspark.sql.functions import col, udf

import graveler.spark as gs
from graveler.errors import CorruptionError, ExpiredError, InvalidInputError
from tests.harness.keep_system import System

COLUMNS = "id long, name string, day date, price decimal(9,2), seen timestamp, tags array<int>"
ROWS = [
    (1, "a/b c", date(2026, 1, 3), Decimal("2.50"), datetime(2026, 1, 3, 5, tzinfo=UTC), [1, 2]),
    (2, "ü:%", date(2026, 1, 4), Decimal("-1.00"), datetime(1969, 1, 1, tzinfo=UTC), []),
    (3, "", None, Decimal("2.50"), None, [3]),
    (4, None, None, None, None, None),
]
CSV = b"id,name\n1,a\n2,NA\n"


@pytest.fixture
def repo(opened, tmp_path):
    system = System(opened, tmp_path)
    yield opened.create_repository("tables", storage="keep://main/tables")
    for name in [*system.servers]:
        system.lose(name)


@pytest.fixture
def both(opened, repo):
    return [each.create_branch("dev") for each in (repo, opened.create_repository("disk"))]


@pytest.fixture
def frame(spark):
    return spark.createDataFrame(ROWS, COLUMNS)


def rows(frame):
    names = sorted(frame.columns)
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema}
    return kinds, sorted(map(repr, frame.select(*names).collect()))


def data(repo):
    return [info.key for info in repo.stores.objects.list("data/")]


@pytest.mark.parametrize(
    "columns",
    [(), ("name",), ("day",), ("price",), ("seen",), ("id",), ("name", "day")],
    ids="-".join,
)
def test_a_table_on_keep_is_the_table_on_disk(both, frame, columns):
    tables = []
    for branch in both:
        for mode in ("append", "append", "overwrite"):
            gs.write(branch, frame, "t/", partition_by=columns, mode=mode)
        gs.write(branch, frame.limit(2), "t/", partition_by=columns, mode="append")
        branch.commit("a table")
        tables.append(rows(gs.read(branch, "t/", spark=frame.sparkSession)))
    assert tables[0] == tables[1]
    assert len(tables[0][1]) == 6


def test_new_missing_and_wider_columns_are_read_as_on_disk(both, frame):
    tables = []
    for branch in both:
        gs.write(branch, frame.select(col("id").cast("int"), "name"), "t/")
        gs.write(branch, frame.select("id", "tags"), "t/")
        branch.commit("two files")
        tables.append(rows(gs.read(branch, "t/", spark=frame.sparkSession, verify=True)))
    assert tables[0] == tables[1]


def test_text_is_read_as_on_disk(both, spark):
    tables = []
    for branch in both:
        branch.put("csv/a.csv", CSV)
        branch.put("csv/b.csv", CSV.replace(b"\n", b"\r\n"))
        branch.put("json/day=3/a.json", b'{"a": 1}\n{"a": 2}\n')
        branch.put("json/day=4/b.json", b'{"b": "x"}')
        head = {"header": "true", "nullValue": "NA"}
        tables += [
            rows(gs.read(branch, "csv/", format="csv", options=head, spark=spark)),
            rows(gs.read(branch, "csv/", format="csv", schema="a string, b string", spark=spark)),
            rows(gs.read(branch, "json/", format="json", spark=spark)),
            rows(gs.read(branch, "csv/a.csv", format="text", spark=spark)),
        ]
    half = len(tables) // 2
    assert tables[:half] == tables[half:]


def test_a_table_without_rows_has_its_columns(both, frame):
    for branch in both:
        gs.write(branch, frame.limit(0), "t/")
        gs.write(branch, frame.where("id > 9"), "u/", partition_by=["name"])
        branch.commit("no rows", allow_empty=True)
    tables = [rows(gs.read(branch, "t/", spark=frame.sparkSession)) for branch in both]
    assert tables[0] == tables[1]
    assert not tables[0][1]


def test_a_run_is_written_and_merged_by_transactions(repo, frame):
    tables = gs.Tables(repo, frame.sparkSession)
    with tables.transaction("main", message="load") as tx:
        tx.write(frame.repartition(3), "t/")
        tx.write(tx.read("t/"), "u/", mode="overwrite")
    with repo.run("more", into="main") as run:
        run.write(frame, "t/")
    tables.compact("main", "t/")
    assert len([*repo.ref("main").entries("t/")]) == 1
    for path, times in (("t/", 2), ("u/", 1)):
        found = rows(gs.read(repo.ref("main"), path, spark=frame.sparkSession))[1]
        assert found == sorted(rows(frame)[1] * times)


def test_a_failed_job_leaves_no_names(repo, frame):
    def fail(number):
        if number == 4:
            raise ValueError("broken row")
        return number

    before = data(repo)
    broken = frame.repartition(4, "id").withColumn("id", udf(fail, "long")("id"))
    with pytest.raises(PythonException, match="broken row"):
        gs.write(repo.create_branch("dev"), broken, "t/")
    assert data(repo) == before


def test_what_is_gone_or_damaged_is_an_error(repo, frame):
    branch = repo.create_branch("dev")
    [entry] = gs.write(branch, frame.coalesce(1), "t/")
    lazy = gs.read(branch, "t/", spark=frame.sparkSession)
    repo.stores.objects.put(entry.address, b"other")
    assert lazy.count() == len(ROWS)
    with pytest.raises(CorruptionError, match="5 bytes"):
        gs.read(branch, "t/", spark=frame.sparkSession, verify=True)
    repo.stores.objects.delete(entry.address)
    with pytest.raises(ExpiredError, match="garbage collection"):
        gs.read(branch, "t/", spark=frame.sparkSession)


def test_formats_that_tasks_do_not_read_or_write_are_refused(repo, frame):
    branch = repo.create_branch("dev")
    with pytest.raises(InvalidInputError, match=r"'orc'.*write Parquet to keep://main/tables"):
        gs.write(branch, frame, "t/", format="orc")
    with pytest.raises(InvalidInputError, match=r"options \{'maxrecordsperfile'"):
        gs.write(branch, frame, "t/", options={"maxRecordsPerFile": "1"})
    branch.put("t.json", b"{}")
    for terms in ({"format": "orc"}, {"format": "json", "options": {"multiLine": "true"}}):
        with pytest.raises(InvalidInputError, match="tasks read Parquet, and lines of CSV"):
            gs.read(branch, "t.json", spark=frame.sparkSession, **terms)
