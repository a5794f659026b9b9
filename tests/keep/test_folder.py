"""What only volumes in folders have: names on the disk, durability, and folders that are lost."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from graveler.base.local_files import claim
from graveler.errors import (
    AlreadyExistsError,
    BackendUnavailableError,
    CorruptionError,
    InvalidInputError,
    ObjectNotFoundError,
    OutcomeUnknownError,
    ReadOnlyError,
    StorageFullError,
)
from graveler.keep.volumes.folder import FolderVolume
from graveler.keep.volumes.volume import Trashed
from graveler.testing.clock import FakeClock
from tests.harness.keep import Calls, Crash, content, digest, do

FOO = b"foo"
HASH = digest(FOO)
NOT_BLOCKS = (
    *(f"{HASH[:3]}/{HASH}.bak", f"{HASH[:3]}/{HASH[:31]}", f"{HASH[:3]}/{HASH.upper()}", "acb/f00"),
    *(f"{HASH[:3]}/{'f' * 32}", f"{HASH[:3]}/{HASH}.trash.x", f"{HASH[:3]}/{HASH}.trash.-1"),
    *(
        f".keep-damaged/{HASH}.damaged.1",
        f".aaa/{HASH}",
        f"aaaa/ccc{'0' * 29}",
        f"AAA/{HASH}",
        HASH,
    ),
    *(f".aaa/{HASH}.trash.1", f"{HASH[:3]}/{HASH}.tmp", f"full/{HASH}", "lost+found/x"),
)


@pytest.fixture
def root(tmp_path):
    FolderVolume.create(tmp_path / "volume")
    return tmp_path / "volume"


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def volume(root, clock):
    return FolderVolume(root, clock=clock)


@pytest.fixture
def calls(monkeypatch):
    return Calls(monkeypatch)


def files(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_a_block_is_a_file_of_its_own(root, volume, clock):
    volume.put(HASH, FOO)
    path = root / HASH[:3] / HASH
    assert path.read_bytes() == FOO
    clock.advance(seconds=10)
    volume.trash(HASH, 0, 100)
    deadline = int(clock.now().timestamp()) + 100
    assert files(root)[1:] == [f"{HASH[:3]}/{HASH}.trash.{deadline}"]
    volume.untrash(HASH)
    volume.set_aside(HASH, path.stat().st_mtime_ns)
    now = 10**9 * int(clock.now().timestamp())
    [name] = files(root)[:1]
    assert now <= int(name.removeprefix(f".keep-damaged/{HASH}.damaged.")) < now + 10**9
    assert volume.damaged() == FolderVolume(root).damaged() == 1


def test_no_other_name_is_listed_or_touched(root, volume, clock):
    for name in NOT_BLOCKS:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(b"x")
    (root / "bbb").mkdir()
    (root / "bbb" / f"bbb{'0' * 29}").mkdir()
    (root / "bbb" / f"bbb{'1' * 29}").symlink_to(root / HASH)
    os.mkfifo(root / "bbb" / f"bbb{'2' * 29}")
    before = files(root)
    clock.advance(days=10_000)
    assert list(volume.index()) == []
    assert volume.empty() == 0
    assert files(root) == before
    for digit in "012":
        for call in (volume.open, volume.status):
            with pytest.raises(ObjectNotFoundError):
                call(f"bbb{digit * 29}")


def test_a_link_to_a_folder_of_blocks_is_refused(tmp_path, root, volume):
    (root / HASH[:3]).symlink_to(tmp_path)
    for call in (lambda: FolderVolume(root), lambda: list(volume.index()), volume.empty):
        with pytest.raises(InvalidInputError, match=f"{HASH[:3]} is a symbolic link"):
            call()


def test_the_trash_of_others_is_emptied_by_its_names(root, volume, clock):
    (root / "aaa").mkdir()
    now = int(clock.now().timestamp())
    for deadline in (1, now + 60):
        (root / f"aaa/{'a' * 32}.trash.{deadline}").write_bytes(FOO)
    assert volume.empty() == 1
    volume.untrash("a" * 32)
    assert files(root)[1:] == [f"aaa/{'a' * 32}"]


def test_abandoned_temporary_files_are_removed(root, volume, clock):
    volume.put(HASH, FOO)
    now = volume.now_ns()
    kept = []
    for number, age in enumerate((86_390, 86_410, 86_410)):
        path = root / HASH[:3] / f"{HASH}.tmp.{number:032x}"
        path.write_bytes(b"half")
        os.utime(path, ns=(now, now - age * 10**9))
        kept.append(path)
    with kept[2].open() as file:
        claim(file.fileno())
        assert volume.empty() == 0
    assert [path.exists() for path in kept] == [True, False, True]


def test_a_put_is_durable_before_it_returns(volume, calls, root):
    folder, temporary = HASH[:3], f"{HASH}.tmp"
    with calls.record(do) as made:
        volume.put(HASH, FOO)
    assert made == [
        *(("mkdir", folder), ("open", temporary), ("write", temporary), ("fdatasync", temporary)),
        *(("fsync", root.name), ("utime", temporary), ("rename", temporary), ("fsync", folder)),
    ]
    with calls.record(do) as made:
        volume.touch(HASH)
    assert made == [("utime", HASH), ("fsync", HASH), ("fsync", folder)]
    volume.trash(HASH, 0, 9)
    with calls.record(do) as made:
        volume.untrash(HASH)
    assert [name for name, _ in made] == ["utime", "fsync", "link", "unlink", "fsync"]


def test_a_large_block_reaches_the_disk_while_it_arrives(volume, calls):
    with calls.record(do) as made, volume.writer(HASH) as writer:
        for _ in range(3):
            writer.write(bytes(8 << 20))
    names = [name for name, _ in made]
    assert names == ["mkdir", "open", "write", "write", "fdatasync", "write", "unlink"]


def test_the_name_of_a_folder_that_is_found_is_durable_too(root, calls, clock):
    (root / HASH[:3]).mkdir()
    with calls.record(do) as made:
        FolderVolume(root, clock=clock).put(HASH, FOO)
    assert made.index(("fsync", root.name)) < made.index(("rename", f"{HASH}.tmp"))


def test_a_volume_is_created_once(tmp_path, root):
    with pytest.raises(AlreadyExistsError, match="is a volume already"):
        FolderVolume.create(root)
    old = tmp_path / "old"
    (old / HASH[:3]).mkdir(parents=True)
    (old / HASH[:3] / HASH).write_bytes(FOO)
    uuid = FolderVolume.create(old)
    volume = FolderVolume(old)
    assert (volume.uuid, content(volume, HASH)) == (uuid, FOO)
    assert uuid.startswith("zzzzz-nyw5e-")
    assert len(uuid) == 27


@pytest.mark.parametrize(
    "uuid", ["x", "zzzzz-bi6l4-000000000000000", "zzzzz-nyw5e-00000000000000Z"]
)
def test_a_volume_has_the_uuid_of_a_volume(tmp_path, uuid):
    with pytest.raises(InvalidInputError, match="uuid="):
        FolderVolume.create(tmp_path / "new", uuid=uuid)
    assert files(tmp_path) == []


def test_the_device_is_that_of_the_folder(tmp_path, root):
    (tmp_path / "link").symlink_to(tmp_path)
    FolderVolume.create(tmp_path / "other")
    same = FolderVolume(tmp_path / "link" / root.name)
    assert same.device == FolderVolume(root).device != FolderVolume(tmp_path / "other").device


def _empty_folder(root):
    root.rename(root.with_name("lost"))
    root.mkdir()


def _no_folder(root):
    root.rename(root.with_name("lost"))


def _another_volume(root):
    _empty_folder(root)
    FolderVolume.create(root)


@pytest.mark.parametrize("lose", [_empty_folder, _no_folder, _another_volume])
def test_a_lost_folder_is_not_an_empty_volume(root, volume, lose):
    volume.put(HASH, FOO)
    lose(root)
    before = files(root.parent)
    for call in (
        *(volume.open, volume.status, volume.touch, volume.untrash, volume.set_bookmark),
        lambda name: volume.put(name, FOO),
        lambda name: volume.trash(name, 0, 1),
        lambda name: volume.set_aside(name, 1),
        lambda _: volume.empty(),
        lambda _: list(volume.index()),
    ):
        with pytest.raises(BackendUnavailableError, match=r"mount"):
            call(HASH)
    assert files(root.parent) == before


def test_a_folder_lost_meanwhile_is_noticed_too(root, volume):
    volume.put(HASH, FOO)
    volume.put(digest(b"2"), b"2")
    walks = [volume.index(), volume.index(HASH)]
    for walk in walks:
        next(walk)
    _empty_folder(root)
    for walk in walks:
        with pytest.raises(BackendUnavailableError, match="is no volume"):
            list(walk)
    (root / ".keep-volume").write_bytes((root.with_name("lost") / ".keep-volume").read_bytes())
    with pytest.raises(BackendUnavailableError), volume.writer(HASH) as writer:
        writer.write(FOO)
        (root / ".keep-volume").unlink()
        writer.commit()


def test_a_volume_that_is_mounted_again_is_used_again(root, volume):
    lost = root.with_name("lost")
    root.rename(lost)
    with pytest.raises(BackendUnavailableError):
        volume.put(HASH, FOO)
    os.utime(lost / ".keep-volume")
    lost.rename(root)
    volume.put(HASH, FOO)
    assert content(volume, HASH) == FOO


@pytest.mark.parametrize(
    ("prepare", "error", "message"),
    [
        (lambda root: (root / ".keep-volume").unlink(), BackendUnavailableError, "is no volume"),
        (lambda root: root.joinpath(".keep-volume").write_text("{}"), CorruptionError, "uuid"),
        (lambda root: root.rename(root.with_name("x")), BackendUnavailableError, "is no volume"),
        (
            lambda root: root.symlink_to(root.rename(root.with_name("x"))),
            *(InvalidInputError, "is a symbolic link"),
        ),
    ],
)
def test_what_is_not_a_volume_is_not_opened(root, prepare, error, message):
    prepare(root)
    with pytest.raises(error, match=message):
        FolderVolume(root)


def test_a_volume_is_full_before_its_disk_is(root):
    free = os.statvfs(root).f_bavail * os.statvfs(root).f_frsize
    full = FolderVolume(root, reserve=2 * free)
    with pytest.raises(StorageFullError, match="is full"):
        full.put(HASH, FOO)
    assert files(root) == [".keep-volume"]


@pytest.mark.parametrize(
    ("number", "error"),
    [
        *((errno.ENOSPC, StorageFullError), (errno.EDQUOT, StorageFullError)),
        *((errno.EROFS, ReadOnlyError), (errno.EACCES, ReadOnlyError)),
        *((errno.EIO, BackendUnavailableError), (errno.EMFILE, BackendUnavailableError)),
    ],
)
def test_an_error_of_the_disk_leaves_what_was_there(root, volume, calls, clock, number, error):
    volume.put(HASH, b"old")
    for name in ("put", "touch", "trash", "set_aside"):
        for at in range(6):
            given: dict[str, list[Any]] = {
                "put": [FOO],
                "trash": [0, 9],
                "set_aside": [volume.status(HASH).mtime_ns],
            }

            def fail(call, make, at=at):
                if call == at:
                    raise OSError(number, os.strerror(number))
                return make()

            with calls.record(fail) as made:
                try:
                    getattr(volume, name)(HASH, *given.get(name, []))
                except (error, OutcomeUnknownError):
                    assert len(made) > at
                    if made[at][0] != "fsync":
                        assert content(volume, HASH) == b"old"
                else:
                    assert len(made) <= at or (name == "put" and made[at][0] == "unlink")
            volume.put(HASH, b"old")
            assert not [each for each in files(root) if ".tmp." in each]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_crash_at_any_call_leaves_an_old_block_or_a_new_one(root, clock, calls, when):
    FolderVolume(root, clock=clock).put(HASH, b"old")
    for at in range(8):
        with pytest.raises((Crash, KeyError)), calls.record(calls.crash(at, when)):
            FolderVolume(root, clock=clock).put(HASH, FOO)
            raise KeyError
        calls.close_left()
        volume = FolderVolume(root, clock=clock)
        assert content(volume, HASH) in {b"old", FOO}
        assert [stored.digest for stored in volume.index()] == [HASH]


def test_a_trash_waits_for_a_touch(root, volume, clock):
    """A touch that has the lock is seen by a trash that came meanwhile."""
    other = FolderVolume(root, clock=clock)
    volume.put(HASH, FOO)
    clock.advance(seconds=100)
    descriptor = os.open(root / HASH[:3] / HASH, os.O_RDONLY)
    claim(descriptor)
    with ThreadPoolExecutor(1) as thread:
        trash = thread.submit(other.trash, HASH, 100, 9)
        with pytest.raises(TimeoutError):
            trash.result(timeout=0.1)
        now = other.now_ns()
        os.utime(descriptor, ns=(now, now))
        os.close(descriptor)
        assert trash.result(timeout=10) is Trashed.RECENT


def test_a_copy_that_was_replaced_is_not_trashed_for_it(root, volume, clock, monkeypatch):
    """Between the lock and the look at the time, the file is another one."""
    volume.put(HASH, FOO)
    clock.advance(seconds=100)
    path = Path(root / HASH[:3] / HASH)
    original = os.lstat
    struck: list[int] = []

    def replace(target, *given, **named):
        if Path(target) == path and not struck:
            struck.append(1)
            FolderVolume(root, clock=clock).put(HASH, FOO)
        return original(target, *given, **named)

    monkeypatch.setattr(os, "lstat", replace)
    assert volume.trash(HASH, 100, 9) is Trashed.RECENT
    assert struck
    assert content(volume, HASH) == FOO
