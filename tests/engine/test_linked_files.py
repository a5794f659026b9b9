"""Linked local files that others write or replace, after they were linked or while they are read."""

import os
import shutil
from datetime import UTC, datetime

import pytest

import graveler
from graveler.errors import PermissionDeniedError, SourceChangedError
from graveler.gates.source import read_only
from graveler.objects.local import LocalStore
from graveler.reads.files import read_range
from graveler.reads.stores import FileStores
from graveler.values import entry_identity

SECRET, RAW = b"secret" * 10_000, b"public" * 10_000
MD5 = "md5:6007e7200e65ee01d622b91e742afe28"


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("flights")


@pytest.fixture
def landed(tmp_path, repo):
    """Return a landed file in a declared place."""
    file = tmp_path / "landing" / "05" / "raw.csv"
    file.parent.mkdir(parents=True)
    file.write_bytes(RAW)
    repo.links.allow(str(tmp_path / "landing"))
    return file


@pytest.fixture
def secret(tmp_path, landed):
    """Return a file outside the place, of the size and time of the landed file."""
    file = tmp_path / "outside" / "raw.csv"
    file.parent.mkdir()
    file.write_bytes(SECRET)
    copy_times(landed, file)
    return file


def link(repo, file, **fields):
    repo.branch("main").link("raw", address=str(file), **fields)
    return repo.branch("main").commit("raw")


def copy_times(source, target):
    status = source.stat()
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def reads(repo, folder):
    """Return every way to the bytes of the entry at ``raw``."""
    ref, entry, stores = repo.ref("main"), repo.ref("main").stat("raw"), FileStores.of(repo.stores)
    return {
        "get": lambda: ref.get("raw"),
        "range": lambda: read_range(repo.stores, entry, 1, len(RAW)),
        "many": lambda: list(ref.get_many(["raw"])),
        "open": lambda: ref.open("raw").read(),
        "download": lambda: ref.download("", folder, delete=True),
        "put": lambda: repo.branch("main").put("copy", ref.open("raw")),
        "task": lambda: stores.locate(entry.address)[0].get("05/raw.csv"),
        "head": lambda: stores.locate(entry.address)[0].head("05/raw.csv"),
        "read only": lambda: read_only(repo.stores).locate(entry.address)[0].open("05/raw.csv"),
    }


VERIFIED = ("get", "range", "many", "open", "download", "put")
"""The ways that compare the file with its entry."""


def write_second_half(file, _):
    with file.open("r+b") as out:
        out.seek(len(RAW) // 2)
        out.write(SECRET[len(RAW) // 2 :])
    # the clock of the kernel may not have moved since the file was opened
    time = file.stat().st_mtime_ns + 1_000_000
    os.utime(file, ns=(time, time))


def replace_by_another(file, secret):
    secret.replace(file)


def replace_content(file, secret):
    kept = file.with_name("kept")
    shutil.copy2(file, kept)
    file.write_bytes(secret.read_bytes())
    copy_times(kept, file)


@pytest.mark.parametrize("change", [write_second_half, replace_by_another])
@pytest.mark.parametrize("way", VERIFIED)
def test_a_file_that_is_written_meanwhile_is_refused(
    repo, landed, secret, tmp_path, monkeypatch, way, change
):
    link(repo, landed)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "raw").write_bytes(b"mine")
    opened, changes = LocalStore.open, [change]

    def open_(self, *args):
        stream = opened(self, *args)
        if changes and self.root == f"file://{landed.parent.parent}":
            changes.pop()(landed, secret)
        return stream

    read = reads(repo, tmp_path / "out")[way]
    monkeypatch.setattr(LocalStore, "open", open_)
    with pytest.raises(SourceChangedError, match=r"changed since|links accept"):
        read()
    assert not changes
    assert (tmp_path / "out" / "raw").read_bytes() == b"mine"
    assert not repo.branch("main").exists("copy")


def test_an_open_stream_refuses_what_was_written_since(repo, landed):
    link(repo, landed)
    with repo.ref("main").open("raw") as stream:
        assert stream.read(4) == RAW[:4]
        write_second_half(landed, None)
        with pytest.raises(SourceChangedError, match="written while it was read"):
            b"".join(iter(lambda: stream.read(1 << 16), b""))


def swap_file(file, secret):
    file.unlink()
    file.symlink_to(secret)


def swap_folder(file, secret):
    shutil.rmtree(file.parent)
    file.parent.symlink_to(secret.parent)


@pytest.mark.parametrize("swap", [swap_file, swap_folder])
def test_a_link_in_the_place_of_a_file_is_not_followed(repo, landed, secret, tmp_path, swap):
    link(repo, landed)
    assert repo.ref("main").get("raw") == RAW
    swap(landed, secret)
    for way, read in reads(repo, tmp_path / "out").items():
        with pytest.raises(PermissionDeniedError, match="symbolic link"):
            pytest.fail(f"{way}: {read()!r:.80}")


@pytest.mark.parametrize("swap", [replace_by_another, replace_content])
@pytest.mark.parametrize("named", ["05/raw.csv", "link.csv", "a row"])
def test_another_file_of_equal_size_and_time_is_refused(
    repo, landed, secret, tmp_path, swap, named
):
    place = tmp_path / "landing"
    (place / "link.csv").symlink_to(landed)
    if named == "05/raw.csv":
        link(repo, landed)
    else:
        file = landed if named == "a row" else place / named
        mtime = datetime.fromtimestamp(file.stat().st_mtime_ns // 1000 / 1e6, UTC)
        (tmp_path / "rows.csv").write_text(
            f"path,address,size,mtime\nraw,{file},{len(RAW)},{mtime}\n"
        )
        repo.branch("main").import_(tmp_path / "rows.csv")
        repo.branch("main").commit("raw")
    assert repo.ref("main").get("raw") == RAW
    swap(landed, secret)
    for way in VERIFIED:
        with pytest.raises(SourceChangedError, match="graveler links accept"):
            pytest.fail(f"{way}: {reads(repo, tmp_path / 'out')[way]()!r:.80}")
    assert "links accept" in str(repo.fsck().problems)


def test_a_known_checksum_decides(repo, landed, secret, tmp_path):
    link(repo, landed, checksum=MD5)
    shutil.copy2(landed, landed.with_name("copy"))
    landed.with_name("copy").replace(landed)
    assert reads(repo, None)["range"]() == RAW[1:]
    assert repo.ref("main").get("raw") == RAW
    replace_by_another(landed, secret)
    for way in VERIFIED:
        with pytest.raises(SourceChangedError, match="md5:"):
            reads(repo, tmp_path / "out")[way]()


def test_what_is_accepted_is_read_until_it_changes_again(repo, landed, secret):
    link(repo, landed)
    landed.chmod(0o640)
    with pytest.raises(SourceChangedError, match=r"links accept file://\S+; else put it back$"):
        repo.ref("main").get("raw")
    assert repo.links.accept(str(landed)) == f"file://{landed}"
    assert repo.ref("main").get("raw") == RAW
    assert FileStores.of(repo.stores).accepted(f"file://{landed}")
    replace_content(landed, secret)
    with pytest.raises(SourceChangedError, match="links accept"):
        repo.ref("main").get("raw")
    repo.links.accept(str(landed.parent.parent))
    assert repo.ref("main").get("raw") == SECRET
    assert repo.links.list() == [f"file://{landed.parent.parent}"]


def test_the_inode_is_no_part_of_the_identity(repo, landed):
    link(repo, landed)
    first = repo.ref("main").stat("raw")
    shutil.copy2(landed, landed.with_name("copy"))
    landed.with_name("copy").replace(landed)
    second = repo.branch("main").link("raw", address=str(landed))
    assert entry_identity(second) == entry_identity(first)
    assert first.version.partition(" ")[0] == second.version.partition(" ")[0]
