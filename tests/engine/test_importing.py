"""Imports of folders, buckets and inventories: atomic, and with the metadata of the source."""

import csv
import errno
import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from graveler.errors import (
    GravelerError,
    InvalidInputError,
    ObjectNotFoundError,
    PermissionDeniedError,
    RetryableError,
    SourceChangedError,
)
from graveler.repository.imports import files, importer
from graveler.repository.writes import bundles
from tests.harness.worlds import FAULTS, struck_worlds, tree

FILES = {f"{hour}/part-{part}.csv": f"{hour} {part}" for hour in ("05", "06") for part in range(3)}


@pytest.fixture(params=["one chunk", "many chunks"])
def chunks(request, monkeypatch):
    if request.param == "many chunks":
        monkeypatch.setattr(bundles, "CHUNK", 2)
        monkeypatch.setattr(importer, "_CHUNK", 2)


def fill(folder, contents=None):
    for path, text in (FILES if contents is None else contents).items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


@pytest.fixture
def landing(tmp_path):
    return fill(tmp_path / "landing")


@pytest.fixture
def main(repo, landing):
    repo.links.allow(str(landing))
    return repo.branch("main")


def rows(folder):
    """Return the rows of an inventory of a folder."""
    return [
        {
            "path": str(file.relative_to(folder)),
            "address": f"file://{file}",
            "size": file.stat().st_size,
            "mtime": datetime.fromtimestamp(file.stat().st_mtime_ns // 1000 / 1e6, UTC),
        }
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    ]


def write(file, table):
    """Write rows in the format that the file's suffix names."""
    if file.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(table), file, row_group_size=2)
    elif file.suffix == ".orc":
        orc.write_table(pa.Table.from_pylist(table), file)
    else:
        opened = gzip.open if file.suffix == ".gz" else open
        with opened(file, "wt", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(table[0]))
            writer.writeheader()
            writer.writerows(table)
    return file


@pytest.mark.usefixtures("chunks")
def test_a_folder_is_imported_without_its_bytes(repo, main, landing):
    done = main.import_(landing, "input/")
    assert (done.files, done.size, done.removed) == (6, sum(map(len, FILES.values())), 0)
    assert tree(main) == {f"input/{path}": text for path, text in FILES.items()}
    assert not list(repo.stores.objects.list("data/"))
    linked = main.link("input/05/part-0.csv", address=str(landing / "05/part-0.csv"))
    main.commit("imported")
    assert main.stat(linked.path) == linked


def test_the_destination_is_replaced_when_asked(repo, main, landing):
    main.put("input/old", b"old")
    main.put("input/05/part-0.csv", b"old")
    main.put("other", b"other")
    main.commit("before")
    main.import_(f"{landing}/", "input/")
    assert main.exists("input/old")
    (landing / "05/part-1.csv").unlink()
    done = main.import_(landing.as_uri(), "input/", replace=True)
    assert (done.files, done.removed) == (5, 2)
    assert tree(main).keys() == {
        "other",
        *(f"input/{path}" for path in FILES if path != "05/part-1.csv"),
    }


@pytest.mark.parametrize("name", ["i.csv", "i.csv.gz", "i.parquet", "i.orc"])
def test_an_inventory_is_imported_by_its_word(main, landing, tmp_path, name):
    table = rows(landing)
    if name.startswith("i.csv"):
        for row in table:
            row["metadata"] = '{"source": "bts", "format": "9"}' if "-1" in row["path"] else ""
    file = write(tmp_path / name, table)
    assert main.import_(file, "input/").files == 6
    assert tree(main) == {f"input/{path}": text for path, text in FILES.items()}
    found = [dict(entry.metadata) for entry in main.entries()][:3]
    pairs = {"source": "bts", "format": "9"} if name.startswith("i.csv") else {}
    assert found == [{}, pairs, {}]
    (landing / "05/part-0.csv").write_text("changed")
    with pytest.raises(SourceChangedError, match="changed since"):
        main.get("input/05/part-0.csv")
    with pytest.raises(SourceChangedError, match=r"row 1.*7 bytes"):
        main.import_(file, "input/", verify=True)
    (landing / "05/part-0.csv").write_text("05 X")
    with pytest.raises(SourceChangedError, match=r"row 1: .* is at mtime:.*inventory has mtime:"):
        main.import_(file, "input/", verify=True)


@pytest.mark.parametrize("start", ["file://", "", "file:", "file://localhost"])
def test_paths_begin_behind_a_place(main, landing, tmp_path, start):
    table = [{key: row[key] for key in ("address", "size", "mtime")} for row in rows(landing)]
    for row in table:
        row["address"] = start + row["address"].removeprefix("file://")
    file = write(tmp_path / "i.csv", table)
    assert main.import_(file, below=str(landing / "05")).files == 3
    assert tree(main).keys() == {"part-0.csv", "part-1.csv", "part-2.csv"}
    with pytest.raises(InvalidInputError, match=r"row 1: .*has no path"):
        main.import_(file)


def changed(at, **values):
    def change(table):
        table[at] |= values
        return table

    return change


def described(text):
    return lambda table: [{**row, "metadata": text} for row in table]


def without(*names):
    return lambda table: [{key: row[key] for key in row if key not in names} for row in table]


BAD = {
    "a path twice": (changed(4, path="05/part-1.csv"), "row 5: path '05/part-1.csv' is in .*row 2"),
    "a path that is none": (changed(2, path="05//x"), "row 3: path 'in/05//x'"),
    "a size that is none": (changed(3, size="many"), "row 4: size 'many': give a whole"),
    "a size below zero": (changed(5, size=-1), "row 6: .*size=-1"),
    "a time that is none": (changed(1, mtime="yesterday"), "row 2: time 'yesterday': give ISO"),
    "a time too early": (changed(1, mtime="0001-01-01T00:00:00+14:00"), "row 2: time '0001-.*ISO"),
    **{
        f"a size {size!r}": (changed(2, size=size), "row 3: size .*give a whole number of bytes")
        for size in ("1_0", " 10", "+10", "1e1", "1.5", "٣", "")
    },
    "no version": (changed(1, mtime=""), "row 2: .*verify=True"),
    **{
        f"metadata {text[:6]!r}": (described(text), "row 1: metadata .*give a JSON object")
        for text in ("a=b", '["a"]', "[" * 100_000)
    },
    "metadata that is no text": (described('{"a": 1}'), "row 1: .*metadata"),
    "an address that is none": (changed(5, address="s4:/x"), "row 6: .*s4:/x"),
    "no size": (without("size"), "no column size; its columns are path, address, mtime"),
    "no address": (without("address"), "no column address, or bucket and key"),
    "no time": (without("mtime"), r"no column etag \(or look the files up, with verify=True\)"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_rows_are_named_and_the_branch_is_as_it_was(repo, main, landing, tmp_path, case):
    change, said = BAD[case]
    main.put("in/old", b"old")
    before = repo.stores.refs.branches.get("main")
    file = write(tmp_path / "i.csv", change(rows(landing)))
    with pytest.raises(InvalidInputError, match=said) as refused:
        main.import_(file, "in/", replace=True)
    assert "i.csv" in str(refused.value)
    assert repo.stores.refs.branches.get("main") == before
    assert tree(main) == {"in/old": "old"}
    assert not [token for token in repo.stores.staging.tokens() if token.startswith("hold-")]


@pytest.mark.parametrize(
    ("name", "spoil", "said"),
    [
        ("i.csv.gz", lambda raw: raw[:-20], "breaks off after row"),
        ("i.csv.gz", lambda raw: raw[:20] + b"spoilt" + raw[26:], "i.csv.gz"),
        ("i.csv", lambda raw: raw[:-10] + b"\xff\xfe\r\n", "row 6: "),
        ("i.csv", lambda raw: raw + b"1,2\r\n", "row 7: 2 values for 4 columns"),
        ("i.csv", lambda raw: raw + b'"open', "row 7"),
        ("i.csv", lambda raw: raw.replace(b"size", b"Path"), "more than one column 'path'"),
        ("i.parquet", lambda raw: raw[:-30], "not a whole Parquet file"),
        ("i.orc", lambda raw: raw[:-30], "not a whole ORC file"),
        ("i.csv", lambda raw: raw[: raw.index(b"\n") + 1], "names no files"),
        ("i.csv", lambda _: b"", "names no files"),
    ],
)
def test_a_damaged_inventory_is_named(main, landing, tmp_path, name, spoil, said):
    file = write(tmp_path / name, rows(landing))
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises((InvalidInputError, ObjectNotFoundError), match=said):
        main.import_(file, "in/")
    assert tree(main) == {}


@pytest.mark.parametrize("key", ["/absolute.csv", "../outside.csv", "x/../../outside.csv"])
def test_a_manifest_names_no_file_outside_its_folder(main, tmp_path, key):
    here = tmp_path / "inventory" / "date" / "manifest.json"
    here.parent.mkdir(parents=True)
    (tmp_path / "outside.csv").write_text("")
    (tmp_path / "inventory" / "outside.csv").write_text("")
    key = key.replace("/absolute", str(tmp_path / "outside"))
    here.write_text(
        json.dumps({"fileSchema": "Bucket", "fileFormat": "CSV", "files": [{"key": key}]})
    )
    with pytest.raises(InvalidInputError, match="beside the manifest"):
        main.import_(here)


def test_an_inventory_that_cannot_be_read_is_named(main, landing, tmp_path, monkeypatch):
    file = write(tmp_path / "i.csv", rows(landing))
    opened = Path.open

    def failing(path, *given, **named):
        if path == file:
            raise OSError(errno.EIO, "Input/output error")
        return opened(path, *given, **named)

    monkeypatch.setattr(Path, "open", failing)
    with pytest.raises(RetryableError, match=r"cannot read \S+i\.csv: Input/output error"):
        main.import_(file)


def test_an_inventory_that_changes_while_it_is_read_is_named(main, landing, tmp_path, monkeypatch):
    file = write(tmp_path / "i.csv", rows(landing))

    class Grows:
        def update(self, _piece):
            with file.open("ab") as out:
                out.write(b"\r\n" * 100)

    monkeypatch.setattr(files, "PIECE_BYTES", 64)
    monkeypatch.setattr(files, "md5", lambda **_: Grows())
    with pytest.raises(SourceChangedError, match="changed while it was read"):
        main.import_(file)


def test_places_that_are_not_declared_are_refused(repo, main, landing, tmp_path):
    other = fill(tmp_path / "other")
    with pytest.raises(PermissionDeniedError, match=r"links\.allow"):
        main.import_(other)
    file = write(tmp_path / "i.csv", rows(landing) + rows(other))
    with pytest.raises(PermissionDeniedError, match=r"row 7: .*links\.allow"):
        main.import_(file)
    for uri in ("s3://bucket/prefix/", "s3://bucket/manifest.json"):
        with pytest.raises(PermissionDeniedError):
            main.import_(uri)
    assert tree(main) == {}


HOSTILE = {
    "bytes": ({"path": b"a"}, "path b'a': give text"),
    "a number": ({"path": 5}, "path 5: give text"),
    "an address of bytes": ({"address": b"a"}, "address b'a': give text"),
    "no address": ({"address": None}, "the address, or bucket and key, is missing"),
    "a bucket alone": ({"address": "s3://bucket", "path": None}, "'s3://bucket' has no path"),
    "an infinite size": ({"size": float("inf")}, "size inf: give a whole number"),
    "after the year 9999": ({"mtime": pa.scalar(2**62, pa.timestamp("us"))}, ""),
    "an unknown zone": ({"mtime": pa.scalar(0, pa.timestamp("us", tz="Nowhere/Land"))}, ""),
    "a long duration": ({"mtime": pa.scalar(2**62, pa.duration("us"))}, ""),
    "a date": ({"mtime": pa.scalar(2**30, pa.date32())}, ""),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_columns_of_another_type_are_refused(main, landing, tmp_path, case):
    change, said = HOSTILE[case]
    row = rows(landing)[0] | change
    columns = {name: pa.array([value]) for name, value in row.items()}
    pq.write_table(pa.table(columns), tmp_path / "i.parquet", store_schema=True)
    with pytest.raises(GravelerError, match=f"row 1: .*{said}" if said else None):
        main.import_(tmp_path / "i.parquet", verify=False)
    assert tree(main) == {}


@pytest.mark.parametrize(
    ("source", "options", "said"),
    [
        ("none", {}, "no such folder"),
        ("landing/05/part-0.txt", {}, "ends with .csv"),
        ("landing", {"below": "/x"}, "it is for inventories"),
        ("landing", {"prefix": "in"}, "'in/'"),
        ("empty", {}, "names no files"),
    ],
)
def test_sources_that_make_no_sense_are_refused(main, landing, tmp_path, source, options, said):
    (landing / "05/part-0.txt").write_text("x")
    (landing.parent / "empty").mkdir()
    main.repository.refs.links.add(f"file://{tmp_path}/empty")
    with pytest.raises((InvalidInputError, ObjectNotFoundError), match=said):
        main.import_(tmp_path / source, **options)


def test_files_of_a_repository_are_not_imported(lake, repo, main, landing, tmp_path):
    entry = main.put("own", b"own")
    other = lake.create_repository("other").branch("main").put("x", b"x")
    uris = [main.uri(entry), lake.repository("other").branch("main").uri(other)]
    for uri, said in zip(uris, ("branch.copy", "repository 'other'"), strict=True):
        row = {"path": "x", "address": uri, "size": 3, "mtime": datetime(2013, 1, 1, tzinfo=UTC)}
        with pytest.raises(InvalidInputError, match=f"row 1: .*{said}"):
            main.import_(write(tmp_path / "i.csv", [row]))


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("chunks")
def test_a_fault_at_any_call_leaves_all_or_nothing(fault, landing):
    def prepare(repo):
        repo.links.allow(str(landing))
        repo.branch("main").put("in/old", b"old")

    def work(repo):
        repo.branch("main").import_(landing, "in/", replace=True)

    before, after = {"in/old": "old"}, {f"in/{path}": text for path, text in FILES.items()}
    for world, what, error in struck_worlds(fault, prepare, work):
        repo = world.repo(scripted=False)
        shown = tree(repo.branch("main"))
        assert shown in ([after] if error is None else [before, after]), what
        assert error is None or not isinstance(error, InvalidInputError), what
        work(repo)
        assert tree(repo.branch("main")) == after, what
        repo.branch("main").commit("all")
        assert tree(repo.ref("main")) == after, what


def test_names_and_patterns_are_left_out(main, landing, tmp_path):
    odd = os.fsdecode(b"caf\xe9")
    fill(landing, dict.fromkeys(("_SUCCESS", "05/_SUCCESS", "a[1].csv", "a1.csv", odd), ""))
    left_out = ["**/_SUCCESS", "a[1].csv", "06/", odd]
    assert main.import_(landing, "in/", exclude=left_out).files == 3
    kept = {f"in/05/part-{part}.csv" for part in range(3)}
    assert set(tree(main)) == kept
    inventory = tmp_path / "inventory.csv"
    lines = [f"{landing / path},{len(text)}" for path, text in FILES.items()]
    inventory.write_text("\n".join(["address,size", *lines]))
    main.import_(inventory, "06/", below=str(landing / "06"), exclude=["*-0.csv"], verify=True)
    assert set(tree(main)) == {*kept, "06/part-1.csv", "06/part-2.csv"}


@pytest.mark.parametrize(
    "target", ["05/part-0.csv", "/etc/hostname", "nowhere", "06/link", "05", None]
)
def test_what_is_no_file_or_no_path_is_named_and_can_be_left_out(main, landing, target):
    if target is None:
        (landing / "06" / "a\\b.csv").write_text("1")
    else:
        (landing / "06" / "link").symlink_to(landing / target)
    said = r"06/a.*b.csv.*leave .* out" if target is None else "'link' is a symbolic link"
    with pytest.raises((PermissionDeniedError, InvalidInputError), match=said):
        main.import_(landing)
    assert main.import_(landing, exclude=["06/link", "06/a*b.csv"]).files == len(FILES)


def test_a_folder_that_became_a_link_is_not_deleted(main, landing):
    main.import_(landing, "input/")
    (landing / "05").rename(landing.parent / "moved")
    (landing / "05").symlink_to(landing.parent / "moved")
    with pytest.raises(PermissionDeniedError, match="'05' is a symbolic link"):
        main.import_(landing, "input/", replace=True)
    assert len(list(main.entries("input/"))) == len(FILES)
