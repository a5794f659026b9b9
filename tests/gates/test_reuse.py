"""Stored verdicts: judged content is not judged again, new content is."""

from contextvars import Context
from pathlib import Path

import pytest

import graveler
from graveler import checks, gate
from graveler.gates import Gate
from graveler.gates.verdicts import content

GUIDE = Path(__file__).parents[2] / "docs/guides/gates.md"


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
    ("reads", "moved", "again"),
    [
        ({"prefix": "t/"}, "u/1", False),
        ({"prefix": "t/"}, "t/2", True),
        ({"prefix": "t/"}, "t0", False),
        ({}, "u/1", True),
        ({"prefix": "t/", "also": ("u/",)}, "u/1", True),
        ({"prefix": "t/", "also": ("u/",)}, "v/1", False),
        ({"reads": "changes"}, "u/1", False),
        ({"prefix": "t/", "reads": "changes"}, "t/2", False),
        ({"prefix": "t/", "reads": "anything"}, "u/1", True),
    ],
)
def test_a_gate_is_asked_again_when_what_it_reads_has_changed(repo, reads, moved, again):
    gate = Gate("g", asks, **reads, version="1")
    run = staged(repo, "hour", "t/1")
    run.judge([gate])
    elsewhere(repo, moved)
    run.publish([gate])
    assert repo.gates.judgement("main").reused == (() if again else ("g",))


@pytest.mark.parametrize(
    ("gate", "kept"),
    [
        (Gate("g", asks), False),
        (Gate("g", asks, version="2"), False),
        (Gate("g", lambda _: True, version="1"), False),
        (Gate("other", asks, version="1"), False),
        (Gate("g", asks, version="1", severity="warn"), False),
        (Gate("g", asks, version="1"), True),
    ],
)
def test_a_verdict_is_kept_for_a_gate_of_the_same_version(repo, gate, kept):
    run = staged(repo, "hour", "t/1")
    run.judge([Gate("g", asks, version="1")])
    run.publish([gate])
    assert repo.gates.judgement("main").reused == (("g",) if kept else ())


def test_without_a_version_a_verdict_holds_within_one_publish(repo):
    calls = []

    @gate(prefix="t/")
    def counts(candidate):
        calls.append("counts")

    @gate(reads="anything")
    def moves_main(candidate):
        if len(calls) == 2:
            Context().run(elsewhere, repo, "u/1")

    run = staged(repo, "hour", "t/1")
    run.judge([counts])
    run.publish([counts, moves_main])
    assert calls == ["counts", "counts"]
    assert repo.gates.judgement("main").reused == ("counts",)


def test_a_check_that_failed_is_asked_again(repo):
    left = [ValueError("odd"), None]

    def fails_once(candidate):
        if error := left.pop(0):
            raise error

    run = staged(repo, "hour", "t/1")
    assert run.judge([Gate("g", fails_once, version="1")])[0].died
    assert run.judge([Gate("g", fails_once, version="1")])[0].passed


def test_every_built_in_check_has_a_fingerprint():
    gates = {
        "accepted_values": checks.accepted_values("t/", "id", [1]),
        "dbt_results": checks.dbt_results("t/"),
        "file_format": checks.file_format("t/"),
        "file_size": checks.file_size("t/"),
        "freshness": checks.freshness("t/", "1d"),
        "in_range": checks.in_range("t/", "id", 1),
        "not_null": checks.not_null("t/", "id"),
        "nothing_deleted_outside": checks.nothing_deleted_outside("t/"),
        "only_within": checks.only_within("t/"),
        "partition_rows": checks.partition_rows("db.flights"),
        "refers_to": checks.refers_to("t/", "id", "u/"),
        "row_count": checks.row_count("t/"),
        "row_count_change": checks.row_count_change("t/"),
        "same_hour": checks.same_hour("t/"),
        "schema": checks.schema("t/", {"id": "int64"}),
        "sql": checks.sql("select * from 't/'"),
        "unique": checks.unique("t/", "id"),
    }
    # a schema of Pandera says nothing of its version
    assert [*gates] == [name for name in checks.__all__ if name != "pandera"]
    assert all(f"| `{name}(" in GUIDE.read_text() for name in checks.__all__)
    fingerprints = {gate.fingerprint for gate in gates.values()}
    assert len(fingerprints - {None, checks.row_count("t/", 2).fingerprint}) == len(gates)
    assert checks.row_count("t/").fingerprint in fingerprints


def test_a_built_in_check_is_identified_by_version(monkeypatch):
    first = checks.row_count("t/").fingerprint
    monkeypatch.setattr(graveler, "__version__", "99.0")
    assert checks.row_count("t/").fingerprint != first


def test_a_verdict_that_is_used_again_says_so(repo):
    gate = Gate("g", asks, prefix="t/", version="1")
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


@pytest.mark.parametrize("prefix", ["", "t/", "t/1", "t/15", "s", "zz"])
def test_content_below_a_prefix_is_equal_exactly_if_paths_are(repo, prefix):
    def tree(branch):
        return repo.commit(branch).metarange

    with repo.run("many") as run:
        for number in range(30):
            run.put(f"t/{number}", b"1")
    repo.create_branch("same")
    for path, data in (("t/15", b"2"), ("zz", b"1"), ("a", b"1")):
        before = {entry.path: entry.checksum for entry in repo.ref("same").entries(prefix)}
        base = content(repo.stores, tree("same"), prefix)
        repo.branch("same").put(path, data)
        repo.branch("same").commit(path)
        after = {entry.path: entry.checksum for entry in repo.ref("same").entries(prefix)}
        assert (content(repo.stores, tree("same"), prefix) == base) is (before == after)
