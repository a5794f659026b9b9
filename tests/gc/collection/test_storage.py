"""Staging, storages of several repositories, damaged repositories, and wrong clocks."""

import pytest

import graveler
from graveler.committed.metarange import read
from graveler.errors import (
    CorruptionError,
    StateError,
)
from graveler.gc.marks import Kind
from graveler.model import Entry
from graveler.repository.witness.marker import MARKER, Marker, Owner, encode_marker
from graveler.values import stage_entry
from tests.harness.gc_lakes import (
    NOW,
    check_sound,
    collect,
    commit,
    counts,
    keys,
)

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


# -- costs
