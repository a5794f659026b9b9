"""A hard reset moves a branch and leaves nothing staged."""

import pytest

from graveler.errors import FencedError, ProtectedBranchError, RefNotFoundError, RunStateError
from graveler.repository.commits.sealing import _seal
from tests.harness.histories import commit
from tests.harness.worlds import tree


def test_a_hard_reset_moves_the_branch_and_drops_staged_writes(repo):
    main = repo.branch("main")
    first = commit(main, "one", a="1")
    second = commit(main, "two", a="2")
    main.put("sealed", b"1")
    _seal(repo.stores, "main", "")  # the state after a committer dies
    main.put("staged", b"1")
    tokens = repo.stores.refs.branches.get("main")
    main.reset(to="main~1")
    assert repo.commit("main") == first == main.head
    assert tree(main) == {"a": "1"}
    assert list(main.uncommitted()) == []
    assert repo.stores.refs.branches.get("main").sealed_tokens == ()
    for token in (tokens.staging_token, *tokens.sealed_tokens):
        assert repo.stores.staging.is_empty(token)
    main.reset(to=second.id)  # the reset moves forward again
    assert tree(main) == {"a": "2"}
    assert commit(main, "three", b="1").parents == (second.id,)


def test_a_hard_reset_to_the_head_drops_staged_writes(repo):
    main = repo.branch("main")
    head = commit(main, "one", a="1")
    main.put("a", b"2")
    main.reset(to="main")
    assert main.head == head
    assert tree(main) == {"a": "1"}


def test_a_hard_reset_to_nowhere_changes_nothing(repo):
    main = repo.branch("main")
    main.put("a", b"2")
    for ref in ("nowhere", "main~5"):
        with pytest.raises(RefNotFoundError):
            main.reset(to=ref)
    assert tree(main) == {"a": "2"}


def test_a_protected_branch_is_not_reset(repo):
    main = repo.branch("main")
    commit(main, "one", a="1")
    repo.protection.add("main")
    with pytest.raises(ProtectedBranchError, match=r"against reset .*'main'.*unprotect"):
        main.reset(to="main~1")
    repo.protection.add("main", ["write"])
    main.reset(to="main~1")
    assert tree(main) == {}


def test_a_run_branch_is_not_reset_nor_reset_to(repo):
    run = repo.runs.open("hour 05")
    run.put("out", b"1")
    run.commit("out")
    for branch in (repo.branch(run.branch), run):
        with pytest.raises(FencedError, match="belongs to a run"):
            branch.reset(to="main")
    with pytest.raises(RunStateError, match="not published"):
        repo.branch("main").reset(to=run.branch)
    run.put("more", b"1")
    run.reset()
    assert tree(run) == {"out": "1"}
