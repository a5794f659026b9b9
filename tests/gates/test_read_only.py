"""A gate cannot write: not through the candidate, and not through any object that it reaches."""

import pytest

from graveler.errors import ReadOnlyError
from graveler.gates import Candidate, Gate


def stored(repo):
    """Return everything that a repository stores: every key and every object."""
    kv, objects = repo.stores.kv, repo.stores.objects
    keys = {
        (partition, key): value
        for partition in kv.partitions("")
        if not partition.startswith(("runs:", "verdicts:"))
        for key, value in kv.scan(partition)
    }
    return keys, {info.key: info.etag for info in objects.list()}


def first_address(candidate):
    return next(candidate.entries()).address


THROUGH_THE_CANDIDATE = {
    # each way to a store; that a read-only store refuses every write is shown beside the ports
    "kv.set": lambda c: c.repository.kv.set("refs:x", b"branch/main", b"1"),
    "objects.put": lambda c: c.repository.objects.put("data/x", b"1"),
    "locate": lambda c: c.repository.locate("mem://other/x")[0].put("x", b"1"),
    "open_store": lambda c: c.repository.open_store("mem://other").put("x", b"1"),
    "ranges.objects": lambda c: c.repository.ranges.objects.put("_graveler/x", b"1"),
    "staging": lambda c: c.repository.staging.set("token", b"k", b"1"),
    "branches": lambda c: c.repository.refs.branches.create(c.repository.refs.branches.get("main")),
    "tags": lambda c: c.repository.refs.tags.create("t", c.commit_id),
    "protection": lambda c: c.repository.refs.protection.remove("main"),
    "before": lambda c: c.before.repository.objects.put("data/x", b"1"),
}


@pytest.mark.parametrize("way", THROUGH_THE_CANDIDATE)
def test_the_candidate_refuses_to_be_written(repo, refused, way):
    seen = []
    repo.links.allow("mem://other")

    def writes(candidate):
        seen.append(stored(repo))
        try:
            THROUGH_THE_CANDIDATE[way](candidate)
        finally:
            seen.append(stored(repo))

    verdict = refused(repo, Gate("writes", writes, reads="anything"))
    assert verdict.reason.startswith("ReadOnlyError: ")
    assert seen[0] == seen[1]
    repo.branch("main").put("b", b"1")
    assert repo.branch("main").commit("the publisher writes on")


AROUND_IT = {
    "put": lambda repo, run: run.put("more", b"1"),
    "branch": lambda repo, run: repo.branch("dev").put("more", b"1"),
    "commit": lambda repo, run: repo.branch("dev").commit("staged before"),
    "create": lambda repo, run: repo.create_branch("new"),
    "merge": lambda repo, run: repo.merge("done", into="main"),
    "revert": lambda repo, run: repo.revert("main"),
    "tag": lambda repo, run: repo.tags.create("t"),
    "unprotect": lambda repo, run: repo.protection.remove("main"),
}


@pytest.mark.parametrize("way", AROUND_IT)
def test_what_a_gate_closes_over_refuses_to_be_written(repo, way):
    repo.create_branch("dev").put("staged", b"1")
    repo.create_branch("done").put("more", b"1")
    repo.branch("done").commit("more")
    run = repo.runs.open("hour 05")
    run.put("a/1", b"1")
    run.commit_staged()
    seen = []

    def writes(candidate):
        seen.append(stored(repo))
        try:
            AROUND_IT[way](repo, run)
        finally:
            seen.append(stored(repo))

    (verdict,) = run.judge([Gate("writes", writes)])
    assert verdict.died
    assert verdict.reason.startswith("ReadOnlyError: ")
    assert nothing_moved(seen)


def nothing_moved(seen):
    """Return whether nothing changed, except commits that no branch has: they are content."""
    (keys, objects), (keys_after, objects_after) = seen
    new = {key for key in keys_after.keys() - keys.keys() if not key[1].startswith(b"commit/")}
    kept = all(keys_after.get(key) == value for key, value in keys.items())
    files = {key for key in objects_after if key.startswith("data/")}
    return not new and kept and files == {key for key in objects if key.startswith("data/")}


def test_a_gate_may_read_whatever_it_likes(repo):
    def reads(candidate):
        assert repo.branch("main").get("settled") == b"0"
        assert candidate.repository.refs.branches.get("main").name == "main"
        assert [info.key for info in candidate.repository.objects.list("data/")]
        path = candidate.repository.locate(first_address(candidate))
        assert path[0].get(path[1]) == path[0].get_range(path[1], 0, 10)

    with repo.run("hour 05", gates=[Gate("reads", reads, reads="anything")]) as run:
        run.put("a/1", b"1")
    assert run.result.verdicts[0].passed


def test_the_error_says_what_to_do_instead(repo):
    candidate: list[Candidate] = []
    gate = Gate("keeps", candidate.append, reads="anything")
    with repo.run("hour 05", gates=[gate]) as run:
        run.put("a/1", b"1")
    with pytest.raises(ReadOnlyError, match=r"let the run write .* candidate.report\(\)"):
        candidate[0].repository.objects.put("data/x", b"1")
