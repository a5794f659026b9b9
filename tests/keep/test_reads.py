"""Reads of a store: damaged copies, bad disks, and the memory that readers share."""

import errno
import io
from concurrent.futures import ThreadPoolExecutor

import pytest

from graveler.errors import (
    BackendUnavailableError,
    CorruptionError,
    ObjectNotFoundError,
    ThrottledError,
)
from graveler.keep.locators import BLOCK_BYTES, Locator
from graveler.keep.scrub import Scrub
from graveler.keep.store import BlockStore
from graveler.keep.transfers import Buffers
from graveler.keep.volumes.memory import MemoryVolume
from tests.harness.keep import content, digest, made
from tests.harness.keep_store import FOO, LARGE, LIFE, QUX, TTL, counters, damage, get, put


@pytest.mark.parametrize("wrong", [None, b"bar", b"fo", b"fooo", b""])
def test_a_damaged_copy_is_set_aside_and_healed(pair, wrong):
    for volume in pair.volumes.values():
        volume.put(digest(FOO), FOO)
    first = pair._order(digest(FOO))[0]
    damage(first, FOO, wrong)
    assert get(pair, FOO) == FOO
    assert content(first, digest(FOO)) == FOO
    assert (counters(pair)["damaged"], counters(pair)["healed"]) == (1, 1)
    assert get(pair, FOO) == FOO
    assert counters(pair)["damaged"] == 1


@pytest.mark.parametrize("wrong", [None, b"bar", b"fo"])
def test_if_all_copies_are_damaged_the_reader_is_told(pair, wrong):
    for volume in pair.volumes.values():
        volume.put(digest(FOO), FOO)
        damage(volume, FOO, wrong)
    with pytest.raises(CorruptionError, match=r"damaged|not a sealed"):
        get(pair, FOO)
    assert counters(pair)["damaged"] == 2
    with pytest.raises(ObjectNotFoundError):
        get(pair, FOO)
    assert pair.buffers.taken == 0


def test_a_file_is_handed_out_only_if_its_size_is_right(make):
    store = make({"1": (), "2": ()})
    first = store._order(digest(FOO))[0]
    for volume in store.volumes.values():
        MemoryVolume.put(volume, digest(FOO), FOO)
    MemoryVolume.put(first, digest(FOO), b"fo")
    assert get(store, FOO, verify=False) == FOO
    assert counters(store)["damaged"] == 1


def test_a_block_of_another_size_is_not_there(pair):
    put(pair, FOO)
    wrong = Locator(digest(FOO), 4)
    for call in (pair.get, pair.size, lambda each: pair.get(each, verify=False)):
        with pytest.raises(ObjectNotFoundError, match="of 4 bytes"):
            call(wrong)
    assert counters(pair).get("damaged", 0) == 0
    assert pair.buffers.taken == 0


@pytest.mark.parametrize(
    ("priorities", "order"),
    [
        *(((100, 50, 50), "111"), ((100, 100, 100), "111")),
        *(((66, 99, 33), "222"), ((66, 33, 99), "222")),
    ],
)
def test_volumes_of_preferred_classes_come_first(make, trace, priorities, order):
    named = dict(zip(("class1", "class2", "class3"), priorities, strict=True))
    store = make({"111": ["class1"], "222": ["class2", "class3"]}, priorities=named)
    MemoryVolume.put(store.named["111"], digest(b"foobar"), b"foobar")
    trace.clear()
    get(store, b"foobar")
    assert trace == (["read 111"] if order == "111" else ["read 222", "read 111"])


def test_an_error_of_one_volume_is_hidden_by_another_copy(make):
    store = make({"1": (), "2": ()})
    for volume in store.named.values():
        volume.put(digest(FOO), FOO)
    first, second = store._order(digest(FOO))
    first.failing["open"] = BackendUnavailableError("no answer")
    assert get(store, FOO) == FOO
    second.failing["open"] = ObjectNotFoundError("gone")
    with pytest.raises(BackendUnavailableError, match="no answer"):
        get(store, FOO)


@pytest.mark.parametrize("data", [FOO, LARGE], ids=["3", "5 MB"])
def test_a_bad_sector_is_healed_as_other_damage(tmp_path, clock, monkeypatch, data):
    class Broken(io.FileIO):
        def read(self, size=-1, /):
            raise OSError(errno.EIO, "Input/output error")

        def readinto(self, buffer, /):
            raise OSError(errno.EIO, "Input/output error")

    first, second = (made(kind, tmp_path, clock, kind[0]) for kind in ("folder", "memory"))
    for volume in (first, second):
        volume.put(digest(data), data)
    monkeypatch.setattr("graveler.keep.volumes.folder.io.FileIO", Broken)
    store = BlockStore([first, second], ttl=TTL, trash_life=LIFE, clock=clock)
    found = Scrub(store, 0).run()
    assert (found.errors, found.damaged, found.healed) == (0, 1, 1)
    assert get(store, data) == data
    alone = BlockStore([first], ttl=TTL, trash_life=LIFE, clock=clock)
    with pytest.raises(CorruptionError, match="Input/output error"):
        get(alone, data)
    aside = first.damaged()
    assert aside > 1
    assert put(alone, data).replicas == 1
    assert put(alone, data).replicas == 1  # compared with what cannot be read
    monkeypatch.undo()
    assert get(alone, data) == data
    after = BlockStore([made("folder", tmp_path, clock, "f")], ttl=1, trash_life=1, clock=clock)
    assert [each["set_aside"] for each in after.state()["volumes"]] == [aside + 1]


def test_a_reader_waits_for_a_buffer_and_is_refused(make):
    store = make({"1": ()}, buffers=1, wait_s=0.05)
    put(store, FOO)
    with store.buffers.take(BLOCK_BYTES):
        for call in (lambda: get(store, FOO), lambda: put(store, QUX)):
            with pytest.raises(ThrottledError, match="64 MiB for blocks are in use"):
                call()
    assert get(store, FOO) == FOO
    assert store.buffers.taken == 0


def test_free_buffers_are_used_again_and_make_room():
    buffers = Buffers(2, 0.05)
    with buffers.take(BLOCK_BYTES) as first, buffers.take(BLOCK_BYTES) as second:
        memory = {id(first.obj), id(second.obj)}
    with buffers.take(BLOCK_BYTES) as first:
        assert id(first.obj) in memory
        with buffers.take(5) as small:
            assert (len(small), buffers.taken, len(buffers._free)) == (5, BLOCK_BYTES + 5, 0)
    assert len(buffers._free) == 1


def test_small_blocks_do_not_take_large_buffers(make):
    store = make({"1": ()}, buffers=1, wait_s=0.05)
    put(store, FOO)
    held = [store.get(Locator.of(FOO)) for _ in range(100)]
    assert store.buffers.taken == 300
    for block in held:
        block.close()
    assert store.buffers.taken == 0


@pytest.mark.parametrize("blocks", [1, 4])
def test_many_clients_share_few_buffers(make, blocks):
    store = make({"1": (), "2": ()})
    contents = [bytes([number]) * 100_000 for number in range(3)]
    store.buffers.total = blocks * 100_000

    def work(number):
        put(store, contents[number % 3])
        return get(store, contents[number % 3]) == contents[number % 3]

    with ThreadPoolExecutor(20) as threads:
        assert all(threads.map(work, range(200)))
    assert store.buffers.taken == 0
