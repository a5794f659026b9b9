"""A gate refuses an hour: publishing is held, or the hour is quarantined.

The tables tell histories; `tests.ingest.histories` explains their words.
"""

import pytest

from graveler.errors import (
    CorruptionError,
    GateFailedError,
    NoChangesError,
    NotFoundError,
    RefNotFoundError,
    RunStateError,
)
from graveler.gates import gate
from graveler.ingest import HourKind, HourState, commit_hours
from graveler.publishing.candidacy import Candidacy
from tests.harness.worlds import tree
from tests.ingest.histories import FIVE, SIX

SHELF = "quarantine-2013-01-01T05-00"


def path(hour, name="a"):
    return f"input/2013/01/01/{hour:02}:00/{name}"


def published(repo):
    return {key: text for key, text in tree(repo.ref("main")).items() if key != "settled"}


def stage(ingestion, hour, *names):
    for name in names:
        ingestion.branch.put(path(hour, name), f"{hour}{name}".encode())


def removals(repo):
    return [
        one for one in repo.log("ingest", first_parent=True) if "graveler.taken-off" in one.metadata
    ]


LATE = "input/2013/01/01/04:00/l"
HELD = {
    "mended by its own tick": "in p=5 b=bad; tick 5 HELD; in -b; tick 5 PUBLISHED; main p=5",
    "mended by an empty hour": "in b=bad; tick 5 HELD; tick 6 HELD; tick 6 HELD; in -b; "
    "tick 6 PUBLISHED; main",
    "that is empty before": f"in {LATE}=1 b=bad; tick 5; tick 4 HELD; in -b; tick 7 PUBLISHED; "
    "tick 4 EMPTY",
    "that is empty after": f"in {LATE}=1 b=bad; tick 5; tick 6 HELD; in -b; tick 7 PUBLISHED; "
    "tick 6 EMPTY",
    "that was empty": "tick 4 EMPTY; in b=bad; tick 5; hour 4 EMPTY; tick 4 EMPTY",
    "whose blocker is set aside": "in b=bad; tick 5; tick 6 HELD; as quarantine; tick 6 EMPTY",
    "behind a good one": "in p=5; commit 5; in b=bad; tick 6 HELD; main p=5",
}
SET_ASIDE = {
    "again": "in b=bad; tick 5 QUARANTINED; in p=6; tick 5 QUARANTINED; gates none; "
    "tick 5 QUARANTINED; main",
    "twice": "in b=bad; tick 5; in c=bad; commit 5; tick 6; shelves 5 5",
    "and released by other gates": "in b=bad; tick 5; force; main b=bad",
    "below a later write that stays": "in p=1 b=bad; tick 5; in p=2; tick 6; main p=2; mend -b; "
    "release ! MergeConflictError 'p'; shelves 5; release dest-wins; main p=2",
    "below a later write that goes": "in p=1 b=bad; tick 5; in p=2; tick 6; mend -b; "
    "release source-wins; main p=1; in p=3; tick 7; main p=3",
    "and written again": "in p=1 b=bad; tick 5; mend -b; release; in p=2 -settled; "
    "tick 6 PUBLISHED; main p=2",
    "with changes and deletions": "in p=1 q=1; tick 4; in -p q=2 b=bad; tick 5; main p=1 q=1; "
    "ingest p=1 q=1; force; main q=2 b=bad",
    "of several": "as hold; in b=bad; tick 5; in p=6; tick 6; in c=bad; tick 7; as quarantine; "
    "in q=8; tick 8 PUBLISHED; main p=6 q=8; shelves 5 7; hour 6 PUBLISHED; hour 7 QUARANTINED",
    "and written by a later hour": "as hold; in p=1 b=bad; tick 5; in p=2; tick 6; as quarantine; "
    "tick 7; main p=2; shelves 5",
    "as the last of three": "in a=1; commit 5; in b=1; commit 6; in c=1; commit 7; gates two; "
    "tick 8; main a=1 b=1; shelves 7",
    "and brought back by an undo": "in p=1 b=bad; tick 5; undo ingest; gates none; in q=6; "
    "tick 6 PUBLISHED; main q=6; shelves 5 5; release; give-up; tick 7; main p=1 b=bad q=6",
    "and brought back by a reset": "in p=1 b=bad; tick 5; rewind; gates none; in q=6; "
    "tick 6 PUBLISHED; main q=6; shelves 5 5; release; give-up; tick 7; main p=1 b=bad q=6",
    "and brought back where hours are held": "in p=1 b=bad; tick 5; rewind; gates none; as hold; "
    "in q=6; tick 6 HELD; main; release; tick 6 PUBLISHED; main p=1 b=bad q=6",
    "and deleted": "in b=bad; tick 5; give-up; shelves; undo quarantine-2013-01-01T05-00; force; "
    "main b=bad",
}


@pytest.mark.parametrize("told", HELD.values(), ids=HELD)
def test_an_hour_is_held(history, told):
    history.play(told)


@pytest.mark.parametrize("told", SET_ASIDE.values(), ids=SET_ASIDE)
def test_an_hour_is_set_aside(history, told):
    history.play(f"as quarantine; {told}")


def test_a_gate_is_not_asked_again_about_an_hour_that_is_held(repo):
    @gate(prefix="input/", version="1")
    def never(candidate):
        return "no"

    stage(repo.ingestion(gates=[never]), 5, "a")
    reused = []
    for _ in range(3):
        assert repo.ingestion(gates=[never]).tick(FIVE).state is HourState.HELD
        reused.append(next(repo.gates.judgements()).reused)
    assert reused == [(), ("never",), ("never",)]


def test_a_refused_hour_is_set_aside_and_later_ones_go_through(repo, quarantining):
    stage(quarantining, 5, "a", "x.bad")
    tick = quarantining.tick(FIVE, metadata={"who": "cron"})
    assert (tick.state, tick.quarantined, tick.published) == (HourState.QUARANTINED, (SHELF,), None)
    assert tick.refused.gates == ("no_bad_file",)
    stage(quarantining, 6, "a")
    assert quarantining.tick(SIX).state is HourState.PUBLISHED
    assert published(repo) == {path(6): "6a"}
    (kept,) = quarantining.quarantined()
    assert (kept.name, kept.hours, kept.commits) == (SHELF, (FIVE,), (tick.commit.id,))
    assert set(tree(repo.ref(SHELF))) == {"settled", path(5), path(5, "x.bad")}
    assert repo.commit(SHELF).metadata["who"] == "cron"
    assert len(removals(repo)) == 1
    assert path(5) not in tree(repo.ref("ingest"))
    assert quarantining.status().pending == ()


def test_a_released_hour_is_on_main_and_its_branch_is_gone(repo, quarantining):
    stage(quarantining, 4, "late")
    stage(quarantining, 5, "a", "x.bad")
    quarantining.tick(FIVE)
    with pytest.raises(GateFailedError, match=r"x\.bad"):
        quarantining.release(SHELF)
    with pytest.raises(RunStateError, match="in quarantine"):
        repo.merge(SHELF, "main")
    assert published(repo) == {}

    mended = repo.branch(SHELF)
    mended.delete(path(5, "x.bad"))
    mended.put(path(3), b"mended")
    release = quarantining.release(SHELF, metadata={"by": "me"})
    assert (release.name, release.commit, release.already) == (SHELF, repo.commit("main"), False)
    assert published(repo) == {path(3): "mended", path(4, "late"): "4late", path(5): "5a"}
    pairs = {"hour": FIVE, "released": SHELF, "by": "me", "late": "2"}
    assert pairs.items() <= release.commit.metadata.items()
    late = commit_hours(repo.stores, release.commit, kinds=[HourKind.LATE])
    assert [hour.hour for hour in late] == [3, 4]
    assert quarantining.quarantined() == ()
    with pytest.raises(RefNotFoundError):
        repo.branch(SHELF)
    hour = quarantining.hour(FIVE)
    assert (hour.state, hour.published) == (HourState.PUBLISHED, release.commit)

    again = quarantining.release(SHELF)
    assert (again.commit, again.already) == (release.commit, True)
    assert repo.commit("main") == release.commit
    assert quarantining.tick(FIVE).published == release.commit


def test_a_release_of_what_is_not_there_says_so(history):
    history.play("as quarantine; in b=bad; tick 5; give-up")
    with pytest.raises(NotFoundError, match="no quarantine 'x'"):
        history.ingestion.release("x")
    with pytest.raises(RefNotFoundError, match="graveler undo"):
        history.ingestion.release(SHELF, gates=[])


COPIES = {
    "pick": lambda repo, on, refused: repo.cherry_pick(refused, on.name),
    "copy": lambda repo, on, refused: on.copy(refused, "p", "elsewhere"),
    "copy from above": lambda repo, on, refused: on.copy(f"{on.name}~1", "p", "elsewhere"),
    "link": lambda repo, on, refused: on.link_many(list(repo.ref(refused).entries("p"))),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_refused_hour_is_not_copied_onto_its_branch(history, way):
    history.play("as quarantine; in p=1 b=bad; commit 5; in other=1; commit 6; tick 6")
    repo, ingest = history.repo, history.ingestion.branch
    (shelf,) = history.ingestion.quarantined()
    with pytest.raises(RunStateError, match=f"in quarantine: correct branch '{shelf.name}'"):
        COPIES[way](repo, ingest, shelf.commits[0])
    history.play("gates none; tick 7; main other=1")
    ingest.copy("main", "other", "another")
    history.play("mend -b; release")
    ingest.copy(shelf.commits[0], "p", "elsewhere")


def _through_a_branch(repo, on, refused):
    other = repo.create_branch("other", source=refused)
    other.put("y", b"1")
    other.commit("on top of it")
    on.copy(other, "p", "p")


RETURNED = {
    "reset": lambda repo, on, refused: on.reset(refused),
    "copy": lambda repo, on, refused: on.copy(refused, "p", "p"),
    "a branch of it": _through_a_branch,
}


@pytest.mark.parametrize("way", RETURNED)
def test_a_removed_hour_does_not_return_by_the_target(history, way):
    history.play("as quarantine; in p=1 b=bad; tick 5; in q=6; tick 6 PUBLISHED")
    (shelf,) = history.ingestion.quarantined()
    with pytest.raises(RunStateError, match="in quarantine"):
        RETURNED[way](history.repo, history.repo.branch("main"), shelf.commits[0])
    history.play("main q=6; reset main~1; main")


def test_the_removal_of_a_refused_hour_is_not_reverted(history):
    repo = history.play("as quarantine; in p=1 b=bad; tick 5").repo
    (removal,) = removals(repo)
    with pytest.raises(RunStateError, match=f"ingest release {SHELF}"):
        repo.revert(removal, "ingest")
    history.play("force")
    with pytest.raises(NoChangesError):  # the release has brought the hour back
        repo.revert(removal, "ingest")


def test_gates_of_the_target_are_asked_by_ticks_and_releases(repo):
    repo.gates.require("main", "tests.harness.judges:no_bad_file")
    ingestion = repo.ingestion(on_refusal="quarantine")
    stage(ingestion, 5, "x.bad")
    tick = ingestion.tick(FIVE)
    assert tick.state is HourState.QUARANTINED
    assert tick.refused is not None
    assert tick.refused.gates == ("no_bad_file",)
    with pytest.raises(GateFailedError):
        ingestion.release(SHELF)
    stage(ingestion, 6, "a")
    tick = ingestion.tick(SIX)
    assert tick.state is HourState.PUBLISHED
    assert tick.published is not None
    assert tick.published.metadata["graveler.gates"] == "no_bad_file"


@pytest.mark.parametrize("kind", ["standing/ingest", f"hour/ingest/{FIVE}", "quarantine/ingest/x"])
@pytest.mark.parametrize("value", [b"{", b"{}", b'{"held":7}'])
def test_a_record_that_is_damaged_is_told_of_and_left_as_it_is(repo, holding, kind, value):
    holding.tick("2013-01-01T04:00Z")
    partition = f"ingest:{repo.stores.uid}"
    repo.stores.kv.set(partition, kind.encode(), value)
    stage(holding, 5, "a")
    with pytest.raises(CorruptionError):
        holding.tick(FIVE)
    assert repo.stores.kv.get(partition, kind.encode()).value == value
    assert path(5) in tree(repo.branch("ingest"))


def test_a_change_set_aside_while_gates_judge_does_not_land(repo, quarantining, monkeypatch):
    calls: list[str] = []
    announce = Candidacy.announce

    @gate
    def no_file_at_all(candidate):
        del candidate
        return False

    def late(work, candidate):
        if not calls:  # after the gates and before the move of the branch
            calls.append(work.into)
            other = repo.ingestion(gates=[no_file_at_all], on_refusal="quarantine")
            assert other.tick(FIVE).state is HourState.QUARANTINED
        return announce(work, candidate)

    monkeypatch.setattr(Candidacy, "announce", late)
    quarantining.branch.put(path(5), b"5")
    assert quarantining.tick(FIVE).state is HourState.QUARANTINED
    assert calls
    assert not repo.ref("main").exists(path(5))
    (kept,) = quarantining.quarantined()
    assert repo.branch(kept.name).get(path(5)) == b"5"
