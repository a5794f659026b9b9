"""A commit of given changes beside staged writes: older writes give way, newer writes remain."""

from contextlib import suppress

import pytest

from graveler.errors import NoChangesError
from tests.harness.worlds import ScriptedWorld, interleave, tree


def older_are_staged(repo):
    dev = repo.create_branch("dev")
    dev.put("both", b"older")
    dev.put("aside", b"kept")


def transaction(repo):
    """Commit changes of paths that others have staged, as a transaction of the filesystem does."""
    dev = repo.branch("dev")
    return dev.commit_changes([dev.store("both", b"mine"), dev.store("new", b"mine")], message="t")


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


def merge_later(repo):
    """Change the path on a branch that has the committed changes, and merge it into dev."""
    other = repo.create_branch("other", "dev")
    other.put("both", b"later")
    other.commit("later")
    repo.merge("other", into="dev")


@pytest.mark.parametrize("older", [b"older", b"mine", None])
def test_a_later_merge_is_neither_hidden_nor_undone(older):
    repo = ScriptedWorld().repo()
    dev = repo.create_branch("dev")
    dev.put("both", b"first")
    dev.commit("first")
    if older is None:
        dev.delete("both")
    else:
        dev.put("both", older)
    transaction(repo)
    merge_later(repo)
    assert dev.get("both") == b"later"
    assert list(dev.uncommitted()) == []
    dev.put("other", b"1")
    dev.commit("another file")
    assert repo.ref("dev").get("both") == b"later"


def test_a_merge_beside_is_neither_hidden_nor_undone():
    def merge(repo):
        if not repo.ref("dev").exists("new"):
            return False
        merge_later(repo)
        repo.branch("dev").commit("rest")
        return True

    def merged(world, outcome, landed):
        repo = world.repo(scripted=False)
        assert not isinstance(outcome, Exception), outcome
        for _ in range(2):
            assert tree(repo.branch("dev"))["both"] == ("later" if landed else "mine")
            with suppress(NoChangesError):
                repo.branch("dev").commit("rest")

    interleave(older_are_staged, transaction, merge, merged)


def test_patches_of_what_is_staged_leave_few_tokens():
    repo = ScriptedWorld().repo()
    dev = repo.create_branch("dev")
    dev.put("aside", b"kept")
    for number in range(100):
        dev.put("both", b"older %d" % number)
        dev.commit_changes([dev.store("both", b"mine %d" % number)], message="t")
    assert tree(dev) == {"aside": "kept", "both": "mine 99"}
