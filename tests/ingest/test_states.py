"""States are computed from branch, target and quarantines; metadata of others name nothing."""

from datetime import UTC, datetime, timedelta

import pytest

from graveler.errors import ExpiredError, InvalidInputError
from graveler.fsck.check import ProblemKind
from graveler.gates import checks
from graveler.ingest import HourKind, HourState, commit_hours
from tests.harness.gc_lakes import collect
from tests.harness.judges import no_bad_file
from tests.harness.worlds import tree

FIVE = "2013-01-01T05:00Z"
SIX = "2013-01-01T06:00Z"
SEVEN = "2013-01-01T07:00Z"
SHELF = "quarantine-2013-01-01T05-00"


def path(hour, name="a"):
    return f"input/2013/01/01/{hour:02}:00/{name}"


def published(repo):
    return {key: text for key, text in tree(repo.ref("main")).items() if key != "settled"}


# -- metadata of others


@pytest.mark.parametrize("hour", ["2013/01/01/05:00", "next week", "é", "x" * 3000, "../x", ""])
@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_an_hour_in_the_metadata_of_a_user_names_no_branch(repo, hour, policy):
    ingestion = repo.ingestion(gates=[no_bad_file], on_refusal=policy)
    ingestion.branch.put(path(5, "x.bad"), b"5")
    ingestion.branch.commit("by hand", metadata={"hour": hour, "late": "1,2", "hours": "never"})
    ingestion.branch.put(path(6), b"6")
    first = ingestion.tick(SIX)
    ingestion.branch.delete(path(5, "x.bad"))
    second = ingestion.tick(SEVEN)
    states = [tick.state for tick in (first, second)]
    if policy == "hold":
        assert states == [HourState.HELD, HourState.PUBLISHED]
    else:
        assert states == [HourState.PUBLISHED, HourState.EMPTY]
        (kept,) = ingestion.quarantined()
        assert kept.name.startswith("quarantine-2013-01-01T")
        ingestion.release(kept.name, gates=[])
    assert path(6) in published(repo)
    assert all(len(name) < 40 for kept in ingestion.quarantined() for name in kept.hours)


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


@pytest.mark.parametrize(
    "hour",
    [
        "9999-12-31T23:00-05:00",
        "0001-01-01T00:00+05:00",
        datetime(9999, 12, 31, 23, tzinfo=UTC).replace(tzinfo=None).astimezone(UTC),
    ],
)
def test_hours_at_the_ends_of_time_are_refused_or_work(repo, hour):
    try:
        assert repo.ingestion().tick(hour).state is HourState.EMPTY
    except InvalidInputError as error:
        assert "years 1 to 9999" in str(error)  # noqa: PT017 - both are right


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


def test_a_held_hour_that_was_reset_away_waits_no_longer(repo, holding):
    holding.branch.put(path(5, "x.bad"), b"5")
    assert holding.tick(FIVE).state is HourState.HELD
    repo.branch("ingest").reset("ingest~1")
    assert holding.hour(FIVE).state is HourState.EMPTY
    assert holding.status().held is None
    assert holding.pending() == ()
    holding.branch.put(path(6), b"6")
    assert holding.tick(SIX).state is HourState.PUBLISHED
    assert holding.tick(FIVE).state is HourState.EMPTY


def test_a_held_hour_whose_branch_is_deleted_waits_no_longer(repo, holding):
    holding.branch.put(path(5, "x.bad"), b"5")
    assert holding.tick(FIVE).state is HourState.HELD
    repo.delete_branch("ingest")
    assert holding.hour(FIVE).state is HourState.EMPTY
    holding.branch.put(path(6), b"6")
    assert holding.tick(SIX).state is HourState.PUBLISHED


def test_an_hour_whose_quarantine_is_deleted_waits_no_longer(repo, quarantining):
    quarantining.branch.put(path(5, "x.bad"), b"5")
    assert quarantining.tick(FIVE).state is HourState.QUARANTINED
    repo.delete_branch(SHELF)
    hour = quarantining.hour(FIVE)
    assert (hour.state, hour.quarantined, hour.refused) == (HourState.EMPTY, (), None)
    repo.undo(SHELF)
    assert quarantining.hour(FIVE).state is HourState.QUARANTINED


def test_an_hour_that_the_target_lost_is_published_again(repo, holding):
    holding.branch.put(path(5), b"5")
    holding.tick(FIVE)
    repo.protection.remove("main")
    repo.undo("main")
    assert holding.hour(FIVE).state is HourState.COMMITTED
    holding.branch.put(path(6), b"6")
    holding.tick(SIX)
    hour = holding.hour(FIVE)
    assert hour.state is HourState.PUBLISHED
    assert hour.published.id in {one.id for one in repo.log("main")}


def test_a_release_that_the_target_lost_is_not_published(repo, quarantining):
    quarantining.branch.put(path(5, "x.bad"), b"5")
    quarantining.tick(FIVE)
    quarantining.release(SHELF, gates=[])
    repo.protection.remove("main")
    repo.undo("main")
    assert quarantining.hour(FIVE).state is not HourState.PUBLISHED


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


def test_hours_behind_retention_are_an_error(repo, holding):
    commits = []
    for hour in (4, 5, 6):
        holding.branch.put(path(hour), b"1")
        commits.append(holding.tick(f"2013-01-01T{hour:02}:00Z").published)
    repo.gc.keep(count=1)
    collect(repo)
    with pytest.raises(ExpiredError):
        commit_hours(repo.stores, commits[0])


# -- collection


def test_what_waits_longer_than_retention_is_published(world, repo, holding):
    """Ten days of acknowledged files wait, and a rule of one commit collects all around."""
    repo.gc.keep(count=1)
    holding.branch.put(path(4), b"4")
    holding.tick("2013-01-01T04:00Z")
    for hour in (5, 6, 7, 8):
        holding.branch.put(path(hour, "x.bad" if hour == 5 else "a"), b"%d" % hour)
        holding.branch.put("changing", b"%d" % hour)
        with repo.run(f"output {hour}") as run:
            run.put("output", b"%d" % hour)
        assert holding.tick(f"2013-01-01T{hour:02}:00Z").state is HourState.HELD
        collect(repo)
        assert repo.fsck(objects="checksum").sound
    holding = world.repo(scripted=False).ingestion(gates=[no_bad_file])  # with empty caches
    status = holding.status()
    assert len(status.pending) == 4
    assert holding.hour(SIX).state is HourState.HELD
    holding.branch.delete(path(5, "x.bad"))
    assert holding.tick("2013-01-01T09:00Z").state is HourState.PUBLISHED
    assert published(repo)["changing"] == "8"
    assert published(repo)["output"] == "8"


def test_what_waits_in_quarantine_is_released_after_retention(world, repo, quarantining):
    repo.gc.keep(count=1)
    quarantining.branch.put(path(5, "x.bad"), b"5")
    quarantining.tick(FIVE)
    for hour in (6, 7, 8):
        quarantining.branch.put(path(hour), b"1")
        quarantining.tick(f"2013-01-01T{hour:02}:00Z")
        with repo.run(f"output {hour}") as run:
            run.put(path(6), b"corrected %d" % hour)
        quarantining.branch.put(path(6), b"again")
        collect(repo)
    quarantining.tick("2013-01-01T09:00Z")
    collect(repo)
    assert repo.fsck(objects="checksum").sound
    assert len(quarantining.quarantined()) == 2
    quarantining = world.repo(scripted=False).ingestion()  # with empty caches
    for kept in quarantining.quarantined():
        quarantining.release(kept.name, gates=[], strategy="source-wins")
    assert published(repo)[path(6)] == "again"
    assert published(repo)[path(5, "x.bad")] == "5"


def test_fsck_names_a_tree_that_waiting_hours_need(repo, holding):
    for hour in (5, 6):
        holding.branch.put(path(hour, "x.bad"), b"%d" % hour)
        holding.tick(f"2013-01-01T{hour:02}:00Z")
    first = holding.pending()[0].commit
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
