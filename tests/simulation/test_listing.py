import gzip
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from graveler.errors import InvalidInputError, MissingDependencyError, UnsortedKeysError
from graveler.simulation.sources import read_listings

NOON = datetime(2021, 4, 26, 12, tzinfo=UTC)
VERSIONS = "Bucket, Key, VersionId, IsLatest, IsDeleteMarker, Size, LastModifiedDate"


@pytest.fixture
def write(tmp_path):
    """Write a listing of text lines or bytes."""

    def write(*lines, name="listing.csv"):
        data = b"".join(line if isinstance(line, bytes) else f"{line}\n".encode() for line in lines)
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return tmp_path / name

    return write


@pytest.fixture
def write_parquet(tmp_path):
    """Write a listing of columns as Parquet."""
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")

    def write(**columns):
        pq.write_table(pa.table(columns), tmp_path / "listing.parquet")
        return tmp_path / "listing.parquet"

    return write


def line(key, *, size="1", modified="2021-04-26T12:00:00.000Z"):
    return f'"bucket","{key}","{size}","{modified}","etag"'


def keys(*files, **options):
    return [each.path for each in read_listings(files, **options)]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
def test_an_inventory_is_read_with_its_encoded_keys(write, name):
    file = write(line("a/hour%3D02/b+c%2Bd"), line("a/z", size="17"), name=name)
    first, second = read_listings([file])
    assert first.path == "a/hour=02/b c+d"
    assert (second.path, second.size, second.version) == ("a/z", 17, 'etag:"etag"')
    assert (second.mtime, second.address) == (NOON, "s3://bucket/a/z")


def test_a_file_that_names_its_columns_has_plain_keys(write):
    file = write("size,Key", "3,a%20b+c", "4,b")
    assert keys(file) == ["a%20b+c", "b"]
    assert [each.size for each in read_listings([file])] == [3, 4]


def test_older_versions_and_delete_markers_are_left_out(write):
    file = write(
        "bucket,a,2,true,false,1,2021-04-26T12:00:00Z",
        "bucket,a,1,false,false,1,2021-04-25T12:00:00Z",
        "bucket,b,1,true,true,,2021-04-26T12:00:00Z",
        "bucket,c,1,true,false,1,2021-04-26T12:00:00Z",
    )
    assert keys(file, columns=VERSIONS) == ["a", "c"]


def test_parquet_is_read_by_the_names_of_its_columns(write_parquet):
    file = write_parquet(
        key=["a%20b", "b", "c"],
        size=[1, 2, None],
        is_latest=[True, True, False],
        last_modified_date=[NOON, None, None],
    )
    first, second = read_listings([file])
    assert (first.path, first.size, first.mtime) == ("a%20b", 1, NOON)
    assert (second.path, second.mtime) == ("b", None)


def test_an_unsorted_listing_names_the_line_and_can_be_sorted(write):
    file = write(line("a"), line("c"), line("b"))
    with pytest.raises(
        UnsortedKeysError, match=r"listing\.csv, row 3: path 'b' comes after 'c'.*--sort"
    ):
        keys(file)
    assert keys(file, sort=True) == ["a", "b", "c"]


@pytest.mark.parametrize("sort", [False, True])
def test_a_path_that_is_listed_twice_is_refused(write, sort):
    file = write(line("a"), line("b"), line("b"))
    with pytest.raises(InvalidInputError, match=r"listing\.csv, row 3: path 'b' is listed twice"):
        keys(file, sort=sort)


def test_folder_markers_are_left_out(write):
    assert keys(write(line("a/"), line("a/b"))) == ["a/b"]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((line(""),), r"listing\.csv, row 1: the address, or bucket and key, is missing"),
        ((line("a"), line("b//c")), r"listing\.csv, row 2: path 'b//c'"),
        ((line("a"), line("x" * 1025)), r"listing\.csv, row 2: path of 1025 bytes"),
        ((line("a"), line("%ff")), r"listing\.csv, row 2: path .* UTF-8"),
        ((line("a"), line("%00")), r"listing\.csv, row 2: path .* NUL"),
        ((line("a", size="-1"),), r"listing\.csv, row 1: size=-1"),
        ((line("a"), '"bucket","b"'), r"listing\.csv, row 2: 2 values for 5 columns"),
        ((line("a"), b"bucket,\xe9,1,,\n"), r"listing\.csv, row 2: path .* UTF-8"),
        ((line("a"), b"bucket,\0,1,,\n"), r"listing\.csv, row 2: path .* NUL"),
        (("Key,ETag", "a,b"), r"listing\.csv has the columns key, etag, and needs key and size"),
    ],
)
def test_a_wrong_line_is_named(write, lines, says):
    with pytest.raises(InvalidInputError, match=says):
        keys(write(*lines))


def test_parquet_without_pyarrow_names_the_package(write_parquet, monkeypatch):
    file = write_parquet(key=["a"], size=[1])
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingDependencyError, match="is read with pyarrow"):
        keys(file)


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused_by_name(tmp_path_factory, data):
    file = tmp_path_factory.getbasetemp() / "fuzzed"
    file.write_bytes(data)
    try:
        found = keys(file)
    except InvalidInputError as refusal:
        found, said = [], str(refusal)
    else:
        said = "fuzzed"
    assert "fuzzed" in said
    assert found == sorted(found, key=str.encode)
