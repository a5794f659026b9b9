"""Revert and cherry-pick, through the public API."""

import pytest

from graveler.errors import (
    InvalidInputError,
    MergeConflictError,
    NoChangesError,
    RefNotFoundError,
)
from tests.harness.histories import commit
from tests.harness.worlds import tree


@pytest.fixture
def main(repo):
    branch = repo.branch("main")
    commit(branch, "base", a="1", b="1", c="1")
    return branch


@pytest.fixture
def merge(repo, main):
    """A merge of a branch of two commits into main."""
    dev = repo.create_branch("dev")
    commit(main, "ours", b="2")
    commit(dev, "x", x="1")
    commit(dev, "a", a="2")
    return repo.merge("dev", into="main", message="merge dev").commit


MERGED = {"a": "2", "b": "2", "c": "1", "x": "1"}
OURS, THEIRS = {"a": "1", "b": "2", "c": "1"}, {"a": "2", "b": "1", "c": "1", "x": "1"}


def test_a_revert_takes_back_what_one_commit_changed(repo, main):
    bad = commit(main, "bad", a="2", b=None, d="new")
    commit(main, "good", e="1")
    main.put("staged", b"s")
    made = repo.revert(bad.id)
    before = repo.commit("main")
    with pytest.raises(NoChangesError, match="nothing"):
        repo.revert(bad.id)
    assert repo.commit("main") == before
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1", "e": "1"}
    assert (made.parents, made.id) == ((repo.commit("main~1").id,), repo.commit("main").id)
    assert made.message == f'revert "bad"\n\nReverts commit {bad.id}.'
    assert made.metadata == {"graveler.revert": bad.id}
    repo.create_branch("dev", bad.id)
    picked = repo.cherry_pick(made.id, "dev")
    assert picked.metadata == {"graveler.cherry-pick": made.id}  # it names only its source
    empty = repo.revert(bad.id, allow_empty=True, message="away", committer="ann")
    assert (empty.metarange, empty.message, empty.committer) == (made.metarange, "away", "ann")
    with pytest.raises(InvalidInputError, match=r"graveler\.x"):
        repo.revert("main", metadata={"graveler.x": "1"})
    assert tree(main)["staged"] == "s"  # the staged write remains above the head
    assert [change.path for change in main.uncommitted()] == ["staged"]


def test_a_revert_of_what_changed_again_since_is_a_conflict(repo, main):
    bad = commit(main, "bad", a="2", b="2")
    commit(main, "on", a="3")
    before = repo.commit("main")
    with pytest.raises(MergeConflictError, match="revert on main") as refused:
        repo.revert(bad.id)
    assert [conflict.path for conflict in refused.value.conflicts] == ["a"]
    with pytest.raises(MergeConflictError, match="cherry-pick on main"):
        repo.cherry_pick(bad.id)
    assert repo.commit("main") == before
    repo.revert(bad.id, strategy="dest-wins")
    assert tree(repo.ref("main")) == {"a": "3", "b": "1", "c": "1"}
    repo.revert("main")
    repo.revert(bad.id, strategy="source-wins")
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1"}
    with pytest.raises(InvalidInputError, match="strategy 'ours'"):
        repo.revert(bad.id, strategy="ours")


def test_a_cherry_pick_does_again_what_one_commit_changed(repo, main):
    dev = repo.create_branch("dev")
    commit(dev, "not this", x="1")
    dev.put("y", b"1")
    dev.delete("b")
    picked = dev.commit("this", metadata={"hour": "05", "source": "bts"}, committer="bo")
    main.put("staged", b"s")
    made = repo.cherry_pick(picked.id, metadata={"source": "hand"}, committer="ann")
    assert tree(repo.ref("main")) == {"a": "1", "c": "1", "y": "1"}
    assert (made.message, made.committer) == ("this", "ann")
    assert made.metadata == {"hour": "05", "source": "hand", "graveler.cherry-pick": picked.id}
    assert main.get("staged") == b"s"
    with pytest.raises(NoChangesError):
        repo.cherry_pick("dev")
    assert repo.cherry_pick(made.id, allow_empty=True).metadata == {
        "hour": "05", "source": "hand", "graveler.cherry-pick": made.id
    }  # fmt: skip
    repo.merge("dev", into="main")  # the same change on both sides is no change
    assert tree(repo.ref("main")) == {"a": "1", "c": "1", "x": "1", "y": "1"}


@pytest.mark.parametrize(("parent", "left"), [(None, OURS), (1, OURS), (2, THEIRS)])
def test_a_merge_is_reverted(repo, main, merge, parent, left):
    commit(main, "later", z="1")
    made = repo.revert(merge.id, parent=parent)
    assert made.metadata["graveler.revert"] == merge.id
    assert tree(repo.ref("main")) == {**left, "z": "1"}


def test_a_reverted_merge_stays_reverted_when_its_branch_goes_on(repo, main, merge):
    repo.revert(merge.id)
    commit(repo.branch("dev"), "more", y="1")
    repo.merge("dev", into="main")
    assert tree(repo.ref("main")) == {**OURS, "y": "1"}
    repo.revert("main~1")  # this reverts the revert, so the change is present again
    assert tree(repo.ref("main")) == {**MERGED, "y": "1"}


def test_a_published_run_is_picked_and_reverted_without_a_parent(repo, main):
    repo.create_branch("release")
    with repo.run("hour 05") as run:
        run.put("x", b"1")
    repo.cherry_pick(run.result.commit, "release")
    assert repo.ref("release").exists("x")
    repo.revert(run.result.commit)
    assert not repo.ref("main").exists("x")


def test_a_merge_into_another_branch_is_not_clear(repo, main):
    commit(repo.create_branch("dev"), "own", y="1")
    commit(main, "later", z="1")
    into_dev = repo.merge("main", into="dev").commit
    repo.merge("dev", into="main")
    with pytest.raises(InvalidInputError, match="--parent 1"):
        repo.revert(into_dev.id)


@pytest.mark.parametrize("verb", ["revert", "cherry_pick"])
def test_a_merge_needs_the_number_of_a_parent(repo, merge, verb):
    call = getattr(repo, verb)
    repo.create_branch("other", source="main~1")
    with pytest.raises(InvalidInputError, match="it is a merge, say which parent") as refused:
        call(merge.id, "other")
    assert all(parent[:12] in str(refused.value) for parent in merge.parents)
    for commit_, parent, said in (
        (merge.id, 0, "parent=0: give a whole number from 1"),
        (merge.id, -1, "parent=-1: give a whole number from 1"),
        (merge.id, 3, "parent 3: it has 2"),
        ("main~1", 2, "parent 2: it has 1"),
        ("main~3", None, "first commit"),
    ):
        with pytest.raises(InvalidInputError, match=said):
            call(commit_, parent=parent)
    with pytest.raises(RefNotFoundError):
        call("nowhere")
