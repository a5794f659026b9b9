"""Refused work of ingestion and candidates of refused publishes reach no branch by any call."""

from contextlib import suppress
from dataclasses import replace

import pytest

import graveler
from graveler.base.background import Inline
from graveler.errors import GateFailedError, RunStateError
from graveler.lake.factory import connect
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.worlds import tree

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


@graveler.gate
def refuses(_candidate):
    """Refuses everything."""
    return "no"


def judged(repo):
    """Return the candidate that gates judged last."""
    return next(iter(repo.gates.judgements())).commit


def refused_run(repo, key="r"):
    with suppress(GateFailedError), repo.run(key, gates=[refuses]) as run:
        run.put("in/a", b"bad")
    return judged(repo)


def abandoned_run(repo):
    commit = refused_run(repo)
    repo.runs.abandon("r", reason="enough")
    return commit


def newer_attempt(repo):
    commit = refused_run(repo)
    repo.runs.open("r")
    return commit


def only_judged(repo):
    run = repo.runs.open("r")
    run.put("in/a", b"bad")
    run.commit_staged()
    run.judge(refuses)
    return judged(repo)


def published_later(repo):
    commit = refused_run(repo)
    with repo.run("r", fresh=True) as run:
        run.put("other", b"good")
    return commit


def on_a_judged_branch(repo):
    """A run is published to a branch that was made of a refused candidate."""
    repo.create_branch("prod", refused_run(repo))
    with repo.run("s", into="prod") as run:
        run.put("other", b"good")
    return repo.branch("prod").head.id


def refused_tick(repo, on_refusal="hold"):
    ingestion = repo.ingestion(gates=[refuses], on_refusal=on_refusal)
    ingestion.branch.put(f"{HOUR}a", b"bad")
    ingestion.tick("2013-01-01T05:00Z")
    return judged(repo)


CANDIDATES = {
    "parked": refused_run,
    "abandoned": abandoned_run,
    "newer attempt": newer_attempt,
    "judged": only_judged,
    "published later": published_later,
    "other target": on_a_judged_branch,
    "held tick": refused_tick,
    "quarantined tick": lambda repo: refused_tick(repo, "quarantine"),
}


def by_an_ingestion(repo, commit):
    repo.create_branch("via", commit)
    repo.ingestion("via").branch.put("other", b"1")
    repo.ingestion("via").tick("2013-01-01T06:00Z")


def by_commit_changes(repo, commit):
    entries = list(repo.ref(commit).entries("in/"))
    repo.branch("main").commit_changes(entries, message="c")


CANDIDATE_DOORS = {
    **{door: DOORS[door] for door in ("merge", "copy", "reset", "branch", "entries", "dotted")},
    "cherry-pick": lambda repo, commit: repo.cherry_pick(commit, "main", parent=1),
    "revert": lambda repo, commit: repo.revert(commit, "main", parent=1),
    "preview": lambda repo, commit: repo.preview_merge(commit, "main"),
    "link": lambda repo, commit: repo.branch("main").link_many(repo.ref(commit).entries("in/")),
    "commit_changes": by_commit_changes,
    "run": lambda repo, commit: repo.runs.open("taker").copy(commit, "in/", "in/"),
    "ingestion": by_an_ingestion,
}


@pytest.fixture
def settled(repo):
    repo.branch("main").put("settled", b"0")
    repo.branch("main").commit("settled")
    return repo


# the changes of the publish itself are published
PAIRS = [
    (kind, door)
    for kind in CANDIDATES
    for door in CANDIDATE_DOORS
    if kind != "other target" or door not in ("cherry-pick", "revert")
]


@pytest.mark.parametrize(("kind", "door"), PAIRS)
def test_a_candidate_that_was_not_published_stays_out(settled, kind, door):
    commit = CANDIDATES[kind](settled)
    with pytest.raises(RunStateError):
        CANDIDATE_DOORS[door](settled, commit)
    assert not list(settled.branch("main").entries("in/"))


def published_run(repo, into):
    with repo.run("r", into=into) as run:
        run.put("in/a", b"good")
    return repo.runs.get("r").commit


def published_hour(repo, into):
    ingestion = repo.ingestion(into=into)
    ingestion.branch.put(f"{HOUR}a", b"good")
    return ingestion.tick("2013-01-01T05:00Z").published.id


PUBLISHED = {"run": published_run, "tick": published_hour}


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("into", ["main", "prod"])
@pytest.mark.parametrize("kind", PUBLISHED)
def test_what_was_published_and_reset_away_is_merged(settled, kind, into, deleted):
    settled.create_branch("prod", "main")
    settled.create_branch("dev", "main")
    commit = PUBLISHED[kind](settled, into)
    settled.branch(into).reset(to=f"{commit}~1")
    if deleted and into == "prod":
        settled.delete_branch("prod")
    settled.merge(commit, into="dev")
    settled.cherry_pick(commit, onto="main", parent=1)
    for name in ("dev", "main"):
        assert len(list(settled.branch(name).entries("in/"))) == 1


@pytest.mark.parametrize("kept", ["branch", "tag"])
@pytest.mark.parametrize("kind", PUBLISHED)
def test_after_a_restore_the_history_of_refs_decides(lake, settled, kind, kept, tmp_path):
    commit = PUBLISHED[kind](settled, "main")
    if kept == "branch":
        settled.create_branch("keep", commit)
    else:
        settled.tags.create("keep", commit)
    settled.branch("main").reset(to=f"{commit}~1")
    settled.dump_refs(tmp_path / "dump")
    config = replace(lake._config, kv_uri="mem://", cache_folder=tmp_path / "other-cache")
    ids = SequenceIds(10**6)
    with connect(config, clock=FakeClock(), ids=ids, background=Inline()) as other:
        repo = other.restore_repository(tmp_path / "dump", take_over=True)
        repo.merge("keep", into="main")
        assert len(tree(repo.branch("main"))) == 2
        repo.branch("main").put("b", b"")
        repo.branch("main").commit("b")
        refused = refused_run(repo, "later")
        with pytest.raises(RunStateError):
            repo.merge(refused, into="main")


def test_a_branch_of_refused_work_is_not_ingested(settled):
    refused_run(settled)
    settled.create_branch("via", settled.runs.get("r").branch)
    settled.branch("via").put(f"{HOUR}b", b"1")
    with pytest.raises(RunStateError, match="work of run 'r'"):
        settled.ingestion("via").tick("2013-01-01T05:00Z")
    assert tree(settled.branch("main")) == {"settled": "0"}


def test_a_branch_of_a_refused_hour_is_not_ingested(settled):
    refused_tick(settled, "quarantine")
    (quarantine,) = settled.ingestion().quarantined()
    settled.create_branch("via", quarantine.commits[0])
    settled.branch("via").put("other", b"1")
    with pytest.raises(RunStateError, match="is in quarantine"):
        settled.ingestion("via").tick("2013-01-01T06:00Z")
    assert tree(settled.branch("main")) == {"settled": "0"}
