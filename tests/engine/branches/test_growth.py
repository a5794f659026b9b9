"""Which costs grow with a repository, and which do not, by calls to the key-value store."""

from graveler.model import BranchRecord
from tests.harness.counting import counted_repo

PAGE = 10


def names(page):
    return [record.name for record in page]


def test_a_page_of_branches_reads_its_own_rows_alone():
    repo, kv = counted_repo()
    for number in range(1_000):
        name = f"run-hour-{number:05d}"
        record = BranchRecord(name, "0" * 64, "t", attempt=1, fence="f", hidden=True)
        repo.stores.refs.branches.create(record)
    users = ["main", *(f"user{number:04d}" for number in range(30))]
    for name in users[1:]:
        repo.create_branch(name)
    kv.reset()
    assert names(repo.branches(limit=PAGE)) == users[:PAGE]
    assert kv.calls == ["scan"]
    assert kv.rows <= PAGE + 1
    for hidden in (False, True):
        whole = names(repo.branches(hidden=hidden))
        assert whole[: len(users)] == users
        paged: list[str] = []
        after = ""
        while page := names(repo.branches(hidden=hidden, limit=PAGE, after=after)):
            paged, after = paged + page, page[-1]
        assert paged == whole
    repo.delete_branch("user0020")
    kv.reset()
    assert names(repo.branches(limit=2, after="user0020")) == ["user0021", "user0022"]
    assert kv.rows <= 3


def with_runs(count):
    """A repository with published runs. Each run is opened a second after the one before."""
    repo, kv = counted_repo()
    for number in range(count):
        repo.stores.clock.sleep(1)
        with repo.run(f"hour {number}") as run:
            run.put("x", b"%d" % number)
    kv.reset()
    return repo, kv


def keys(page):
    return [record.key for record in page]


def hours(*numbers):
    return [f"hour {number}" for number in numbers]


def test_a_page_of_runs_reads_that_page_alone():
    repo, kv = with_runs(25)
    page = list(repo.runs.list(limit=PAGE))
    assert keys(page) == hours(*range(24, 14, -1))
    assert len(kv.calls) <= 1 + PAGE
    assert kv.rows <= PAGE + 1
    kv.reset()
    assert keys(repo.runs.list(limit=2, after=page[-1])) == hours(14, 13)
    assert keys(repo.runs.list(limit=2, after="hour 15")) == hours(14, 13)
    assert kv.rows <= 6
    repo.stores.clock.sleep(1)
    repo.runs.open("hour 23").abandon()  # it comes first, and once
    assert keys(repo.runs.list()) == hours(23, 24, *range(22, -1, -1))


def test_runs_that_are_not_over_are_listed_without_the_others():
    repo, kv = with_runs(15)
    for number in (3, 4, 5):
        repo.stores.clock.sleep(1)
        repo.runs.open(f"hour {number}")
    repo.runs.park("hour 4")
    kv.reset()
    assert keys(repo.runs.list(live=True)) == hours(5, 4, 3)
    assert keys(repo.runs.list("PARKED")) == hours(4)
    assert keys(repo.runs.list(live=True, after="hour 5", limit=1)) == hours(4)
    assert len(kv.calls) <= 3 * 4 + 1


def test_reaping_costs_what_is_due():
    repo, kv = with_runs(20)
    for number in range(12):
        repo.runs.open(f"live {number:02}")
    kv.reset()
    assert repo.runs.reap(dry_run=False) == []
    assert kv.calls == ["scan"]
    assert kv.rows <= 1
    repo.stores.clock.sleep(1_000)
    kv.reset()
    assert repo.runs.reap(dry_run=False) == []
    assert len(kv.calls) <= 1 + 12 * 4  # the leases are over, but it is too early to reap the runs
    repo.stores.clock.sleep(300)
    assert len(repo.runs.reap(dry_run=False, limit=7)) == 7
    kv.reset()
    assert keys(repo.runs.reap(dry_run=False, limit=1)) == ["live 07"]
    assert len(kv.calls) < 40


def test_index_rows_of_lost_races_are_passed_over_then_dropped():
    repo, kv = with_runs(3)
    partition = f"runs:{repo.stores.uid}"
    rows = [key for key, _ in kv.scan(partition, b"opened/") if key.startswith(b"opened/")]
    for key in rows:
        time, _, branch = key.removeprefix(b"opened/").partition(b"/")
        kv.set(partition, b"opened/%016x/%s" % (int(time, 16) - 1, branch), b"1")
    kv.set(partition, b"opened/%016x/run-none-00000000" % (2**63 - 10**15), b"1")
    assert keys(repo.runs.list()) == ["hour 2", "hour 1", "hour 0"]
    repo.runs.reap(everything=True, dry_run=False)  # the rows are too young to be removed
    repo.stores.clock.sleep(2 * 86_400)
    repo.runs.reap(everything=True, dry_run=False)
    assert [key for key, _ in kv.scan(partition, b"opened/") if key.startswith(b"opened/")] == rows


def test_earlier_lives_of_a_name_are_bounded_the_latest_kept():
    repo, kv = counted_repo()
    for number in range(160):
        repo.create_branch("feature").put("x", b"%d" % number)
        repo.branch("feature").commit(f"life {number}")
        kv.reset()
        repo.delete_branch("feature")
    assert (len(kv.calls), kv.rows) == (4, 0)
    found = list(repo.moves("feature"))
    assert [line.action for line in found[:4]] == ["delete", "commit", "create", "delete"]
    heads = [repo.commit(line.after).message for line in found if line.action == "commit"]
    assert heads == [f"life {number}" for number in range(159, 159 - len(heads), -1)]
    assert 100 <= len(heads) < 150
    log = [key for key, _ in kv.scan(f"moves:{repo.stores.uid}", b"feature/")]
    assert len([key for key in log if key.startswith(b"feature/")]) == len(heads)
    kv.reset()
    assert repo.undo("feature").message == "life 159"
    assert len(kv.calls) < 25
    assert repo.branch("feature").get("x") == b"159"
    kv.reset()
    assert [line.action for line in repo.moves("feature", limit=2)] == ["undo", "delete"]
    assert kv.rows <= 6


def test_lines_of_a_tag_are_bounded_and_the_latest_are_kept():
    repo, kv = counted_repo()
    for _ in range(140):
        repo.tags.create("v1", "main")
        repo.tags.delete("v1")
    kv.reset()
    repo.tags.create("v1", "main")
    assert len(kv.calls) < 8
    assert kv.rows <= 1
    found = [line.action for line in repo.tags.moves("v1")]
    assert 200 <= len(found) < 250
    assert set(found[::2]) == {"create"}
    assert set(found[1::2]) == {"delete"}
    repo.tags.delete("v1")
    repo.tags.undelete("v1")
    assert repo.ref("v1").commit.id == repo.commit("main").id
