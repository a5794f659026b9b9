"""Commits, refs, diffs and merges through the public API."""

import pytest

from graveler.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    RepositoryNotFoundError,
)
from tests.harness.histories import commit


def test_a_new_repository_has_one_empty_commit(lake, repo):
    assert lake.repositories() == ["flights"]
    (root,) = repo.log("main")
    assert (root.message, root.generation, root.parents) == ("Repository created", 1, ())
    assert list(repo.ref("main").list()) == []
    with pytest.raises(AlreadyExistsError):
        lake.create_repository("flights")
    assert next(lake.create_repository("flights", exist_ok=True).log("main")) == root
    with pytest.raises(RepositoryNotFoundError, match="flights"):
        lake.repository("trains")
    with pytest.raises(InvalidInputError, match="repository name"):
        lake.create_repository("Flights")


def test_a_diff_names_what_differs_and_how(repo):
    main = repo.branch("main")
    commit(main, **{f"k{n:02}": "same" for n in range(30)})
    dev = repo.create_branch("dev")
    commit(dev, k03=None, k10="new", k99="added")
    found = [(change.path, change.kind.value) for change in repo.diff("main", "dev")]
    assert found == [("k03", "removed"), ("k10", "changed"), ("k99", "added")]
    assert [change.path for change in repo.diff("dev", "main", prefix="k1")] == ["k10"]
    assert list(repo.diff("dev", "dev")) == []


def test_merging_again_changes_nothing(repo):
    dev = repo.create_branch("dev")
    commit(dev, a="1")
    merged = repo.merge("dev", into="main", metadata={"why": "test"})
    assert not merged.already
    assert merged.commit.metadata == {"why": "test"}
    again = repo.merge("dev", into="main")
    assert again.already
    assert again.commit == merged.commit
    assert repo.merge("main", into="dev").commit.parents == (dev.head.parents[0], merged.commit.id)


def test_a_merge_into_an_unmoved_main_takes_the_tree_as_it_is(repo):
    main = repo.branch("main")
    commit(main, **{f"k{n:02}": "1" for n in range(50)})
    dev = repo.create_branch("dev")
    made = commit(dev, k20="2")
    written = repo.stores.ranges.stats.ranges_written
    merged = repo.merge("dev", into="main").commit
    assert merged.metarange == made.metarange
    assert merged.id != made.id  # never a silent fast-forward
    assert repo.stores.ranges.stats.ranges_written == written


def test_a_merge_of_disjoint_histories_is_refused(repo):
    root = repo.stores.refs.commits.add(
        metarange=repo.commit("main").metarange,
        parents=(),
        message="another root",
        committer="",
        created=repo.stores.clock.now(),
        metadata={},
    )
    with pytest.raises(ConflictError, match="in common"):
        repo.merge(root.id, "main")
