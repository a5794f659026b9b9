"""The suite of all volumes."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from graveler.errors import InvalidInputError, ObjectNotFoundError
from graveler.keep.volumes.volume import Stored, Trashed
from graveler.testing.clock import FakeClock
from tests.harness.keep import DRIVERS, TWINS, content, digest, made, role

A = b"The quick brown fox jumps over the lazy dog."
B = b"Pack my box with five dozen liquor jugs."
C = b"Now is the time for all good men to come to the aid of their country."
HASH_A, HASH_B, HASH_C = map(digest, (A, B, C))
TTL, HOUR = 300, 3600


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture(params=DRIVERS)
def volume(request, tmp_path, clock):
    return made(request.param, tmp_path, clock)


def names(volume, **given):
    return [stored.digest for stored in volume.index(**given)]


def trashed(volume, name=HASH_A, life=HOUR):
    assert volume.trash(name, TTL, life) is Trashed.DONE


@pytest.fixture
def old(volume, clock):
    """A volume with a block that is older than the time to live."""
    volume.put(HASH_A, A)
    clock.advance(seconds=TTL)
    return volume


@pytest.mark.parametrize("data", [A, b"", bytes(range(256)) * 12_289, bytes(1 << 20)])
def test_a_block_is_read_as_it_was_written(volume, data):
    name = digest(data)
    for _ in range(2):
        volume.put(name, data)
        assert content(volume, name) == data
        assert volume.status(name).size == len(data)
    assert [stored[:2] for stored in volume.index()] == [(name, len(data))]


@pytest.mark.parametrize("twins", [TWINS, (A, b""), (b"", A)])
def test_the_last_content_of_a_name_stays(volume, twins):
    for data in twins:
        volume.put(HASH_B, data)
    assert content(volume, HASH_B) == twins[1]


@pytest.mark.parametrize("size", [(1 << 20) - 1, 1 << 20, (1 << 20) + 1, 64 << 20])
def test_a_part_of_a_block_is_read_without_the_rest(volume, size):
    data = (b"%08d" % size * (size // 8 + 1))[:size]
    with volume.writer(HASH_A) as writer:
        for at in range(0, size, 700_001):
            writer.write(memoryview(data)[at : at + 700_001])
        writer.commit()
    with volume.open(HASH_A) as opened:
        for start in (0, size // 2, size - 5, size):
            assert opened.file.seek(start) == start
            assert opened.file.read(10) == data[start : start + 10]
        assert (opened.size, opened.file.seek(-3, 2)) == (size, size - 3)
        assert opened.file.read(100) == data[-3:]


def test_a_block_that_is_not_there_raises(volume):
    for call in (
        *(volume.open, volume.status, volume.touch, volume.untrash),
        lambda name: volume.trash(name, 0, 1),
        lambda name: volume.set_aside(name, 1),
    ):
        with pytest.raises(ObjectNotFoundError, match=HASH_A):
            call(HASH_A)


@pytest.mark.parametrize("name", ["", "../../../etc/passwd", HASH_A.upper(), HASH_A + "a"])
def test_a_name_that_is_no_digest_is_refused(volume, name):
    for call in (volume.open, volume.status, volume.touch, volume.untrash):
        with pytest.raises(InvalidInputError, match="32 lower-case"):
            call(name)
    with pytest.raises(InvalidInputError), volume.writer(name):
        pass


def test_a_block_is_there_only_after_the_commit(volume):
    with pytest.raises(KeyError), volume.writer(HASH_A) as writer:
        writer.write(A)
        assert names(volume) == []
        raise KeyError
    assert names(volume) == []
    volume.put(HASH_A, B)
    with volume.writer(HASH_A) as writer:
        writer.write(A)
    assert content(volume, HASH_A) == B


def test_put_and_touch_set_the_time(volume, clock):
    for write in (lambda: volume.put(HASH_A, A), lambda: volume.touch(HASH_A)):
        for _ in range(2):
            clock.advance(seconds=20)
            before = volume.now_ns()
            write()
            assert before < volume.status(HASH_A).mtime_ns < volume.now_ns()
    [stored] = volume.index()
    with volume.open(HASH_A) as opened:
        assert stored == volume.status(HASH_A) == Stored(HASH_A, len(A), opened.mtime_ns)


def test_a_clock_that_is_set_back_makes_no_block_older(volume, clock):
    volume.put(HASH_A, A)
    before = volume.status(HASH_A).mtime_ns
    clock.advance(seconds=-TTL)
    volume.touch(HASH_A)
    assert volume.status(HASH_A).mtime_ns == before
    clock.advance(seconds=TTL + 1)
    assert volume.trash(HASH_A, TTL, HOUR) is Trashed.RECENT


def test_the_index_has_a_prefix_a_start_and_an_order(volume):
    for name in (HASH_C, HASH_B, HASH_A):
        volume.put(name, A)
    ordered = [HASH_A, HASH_C, HASH_B]
    assert ordered == sorted(ordered) == names(volume)
    assert [names(volume, prefix=each) for each in ("e", "f15", "f15ac", "0")] == [
        *([HASH_A, HASH_C], [HASH_B], [HASH_B], []),
    ]
    assert names(volume, after=HASH_A) == ordered[1:]
    assert names(volume, prefix="e", after=HASH_C) == []
    for wrong in ("F", "g", "0" * 33, "../"):
        with pytest.raises(InvalidInputError, match="prefix="):
            names(volume, prefix=wrong)


def test_a_young_block_is_not_trashed(volume, clock):
    volume.put(HASH_A, A)
    clock.advance(seconds=TTL - 1)
    assert volume.trash(HASH_A, TTL, HOUR) is Trashed.RECENT
    volume.touch(HASH_A)
    clock.advance(seconds=TTL - 1)
    assert volume.trash(HASH_A, TTL, HOUR) is Trashed.RECENT
    assert content(volume, HASH_A) == A


def test_only_a_copy_of_the_time_named_is_trashed(old):
    mtime_ns = old.status(HASH_A).mtime_ns
    for wrong in (mtime_ns - 1, mtime_ns + 1):
        assert old.trash(HASH_A, TTL, HOUR, wrong) is Trashed.CHANGED
    assert names(old) == [HASH_A]
    assert old.trash(HASH_A, TTL, HOUR, mtime_ns) is Trashed.DONE


def test_a_trashed_block_is_not_there(old):
    trashed(old)
    for call in (old.open, old.status, old.touch, lambda name: old.trash(name, 0, 1)):
        with pytest.raises(ObjectNotFoundError):
            call(HASH_A)
    assert names(old) == []


def test_a_trashed_block_can_be_restored_until_it_is_emptied(old, clock):
    for _ in range(2):
        assert old.in_trash(HASH_A) == 0
        trashed(old)
        assert old.in_trash(HASH_A) == old.now_ns() // 10**9 + HOUR
        clock.advance(seconds=HOUR - 1)
        assert old.empty() == 0
        before = old.now_ns()
        old.untrash(HASH_A)
        assert content(old, HASH_A) == A
        assert old.status(HASH_A).mtime_ns > before
        assert old.trash(HASH_A, TTL, HOUR) is Trashed.RECENT
        clock.advance(seconds=TTL)
    trashed(old, life=1)
    clock.advance(seconds=2)
    old.untrash(HASH_A)  # late, and in time
    clock.advance(seconds=TTL)
    trashed(old, life=1)
    clock.advance(seconds=2)
    assert (old.empty(), old.empty()) == (1, 0)
    with pytest.raises(ObjectNotFoundError):
        old.untrash(HASH_A)


def test_a_life_of_zero_leaves_nothing(old):
    trashed(old, life=0)
    with pytest.raises(ObjectNotFoundError):
        old.untrash(HASH_A)


def test_a_block_that_is_put_again_survives_its_trash(old, clock):
    trashed(old)
    old.put(HASH_A, A)
    clock.advance(seconds=HOUR + 1)
    assert old.empty() == 1
    assert content(old, HASH_A) == A


@pytest.mark.parametrize("emptied", [0, 1])
def test_of_two_trashed_copies_the_newer_is_restored(old, clock, emptied):
    old.put(HASH_A, B)  # to tell them apart
    clock.advance(seconds=TTL)
    trashed(old)
    old.put(HASH_A, A)
    clock.advance(seconds=TTL)
    trashed(old)
    clock.advance(seconds=emptied * (HOUR - TTL + 1))
    assert old.empty() == emptied
    old.untrash(HASH_A)
    assert content(old, HASH_A) == A


def test_two_copies_trashed_at_one_time_are_both_kept(old, clock):
    for _ in range(2):
        old.put(HASH_A, A)
        old.trash(HASH_A, 0, HOUR)
    clock.advance(seconds=HOUR + 5)
    assert old.empty() == 2


def test_a_restored_block_never_replaces_one_that_is_there(old):
    trashed(old)
    old.put(HASH_A, B)
    before = old.now_ns()
    old.untrash(HASH_A)
    assert content(old, HASH_A) == B
    assert old.status(HASH_A).mtime_ns > before


def test_a_copy_is_set_aside_if_its_time_is_right(old, clock):
    assert not old.set_aside(HASH_A, 1)
    assert content(old, HASH_A) == A
    assert old.set_aside(HASH_A, old.status(HASH_A).mtime_ns)
    assert names(old) == []
    clock.advance(days=1)
    assert old.empty() == 0
    with pytest.raises(ObjectNotFoundError):
        old.untrash(HASH_A)


def test_the_scrub_has_a_bookmark(volume):
    assert volume.bookmark() == ""
    for name in (HASH_A, ""):
        volume.set_bookmark(name)
        assert volume.bookmark() == name


def test_the_fields_of_a_volume_are_those_given(tmp_path, clock):
    for kind in DRIVERS:
        wanted = role("fast", "cheap", read_only=True, replication=2)
        volume = made(kind, tmp_path / kind, clock, role=wanted)
        assert (volume.read_only, volume.replication) == (True, 2)
        assert (volume.classes, volume.may_trash) == ({"fast", "cheap"}, False)
        assert volume.space().total >= volume.space().free > 1 << 20


def test_readers_and_writers_of_one_block_do_not_meet(volume):
    def work(number):
        for _ in range(20):
            volume.put(HASH_A, A if number % 2 else B)
            assert content(volume, HASH_A) in {A, B}
            volume.touch(HASH_A)
        return True

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
    assert names(volume) == [HASH_A]
