"""A commit of given changes beside staged writes: the older give way, the newer stay."""

import pytest

from graveler.errors import NoChangesError
from tests.harness.worlds import ScriptedWorld, interleave, tree


def older_are_staged(repo):
    dev = repo.create_branch("dev")
    dev.put("both", b"older")
    dev.put("aside", b"kept")


def transaction(repo):
    """Commit a change of what others have staged, as a filesystem's transaction does."""
    dev = repo.branch("dev")
    return dev.commit_changes([dev.store("both", b"mine"), dev.store("new", b"mine")], message="t")


def check(world, outcome, landed):
    assert not isinstance(outcome, Exception), outcome
    repo = world.repo(scripted=False)
    dev = repo.branch("dev")
    assert tree(repo.ref(outcome.id))["new"] == "mine"
    now = tree(dev)
    if landed:  # what was written then is newer
        assert now["both"] == "newer"
    assert now["both"] in ("mine", "newer")
    assert (now["aside"], now["new"]) == ("kept", "mine")
    if list(dev.uncommitted()):
        dev.commit("rest")
    assert tree(repo.ref("dev")) == now


def test_a_newer_write_is_never_overruled():
    def write(repo):
        dev = repo.branch("dev")
        landed = dev.exists("new")
        dev.put("both", b"newer")
        return landed

    interleave(older_are_staged, transaction, write, check)


def test_a_newer_write_committed_at_once_is_never_overruled():
    def write(repo):
        dev = repo.branch("dev")
        landed = dev.exists("new")
        dev.put("both", b"newer")
        dev.commit("newer")
        return landed

    interleave(older_are_staged, transaction, write, check)


def test_a_newer_deletion_is_never_overruled():
    def prepare(repo):
        dev = repo.create_branch("dev")
        dev.put("both", b"first")
        dev.commit("first")
        dev.delete("both")

    def delete(repo):
        dev = repo.branch("dev")
        landed = dev.exists("new")
        dev.delete("both")
        return landed

    def gone(world, outcome, landed):
        dev = world.repo(scripted=False).branch("dev")
        there = dev.exists("both")
        assert not (landed and there)
        if list(dev.uncommitted()):
            dev.commit("rest")
        assert dev.exists("both") == there

    interleave(prepare, transaction, delete, gone)


def test_a_concurrent_commit_leaves_no_older_write_on_top():
    def commit(repo):
        return repo.branch("dev").commit("what was staged").id

    def mine_stays(world, outcome, _):
        assert not isinstance(outcome, Exception), outcome
        repo = world.repo(scripted=False)
        for _ in range(2):
            assert tree(repo.branch("dev")) == {"both": "mine", "aside": "kept", "new": "mine"}
            history = [tree(repo.ref(one.id)).get("both") for one in repo.log("dev")]
            assert history[: history.index("mine") + 1].count("older") == 0
            if list(repo.branch("dev").uncommitted()):
                repo.branch("dev").commit("rest")

    interleave(older_are_staged, transaction, commit, mine_stays)


def test_an_older_write_of_what_the_head_has_gives_way_too():
    repo = ScriptedWorld().repo()
    dev = repo.create_branch("dev")
    dev.put("both", b"mine")
    dev.commit("mine")
    held = dev.stat("both")
    dev.put("both", b"older")
    with pytest.raises(NoChangesError):
        dev.commit_changes([held], message="t")
    assert dev.get("both") == b"mine"
    with pytest.raises(NoChangesError):
        dev.commit("nothing")
    assert dev.get("both") == b"mine"
    assert repo.branch("dev").head.message == "mine"
