"""Staging, storages of several repositories, damaged repositories, and wrong clocks."""

from datetime import timedelta

import pytest

import graveler
from graveler.committed.metarange import read
from graveler.errors import (
    CorruptionError,
    InvalidInputError,
    NotFoundError,
    StateError,
)
from graveler.gc.marks import Kind
from graveler.model import Entry
from graveler.objects.memory import MemoryStore
from graveler.repository.witness.marker import MARKER, Marker, Owner, encode_marker
from graveler.testing.clock import FakeClock
from graveler.values import stage_entry
from tests.harness.gc_lakes import (
    DAY,
    NOW,
    check_sound,
    collect,
    commit,
    counts,
    keys,
    link,
    made_key,
    pass_days,
)
from tests.harness.worlds import ScriptedWorld

# -- staging


def test_writes_under_tokens_that_no_branch_names_go(repo):
    main, stores = repo.branch("main"), repo.stores
    dead = stores.refs.branches.get("main").staging_token
    main.put("a", b"1")
    main.commit("a")
    key = b"late"
    for number in range(3):  # a writer that stalls until after the commit
        stores.staging.set(dead, key + b"%d" % number, stage_entry(key, Entry("late", "data/x", 1)))
    main.put("b", b"2")
    mark = collect(repo)
    assert (mark.freed[Kind.STAGING].count, mark.freed[Kind.STAGING].size) == (1, 3)
    assert list(stores.staging.scan([dead])) == []
    assert main.get("b") == b"2"
    assert Kind.STAGING not in counts(collect(repo).condemned)


# -- storage


def test_what_is_not_ours_is_left_and_named(repo):
    strange = {"notes.txt", "_graveler/tmp", "datasets/x", "zz/data/1", f"_graveler/{'F' * 64}"}
    for key in strange:
        repo.stores.objects.put(key, b"mine")
    mark = collect(repo)
    assert (mark.unknown, set(mark.unknown_keys)) == (len(strange), strange)
    assert strange < keys(repo)


def test_an_unreadable_table_that_nobody_needs_is_collected(repo):
    repo.stores.objects.put(f"_graveler/{'ab' * 32}", b"no table")
    assert counts(collect(repo).freed) == {"ranges": 1}
    check_sound(repo)


def test_a_storage_that_two_repositories_share_is_refused(repo):
    repo.lake.create_repository("other", storage=repo.storage, adopt=True)
    for name in ("flights", "other"):
        with pytest.raises(StateError, match="give each a storage of its own"):
            repo.lake.repository(name).gc.mark()


def test_a_storage_of_a_repository_of_another_lake_is_refused(repo):
    other = Owner("other", "e" * 32, "flights", "there")
    marker = Marker(other, 1, "nonce", repo.stores.clock.now())
    repo.stores.objects.put(MARKER, encode_marker(marker))
    with pytest.raises(
        StateError, match=f"belongs to lake other, repository 'flights' .{'e' * 32}"
    ):
        repo.gc.mark()
    repo.stores.objects.delete(MARKER)
    repo.gc.mark()


@pytest.mark.parametrize("first", ["outer", "inner"])
def test_a_storage_within_that_of_another_lake_is_left_alone(tmp_path, first):
    places = {"outer": tmp_path / "x", "inner": tmp_path / "x" / "data" / "y"}
    repos = {}
    for name in (first, *places.keys() - {first}):
        lake = graveler.init(tmp_path / name)
        repos[name] = lake.create_repository("flights", storage=str(places[name]), adopt=True)
        commit(repos[name], "main", a="1")
    outer, inner = repos["outer"], repos["inner"]
    commit(outer, "dev", a="2")
    outer.delete_branch("dev")
    before = keys(outer, "data/y/")
    outer.gc.run(grace=NOW, window=NOW)
    assert keys(outer, "data/y/") == before
    assert check_sound(inner) == {"main": {"a": "1"}}


def test_data_kept_for_an_earlier_storage_owner_is_no_obstacle(repo):
    repo.stores.objects.put(f"_graveler/gc/{'e' * 32}/clock", b"")
    assert repo.gc.mark().unknown == 0


@pytest.mark.parametrize("what", ["metarange", "range", "commit", "branch"])
def test_nothing_is_condemned_where_something_is_missing(repo, what):
    head = repo.commit("main")
    commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    stores = repo.stores
    if what == "metarange":
        stores.objects.delete(f"_graveler/{head.metarange}")
    elif what == "range":
        info = read(stores.ranges, head.metarange)[0]
        body = bytearray(stores.objects.get(f"_graveler/{info.id.hex()}"))
        body[10] ^= 1
        stores.objects.put(f"_graveler/{info.id.hex()}", bytes(body))
    elif what == "commit":
        stores.kv.delete(f"refs:{stores.uid}", f"commit/{head.id}".encode())
    else:
        stores.kv.set(f"refs:{stores.uid}", b"branch/odd", b"{}")
    before = keys(repo)
    with pytest.raises(CorruptionError):
        repo.gc.run(grace=NOW, window=NOW)
    assert keys(repo) == before
    assert list(stores.refs.expired.list()) == []


def test_what_makes_no_sense_is_refused(repo):
    with pytest.raises(InvalidInputError, match="grace="):
        repo.gc.mark(grace=timedelta(days=-1))
    with pytest.raises(NotFoundError, match="no mark 'x'"):
        repo.gc.sweep("x")


@pytest.mark.parametrize("hours", [-48, 48])
def test_a_machine_with_a_wrong_clock_deletes_nothing_young(hours):
    """The store's clock decides the age of objects and the end of a window."""
    store_clock = FakeClock()

    class OtherClock(ScriptedWorld):
        def lake(self, *, scripted=True, kv=None, threads=0):
            lake = super().lake(scripted=scripted, kv=kv, threads=threads)
            kept = self.__dict__.setdefault("_store", MemoryStore("skewed", clock=store_clock))
            lake._open_store = lambda _uri: kept
            return lake

    world = OtherClock()
    repo = world.repo(scripted=False)
    world._clock.sleep(hours * 3_600)
    commit(repo, "main", a="1")
    commit(repo, "dev", x="dev")
    repo.delete_branch("dev")
    repo.branch("main").put("staged", b"2")
    stray = repo.stores.objects.put(made_key(repo), b"x")
    before = keys(repo)
    grace, window = timedelta(hours=24), timedelta(hours=36)
    assert counts(repo.gc.mark(grace=grace, window=window).condemned) == {}
    store_clock.sleep(25 * 3_600)
    world._clock.sleep(25 * 3_600)
    mark = repo.gc.mark(grace=grace, window=window)
    assert counts(mark.condemned)["data"] == 2
    world._clock.sleep(1_000 * 3_600)  # the machine's clock jumps
    with pytest.raises(StateError, match="may be swept from"):
        repo.gc.sweep(mark.id)
    world._clock.sleep(-2_000 * 3_600)
    store_clock.sleep(36 * 3_600)
    repo.gc.sweep(mark.id)
    assert before - keys(repo) > {stray.key}
    assert check_sound(repo)["main"] == {"a": "1", "staged": "2"}


def test_days_are_counted_by_the_clock_that_dates_commits(world, repo):
    assert DAY == 86_400
    pass_days(world, 10)
    commit(repo, "main", p0="new")
    repo.gc.keep("main", days=5)
    assert counts(repo.gc.mark(grace=NOW).condemned) == {}
    pass_days(world, 6)
    assert counts(repo.gc.mark(grace=NOW).condemned)["commits"] == 1


# -- costs


def test_a_writer_pays_for_collection_only_where_a_table_exists(world, repo, monkeypatch):
    asked = []
    get = world.kv.get

    def noted(partition, key):
        if partition.startswith("gc:"):
            asked.append(key)
        return get(partition, key)

    monkeypatch.setattr(world.kv, "get", noted)
    link(repo, "main", "base", p0="linked")
    link(repo, "main", "new tables", p0="changed")
    repo.merge("main", repo.create_branch("other", "main~1").name)
    repo.ref("main").get("p0")
    others = [key[:7] for key in asked if not key.startswith(b"file/")]
    assert others == [b"commit/"] * 5  # of each branch that is named, and of the new one
    asked.clear()
    link(repo, "main", "back", p0="linked")  # the records and tables exist already
    tables = [key for key in asked if key.startswith(b"file/")]
    assert 1 <= len(tables) == len(set(tables)) == len(asked) - 1
