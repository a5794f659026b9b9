"""Real histories: of a listing by its times, and of a branch by its commits."""

from datetime import timedelta

import pytest

import graveler
from graveler.committed import metarange
from graveler.committed.splitting import Splitting
from graveler.errors import InvalidInputError
from graveler.simulation.figures import figures
from graveler.simulation.patterns import changed_by
from graveler.simulation.replay import Policy, replay
from graveler.simulation.sources import branch_history, listed_history, listed_tree
from graveler.values import record_id

SPLITTING = Splitting("hash", max_bytes=2_000, raggedness=4)


@pytest.fixture
def listing(tmp_path):
    """A listing of files from three hours: two, one, and three."""
    times = {"a/1": 2, "a/2": 2, "b/1": 3, "b/2": 5, "b/3": 5, "c/1": 5}
    file = tmp_path / "listing.csv"
    file.write_text(
        "".join(f"bucket,{key},1,2021-04-26T{hour:02}:30:00Z,x\n" for key, hour in times.items())
    )
    return file


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("flights", splitting=SPLITTING)


def keys(changes):
    return [key.decode() for key, *_ in changes]


def test_a_listing_is_replayed_hour_by_hour(listing):
    history = listed_history([listing])
    assert [keys(commit) for commit in history.commits()] == [
        ["a/1", "a/2"],
        ["b/1"],
        ["b/2", "b/3", "c/1"],
    ]
    assert keys(history.base()) == []
    assert (history.name, history.about) == ("listing.csv", "6 files, 3 commits, from 0 files")


def test_older_files_are_in_the_tree_that_a_listing_starts_from(listing):
    history = listed_history([listing], commits=1)
    assert keys(history.base()) == ["a/1", "a/2", "b/1"]
    assert [keys(commit) for commit in history.commits()] == [["b/2", "b/3", "c/1"]]


def test_the_span_of_a_commit_can_be_longer(listing):
    history = listed_history([listing], every=timedelta(hours=4))
    assert [len(commit) for commit in history.commits()] == [3, 3]


def test_a_listing_without_times_is_refused_with_the_way_out(tmp_path):
    file = tmp_path / "listing.csv"
    file.write_text("Key,Size\na,1\n")
    with pytest.raises(InvalidInputError, match=r"listing\.csv: path 'a' has no time: .*--pattern"):
        listed_history([file])
    assert keys(listed_tree([file]).base()) == ["a"]


def test_an_empty_listing_is_refused(tmp_path):
    file = tmp_path / "listing.csv"
    file.write_text("")
    with pytest.raises(InvalidInputError, match=r"listing\.csv has no files"):
        listed_history([file])


@pytest.mark.parametrize(("name", "changed"), [("updates", 2), ("compaction", 9)])
def test_a_listed_tree_is_changed_by_a_pattern(listing, name, changed):
    history = changed_by(listed_tree([listing]), name, files=2, commits=1)
    (commit,) = history.commits()
    assert len(commit) == changed
    found = figures(replay(history, Policy("hash", SPLITTING)))
    assert found.commits == 1


def test_only_some_patterns_change_a_listing(listing):
    with pytest.raises(InvalidInputError, match="pattern 'hourly' makes a tree of its own"):
        changed_by(listed_tree([listing]), "hourly", files=2, commits=1)


def test_a_branch_is_replayed_commit_by_commit(repo):
    main = repo.branch("main")
    for number in range(6):
        for at in range(8):
            main.put(f"{number % 3}/{number}-{at}", b"%d" % number)
        if number:
            main.delete(f"{(number - 1) % 3}/{number - 1}-0")
        main.commit(f"commit {number}")
    stores, head = repo.stores, repo.commit("main")
    history = branch_history(stores, head, "main")
    found = replay(history, Policy("hash", stores.splitting))
    assert found.ranges == metarange.read(stores.ranges, head.metarange)
    assert [len(commit) for commit in history.commits()] == [0, 8, 9, 9, 9, 9, 9]
    last = branch_history(stores, head, "main", 2)
    assert [len(commit) for commit in last.commits()] == [9, 9]
    assert sum(1 for _ in last.base()) == 4 * 8 - 3
    key, identifier, value = next(iter(last.base()))
    assert value is not None
    assert identifier == record_id(key, value)
    assert replay(last, Policy("hash", stores.splitting)).ranges[-1].max_key == b"2/5-7"
