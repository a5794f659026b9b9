"""Hours are committed, judged and published. Later files wait for the next hour."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from graveler.errors import FencedError, InvalidInputError, ProtectedBranchError
from graveler.ingest import HourState, commit_hours, file_hours
from graveler.repository.commits import sealing
from graveler.testing.faults import unavailable
from tests.harness.judges import no_bad_file
from tests.harness.worlds import tree

FIVE = "2013-01-01T05:00Z"
SIX = "2013-01-01T06:00Z"
SEVEN = "2013-01-01T07:00Z"


def path(hour, name="a"):
    return f"input/2013/01/01/{hour:02}:00/{name}"


def published(repo):
    return {key: text for key, text in tree(repo.ref("main")).items() if key != "settled"}


def publishing(repo):
    """Return the commits that brought changes of the ingestion branch to main, newest first."""
    return [one for one in repo.log("main", first_parent=True) if "graveler.ingest" in one.metadata]


def test_a_tick_publishes_acknowledged_files_not_later_ones(repo, holding):
    holding.branch.put(path(5), b"5")
    tick = holding.tick(FIVE)
    holding.branch.put(path(6), b"6")
    assert published(repo) == {path(5): "5"}
    assert (tick.hour, tick.state, tick.refused) == (FIVE, HourState.PUBLISHED, None)
    assert tick.published == repo.commit("main")
    assert tick.commit == repo.commit("ingest")
    assert [change.path for change in holding.branch.uncommitted()] == [path(6)]
    assert holding.status().staged == 1
    holding.tick(SIX)
    assert published(repo) == {path(5): "5", path(6): "6"}
    assert len(publishing(repo)) == 2


def test_the_commits_name_their_hour_and_the_callers_metadata(repo, holding):
    holding.branch.put(path(5), b"5")
    target = repo.commit("main").id
    tick = holding.tick(FIVE, metadata={"orchestrator": "cron"})
    assert tick.commit.metadata == {
        "hour": FIVE,
        "orchestrator": "cron",
        "graveler.target": target,
        "graveler.ingest": "ingest",
    }
    assert tick.published.metadata == {
        "hour": FIVE,
        "hours": "1",
        "orchestrator": "cron",
        "graveler.ingest": "ingest",
        "graveler.gates": "no_bad_file",
    }
    assert tick.published.message == f"ingest {FIVE}"


def test_a_repeated_tick_answers_the_same_and_commits_nothing(repo, holding):
    holding.branch.put(path(5), b"5")
    first = holding.tick(FIVE)
    holding.branch.put(path(6), b"6")
    again = repo.ingestion().tick(FIVE, metadata={"try": "2"})
    assert again == first
    assert published(repo) == {path(5): "5"}
    assert holding.status().staged == 1


def test_an_hour_in_which_nothing_came_is_over_all_the_same(repo, holding):
    tick = holding.tick(FIVE)
    holding.branch.put(path(5), b"5")
    assert holding.tick(FIVE) == tick
    assert (tick.state, tick.commit, tick.published) == (HourState.EMPTY, None, None)
    assert published(repo) == {}
    assert holding.tick(SIX).late == (FIVE,)
    assert published(repo) == {path(5): "5"}


def test_late_files_are_published_with_the_hour_that_took_them(repo, holding):
    holding.branch.put(path(6), b"6")
    assert holding.tick(SIX).late == ()
    holding.branch.put(path(5), b"late")
    holding.branch.put(path(4), b"later still")
    holding.branch.put(path(7), b"7")
    tick = holding.tick(SEVEN)
    assert tick.late == ("2013-01-01T04:00Z", FIVE)
    assert tick.published.metadata["late"] == "2"
    assert holding.hour(SEVEN).late == tick.late


def test_a_follower_of_commits_learns_every_hour_of_each(repo, holding):
    holding.branch.put(path(5, "x.bad"), b"")
    assert holding.tick(FIVE).state is HourState.HELD
    holding.branch.delete(path(5, "x.bad"))
    holding.branch.put(path(5), b"mended")
    holding.branch.put(path(3), b"late")
    found = holding.tick(SEVEN).published
    hours = commit_hours(repo.stores, found)
    assert [f"{hour:%H:%M}" for hour in hours] == ["03:00", "05:00", "07:00"]


@pytest.mark.parametrize(
    ("metadata", "hours"),
    [
        ({}, []),
        ({"hour": "soon", "late": "", "hours": "6"}, []),
        ({"hour": "2013-01-01T05:00Z"}, [5]),
        ({"hour": "2013-01-01T05:00"}, [5]),
        ({"hour": "2013-01-01T06:00+01:00"}, [5]),
        ({"hour": "2013/01/01/05:00"}, [5]),
        ({"hour": "2013/01/01/06:00/", "late": "2013/01/01/05:00,2013/13/01/05:00"}, [5, 6]),
        ({"hour": "2013-01-01T06:00Z", "hours": "2013-01-01T05:00Z, 2013-01-01T06:00Z"}, [5, 6]),
        ({"hour": "2013-01-01T06:00Z", "late": "2013-01-01T02:00Z,never"}, [2, 6]),
    ],
)
def test_file_hours(metadata, hours):
    assert file_hours(metadata) == tuple(datetime(2013, 1, 1, hour, tzinfo=UTC) for hour in hours)


def test_a_deletion_in_an_old_hour_is_no_late_file(holding):
    holding.branch.put(path(5), b"5")
    holding.tick(FIVE)
    holding.branch.delete(path(5))
    assert holding.tick(SIX).late == ()


def test_paths_without_an_hour_are_published_too(repo, holding):
    holding.branch.put("input/2013/13/41/05:00/no-date", b"1")
    holding.branch.put("readme", b"2")
    assert holding.tick(FIVE).late == ()
    assert published(repo) == {"input/2013/13/41/05:00/no-date": "1", "readme": "2"}


@pytest.mark.parametrize(
    "hour",
    [
        datetime(2013, 1, 1, 5, 0, 59, tzinfo=UTC),
        datetime(2013, 1, 1, 7, tzinfo=timezone(timedelta(hours=2))),
        "2013-01-01T05:00",
        "2013-01-01T05:00Z",
        "2013-01-01T07:00+02:00",
        "2013-01-01 05",
    ],
)
def test_an_hour_may_be_given_in_many_ways(holding, hour):
    assert holding.tick(hour).hour == FIVE
    assert holding.hour(hour).hour == FIVE


def test_an_hour_that_is_no_time_is_refused(holding):
    with pytest.raises(InvalidInputError, match="'five' is no time"):
        holding.tick("five")


def test_a_tick_without_an_hour_is_the_last_full_one(holding):
    assert holding.tick().hour == "2012-12-31T23:00Z"


def test_an_hour_of_which_there_was_no_tick_is_not_known(holding):
    assert holding.hour(FIVE) is None
    assert holding.status().pending == ()


def test_a_policy_or_a_branch_that_cannot_be_is_refused(repo):
    with pytest.raises(InvalidInputError, match="on_refusal='drop'"):
        repo.ingestion(on_refusal="drop")
    with pytest.raises(InvalidInputError, match="choose another"):
        repo.ingestion("main")
    with pytest.raises(InvalidInputError, match=r"begin with 'graveler\.'"):
        repo.ingestion().tick(FIVE, metadata={"graveler.run": "x"})


def test_a_tick_that_is_refused_makes_no_branch(repo):
    with pytest.raises(InvalidInputError):
        repo.ingestion().tick("five")
    with pytest.raises(InvalidInputError):
        repo.ingestion().tick(FIVE, metadata={"graveler.run": "x"})
    assert [branch.name for branch in repo.branches(hidden=True)] == ["main"]


def test_hours_that_wait_are_published_one_by_one_in_their_order(repo, holding):
    """The state after a scheduler died between the commits and the publishes."""
    for hour in (5, 6):
        holding.branch.put(path(hour), b"1")
        repo.protection.add("main", ["merge"])
        with pytest.raises(ProtectedBranchError):
            holding.tick(f"2013-01-01T{hour:02}:00Z")
        repo.protection.remove("main")
    assert [hour.hour for hour in holding.pending()] == [FIVE, SIX]
    holding.branch.put(path(7), b"1")
    holding.tick(SEVEN)
    assert [one.metadata["hour"] for one in publishing(repo)] == [SEVEN, SIX, FIVE]
    assert holding.hour(FIVE).state is HourState.PUBLISHED
    assert holding.hour(FIVE).published == publishing(repo)[2]


def test_a_users_commit_is_published_with_the_next_tick(repo, holding):
    holding.branch.put(path(5), b"5")
    holding.branch.commit("by hand", metadata={"who": "me"})
    tick = holding.tick(SIX)
    assert tick.state is HourState.EMPTY
    assert published(repo) == {path(5): "5"}
    assert publishing(repo)[0].metadata["who"] == "me"


def test_a_branch_that_somebody_merged_by_hand_is_published(repo, holding):
    holding.branch.put(path(5), b"5")
    repo.protection.add("main", ["merge"])
    with pytest.raises(ProtectedBranchError):
        holding.tick(FIVE)
    repo.protection.remove("main")
    merged = repo.merge("ingest", "main").commit
    tick = holding.tick(FIVE)
    assert (tick.state, tick.published) == (HourState.PUBLISHED, merged)
    assert publishing(repo) == []


def test_two_ingestions_of_one_repository_do_not_know_each_other(repo):
    first, second = repo.ingestion("web"), repo.ingestion("mobile")
    first.branch.put("web/1", b"1")
    second.branch.put("mobile/1", b"2")
    assert first.tick(FIVE).state is HourState.PUBLISHED
    assert published(repo) == {"web/1": "1"}
    assert second.tick(FIVE).state is HourState.PUBLISHED
    assert published(repo) == {"web/1": "1", "mobile/1": "2"}


def test_an_ingestion_need_not_go_into_main(repo):
    repo.create_branch("staging")
    ingestion = repo.ingestion(into="staging")
    ingestion.branch.put(path(5), b"5")
    ingestion.tick(FIVE)
    assert path(5) in tree(repo.ref("staging"))
    assert published(repo) == {}


def test_a_branch_far_behind_is_brought_up_to_its_target(repo, holding, monkeypatch):
    monkeypatch.setattr("graveler.ingest.unpublished.FAR", 5)
    repo.protection.remove("main")
    for hour in range(5, 20):
        holding.branch.put(path(hour), b"1")
        repo.branch("main").put("output", str(hour).encode())
        repo.branch("main").commit("output")
        holding.tick(f"2013-01-01T{hour:02}:00Z")
    ahead = repo.commit("main").generation - repo.commit("ingest").generation
    assert ahead <= 5 + 3
    assert sorted(published(repo)) == [path(hour) for hour in range(5, 20)] + ["output"]
    assert len(publishing(repo)) == 15


@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_a_tick_makes_as_many_calls_after_many_hours_as_few(world, policy):
    calls = []
    for hour in range(40):
        repo = world.repo()  # a new process with empty caches
        ingestion = repo.ingestion(gates=[no_bad_file], on_refusal=policy)
        day, hour_of_day = divmod(hour, 24)
        name = f"2013-01-{day + 1:02}T{hour_of_day:02}:00Z"
        ingestion.branch.put(f"input/{hour}", b"%d" % hour)
        world.script.arm(0, unavailable)
        assert ingestion.tick(name).state is HourState.PUBLISHED
        calls.append(len(world.script.calls))
    assert max(calls[20:]) <= calls[3] + 5, calls  # the number of ranges varies


def test_a_rollback_beside_a_tick_is_found_by_the_next_one(repo, holding, monkeypatch):
    holding.branch.put(path(5), b"5")
    published_by = holding.tick(FIVE).published
    holding.branch.put(path(6), b"6")
    commit = sealing.commit

    def roll_back_first(*given, **options):
        monkeypatch.undo()
        repo.revert(published_by.id, parent=1)
        return commit(*given, **options)

    monkeypatch.setattr(sealing, "commit", roll_back_first)
    holding.tick(SIX)
    for number in range(3):  # commits without a tick, which make the branch's history longer
        holding.branch.put("other", b"%d" % number)
        holding.branch.commit("by hand")
    holding.branch.put(path(5), b"5")
    assert holding.tick(SEVEN).state is HourState.PUBLISHED
    assert published(repo) == {path(5): "5", path(6): "6", "other": "2"}


@pytest.mark.parametrize("body", [b"5", b"mended"])
def test_an_hour_that_was_rolled_back_can_be_written_again(repo, holding, body):
    holding.branch.put(path(5), b"5")
    holding.branch.put(path(5, "b"), b"b")
    published_by = holding.tick(FIVE).published
    repo.revert(published_by.id, parent=1)
    assert published(repo) == {}
    holding.branch.put(path(5), body)
    assert holding.tick(SIX).state is HourState.PUBLISHED
    assert published(repo) == {path(5): body.decode()}
    holding.branch.put(path(7), b"7")
    holding.tick(SEVEN)
    assert published(repo) == {path(5): body.decode(), path(7): "7"}
    taken = [one for one in repo.log("ingest") if "graveler.caught-up" in one.metadata]
    assert len(taken) == 2  # one of them began the branch


def test_a_hole_left_by_a_rollback_stays_until_it_is_written(repo, holding):
    holding.branch.put(path(5), b"5")
    repo.revert(holding.tick(FIVE).published.id, parent=1)
    holding.branch.put(path(6), b"6")
    holding.tick(SIX)
    assert published(repo) == {path(6): "6"}
    assert tree(repo.branch("ingest")) == tree(repo.ref("main"))


def test_the_branch_of_a_run_is_no_target(repo):
    run = repo.runs.open("hour 05")
    ingestion = repo.ingestion("feed", into=run.branch)
    ingestion.branch.put("a/1", b"1")
    with pytest.raises(FencedError, match=f"{run.branch}' belongs to a run"):
        ingestion.tick()
    assert not repo.branch(run.branch).exists("a/1")
