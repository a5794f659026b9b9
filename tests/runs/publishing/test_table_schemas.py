"""A landing that would make a table unreadable is refused, and what was written is kept."""

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graveler.base.background import Inline
from graveler.config import load_config
from graveler.errors import MergeConflictError, SchemaChangedError
from graveler.lake.factory import connect, write_default_config
from graveler.reads.schemas import OVERWRITES, PARTITIONS, SCHEMA, WHOLE, fits
from graveler.runs.state import RunState
from tests.harness.statements import observe


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


@pytest.fixture(params=PAIRS)
def pair(request):
    return PAIRS[request.param]


def paths(view):
    return [entry.path for entry in view.entries("t/")]


def test_a_commit_is_compared_with_its_head(repo, pair):
    first, second, said = pair
    branch = repo.create_branch("dev")
    first(branch)
    head = branch.commit("first")
    second(branch)
    with pytest.raises(SchemaChangedError, match=said) as refused:
        branch.commit("second")
    assert head.id[:12] in str(refused.value)
    assert branch.head.id == head.id
    assert len(list(branch.uncommitted())) == 1


def test_writes_that_are_staged_together_are_compared(repo, pair):
    first, second, _ = pair
    branch = repo.create_branch("dev")
    first(branch)
    second(branch)
    with pytest.raises(SchemaChangedError):
        branch.commit("both")


def test_a_commit_of_some_paths_is_compared(repo):
    branch = repo.create_branch("dev")
    spark(branch, "t/a.parquet", INT)
    branch.commit("first")
    entry = spark(branch, "t/b.parquet", TEXT)
    with pytest.raises(SchemaChangedError, match="'x' is string"):
        branch.commit("second", paths=[entry.path])


def test_a_merge_is_compared_with_its_head(repo, pair):
    first, second, said = pair
    branches = [repo.create_branch(name) for name in ("one", "two", "all")]
    first(branches[0])
    second(branches[1])
    for branch in branches[:2]:
        branch.commit("rows")
    repo.merge("one", into="all")
    head = branches[2].head
    with pytest.raises(SchemaChangedError, match=said):
        repo.merge("two", into="all")
    assert branches[2].head.id == head.id


def test_a_pick_is_compared_with_its_head(repo, pair):
    first, second, said = pair
    one, two = (repo.create_branch(name) for name in ("one", "two"))
    first(one)
    head = one.commit("rows")
    second(two)
    picked = two.commit("rows")
    with pytest.raises(SchemaChangedError, match=said):
        repo.cherry_pick(picked, onto="one")
    assert one.head.id == head.id


def test_a_pick_is_compared_without_what_it_leaves(repo):
    one, two = (repo.create_branch(name) for name in ("one", "two"))
    for branch in (one, two):
        spark(branch, f"t/{branch.name}.parquet", TEXT)
        branch.commit("text")
    two.delete("t/two.parquet")
    two.commit("nothing")
    spark(two, "t/b.parquet", INT)
    picked = two.commit("numbers")
    with pytest.raises(SchemaChangedError, match="'x' is int"):
        repo.cherry_pick(picked, onto="one")
    repo.create_branch("three")
    repo.cherry_pick(picked, onto="three")
    assert paths(repo.branch("three")) == ["t/b.parquet"]


def test_picked_tables_are_known_at_a_merge(repo):
    for name, columns in {"one": INT, "two": TEXT}.items():
        branch = repo.create_branch(name)
        repo.create_branch(f"pick-{name}")
        spark(branch, f"t/{name}.parquet", columns)
        repo.cherry_pick(branch.commit("rows"), onto=f"pick-{name}")
    repo.merge("pick-one", into="main")
    with pytest.raises(SchemaChangedError, match="'x' is string"):
        repo.merge("pick-two", into="main")
    assert paths(repo.branch("pick-two")) == ["t/two.parquet"]


def overwrite(view, path, columns, gone=""):
    """Overwrite a table as Spark's writer does."""
    view.put(path, path.encode(), metadata={SCHEMA: text(columns), OVERWRITES: WHOLE})
    if gone:
        view.delete(gone)


@pytest.mark.parametrize("how", ["revert", "rollback"])
def test_what_a_revert_restores_is_compared_with_its_head(repo, how):
    with repo.run("old") as run:
        spark(run, "t/a.parquet", INT)
    with repo.run("new") as run:
        overwrite(run, "t/b.parquet", TEXT, gone="t/a.parquet")
    new = repo.commit("main")
    with repo.run("later") as run:
        spark(run, "t/c.parquet", TEXT)
    undo = {
        "revert": lambda: repo.revert(new, on="main"),
        "rollback": lambda: repo.runs.rollback("new"),
    }[how]
    head = repo.commit("main")
    said = r"'x' is int in 't/a\.parquet', which is new, and string in .* or revert .* first"
    with pytest.raises(SchemaChangedError, match=said):
        undo()
    assert repo.commit("main") == head
    repo.runs.rollback("later")
    undo()
    assert paths(repo.branch("main")) == ["t/a.parquet"]


def test_a_release_is_compared_with_its_target(repo):
    ingestion = repo.ingestion(on_refusal="quarantine")
    spark(ingestion.branch, "t/a.parquet", INT)
    ingestion.tick("2013-01-01T05:00Z")
    ingestion.branch.put("t/a.parquet", b"again", metadata={SCHEMA: text(INT)})
    with repo.run("new") as run:
        overwrite(run, "t/b.parquet", TEXT, gone="t/a.parquet")
    (name,) = ingestion.tick("2013-01-01T06:00Z").quarantined
    head = repo.commit("main")
    with pytest.raises(SchemaChangedError, match=r"'x' is int in 't/a\.parquet', which is new"):
        ingestion.release(name, strategy="source-wins")
    assert repo.commit("main") == head
    assert [kept.name for kept in ingestion.quarantined()] == [name]
    ingestion.release(name, strategy="dest-wins")
    assert paths(repo.ref("main")) == ["t/b.parquet"]


@pytest.mark.parametrize("strategy", [None, "source-wins"])
def test_a_picked_overwrite_is_compared_with_its_head(repo, strategy):
    one, two = (repo.create_branch(name) for name in ("one", "two"))
    spark(one, "t/a.parquet", INT)
    one.commit("rows")
    overwrite(two, "t/b.parquet", INT)
    picked = two.commit("overwrite")
    if strategy is None:
        with pytest.raises(MergeConflictError, match=r"overwrites folders .*'t/a\.parquet'"):
            repo.cherry_pick(picked, onto="one")
        one.delete("t/a.parquet")
        one.commit("none")
    repo.cherry_pick(picked, onto="one", strategy=strategy)
    assert "t/b.parquet" in paths(one)


def test_a_publish_is_compared_with_its_head(repo, pair):
    first, second, said = pair
    runs = [repo.runs.open(key) for key in ("one", "two")]
    for run, write in zip(runs, (first, second), strict=True):
        write(run)
        run.commit("rows")
    runs[0].publish()
    head = repo.branch("main").head
    with pytest.raises(SchemaChangedError, match=said):
        runs[1].publish()
    assert repo.branch("main").head.id == head.id
    assert runs[1].state is RunState.PARKED
    assert "'t/'" in runs[1].record.reason


def test_a_join_is_compared_with_the_run(repo, pair):
    first, second, said = pair
    run = repo.runs.open("hour")
    steps = [run.step(name) for name in ("one", "two")]
    for step, write in zip(steps, (first, second), strict=True):
        write(step)
    steps[0].join()
    before = paths(run)
    with pytest.raises(SchemaChangedError, match=said):
        steps[1].join()
    assert paths(run) == before


def test_steps_are_known_where_the_run_is_published(repo):
    runs = [repo.runs.open(key) for key in ("one", "two")]
    for run, columns in zip(runs, (INT, TEXT), strict=True):
        with run.step("write") as step:
            spark(step, f"t/{run.key}.parquet", columns)
    runs[0].publish()
    with pytest.raises(SchemaChangedError, match=r"'x' is string in 't/two\.parquet'"):
        runs[1].publish()


def test_what_goes_together_lands(repo):
    runs = [repo.runs.open(key) for key in ("one", "two", "three")]
    for run, columns in zip(runs, (INT, LONG, {**INT, "y": "string"}), strict=True):
        spark(run, f"t/{run.key}.parquet", columns)
        run.commit("rows")
    for run in runs:
        run.publish()
    assert len(paths(repo.branch("main"))) == 3


def test_a_replaced_table_may_have_other_types(repo):
    branch = repo.create_branch("dev")
    spark(branch, "t/a.parquet", INT)
    branch.commit("first")
    spark(branch, "t/b.parquet", TEXT)
    branch.delete("t/a.parquet")
    branch.commit("second")
    repo.merge("dev", into="main")
    assert paths(repo.branch("main")) == ["t/b.parquet"]


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


def cold_publish(folder, metadata):
    """Return the statements and the read ranges of a new process that publishes on a moved target."""
    write_default_config(folder)
    with connect(load_config(folder), background=Inline()) as lake:
        repo = lake.create_repository("flights")
        runs = [repo.runs.open(key) for key in "abc"]
        for run in runs:
            for number in range(3):
                run.put(f"t/{run.key}{number}", b"rows", metadata=metadata)
                run.commit("rows")
        for run in runs[:-1]:
            run.publish()
    with connect(load_config(folder), background=Inline()) as lake:
        repo = lake.repository("flights")
        run = repo.runs.attach(runs[-1].handle)
        seen, stats = observe(lake._kv), repo.stores.ranges.stats  # type: ignore[arg-type]
        before = stats.ranges_read
        run.publish()
        return len(seen), stats.ranges_read - before


def test_a_publish_of_a_table_reads_no_more_than_another(tmp_path):
    others = cold_publish(tmp_path / "files", {})
    assert cold_publish(tmp_path / "table", {SCHEMA: text(INT)}) == others
