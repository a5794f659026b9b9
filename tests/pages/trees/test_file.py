"""The page of a file: rows, columns, versions, origin, and bytes that cannot be read."""

import gzip
import io
from contextlib import suppress

import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from graveler.errors import GateFailedError
from graveler.gates import Gate
from graveler.lake import Origin

TABLE = pa.table({"id": [1, 20, 3], "name": ["ann", None, "<b>"], "n": [[1], [], None]})


def parquet(table=TABLE, **options):
    file = io.BytesIO()
    pyarrow.parquet.write_table(table, file, **options)
    return file.getvalue()


def feather(table=TABLE):
    file = io.BytesIO()
    pyarrow.feather.write_feather(table, file)
    return file.getvalue()


FORMS = [
    ("x.parquet", parquet(), "rows", ["1", "ann", "[1]"]),
    ("x.arrow", feather(), "rows", ["1", "ann", "[1]"]),
    ("x.csv", b"a,b\n1,two\n", "rows", ["1", "two"]),
    ("x.csv.gz", gzip.compress(b"a\n1\n"), "rows", ["1"]),
    ("x.jsonl", b'{"a": 1}\n{"b": "<i>"}\n', "rows", ["1", ""]),
    ("x.json", b"[\n1]\n", "lines", ["["]),
    ("readme", b"one\r\n\xc3\xa9\n", "lines", ["one"]),
    ("page.html", b"<script>alert(1)</script>", "lines", ["<script>alert(1)</script>"]),
    ("x.gz", gzip.compress(b"text\n"), "lines", ["text"]),
    ("x.bin", b"\0\1\2", "binary", None),
    ("x.png", b"\x89PNG\r\n", "binary", None),
    ("x.txt", b"", "lines", None),
    ("empty.csv", b"", "lines", None),
]


@pytest.mark.parametrize(("name", "content", "kind", "first"), FORMS, ids=[f[0] for f in FORMS])
def test_the_first_rows_or_lines_are_shown(look, main, name, content, kind, first):
    main.put(name, content)
    main.commit("one")
    seen = look("file", path=name)
    head = seen.values["head"]
    assert (seen.status, head.kind, head.verified, head.problem) == (200, kind, True, "")
    assert [*head.cells[:1]] == ([] if first is None else [first])
    assert f"graveler --repo flights get main:{name} ." in seen.text
    assert f"grav://flights/main/{name}" in seen.text


def test_columns_have_nulls_and_bounds_by_the_footer(look, main):
    main.put("x.parquet", parquet())
    main.put("x.arrow", feather())
    main.commit("one")
    seen = look("file", path="x.parquet")
    assert seen.values["schema"].rows == 3
    assert seen.rows(1)[:2] == [
        ["id", "int64", "yes", "0", "1", "20"],
        ["name", "string", "yes", "1", "<b>", "ann"],
    ]
    assert [row[:2] for row in look("file", path="x.arrow").rows(1)][:2] == [
        ["id", "int64"],
        ["name", "string"],
    ]


def test_long_tables_are_cut_and_say_so(look, main, monkeypatch):
    wide = pa.table({f"c{number:03}": ["x" * 500] * 30 for number in range(300)})
    for name, content in [("w.parquet", parquet(wide)), ("w.arrow", feather(wide))]:
        main.put(name, content)
    main.put("t.txt", b"line\n" * 30)
    main.commit("wide")
    for name in ("w.parquet", "w.arrow"):
        seen = look("file", path=name)
        head = seen.values["head"]
        assert (len(head.cells), len(head.columns), head.more) == (20, 40, True)
        assert {len(cell) for row in head.cells for cell in row} == {200}
        assert (len(seen.values["schema"].fields), seen.values["schema"].hidden) == (200, 100)
        assert f"graveler --repo flights head -n 1000 main:{name}" in seen.text
    assert len(look("file", path="t.txt").values["head"].cells) == 20
    monkeypatch.setattr("graveler.pages.trees.tables.PARTS", 299)
    schema = look("file", path="w.parquet").values["schema"]
    assert (schema.fields[0].least, "bounds are left out" in schema.note) == ("", True)
    monkeypatch.setattr("graveler.pages.trees.tables.FOOTER_BYTES", 10)
    assert "not read" in look("file", path="w.parquet").values["schema"].note


@pytest.mark.parametrize("name", ["x.parquet", "x.csv", "x.txt"])
def test_a_large_file_is_read_in_part(look, main, repo, monkeypatch, name):
    numbers = pa.table({"n": range(1_000_000)})
    text = b"n\n" + b"\n".join(b"%d" % number for number in range(1_000_000))
    plain = parquet(numbers, use_dictionary=False, compression="none", row_group_size=100_000)
    main.put(name, plain if name == "x.parquet" else text)
    main.commit("large")
    read, store = [], type(repo.stores.objects)
    whole = store.get_range

    def get_range(self, key, start, length, expected):
        read.append(length)
        return whole(self, key, start, length, expected)

    monkeypatch.setattr(store, "get_range", get_range)
    seen = look("file", path=name)
    assert (seen.values["head"].problem, seen.values["head"].verified) == ("", False)
    assert 0 < sum(read) < 2_000_000
    assert "its checksum was not compared" in seen.text
    monkeypatch.setattr("graveler.pages.trees.tables.READ_BYTES", 1_000)
    assert "a page reads no more" in look("file", path=name).text


def test_an_arrow_file_with_one_large_batch_is_not_read(look, main, monkeypatch):
    monkeypatch.setattr("graveler.pages.trees.tables.WHOLE_BYTES", 0)
    monkeypatch.setattr("graveler.pages.trees.tables.READ_BYTES", 50_000)
    main.put("x.arrow", feather(pa.table({"n": [f"{number:09}" for number in range(9_000)]})))
    main.commit("one")
    seen = look("file", path="x.arrow")
    assert (seen.status, "a page reads no more" in seen.text) == (200, True)


@pytest.mark.parametrize("name", ["x.parquet", "x.arrow", "x.csv.gz", "x.txt"])
def test_bytes_that_cannot_be_read_are_told(look, main, repo, name):
    main.put(name, b"not this, but text that is long enough")
    main.commit("one")
    seen = look("file", path=name)
    assert (seen.status, name == "x.txt" or "cannot be read as" in seen.text) == (200, True)
    address = main.stat(name).address
    repo.stores.objects.put(address, b"damaged: it has the very same sizes.!!")
    assert "its entry has" in look("file", path=name).text
    repo.stores.objects.delete(address)
    seen = look("file", path=name)
    assert (seen.status, "are gone" in seen.text) == (200, True)
    assert seen.values["versions"]


def test_versions_are_the_commits_that_changed_it(look, main):
    for number in range(15):
        main.put("a", b"x" * number) if number != 5 else main.delete("a")
        main.put("b", str(number).encode())
        main.commit(f"number {number}", committer="ann")
    seen = look("file", path="a")
    rows = [row for row in seen.rows() if "number" in row[0]]
    assert [row[0] for row in rows] == [f"number {n} by ann" for n in range(14, 4, -1)]
    assert (rows[0][2], rows[-1][2]) == ("14 B", "removed")
    assert "graveler --repo flights log --first-parent main a" in seen.text
    assert {
        look(link).status for link in seen.links("file", "compare", "commit") if "%40" not in link
    } == {200}
    old = look("file", path="a", at="main~12")
    assert (old.values["entry"].size, len(old.values["versions"])) == (2, 3)
    assert "--first-parent" not in old.text


def test_a_version_that_is_too_far_back_is_told(look, main, monkeypatch):
    main.put("a", b"1")
    main.commit("old")
    for number in range(5):
        main.put("b", str(number).encode())
        main.commit("more")
    monkeypatch.setattr("graveler.pages.trees.tables.COMMITS", 3)
    seen = look("file", path="a")
    assert (seen.values["versions"], seen.values["why"]) == ([], None)
    assert "graveler --repo flights why a:main" in seen.text
    monkeypatch.setattr("graveler.pages.trees.tables.LOOKS", 6)
    assert "graveler --repo flights log --first-parent main a" in look("file", path="a").text


def test_it_says_who_made_it_and_from_what(look, main, repo):
    main.put("in/a.csv", b"a\n1\n")
    main.commit("landed", committer="ann")

    def full(candidate):
        candidate.report(rows=1)

    origin = Origin("airflow", job="hourly", url="https://airflow/r1").metadata()
    with repo.run("hour 05", gates=[Gate("full", full)], metadata=origin) as run:
        with run.step("ingest", try_number=2) as step:
            step.put("out/a.csv", step.get("in/a.csv") + b"2\n")
    seen = look("file", path="out/a.csv")
    for word in (
        "hour 05",
        "attempt 1",
        "PUBLISHED",
        "full",
        "in/ at",
        "ingest, try 2",
        "hourly",
    ):
        assert word in seen.text, word
    (link,) = [link for link in seen.links("files") if link.endswith("path=in%2F")]
    assert look(link).values["whole"].files == 1
    assert "no input was recorded" in look("file", path="in/a.csv").text
    with suppress(GateFailedError), repo.run("hour 06", gates=[lambda candidate: "no"]) as run:
        run.put("out/b.csv", b"1")
    assert look("file", path="out/b.csv").status == 404


def test_a_file_and_a_folder_of_one_name_lead_to_each_other(look, repo, main):
    main.put("x", b"1")
    main.put("x/y", b"2")
    main.commit("both")
    seen = look("file", path="x")
    assert "a folder of this name" in seen.text
    assert {look(link).status for link in seen.links("files", "file")} == {200}


def test_metadata_of_strangers_is_text_and_cut(look, main):
    pairs = {f"<b>{number}": "v" * 2_000 for number in range(25)}
    main.put("a", b"1", content_type="text/html", metadata=pairs)
    main.commit("\x1b[31m<script>")
    seen = look("file", path="a")
    assert (seen.html.count("v" * 299), seen.html.count("v" * 300)) == (25, 0)
    assert "<script" not in seen.html


def test_without_a_path_all_files_are_shown(look):
    assert look("file").page.template == "files"


TIMES = {
    "year 148097": (pa.array([2**62], pa.timestamp("us")), "out of range"),
    "year 17036": (pa.array([2**62], pa.timestamp("us", "UTC")), "17036"),
    "a far day": (pa.array([2**30], pa.int32()).cast(pa.date32()), "out of range"),
    "a long time": (pa.array([2**62], pa.duration("s")), str(2**62)),
    "no such zone": (pa.array([0], pa.timestamp("us", "Mars/Base")), "1970-01-01 00:00:00"),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_that_python_has_not_are_shown(look, main, name):
    values, shown = TIMES[name]
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table({"id": [1], "at": values}), file)
    main.put("a.parquet", file.getvalue())
    main.commit("times")
    seen = look("file", path="a.parquet")
    assert seen.status == 200
    (row,) = seen.rows(0)
    assert (row[0], shown in row[1]) == ("1", True)
    assert [field.name for field in seen.values["schema"].fields] == ["id", "at"]


def test_a_number_of_rows_that_is_none_is_left_out(look, main):
    main.put("t/a.csv", b"a\n1\n", metadata={"graveler.rows": "9" * 5000})
    main.commit("rows")
    assert look("files", path="t/").rows()[0][3] == ""
