"""The store of a server: where blocks go, what is verified, and what is refused."""

import errno
import io
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from graveler.errors import (
    BackendUnavailableError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    ObjectNotFoundError,
    StateError,
    StorageFullError,
    ThrottledError,
)
from graveler.keep.locators import BLOCK_BYTES, EMPTY, Locator
from graveler.keep.scrub import Scrub
from graveler.keep.store import BlockStore
from graveler.keep.transfers import Buffers, TooLargeError
from graveler.keep.volumes.memory import MemoryVolume
from graveler.testing.clock import FakeClock
from tests.harness.keep import DRIVERS, TWINS, content, digest, made, role, uuid

TTL, LIFE = 1000, 5000
QUX, FOO = b"qux", b"foo"
LARGE = bytes(range(251)) * 20_000


class Traced(MemoryVolume):
    """A volume that records its calls, and fails where a test wants it."""

    def __init__(self, name, trace, clock, *, role):
        super().__init__(uuid(name * 5), clock=clock, role=role)
        self.name, self.trace, self.failing = name, trace, {}
        for call in ("status", "open", "writer", "touch", "trash"):
            setattr(self, call, lambda *given, call=call: self._call(call, *given))

    def _call(self, call, *given):
        shown = {"writer": "write", "status": "read", "open": "read"}.get(call, call)
        if self.trace[-1:] != [f"{shown} {self.name}"]:
            self.trace.append(f"{shown} {self.name}")
        if call in self.failing:
            raise self.failing[call]
        return getattr(MemoryVolume, call)(self, *given)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def trace():
    return []


@pytest.fixture
def make(clock, trace):
    """Make a store of volumes by their names and classes, and remember it."""

    def make(volumes, **options):
        made = [
            Traced(name, trace, clock, role=each if hasattr(each, "classes") else role(*each))
            for name, each in volumes.items()
        ]
        store: Any = BlockStore(made, ttl=TTL, trash_life=LIFE, clock=clock, **options)
        store.named = {each.name: each for each in made}
        return store

    return make


@pytest.fixture(params=DRIVERS)
def pair(request, tmp_path, clock):
    """A store of two volumes of a driver."""
    volumes = [made(request.param, tmp_path, clock, name) for name in "12"]
    return BlockStore(volumes, ttl=TTL, trash_life=LIFE, clock=clock)


def put(store, data, **options):
    return store.put(digest(data), io.BytesIO(data), len(data), **options)


def get(store, data, **options):
    with store.get(Locator.of(data), **options) as block:
        assert (block.content is None) != (block.file is None)
        found = block.file.read() if block.content is None else bytes(block.content)
        assert block.size == len(found)
        return found


def damage(volume, data, wrong=None):
    """Replace a copy by other bytes, without a change of its time."""
    inner = getattr(volume, "_inner", volume)
    name = digest(data)
    with inner.open(name) as opened:
        raw = opened.file.read()
    inner.put(name, raw[:-1] + bytes([raw[-1] ^ 1]) if wrong is None else wrong)


def counters(store):
    found = [volume["counters"] for volume in store.state()["volumes"]]
    return {name: sum(each.get(name, 0) for each in found) for each in found for name in each}


@pytest.mark.parametrize("data", [FOO, b"", LARGE], ids=["3", "0", "5 MB"])
@pytest.mark.parametrize("announced", [True, False])
def test_a_block_is_got_as_it_was_put(pair, data, announced):
    size = len(data) if announced else None
    for _ in range(2):
        put = pair.put(digest(data), io.BytesIO(data), size)
        assert put[:3] == (Locator.of(data), 1, {"default": 1})
    assert get(pair, data) == get(pair, data, verify=False) == data
    assert pair.size(Locator.of(data)) == pair.size(Locator.of(data), verify=True) == len(data)
    assert len(list(pair.index())) == (1 if data else 0)
    assert pair.buffers.taken == 0


def test_the_empty_block_is_always_there(pair):
    assert get(pair, b"") == b""
    assert pair.size(EMPTY) == 0
    pair.touch(EMPTY.digest)
    assert pair.have([EMPTY.digest], touch=True) == pair.have([EMPTY.digest], touch=False) == []


@pytest.mark.parametrize(
    ("name", "data", "size", "error"),
    [
        *((digest(FOO), b"bar", 3, InvalidInputError), (digest(FOO), b"fo", 3, InvalidInputError)),
        *(
            (digest(FOO), b"fooo", 3, InvalidInputError),
            (digest(FOO), b"fooo", None, InvalidInputError),
        ),
        (digest(b""), b"x", 0, InvalidInputError),
        *(
            ("x" * 32, FOO, 3, InvalidInputError),
            (digest(FOO), b"", BLOCK_BYTES + 1, TooLargeError),
        ),
        (digest(FOO), bytes(BLOCK_BYTES + 1), None, TooLargeError),
    ],
)
def test_a_wrong_body_is_refused_and_nothing_is_left(pair, name, data, size, error):
    with pytest.raises(error):
        pair.put(name, io.BytesIO(data), size)
    assert list(pair.index()) == []
    assert pair.buffers.taken == 0


@pytest.mark.parametrize("at", [0, 1, 4])
def test_a_client_that_hangs_up_leaves_nothing(pair, at):
    class Body(io.BytesIO):
        def readinto(self, buffer, /):
            if self.tell() >= at << 20:
                raise ConnectionResetError
            return super().readinto(buffer)

    with pytest.raises(ConnectionResetError):
        pair.put(digest(LARGE), Body(LARGE), len(LARGE))
    assert list(pair.index()) == []
    assert pair.buffers.taken == 0


def test_a_block_that_is_there_is_touched_not_written(pair, clock):
    put(pair, LARGE)
    before = list(pair.index())
    clock.advance(seconds=TTL)
    put(pair, LARGE)
    [[name, after]], [[_, earlier]] = map(str.split, pair.index()), map(str.split, before)
    assert int(after) - int(earlier) >= TTL * 10**9
    assert (name, counters(pair)["written"], counters(pair)["touched"]) == (
        *(Locator.of(LARGE).bare, 1, 1),
    )
    clock.advance(seconds=TTL - 1)
    with pytest.raises(StateError, match="is younger than"):
        pair.delete(digest(LARGE))


def test_a_real_collision_is_refused(pair):
    put(pair, TWINS[0])
    before = list(pair.index())
    with pytest.raises(ConflictError, match="other bytes of the same MD5"):
        put(pair, TWINS[1])
    assert get(pair, TWINS[0]) == TWINS[0]
    assert list(pair.index()) == before


def test_of_two_twins_put_at_once_one_is_refused(make):
    store = make({"1": ()})
    volume = store.named["1"]
    later: list[Any] = []
    original = volume.writer

    def writer(name):
        if not later:
            later.append(thread.submit(put, store, TWINS[1]))
            wait(later, timeout=0.1)  # the second one looks before the first one is written
        return original(name)

    volume.writer = writer
    with ThreadPoolExecutor(1) as thread:
        put(store, TWINS[0])
        with pytest.raises(ConflictError):
            later[0].result()
    assert get(store, TWINS[0]) == TWINS[0]


@pytest.mark.parametrize("wrong", [None, b"bar", b"fo", b"fooo", b"", LARGE])
def test_a_put_replaces_a_damaged_copy(pair, wrong):
    put(pair, FOO)
    [first] = [each for each in pair.volumes.values() if list(each.index())]
    damage(first, FOO, wrong)
    assert put(pair, FOO).replicas == 1
    assert content(first, digest(FOO)) == FOO
    assert counters(pair)["damaged"] == 1


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
    ("asked", "first", "second"),
    [
        (["1"], "read 111, read 121, write 111", "read 111, touch 111"),
        (["2"], "read 121, read 222, write 121", "read 121, touch 121"),
        (
            ["1", "2"],
            "read 111, read 121, read 222, write 111, write 121",
            "read 111, touch 111, read 121, touch 121",
        ),
        (
            ["1", "2", "404"],
            "read 111, read 121, read 222, write 111, write 121",
            "read 111, touch 111, read 121, touch 121",
        ),
    ],
)
def test_each_class_asked_for_gets_a_copy(make, trace, asked, first, second):
    store = make({"111": "1", "121": "12", "222": "2"})
    for expected in (first, second):
        trace.clear()
        put(store, QUX, classes=asked)
        assert ", ".join(trace) == expected


@pytest.mark.parametrize(
    ("asked", "classes", "replicas"),
    [
        *((each, {"default": 1}, 1) for each in ([], ["default"], ["default", "default"])),
        *(
            (["special", *more], {"extra": 1, "special": 1}, 1)
            for more in ([], ["readonly"], ["x"])
        ),
        (["default", "special"], {"default": 1, "extra": 1, "special": 1}, 2),
        *((each, None, 0) for each in (["doesnotexist"], ["readonly"], ["readonly", "x"])),
    ],
)
def test_the_reply_says_which_classes_have_a_copy(make, asked, classes, replicas):
    read_only = role("readonly", read_only=True)
    store = make({"1": ["default"], "2": ["special", "extra"], "3": read_only})
    if classes is None:
        with pytest.raises(StorageFullError, match="no volume of these classes"):
            put(store, FOO, classes=asked)
        assert list(store.index()) == []
        return
    found = put(store, FOO, classes=asked)
    assert (found.classes, found.replicas) == (classes, replicas)


def test_without_a_class_any_volume_will_do(make):
    for name, data in (("1", QUX), ("2", b"foobar")):
        store = make({"111": ["testclass1"], "222": ["testclass2"]})
        found = put(store, data)
        assert found.replicas == 1, name
        assert len(found.classes) == 1


def test_a_disk_that_makes_copies_counts_them(make):
    store = make({"1": role("a", "b", replication=3), "2": ["c"]})
    assert put(store, FOO, classes=["a", "c"])[1:3] == (4, {"a": 3, "b": 3, "c": 1})


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


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([StorageFullError("full"), StorageFullError("full")], StorageFullError),
        ([StorageFullError("full"), BackendUnavailableError("down")], BackendUnavailableError),
        ([BackendUnavailableError("down"), None], None),
        ([None, StorageFullError("full")], None),
    ],
)
def test_a_volume_that_fails_is_passed_over(make, errors, expected):
    store = make({"111": (), "222": ()})
    for name, error in zip(("111", "222"), errors, strict=True):
        store.named[name].failing = {"writer": error} if error else {}
    for data in (FOO, LARGE):
        if expected is None:
            assert put(store, data).replicas == 1
            continue
        with pytest.raises(expected, match=r"was not written: (full|down)(; (full|down))?$"):
            put(store, data)
        assert list(store.index()) == []


def test_read_only_volumes_are_never_written(make, trace):
    store = make({name: role(read_only=True) for name in "12"})
    with pytest.raises(StorageFullError):
        put(store, FOO)
    assert trace == []
    with pytest.raises(ObjectNotFoundError):
        store.touch(digest(FOO))


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


@pytest.mark.parametrize(
    ("ages", "expected", "left"),
    [
        ((TTL, TTL), (2, 0), []),
        ((TTL, TTL - 9), (1, 1), [1]),
        ((TTL, None), (1, 0), []),
        ((TTL - 9, TTL - 9), StateError, [0, 1]),
        ((None, None), ObjectNotFoundError, []),
    ],
)
def test_a_deletion_counts_the_copies(pair, clock, ages, expected, left):
    volumes = list(pair.volumes.values())
    for age in sorted({age for age in ages if age}, reverse=True):
        for volume, own in zip(volumes, ages, strict=True):
            if own == age:
                volume.put(digest(FOO), FOO)
        clock.advance(seconds=age - min(filter(None, ages)))
    clock.advance(seconds=min(filter(None, ages), default=0))
    if isinstance(expected, tuple):
        assert pair.delete(digest(FOO)) == expected
    else:
        with pytest.raises(expected):
            pair.delete(digest(FOO))
    assert [number for number in (0, 1) if list(volumes[number].index())] == left


@pytest.mark.parametrize("may", [False, True])
def test_read_only_copies_are_deleted_if_that_is_allowed(make, clock, may):
    store = make({"1": (), "2": role(read_only=True, trash_while_read_only=may)})
    for volume in store.named.values():
        volume.put(digest(FOO), FOO)
    clock.advance(seconds=TTL)
    assert store.delete(digest(FOO)) == ((2, 0) if may else (1, 1))


def test_a_failing_volume_does_not_stop_a_deletion(make, clock):
    store = make({"1": (), "2": ()})
    for volume in store.named.values():
        volume.put(digest(FOO), FOO)
    clock.advance(seconds=TTL)
    store._order(digest(FOO))[0].failing["trash"] = BackendUnavailableError("down")
    assert store.delete(digest(FOO)) == (1, 1)


def test_what_was_deleted_can_be_restored(pair, clock):
    put(pair, FOO)
    [uuid] = [uuid for uuid, each in pair.volumes.items() if list(each.index())]
    clock.advance(seconds=TTL)
    pair.delete(digest(FOO))
    with pytest.raises(ObjectNotFoundError):
        get(pair, FOO)
    assert pair.untrash(digest(FOO)) == [uuid]
    assert get(pair, FOO) == FOO
    with pytest.raises(StateError):
        pair.delete(digest(FOO))
    with pytest.raises(ObjectNotFoundError):
        pair.untrash(digest(QUX))


def test_have_finds_the_missing_blocks_and_touches_the_others(pair, clock):
    put(pair, FOO)
    put(pair, LARGE)
    asked = [digest(QUX), digest(FOO), digest(LARGE), digest(b"bar")]
    before = list(pair.index())
    assert pair.have(asked, touch=False) == [asked[0], asked[3]]
    assert list(pair.index()) == before
    clock.advance(seconds=TTL)
    assert pair.have(asked, touch=True) == [asked[0], asked[3]]
    for name in asked[1:3]:
        with pytest.raises(StateError):
            pair.delete(name)
    with pytest.raises(InvalidInputError):
        pair.have(["x"], touch=False)


@pytest.mark.parametrize("may", [False, True])
def test_a_copy_that_cannot_be_touched_counts_if_it_stays(make, may):
    """A read-only copy is never trashed, unless that is allowed: then it may be gone tomorrow."""
    store = make({"1": role(read_only=True, trash_while_read_only=may)})
    store.named["1"].put(digest(FOO), FOO)
    assert store.have([digest(FOO)], touch=True) == ([digest(FOO)] if may else [])
    assert store.have([digest(FOO)], touch=False) == []


def test_touch_is_for_the_first_volume_that_has_the_block(make, trace):
    store = make({"111": (), "222": ()})
    store.named["222"].put(digest(FOO), FOO)
    trace.clear()
    store.touch(digest(FOO))
    assert trace[-1] == "touch 222"
    store.named["111"].put(digest(FOO), FOO)
    trace.clear()
    store.touch(digest(FOO))
    assert len(trace) == 1


def test_the_index_and_the_mounts_show_all_volumes(pair):
    for volume in pair.volumes.values():
        volume.put(digest(FOO), FOO)
    lines = list(pair.index())
    assert len(lines) == 2
    for volume in pair.volumes.values():
        expected = f"{Locator.of(FOO).bare} {volume.status(digest(FOO)).mtime_ns}"
        assert list(pair.index("acb", volume.uuid)) == [expected]
        assert expected in lines
    assert list(pair.index("f")) == []
    with pytest.raises(ObjectNotFoundError, match="no volume 'x'"):
        list(pair.index(volume="x"))
    assert pair.mounts()[0] == {
        "uuid": uuid("1"),
        "device_id": pair.volumes[uuid("1")].device,
        "allow_write": True,
        "allow_trash": True,
        "replication": 1,
        "storage_classes": {"default": True},
    }
    assert [each["free"] > 0 for each in pair.state()["volumes"]] == [True, True]


def test_two_volumes_on_one_device_are_refused(tmp_path, clock):
    for kind in ("memory", "folder"):
        with pytest.raises(InvalidInputError, match="2 volumes are"):
            volumes = [made(kind, tmp_path, clock) for _ in range(2)]
            BlockStore(volumes, ttl=1, trash_life=1, clock=clock)
    volumes = [made("folder", tmp_path, clock) for _ in range(2)]
    volumes[1].uuid = uuid("2")  # a copy of the folder whose marker was changed
    with pytest.raises(InvalidInputError, match="2 volumes are device"):
        BlockStore(volumes, ttl=1, trash_life=1, clock=clock)


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
