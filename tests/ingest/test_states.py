"""States are computed from branch, target and quarantines; metadata of others name nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from graveler.errors import InvalidInputError
from graveler.fsck.check import ProblemKind
from graveler.gates import checks
from graveler.ingest import HourKind, HourState, commit_hours
from tests.harness.judges import no_bad_file
from tests.ingest.histories import FIVE, SEVEN, SIX


def path(hour, name="a"):
    return f"input/2013/01/01/{hour:02}:00/{name}"


# -- metadata of others


@pytest.mark.parametrize("hour", ["2013/01/01/05:00", "next week", "é", "x" * 3000, "../x", ""])
@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_an_hour_in_the_metadata_of_a_user_names_no_branch(history, hour, policy):
    held = policy == "hold"
    history.play(f"as {policy}; in b=bad")
    pairs = {"hour": hour, "late": "1,2", "hours": "never"}
    history.ingestion.branch.commit("by hand", metadata=pairs)
    history.play(f"in p=6; tick 6 {'HELD' if held else 'PUBLISHED'}; in -b")
    history.play(f"tick 7 {'PUBLISHED' if held else 'EMPTY'}; has p=6")
    kept = history.ingestion.quarantined()
    assert len(kept) == (0 if held else 1)
    assert all(one.name.startswith("quarantine-2013-01-01T") for one in kept)
    assert all(len(name) < 40 for one in kept for name in one.hours)


def test_pairs_that_ticks_write_are_not_taken_from_a_caller(repo):
    ingestion = repo.ingestion()
    ingestion.branch.put(path(5), b"5")
    pairs = {"late": "1999-01-01T00:00Z", "hours": "1999-01-01T00:00Z", "hour": "1999", "who": "me"}
    metadata = ingestion.tick(FIVE, metadata=pairs).published.metadata
    assert metadata == {"hour": FIVE, "hours": "1", "who": "me", "graveler.ingest": "ingest"}
    ingestion.branch.put(path(6, "x.bad"), b"6")
    bad = repo.ingestion(gates=[no_bad_file], on_refusal="quarantine")
    (name,) = bad.tick(SIX).quarantined
    released = bad.release(name, gates=[], metadata=pairs).commit.metadata
    assert (released["hour"], released["hours"], released["who"]) == (SIX, "1", "me")
    assert "late" not in released


@pytest.mark.parametrize("hour", ["9999-12-31T23:00-05:00", "0001-01-01T00:00+05:00"])
def test_hours_behind_the_ends_of_time_are_refused(repo, hour):
    with pytest.raises(InvalidInputError, match="years 1 to 9999"):
        repo.ingestion().tick(hour)


@pytest.mark.parametrize("year", [1, 999, 9999])
def test_hours_of_any_year_have_four_digits(repo, year):
    ingestion = repo.ingestion()
    ingestion.branch.put(f"input/{year:04}/01/01/05:00/a", b"1")
    tick = ingestion.tick(f"{year:04}-01-01T05:00Z")
    assert tick.hour == f"{year:04}-01-01T05:00Z"
    assert tick.late == ()
    hours = commit_hours(repo.stores, tick.published)
    assert hours == {datetime(year, 1, 1, 5, tzinfo=UTC): HourKind.ON_TIME}


# -- states

STATES = {
    "whose branch was reset": "in b=bad; tick 5 HELD; rewind; hour 5 EMPTY; idle; in p=6; "
    "tick 6 PUBLISHED; tick 5 EMPTY",
    "whose branch was deleted": "in b=bad; tick 5 HELD; delete ingest; hour 5 EMPTY; in p=6; "
    "tick 6 PUBLISHED",
    "whose quarantine was deleted": "as quarantine; in b=bad; tick 5 QUARANTINED; give-up; "
    "hour 5 EMPTY; undo quarantine-2013-01-01T05-00; hour 5 QUARANTINED",
    "that the target lost": "in p=5; tick 5; undo; hour 5 COMMITTED; in q=6; tick 6; "
    "hour 5 PUBLISHED; main p=5 q=6",
    "whose release the target lost": "as quarantine; in b=bad; tick 5; force; undo; hour 5 EMPTY",
}


@pytest.mark.parametrize("told", STATES.values(), ids=STATES)
def test_an_hour_that_nothing_waits_for_does_not_wait(history, told):
    history.play(told)


# -- hours of a commit


def test_files_of_hours_before_and_after_the_tick_are_told_apart(repo, holding):
    for hour in (3, 5, 6):
        holding.branch.put(path(hour), b"1")
    first = holding.tick(FIVE).published
    kinds = {
        kind: [hour.hour for hour in commit_hours(repo.stores, first, kinds=[kind])]
        for kind in HourKind
    }
    assert kinds == {
        HourKind.ON_TIME: [5],
        HourKind.LATE: [3],
        HourKind.EARLY: [6],
        HourKind.DELETED: [],
    }
    assert first.metadata["hours"] == "3"
    assert (first.metadata["late"], first.metadata["early"]) == ("1", "1")
    holding.branch.delete(path(3))
    holding.branch.put("readme", b"no hour")
    second = holding.tick(SIX).published
    assert [hour.hour for hour in commit_hours(repo.stores, second)] == [6]
    deleted = commit_hours(repo.stores, second, kinds=["deleted"])
    assert [hour.hour for hour in deleted] == [3]
    assert (second.metadata["hours"], second.metadata["deleted"]) == ("1", "1")


def test_thousands_of_late_hours_are_all_named(repo, holding):
    start = datetime(2012, 1, 1, tzinfo=UTC)
    hours = [start + timedelta(hours=number) for number in range(1500)]
    for hour in hours:
        holding.branch.put(f"input/{hour:%Y/%m/%d/%H:%M}/a", b"1")
    tick = holding.tick(FIVE)
    assert len(tick.late) == 1000
    commit = tick.published
    assert commit.metadata["late"] == "1500"
    assert commit_hours(repo.stores, commit, kinds=["late"]) == dict.fromkeys(hours, HourKind.LATE)
    assert len(commit.message) < 100


def test_ticks_out_of_order_announce_every_hour(repo, holding):
    holding.branch.put(path(5), b"1")
    holding.branch.put(path(6), b"1")
    commit = holding.tick(SIX).published
    holding.branch.put(path(7), b"1")
    later = holding.tick(FIVE).published
    named = [hour.hour for one in (commit, later) for hour in commit_hours(repo.stores, one)]
    assert named == [5, 6, 5, 7]


# -- collection


def test_what_waits_longer_than_retention_is_published(history):
    """Hours of acknowledged files wait, and a rule of one commit collects all around."""
    history.play("in c=4; tick 4; in b=bad")
    for at in (5, 6, 7, 8):
        history.play(f"in c={at} {at}=1; O{at} output={at}; tick {at} HELD; collect")
    history.play("again; hour 6 HELD")
    assert len(history.ingestion.status().pending) == 4
    history.play("in -b; tick 9 PUBLISHED; has c=8 output=8")


def test_what_waits_in_quarantine_is_released_after_retention(history):
    history.play("as quarantine; in b=bad; tick 5")
    for at in (6, 7, 8):
        history.play(f"in p={at}; tick {at}; O{at} p=corrected-{at}; in p=again; collect")
    history.play("tick 9; collect; again; force source-wins; force source-wins; shelves")
    history.play("main p=again b=bad")


def test_fsck_names_a_tree_that_waiting_hours_need(history):
    repo = history.play("in b=bad; tick 5; in c=bad; tick 6").repo
    first = history.ingestion.pending()[0].commit
    repo.stores.objects.delete(repo.stores.ranges.key(bytes.fromhex(first.metarange)))
    (problem,) = repo.fsck().problems
    assert problem.kind is ProblemKind.METARANGE
    assert "ingest" in problem.refs


# -- gates


def test_a_gate_of_hours_accepts_the_late_files_of_a_tick(repo):
    gate = checks.only_within("input/{hour}/")
    repo.gates.require("main", gate)
    ingestion = repo.ingestion()
    for hour in (3, 5, 6):
        ingestion.branch.put(path(hour), b"1")
    assert ingestion.tick(FIVE).state is HourState.PUBLISHED
    ingestion.branch.put("elsewhere", b"1")
    tick = ingestion.tick(SIX)
    assert tick.state is HourState.HELD
    assert "elsewhere" in tick.refused.reason
    ingestion.branch.delete("elsewhere")
    ingestion.branch.delete(path(3))
    assert ingestion.tick(SEVEN).state is HourState.HELD  # a deletion is no file of the hour
