"""A commit record that was changed in the key-value store is refused."""

import json
from dataclasses import replace

import pytest

from graveler.errors import CorruptionError
from graveler.refs.commits import encode_commit
from tests.harness.worlds import ScriptedWorld, tree

ALTERED = {
    "another tree": lambda repo, commit: {"metarange": repo.commit("main~1").metarange},
    "no tree": lambda repo, commit: {"metarange": "0" * 64},
    "other parents": lambda repo, commit: {"parents": (repo.commit("dev").id,)},
    "no parents": lambda repo, commit: {"parents": ()},
    "message": lambda repo, commit: {"message": "nothing to see"},
    "committer": lambda repo, commit: {"committer": "mallory"},
    "time": lambda repo, commit: {"created": repo.commit("main~1").created},
    "metadata": lambda repo, commit: {"metadata": {"graveler.published": "true"}},
    "generation of a root": lambda repo, commit: {"generation": 1},
}
READS = {
    "read": lambda repo: tree(repo.ref("main")),
    "stat": lambda repo: repo.branch("main").stat("a"),
    "log": lambda repo: list(repo.log("main")),
    "diff": lambda repo: list(repo.diff("main", "dev")),
    "merge": lambda repo: repo.merge("dev", into="main"),
    "merge into": lambda repo: repo.merge("main", into="dev"),
    "revert": lambda repo: repo.revert("main", "dev"),
    "commit": lambda repo: repo.branch("main").commit("more"),
    "name": lambda repo: repo.commit(repo.head_before),
    "collect": lambda repo: repo.gc.run(),
    "dump": lambda repo: repo.dump_refs(repo.folder / "refs"),
}


@pytest.fixture
def repo():
    repo = ScriptedWorld().repo(scripted=False)
    main = repo.branch("main")
    main.put("a", b"1")
    main.commit("one")
    repo.create_branch("dev").put("b", b"1")
    repo.branch("dev").commit("beside")
    main.put("a", b"2")
    main.commit("two")
    main.put("staged", b"3")
    return repo


def alter(repo, identifier, fields):
    commit = repo.commit(identifier)
    key = f"commit/{commit.id}".encode()
    repo.stores.kv.set(f"refs:{repo.stores.uid}", key, encode_commit(replace(commit, **fields)))
    return repo.lake.repository("flights")  # has no commit in memory


PAIRS = [(altered, "read") for altered in ALTERED]
PAIRS += [("another tree", operation) for operation in READS if operation != "read"]


@pytest.mark.parametrize(("altered", "operation"), PAIRS)
def test_an_altered_commit_is_refused(repo, tmp_path, altered, operation):
    head = repo.commit("main")
    again = alter(repo, "main", ALTERED[altered](repo, head))
    again.head_before, again.folder = head.id, tmp_path
    with pytest.raises(CorruptionError, match=f"{head.id}.*graveler refs restore"):
        READS[operation](again)
    assert again.stores.refs.branches.get("main").commit_id == head.id


def test_a_walk_stops_at_a_generation_that_does_not_fall(repo):
    again = alter(repo, "main~1", {"generation": 7})
    with pytest.raises(CorruptionError, match=r"field 'generation' is 3, and .* parent .* is 7"):
        list(again.log("main"))
    with pytest.raises(CorruptionError, match="field 'generation'"):
        again.merge("dev", into="main")


def test_what_is_not_in_the_id_may_differ(repo):
    fields = json.loads(encode_commit(repo.commit("main")))
    assert {"tokens", "spans", "generation"} < fields.keys()
    again = alter(repo, "main", {"tokens": (), "spans": None})
    assert tree(again.ref("main")) == {"a": "2"}
