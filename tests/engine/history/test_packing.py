"""A pack puts the same paths into other ranges, and does not change the answers about paths."""

import pytest

import graveler
from graveler.committed import metarange
from graveler.committed.splitting import Splitting
from graveler.errors import InvalidInputError
from graveler.fsck.check import fsck
from graveler.gates.statistics import last_touch
from graveler.gates.verdicts import content
from graveler.repository.commits.packing import PACK_PAIR
from tests.harness.worlds import tree

RULE = Splitting(min_bytes=1_000, max_bytes=3_000, raggedness=2, hard=8)


@pytest.fixture
def repo(lake):
    made = lake.create_repository("flights", splitting=RULE)
    main = made.branch("main")
    for hour in range(24):
        main.put_many((f"in/{hour:02d}/{part}", str(hour).encode()) for part in range(3))
        main.commit(f"hour {hour}")
    main.delete_many([f"in/{hour:02d}/1" for hour in range(0, 24, 2)])
    main.commit("deleted")
    return made


def infos(repo, ref="main"):
    return metarange.read(repo.stores.ranges, repo.commit(ref).metarange)


def test_a_pack_is_a_commit_without_changes(repo):
    before, head = tree(repo.ref("main")), repo.commit("main")
    stats = repo.stats()
    packed = repo.pack()
    assert packed.commit == repo.commit("main")
    assert packed.commit.parents == (head.id,)
    assert packed.commit.message == f"Pack: {packed.before} ranges became {packed.after}"
    assert packed.commit.metadata == {PACK_PAIR: f"{packed.before} {packed.after}"}
    assert tree(repo.ref("main")) == before
    assert list(repo.diff(head.id, "main")) == []
    assert packed.before >= stats.badly_cut > 0
    assert packed.before > packed.after > 0
    assert packed.bytes_read >= stats.badly_cut_bytes
    assert all(info.natural for info in infos(repo)[:-1])
    assert fsck(repo.stores, objects="checksum").sound
    again = repo.pack()
    assert (again.commit, again.before, again.left) == (None, 0, 0)


def test_the_history_of_a_path_does_not_name_a_pack(repo):
    before = list(repo.log(path="in/03/1")), list(repo.log(path="in/"))
    why = repo.why("in/03/1")
    repo.pack()
    assert (list(repo.log(path="in/03/1")), list(repo.log(path="in/"))) == before
    assert repo.why("in/03/1").commit == why.commit
    assert repo.log(limit=1).__next__().message.startswith("Pack")


def test_what_gates_read_of_the_contents_does_not_change(repo):
    def read(commit):
        return {
            prefix: (
                content(repo.stores, commit.metarange, prefix),
                last_touch(repo.stores, commit.id, (prefix,)),
            )
            for prefix in ("", "in/", "in/03", "in/0", "nothing/")
        }

    head = repo.commit("main")
    before = read(head)
    packed = repo.pack().commit
    assert packed.metarange != head.metarange
    assert read(packed) == before
    repo.branch("main").put("in/03/x", b"new")
    after = read(repo.branch("main").commit("new"))
    assert [prefix for prefix in before if after[prefix] == before[prefix]] == ["nothing/"]


def test_a_protected_branch_is_packed_without_asking_its_gates(repo):
    repo.protection.add("main")
    repo.gates.require("main", graveler.checks.only_within("in/"))
    judged = list(repo.gates.judgements())
    assert repo.pack().commit is not None
    assert list(repo.gates.judgements()) == judged


def test_what_a_pack_left_by_its_limit_the_next_one_packs(repo):
    first = repo.pack(limit=1)
    assert first.commit is not None
    assert first.left > 0
    for _ in range(30):
        if repo.pack(limit=1).commit is None:
            break
    assert not any(not info.natural for info in infos(repo)[:-1])


def test_after_a_change_of_the_policy_everything_can_be_packed(repo):
    old = infos(repo)
    repo.splitting.set(policy="directory", max_bytes=1_000)
    assert infos(repo) == old
    repo.pack(everything=True)
    before = {path: tree(repo.ref("main"))[path] for path in tree(repo.ref("main"))}
    assert max(info.size for info in infos(repo)) < 2_000
    assert tree(repo.ref("main")) == before


def test_the_statistics_of_a_tree_are_those_of_its_ranges(repo):
    stats = repo.stats()
    ranges = infos(repo)
    assert (stats.commit, stats.ranges) == (repo.commit("main").id, len(ranges))
    assert (stats.entries, stats.bytes) == (60, sum(info.size for info in ranges))
    assert stats.fragments == sum(not info.natural for info in ranges)
    assert stats.smallest <= stats.median <= stats.largest
    assert stats.packed_ranges < stats.ranges
    assert stats.packed_scan_cost < stats.scan_cost
    repo.pack()
    after = repo.stats()
    assert (after.badly_cut, after.badly_cut_bytes) == (0, 0)
    assert after.packed_ranges == after.ranges


def test_the_policy_of_a_repository_is_shown_and_changed(lake):
    repo = lake.create_repository("flights", splitting=Splitting())
    assert repo.splitting.show()["policy"] == "hash"
    changed = repo.splitting.set(policy="directory", max_bytes=4_000)
    assert (changed["table_bytes"], changed["key_bytes"]) == (125, 2_000)
    assert repo.splitting.set(max_bytes=8_000)["table_bytes"] == 250
    assert repo.splitting.set(table_bytes=1)["max_bytes"] == 8_000
    assert lake.repository("flights").splitting.show() == repo.splitting.show()
    number = repo.splitting.show()["number"]
    assert repo.splitting.set(policy="hash")["number"] == number
    whole = Splitting("directory", max_bytes=4_000)
    assert repo.splitting.set(whole)["max_bytes"] == 4_000
    assert repo.splitting.show() == whole.encode()


@pytest.mark.parametrize(
    ("policy", "wrong"),
    [
        (None, {"policy": "size"}),
        (None, {"most": 3}),
        (None, {"max_bytes": "1"}),
        (None, {"table_bytes": 1}),
        ("hash", {}),
        (Splitting("directory"), {"max_bytes": 1_000}),
    ],
)
def test_a_policy_that_makes_no_sense_changes_nothing(lake, policy, wrong):
    repo = lake.create_repository("flights", splitting=RULE)
    before = repo.splitting.show()
    with pytest.raises(InvalidInputError):
        repo.splitting.set(policy, **wrong)
    assert repo.splitting.show() == before


def test_another_process_follows_within_ten_minutes(lake):
    repo = lake.create_repository("flights", splitting=RULE)
    other = lake.repository("flights")
    assert other.stores.splitting == RULE
    repo.splitting.set(max_bytes=7_000)
    assert repo.stores.splitting.max_bytes == 7_000
    assert other.stores.splitting == RULE
    other.stores.clock.advance(seconds=601)
    assert other.stores.splitting.max_bytes == 7_000
