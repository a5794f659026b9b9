"""Imports of folders, buckets and inventories: atomic, and with the metadata of the source."""

import csv
import gzip
import io
import json
import os
import sys
from datetime import UTC, datetime
from hashlib import md5

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

import graveler
from graveler.errors import (
    CorruptionError,
    GravelerError,
    InvalidInputError,
    MissingDependencyError,
    ObjectNotFoundError,
    PermissionDeniedError,
    ProtectedBranchError,
    SourceChangedError,
)
from graveler.objects.s3 import S3Store
from graveler.repository.imports import files, importer, listing
from graveler.repository.writes import bundles
from graveler.staging.area import StagingArea
from tests.harness.worlds import FAULTS, ScriptedWorld, struck_worlds, tree

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


@pytest.mark.usefixtures("chunks")
def test_the_destination_is_replaced_when_asked(repo, main, landing):
    main.put("input/old", b"old")
    main.put("other", b"other")
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
@pytest.mark.usefixtures("chunks")
def test_an_inventory_is_imported_by_its_word(main, landing, tmp_path, name):
    file = write(tmp_path / name, rows(landing))
    assert main.import_(file, "input/").files == 6
    assert tree(main) == {f"input/{path}": text for path, text in FILES.items()}
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


def test_metadata_is_a_json_object_in_a_csv_file(main, landing, tmp_path):
    table = rows(landing)
    for row in table:
        row["metadata"] = ""
    table[1]["metadata"] = '{"source": "bts", "format": "9"}'
    main.import_(write(tmp_path / "i.csv", table))
    assert [dict(entry.metadata) for entry in main.entries()][:3] == [
        {},
        {"source": "bts", "format": "9"},
        {},
    ]


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
@pytest.mark.usefixtures("chunks")
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
        ("i.parquet", lambda raw: raw[:-30], "not a whole Parquet file"),
        ("i.orc", lambda raw: raw[:-30], "not a whole ORC file"),
        ("i.csv", lambda raw: raw[: raw.index(b"\n") + 1], "names no files"),
        ("i.csv", lambda _: b"", "names no files"),
    ],
)
@pytest.mark.usefixtures("chunks")
def test_a_damaged_inventory_is_named(main, landing, tmp_path, name, spoil, said):
    file = write(tmp_path / name, rows(landing))
    file.write_bytes(spoil(file.read_bytes()))
    with pytest.raises((InvalidInputError, ObjectNotFoundError), match=said):
        main.import_(file, "in/")
    assert tree(main) == {}


HOSTILE_TIMES = {
    "after the year 9999": pa.array([2**62], pa.timestamp("us")),
    "before the year 1": pa.array([-(2**62)], pa.timestamp("us")),
    "an unknown zone": pa.array([0], pa.timestamp("us", tz="Nowhere/Land")),
    "a long duration": pa.array([2**62], pa.duration("us")),
    "a date": pa.array([2**30], pa.date32()),
}


@pytest.mark.parametrize("what", HOSTILE_TIMES)
def test_a_hostile_time_in_an_inventory_ends_in_a_named_error(main, landing, tmp_path, what):
    first = rows(landing)[0]
    times = HOSTILE_TIMES[what]
    table = pa.table({"path": ["a"], "address": [first["address"]], "size": [3], "mtime": times})
    pq.write_table(table, tmp_path / "i.parquet", store_schema=True)
    with pytest.raises(GravelerError):
        main.import_(tmp_path / "i.parquet", verify=False)
    assert tree(main) == {}


def test_a_header_of_many_columns_is_checked_at_once(main, tmp_path):
    names = [f"c{number}" for number in range(20_000)]

    class Counted(str):
        compared = 0

        __hash__ = str.__hash__

        def __eq__(self, other):
            Counted.compared += 1
            return str.__eq__(self, other)

    assert len(list(files.rows_of_table(io.BytesIO(b"1\n"), "i.csv", ["a"]))) == 1
    twice = [*map(Counted, names), Counted("c0")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "plain", lambda name: name)
        with pytest.raises(InvalidInputError, match="'c0'"):
            list(files.rows_of_table(io.BytesIO(b"1\n"), "i.csv", twice))
    assert Counted.compared < 10 * len(names)


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
    with pytest.raises(PermissionDeniedError):
        main.import_("s3://bucket/prefix/")
    with pytest.raises(PermissionDeniedError):
        main.import_("s3://bucket/manifest.json")
    assert tree(main) == {}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"path": b"a"}, "path b'a': give text"),
        ({"path": 5}, "path 5: give text"),
        ({"address": b"a"}, "address b'a': give text"),
        ({"address": None}, "the address, or bucket and key, is missing"),
        ({"address": "s3://bucket", "path": None}, "'s3://bucket' has no path"),
        ({"size": float("inf")}, "size inf: give a whole number"),
    ],
)
def test_columns_of_another_type_are_refused(main, landing, tmp_path, change, said):
    (row, *_) = rows(landing)
    with pytest.raises(InvalidInputError, match=f"row 1: .*{said}"):
        main.import_(write(tmp_path / "i.parquet", [{**row, **change}]))
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


def test_a_protected_branch_refuses_an_import(repo, main, landing):
    repo.protection.add("main")
    with pytest.raises(ProtectedBranchError):
        main.import_(landing)


def test_without_pyarrow_the_error_names_the_extra(main, landing, tmp_path, monkeypatch):
    file = write(tmp_path / "i.parquet", rows(landing))
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match=r"graveler\[gates\]"):
        main.import_(file)


# an inventory of S3: a manifest, and files without a header line


@pytest.fixture
def bucket(tmp_path, s3_bucket, s3_options):
    """A lake that may link files below two prefixes of a bucket, and a client of the bucket."""
    settings = "\n".join(f'{key} = "{value}"' for key, value in s3_options.items())
    (tmp_path / "lake").mkdir()
    (tmp_path / "lake/graveler.toml").write_text(f"format = 1\n[s3]\n{settings}\n")
    client = boto3.client(
        "s3",
        endpoint_url=s3_options["endpoint_url"],
        aws_access_key_id=s3_options["access_key"],
        aws_secret_access_key=s3_options["secret_key"],
        region_name=s3_options.get("region", "us-east-1"),
    )
    with graveler.open(tmp_path / "lake") as lake:
        repo = lake.create_repository("flights")
        for place in ("raw", "inventory"):
            repo.links.allow(f"s3://{s3_bucket}/{place}")
        yield repo.branch("main"), client, s3_bucket


def md5_of(body):
    return md5(body, usedforsecurity=False).hexdigest()


def put_inventory(client, bucket, kind, keys, *, digest=None, versions=False):
    table = []
    for key in keys:
        head = client.head_object(Bucket=bucket, Key=key)
        row = {
            "Bucket": bucket,
            "Key": key,
            "Size": head["ContentLength"],
            "LastModifiedDate": head["LastModified"],
            "ETag": head["ETag"].strip('"'),
        }
        if versions:
            old = {**row, "IsLatest": "false", "IsDeleteMarker": "false"}
            table.append({**old, "ETag": "0" * 32})
            row |= {"IsLatest": "true", "IsDeleteMarker": "false"}
        table.append(row)
    if kind == "CSV":
        from urllib.parse import quote_plus

        lines = [
            ",".join(f'"{quote_plus(str(v)) if k == "Key" else v}"' for k, v in row.items())
            for row in table
        ]
        body = gzip.compress("\n".join(lines).encode())
        schema = ", ".join(table[0])
    else:
        names = {"LastModifiedDate": "last_modified_date", "ETag": "e_tag"}
        renamed = [{names.get(k, k.lower()): v for k, v in row.items()} for row in table]
        sink = pa.BufferOutputStream()
        writer = pq.write_table if kind == "Parquet" else orc.write_table
        writer(pa.Table.from_pylist(renamed), sink)
        body, schema = sink.getvalue().to_pybytes(), "message s3.inventory { … }"
    name = f"inventory/data/part.{'csv.gz' if kind == 'CSV' else kind.lower()}"
    client.put_object(Bucket=bucket, Key=name, Body=body)
    manifest = {
        "sourceBucket": bucket,
        "destinationBucket": f"arn:aws:s3:::{bucket}",
        "version": "2016-11-30",
        "fileFormat": kind,
        "fileSchema": schema,
        "files": [{"key": name, "size": len(body), "MD5checksum": digest or md5_of(body)}],
    }
    key = "inventory/2013-01-01T00-00Z/manifest.json"
    client.put_object(Bucket=bucket, Key=key, Body=json.dumps(manifest).encode())
    return f"s3://{bucket}/{key}", manifest, body


KEYS = [f"raw/{name}" for name in ("05/a.csv", "05/b c+d.csv", "größe", "x/y/z")]


@pytest.mark.parametrize("kind", ["CSV", "Parquet", "ORC"])
def test_an_inventory_of_s3_is_imported(bucket, kind):
    main, client, name = bucket
    for key in KEYS:
        client.put_object(Bucket=name, Key=key, Body=key.encode())
    uri, _, _ = put_inventory(client, name, kind, KEYS)
    assert main.import_(uri, "in/", below=f"s3a://{name}/raw/").files == 4
    assert main.get("in/05/b c+d.csv") == b"raw/05/b c+d.csv"
    assert main.import_(uri, "all/", verify=True).files == 4
    assert main.get("all/raw/größe") == "raw/größe".encode()
    (linked,) = [main.link("l", address=f"s3://{name}/raw/x/y/z")]
    assert main.stat("in/x/y/z").version == linked.version
    client.put_object(Bucket=name, Key=KEYS[0], Body=b"raw/05/X.csv")
    with pytest.raises(SourceChangedError):
        main.get("in/05/a.csv")
    with pytest.raises(SourceChangedError, match=r"row 1: .* is at etag:"):
        main.import_(uri, "in/", verify=True)


def test_of_an_inventory_with_versions_the_latest_is_taken(bucket):
    main, client, name = bucket
    for key in KEYS:
        client.put_object(Bucket=name, Key=key, Body=key.encode())
    uri, _, _ = put_inventory(client, name, "CSV", KEYS, versions=True)
    assert main.import_(uri).files == 4
    assert main.get("raw/x/y/z") == b"raw/x/y/z"


def test_a_file_with_another_md5_than_the_manifest_is_refused(bucket):
    main, client, name = bucket
    client.put_object(Bucket=name, Key=KEYS[0], Body=b"x")
    uri, _, _ = put_inventory(client, name, "CSV", KEYS[:1], digest="0" * 32)
    with pytest.raises(CorruptionError, match=r"part\.csv\.gz: its MD5 is"):
        main.import_(uri)
    for manifest in (
        b"{}",
        b"[1]",
        b"no JSON",
        b'{"fileSchema": "", "fileFormat": "X", "files": []}',
    ):
        client.put_object(Bucket=name, Key="inventory/manifest.json", Body=manifest)
        with pytest.raises(InvalidInputError, match=r"manifest\.json"):
            main.import_(f"s3://{name}/inventory/manifest.json")
    assert tree(main) == {}


def test_an_inventory_that_was_downloaded_is_read_from_disk(bucket, tmp_path):
    main, client, name = bucket
    client.put_object(Bucket=name, Key=KEYS[0], Body=b"x")
    _, manifest, body = put_inventory(client, name, "CSV", KEYS[:1])
    here = tmp_path / "2013-01-01T00-00Z" / "manifest.json"
    here.parent.mkdir()
    here.write_text(json.dumps(manifest))
    with pytest.raises(InvalidInputError, match=r"'part\.csv\.gz' beside the manifest"):
        main.import_(here)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "part.csv.gz").write_bytes(body)
    assert main.import_(here).files == 1


def test_a_bucket_is_listed_in_parallel_by_common_prefixes(bucket, monkeypatch):
    main, client, name = bucket
    monkeypatch.setattr(listing, "_PAGE", 2)
    keys = [f"raw/deep/{folder:02}/{number}" for folder in range(12) for number in range(3)]
    for key in [*keys, "raw/top", "raw/deep/file", "rawer/no"]:
        client.put_object(Bucket=name, Key=key, Body=key.encode())
    listed = []
    real = S3Store.list

    def noted(self, prefix="", **options):
        listed.append(prefix)
        return real(self, prefix, **options)

    monkeypatch.setattr(S3Store, "list", noted)
    done = main.import_(f"s3://{name}/raw", "in/")
    assert done.files == 38
    assert sorted(listed) == [f"deep/{folder:02}/" for folder in range(12)]
    assert {entry.path for entry in main.entries()} == {
        "in/" + key.removeprefix("raw/") for key in [*keys, "raw/top", "raw/deep/file"]
    }
    assert main.get("in/deep/03/1") == b"raw/deep/03/1"


# complete imports: compared with a dict, and with faults

PATHS = st.sampled_from([f"{folder}{name}" for folder in ("", "a/", "a/b/") for name in "pqr"])


@settings(max_examples=40, deadline=None)
@given(
    st.lists(PATHS, min_size=1, max_size=9),
    st.sets(PATHS),
    st.sampled_from(["", "a/"]),
    st.booleans(),
    st.booleans(),
)
def test_an_import_does_what_a_dict_does(tmp_path_factory, named, old, prefix, replace, small):
    folder = tmp_path_factory.mktemp("import")
    world = ScriptedWorld()
    main = world.repo(scripted=False).branch("main")
    world.repo(scripted=False).links.allow(str(folder))
    for path in old:
        main.put(path, b"old")
    before = tree(main)
    table = []
    for path in named:
        file = folder / path.replace("/", "-")
        file.write_text(path)
        table.append({**rows(folder)[0], "path": path, "address": str(file), "size": len(path)})
        table[-1]["mtime"] = datetime.fromtimestamp(file.stat().st_mtime_ns // 1000 / 1e6, UTC)
    inventory = write(tmp_path_factory.mktemp("inventory") / "i.csv", table)
    expected = {p: t for p, t in before.items() if not (replace and p.startswith(prefix))}
    expected |= {prefix + path: path for path in named}
    with pytest.MonkeyPatch.context() as patch:
        if small:
            patch.setattr(bundles, "CHUNK", 2)
            patch.setattr(importer, "_CHUNK", 2)
        if len(set(named)) < len(named):
            with pytest.raises(InvalidInputError, match="too: a path has one file"):
                main.import_(inventory, prefix, replace=replace)
            expected = before
        else:
            main.import_(inventory, prefix, replace=replace)
    assert tree(main) == expected


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


def test_chunks_are_staged_while_the_inventory_is_read(main, landing, tmp_path, monkeypatch):
    first = rows(landing)[0]
    table = [{**first, "path": f"p/{number:05}"} for number in range(9)] + [{**first, "path": "p/"}]
    staged = []
    stage = StagingArea.set_many

    def noted(self, token, items):
        staged.append(len(items))
        stage(self, token, items)

    monkeypatch.setattr(StagingArea, "set_many", noted)
    monkeypatch.setattr(bundles, "CHUNK", 4)
    monkeypatch.setattr(importer, "_CHUNK", 3)
    with pytest.raises(InvalidInputError, match="row 10"):
        main.import_(write(tmp_path / "i.csv", table))
    assert staged == [4, 4]
    assert tree(main) == {}


def test_a_column_that_is_there_twice_is_refused(main, tmp_path):
    file = tmp_path / "i.csv"
    file.write_text("address,path,Address\nfile:///a,a,file:///b\n")
    with pytest.raises(InvalidInputError, match="more than one column 'address'"):
        main.import_(str(file))


def test_named_files_and_patterns_are_left_out(main, landing, chunks):
    fill(landing, {"_SUCCESS": "", "05/_SUCCESS": "", "a[1].csv": "1", "a1.csv": "1"})
    left_out = ["**/_SUCCESS", "a[1].csv", "06/"]
    done = main.import_(landing, "in/", exclude=left_out)
    expected = {f"in/05/part-{part}.csv" for part in range(3)}
    assert set(tree(main)) == expected
    assert done.files == len(expected)


def test_a_key_that_is_no_path_is_named_and_can_be_left_out(main, landing):
    (landing / "06" / "a\\b.csv").write_text("1")
    with pytest.raises(InvalidInputError, match=r"06/a.*b.csv.*leave .* out"):
        main.import_(landing)
    assert main.import_(landing, exclude=["06/a*b.csv"]).files == len(FILES)


@pytest.mark.parametrize("target", ["05/part-0.csv", "/etc/hostname"])
def test_a_symbolic_link_is_named_and_can_be_left_out(main, landing, target):
    (landing / "06" / "link").symlink_to(landing / target)
    with pytest.raises(PermissionDeniedError, match="'link' is a symbolic link"):
        main.import_(landing)
    assert main.import_(landing, exclude=["06/link"]).files == len(FILES)


@pytest.mark.parametrize("target", ["", "nowhere", "06/link"])
def test_a_link_to_a_folder_nowhere_or_itself_is_named(main, landing, target):
    (landing / "06" / "link").symlink_to(
        landing.parent / "elsewhere" if not target else landing / target
    )
    (landing.parent / "elsewhere").mkdir()
    with pytest.raises(PermissionDeniedError, match="'link' is a symbolic link"):
        main.import_(landing)
    assert main.import_(landing, exclude=["06/link"]).files == len(FILES)


def test_a_folder_that_became_a_link_is_not_deleted(main, landing):
    main.import_(landing, "input/")
    (landing / "05").rename(landing.parent / "moved")
    (landing / "05").symlink_to(landing.parent / "moved")
    with pytest.raises(PermissionDeniedError, match="'05' is a symbolic link"):
        main.import_(landing, "input/", replace=True)
    assert len(list(main.entries("input/"))) == len(FILES)


def test_a_name_that_is_not_utf8_can_be_left_out(main, landing):
    name = os.fsdecode(b"caf\xe9")
    (landing / name).write_text("1")
    assert main.import_(landing, exclude=[name]).files == len(FILES)


def test_rows_of_an_inventory_are_left_out(main, landing, tmp_path):
    inventory = tmp_path / "inventory.csv"
    rows = [f"{landing / path},{len(text)}" for path, text in FILES.items()]
    inventory.write_text("\n".join(["address,size", *rows]))
    main.import_(inventory, below=str(landing), exclude=["05/*"], verify=True)
    assert set(tree(main)) == {path for path in FILES if path.startswith("06/")}
