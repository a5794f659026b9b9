"""A listing of a branch shows one commit and the writes staged on it."""

import tracemalloc
from dataclasses import replace
from hashlib import sha256
from itertools import count

import pytest

from graveler.errors import CorruptionError, ExpiredError
from graveler.model import Prefix
from graveler.reads.listing import Spool
from graveler.refs.commits import Expired
from tests.harness.worlds import ScriptedWorld

FILES = 1_500


def fill(branch, generation, number=FILES):
    """Give every file of a table the bytes of a generation."""
    stored = branch.store("table", str(generation).encode())
    branch.link_many(replace(stored, path=f"table/{at:05}") for at in range(number))


def generations(entries):
    return {entry.checksum for entry in entries}


def of(number):
    return f"sha256:{sha256(str(number).encode()).hexdigest()}"


def world_of(branches):
    """Make main with generation 0 of a table, and branches with the later generations."""
    world = ScriptedWorld()
    repo = world.lake(scripted=False).create_repository("wide")
    main = repo.branch("main")
    fill(main, 0)
    main.commit("0")
    for number in range(1, branches + 1):
        dev = repo.create_branch(f"dev{number}", f"dev{number - 1}" if number > 1 else "main")
        fill(dev, number)
        dev.commit(str(number))
    return world


def wide(world, *, scripted=False):
    return world.lake(scripted=scripted).repository("wide")


def merging(repo):
    """Return a function that publishes the next generation in each call."""
    numbers = count(1)
    return lambda *_: repo.merge(f"dev{next(numbers)}", into="main")


def test_publishes_during_a_listing_do_not_show_in_it():
    world = world_of(branches=3)
    publish = merging(wide(world))
    seen = []
    for at, entry in enumerate(wide(world, scripted=True).branch("main").entries("table/")):
        seen.append(entry)
        if at % 600 == 10:
            publish()
    assert len(seen) == FILES
    assert generations(seen) == {of(0)}


def test_a_publish_at_any_call_of_a_listing_shows_whole_or_not():
    world = world_of(branches=1)
    publisher = wide(world)
    head = publisher.branch("main").head.id
    shown = []
    for number in count(1):
        repo = wide(world, scripted=True)
        world.script.arm(number, merging(publisher))
        listed = list(repo.branch("main").entries("table/"))
        struck = world.script.disarm()
        assert len(listed) == FILES
        assert len(generations(listed)) == 1
        shown.append(generations(listed) == {of(1)})
        if not struck:
            break
        publisher.branch("main").reset(head)
    assert set(shown) == {True, False}


@pytest.mark.parametrize("delimiter", ["", "/"])
def test_staged_writes_are_read_once_for_any_number_of_folders(delimiter):
    world = ScriptedWorld()
    main = world.repo(scripted=False).branch("main")
    for number in range(50):
        main.put(f"a/{number:02}/committed", b"")
    main.commit("c")
    for number in range(50):
        main.put(f"a/{number:02}/staged", b"")
    calls = len(world.script.calls)
    found = list(world.repo().branch("main").list("a/", delimiter=delimiter))
    assert world.script.calls[calls:].count("scan") == 1
    if delimiter:
        assert found == [Prefix(f"a/{number:02}/") for number in range(50)]
    else:
        assert len(found) == 100


def test_writes_and_commits_during_a_listing_do_not_show_in_it():
    world = ScriptedWorld()
    repo = world.repo(scripted=False)
    main = repo.branch("main")
    fill(main, 0, 600)
    main.commit("0")
    fill(main, 1, 300)
    listing = world.repo().branch("main").entries()
    seen = [next(listing)]
    fill(main, 2, 600)
    main.commit("2")
    main.delete("table/00500")
    seen += listing
    assert [entry.checksum for entry in seen] == [of(1)] * 300 + [of(0)] * 300


def test_a_listing_begun_again_goes_on_behind_a_path():
    main = ScriptedWorld().repo(scripted=False).branch("main")
    fill(main, 0, 100)
    main.commit("0")
    fill(main, 1, 50)
    rest = list(main.list("table/", after="table/00039"))
    assert [entry.path for entry in rest] == [f"table/{at:05}" for at in range(40, 100)]
    assert [entry.checksum for entry in rest] == [of(1)] * 10 + [of(0)] * 50


@pytest.mark.parametrize("in_memory", [100, 10_000_000])
def test_a_spool_gives_its_rows_from_any_start(in_memory):
    rows = [(b"%06d" % number, b"v" * (number % 700)) for number in range(0, 5_000, 2)]
    with Spool(in_memory_bytes=in_memory) as spool:
        for _ in range(2):  # the second fill replaces the first
            spool.fill([(b"x", b"1")])
            spool.fill(rows)
        assert list(spool.rows()) == rows
        for start in (b"", b"000000", b"000001", b"002500", b"004997", b"004998", b"004999", b"z"):
            assert list(spool.rows(start)) == [row for row in rows if row[0] >= start]
        halves = spool.rows(), spool.rows(b"002500")
        mixed = [(next(halves[0]), next(halves[1])) for _ in range(1_000)]
        assert [low for low, _ in mixed] == rows[:1_000]
        spool.fill([])
        assert list(spool.rows()) == []


def test_the_memory_of_a_listing_does_not_grow_with_staged_rows():
    def rows():
        return ((b"%08d" % number, b"v" * 200) for number in range(200_000))

    tracemalloc.start()
    try:
        with Spool(in_memory_bytes=1_000_000) as spool:
            spool.fill(rows())
            assert sum(1 for _ in spool.rows()) == 200_000
            peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4_000_000


@pytest.mark.parametrize("staged", [False, True])
def test_a_listing_that_outlives_a_sweep_says_so(monkeypatch, staged):
    repo = ScriptedWorld().repo()
    main = repo.branch("main")
    main.put("a", b"1")
    head = main.commit("a")
    if staged:
        main.put("b", b"2")
    listing = main.entries()
    gone = Expired(mark="m1", at=1_357_016_400_000_000, gone=True)
    repo.stores.refs.expired.write(head.id, gone)

    def removed(*_):
        raise CorruptionError("metarange is missing")

    monkeypatch.setattr("graveler.reads.view.below", removed)
    with pytest.raises(ExpiredError):
        list(listing)
