"""A landing that would make a table unreadable is refused, and what was written is kept."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graveler.errors import SchemaChangedError
from graveler.reads.schemas import OVERWRITES, PARTITIONS, SCHEMA, WHOLE, fits
from graveler.runs.state import RunState
from tests.runs.histories import History, writes


def text(columns):
    fields = [
        {"metadata": {}, "name": name, "nullable": True, "type": kind}
        for name, kind in columns.items()
    ]
    return json.dumps({"type": "struct", "fields": fields})


def spark(view, path, columns, **partitions):
    """Write a file as Spark's writer does."""
    kept = {SCHEMA: text(columns)} | ({PARTITIONS: text(partitions)} if partitions else {})
    return view.put(path, path.encode(), metadata=kept)


def plain(view, path, values):
    """Write a Parquet file as other programs do."""
    body = io.BytesIO()
    pq.write_table(pa.table({"x": values}), body)
    return view.put(path, body.getvalue())


def untyped(view, path, **partitions):
    """Write a file as Spark's writer does in a format without types."""
    return view.put(path, path.encode(), metadata={PARTITIONS: text(partitions)})


INT = {"x": "integer"}
LONG = {"x": "long"}
TEXT = {"x": "string"}

PAIRS = {
    "types": (
        lambda view: spark(view, "t/a.parquet", INT),
        lambda view: spark(view, "t/b.parquet", TEXT),
        r"'t/': 'x' is string in 't/b.parquet', which is new, and int in 't/a.parquet', which "
        r"commit [0-9a-f]{12} has",
    ),
    "fields": (
        lambda view: spark(view, "t/a.parquet", {"s": {"type": "struct", "fields": []}}),
        lambda view: spark(view, "t/b.parquet", {"s": {"type": "array", "elementType": "date"}}),
        r"'s' is array<date> in 't/b.parquet', which is new, and struct<> in 't/a.parquet'",
    ),
    "partition columns": (
        lambda view: spark(view, "t/day=1/a.parquet", INT, day="integer"),
        lambda view: spark(view, "t/region=eu/b.parquet", INT, region="string"),
        r"'t/': the partition columns are \['region'\] in 't/region=eu/b.parquet', which is new, "
        r"and \['day'\] in 't/day=1/a.parquet'",
    ),
    "types of partitions": (
        lambda view: spark(view, "t/day=1/a.parquet", INT, day="integer"),
        lambda view: spark(view, "t/day=2/b.parquet", INT, day="string"),
        r"'day' is string in 't/day=2/b.parquet', which is new, and int",
    ),
    "plain types": (
        lambda view: spark(view, "t/a.parquet", INT),
        lambda view: plain(view, "t/b.parquet", ["text"]),
        r"'x' is string in 't/b.parquet', which is new, and int in 't/a.parquet'",
    ),
    "plain partition columns": (
        lambda view: spark(view, "t/day=1/a.parquet", INT, day="integer"),
        lambda view: plain(view, "t/region=eu/b.parquet", [1]),
        r"the partition columns are \['region'\] in 't/region=eu/b.parquet'",
    ),
    "values of plain files": (
        lambda view: spark(view, "t/day=1/a.parquet", INT, day="integer"),
        lambda view: plain(view, "t/day=x/b.parquet", [1]),
        r"'day' is string in 't/day=x/b.parquet', which is new, and int in 't/day=1/a.parquet'",
    ),
    "beside values of plain files": (
        lambda view: plain(view, "t/day=2026-02-30/a.parquet", [1]),
        lambda view: spark(view, "t/day=2026-02-03/b.parquet", INT, day="date"),
        r"'day' is date in 't/day=2026-02-03/b.parquet', which is new, and string in 't/day=2026-02-30",
    ),
    "without types": (
        lambda view: untyped(view, "t/day=1/a.json", day="integer"),
        lambda view: untyped(view, "t/b.json"),
        r"the partition columns are \[\] in 't/b.json', which is new, and \['day'\] in 't/day=1/a.json'",
    ),
    "beside plain files": (
        lambda view: plain(view, "t/a.parquet", ["text"]),
        lambda view: spark(view, "t/b.parquet", INT),
        r"'x' is int in 't/b.parquet', which is new, and string in 't/a.parquet'",
    ),
}


def paths(view):
    return [entry.path for entry in view.entries("t/")]


def by_commit(repo, first, second):
    branch = repo.create_branch("dev")
    first(branch)
    branch.commit("first")
    second(branch)
    return branch, lambda: branch.commit("second", paths=[branch_path(branch)])


def branch_path(branch):
    (change,) = branch.uncommitted()
    return change.path


def by_publish(repo, first, second):
    runs = [repo.runs.open(key) for key in ("one", "two")]
    for run, write in zip(runs, (first, second), strict=True):
        write(run)
        run.commit("rows")
    runs[0].publish()
    return repo.branch("main"), runs[1].publish


def by_join(repo, first, second):
    run = repo.runs.open("hour")
    steps = [run.step(name) for name in ("one", "two")]
    for step, write in zip(steps, (first, second), strict=True):
        write(step)
    steps[0].join()
    return run, steps[1].join


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("land", [by_commit, by_publish, by_join])
def test_a_landing_is_compared_with_its_head(repo, land, pair):
    first, second, said = PAIRS[pair]
    into, landing = land(repo, first, second)
    head, before = into.head, paths(into)
    with pytest.raises(SchemaChangedError, match=said):
        landing()
    assert (into.head, paths(into)) == (head, before)
    if land is by_publish:
        refused = repo.runs.get("two")
        assert (refused.state, "'t/'" in refused.reason) == (RunState.PARKED, True)


TYPES = {"int": INT, "long": LONG, "text": TEXT, "more": {**INT, "y": "string"}}


class Tables(History):
    """Files of a table of Spark: ``a=int``; ``a=int!`` overwrites the table."""

    def put(self, view, words):
        for name, kind in writes(words):
            path = f"t/{name}.parquet"
            if kind is None:
                view.delete(path)
            elif kind.endswith("!"):
                kept = {SCHEMA: text(TYPES[kind[:-1]]), OVERWRITES: WHOLE}
                view.put(path, path.encode(), metadata=kept)
            else:
                spark(view, path, TYPES[kind])

    def do_paths(self, branch, *names):
        assert paths(self.repo.ref(branch)) == [f"t/{name}.parquet" for name in names]


NEW_TEXT = "! SchemaChangedError 'x' is string in 't/b.parquet', which is new; "
NEW_INT = "! SchemaChangedError 'x' is int in 't/[ab].parquet', which is new"
TWO = "branch one; branch two; "
LANDINGS = {
    "staged together": "user a=int b=text ! SchemaChangedError",
    "merge": f"{TWO} user@one a=int; user@two b=text; merge one; merge two {NEW_TEXT} paths main a",
    "merge of picks": f"{TWO} branch three; branch four; one: user@one a=int; two: user@two b=text; "
    f"pick one>three; pick two>four; merge three; merge four {NEW_TEXT} paths four b",
    "pick": f"{TWO} user@one a=int; it: user@two b=text; pick it>one {NEW_TEXT} paths one a",
    "pick without what it leaves": f"{TWO} branch three; user@one c=text; user@two d=text; "
    f"user@two -d; it: user@two b=int; pick it>one {NEW_INT}; pick it>three; paths three b",
    "pick of an overwrite": f"{TWO} user@one a=int; it: user@two b=int!; "
    r"pick it>one ! MergeConflictError overwrites folders .*'t/a\.parquet'; user@one -a; "
    "pick it>one; paths one b",
    "pick of an overwrite with a strategy": f"{TWO} user@one a=int; it: user@two b=int!; "
    "pick it>one source-wins; paths one a b",
    "steps": f"work A a=int; work B b=text; land A; land B {NEW_TEXT} paths main a",
    "revert": f"O a=int; it: N b=text! -a; L c=text; revert it {NEW_INT}, and string in .* or revert "
    ".* first; paths main b c; rollback L; revert it; paths main a",
    "rollback": f"O a=int; N b=text! -a; L c=text; rollback N {NEW_INT}; paths main b c; rollback L; "
    "rollback N; paths main a",
    "what goes together": "work A a=int; work B b=long; work C c=more; land A; land B; land C; "
    "paths main a b c",
    "a replaced table": "branch dev; user@dev a=int; user@dev b=text -a; merge dev; paths main b",
}


@pytest.mark.parametrize("told", LANDINGS.values(), ids=LANDINGS)
def test_what_lands_is_compared_with_its_head(repo, told):
    Tables(repo).play(told)


def test_a_release_is_compared_with_its_target(repo):
    tables, ingestion = Tables(repo), repo.ingestion(on_refusal="quarantine")
    tables.put(ingestion.branch, ["a=int"])
    ingestion.tick("2013-01-01T05:00Z")
    tables.play("N b=text! -a")
    ingestion.branch.put("t/a.parquet", b"again", metadata={SCHEMA: text(INT)})
    (name,) = ingestion.tick("2013-01-01T06:00Z").quarantined
    head = repo.commit("main")
    with pytest.raises(SchemaChangedError, match=r"'x' is int in 't/a\.parquet', which is new"):
        ingestion.release(name, strategy="source-wins")
    assert repo.commit("main") == head
    assert [kept.name for kept in ingestion.quarantined()] == [name]
    ingestion.release(name, strategy="dest-wins")
    tables.play("paths main b")


def test_a_table_may_be_mixed_but_not_made_worse(repo, monkeypatch):
    branch = repo.create_branch("dev")
    with monkeypatch.context() as older:
        older.setattr("graveler.publishing.tables.Watch.check", lambda *_: {})
        spark(branch, "t/a.parquet", INT)
        spark(branch, "t/b.parquet", TEXT)
        branch.commit("by an earlier version")
    spark(branch, "t/c.parquet", TEXT)
    spark(branch, "t/d.parquet", {**INT, "y": "date"})
    branch.commit("no worse")
    spark(branch, "t/e.parquet", {"y": "string"})
    with pytest.raises(SchemaChangedError, match="'y' is string") as refused:
        branch.commit("worse")
    assert "'x'" not in str(refused.value)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("string", ["1", "x", "2026-02-30"], []),
        ("integer", ["02", "-7", "+7", "2147483647"], ["", "1.0", "2147483648", "1_0", " 1", "x"]),
        ("byte", ["-128"], ["128"]),
        ("long", ["9223372036854775807"], ["9223372036854775808", "1e3"]),
        ("double", ["1", "-1.5", "1e300", "NaN", "Infinity", "-inf"], ["x", "1_0", "0x1"]),
        ("decimal(5,2)", ["2.5", "-999.99", "2.50", "7"], ["2.555", "1000", "1_0", "NaN", "x"]),
        ("date", ["2026-01-31", "2026-1-2"], ["2026-02-30", "20260131", "x"]),
        ("timestamp", ["2026-01-31 05:00:00Z", "2026-01-31 05:00:00.5"], ["20260131T05"]),
        ("boolean", ["true", "False"], ["1", "x"]),
        ("interval day to second", [], ["x"]),
    ],
)
def test_values_in_paths_are_of_the_types_of_a_table(kind, good, bad):
    values = [*good, *bad, None]
    assert [value for value in values if fits(value, kind)] == [*good, None]


def test_folders_that_are_no_table_take_anything(repo):
    branch = repo.create_branch("dev")
    plain(branch, "t/a.parquet", [1])
    branch.commit("numbers")
    plain(branch, "t/b.parquet", ["text"])
    plain(branch, "t/region=eu/c.parquet", [None])
    branch.put("t/d.parquet", b"no Parquet")
    branch.commit("others")
    spark(branch, "events/type=click/a.parquet", INT)
    spark(branch, "events/type=view/a.parquet", TEXT)
    branch.put("events/type=click/b.parquet", b"no Parquet")
    plain(branch, "events/notes/b.parquet", ["text"])
    plain(branch, "events/type=click/_old/b.parquet", ["text"])
    branch.commit("tables of their own")
    repo.merge("dev", into="main")


def test_a_table_of_one_schema_is_not_read_again(repo, monkeypatch):
    runs = [repo.runs.open(key) for key in ("one", "two", "three")]
    for run, folder in zip(runs, ("t", "t", "u"), strict=True):
        spark(run, f"{folder}/{run.key}.parquet", INT)
        run.commit("rows")

    def compared(*_):
        raise AssertionError("a table is read")

    monkeypatch.setattr("graveler.publishing.tables._compare", compared)
    for run in runs:
        run.publish()
