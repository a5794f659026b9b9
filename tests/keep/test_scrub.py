"""The scrub: damaged copies are found, set aside and healed; old keys go."""

import pytest

from graveler.errors import ObjectNotFoundError, StateError
from graveler.keep.locators import Locator
from graveler.keep.scrub import Scrub
from graveler.keep.store import BlockStore
from graveler.keep.volumes.memory import MemoryVolume
from graveler.keep.volumes.sealed import SealedVolume
from graveler.testing.clock import FakeClock
from tests.harness.keep import DRIVERS, KEYS, content, digest, made, role, uuid

BLOCKS = [b"%d" % number * 1000 for number in range(6)]


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=DRIVERS)
def store(request, tmp_path, clock):
    """A store of two volumes, each with all blocks."""
    volumes = [made(request.param, tmp_path, clock, name) for name in "12"]
    for volume in volumes:
        for block in BLOCKS:
            volume.put(digest(block), block)
    return BlockStore(volumes, ttl=1, trash_life=100, clock=clock)


def spoil(volume, block, cut=0):
    """Damage a copy."""
    inner = getattr(volume, "_inner", volume)
    with inner.open(digest(block)) as opened:
        raw = bytearray(opened.file.read())
    raw[-1] ^= 1
    inner.put(digest(block), bytes(raw[: len(raw) - cut]))


def test_right_copies_stay_as_they_are(store):
    before = list(store.index())
    found = Scrub(store, 0).run()
    assert (found.verified, found.bytes) == (12, 12_000)
    assert (found.damaged, found.healed, found.rewritten, found.errors, found.lost) == (
        0,
        0,
        0,
        0,
        [],
    )
    assert list(store.index()) == before


@pytest.mark.parametrize("cut", [0, 1, 999])
def test_a_damaged_copy_is_healed_from_another_volume(store, cut):
    first, second = store.volumes.values()
    spoil(first, BLOCKS[1], cut)
    spoil(second, BLOCKS[2], cut)
    found = Scrub(store, 0).run()
    assert (found.damaged, found.healed, found.errors, found.lost) == (2, 2, 0, [])
    assert content(first, digest(BLOCKS[1])) == BLOCKS[1]
    assert content(second, digest(BLOCKS[2])) == BLOCKS[2]
    assert Scrub(store, 0).run().damaged == 0
    assert [each["counters"]["damaged"] for each in store.state()["volumes"]] == [1, 1]


@pytest.mark.parametrize("afar", ["right", "wrong", "error", None])
def test_the_last_copy_is_healed_from_another_server_or_told(store, afar):
    for volume in store.volumes.values():
        spoil(volume, BLOCKS[0])
    asked = []

    def fetch(locator):
        asked.append(locator)
        if afar == "error":
            raise ConnectionError
        return BLOCKS[0] if afar == "right" else BLOCKS[1]

    found = Scrub(store, 0, fetch=fetch if afar else None).run()
    name = digest(BLOCKS[0])
    if afar == "right":
        assert (found.damaged, found.healed, found.lost) == (1, 1, [])
        assert content(next(iter(store.volumes.values())), name) == BLOCKS[0]
        assert asked[0].digest == name
    else:
        assert (found.damaged, found.healed, set(found.lost)) == (1, 0, {name})
        with pytest.raises(ObjectNotFoundError):
            next(iter(store.volumes.values())).status(name)


def test_it_goes_on_where_it_stopped(store, clock, tmp_path):
    scrub = Scrub(store, 100)
    sleep, slept = clock.sleep, []

    def stop(seconds):
        slept.append(seconds)
        sleep(seconds)
        if len(slept) == 4:
            scrub.stop()

    clock.sleep = stop
    assert scrub.run().verified == 4
    assert slept == [10] * 4
    assert Scrub(store, 0).run().verified == 12 - 4
    assert Scrub(store, 0).run().verified == 12


def test_a_read_only_volume_is_only_looked_at(tmp_path, clock):
    made("folder", tmp_path, clock).put(digest(BLOCKS[0]), BLOCKS[0])
    spoil(made("folder", tmp_path, clock), BLOCKS[0])
    volumes = [
        made("folder", tmp_path, clock, role=role(read_only=True)),
        MemoryVolume(clock=clock),
    ]
    volumes[1].put(digest(BLOCKS[0]), BLOCKS[0])
    store = BlockStore(volumes, ttl=1, trash_life=1, clock=clock)
    before = list(store.index())
    found = Scrub(store, 0).run()
    assert (found.damaged, found.healed, found.errors) == (1, 0, 0)
    assert list(store.index()) == before


def test_a_volume_that_is_lost_does_not_end_the_scrub(tmp_path, clock):
    volumes = [made("folder", tmp_path, clock, name) for name in "12"]
    for volume in volumes:
        volume.put(digest(BLOCKS[0]), BLOCKS[0])
    (tmp_path / "1").rename(tmp_path / "lost")
    found = Scrub(BlockStore(volumes, ttl=1, trash_life=1, clock=clock), 0).run()
    assert (found.errors, found.verified) == (1, 1)


def test_blocks_of_an_old_key_get_the_newest(clock):
    inner = MemoryVolume(uuid("1"), clock=clock)
    old = SealedVolume(inner, {"2025": KEYS["2025"]})
    for block in BLOCKS:
        old.put(digest(block), block)
    both = SealedVolume(inner, KEYS)
    both.put(digest(BLOCKS[0]), BLOCKS[0])
    store = BlockStore([both], ttl=1, trash_life=1, clock=clock)
    assert [both.is_outdated(digest(block)) for block in BLOCKS] == [False] + [True] * 5
    assert Scrub(store, 0).run().rewritten == 5
    assert Scrub(store, 0).run().rewritten == 0
    newest = SealedVolume(inner, {"2026": KEYS["2026"]})
    assert [content(newest, digest(block)) for block in BLOCKS] == BLOCKS


def test_a_missing_key_is_an_error_not_damage(clock):
    inner = MemoryVolume(uuid("1"), clock=clock)
    SealedVolume(inner, KEYS).put(digest(BLOCKS[0]), BLOCKS[0])
    for keys in ({"2027": b"c" * 32}, {"2026": b"d" * 32}):
        store = BlockStore([SealedVolume(inner, keys)], ttl=1, trash_life=1, clock=clock)
        found = Scrub(store, 0).run()
        assert (found.damaged, found.errors, found.lost) == (0, 1, [])
        with pytest.raises(StateError, match="another key '2026'"):
            store.get(Locator.of(BLOCKS[0]))
        assert len(list(store.index())) == 1
