"""The cache of blocks: single flight, bounds, damage, and many processes on one folder."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event, Thread

import pytest

from graveler.errors import ObjectNotFoundError
from graveler.keep.cache import BlockCache, BlockFolder
from graveler.keep.locators import Locator

FOO = Locator.of(b"foo")


def block(number, size=1000):
    return bytes([number]) * size


def never():
    raise AssertionError("it is fetched again")


def place(folder, locator):
    return folder / locator.digest[:3] / locator.digest


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def test_threads_that_want_one_block_read_it_once(client_of, servers):
    client = client_of(servers)
    client.put(b"foo")
    for server in servers:
        server.requests.clear()
    together = Barrier(8)

    def get(_):
        together.wait()
        return client.get(FOO)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(get, range(8))) == [b"foo"] * 8
    assert sum(len(server.requests) for server in servers) == 1


@pytest.mark.parametrize("error", [ObjectNotFoundError("gone"), KeyboardInterrupt()])
def test_who_waits_hears_an_error_or_fetches(error):
    cache = BlockCache()
    fetching, going_on = Event(), Event()

    def fail():
        fetching.set()
        going_on.wait()
        raise error

    def lead():
        with pytest.raises(type(error)):
            cache.get(FOO, fail)

    heard: list[object] = []

    def follow():
        try:
            heard.append(cache.get(FOO, lambda: b"foo"))
        except ObjectNotFoundError as found:
            heard.append(found)

    leader = Thread(target=lead)
    leader.start()
    fetching.wait()
    flight = cache._flights[str(FOO)]
    follower = Thread(target=follow)
    follower.start()
    while not vars(flight._condition)["_waiters"]:  # until the follower waits
        os.sched_yield()
    going_on.set()
    leader.join()
    follower.join()
    assert heard == [error if isinstance(error, ObjectNotFoundError) else b"foo"]
    assert cache.get(FOO, lambda: b"foo") == b"foo"


def test_memory_is_bounded_in_bytes_by_use():
    cache = BlockCache(memory_bytes=2500)
    one, two, three = (Locator.of(block(number)) for number in (1, 2, 3))
    cache.get(one, lambda: block(1))
    cache.get(two, lambda: block(2))
    assert cache.find(one) == block(1)
    cache.get(three, lambda: block(3))
    assert [cache.find(each) for each in (one, two, three)] == [block(1), None, block(3)]
    large = Locator.of(bytes(3000))
    assert cache.get(large, lambda: bytes(3000)) == bytes(3000)
    assert cache.find(large) is None
    assert cache.find(one) == block(1)


def test_a_locator_with_another_size_finds_nothing():
    cache = BlockCache()
    cache.get(FOO, lambda: b"foo")
    assert cache.find(Locator(FOO.digest, 4)) is None


def test_the_folder_outlives_a_process(folder):
    BlockCache(folder=folder).get(FOO, lambda: b"foo")
    assert place(folder, FOO).read_bytes() == b"foo"
    assert BlockCache(folder=folder).get(FOO, never) == b"foo"
    assert not any((folder / "tmp").iterdir())


@pytest.mark.parametrize("damage", [b"fop", b"fo", b"", b"fooo"])
def test_a_damaged_file_is_fetched_again(folder, damage):
    BlockCache(folder=folder).get(FOO, lambda: b"foo")
    place(folder, FOO).write_bytes(damage)
    cache = BlockCache(folder=folder)
    assert cache.get(FOO, lambda: b"foo") == b"foo"
    assert cache.damaged == 1
    assert place(folder, FOO).read_bytes() == b"foo"


@pytest.mark.parametrize("obstacle", ["file", "read-only", "folder"])
def test_a_failure_of_the_folder_is_no_error(folder, obstacle):
    if obstacle == "file":
        folder.write_bytes(b"")
    elif obstacle == "folder":
        place(folder, FOO).mkdir(parents=True)
    elif os.geteuid():
        folder.mkdir(0o500)
    cache = BlockCache(memory_bytes=0, folder=folder)
    assert cache.get(FOO, lambda: b"foo") == b"foo"
    assert cache.get(FOO, lambda: b"foo") == b"foo"
    assert not any((folder / "tmp").glob("*"))


def test_the_oldest_files_make_room(folder):
    files = BlockFolder(folder, 16_000)
    locators = [Locator.of(block(number)) for number in range(40)]
    for number, locator in enumerate(locators):
        files.save(locator.digest, block(number))
        os.utime(place(folder, locator), ns=(number, number))
        assert files.load(locators[0].digest) == block(0)  # used with each step
    kept = [number for number, each in enumerate(locators) if place(folder, each).exists()]
    assert kept == [0, *range(kept[1], 40)]
    assert 12 <= len(kept) <= 16
    files.save("0" * 32, bytes(16_001))
    assert not (folder / "000").exists()


def test_what_killed_processes_left_is_removed(folder):
    files = BlockFolder(folder, 16_000)
    (folder / "tmp").mkdir(parents=True)
    old, new = folder / "tmp/old", folder / "tmp/new"
    for path in (old, new):
        path.write_bytes(b"part")
    os.utime(old, (1, 1))
    files.save(FOO.digest, b"foo")
    assert (old.exists(), new.exists()) == (False, True)


_PROCESS = """
import random, sys
from pathlib import Path
from graveler.keep.cache import BlockCache
from graveler.keep.locators import Locator
chosen = random.Random(int(sys.argv[2]))
cache = BlockCache(memory_bytes=0, folder=Path(sys.argv[1]), disk_bytes=40_000)
for _ in range(400):
    content = bytes([chosen.randrange(100)]) * 1000
    assert cache.get(Locator.of(content), lambda: content) == content
assert cache.damaged == 0
"""


def test_many_processes_share_a_folder(folder):
    processes = [
        subprocess.Popen([sys.executable, "-c", _PROCESS, str(folder), str(seed)])
        for seed in range(4)
    ]
    assert [process.wait() for process in processes] == [0, 0, 0, 0]
    total = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    assert 0 < total <= 40_000 * (1 + 4 / 16)


def test_a_forked_child_reads_on(folder):
    cache = BlockCache(folder=folder)
    cache.get(FOO, lambda: b"foo")
    assert cache._disk is not None
    with cache._lock, cache._disk._lock:
        child = os.fork()
        if not child:
            bar = cache.get(Locator.of(b"bar"), lambda: b"bar")
            os._exit((cache.get(FOO, never), bar) != (b"foo", b"bar"))
    assert os.waitpid(child, 0)[1] == 0
