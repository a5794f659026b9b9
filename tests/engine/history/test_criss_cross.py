"""Branches that merged each other: several merge bases, and conflicts as data."""

import pickle
import sys

import pytest

from graveler.errors import MergeConflictError
from graveler.model import ChangedBy


def commit(branch, message="", **files):
    for path, text in files.items():
        branch.put(path, text.encode())
    return branch.commit(message or str(files))


def crossed(repo, salt, left="X", right="Y"):
    """Return two branches that merged each other. Each kept its own content at path p."""
    start = commit(repo.create_branch(f"start{salt}"), p="O", q="O")
    x = repo.create_branch(f"x{salt}", start.id)
    y = repo.create_branch(f"y{salt}", start.id)
    one, two = commit(x, f"x {salt}", p=left), commit(y, f"y {salt}", p=right)
    repo.merge(two.id, into=x.name, strategy="dest-wins")
    repo.merge(one.id, into=y.name, strategy="dest-wins")
    return x, y, one, two


def test_a_conflict_says_what_each_side_has_and_what_changed_it(repo):
    x, y, one, two = crossed(repo, 0)
    with repo.run("hour 05", into="y0") as run:
        run.put("q", b"run")
    published = repo.commit("y0")
    last = commit(x, q="X")
    with pytest.raises(MergeConflictError) as refused:
        repo.merge("x0", into="y0")
    for error in (refused.value, pickle.loads(pickle.dumps(refused.value))):
        assert error.count == 2
        p, q = error.conflicts
        assert (p.path, q.path) == ("p", "q")
        assert (p.base, p.bases_disagree, q.bases_disagree) == (None, True, False)
        assert q.base == repo.ref(one.id).stat("q")
        assert [p.source, p.dest] == [x.stat("p"), y.stat("p")]
        assert [q.source, q.dest] == [x.stat("q"), y.stat("q")]
        assert (p.source_change, p.dest_change) == (ChangedBy(one.id), ChangedBy(two.id))
        assert q.source_change == ChangedBy(last.id)
        assert q.dest_change == ChangedBy(published.id, "hour 05")


def test_a_deletion_against_a_change_is_a_conflict_naming_both(repo):
    start = commit(repo.branch("main"), p="O")
    dev = repo.create_branch("dev", start.id)
    dev.delete("p")
    gone = dev.commit("gone")
    changed = commit(repo.branch("main"), p="M")
    with pytest.raises(MergeConflictError) as refused:
        repo.merge("dev", into="main")
    (conflict,) = refused.value.conflicts
    assert conflict.source is None
    assert conflict.dest == repo.ref("main").stat("p")
    assert conflict.source_change == ChangedBy(gone.id)
    assert conflict.dest_change == ChangedBy(changed.id)


def test_of_many_conflicts_the_first_ones_are_told(repo, monkeypatch):
    # not by import: the package has a function of the same name
    monkeypatch.setattr(sys.modules["graveler.committed.merge"], "SHOWN", 10)
    main = repo.branch("main")
    start = commit(main, start="1")
    dev = repo.create_branch("dev", start.id)
    paths = [f"p{number:04}" for number in range(15)]
    for branch in (dev, main):
        for path in paths:
            branch.put(path, branch.name.encode())
        branch.commit("many")
    with pytest.raises(MergeConflictError, match="15 paths") as refused:
        repo.merge("dev", into="main")
    assert refused.value.count == 15
    assert [conflict.path for conflict in refused.value.conflicts] == paths[:10]
    assert all(conflict.source_change for conflict in refused.value.conflicts)
