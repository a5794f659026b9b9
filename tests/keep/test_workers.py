"""Trash lists, pull lists and the emptier: what is done, what is skipped, and why."""

from threading import Event

import pytest

from graveler.errors import BackendUnavailableError, ObjectNotFoundError, StorageFullError
from graveler.keep.locators import Locator
from graveler.keep.store import BlockStore
from graveler.keep.workers import Emptier, PullItem, PullList, TrashItem, TrashList
from graveler.testing.clock import FakeClock
from tests.harness.keep import digest, made, role, uuid

TTL, LIFE = 1000, 5000
FOO, BAR = b"foo", b"bar"
HASH = digest(FOO)


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def store(clock, tmp_path):
    """Volumes 0 and 1 are written, 2 and 3 are read-only, and 3 may trash."""
    roles = [
        *(role(), role(), role(read_only=True)),
        role(read_only=True, trash_while_read_only=True),
    ]
    volumes = [made("folder", tmp_path, clock, str(n), each) for n, each in enumerate(roles)]
    return BlockStore(volumes, ttl=TTL, trash_life=LIFE, clock=clock)


@pytest.fixture
def trash(store):
    worker = TrashList(store)
    yield worker
    worker.close()


def left(store, name=HASH):
    return [int(line[-1]) for line in store.volumes if list(store.volumes[line].index(name))]


def spread(store, *numbers):
    """Put the block on these volumes; return its time on each."""
    times = {}
    for number in numbers:
        volume = store.volumes[uuid(str(number))]
        volume.put(HASH, FOO)
        times[number] = volume.status(HASH).mtime_ns
    return times


def trashed(trash, items, expires=None):
    trash.replace(items, expires)
    trash.wait()
    receipt = trash.receipt()
    assert (receipt.items, receipt.left) == (len(items), 0)
    return receipt.done, receipt.skipped


def test_a_copy_of_the_time_named_is_trashed_when_it_is_old(store, trash, clock):
    times = spread(store, 0)
    item = TrashItem(HASH, times[0])
    clock.advance(seconds=TTL - 1)
    assert trashed(trash, [item]) == (0, {"recent": 1})
    clock.advance(seconds=1)
    assert trashed(trash, [TrashItem(HASH, times[0] + 1)]) == (0, {"changed": 1})
    assert left(store) == [0]
    assert trashed(trash, [item]) == (1, {})
    assert left(store) == []
    assert trashed(trash, [item]) == (0, {"missing": 1})


@pytest.mark.parametrize(
    ("named", "time", "done", "skipped", "kept"),
    [
        (1, 0, 0, {"changed": 1}, [0, 1]),
        (None, 0, 1, {"changed": 1}, [1]),
        (0, 0, 1, {}, [1]),
        (None, None, 2, {}, []),
        (1, None, 1, {}, [0]),
        (7, 0, 0, {"missing": 1}, [0, 1]),
    ],
)
def test_an_item_means_a_volume_and_a_time(store, trash, clock, named, time, done, skipped, kept):
    times = spread(store, 0)
    clock.advance(seconds=1)
    spread(store, 1)
    clock.advance(seconds=TTL)
    volume = None if named is None else uuid(str(named))
    item = TrashItem(HASH, None if time is None else times[time], volume)
    assert trashed(trash, [item]) == (done, skipped)
    assert left(store) == kept


def test_read_only_copies_are_trashed_if_that_is_allowed(store, trash, clock):
    spread(store, 0, 1, 2, 3)
    clock.advance(seconds=TTL)
    assert trashed(trash, [TrashItem(HASH, None, uuid("2"))]) == (0, {"read-only": 1})
    assert trashed(trash, [TrashItem(HASH)]) == (3, {"read-only": 1})
    assert left(store) == [2]


def test_a_list_ends_at_its_expiration(store, trash, clock):
    spread(store, 0)
    clock.advance(seconds=TTL)
    now = clock.now().timestamp()
    assert trashed(trash, [TrashItem(HASH)] * 2, now) == (0, {"expired": 2})
    assert left(store) == [0]
    assert trashed(trash, [TrashItem(HASH)], now + 60) == (1, {})


def test_a_touch_after_the_list_was_made_keeps_the_block(store, trash, clock):
    times = spread(store, 0)
    clock.advance(seconds=TTL)
    store.touch(HASH)
    assert trashed(trash, [TrashItem(HASH, times[0]), TrashItem(HASH)])[0] == 0
    assert left(store) == [0]


def test_an_error_ends_an_item_not_the_list(store, trash, clock, tmp_path):
    spread(store, 0, 1)
    clock.advance(seconds=TTL)
    (tmp_path / "0").rename(tmp_path / "lost")
    items = [TrashItem("x"), TrashItem(HASH, None, uuid("0")), TrashItem(HASH, None, uuid("1"))]
    assert trashed(trash, items) == (1, {"invalid-input": 1, "backend-unavailable": 1})


@pytest.fixture
def servers():
    return {"one": {HASH: FOO}, "two": {digest(BAR): BAR}, "liar": {HASH: b"oof"}}


@pytest.fixture
def asked():
    return []


@pytest.fixture
def pull(store, servers, asked):
    def fetch(locator, server):
        asked.append(server)
        if server not in servers:
            raise ConnectionRefusedError(server)
        if locator.digest not in servers[server]:
            raise ObjectNotFoundError(server)
        return servers[server][locator.digest]

    worker = PullList(store, fetch)
    yield worker
    worker.close()


def pulled(pull, *items):
    pull.replace(items)
    pull.wait()
    return pull.receipt().done, pull.receipt().skipped


@pytest.mark.parametrize(
    ("order", "volume", "done", "skipped", "on"),
    [
        (["one"], None, 1, {}, {0, 1}),
        (["one"], "0", 1, {}, {0}),
        (["one"], "1", 1, {}, {1}),
        (["two", "gone", "liar", "one"], "1", 1, {}, {1}),
        (["two"], "1", 0, {"missing": 1}, set()),
        (["gone"], "1", 0, {"unreachable": 1}, set()),
        (["liar"], "1", 0, {"corruption": 1}, set()),
        (["two", "gone"], "1", 0, {"missing": 1, "unreachable": 1}, set()),
        (["one"], "7", 0, {"missing": 1}, set()),
        (["one"], "2", 0, {"state": 1}, set()),
        ([], None, 0, {"no-server": 1}, set()),
    ],
)
def test_a_block_is_pulled_from_the_first_that_has_it(
    store, pull, asked, order, volume, done, skipped, on
):
    item = PullItem(Locator.of(FOO), tuple(order), volume and uuid(volume))
    assert pulled(pull, item) == (done, skipped)
    assert asked == order
    assert set(left(store)) <= on
    assert bool(left(store)) == bool(on)


def test_a_failing_disk_ends_an_item_not_the_list(store, pull, monkeypatch):
    volume = store.volumes[uuid("0")]
    original = type(volume).writer

    def writer(self, name):
        if name == HASH:
            raise StorageFullError("full")
        return original(self, name)

    monkeypatch.setattr(type(volume), "writer", writer)
    items = [
        PullItem(Locator.of(FOO), ("one",), uuid("0")),
        PullItem(Locator.of(BAR), ("two",), uuid("0")),
    ]
    assert pulled(pull, *items) == (1, {"storage-full": 1})
    assert left(store, digest(BAR)) == [0]


def test_a_pulled_block_that_is_there_is_kept_from_now_on(store, pull, clock):
    times = spread(store, 0)
    clock.advance(seconds=TTL)
    assert pulled(pull, PullItem(Locator.of(FOO), ("one",), uuid("0"))) == (1, {})
    assert store.volumes[uuid("0")].status(HASH).mtime_ns > times[0] + TTL * 10**9


def test_the_newest_list_replaces_the_one_before(store):
    entered, go_on, seen = Event(), Event(), []

    def fetch(locator, server):
        seen.append(server)
        if server == "slow":
            entered.set()
            go_on.wait(10)
        raise BackendUnavailableError(server)

    pull = PullList(store, fetch)
    pull.replace([PullItem(Locator.of(FOO), (each,)) for each in ("slow", "never", "never")])
    entered.wait(10)
    pull.replace([PullItem(Locator.of(FOO), ("skipped",))])
    pull.replace([PullItem(Locator.of(FOO), (each,)) for each in ("a", "b")])
    assert pull.receipt().left == 2
    go_on.set()
    pull.wait()
    assert seen == ["slow", "a", "b"]
    assert pull.receipt() == (2, 0, 0, {"backend-unavailable": 2})
    pull.replace([])
    pull.wait()
    assert pull.receipt() == (0, 0, 0, {})
    pull.close()


@pytest.mark.parametrize(("low", "share"), [(1.0, 1), (1e-9, 0)])
def test_the_emptier_deletes_what_cannot_be_restored(store, clock, low, share):
    spread(store, 0, 3)
    clock.advance(seconds=TTL)
    store.trash(HASH)
    emptier = Emptier(store, 0, low)
    assert sum(emptier.empty().values()) == 0
    clock.advance(seconds=LIFE + 1)
    assert emptier.empty() == ({uuid("0"): 1, uuid("1"): 0, uuid("3"): 1} if share else {})
    emptier.close()


def test_the_emptier_goes_on_by_itself_and_past_a_lost_volume(store, clock, tmp_path):
    spread(store, 1)
    clock.advance(seconds=TTL)
    store.trash(HASH)
    clock.advance(seconds=LIFE + 1)
    (tmp_path / "0").rename(tmp_path / "lost")
    done, volume = Event(), store.volumes[uuid("1")]
    original = volume.empty

    def empty():
        original()
        done.set()

    volume.empty = empty
    emptier = Emptier(store, 0.01)
    emptier.start()
    assert done.wait(10)
    emptier.close()
    with pytest.raises(ObjectNotFoundError):
        volume.untrash(HASH)
