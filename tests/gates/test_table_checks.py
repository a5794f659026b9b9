"""Checks of tables of the catalog: statistics answer as the rows do, and verdicts are reused."""

from collections import Counter
from contextlib import contextmanager
from datetime import timedelta
from functools import partial

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFileContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

import graveler
from graveler import checks, gate
from graveler.errors import GateFailedError, InvalidInputError
from graveler.frames import footers
from graveler.gates.candidate import Candidate
from tests.harness.iceberg import catalog_of
from tests.harness.iceberg_lines import CountingIO, Line

T = "db.flights"
FRAME = pd.DataFrame({"hour": ["05", "05", "06"], "delay": [1, 2, 3]})


@pytest.fixture
def disk(disk):
    with disk.run("first") as run:
        run.table(T).append(FRAME)
    return disk


def publish(repo, key, work, *gates):
    with repo.run(key, gates=gates) as run:
        work(run.table(T))


def refusal(repo, work, *gates):
    with pytest.raises(GateFailedError) as caught:
        publish(repo, "refused", work, *gates)
    return str(caught.value)


@pytest.mark.parametrize(
    ("check", "frame", "words"),
    [
        (checks.row_count(table=T, at_least=3), FRAME.head(2), "2 rows in 1 files below 'db/flights/'"),
        (checks.row_count(table=T, at_least=7, scope="all"), FRAME, "6 rows in 2 files"),
        (checks.not_null("hour", table=T), FRAME.assign(hour=["07", None, "07"]), "'hour' has 1 nulls"),
        (checks.in_range(column="delay", at_least=0, at_most=2, table=T), FRAME, "column 'delay' has 3, more than 2"),
        (checks.accepted_values(column="hour", values=["05"], table=T), FRAME, "1 rows with other values: '06'"),
        (checks.unique("hour", "delay", table=T), FRAME, "3 values of hour, delay occur more than once"),
        (checks.schema(table=T, columns={"delay": "double"}), FRAME, "delay is int64, not double"),
        (checks.not_null("hour", table="db.typo"), FRAME, "nothing below 'db/typo/'"),
        (checks.partition_rows("db.typo"), FRAME, "there is no table 'db.typo'"),
    ],
)  # fmt: skip
def test_a_check_refuses_a_table(disk, check, frame, words):
    assert words in refusal(disk, lambda table: table.append(frame), check)
    if "typo" not in check.name:
        assert check.name.endswith(T)
        assert check.prefixes == ("db/flights/",)


def test_checks_pass_what_they_allow(disk):
    gates = [
        checks.row_count(table=T, at_least=3, at_most=3),
        checks.not_null("hour", "delay", table=T),
        checks.in_range(table=T, column="delay", at_least=0, at_most=9),
        checks.schema(table=T),
        checks.freshness(table=T),
        checks.partition_rows(T, more=1.0),
        checks.row_count(table="db.none", missing="allow", name="none"),
    ]
    publish(disk, "good", lambda table: table.append(FRAME), *gates)
    assert len(disk.gates.judgement("main").verdicts) == len(gates)


def test_only_new_files_are_judged_unless_all_are(disk):
    late = partial(checks.in_range, column="delay", at_least=0, at_most=50, table=T)
    publish(disk, "bad", lambda table: table.append(FRAME.assign(delay=99)))
    publish(disk, "good", lambda table: table.append(FRAME), late())
    assert "has 99" in refusal(disk, lambda table: table.append(FRAME), late(scope="all"))


def test_a_table_without_a_column_is_refused_by_schema(disk):
    def drops(table):
        made = catalog_of(table.view).load_table(T)
        with made.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column("hour")

    assert "table 'db.flights' lacks hour" in refusal(disk, drops, checks.schema(table=T))


@pytest.mark.parametrize(
    "given", [{"table": "flights"}, {"table": "db/flights/"}, {"prefix": "a/", "table": T}]
)
def test_a_table_has_a_name_and_no_prefix(given):
    with pytest.raises(
        InvalidInputError, match=r"give one of them; a table is named as 'db\.flights'"
    ):
        checks.row_count(**given)


def test_a_check_of_a_table_is_required_by_its_parameters(disk):
    disk.gates.require("main", checks.in_range(column="delay", at_least=0, at_most=2, table=T))
    branch = disk.branch("main")
    with pytest.raises(GateFailedError, match=r"in_range db\.flights.*has 3, more than 2"):
        branch.table(T).append(FRAME)
    assert branch.table(T).rows == 3


@pytest.mark.parametrize("isolated", [False, True])
def test_a_gate_reads_the_table_before_and_after(disk, isolated):
    check = gate("reads", prefix="db/flights/", isolated=isolated)(reads_both)
    publish(disk, "more", lambda table: table.append(FRAME), check)
    assert disk.gates.judgement("main").verdicts[0].facts == {"rows": [6, 3], "sums": [12, 6]}


def reads_both(candidate):
    tables = [tree.table(T) for tree in (candidate, candidate.before)]
    candidate.report(rows=[table.rows for table in tables])
    candidate.report(sums=[int(table.read("pandas")["delay"].sum()) for table in tables])


def test_a_gate_reads_only_tables_that_it_declares(disk):
    elsewhere = gate("elsewhere", prefix="output/")(lambda candidate: candidate.table(T).rows > 0)
    assert "which is not below what it declares" in refusal(
        disk, lambda table: table.append(FRAME), elsewhere
    )


@pytest.mark.parametrize(("moved", "reused"), [("db.other", True), (T, False)])
def test_a_verdict_holds_until_the_table_changes(disk, moved, reused):
    check = checks.row_count(table=T)
    run = disk.runs.open("hour")
    run.table("db.mine" if not reused else T).append(FRAME)
    run.judge([check]) if reused else None
    with disk.run("meanwhile") as other:
        other.table(moved).append(FRAME)
    if reused:
        run.publish([check])
        assert disk.gates.judgement("main").reused == (check.name,)
    else:
        with pytest.raises(GateFailedError, match="0 rows"):
            run.publish([check])


def partitioned(repo, *rows):
    catalog = catalog_of(repo.branch("main"))
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "hour"))
    schema = Schema(NestedField(1, "hour", StringType()), NestedField(2, "delay", LongType()))
    made = catalog.create_table("db.parts", schema, partition_spec=spec)
    for frame in rows:
        made.append(pa.Table.from_pandas(frame))
    return made


def test_partitions_that_lose_rows_are_named_with_both_counts(disk):
    partitioned(disk, FRAME, FRAME)
    check = checks.partition_rows(table="db.parts")
    with pytest.raises(GateFailedError) as caught, disk.run("less", gates=[check]) as run:
        run.table("db.parts").delete({"delay": [1, 3]})
        run.table("db.parts").append(FRAME.assign(hour="07"))
    words = (
        "partition_rows db.parts: hour=05 has 2 rows, and 4 on 'main'; hour=06 has 0 rows, and 2 on"
    )
    assert words in str(caught.value)
    with disk.run("more", gates=[checks.partition_rows("db.parts", less=0.5)]) as run:
        run.table("db.parts").delete({"delay": 1})


def test_partitions_of_two_specs_are_compared_by_what_they_share(disk):
    made = partitioned(disk, FRAME)
    with made.update_spec() as update:
        update.add_identity("delay")
    with pytest.raises(GateFailedError, match="hour=05 has 5 rows, and 2 on 'main'"):
        with disk.run("more", gates=[checks.partition_rows("db.parts", more=1.0)]) as run:
            run.table("db.parts").append(FRAME.assign(hour="05"))
    with disk.run("same", gates=[checks.partition_rows("db.parts", more=0.0)]) as run:
        run.table("db.parts").overwrite(FRAME)


NAN = float("nan")
SCHEMA = Schema(
    NestedField(1, "n", LongType()),
    NestedField(2, "x", DoubleType()),
    NestedField(3, "s", StringType()),
)
KINDS = pa.schema([("n", pa.int64()), ("x", pa.float64()), ("s", pa.string())])
CUT = "b" * 16
ROWS = st.tuples(
    st.one_of(st.none(), st.integers(0, 6)),
    st.one_of(st.none(), st.sampled_from([0.5, 2.0, 3.0, NAN])),
    st.one_of(st.none(), st.sampled_from(["a", CUT, CUT + "b", CUT + "z"])),
)
FILES = st.lists(
    st.tuples(st.lists(ROWS, min_size=1, max_size=4), st.sets(st.integers(0, 3), max_size=3)),
    min_size=1,
    max_size=3,
)
CHECKS = {
    "rows": (checks.row_count(table="db.t", at_least=3, scope="all", missing="allow"),
             lambda rows: len(rows) >= 3),
    "nulls": (checks.not_null("n", "s", share=0.25, table="db.t", scope="all", missing="allow"),
              lambda rows: all(sum(r[at] is None for r in rows) <= 0.25 * len(rows) for at in (0, 2))),
    "numbers": (checks.in_range(column="n", at_least=1, at_most=5, table="db.t", scope="all", missing="allow"),
                lambda rows: all(r[0] is None or 1 <= r[0] <= 5 for r in rows)),
    "floats": (checks.in_range(column="x", at_least=1.0, at_most=2.5, table="db.t", scope="all", missing="allow"),
               lambda rows: all(r[1] is None or 1.0 <= r[1] <= 2.5 for r in rows)),
    "nan": (checks.in_range(column="x", at_least=1.0, at_most=2.5, nan=True, table="db.t", scope="all", missing="allow"),
            lambda rows: all(r[1] is None or r[1] != r[1] or 1.0 <= r[1] <= 2.5 for r in rows)),
    "texts": (checks.in_range(column="s", at_least="a", at_most=CUT + "b", table="db.t", scope="all", missing="allow"),
              lambda rows: all(r[2] is None or "a" <= r[2] <= CUT + "b" for r in rows)),
    "low": (checks.in_range(column="s", at_least=CUT + "a", table="db.t", scope="all", missing="allow"),
            lambda rows: all(r[2] is None or r[2] >= CUT + "a" for r in rows)),
    "unique": (checks.unique("n", table="db.t", missing="allow"),
               lambda rows: max(Counter(r[0] for r in rows if r[0] is not None).values(), default=0) < 2),
}  # fmt: skip


def line_of(folder, files):
    """Return a table of these files, with the rows that are left after deletes by position."""
    made = new_table_metadata(
        schema=SCHEMA,
        partition_spec=PartitionSpec(),
        sort_order=UNSORTED_SORT_ORDER,
        location=f"file://{folder}",
        properties={},
    )
    line = Line(TableMetadataUtil.parse_raw(made.model_dump_json()), frozenset(), CountingIO())
    left = []
    for rows, gone in files:
        known = {entry.data_file.file_path for entry, _ in line.entries()}
        frame = pa.table([[*column] for column in zip(*rows, strict=True)], schema=KINDS)
        line.change(lambda transaction, frame=frame: transaction.append(frame))
        (path,) = {entry.data_file.file_path for entry, _ in line.entries()} - known
        places = sorted(at for at in gone if at < len(rows))
        if places:
            fields = [pa.field(name, kind, metadata={"PARQUET:field_id": number}) for name, kind, number in (
                ("file_path", pa.string(), "2147483546"), ("pos", pa.int64(), "2147483545"))]  # fmt: skip
            content = pa.table([[path] * len(places), places], schema=pa.schema(fields))
            kind = DataFileContent.POSITION_DELETES
            line.commit(Operation.DELETE, [line._delete_file(content, kind, Record(), 0)])
        left += [row for at, row in enumerate(rows) if at not in gone]
    return line, left


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    with graveler.init(folder / "lake") as lake:
        repo = lake.create_repository("flights")
        repo.links.allow(f"file://{folder}/others")
        yield repo, folder / "others"


@contextmanager
def without_statistics():
    with pytest.MonkeyPatch.context() as patch:
        nothing = footers.Column("", None, None, None, 0)
        patch.setattr(footers.TableFile, "column", lambda self, name: nothing)
        yield


@settings(max_examples=12)
@given(FILES)
def test_statistics_answer_as_the_rows_do(shared, files):
    repo, folder = shared
    place = folder / repo.stores.ids.unique()
    line, left = line_of(place, files)
    (place / "v1.metadata.json").write_text(line.metadata.model_dump_json())
    catalog = catalog_of(repo.branch("main"))
    catalog.create_namespace_if_not_exists("db")
    catalog.register_table("db.t", f"file://{place}/v1.metadata.json", overwrite=True)
    candidate = Candidate(repo.stores, repo.commit("main"), target=repo.commit("main"), into="main")
    assert repo.ref("main").table("db.t").rows == len(left)
    for name, (check, passes) in CHECKS.items():
        told = check(candidate)
        with without_statistics():
            assert check(candidate) == told
        assert (told is None) == passes(left), name


def test_statistics_answer_without_reading_the_data(disk, monkeypatch):
    read = []
    monkeypatch.setattr(footers.TableFile, "read", lambda self, columns: read.append(columns))
    gates = [
        checks.row_count(table=T),
        checks.not_null("delay", table=T),
        checks.in_range(column="delay", at_least=0, at_most=9, table=T),
        checks.in_range(column="hour", at_least="00", at_most="23", table=T, name="hours"),
        checks.freshness(table=T),
    ]
    publish(disk, "good", lambda table: table.append(FRAME), *gates)
    assert not read


def test_freshness_reads_the_newest_time_of_a_table(disk):
    now = disk.stores.clock.now()
    frame = pd.DataFrame({"at": [now - timedelta(days=9), now - timedelta(days=3)]})
    for days, passes in ((4, True), (2, False)):
        check = checks.freshness(table="db.times", max_age=timedelta(days=days), column="at")
        run = disk.runs.open("times")
        run.table("db.times").overwrite(frame)
        assert [verdict.passed for verdict in run.judge([check])] == [passes]
