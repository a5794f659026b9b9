"""The page of a comparison agrees with the differences, and says what a merge would do."""

import io
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet
import pytest

from graveler import checks
from graveler.model import Entry
from graveler.testing.world import link_unseen


def parquet(**columns):
    file = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), file)
    return file.getvalue()


@pytest.fixture
def sides(repo, main):
    """main, and dev, which adds, changes and removes."""
    main.put_many({f"in/{n}": b"1" for n in range(3)} | {"gone": b"22", "both": b"0"})
    main.commit("start", committer="ann")
    dev = repo.create_branch("dev")
    dev.put_many({"in/0": b"123", "out/a/1": b"1", "out/b/2": b"1"})
    dev.delete("gone")
    dev.commit("dev", committer="bob")
    return dev


def test_totals_folders_and_files(look, sides):
    seen = look("compare", left="main", right="dev")
    total = seen.values["total"]
    assert (total.added, total.changed, total.removed, total.before, total.after) == (2, 1, 1, 3, 5)
    assert seen.rows(0) == [
        ["/", "\N{MINUS SIGN}1", "2 B", "0 B"],
        ["in/", "~1", "1 B", "3 B"],
        ["out/", "+2", "0 B", "2 B"],
    ]
    assert [row[:2] for row in seen.rows(1)] == [
        ["removed", "gone"],
        ["changed", "in/0"],
        ["added", "out/a/1"],
        ["added", "out/b/2"],
    ]
    assert {look(link).status for link in seen.links("compare", "file", "commit")} == {200}
    below = look("compare", left="main", right="dev", path="out/")
    assert [row[0] for row in below.rows(0)] == ["out/a/", "out/b/"]


def test_without_parameters_it_shows_the_last_commit(look, repo, main):
    assert "No file differs" in look("compare").text
    main.put("a", b"1")
    main.commit("one")
    seen = look("compare")
    assert (seen.values["sides"].left, seen.values["total"].added) == ("main~1", 1)
    other = look("compare", right="main", left="main")
    assert "No file differs" in other.text


def test_two_times_of_a_branch(look, main, world):
    for number in range(3):
        world.clock.advance(hours=1)
        main.put(str(number), b"1")
        main.commit(str(number))
    now, hour = world.clock.now(), timedelta(hours=1)
    times = {
        "left_when": (now - hour).isoformat(),
        "right_when": f"{now + hour:%Y-%m-%dT%H:%M}",
    }
    seen = look("compare", left="main", right="main", **times)
    assert [change.path for change in seen.values["changes"]] == ["2"]
    assert look("compare", left="main", right="main", left_when="1999-01-01").status == 404
    moved = look("compare", left="main", left_move="2", right="main", right_move="1")
    assert [change.path for change in moved.values["changes"]] == ["1"]


def test_what_a_page_does_not_count_is_named(look, main, monkeypatch):
    names = [f"d{n:02}/f{m}" for n in range(60) for m in range(4)]
    link_unseen(main, [Entry(name, f"data/{name}", 1, "sha256:0") for name in names])
    main.commit("many")
    seen = look("compare")
    assert (seen.values["total"].files, seen.values["hidden_folders"]) == (240, 10)
    assert (len(seen.rows(0)), len(seen.rows(1))) == (50, 100)
    assert "graveler --repo flights diff main~1 main" in seen.text.replace("'", "")
    monkeypatch.setattr("graveler.pages.trees.comparison.COUNTED", 7)
    seen = look("compare")
    assert (seen.values["total"].files, "graveler --repo flights diff --stat" in seen.text) == (
        7,
        True,
    )


def test_columns_and_rows_of_a_table(look, main):
    main.put("t/x.parquet", parquet(id=[1, 2, 3], a=["x", "y", "z"], old=[1, 1, 1]))
    main.put("u.csv", b"id\n1\n")
    main.commit("before")
    main.put("t/x.parquet", parquet(id=[1, 2, 4], a=["x", "<Y>", "w"], new=[1.0, 1.0, 1.0]))
    main.put("u.csv", b"id\n2\n")
    main.commit("after")
    assert "choose a folder or a file" in look("compare").text
    seen = look("compare", path="t/", key="id")
    assert seen.values["schemas"].columns == [("old", "int64", ""), ("new", "", "double")]
    rows = seen.values["rows"].rows
    assert [(row.kind, row.key) for row in rows] == [
        ("changed", "id=1"),
        ("changed", "id=2"),
        ("removed", "id=3"),
        ("added", "id=4"),
    ]
    assert ("a", "y", "<Y>") in rows[1].cells
    text = look("compare", path="u.csv", key="id")
    assert [row.kind for row in text.values["rows"].rows] == ["removed", "added"]
    assert "do not have" in text.text


def test_an_appended_table_is_compared_with_what_is_there(look, main):
    main.put("t/1.parquet", parquet(id=[1]))
    main.commit("one")
    main.put("t/2.parquet", parquet(id=["a"]))
    main.commit("two")
    assert look("compare", path="t/").values["schemas"].columns == [("id", "int64", "string")]


LARGE = b"id\n" + b"1234567\n" * (1 << 20)
ODD = [
    ({"t/x.csv": b"id\n1\n1\n"}, "id", "several rows of the table have id=1"),
    ({"t/x.csv": b"id\n1\n"}, "no", "no column &#39;no&#39;"),
    ({"t/x.csv": LARGE}, "id", "more than 8 MiB"),
    ({f"t/{n}.csv": b"id\n1\n" for n in range(51)}, "id", "more than 50"),
    ({"t/x.csv.gz": b"?"}, "id", "is packed"),
    ({"t/x.parquet": b"?" * 20}, "id", "cannot be read as Parquet"),
    ({"t/x.parquet": parquet(id=[1] * 2_000_001)}, "id", "more than 2,000,000 values"),
    ({"t/x.csv": b"id\n1\n", "t/y.parquet": parquet(id=["a"])}, "id", "of several tables"),
]


@pytest.mark.parametrize(("files", "key", "told"), ODD, ids=[odd[2] for odd in ODD])
def test_rows_that_are_not_compared_name_the_command(look, main, files, key, told):
    main.put_many(files)
    main.commit("odd")
    seen = look("compare", path="t/", key=key)
    assert (seen.status, told in seen.html) == (200, True), seen.values["rows"]
    assert f"graveler --repo flights diff --rows {key}" in seen.text


def test_a_merge_is_shown_with_conflicts_and_gates(look, sides, repo, main):
    repo.gates.require("ma*", checks.file_size("in/"))
    clean = look("compare", left="main", right="dev")
    preview = clean.values["merge"].preview
    assert (preview.added, preview.changed, preview.removed, preview.conflict_count) == (2, 1, 1, 0)
    assert "graveler --repo flights merge --dry-run dev main" in clean.text
    ((name, check, parameters),) = clean.values["merge"].gates
    assert (name, check, '"prefix": "in/"' in parameters) == ("file_size", "file_size", True)
    for branch, body in ((sides, b"dev"), (main, b"of main")):
        branch.put("both", body)
        branch.commit(f"{branch.name} changes both", committer="eve")
    seen = look("compare", left="main", right="dev")
    (row,) = [row for row in seen.rows(2) if row[0] == "both"]
    assert (row[1], row[2][:3], row[3][:3]) == ("1 B", "7 B", "3 B")
    assert main.head.id[:12] in row[2]
    assert sides.head.id[:12] in row[3]
    links = [link for link in seen.links("compare") if link.endswith("&path=both")]
    assert [look(link).values["total"].files for link in links] == [1, 1]  # file and conflict
    repo.merge("dev", into="main", strategy="source-wins")
    assert "there is nothing to merge" in look("compare", left="main", right="dev").text


def test_a_merge_that_cannot_be_made_says_why(look, sides, repo):
    for left, told in [("main~1", "give a branch"), ("dev", "both sides are one branch")]:
        assert told in look("compare", left=left, right="dev").text
    repo.protection.add("main", ["merge"])
    assert "protected" in look("compare", left="main", right="dev").text


def test_a_long_merge_is_counted_up_to_a_limit(look, sides, monkeypatch):
    monkeypatch.setattr("graveler.pages.trees.comparison.MERGED", 2)
    seen = look("compare", left="main", right="dev")
    assert (
        "There are more than a page counts: graveler --repo flights merge --dry-run dev main"
        in seen.text
    )


@pytest.mark.parametrize("dictionary", [True, False])
def test_rows_that_unpack_to_much_memory_are_not_compared(look, main, dictionary):
    for rows in (1, 300):
        file = io.BytesIO()
        table = pa.table({"id": range(rows), "text": ["x" * (1 << 20)] * rows})
        pyarrow.parquet.write_table(table, file, use_dictionary=dictionary, compression="zstd")
        main.put("t.parquet", file.getvalue())
        main.commit(f"{rows} rows of one MiB")
    rows = look("compare", path="t.parquet", key="id").values["rows"]
    assert (rows.rows, "unpacked" in rows.problem) == ((), True)
