"""The history of a path: which commits changed it, and how much is read to find them."""

from dataclasses import replace

import pytest

from graveler.refs.commits import encode_commit
from tests.harness.histories import commit, messages
from tests.harness.worlds import ScriptedWorld


@pytest.fixture
def main(repo):
    branch = repo.branch("main")
    commit(branch, "base", **{f"k{number:03}": "0" for number in range(60)})
    return branch


def forget_spans(repo):
    """Store all commits in the form of an older graveler."""
    stores = repo.stores
    for made in list(stores.refs.commits.list()):
        key = b"commit/" + made.id.encode()
        stores.kv.set(f"refs:{stores.uid}", key, encode_commit(replace(made, spans=None)))


@pytest.mark.parametrize("known", [True, False])
def test_commits_that_changed_a_path_are_listed(lake, repo, main, known):
    commit(main, "one", k010="1")
    commit(main, "neighbour", k011="1")
    commit(main, "gone", k010=None)
    commit(main, "far", k050="1")
    commit(main, "again", k010="0")
    main.put("k010", b"0")
    commit(main, "the same, and another", k012="1")
    if not known:
        forget_spans(repo)
        assert all(made.spans is None for made in repo.stores.refs.commits.list())
        repo = lake.repository(repo.name)  # this object has no commits in memory
    assert messages(repo, path="k010") == ["again", "gone", "one", "base"]
    assert messages(repo, path="k050") == ["far", "base"]
    assert messages(repo, path="k010", limit=2) == ["again", "gone"]
    assert messages(repo, "main~3", path="k010") == ["gone", "one", "base"]
    assert messages(repo, path="nowhere") == []
    assert messages(repo, prefix="k01") == [
        *("the same, and another", "again", "gone", "neighbour", "one", "base")
    ]
    assert messages(repo, prefix="k05") == ["far", "base"]
    assert messages(repo, prefix="x") == []
    assert messages(repo, path="k01") == []


@pytest.fixture
def merges(repo, main):
    """Two merged branches: one changed k010, the other one k050."""
    for name, path in (("ten", "k010"), ("fifty", "k050")):
        commit(repo.create_branch(name), name, **{path: name})
    for name in ("ten", "fifty"):
        repo.merge(name, into="main", message=f"merge {name}")
    return repo


def test_a_change_that_a_merge_brought_is_shown_at_its_origin(merges):
    assert messages(merges, path="k010") == ["ten", "base"]
    assert messages(merges, path="k050") == ["fifty", "base"]
    assert messages(merges, path="k030") == ["base"]


def test_by_first_parents_the_merge_that_brought_it_is_shown(merges):
    assert messages(merges, path="k010", first_parent=True) == ["merge ten", "base"]
    assert messages(merges, prefix="k0", first_parent=True) == [
        *("merge fifty", "merge ten", "base")
    ]


def test_a_merge_that_made_something_of_both_sides_is_shown(repo, main):
    commit(repo.create_branch("dev"), "theirs", k010="theirs")
    commit(main, "ours", k011="ours")
    repo.merge("dev", into="main", message="both")
    assert messages(repo, prefix="k01")[0] == "both"  # neither side has this content
    assert sorted(messages(repo, prefix="k01")[1:]) == ["base", "ours", "theirs"]
    assert messages(repo, path="k010") == ["theirs", "base"]


def test_a_side_that_came_to_nothing_is_left_out(repo, main):
    dev = repo.create_branch("dev")
    commit(dev, "tried", k010="1")
    commit(dev, "given up", k010="0")
    commit(dev, "else", k050="1")
    repo.merge("dev", into="main")
    assert messages(repo, path="k010") == ["base"]


def test_only_commits_that_can_have_changed_the_path_are_opened():
    """Of 200 commits, four change the path."""
    repo = ScriptedWorld().repo(scripted=False)
    main = repo.branch("main")
    commit(main, "base", **{f"k{number:03}": "0" for number in range(60)})
    for number in range(200):
        path = "k010" if number % 50 == 0 else f"k{30 + number % 25:03}"
        commit(main, str(number), **{path: f"v{number}"})
    stats = repo.stores.ranges.stats

    def opened(**options):
        before = (stats.ranges_read, stats.metaranges_read)
        found = messages(repo, **options)
        return found, stats.ranges_read - before[0], stats.metaranges_read - before[1]

    tens = [*(str(number) for number in range(150, -1, -50)), "base"]
    for options in ({"path": "k010"}, {"prefix": "k010"}):
        found, ranges, trees = opened(**options)
        assert found == tens
        assert len(tens) <= ranges <= 2 * len(tens)
        assert len(tens) <= trees <= 2 * len(tens)
    assert opened(path="k059") == (["base"], 1, 1)  # opens only the first commit that has it


def test_a_log_is_chosen_by_metadata_run_committer_and_time(repo):
    main, clock = repo.branch("main"), repo.stores.clock
    times = []
    for number, (source, who) in enumerate([("bts", "ann"), ("bts", "bob"), ("faa", "ann")]):
        clock.sleep(3_600)
        main.put(f"t/{number % 2}", str(number).encode())
        times.append(main.commit(f"c{number}", metadata={"source": source}, committer=who).created)
    with repo.run("hour") as run:
        run.put("r", b"r")

    def shown(**options):
        return [commit.message for commit in repo.log(**options)]

    assert shown(metadata={"source": "bts"}) == ["c1", "c0"]
    assert shown(metadata={"source": "bts"}, committer="ann") == ["c0"]
    assert shown(metadata={"source": "bts", "other": "x"}) == []
    assert shown(run="hour", first_parent=True) == ["run hour"]
    assert shown(since=times[1], until=times[2]) == ["c1"]
    assert shown(until=times[0].isoformat()) == ["Repository created"]
    assert shown(committer="ann", limit=1) == ["c2"]
    assert shown(metadata={"source": "bts"}, prefix="t/", limit=1) == ["c1"]
    assert shown(path="t/0", committer="ann", metadata={"source": "bts"}) == ["c0"]
