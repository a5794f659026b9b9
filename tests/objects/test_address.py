"""Each address in an object store that is not a disk has one form."""

import pytest

from graveler.errors import InvalidInputError
from graveler.objects.address import AddressBook


@pytest.mark.parametrize("root", ["s3://bucket/p", "s3a://bucket/p", "S3N://bucket/p/"])
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n", "S3"])
def test_an_own_object_is_its_key_under_every_scheme(root, scheme):
    book = AddressBook(root)
    assert book.root == "s3://bucket/p"
    assert book.stored_form(f"{scheme}://bucket/p/data/x y") == "data/x y"
    assert book.stored_form(f"{scheme}://bucket/other/x") == "s3://bucket/other/x"


@pytest.mark.parametrize(
    "key",
    ["a//b", "a/../b", "hour=05%3A00/x", "x?versionId=1", "P/data/x", "pp/data/x", " p/data/x"],
)
def test_another_key_is_taken_as_it_stands(key):
    assert AddressBook("s3://bucket/p").stored_form(f"s3a://bucket/{key}") == f"s3://bucket/{key}"


@pytest.mark.parametrize(
    "key",
    ["p//data/x", "p/./data/x", "p/data/../data/x", "%70/data/x", "p/d%61ta/x", "q/../p/data/x"],
)
def test_a_key_only_some_programs_take_for_own_is_refused(key):
    with pytest.raises(InvalidInputError, match="give it as 'data/"):
        AddressBook("s3a://bucket/p").stored_form(f"s3://bucket/{key}")


@pytest.mark.parametrize("address", ["s3://bucket/p/_graveler/x", "s3://bucket/p/other"])
def test_what_lies_beside_the_files_of_entries_is_refused(address):
    with pytest.raises(InvalidInputError, match="neither"):
        AddressBook("s3://bucket/p").stored_form(address)


def test_a_bucket_may_be_the_root():
    book = AddressBook("s3://bucket")
    assert book.stored_form("s3://bucket/data/x") == "data/x"
    assert book.stored_form("s3://bucket2/data/x") == "s3://bucket2/data/x"


def test_a_folder_that_is_mounted_twice_is_one_folder(tmp_path, monkeypatch):
    """Both folders have one device and inode number, as bind mounts do. The link is hidden."""
    (tmp_path / "own" / "data").mkdir(parents=True)
    (tmp_path / "own" / "data" / "x").write_bytes(b"")
    (tmp_path / "again").symlink_to(tmp_path / "own")
    book = AddressBook(f"file://{tmp_path}/own")
    monkeypatch.setattr("os.path.realpath", lambda path: path)
    monkeypatch.setattr("os.path.islink", lambda _: False)
    assert book.stored_form(f"file://{tmp_path}/again/data/x") == "data/x"
    assert book.stored_form(f"file://{tmp_path}/x") == f"file://{tmp_path}/x"
