"""A gate refuses an hour: publishing is held, or the hour is quarantined."""

import pytest

from graveler.base.names import hour_text
from graveler.errors import (
    CorruptionError,
    GateFailedError,
    MergeConflictError,
    NoChangesError,
    NotFoundError,
    RefNotFoundError,
    RunStateError,
)
from graveler.gates import gate
from graveler.ingest import HourKind, HourState, commit_hours
from graveler.publishing.candidacy import Candidacy
from tests.harness.worlds import tree

FIVE = "2013-01-01T05:00Z"
SIX = "2013-01-01T06:00Z"
SEVEN = "2013-01-01T07:00Z"
EIGHT = "2013-01-01T08:00Z"
SHELF = "quarantine-2013-01-01T05-00"


def path(hour, name="a"):
    return f"input/2013/01/01/{hour:02}:00/{name}"


def published(repo):
    return {key: text for key, text in tree(repo.ref("main")).items() if key != "settled"}


def stage(ingestion, hour, *names, body=None):
    for name in names:
        ingestion.branch.put(path(hour, name), (body or f"{hour}{name}").encode())


def off(repo):
    return [
        one for one in repo.log("ingest", first_parent=True) if "graveler.taken-off" in one.metadata
    ]


# -- hold


def test_a_refused_hour_holds_publishing_until_it_is_mended(repo, holding):
    stage(holding, 5, "a", "x.bad")
    tick = holding.tick(FIVE)
    assert (tick.state, tick.published) == (HourState.HELD, None)
    assert tick.refused.gates == ("no_bad_file",)
    assert "x.bad" in tick.refused.reason
    assert holding.status().held == tick.refused

    stage(holding, 6, "a")
    assert holding.tick(SIX).state is HourState.HELD
    assert published(repo) == {}
    assert [hour.hour for hour in holding.pending()] == [FIVE, SIX]
    assert {hour.state for hour in holding.pending()} == {HourState.HELD}

    holding.branch.delete(path(5, "x.bad"))
    stage(holding, 7, "a")
    tick = holding.tick(SEVEN)
    assert (tick.state, tick.refused) == (HourState.PUBLISHED, None)
    assert published(repo) == {path(5): "5a", path(6): "6a", path(7): "7a"}
    assert holding.status().held is None
    assert tick.published.metadata["hours"] == "3"
    assert [hour_text(hour) for hour in commit_hours(repo.stores, tick.published)] == [
        FIVE,
        SIX,
        SEVEN,
    ]
    for hour in (FIVE, SIX):
        assert holding.hour(hour).published == tick.published


def test_the_tick_of_the_held_hour_itself_takes_the_mend(repo, holding):
    """A failed operator is cleared, and runs again for the same hour."""
    stage(holding, 5, "a", "x.bad")
    holding.tick(FIVE)
    holding.branch.delete(path(5, "x.bad"))
    tick = holding.tick(FIVE)
    assert tick.state is HourState.PUBLISHED
    assert published(repo) == {path(5): "5a"}
    assert tick.published.metadata["hour"] == FIVE


def test_an_empty_hour_is_held_with_the_others_and_takes_the_fix(repo, holding):
    stage(holding, 5, "x.bad")
    held = holding.tick(FIVE)
    tick = holding.tick(SIX)
    assert (tick.state, tick.commit) == (HourState.HELD, None)
    assert tick.refused.reason == held.refused.reason
    assert holding.tick(SIX).state is HourState.HELD
    holding.branch.delete(path(5, "x.bad"))
    assert holding.tick(SIX).state is HourState.PUBLISHED
    assert published(repo) == {}


@pytest.mark.parametrize("hour", ["2013-01-01T04:00Z", SIX])
def test_an_hour_without_writes_is_empty_once_nothing_blocks_it(repo, holding, hour):
    """Its own files may be among the held ones, whichever tick came first."""
    stage(holding, 4, "late")
    stage(holding, 5, "x.bad")
    holding.tick(FIVE)
    assert holding.tick(hour).state is HourState.HELD
    holding.branch.delete(path(5, "x.bad"))
    assert holding.tick(SEVEN).state is HourState.PUBLISHED
    tick = holding.tick(hour)
    assert (tick.state, tick.published, tick.refused) == (HourState.EMPTY, None, None)
    assert holding.tick(SEVEN).published == repo.commit("main")


def test_an_hour_that_was_empty_before_a_refusal_stays_so(holding):
    assert holding.tick("2013-01-01T04:00Z").state is HourState.EMPTY
    stage(holding, 5, "x.bad")
    holding.tick(FIVE)
    assert holding.hour("2013-01-01T04:00Z").state is HourState.EMPTY
    assert holding.tick("2013-01-01T04:00Z").state is HourState.EMPTY


def test_an_empty_hour_stays_empty_once_its_blocker_is_set_aside(holding, quarantining):
    stage(holding, 5, "x.bad")
    holding.tick(FIVE)
    assert holding.tick(SIX).state is HourState.HELD
    assert quarantining.tick(SIX).state is HourState.EMPTY


def test_hours_before_the_refused_one_are_published(repo, holding):
    stage(holding, 5, "a")
    holding.branch.commit("by hand", metadata={"hour": FIVE})
    stage(holding, 6, "x.bad")
    assert holding.tick(SIX).state is HourState.HELD
    assert published(repo) == {path(5): "5a"}


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


def test_a_path_that_main_changed_differently_is_a_refusal(repo, holding):
    stage(holding, 5, "a")
    holding.tick(FIVE)
    repo.protection.remove("main")
    repo.branch("main").put(path(5), b"main's")
    repo.branch("main").commit("by hand")
    stage(holding, 5, "a", body="ingest's")
    tick = holding.tick(SIX)
    assert tick.state is HourState.HELD
    assert tick.refused.gates == ()
    assert path(5) in tick.refused.reason


# -- quarantine


def test_a_refused_hour_is_set_aside_and_later_ones_go_through(repo, quarantining):
    stage(quarantining, 4, "a")
    quarantining.tick("2013-01-01T04:00Z")
    stage(quarantining, 5, "a", "x.bad")
    tick = quarantining.tick(FIVE, metadata={"who": "cron"})
    assert (tick.state, tick.quarantined, tick.published) == (HourState.QUARANTINED, (SHELF,), None)
    assert tick.refused.gates == ("no_bad_file",)

    stage(quarantining, 6, "a")
    assert quarantining.tick(SIX).state is HourState.PUBLISHED
    assert published(repo) == {path(4): "4a", path(6): "6a"}

    (kept,) = quarantining.quarantined()
    assert (kept.name, kept.hours, kept.commits) == (SHELF, (FIVE,), (tick.commit.id,))
    parked = tree(repo.ref(SHELF))
    assert {key for key in parked if key != "settled"} == {path(4), path(5), path(5, "x.bad")}
    assert repo.commit(SHELF).metadata["who"] == "cron"
    assert len(off(repo)) == 1
    assert path(5) not in tree(repo.ref("ingest"))
    assert quarantining.status().pending == ()


def test_a_released_hour_names_earlier_ones_it_brings_files_of(repo, quarantining):
    stage(quarantining, 4, "late")
    stage(quarantining, 5, "a", "x.bad")
    quarantining.tick(FIVE)
    repo.branch(SHELF).delete(path(5, "x.bad"))
    repo.branch(SHELF).put(path(3), b"later still")
    commit = quarantining.release(SHELF, metadata={"by": "me"}).commit
    assert commit.metadata["by"] == "me"
    assert commit.metadata["hour"] == FIVE
    assert commit.metadata["late"] == "2"
    late = commit_hours(repo.stores, commit, kinds=[HourKind.LATE])
    assert [hour.hour for hour in late] == [3, 4]


def test_a_released_hour_is_on_main_and_its_branch_is_gone(repo, quarantining):
    stage(quarantining, 5, "a", "x.bad")
    quarantining.tick(FIVE)
    stage(quarantining, 6, "a")
    quarantining.tick(SIX)

    with pytest.raises(GateFailedError, match=r"x\.bad"):
        quarantining.release(SHELF)
    assert published(repo) == {path(6): "6a"}

    mended = repo.branch(SHELF)
    mended.delete(path(5, "x.bad"))
    mended.put(path(5, "b"), b"mended")
    release = quarantining.release(SHELF)
    assert (release.name, release.commit, release.already) == (SHELF, repo.commit("main"), False)
    assert published(repo) == {path(5): "5a", path(5, "b"): "mended", path(6): "6a"}
    assert release.commit.metadata["hour"] == FIVE
    assert release.commit.metadata["released"] == SHELF
    assert quarantining.quarantined() == ()
    with pytest.raises(RefNotFoundError):
        repo.branch(SHELF)
    hour = quarantining.hour(FIVE)
    assert (hour.state, hour.published) == (HourState.PUBLISHED, release.commit)

    again = quarantining.release(SHELF)
    assert (again.commit, again.already) == (release.commit, True)
    assert repo.commit("main") == release.commit
    assert quarantining.tick(FIVE).published == release.commit


def test_an_hour_is_released_by_other_gates_where_they_are_given(repo, quarantining):
    stage(quarantining, 5, "x.bad")
    quarantining.tick(FIVE)
    quarantining.release(SHELF, gates=[])
    assert published(repo) == {path(5, "x.bad"): "5x.bad"}


def test_a_release_of_what_is_not_there_says_so(repo, quarantining):
    with pytest.raises(NotFoundError, match="no quarantine 'x'"):
        quarantining.release("x")
    stage(quarantining, 5, "x.bad")
    quarantining.tick(FIVE)
    repo.delete_branch(SHELF)
    assert quarantining.quarantined() == ()
    with pytest.raises(RefNotFoundError, match="graveler undo"):
        quarantining.release(SHELF, gates=[])
    repo.undo(SHELF)
    quarantining.release(SHELF, gates=[])
    assert published(repo) == {path(5, "x.bad"): "5x.bad"}


def test_a_quarantine_is_not_merged_round_the_gates(repo, quarantining):
    stage(quarantining, 5, "x.bad")
    quarantining.tick(FIVE)
    with pytest.raises(RunStateError, match="in quarantine"):
        repo.merge(SHELF, "main")


def test_a_path_written_first_by_a_later_hour_conflicts(repo, quarantining):
    stage(quarantining, 5, "a", "x.bad")
    quarantining.tick(FIVE)
    stage(quarantining, 5, "a", body="later")
    quarantining.tick(SIX)
    assert published(repo) == {path(5): "later"}
    repo.branch(SHELF).delete(path(5, "x.bad"))
    with pytest.raises(MergeConflictError) as conflict:
        quarantining.release(SHELF)
    assert [one.path for one in conflict.value.conflicts] == [path(5)]
    assert len(quarantining.quarantined()) == 1
    quarantining.release(SHELF, strategy="dest-wins")
    assert published(repo) == {path(5): "later"}


def test_the_quarantined_file_wins_where_the_caller_says_so(repo, quarantining):
    stage(quarantining, 5, "a", "x.bad")
    quarantining.tick(FIVE)
    stage(quarantining, 5, "a", body="later")
    quarantining.tick(SIX)
    repo.branch(SHELF).delete(path(5, "x.bad"))
    quarantining.release(SHELF, strategy="source-wins")
    assert published(repo) == {path(5): "5a"}
    stage(quarantining, 5, "a", body="latest")
    quarantining.tick(SEVEN)
    assert published(repo) == {path(5): "latest"}


def test_a_later_hour_writes_over_what_was_released_before_it(repo, quarantining):
    stage(quarantining, 5, "a", "x.bad")
    quarantining.tick(FIVE)
    repo.branch(SHELF).delete(path(5, "x.bad"))
    quarantining.release(SHELF)
    stage(quarantining, 5, "a", body="later")
    quarantining.branch.delete("settled")
    assert quarantining.tick(SIX).state is HourState.PUBLISHED
    assert published(repo) == {path(5): "later"}


def test_changes_and_deletions_of_a_refused_hour_are_undone(repo, quarantining):
    stage(quarantining, 4, "a", "b")
    quarantining.tick("2013-01-01T04:00Z")
    quarantining.branch.delete(path(4, "a"))
    stage(quarantining, 4, "b", "x.bad", body="changed")
    quarantining.tick(FIVE)
    assert published(repo) == {path(4): "4a", path(4, "b"): "4b"}
    assert tree(repo.branch("ingest")) == tree(repo.ref("main"))
    quarantining.release(SHELF, gates=[])
    assert published(repo) == {path(4, "b"): "changed", path(4, "x.bad"): "changed"}


def test_of_several_waiting_hours_only_bad_ones_are_set_aside(repo, holding, quarantining):
    stage(holding, 5, "x.bad")
    holding.tick(FIVE)
    stage(holding, 6, "a")
    holding.tick(SIX)
    stage(holding, 7, "y.bad")
    holding.tick(SEVEN)
    stage(quarantining, 8, "a")
    assert quarantining.tick(EIGHT).state is HourState.PUBLISHED
    assert published(repo) == {path(6): "6a", path(8): "8a"}
    assert [kept.hours for kept in quarantining.quarantined()] == [(FIVE,), (SEVEN,)]
    assert len(off(repo)) == 2
    assert holding.hour(SIX).state is HourState.PUBLISHED
    assert holding.hour(SEVEN).quarantined == ("quarantine-2013-01-01T07-00",)


def test_a_file_of_a_bad_hour_rewritten_by_a_later_one_stays(repo, holding, quarantining):
    stage(holding, 5, "a", "x.bad")
    holding.tick(FIVE)
    stage(holding, 5, "a", body="again")
    holding.tick(SIX)
    quarantining.tick(SEVEN)
    assert published(repo) == {path(5): "again"}
    assert [kept.hours for kept in quarantining.quarantined()] == [(FIVE,)]


def test_hours_refused_only_together_are_told_apart_by_order(repo):
    @gate
    def at_most_two_files(candidate):
        return len(list(candidate.entries("input/"))) <= 2

    for hour in (5, 6, 7):
        stage(repo.ingestion(), hour, "a")
        repo.ingestion().branch.commit("by hand", metadata={"hour": f"2013-01-01T{hour:02}:00Z"})
    ingestion = repo.ingestion(gates=[at_most_two_files], on_refusal="quarantine")
    ingestion.tick(EIGHT)
    assert published(repo) == {path(5): "5a", path(6): "6a"}
    assert [kept.hours for kept in ingestion.quarantined()] == [(SEVEN,)]


def test_an_hour_that_conflicts_with_main_is_set_aside(repo, quarantining):
    stage(quarantining, 5, "a")
    quarantining.tick(FIVE)
    repo.protection.remove("main")
    repo.branch("main").put(path(5), b"main's")
    repo.branch("main").commit("by hand")
    stage(quarantining, 5, "a", body="ingest's")
    tick = quarantining.tick(SIX)
    assert tick.state is HourState.QUARANTINED
    assert published(repo) == {path(5): "main's"}
    (kept,) = quarantining.quarantined()
    with pytest.raises(MergeConflictError):
        quarantining.release(kept.name)
    quarantining.release(kept.name, strategy="source-wins")
    assert published(repo) == {path(5): "ingest's"}


def test_an_hour_that_is_refused_twice_has_two_branches(repo, quarantining):
    stage(quarantining, 5, "x.bad")
    quarantining.tick(FIVE)
    stage(quarantining, 5, "y.bad")
    quarantining.branch.commit("by hand", metadata={"hour": FIVE})
    quarantining.tick(SIX)
    assert [kept.name for kept in quarantining.quarantined()] == [SHELF, SHELF + ".2"]


RETURNS = {
    "undo": lambda repo, _: repo.undo("ingest"),
    "reset": lambda repo, refused: repo.branch("ingest").reset(refused),
}


@pytest.mark.parametrize("way", RETURNS)
@pytest.mark.parametrize("on_refusal", ["quarantine", "hold"])
def test_a_refused_hour_that_returns_is_refused_again(repo, quarantining, way, on_refusal):
    stage(quarantining, 5, "a", "x.bad")
    quarantining.tick(FIVE)
    (removal,) = off(repo)
    RETURNS[way](repo, removal.parents[0])
    lenient = repo.ingestion(on_refusal=on_refusal)
    stage(lenient, 6, "a")
    tick = lenient.tick(SIX)
    if on_refusal == "hold":
        assert tick.state is HourState.HELD
        assert f"quarantine {SHELF!r}" in tick.refused.reason
        assert published(repo) == {}
        lenient.release(SHELF)
        assert lenient.tick(SIX).state is HourState.PUBLISHED
    else:
        assert tick.state is HourState.PUBLISHED
        assert published(repo) == {path(6): "6a"}
        assert [kept.name for kept in lenient.quarantined()] == [SHELF, SHELF + ".2"]
        lenient.release(SHELF)
        repo.delete_branch(SHELF + ".2")
    lenient.tick(SEVEN)
    assert published(repo) == {path(5): "5a", path(5, "x.bad"): "5x.bad", path(6): "6a"}


COPIES = {
    "pick": lambda repo, on, refused: repo.cherry_pick(refused, on.name),
    "copy": lambda repo, on, refused: on.copy(refused, "input/", "elsewhere/"),
    "copy from above": lambda repo, on, refused: on.copy(f"{on.name}~1", "input/", "elsewhere/"),
    "link": lambda repo, on, refused: on.link_many(list(repo.ref(refused).entries("input/"))),
}


@pytest.mark.parametrize("way", COPIES)
def test_a_refused_hour_is_not_copied_onto_its_branch(repo, quarantining, way):
    stage(quarantining, 5, "a", "x.bad")
    ingest = quarantining.branch
    refused = ingest.commit("hour 05", metadata={"x": "1"})
    ingest.put("other", b"1")
    ingest.commit("on top of it")
    quarantining.tick(FIVE)
    (shelf,) = quarantining.quarantined()
    with pytest.raises(RunStateError, match=f"in quarantine: correct branch '{shelf.name}'"):
        COPIES[way](repo, ingest, shelf.commits[0])
    repo.ingestion(gates=()).tick(SIX)
    assert published(repo) == {"other": "1"}
    ingest.copy("main", "other", "another")
    repo.branch(shelf.name).delete(path(5, "x.bad"))
    quarantining.release(shelf.name)
    ingest.copy(refused.id, "input/", "elsewhere/")


def _through_a_branch(repo, on, refused):
    other = repo.create_branch("other", source=refused)
    other.put("y", b"1")
    other.commit("on top of it")
    on.copy(other, "input/", "input/")


RETURNED = {
    "reset": lambda repo, on, refused: on.reset(refused),
    "copy": lambda repo, on, refused: on.copy(refused, "input/", "input/"),
    "a branch of it": _through_a_branch,
}


@pytest.mark.parametrize("way", RETURNED)
def test_a_removed_hour_does_not_return_by_the_target(repo, quarantining, way):
    repo.protection.remove("main")
    stage(quarantining, 5, "a", "x.bad")
    quarantining.tick(FIVE)
    stage(quarantining, 6, "a")
    assert quarantining.tick(SIX).state is HourState.PUBLISHED
    before = published(repo)
    (shelf,) = quarantining.quarantined()
    with pytest.raises(RunStateError, match="in quarantine"):
        RETURNED[way](repo, repo.branch("main"), shelf.commits[0])
    assert published(repo) == before
    repo.branch("main").reset("main~1")
    assert published(repo) == {}


def test_the_removal_of_a_refused_hour_is_not_reverted(repo, quarantining):
    stage(quarantining, 5, "a", "x.bad")
    quarantining.tick(FIVE)
    (removal,) = off(repo)
    with pytest.raises(RunStateError, match=f"ingest release {SHELF}"):
        repo.revert(removal, "ingest")
    repo.ingestion().release(SHELF)
    with pytest.raises(NoChangesError):  # the release has brought the hour back
        repo.revert(removal, "ingest")


def test_a_repeated_tick_of_a_quarantined_hour_answers_the_same(repo, quarantining):
    stage(quarantining, 5, "x.bad")
    tick = quarantining.tick(FIVE)
    stage(quarantining, 6, "a")
    assert quarantining.tick(FIVE) == tick
    assert repo.ingestion().tick(FIVE) == tick
    assert published(repo) == {}


def test_somebody_who_reset_the_branch_has_dropped_the_hour(repo, holding, quarantining):
    stage(holding, 5, "x.bad")
    holding.tick(FIVE)
    repo.branch("ingest").reset("ingest~1")
    stage(quarantining, 6, "a")
    assert quarantining.tick(SIX).state is HourState.PUBLISHED
    assert published(repo) == {path(6): "6a"}
    assert quarantining.quarantined() == ()
    assert holding.status().held is None


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
