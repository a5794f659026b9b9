"""Refused work of ingestion reaches no branch but by its release."""

import pytest

import graveler
from graveler.errors import RunStateError

HOUR = "in/2013/01/01/05:00/"


@graveler.gate
def nothing_bad(candidate):
    """Refuses new files that are bad."""
    return not any(candidate.get(entry) == b"bad" for entry in candidate.added())


def branched(repo, commit):
    repo.create_branch("dev", commit)
    repo.merge("dev", "main")


def through_a_run(repo, commit):
    with repo.run("other") as run:
        run.copy(commit, "in/", "in/")


def through_another_ingestion(repo, _commit):
    (quarantine,) = repo.ingestion().quarantined()
    repo.create_branch("in2", quarantine.name)
    repo.ingestion("in2").branch.put("other", b"1")
    repo.ingestion("in2").tick("2013-01-01T06:00Z")


def entries_of_a_branch_that_was_reset(repo, commit):
    branch = repo.create_branch("dev", commit)
    entries = list(branch.entries("in/"))
    branch.reset("main")
    repo.branch("main").link_many(entries)


def a_branch_below_main(repo, commit):
    branch = repo.create_branch("main.x", commit)
    repo.branch("main").link_many(branch.entries("in/"))


DOORS = {
    "merge": lambda repo, commit: repo.merge(commit, "main"),
    "cherry-pick": lambda repo, commit: repo.cherry_pick(commit, "main"),
    "copy": lambda repo, commit: repo.branch("main").copy(commit, "in/", "in/"),
    "reset": lambda repo, commit: repo.branch("main").reset(commit),
    "revert": lambda repo, _: repo.revert(repo.branch("ingest").head, "main"),
    "branch": branched,
    "run": through_a_run,
    "ingestion": through_another_ingestion,
    "entries": entries_of_a_branch_that_was_reset,
    "dotted": a_branch_below_main,
}


@pytest.mark.parametrize("door", DOORS)
def test_a_refused_hour_comes_by_its_release_alone(repo, door):
    repo.branch("main").put("settled", b"0")
    repo.branch("main").commit("settled")
    ingestion = repo.ingestion(gates=[nothing_bad], on_refusal="quarantine")
    ingestion.branch.put(f"{HOUR}a", b"bad")
    commit = ingestion.tick("2013-01-01T05:00Z").commit
    with pytest.raises(RunStateError, match="ingest release quarantine-2013-01-01T05-00"):
        DOORS[door](repo, commit)
    assert not list(repo.branch("main").entries("in/"))
    ingestion.release("quarantine-2013-01-01T05-00", gates=[])
    assert repo.ref("main").get(f"{HOUR}a") == b"bad"
    repo.merge("ingest", "main")
