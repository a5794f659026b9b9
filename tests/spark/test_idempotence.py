"""Which transactions of an application are in a history."""

from typing import Any

import pytest

import graveler
from graveler.errors import InvalidInputError
from graveler.refs.history import is_ancestor, log, outside
from graveler.spark.idempotence import Landed, Txn


@pytest.fixture
def repo(tmp_path):
    with graveler.init(tmp_path) as lake:
        yield lake.create_repository("tables")


def commit(repo, branch, txn=None):
    metadata = {} if txn is None else Txn.of(txn).metadata
    return repo.branch(branch).commit("a commit", metadata=metadata, allow_empty=True)


def landed(repo):
    return Landed(repo.stores.refs.commits)


def test_a_version_is_found_in_any_order(repo):
    known, head = landed(repo), repo.commit("main")
    assert known.find(Txn("orders", 3), head) is None
    late = commit(repo, "main", ("orders", 5))
    early = commit(repo, "main", ("orders", 3))
    commit(repo, "main", ("clicks", 4))
    for searched in (known, landed(repo)):
        head = repo.commit("main")
        assert searched.find(Txn("orders", 3), head) == early
        assert searched.find(Txn("orders", 5), head) == late
        assert searched.find(Txn("orders", 4), head) is None


def test_commits_since_are_all_of_them_and_no_others(repo):
    base = commit(repo, "main")
    repo.create_branch("early", "main~1")
    repo.create_branch("dev")
    for branch in ("early", "dev", "main"):
        commit(repo, branch)
    for source, into in (("early", "dev"), ("main", "dev"), ("dev", "main")):
        repo.merge(source, into=into)
    head, commits = repo.commit("main"), repo.stores.refs.commits
    seen = [commit.id for commit in outside(commits, head.id, base.id)]
    wanted = [
        commit.id
        for commit in log(commits, head.id)
        if not is_ancestor(commits, commit.id, base.id)
    ]
    assert sorted(seen) == sorted(wanted)
    assert len(seen) == 6


@pytest.mark.parametrize("txn", ["orders", ("orders",), ("orders", "1"), ("", 1), ("orders", -1)])
def test_a_name_of_another_kind_is_refused(txn: Any):
    with pytest.raises(InvalidInputError, match="txn"):
        Txn.of(txn)
