"""The store of a server: where blocks go, and what is refused."""

import io
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from graveler.errors import (
    BackendUnavailableError,
    ConflictError,
    InvalidInputError,
    ObjectNotFoundError,
    StateError,
    StorageFullError,
)
from graveler.keep.locators import BLOCK_BYTES, EMPTY, Locator
from graveler.keep.store import BlockStore
from graveler.keep.transfers import TooLargeError
from tests.harness.keep import TWINS, content, digest, made, role, uuid
from tests.harness.keep_store import FOO, LARGE, QUX, TTL, counters, damage, get, put


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
