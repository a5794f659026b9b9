"""Revert and cherry-pick, through the public API."""

import pytest

from graveler.errors import (
    FencedError,
    InvalidInputError,
    MergeConflictError,
    NoChangesError,
    ProtectedBranchError,
    RefNotFoundError,
    RunStateError,
)
from tests.harness.histories import commit
from tests.harness.worlds import tree


@pytest.fixture
def main(repo):
    branch = repo.branch("main")
    commit(branch, "base", a="1", b="1", c="1")
    return branch


def merged(repo, **files):
    """Merge a branch of two commits into main."""
    dev = repo.create_branch("dev")
    for path, content in files.items():
        commit(dev, path, **{path: content})
    return repo.merge("dev", into="main", message="merge dev").commit


def test_a_revert_takes_back_what_one_commit_changed(repo, main):
    bad = commit(main, "bad", a="2", b=None, d="new")
    commit(main, "good", e="1")
    main.put("staged", b"s")
    made = repo.revert(bad.id)
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1", "e": "1"}
    assert (made.parents, made.id) == ((repo.commit("main~1").id,), repo.commit("main").id)
    assert made.message == f'revert "bad"\n\nReverts commit {bad.id}.'
    assert made.metadata == {"graveler.revert": bad.id}
    assert tree(main)["staged"] == "s"  # the staged write remains above the head
    assert [change.path for change in main.uncommitted()] == ["staged"]


def test_a_revert_says_what_its_caller_says(repo, main):
    commit(main, "bad", a="2")
    made = repo.revert("main", message="away", metadata={"ticket": "7"}, committer="ann")
    assert (made.message, made.committer) == ("away", "ann")
    assert made.metadata["ticket"] == "7"
    with pytest.raises(InvalidInputError, match=r"graveler\.x"):
        repo.revert("main", metadata={"graveler.x": "1"})


def test_a_revert_is_reverted(repo, main):
    bad = commit(main, "bad", a="2", d="2")
    repo.revert(bad.id)
    again = repo.revert("main")
    assert tree(repo.ref("main")) == tree(repo.ref(bad.id))
    assert again.message.startswith('revert "revert "bad""')
    repo.revert("main")
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1"}


def test_a_revert_of_what_changed_again_since_is_a_conflict(repo, main):
    bad = commit(main, "bad", a="2", b="2")
    commit(main, "on", a="3")
    before = repo.commit("main")
    with pytest.raises(MergeConflictError, match="revert on main") as refused:
        repo.revert(bad.id)
    assert [conflict.path for conflict in refused.value.conflicts] == ["a"]
    assert repo.commit("main") == before
    repo.revert(bad.id, strategy="dest-wins")
    assert tree(repo.ref("main")) == {"a": "3", "b": "1", "c": "1"}
    repo.revert("main")
    repo.revert(bad.id, strategy="source-wins")
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1"}
    with pytest.raises(InvalidInputError, match="strategy 'ours'"):
        repo.revert(bad.id, strategy="ours")


def test_a_revert_that_changes_nothing_is_no_commit(repo, main):
    bad = commit(main, "bad", a="2")
    repo.revert(bad.id)
    before = repo.commit("main")
    with pytest.raises(NoChangesError, match="nothing"):
        repo.revert(bad.id)
    assert repo.commit("main") == before
    empty = repo.revert(bad.id, allow_empty=True)
    assert (empty.parents, empty.metarange) == ((before.id,), before.metarange)


def test_a_merge_is_reverted_on_its_own_line_without_a_parent(repo, main):
    merge = merged(repo, x="1", y="1", a="2")
    commit(main, "later", z="1")
    reverted = repo.revert(merge.id)
    assert reverted.metadata["graveler.revert"] == merge.id
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1", "z": "1"}


def test_a_published_run_is_picked_and_reverted_without_a_parent(repo, main):
    repo.create_branch("release")
    with repo.run("hour 05") as run:
        run.put("x", b"1")
    repo.cherry_pick(run.result.commit, "release")
    assert repo.ref("release").exists("x")
    repo.revert(run.result.commit)
    assert not repo.ref("main").exists("x")


def test_a_merge_into_another_branch_is_not_clear(repo, main):
    repo.create_branch("dev")
    commit(repo.branch("dev"), "own", y="1")
    commit(main, "later", z="1")
    into_dev = repo.merge("main", into="dev").commit
    repo.merge("dev", into="main")
    with pytest.raises(InvalidInputError, match="--parent 1"):
        repo.revert(into_dev.id)


@pytest.mark.parametrize("verb", ["revert", "cherry_pick"])
def test_a_merge_needs_the_number_of_a_parent(repo, main, verb):
    merge = merged(repo, x="1")
    repo.create_branch("other", source="main~1")
    with pytest.raises(InvalidInputError, match="it is a merge, say which parent") as refused:
        getattr(repo, verb)(merge.id, "other")
    assert all(parent[:12] in str(refused.value) for parent in merge.parents)
    for number in (0, -1):
        with pytest.raises(InvalidInputError, match=f"parent={number}: give a whole number from 1"):
            getattr(repo, verb)(merge.id, parent=number)
    with pytest.raises(InvalidInputError, match="parent 3: it has 2"):
        getattr(repo, verb)(merge.id, parent=3)
    with pytest.raises(InvalidInputError, match="parent 2: it has 1"):
        getattr(repo, verb)("main~1", parent=2)
    with pytest.raises(InvalidInputError, match="first commit"):
        getattr(repo, verb)("main~2")
    with pytest.raises(RefNotFoundError):
        getattr(repo, verb)("nowhere")


def test_a_revert_of_a_merge_takes_back_what_it_brought(repo, main):
    merge = merged(repo, x="1", y="1", a="2")
    commit(main, "later", z="1")
    repo.revert(merge.id, parent=1)
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1", "z": "1"}


def test_a_merge_is_reverted_by_its_other_parent(repo, main):
    repo.create_branch("dev")
    commit(main, "ours", b="2")
    commit(repo.branch("dev"), "theirs", x="1")
    merge = repo.merge("dev", into="main").commit
    repo.revert(merge.id, parent=2)
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1", "x": "1"}


def test_a_reverted_merge_stays_reverted_when_its_branch_goes_on(repo, main):
    merge = merged(repo, x="1")
    repo.revert(merge.id, parent=1)
    commit(repo.branch("dev"), "more", y="1")
    repo.merge("dev", into="main")
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1", "y": "1"}
    repo.revert("main~1")  # this reverts the revert, so the change is present again
    assert tree(repo.ref("main"))["x"] == "1"


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
    repo.merge("dev", into="main")  # the same change on both sides is no change
    assert tree(repo.ref("main")) == {"a": "1", "c": "1", "x": "1", "y": "1"}


def test_a_pick_of_a_revert_or_a_pick_names_only_its_source(repo, main):
    dev = repo.create_branch("dev")
    bad = commit(dev, "bad", a="2")
    undone = repo.revert(bad.id, on="dev")
    commit(main, "bad here too", a="2")
    made = repo.cherry_pick(undone.id)
    assert made.metadata == {"graveler.cherry-pick": undone.id}
    assert made.message == undone.message


def test_a_cherry_pick_of_a_path_changed_otherwise_conflicts(repo, main):
    dev = repo.create_branch("dev")
    commit(dev, "theirs", a="2", d="2")
    commit(main, "ours", a="3")
    with pytest.raises(MergeConflictError, match="cherry-pick on main"):
        repo.cherry_pick("dev")
    repo.cherry_pick("dev", strategy="source-wins", message="theirs after all")
    assert tree(repo.ref("main")) == {"a": "2", "b": "1", "c": "1", "d": "2"}


def test_a_cherry_pick_of_a_merge_brings_what_it_brought(repo, main):
    other = repo.create_branch("other")
    merge = merged(repo, x="1", y="1")
    made = repo.cherry_pick(merge.id, onto="other", parent=1)
    assert tree(other) == {"a": "1", "b": "1", "c": "1", "x": "1", "y": "1"}
    assert len(made.parents) == 1


def test_work_of_a_run_that_is_not_published_is_not_picked(repo, main):
    def work():
        with repo.run("hour 05") as run:
            run.put("out", b"1")
            run.commit("out")
            run.delete("out")
            run.put("other", b"1")
            run.commit("taken away again")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        work()
    branch = repo.runs.get("hour 05").branch
    for pick in (
        lambda: repo.cherry_pick(branch),
        lambda: repo.cherry_pick(f"{branch}~1"),
        lambda: repo.revert(branch),  # would add the run's earlier work
    ):
        with pytest.raises(RunStateError, match="not published"):
            pick()
    with pytest.raises(FencedError, match="belongs to a run"):
        repo.cherry_pick("main", onto=branch)
    with pytest.raises(FencedError, match="belongs to a run"):
        repo.revert("main", on=branch)
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1"}


def test_work_of_a_run_is_not_hidden_by_a_longer_history(repo, main):
    with pytest.raises(RuntimeError), repo.run("hour 05") as run:
        run.put("out", b"1")
        run.commit("out")
        raise RuntimeError
    repo.create_branch("mine", repo.runs.get("hour 05").branch)
    for number in range(5):
        main.put("a", b"%d" % number)
        main.commit(f"a {number}")
    repo.merge("main", into="mine")
    with pytest.raises(RunStateError, match="not published"):
        repo.merge("mine", into="main")
    assert not main.exists("out")


def test_a_published_run_is_reverted_as_a_merge(repo, main):
    with repo.run("hour 05") as run:
        run.put("out", b"1")
    repo.revert("main", parent=1)
    assert tree(repo.ref("main")) == {"a": "1", "b": "1", "c": "1"}


def test_a_branch_can_be_protected_against_reverts(repo, main):
    commit(main, "bad", a="2")
    repo.protection.add("main")
    repo.revert("main")  # protection allows new commits
    repo.protection.add("main", ["revert"])
    for verb in (repo.revert, repo.cherry_pick):
        with pytest.raises(ProtectedBranchError, match=r"protected against revert .*'main'"):
            verb("main")
