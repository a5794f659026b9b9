"""Hours are committed, judged and published. Later files wait for the next hour."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from graveler.errors import FencedError, InvalidInputError
from graveler.ingest import HourState, file_hours
from graveler.repository.commits import sealing
from graveler.testing.faults import unavailable
from tests.harness.judges import no_bad_file
from tests.harness.worlds import tree
from tests.ingest.histories import FIVE, SEVEN, SIX


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


def test_an_hour_is_empty_if_its_files_were_of_an_earlier_tick(world, holding):
    """This process staged the file, and finds it in a commit of an earlier hour."""
    holding.branch.put(path(5), b"5")
    other = world.repo(scripted=False).ingestion(gates=[no_bad_file])
    assert other.tick(FIVE).state is HourState.PUBLISHED
    tick = holding.tick(SIX)
    assert (tick.state, tick.commit, tick.published) == (HourState.EMPTY, None, None)
    assert holding.hour(SIX).state is HourState.EMPTY


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


TICKS = {
    "an empty one": "tick 5 EMPTY; in p=1; tick 5 EMPTY; main; tick 6 PUBLISHED; main p=1",
    "of what a user committed": "in p=5; commit 5; tick 6 EMPTY; main p=5",
    "above a hole": "in p=5; tick 5; mark it; revert it; in q=6; tick 6; main q=6; ingest q=6",
}


@pytest.mark.parametrize("told", TICKS.values(), ids=TICKS)
def test_an_hour_is_over_after_its_tick(history, told):
    history.play(told)


def test_late_files_are_published_with_the_hour_that_took_them(repo, holding):
    holding.branch.put(path(6), b"6")
    assert holding.tick(SIX).late == ()
    for late in (path(5), path(4), path(7), "input/2013/13/41/05:00/no-date", "readme"):
        holding.branch.put(late, b"1")
    tick = holding.tick(SEVEN)
    assert tick.late == ("2013-01-01T04:00Z", FIVE)
    assert tick.published.metadata["late"] == "2"
    assert holding.hour(SEVEN).late == tick.late
    assert len(published(repo)) == 6
    holding.branch.delete(path(5))
    assert holding.tick("2013-01-01T08:00Z").late == ()


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


WAYS = [
    datetime(2013, 1, 1, 5, 0, 59, tzinfo=UTC),
    datetime(2013, 1, 1, 7, tzinfo=timezone(timedelta(hours=2))),
    *("2013-01-01T05:00", "2013-01-01T05:00Z", "2013-01-01T07:00+02:00", "2013-01-01 05"),
]


def test_an_hour_may_be_given_in_many_ways(holding):
    assert holding.hour(FIVE) is None
    assert holding.status().pending == ()
    assert holding.tick().hour == "2012-12-31T23:00Z"  # the last full one
    for hour in WAYS:
        assert (holding.tick(hour).hour, holding.hour(hour).hour) == (FIVE, FIVE)


REFUSED = {
    "'five' is no time": lambda repo: repo.ingestion().tick("five"),
    r"begin with 'graveler\.'": lambda repo: repo.ingestion().tick(
        FIVE, metadata={"graveler.run": "x"}
    ),
    "on_refusal='drop'": lambda repo: repo.ingestion(on_refusal="drop"),
    "on_conflict='mine'": lambda repo: repo.ingestion(on_conflict="mine"),
    "choose another": lambda repo: repo.ingestion("main"),
}


@pytest.mark.parametrize("said", REFUSED)
def test_what_cannot_be_is_refused_and_makes_no_branch(repo, said):
    with pytest.raises(InvalidInputError, match=said):
        REFUSED[said](repo)
    assert [branch.name for branch in repo.branches(hidden=True)] == ["main"]


def test_hours_that_wait_are_published_one_by_one_in_their_order(history):
    """The state after a scheduler died between the commits and the publishes."""
    history.repo.protection.add("main", ["merge"])
    history.play("in p=5; tick 5 ! ProtectedBranchError; in q=6; tick 6 ! ProtectedBranchError")
    assert [hour.hour for hour in history.ingestion.pending()] == [FIVE, SIX]
    history.repo.protection.remove("main")
    history.play("in r=7; tick 7 PUBLISHED; main p=5 q=6 r=7; hour 5 PUBLISHED")
    made = publishing(history.repo)
    assert [one.metadata["hour"] for one in made] == [SEVEN, SIX, FIVE]
    assert history.ingestion.hour(FIVE).published == made[2]


def test_a_branch_that_somebody_merged_by_hand_is_published(history):
    history.play("in p=5; commit 5; it: merge ingest; tick 5 EMPTY; main p=5; hour 5 EMPTY")
    assert publishing(history.repo) == []


def test_two_ingestions_have_branches_and_targets_of_their_own(repo):
    repo.create_branch("staging")
    first, second = repo.ingestion("web"), repo.ingestion("mobile", into="staging")
    first.branch.put("web/1", b"1")
    second.branch.put("mobile/1", b"2")
    assert first.tick(FIVE).state is HourState.PUBLISHED
    assert published(repo) == {"web/1": "1"}
    assert second.tick(FIVE).state is HourState.PUBLISHED
    assert published(repo) == {"web/1": "1"}
    assert tree(repo.ref("staging"))["mobile/1"] == "2"


def test_a_branch_far_behind_is_brought_up_to_its_target(history, monkeypatch):
    monkeypatch.setattr("graveler.ingest.unpublished.FAR", 5)
    for at in range(5, 20):
        history.play(f"in {at}=1; user output={at}; tick {at}")
    repo = history.play("main output=19 " + " ".join(f"{at}=1" for at in range(5, 20))).repo
    assert repo.commit("main").generation - repo.commit("ingest").generation <= 5 + 3
    assert len(publishing(repo)) == 15


@pytest.mark.parametrize("policy", ["hold", "quarantine"])
def test_a_tick_makes_as_many_calls_after_many_hours_as_few(world, policy):
    calls = []
    for hour in range(26):
        repo = world.repo()  # a new process with empty caches
        ingestion = repo.ingestion(gates=[no_bad_file], on_refusal=policy)
        day, hour_of_day = divmod(hour, 24)
        name = f"2013-01-{day + 1:02}T{hour_of_day:02}:00Z"
        ingestion.branch.put(f"input/{hour}", b"%d" % hour)
        world.script.arm(0, unavailable)
        assert ingestion.tick(name).state is HourState.PUBLISHED
        calls.append(len(world.script.calls))
    assert max(calls[16:]) <= calls[3] + 5, calls  # the number of ranges varies


def test_a_rollback_beside_a_tick_is_found_by_the_next_one(history, monkeypatch):
    history.play("in p=5; tick 5; mark it; in q=6")
    commit = sealing.commit

    def roll_back_first(*given, **options):
        monkeypatch.undo()
        history.play("revert it")
        return commit(*given, **options)

    monkeypatch.setattr(sealing, "commit", roll_back_first)
    # commits without a tick make the branch's history longer
    history.play("tick 6; in o=0; commit 6; in o=1; commit 6; in o=2; commit 6; in p=5")
    history.play("tick 7 PUBLISHED; main p=5 q=6 o=2")


@pytest.mark.parametrize("body", ["5", "mended"])
def test_an_hour_that_was_rolled_back_can_be_written_again(history, body):
    history.play("in p=5 q=b; tick 5; mark it; revert it; main")
    history.play(f"in p={body}; tick 6 PUBLISHED; main p={body}; in r=7; tick 7; main p={body} r=7")
    taken = [one for one in history.repo.log("ingest") if "graveler.caught-up" in one.metadata]
    assert len(taken) == 2  # one of them began the branch


def test_the_branch_of_a_run_is_no_target(repo):
    run = repo.runs.open("hour 05")
    ingestion = repo.ingestion("feed", into=run.branch)
    ingestion.branch.put("a/1", b"1")
    with pytest.raises(FencedError, match=f"{run.branch}' belongs to a run"):
        ingestion.tick()
    assert not repo.branch(run.branch).exists("a/1")
