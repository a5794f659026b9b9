"""``cat`` and ``head``: bytes, rows and lines."""

import gzip
import io
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from graveler.objects.verified import RangedFile
from graveler.reads import view as views

TABLE = pa.table(
    {
        "id": [1, 20],
        "name": ["ann", None],
        "share": [0.5, float("nan")],
        "tags": [["a", "b"], []],
        "at": [date(2013, 1, 1), None],
        "raw": [b"x\xff", b""],
        "cost": [Decimal("1.50"), Decimal("2.00")],
    }
)
ROWS = [
    {
        "id": 1,
        "name": "ann",
        "share": 0.5,
        "tags": ["a", "b"],
        "at": "2013-01-01",
        "raw": "x\\xff",
        "cost": "1.50",
    },
    {"id": 20, "name": None, "share": None, "tags": [], "at": None, "raw": "", "cost": "2.00"},
]
LINES = [
    "id  name  share  tags        at          raw    cost",
    ' 1  ann     0.5  ["a", "b"]  2013-01-01  x\\xff  1.50',
    "20  null    nan  []          null               2.00",
]


def parquet():
    file = io.BytesIO()
    pyarrow.parquet.write_table(TABLE, file)
    return file.getvalue()


def feather():
    file = io.BytesIO()
    pyarrow.feather.write_feather(TABLE, file)
    return file.getvalue()


CSV = b'\xef\xbb\xbfid,name\n007,"two\nlines"\n\n2\n'
JSON = b'{"id": 1, "a": {"b": [1]}}\n{"c": "\xc3\xa9"}\n'
FORMS = [
    ("x.parquet", parquet(), ROWS, LINES),
    ("x.arrow", feather(), ROWS, LINES),
    (
        "x.csv",
        CSV,
        [{"id": "007", "name": "two\nlines"}, {"id": "2"}],
        ["id   name", "007  two\\nlines", "2    null"],
    ),
    ("x.CSV.gz", gzip.compress(b"a\n1\n"), [{"a": "1"}], ["a", "1"]),
    (
        "x.jsonl",
        JSON,
        [{"id": 1, "a": {"b": [1]}}, {"c": "é"}],
        ["id    a           c", '1     {"b": [1]}  null', "null  null        é"],
    ),
    ("x.ndjson.gz", gzip.compress(b'{"a": 1}\n'), [{"a": 1}], ["a", "1"]),
    ("x.json", b"[\n1]\n", [{"line": "["}, {"line": "1]"}], ["[", "1]"]),
    (
        "readme",
        b"one\r\ntwo\xff\nend",
        [{"line": "one"}, {"line": "two\\xff"}],
        ["one", "two\\xff"],
    ),
    ("x.gz", gzip.compress(b"text\n"), [{"line": "text"}], ["text"]),
    ("empty.csv", b"a,b\n", [], ["no rows"]),
]


@pytest.mark.parametrize(("name", "content", "rows", "lines"), FORMS, ids=[f[0] for f in FORMS])
def test_head_shows_rows_or_lines(cli, repo, name, content, rows, lines):
    repo.branch("main").put(f"in/{name}", content)
    assert cli("head", "-n", "2", f"main:in/{name}").out.splitlines() == lines
    assert cli("head", "-n", "2", f"main:in/{name}", "--json").lines == rows
    assert cli("head", "-n", "0", f"main:in/{name}").out == ""


def test_head_of_a_folder_shows_the_rows_of_its_tables(cli, repo):
    main = repo.branch("main")
    for name, body in {
        "_SUCCESS": b"",
        "a.csv": b"n\n1\n",
        "b.csv": b"n\n2\n3\n",
        "c.txt": b"x\n",
    }.items():
        main.put(f"out/{name}", body)
    for path in ("out", "out/", "out/*"):
        assert cli("head", f"main:{path}", "-n", "2", "--json").lines == [{"n": "1"}, {"n": "2"}]
    assert cli("head", "main:out/[b]*", "--json").lines == [{"n": "2"}, {"n": "3"}]


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.csv.gz"])
def test_a_file_that_is_not_what_its_name_says_is_named(cli, repo, name):
    repo.branch("main").put(name, b"not this, but text that is long enough")
    said = cli("head", f"main:{name}")
    assert (said.code, f"{name!r} cannot be read as" in said.err) == (1, True), said.err


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_head_reads_a_part_of_a_large_file(cli, repo, monkeypatch, form):
    file, read = io.BytesIO(), []
    table = pa.table({"n": range(3_000_000)})
    if form == "csv":
        file.write(b"n\n" + b"\n".join(b"%d" % number for number in range(3_000_000)))
    else:
        pyarrow.parquet.write_table(table, file, use_dictionary=False, compression="none")
    repo.branch("main").put(f"x.{form}", file.getvalue())

    def some(start, length):
        read.append(piece := file.getvalue()[start : start + length])
        return piece

    def ranged(_, entry):
        return io.BufferedReader(RangedFile(entry.size, some))

    monkeypatch.setattr(views, "open_entry", ranged)
    assert cli("head", f"main:x.{form}", "-n", "3", "--json").lines[2]["n"] in (2, "2")
    assert 0 < sum(map(len, read)) < len(file.getvalue()) / 5


def test_a_wide_table_is_cut_on_a_terminal_only(cli, repo, terminal):
    names = [f"column{number}" for number in range(30)]
    repo.branch("main").put("x.csv", f"{','.join(names)}\n{','.join(['v' * 60] * 30)}\n".encode())
    lines = cli("head", "main:x.csv").out.splitlines()
    assert lines[0].split() == names[:1]
    assert lines[1:] == ["v" * 39 + "…", "… 29 more columns: --json has all"]


def test_cat_writes_bytes_and_json_has_text_or_base64(cli, history):
    main = history.branch("main")
    main.put("b", b"\xff")
    assert cli("cat", "main:readme.txt", "main:b").raw == b"hello\xff"
    assert cli("cat", "main@:readme.txt", "main:b", "--json").lines == [
        {"path": "readme.txt", "size": 5, "text": "hello", "base64": None},
        {"path": "b", "size": 1, "text": None, "base64": "/w=="},
    ]
