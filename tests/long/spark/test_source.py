"""The data source without a JVM: its classes are called as Spark's workers call them."""

import importlib
import pkgutil
from itertools import groupby
from typing import Any

import pytest
from pyspark import cloudpickle
from pyspark.sql.datasource import (
    CaseInsensitiveDict,
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

import graveler
import graveler.spark
import pyspark_graveler
from graveler.committed.splitting import Splitting
from graveler.errors import InvalidInputError, RefNotFoundError
from graveler.spark.metadata.columns import COLUMNS
from graveler.spark.metadata.options import KINDS
from graveler.spark.metadata.trees import balanced

SMALL = Splitting("hash", max_bytes=4_000, raggedness=4, hard=4)
SECRET = "s3cr3t"


@pytest.fixture
def repo(tmp_path):
    with graveler.init(tmp_path / "lake", kv_uri=f"sqlite://{SECRET}.sqlite3") as lake:
        repo = lake.create_repository("tables", splitting=SMALL)
        outside = tmp_path / "outside" / "x"
        outside.parent.mkdir()
        outside.write_bytes(b"linked")
        repo.links.allow(outside.parent.as_uri())
        main = repo.branch("main")
        for number in range(60):
            pairs = {"n": str(number)} if number % 7 == 0 else None
            main.put(f"t{number % 3}/{number:02}", b"1", metadata=pairs)
        main.link("linked/x", address=outside.as_uri())
        repo.tags.create("v1", main.commit("first"))
        dev = repo.create_branch("dev")
        dev.put("t1/01", b"dev")
        dev.put("t9/new", b"1", metadata={"a": "b"})
        dev.delete("t0/00")
        dev.commit("on dev")
        main.put("t1/01", b"main")
        main.commit("on main")
        yield repo


def source(repo, **options):
    given = {"lake": repo.stores.location, "repository": repo.name, **options}
    return pyspark_graveler.DefaultSource(options=CaseInsensitiveDict(given))  # type: ignore[arg-type]  # as Spark does


def sent(thing):
    return cloudpickle.loads(cloudpickle.dumps(thing))


def planned(repo, **options):
    """Do what Spark does before the first task; return the reader for tasks, and the partitions."""
    made = source(repo, **options)
    schema = made.schema()
    assert isinstance(schema, StructType)
    reader = sent(made).reader(schema=schema)
    partitions = reader.partitions()
    assert type(partitions) is list
    for sent_to_tasks in (made, reader, partitions):
        raw = cloudpickle.dumps(sent_to_tasks)
        assert SECRET.encode() not in raw
        assert b"sqlite" not in raw
    return sent(reader), [sent(part) for part in partitions or [InputPartition(None)]]


def read(repo, **options):
    """Return the rows of a frame by task. Each batch has exactly the columns of the schema."""
    reader, partitions = planned(repo, **options)
    expected = to_arrow_schema(source(repo, **options).schema(), timezone="UTC")
    rows: list[list[dict[str, Any]]] = []
    for partition in partitions:
        rows.append([])
        for batch in reader.read(partition):
            assert batch.schema.equals(expected)
            batch.validate(full=True)
            rows[-1] += batch.to_pylist()
    return rows


def flat(tasks):
    return [row for task in tasks for row in task]


@pytest.mark.parametrize("kind", KINDS)
def test_spark_has_the_columns_of_the_batches(kind):
    schema = from_arrow_schema(COLUMNS[kind])
    assert to_arrow_schema(schema, timezone="UTC").equals(COLUMNS[kind])


@pytest.mark.parametrize(("ref", "prefix"), [("v1", ""), ("dev", "t1/"), ("main~1", "linked")])
def test_entries_are_those_of_the_ref(repo, ref, prefix):
    tasks = read(repo, kind="entries", ref=ref, prefix=prefix, parallelism="4")
    assert len(tasks) == 4 if not prefix else 1 <= len(tasks) <= 2
    assert all(tasks)
    found = flat(tasks)
    ranges = [(key, len(list(rows))) for key, rows in groupby(row.pop("range_id") for row in found)]
    assert found == repo.ref(ref).listing(prefix).read_all().to_pylist()
    listed = flat(read(repo, kind="ranges", ref=ref, prefix=prefix))
    assert [key for key, _ in ranges] == [row["id"] for row in listed]
    if not prefix:
        assert ranges == [(row["id"], row["entries"]) for row in listed]


def test_a_diff_is_that_of_the_repository(repo):
    def values(entry):
        names = COLUMNS["diff"].field("before").type.names if entry else ()
        pairs = {name: getattr(entry, name) for name in names}
        return {**pairs, "metadata": list(entry.metadata.items())} if entry else None

    for prefix in ("", "t1/"):
        tasks = read(repo, kind="diff", base="main", ref="dev", prefix=prefix, parallelism="3")
        assert flat(tasks) == [
            {
                "path": change.path,
                "kind": change.kind,
                "before": values(change.before),
                "after": values(change.after),
            }
            for change in repo.diff("main", "dev", prefix=prefix)
        ]
        assert len(tasks) == (1 if prefix else 3)
    assert flat(read(repo, kind="diff", base="v1", ref="main~1")) == []
    _, partitions = planned(repo, kind="diff", base="main", ref="dev")
    sides = [{info.id.hex() for part in partitions for info in part.value[side]} for side in (0, 1)]
    trees = [{row["id"] for row in flat(read(repo, kind="ranges", ref=r))} for r in ("main", "dev")]
    assert sides == [trees[0] - trees[1], trees[1] - trees[0]]  # tasks get no others


def test_the_driver_lists_commits_refs_runs_and_conflicts(repo):
    with repo.run("hour 05", metadata={"a": "b"}) as run:
        run.put("out", b"1")
    (row, *rest) = flat(read(repo, kind="commits", ref="dev"))
    commit = repo.commit("dev")
    assert (row["id"], row["tree"], row["created"]) == (commit.id, commit.metarange, commit.created)
    assert (row["parents"], row["message"]) == (list(commit.parents), "on dev")
    assert [row["id"] for row in rest] == [commit.id for commit in repo.log("dev~1")]
    refs = [(row["name"], row["kind"], row["commit_id"]) for row in flat(read(repo, kind="refs"))]
    branches = [(name, "branch", repo.commit(name).id) for name in ("dev", "main")]
    assert refs == [*branches, ("v1", "tag", repo.commit("v1").id)]
    (row,) = flat(read(repo, kind="runs"))
    assert (row["key"], row["state"]) == ("hour 05", "PUBLISHED")
    assert row["metadata"] == [("a", "b")]
    (row,) = flat(read(repo, kind="conflicts", ref="dev", base="main"))
    assert (row["path"], row["source"]["size"], row["dest"]["size"]) == ("t1/01", 3, 4)
    assert flat(read(repo, kind="conflicts", ref="v1", base="main")) == []


def test_a_version_is_named_as_spark_users_name_it(repo):
    def commit(**options):
        return flat(read(repo, kind="commits", **options))[0]["id"]

    before = repo.commit("main~1").created
    assert commit() == repo.commit("main").id
    assert commit(versionAsOf="v1") == repo.commit("v1").id
    at = (before + (repo.commit("main").created - before) / 2).isoformat(" ")
    assert commit(timestampAsOf=at) == repo.commit("v1").id
    assert commit(timestampAsOf=at.removesuffix("+00:00"), ref="main") == repo.commit("v1").id
    with pytest.raises(InvalidInputError, match="timestampAsOf"):
        commit(timestampAsOf="yesterday")
    with pytest.raises(InvalidInputError, match="give a ref, or a versionAsOf"):
        commit(versionAsOf="v1", ref="main")
    with pytest.raises(RefNotFoundError, match="nowhere"):
        commit(ref="nowhere")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option kind: '': choose of entries, ranges, diff"),
        (
            {"kind": "refs", "ref": "main"},
            "'refs' does not know it: choose of lake, repository, kind",
        ),
        ({"kind": "entries", "path": "x"}, "option 'path'.*timestampAsOf, prefix, parallelism"),
        ({"kind": "diff"}, "option 'base' is missing"),
        ({"kind": "refs", "lake": ""}, "option 'lake' is missing"),
        ({"kind": "entries", "parallelism": "0"}, "the number of tasks, from 1"),
        ({"kind": "entries", "parallelism": "many"}, "'many'"),
    ],
)
def test_a_wrong_option_is_refused_with_the_choices(repo, options, message):
    with pytest.raises(InvalidInputError, match=message):
        source(repo, **options)
    made = source(repo, kind="refs")
    with pytest.raises(InvalidInputError, match=r"leave out \.schema"):
        made.reader(schema=StructType().add("name", "string"))
    for refused in (made.writer, made.streamWriter):
        with pytest.raises(InvalidInputError, match="transaction"):
            refused(schema=StructType(), overwrite=True)


def test_no_reader_pushes_filters():
    for module in pkgutil.walk_packages(graveler.spark.__path__, "graveler.spark."):
        importlib.import_module(module.name)
    seen: set[str] = set()
    classes: list[type[Any]] = [DataSource, DataSourceReader, DataSourceStreamReader]
    while classes:
        classes += (made := classes.pop()).__subclasses__()
        if made.__module__.partition(".")[0] in {"graveler", "pyspark_graveler"}:
            seen.add(made.__name__)
            assert "pushFilters" not in vars(made)
    assert {"DefaultSource", "TreeReader", "ListingReader", "ChangeReader"} <= seen


@pytest.mark.parametrize("parts", [1, 3, 50])
def test_items_are_shared_by_weight(parts):
    weights = [1, 1, 1, 5, 1, 1, 2, 4, 1, 1]
    found = balanced(list(enumerate(weights)), lambda item: item[1], parts)
    assert [item for part in found for item in part] == list(enumerate(weights))
    assert all(found)
    sums = [sum(weight for _, weight in part) for part in found]
    assert max(sums) <= sum(weights) / parts + max(weights)
    assert len(found) <= parts
    assert balanced([], len, parts) == []
