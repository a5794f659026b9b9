"""The work of a run reaches other branches only by its publish."""

import pytest

from graveler.errors import FencedError, GateFailedError, InvalidInputError, RunStateError
from graveler.gates import gate

KEY = "hourly 05"


@gate
def never(candidate):
    return "never"


@pytest.fixture
def refused(repo):
    """A run that its gate refused: it is parked, and its branch is kept."""
    run = repo.runs.open(KEY)
    with run.step("work") as step:
        step.put("bad", b"1")
    with pytest.raises(GateFailedError):
        run.publish([never])
    return run.record


def test_a_refused_run_is_merged_by_no_way(repo, refused):
    before = repo.commit("main")
    way = repo.create_branch("way", refused.branch)
    way.put("more", b"1")
    way.commit("looks harmless")
    repo.tags.create("v1", refused.branch)
    for source in (refused.branch, refused.head, refused.head[:16], "way", "v1"):
        with pytest.raises(RunStateError, match=KEY):
            repo.merge(source, "main")
    assert repo.commit("main") == before


def test_what_was_published_may_be_merged_on(repo, tree):
    dev = repo.create_branch("dev")
    with repo.run(KEY) as run:
        with run.step("work") as step:
            step.put("good", b"1")
        run.put("direct", b"2")
    repo.merge("main", "dev")
    dev.put("mine", b"3")
    dev.commit("mine")
    repo.merge("dev", "main")
    assert tree(repo.ref("main")) == {"settled": "0", "good": "1", "direct": "2", "mine": "3"}


def test_nobody_writes_to_the_branch_of_a_run_but_the_run(repo):
    run = repo.runs.open(KEY)
    dev = repo.create_branch("dev")
    dev.put("a", b"1")
    dev.commit("a")
    for use in (
        lambda: repo.merge("dev", run.branch),
        lambda: repo.branch(run.branch).put("a", b"1"),
        lambda: repo.delete_branch(run.branch),
    ):
        with pytest.raises(FencedError, match="belongs to a run"):
            use()


def test_nor_by_calling_it_published(repo):
    forged = {"graveler.published": "true"}
    run = repo.runs.open(KEY)
    run.put("a", b"1")
    dev = repo.create_branch("dev")
    dev.put("b", b"1")
    for call in (
        lambda: run.commit("x", metadata=forged),
        lambda: run.step("work", metadata=forged),
        lambda: repo.runs.open("another", metadata=forged),
        lambda: dev.commit("x", metadata=forged),
        lambda: repo.merge("dev", "main", metadata=forged),
    ):
        with pytest.raises(InvalidInputError, match=r"graveler\.published"):
            call()
