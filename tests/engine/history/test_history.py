"""Commits, refs, diffs and merges through the public API."""

from itertools import product

import pytest

from graveler.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidInputError,
    MergeConflictError,
    RepositoryNotFoundError,
)
from tests.harness.histories import commit
from tests.harness.worlds import tree


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


CONTENTS = (None, "A", "B", "C")


def expected_merge(base, source, dest):
    """The rule in words: an unchanged side gives way, and equal sides agree."""
    if source == dest or source == base:
        return dest
    return source if dest == base else "conflict"


def test_a_merge_decides_each_path_by_identity(repo):
    """All rows of the table at once: 4 x 4 x 4 paths, each in its own state."""
    cases = {f"p{index:02}": contents for index, contents in enumerate(product(CONTENTS, repeat=3))}
    main = repo.branch("main")
    commit(main, **{path: case[0] for path, case in cases.items() if case[0]})
    source, dest = repo.create_branch("source"), repo.create_branch("dest")
    commit(source, **{path: case[1] for path, case in cases.items() if case[1] != case[0]})
    commit(dest, **{path: case[2] for path, case in cases.items() if case[2] != case[0]})
    results = {path: expected_merge(*case) for path, case in cases.items()}
    before = repo.commit("dest")
    with pytest.raises(MergeConflictError, match="source-wins or dest-wins") as refused:
        repo.merge("source", into="dest")
    assert repo.commit("dest") == before
    conflicts = {conflict.path: conflict for conflict in refused.value.conflicts}
    assert sorted(conflicts) == sorted(p for p, result in results.items() if result == "conflict")
    for path, conflict in conflicts.items():
        entries = [conflict.base, conflict.source, conflict.dest]
        assert [entry is None for entry in entries] == [part is None for part in cases[path]]
        checksums = {None if entry is None else entry.checksum for entry in entries}
        assert len(checksums) == len(set(cases[path]))
    for strategy, side in (("source-wins", 1), ("dest-wins", 2)):
        branch = repo.create_branch(f"by-{strategy}", source="dest")
        repo.merge("source", into=branch.name, strategy=strategy)
        assert tree(branch) == {
            path: value
            for path, result in results.items()
            if (value := cases[path][side] if result == "conflict" else result) is not None
        }


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
