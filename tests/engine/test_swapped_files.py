"""Linked local files that another user of the landing folder replaces after they were linked."""

import os
import shutil
from datetime import UTC, datetime

import pytest

import graveler
from graveler.errors import PermissionDeniedError, SourceChangedError
from graveler.gates.source import read_only
from graveler.reads.files import read_range
from graveler.reads.stores import FileStores
from graveler.values import entry_identity

SECRET, RAW = b"secret", b"public"


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("flights")


@pytest.fixture
def landing(tmp_path, repo):
    folder = tmp_path / "landing"
    (folder / "05").mkdir(parents=True)
    (folder / "05" / "raw.csv").write_bytes(RAW)
    repo.links.allow(str(folder))
    return folder


@pytest.fixture
def secret(tmp_path, landing):
    """Return a file outside the place, of the size and time of the landed file."""
    file = tmp_path / "outside" / "raw.csv"
    file.parent.mkdir()
    file.write_bytes(SECRET)
    copy_times(landing / "05" / "raw.csv", file)
    return file


def copy_times(source, target):
    status = source.stat()
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def swap_file(landing, secret):
    file = landing / "05" / "raw.csv"
    file.unlink()
    file.symlink_to(secret)


def swap_folder(landing, secret):
    shutil.rmtree(landing / "05")
    (landing / "05").symlink_to(secret.parent)


def reads(repo):
    """Return every way to the bytes of the entry at ``raw``."""
    ref, stores = repo.ref("main"), FileStores.of(repo.stores)
    entry = ref.stat("raw")
    return {
        "get": lambda: ref.get("raw"),
        "range": lambda: read_range(repo.stores, entry, 0, 3),
        "open": lambda: ref.open("raw").read(),
        "many": lambda: list(ref.get_many(["raw"])),
        "gate": lambda: repo.ref("main").open(entry).read(),
        "task": lambda: stores.locate(entry.address)[0].get("05/raw.csv"),
        "read only": lambda: read_only(repo.stores).locate(entry.address)[0].open("05/raw.csv"),
        "head": lambda: stores.locate(entry.address)[0].head("05/raw.csv"),
    }


@pytest.mark.parametrize("checksum", ["", "md5:4c9184f37cff01bcdc32dc486ec36961"])
@pytest.mark.parametrize("swap", [swap_file, swap_folder])
def test_a_link_in_the_place_of_a_file_is_not_followed(repo, landing, secret, swap, checksum):
    repo.branch("main").link("raw", address=str(landing / "05" / "raw.csv"), checksum=checksum)
    repo.branch("main").commit("raw")
    assert repo.ref("main").get("raw") == RAW
    swap(landing, secret)
    for way, read in reads(repo).items():
        with pytest.raises(PermissionDeniedError, match="symbolic link"):
            pytest.fail(f"{way}: {read()}")


def test_a_link_is_not_looked_up_or_imported(repo, landing, secret):
    (landing / "05" / "other.csv").symlink_to(secret)
    with pytest.raises(PermissionDeniedError, match=r"other\.csv.*symbolic link"):
        repo.branch("main").import_(f"file://{landing}/", "in/")


def replace_by_another(landing, secret):
    secret.replace(landing / "05" / "raw.csv")


def replace_content(landing, secret):
    file = landing / "05" / "raw.csv"
    kept = landing / "kept"
    shutil.copy2(file, kept)
    file.write_bytes(secret.read_bytes())
    copy_times(kept, file)


@pytest.mark.parametrize("swap", [replace_by_another, replace_content])
@pytest.mark.parametrize("named", ["05/raw.csv", "link.csv"])
def test_another_file_in_the_place_of_a_row_is_refused(
    repo, landing, secret, tmp_path, swap, named
):
    file = landing / named
    (landing / "link.csv").symlink_to(landing / "05" / "raw.csv")
    mtime = datetime.fromtimestamp(file.stat().st_mtime_ns // 1000 / 1e6, UTC)
    table = tmp_path / "rows.csv"
    table.write_text(f"path,address,size,mtime\nraw,{file},6,{mtime}\nlate,{file}.late,6,{mtime}\n")
    assert repo.branch("main").import_(table).files == 2
    repo.branch("main").commit("raw")
    assert repo.ref("main").get("raw") == RAW
    swap(landing, secret)
    with pytest.raises(SourceChangedError, match="graveler links accept"):
        repo.ref("main").get("raw")


@pytest.mark.parametrize("swap", [replace_by_another, replace_content])
def test_another_file_of_equal_size_and_time_is_refused(repo, landing, secret, swap):
    repo.branch("main").link("raw", address=str(landing / "05" / "raw.csv"))
    repo.branch("main").commit("raw")
    swap(landing, secret)
    for way, read in {name: reads(repo)[name] for name in ("get", "range", "open", "many")}.items():
        with pytest.raises(SourceChangedError, match="graveler links accept"):
            pytest.fail(f"{way}: {read()}")
    assert "links accept" in str(repo.fsck().problems)


def test_a_known_checksum_decides_for_a_file_that_was_moved(repo, landing, secret):
    file = landing / "05" / "raw.csv"
    checksum = "md5:4c9184f37cff01bcdc32dc486ec36961"
    repo.branch("main").link("raw", address=str(file), checksum=checksum)
    repo.branch("main").commit("raw")
    shutil.copy2(file, landing / "copy")
    (landing / "copy").replace(file)
    assert reads(repo)["range"]() == RAW[:3]
    assert repo.ref("main").get("raw") == RAW
    replace_by_another(landing, secret)
    for read in ("get", "range", "open"):
        with pytest.raises(SourceChangedError, match="md5:"):
            reads(repo)[read]()


def test_what_is_accepted_is_read_until_it_changes_again(repo, landing, secret):
    file = landing / "05" / "raw.csv"
    repo.branch("main").link("raw", address=str(file))
    repo.branch("main").commit("raw")
    file.chmod(0o640)
    with pytest.raises(SourceChangedError, match=r"links accept file://\S+; else put it back$"):
        repo.ref("main").get("raw")
    assert repo.links.accept(str(file)) == f"file://{file}"
    assert repo.ref("main").get("raw") == RAW
    assert FileStores.of(repo.stores).accepted(f"file://{file}")
    replace_content(landing, secret)
    with pytest.raises(SourceChangedError, match="links accept"):
        repo.ref("main").get("raw")
    repo.links.accept(str(landing))
    assert repo.ref("main").get("raw") == SECRET
    assert repo.links.list() == [f"file://{landing}"]


def test_the_inode_is_no_part_of_the_identity(repo, landing):
    file = landing / "05" / "raw.csv"
    main = repo.branch("main")
    main.link("raw", address=str(file))
    main.commit("raw")
    first = repo.ref("main").stat("raw")
    shutil.copy2(file, landing / "copy")
    (landing / "copy").replace(file)
    main.link("raw", address=str(file))
    second = main.stat("raw")
    assert entry_identity(second) == entry_identity(first)
    assert first.version.partition(" ")[0] == second.version.partition(" ")[0]
