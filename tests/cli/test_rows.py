"""``diff --rows``: the rows that differ, by their keys."""

import io
import sys

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def parquet(rows, **kinds):
    file = io.BytesIO()
    names = list(kinds) or list(dict.fromkeys(name for row in rows for name in row))
    columns = {name: pa.array([row.get(name) for row in rows], kinds.get(name)) for name in names}
    pyarrow.parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def put(repo, before, after):
    """Commit the files of `before`, and stage those of `after` in their place."""
    main = repo.branch("main")
    main.put_many(before.items())
    main.delete_many([entry.path for entry in main.entries() if entry.path not in before])
    main.commit("before", allow_empty=True)
    main.put_many(after.items())
    main.delete_many(before.keys() - after.keys())


OLD = [
    {"id": 1, "n": "a", "l": [1]},
    {"id": 2, "n": "b", "l": [2]},
    {"id": 3, "n": None, "l": None},
]
NEW = [
    {"id": 1, "n": "a", "l": [1]},
    {"id": 2, "n": "c", "l": [2, 3]},
    {"id": 4, "n": "d", "l": []},
]
SHOWN = [
    "~ id=2  n: b → c  l: [2] → [2, 3]",
    "- id=3  n=null  l=null",
    "+ id=4  n=d  l=[]",
    "3 rows: 1 added, 1 changed, 1 removed",
]
CSV = b"id,n\n1,a\n2,b\n"
TABLES = [
    ({"t/x.parquet": parquet(OLD)}, {"t/x.parquet": parquet(NEW)}, "id", SHOWN),
    (
        {"t/a.parquet": parquet(OLD[:1]), "t/b.parquet": parquet(OLD[1:])},
        {"t/c.parquet": parquet(NEW), "t/readme": b"no table"},
        "id",
        SHOWN,
    ),
    (
        {"x.csv": CSV},
        {"x.csv": b"id,n\n1,a\n2,B\n"},
        "id",
        ["~ id=2  n: b → B", "1 row: 1 changed"],
    ),
    (
        {"x.jsonl": b'{"id": 1}\n'},
        {"x.jsonl": b'{"id": 1, "new": {"a": true}}\n'},
        "id",
        ['~ id=1  new: null → {"a": true}', "1 row: 1 changed"],
    ),
    (
        {"d=1/x.parquet": parquet([{"id": 1}])},
        {"d=2/x.parquet": parquet([{"id": 1}])},
        "id,d",
        ["- id=1 d=1  ", "+ id=1 d=2  ", "2 rows: 1 added, 1 removed"],
    ),
    ({"x.parquet": parquet(OLD)}, {"x.parquet": parquet(OLD[::-1])}, "id", ["no row differs"]),
    ({"x.txt": b"1"}, {"x.txt": b"2"}, "id", ["no row differs"]),
    (
        {"a/x.csv": CSV, "b/d=1/x.csv": CSV, "c.csv": CSV},
        {"a/x.csv": b"id,n\n1,a\n", "b/d=1/x.csv": b"id,n\n2,b\n", "c.csv": b"id,n\n2,b\n1,a\n"},
        "id",
        ["a/:", "- id=2  n=b", "b/:", "- id=1  n=a  d=1", "2 rows: 2 removed"],
    ),
    (
        {"t/x.csv": CSV, "t/y.csv": b"id,m\n1,2\n"},
        {"t/x.csv": b"id,n\n1,c\n2,b\n", "t/y.csv": b"id,m\n1,3\n"},
        "id",
        ["t/x.csv:", "~ id=1  n: a → c", "t/y.csv:", "~ id=1  m: 2 → 3", "2 rows: 2 changed"],
    ),
]


@pytest.mark.parametrize(("before", "after", "keys", "lines"), TABLES)
def test_the_rows_that_differ_are_listed(cli, repo, before, after, keys, lines):
    put(repo, before, after)
    assert cli("diff", "main", "--rows", keys).out.splitlines() == lines
    assert cli("diff", "main@", "main", "--rows", keys).out.splitlines() == lines


@pytest.mark.parametrize(
    ("before", "after", "keys", "code", "told"),
    [
        (
            {"x.csv": CSV},
            {"x.csv": b"id,n\n1,b\n"},
            "no",
            1,
            "/: no column 'no': it has id, n",
        ),
        (
            {"x.csv": CSV},
            {"x.csv": b"id,n\n1,b\n1,c\n"},
            "id",
            1,
            "id: several rows of / have id=1",
        ),
        (
            {"x.csv": CSV, "y.parquet": parquet([{"id": "a"}])},
            {"x.csv": b"id,n\n", "y.parquet": parquet([{"id": "b"}])},
            "id",
            1,
            "the changed files are of several tables",
        ),
    ],
)
def test_rows_that_cannot_be_compared_are_told(cli, repo, before, after, keys, code, told):
    put(repo, before, after)
    said = cli("diff", "main", "--rows", keys)
    assert (said.code, told in said.err) == (code, True), said.err


def test_a_missing_package_is_named(cli, repo, monkeypatch):
    put(repo, {"x.csv": CSV}, {"x.csv": b"id,n\n"})
    monkeypatch.setitem(sys.modules, "duckdb", None)
    said = cli("diff", "main", "--rows", "id")
    assert (said.code, said.err) == (
        1,
        "error: a comparison by rows needs DuckDB: pip install duckdb\n",
    )


cells = st.none() | st.sampled_from([0.0, 1.5, float("nan"), float("inf")])
tables = st.dictionaries(st.none() | st.integers(0, 6), cells, max_size=5)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tables, tables)
def test_differences_are_those_of_two_mappings(cli, repo, left, right):
    kinds = {"k": pa.int64(), "v": pa.float64()}
    sides = [
        {"x.parquet": parquet([{"k": key, "v": value} for key, value in side.items()], **kinds)}
        for side in (left, right)
    ]
    put(repo, *sides)
    found = {
        line["key"]["k"]: (line["kind"], line["before"] and repr(line["before"]["v"]))
        for line in cli("diff", "main", "--rows", "k", "--json").lines
    }
    shown = {float("inf"): None}
    expected = {}
    for key in left.keys() | right.keys():
        kind = "added" if key not in left else "removed" if key not in right else "changed"
        if kind != "changed" or repr(left[key]) != repr(right[key]):
            old = left.get(key)
            plain = None if old is None or old != old or old in shown else old
            expected[key] = (kind, None if key not in left else repr(plain))
    assert found == expected
