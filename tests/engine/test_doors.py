"""Refused work of ingestion and candidates of refused publishes reach no branch by any call."""

from contextlib import suppress
from dataclasses import replace

import pytest

import graveler
from graveler.base.background import Inline
from graveler.errors import GateFailedError, RunStateError
from graveler.lake.factory import connect
from graveler.testing.clock import FakeClock, SequenceIds
from tests.harness.worlds import ScriptedWorld, tree

HOUR = "in/2013/01/01/05:00/"
SHELF = "quarantine-2013-01-01T05-00"


def settle(repo):
    repo.branch("main").put("settled", b"0")
    repo.branch("main").commit("settled")
    return repo


@pytest.fixture
def repo():
    return settle(ScriptedWorld().repo(scripted=False))


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


def behind_a_merge(repo):
    """The history of main is longer than that of the run, and is merged into a branch of it."""
    refused_run(repo)
    repo.create_branch("mine", repo.runs.get("r").branch)
    for number in range(3):
        repo.branch("main").put("settled", b"0")
        repo.branch("main").commit(f"{number}", allow_empty=True)
    return repo.merge("main", into="mine").commit.id


def tick(repo, on_refusal):
    ingestion = repo.ingestion(gates=[refuses], on_refusal=on_refusal)
    ingestion.branch.put(f"{HOUR}a", b"bad")
    return ingestion.tick("2013-01-01T05:00Z").commit


def refused_tick(repo, on_refusal="hold"):
    tick(repo, on_refusal)
    return judged(repo)


KINDS = {
    "parked": refused_run,
    "abandoned": abandoned_run,
    "newer attempt": newer_attempt,
    "judged": only_judged,
    "published later": published_later,
    "other target": on_a_judged_branch,
    "behind a merge": behind_a_merge,
    "held tick": refused_tick,
    "quarantined tick": lambda repo: refused_tick(repo, "quarantine"),
    "quarantined hour": lambda repo: tick(repo, "quarantine"),
}


def parent_of(repo, commit):
    return 1 if len(repo.commit(commit).parents) > 1 else None


def by_a_branch(repo, commit):
    repo.create_branch("dev", commit)
    repo.merge("dev", "main")


def by_an_ingestion(repo, commit):
    repo.create_branch("via", commit)
    repo.ingestion("via").branch.put("other", b"1")
    repo.ingestion("via").tick("2013-01-01T06:00Z")


def by_entries_of_a_branch_that_was_reset(repo, commit):
    branch = repo.create_branch("dev", commit)
    entries = list(branch.entries("in/"))
    branch.reset("main")
    repo.branch("main").link_many(entries)


def by_a_branch_below_main(repo, commit):
    branch = repo.create_branch("main.x", commit)
    repo.branch("main").link_many(branch.entries("in/"))


DOORS = {
    "merge": lambda repo, commit: repo.merge(commit, "main"),
    "preview": lambda repo, commit: repo.preview_merge(commit, "main"),
    "cherry-pick": lambda repo, commit: repo.cherry_pick(
        commit, "main", parent=parent_of(repo, commit)
    ),
    "revert": lambda repo, commit: repo.revert(commit, "main", parent=parent_of(repo, commit)),
    "copy": lambda repo, commit: repo.branch("main").copy(commit, "in/", "in/"),
    "link": lambda repo, commit: repo.branch("main").link_many(repo.ref(commit).entries("in/")),
    "commit_changes": lambda repo, commit: repo.branch("main").commit_changes(
        list(repo.ref(commit).entries("in/")), message="c"
    ),
    "reset": lambda repo, commit: repo.branch("main").reset(commit),
    "run": lambda repo, commit: repo.runs.open("taker").copy(commit, "in/", "in/"),
    "branch": by_a_branch,
    "ingestion": by_an_ingestion,
    "entries": by_entries_of_a_branch_that_was_reset,
    "dotted": by_a_branch_below_main,
}
PAIRS = [("parked", door) for door in DOORS]
PAIRS += [(kind, door) for kind in KINDS if kind != "parked" for door in ("merge", "link", "reset")]


@pytest.mark.parametrize(("kind", "door"), PAIRS)
def test_a_candidate_that_was_not_published_stays_out(repo, kind, door):
    commit = KINDS[kind](repo)
    with pytest.raises(RunStateError):
        DOORS[door](repo, commit)
    assert not list(repo.branch("main").entries("in/"))


QUARANTINE_DOORS = {
    **{door: DOORS[door] for door in ("merge", "cherry-pick", "copy", "branch", "ingestion")},
    "revert": lambda repo, _: repo.revert(repo.branch("ingest").head, "main"),
    "shelf": lambda repo, _: by_an_ingestion(repo, SHELF),
}


@pytest.mark.parametrize("door", QUARANTINE_DOORS)
def test_a_refused_hour_comes_by_its_release_alone(repo, door):
    commit = tick(repo, "quarantine")
    with pytest.raises(RunStateError, match=f"ingest release {SHELF}"):
        QUARANTINE_DOORS[door](repo, commit)
    assert tree(repo.branch("main")) == {"settled": "0"}
    repo.ingestion().release(SHELF, gates=[])
    assert repo.ref("main").get(f"{HOUR}a") == b"bad"
    repo.merge("ingest", "main")


def published_run(repo, into):
    with repo.run("r", into=into) as run:
        run.put("in/a", b"good")
    return repo.runs.get("r").commit


def published_hour(repo, into):
    ingestion = repo.ingestion(into=into)
    ingestion.branch.put(f"{HOUR}a", b"good")
    return ingestion.tick("2013-01-01T05:00Z").published.id


PUBLISHED = {"run": published_run, "tick": published_hour}


@pytest.mark.parametrize(("into", "deleted"), [("main", False), ("prod", False), ("prod", True)])
@pytest.mark.parametrize("kind", PUBLISHED)
def test_what_was_published_and_reset_away_is_merged(repo, kind, into, deleted):
    repo.create_branch("prod", "main")
    repo.create_branch("dev", "main")
    commit = PUBLISHED[kind](repo, into)
    repo.branch(into).reset(to=f"{commit}~1")
    if deleted:
        repo.delete_branch("prod")
    repo.merge(commit, into="dev")
    repo.cherry_pick(commit, onto="main", parent=1)
    for name in ("dev", "main"):
        assert len(list(repo.branch(name).entries("in/"))) == 1


@pytest.mark.parametrize("kept", ["branch", "tag"])
def test_after_a_restore_the_history_of_refs_decides(lake, kept, tmp_path):
    repo = settle(lake.create_repository("flights"))
    commit = published_run(repo, "main")
    if kept == "branch":
        repo.create_branch("keep", commit)
    else:
        repo.tags.create("keep", commit)
    repo.branch("main").reset(to=f"{commit}~1")
    repo.dump_refs(tmp_path / "dump")
    config = replace(lake._config, kv_uri="mem://", cache_folder=tmp_path / "other-cache")
    ids = SequenceIds(10**6)
    with connect(config, clock=FakeClock(), ids=ids, background=Inline()) as other:
        repo = other.restore_repository(tmp_path / "dump", take_over=True)
        repo.merge("keep", into="main")
        assert len(tree(repo.branch("main"))) == 2
        with pytest.raises(RunStateError):
            repo.merge(refused_run(repo, "later"), into="main")
