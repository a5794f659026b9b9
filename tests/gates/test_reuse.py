"""Stored verdicts: judged content is not judged again, new content is."""

import pytest

from graveler import checks
from graveler.errors import GateFailedError
from graveler.gates import Gate
from graveler.gates.verdicts import content


def asks(candidate):
    return candidate.into == "main"


def staged(repo, key, *paths):
    run = repo.runs.open(key)
    for path in paths:
        run.put(path, path.encode())
    run.commit_staged()
    return run


def elsewhere(repo, *paths):
    with repo.run(f"elsewhere {paths[0]}") as run:
        for path in paths:
            run.put(path, path.encode())


@pytest.mark.parametrize(
    ("gate", "moved", "again"),
    [
        (Gate("g", asks, prefix="t/"), "u/1", False),
        (Gate("g", asks, prefix="t/"), "t/2", True),
        (Gate("g", asks, prefix="t/"), "t0", False),
        (Gate("g", asks), "u/1", True),
        (Gate("g", asks, prefix="t/", also=("u/",)), "u/1", True),
        (Gate("g", asks, prefix="t/", also=("u/",)), "v/1", False),
        (Gate("g", asks, reads="changes"), "u/1", False),
        (Gate("g", asks, prefix="t/", reads="changes"), "t/2", False),
        (Gate("g", asks, prefix="t/", reads="anything"), "u/1", True),
    ],
)
def test_a_gate_is_asked_again_when_what_it_reads_has_changed(repo, gate, moved, again):
    run = staged(repo, "hour", "t/1")
    run.judge([gate])
    elsewhere(repo, moved)
    run.publish([gate])
    assert repo.gates.judgement("main").reused == (() if again else ("g",))


def test_a_gate_of_changes_is_asked_again_when_these_are_others(repo):
    gate = Gate("g", asks, reads="changes")
    run = staged(repo, "hour", "t/1")
    run.judge([gate])
    run.put("t/2", b"2")
    run.commit_staged()
    run.publish([gate])
    assert repo.gates.judgement("main").reused == ()


def test_another_parameter_is_another_gate(repo):
    run = staged(repo, "hour", "t/1")
    run.judge([checks.file_size("t/", 1, name="size")])
    with pytest.raises(GateFailedError):
        run.publish([checks.file_size("t/", 100, name="size")])


def at_most(files):
    def check(candidate):
        return len(list(candidate.changes())) <= files

    return check


def test_another_parameter_deep_inside_is_another_gate(repo):
    def both(one, other):
        return lambda candidate: one(candidate) and other(candidate)

    run = staged(repo, "hour", "t/1", "t/2")
    assert run.judge([Gate("g", both(at_most(3), at_most(2)))])[0].passed
    assert not run.judge([Gate("g", both(at_most(3), at_most(1)))])[0].passed


def test_a_verdict_that_is_used_again_says_so(repo):
    gate = Gate("g", asks, prefix="t/")
    run = staged(repo, "hour", "t/1")
    run.judge([gate])
    first = next(repo.gates.judgements())
    elsewhere(repo, "u/1")
    run.publish([gate])
    last = repo.gates.judgement("main")
    assert (first.reused, last.reused) == ((), ("g",))
    assert last.commit == repo.commit("main").id != first.commit
    assert last.verdicts[0].commit == first.commit
    assert [one.commit for one in repo.gates.judgements()] == [last.commit, first.commit]


@pytest.mark.parametrize("prefix", ["", "t/", "t/1", "t/15", "s", "zz", "t/999"])
def test_content_below_a_prefix_is_equal_exactly_if_paths_are(repo, prefix):
    def tree(branch):
        return repo.commit(branch).metarange

    with repo.run("many") as run:
        for number in range(60):
            run.put(f"t/{number}", b"1")
    repo.create_branch("same")
    for path, data in (("t/15", b"2"), ("zz", b"1"), ("a", b"1")):
        before = {entry.path: entry.checksum for entry in repo.ref("same").entries(prefix)}
        base = content(repo.stores, tree("same"), prefix)
        repo.branch("same").put(path, data)
        repo.branch("same").commit(path)
        after = {entry.path: entry.checksum for entry in repo.ref("same").entries(prefix)}
        assert (content(repo.stores, tree("same"), prefix) == base) is (before == after)


def test_a_range_that_lies_below_the_prefix_is_not_opened(repo):
    with repo.run("many") as run:
        for number in range(400):
            run.put(f"t/{number:04}", b"1")
    stats, tree = repo.stores.ranges.stats, repo.commit("main").metarange
    opened = stats.ranges_read
    content(repo.stores, tree, "t/")
    assert stats.ranges_read - opened <= 4
