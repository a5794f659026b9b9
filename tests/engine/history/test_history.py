"""Commits, refs, diffs and merges through the public API."""

from itertools import product

import pytest

from graveler.errors import (
    AlreadyExistsError,
    InvalidInputError,
    MergeConflictError,
    RefNotFoundError,
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
    for name in ("ab", "Flights", "-a", "a_b", "x" * 64, ""):
        with pytest.raises(InvalidInputError, match=r"repository name|name=''"):
            lake.create_repository(name)


def test_refs_name_commits(repo):
    main = repo.branch("main")
    first, second = commit(main, "one", a="1"), commit(main, "two", a="2")
    dev = repo.create_branch("dev", source="main~1")
    third = commit(dev, "three", b="3")
    merged = repo.merge("dev", into="main").commit
    repo.tags.create("v1", "main~1")
    for expression, expected in {
        "main": merged,
        "main@": merged,
        "main~": second,
        "main~1": second,
        "main^": second,
        "main^1": second,
        "main^2": third,
        "main^2~1": first,
        "main~2": first,
        "main^0": merged,
        "v1": second,
        "v1~": first,
        first.id: first,
        first.id[:12]: first,
        f"{third.id[:12]}~1": first,
    }.items():
        assert repo.commit(expression) == expected, expression
    assert [entry.generation for entry in (first, second, third, merged)] == [2, 3, 3, 4]
    assert merged.parents == (second.id, third.id)
    for expression in ("main~9", "main^3", "v2", "f" * 64, "0000000000"):
        with pytest.raises(RefNotFoundError):
            repo.commit(expression)
    for expression in ("", "main@1", "main@~1", "a/b", "main:x", "~1", "main~x"):
        with pytest.raises(InvalidInputError):
            repo.commit(expression)


def test_tags_do_not_move(repo):
    first = commit(repo.branch("main"), a="1")
    repo.tags.create("v1")
    commit(repo.branch("main"), a="2")
    repo.tags.create("v1", first.id)  # the same tag again is no error
    with pytest.raises(AlreadyExistsError, match="v1"):
        repo.tags.create("v1", "main")
    assert repo.tags.list() == {"v1": first.id}
    assert repo.ref("v1").get("a") == b"1"
    repo.tags.delete("v1")
    assert repo.tags.list() == {}
    with pytest.raises(RefNotFoundError):
        repo.tags.delete("v1")


def test_log_shows_each_commit_once_children_first(repo):
    main = repo.branch("main")
    commit(main, "base", a="1")
    for name in ("x", "y"):
        commit(repo.create_branch(name), name, **{name: "1"})
        repo.merge(name, into="main", message=f"merge {name}")
    messages = [entry.message for entry in repo.log("main")]
    assert messages.index("merge y") < messages.index("y") < messages.index("base")
    assert sorted(messages) == ["Repository created", "base", "merge x", "merge y", "x", "y"]
    assert [entry.message for entry in repo.log("main", first_parent=True, limit=3)] == [
        "merge y",
        "merge x",
        "base",
    ]


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


def test_equal_files_written_on_two_branches_do_not_conflict(repo):
    commit(repo.branch("main"), base="1")
    left, right = repo.create_branch("left"), repo.create_branch("right")
    for branch in (left, right):
        branch.put("more", b"x")
        branch.put("same", b"content")
    assert left.stat("same").address != right.stat("same").address
    one, two = left.commit("left"), right.commit("right")
    assert list(repo.diff(one.id, two.id)) == []
    repo.merge("left", into="right")
    assert tree(repo.ref("right")) == {"base": "1", "same": "content", "more": "x"}


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


def test_what_is_staged_on_the_destination_stays_staged(repo):
    main = repo.branch("main")
    main.put("staged", b"mine")
    commit(repo.create_branch("dev"), a="1")
    repo.merge("dev", into="main")
    assert tree(main) == {"a": "1", "staged": "mine"}
    assert tree(repo.ref("main")) == {"a": "1"}


def test_criss_cross_histories_merge(repo):
    commit(repo.branch("main"), a="1", b="1")
    left, right = repo.create_branch("left"), repo.create_branch("right")
    commit(left, a="left")
    commit(right, b="right")
    left_head, right_head = left.head.id, right.head.id
    repo.merge(right_head, into="left")
    repo.merge(left_head, into="right")
    commit(left, c="left")
    commit(right, d="right")
    repo.merge("left", into="right")
    assert tree(repo.ref("right")) == {"a": "left", "b": "right", "c": "left", "d": "right"}


@pytest.mark.parametrize(
    "name", ["", "a/b", "a~b", "a^b", "a@b", "a:b", "-a", ".a", "a b", "f" * 64]
)
def test_names_that_addresses_use_are_refused(repo, name):
    with pytest.raises(InvalidInputError, match=r"branch name|name=''"):
        repo.create_branch(name)
    with pytest.raises(InvalidInputError, match=r"tag name|name=''"):
        repo.tags.create(name)


def test_branches_are_made_once(repo):
    repo.create_branch("dev")
    with pytest.raises(AlreadyExistsError, match="dev"):
        repo.create_branch("dev")
    assert repo.create_branch("dev", exist_ok=True).name == "dev"


def test_a_lake_opened_again_is_the_same(repo, lake):
    commit(repo.branch("main"), a="1")
    repo.branch("main").put("b", b"2")
    again = lake.repository("flights")
    assert tree(again.branch("main")) == {"a": "1", "b": "2"}
    assert again.stores.splitting == repo.stores.splitting
