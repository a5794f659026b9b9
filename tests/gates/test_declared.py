"""A gate reads what it declares, and its verdict is stored under the declared content."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from graveler import checks
from graveler.errors import InvalidInputError
from graveler.gates import Candidate, Gate
from graveler.gates.candidate import RunContext
from graveler.gates.verdicts import hash_inputs

READS = {
    "message": lambda c: c.commit.message,
    "committer": lambda c: c.commit.committer,
    "metadata": lambda c: dict(c.commit.metadata),
    "parents": lambda c: list(c.commit.parents),
    "created": lambda c: c.commit.created,
    "commit": lambda c: (c.commit.id, c.commit_id, c.commit.metarange, c.commit.generation),
    "target": lambda c: (c.target.id, c.target.message),
    "run": lambda c: (c.run.key, dict(c.run.metadata)),
    "attempt": lambda c: c.run.attempt,
    "history": lambda c: c.history("t/"),
    "content": lambda c: (c.stats("t/"), list(c.before.entries("t/")), c.get("t/old")),
    "anything": lambda c: (c.now(), c.repository.refs.branches.get("main"), c.get("u/old")),
}
OUTSIDE = {
    "entries": lambda c: list(c.entries()),
    "list": lambda c: list(c.list("u/")),
    "stat": lambda c: c.stat("u/old"),
    "exists": lambda c: c.exists("u/none"),
    "get": lambda c: c.get("u/old"),
    "read": lambda c: c.read_range("u/old", 0, 1),
    "open": lambda c: c.open("u/old"),
    "uris": lambda c: c.uris("u/"),
    "changes": lambda c: c.changes("u/"),
    "stats": lambda c: c.stats(),
    "added": lambda c: list(c.added("")),
    "changed": lambda c: list(c.changed("")),
    "removed": lambda c: list(c.removed("")),
    "new_stats": lambda c: c.new_stats(""),
    "history": lambda c: c.history(""),
    "before": lambda c: c.before.get("u/old"),
    "a longer name": lambda c: c.get("t"),
}


@pytest.fixture
def repo(repo):
    """A repository with files beside those that a run changes, each in a range of its own."""
    repo.splitting.set(raggedness=1)
    main = repo.branch("main")
    for path in ("t/old", "u/old"):
        main.put(path, b"old")
    main.commit("old")
    return repo


def asked(repo, gate, path="t/new"):
    """Return the gate's verdict of a run that writes a file."""
    run = repo.runs.open("hour", metadata={"hour": "5"})
    run.put(path, b"1")
    run.commit_staged()
    (verdict,) = run.judge([gate])
    return verdict


@pytest.mark.parametrize("name", READS)
def test_what_is_not_declared_cannot_be_read(repo, name):
    plain = "changes" if name == "content" else "content"
    verdict = asked(repo, Gate("g", READS[name], prefix="t/", reads=plain))
    assert verdict.died
    assert f"{name!r}" in verdict.reason.partition("give it reads=")[2], verdict.reason


@pytest.mark.parametrize("isolated", [False, True])
def test_a_gate_that_catches_the_refusal_has_died(repo, isolated):
    def careless(candidate):
        with suppress(InvalidInputError):
            candidate.get("u/old")

    verdict = asked(repo, Gate("careless", careless, prefix="t/", isolated=isolated))
    assert verdict.died
    assert "also=('u/old',)" in verdict.reason


@pytest.mark.parametrize("name", READS)
def test_what_is_declared_can(repo, name):
    def reads(candidate):
        READS[name](candidate)

    assert asked(repo, Gate("g", reads, prefix="t/", reads=name)).passed


def test_the_way_out_keeps_what_is_declared_already(repo):
    gate = Gate("g", READS["message"], reads={"changes", "run"})
    assert "give it reads={'changes', 'message', 'run'}" in asked(repo, gate).reason
    with repo.run("other", gates=[Gate("g", lambda c: c.commit.message and None, reads="message")]):
        pass


@pytest.mark.parametrize("how", OUTSIDE)
def test_what_is_not_below_the_prefix_is_refused(repo, how):
    gate = Gate("g", lambda c: OUTSIDE[how](c) and None, prefix="t/", reads="history")
    verdict = asked(repo, gate, "u/old")
    assert verdict.died
    assert "which is not below what it declares ('t/')" in verdict.reason
    assert "also=" in verdict.reason


def test_a_gate_of_changes_reads_only_the_changed_files(repo):
    def reads(candidate):
        assert candidate.get("t/new") == candidate.open("t/new").read() == b"1"
        assert candidate.read_range("t/new", 0, 5) == b"1"
        assert not candidate.before.exists("t/new")

    verdict = asked(repo, Gate("g", reads, reads="changes"))
    assert verdict.passed, verdict.reason


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        (lambda c: c.get("t/old"), "'t/old', which does not change"),
        (
            lambda c: list(c.before.entries("t/")),
            "g' reads files that do not change, but declares only 'changes': give it reads='content'",
        ),
    ],
)
def test_a_gate_of_changes_reads_no_other_files(repo, read, reason):
    verdict = asked(repo, Gate("g", read, reads="changes"))
    assert verdict.died
    assert reason in verdict.reason


def says_yes(candidate):
    return True


OTHERS: dict[str, dict[str, Any]] = {
    "message": {"message": "other"},
    "committer": {"committer": "other"},
    "metadata": {"metadata": {"other": "1"}},
    "parents": {"parents": ("0" * 64,)},
    "created": {"created": datetime(2014, 1, 1, tzinfo=UTC)},
    "commit": {"id": "0" * 64},
    "target": {"id": "0" * 64},
    "run": {"metadata": {"hour": "6"}},
    "attempt": {"attempt": 2},
}
"""Of each input, fields of its record that differ."""


@pytest.mark.parametrize("read", [*OTHERS, "content"])
def test_what_is_declared_is_in_the_key(repo, read):
    """The key of a verdict changes with an input exactly if the gate declares it."""
    records: dict[str, Any] = {
        "commit": repo.commit("main"),
        "target": repo.commit("main"),
        "run": RunContext("hour", 1),
    }

    def key(**changed):
        of = {**records, **changed}
        candidate = Candidate(
            repo.stores, of["commit"], target=of["target"], into="main", run=of["run"]
        )
        return hash_inputs(repo.stores, candidate, Gate("g", says_yes, reads=read), "")

    for name, fields in OTHERS.items():
        record = {"target": "target", "run": "run", "attempt": "run"}.get(name, "commit")
        changed = key(**{record: replace(records[record], **fields)})
        assert (changed != key()) is (name == read), name


def test_history_is_in_the_key_as_far_as_it_concerns_the_prefix(repo):
    gate = Gate("g", says_yes, prefix="t/", reads={"changes", "history"}, version="1")
    run = repo.runs.open("hour")
    run.put("t/new", b"1")
    run.commit_staged()
    run.judge([gate])
    for path, reused in (("u/1", ("g",)), ("t/1", ())):
        with repo.run(path) as other:
            other.put(path, b"1")
        run.judge([gate])
        assert next(repo.gates.judgements()).reused == reused


@pytest.mark.parametrize("gate", [{}, {"prefix": "t/"}, {"prefix": "t/n"}, {"reads": "changes"}])
def test_an_address_that_changes_is_a_new_input(repo, gate):
    """A gate reads bytes, and equal content at another address is other bytes."""
    gate = Gate("g", says_yes, **gate, version="1")
    stores = repo.stores
    for number in (1, 2):
        stores.objects.put(f"data/x/{number}", b"1")
        run = repo.runs.open(f"hour {number}")
        run.link("t/new", address=f"data/x/{number}", size=1, checksum="sha256:" + "0" * 64)
        run.commit_staged()
        run.judge([gate])
    assert next(repo.gates.judgements()).reused == ()


def test_a_gate_judged_beforehand_reads_the_metadata_of_publish(repo):
    repo.gates.require("main", checks.only_within("t/"))
    seen: list[str] = []

    def note(candidate):
        seen.append(candidate.commit.metadata["graveler.gates"])

    gate = Gate("note", note, reads="metadata")
    run = repo.runs.open("hour")
    run.put("t/new", b"1")
    run.commit_staged()
    run.judge([gate])
    published = run.publish([gate]).commit
    assert set(seen) == {published.metadata["graveler.gates"]}
