"""What grows with a repository, and what must not: calls to the key-value store are counted."""

from graveler.model import BranchRecord
from tests.engine.counting import counted_repo

PAGE = 50


def names(page):
    return [record.name for record in page]


def with_branches(*, users, of_runs):
    repo, kv = counted_repo()
    for number in range(of_runs):
        name = f"run-hour-{number:05d}"
        record = BranchRecord(name, "0" * 64, "t", attempt=1, fence="f", hidden=True)
        repo.stores.refs.branches.create(record)
    for number in range(users):
        repo.create_branch(f"user{number:04d}")
    kv.reset()
    return repo, kv


def test_the_first_page_of_branches_reads_no_branch_of_a_run():
    repo, kv = with_branches(users=60, of_runs=3_000)
    assert names(repo.branches(limit=PAGE)) == ["main", *(f"user{n:04d}" for n in range(PAGE - 1))]
    assert kv.calls == ["scan"]
    assert kv.rows <= PAGE + 1
    assert len(names(repo.branches())) == 61


def test_branches_are_paged_by_the_name_of_the_last_one():
    repo, kv = with_branches(users=200, of_runs=5)
    for hidden in (False, True):
        whole = names(repo.branches(hidden=hidden))
        paged: list[str] = []
        after = ""
        while page := names(repo.branches(hidden=hidden, limit=PAGE, after=after)):
            paged, after = paged + page, page[-1]
        assert paged == whole
    repo.delete_branch("user0100")
    kv.reset()
    assert names(repo.branches(limit=2, after="user0100")) == ["user0101", "user0102"]
    assert kv.rows <= 3
