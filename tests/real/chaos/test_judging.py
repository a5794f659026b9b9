"""The judge of chaos finds each kind of error."""

from datetime import UTC, datetime, timedelta

import pytest

import graveler
from tests.real.chaos.faults import say, write_plan
from tests.real.chaos.hours import GARBAGE, STEPS, expected, folder, hours, run_step, shared
from tests.real.chaos.judging import Judge, state_of_main

HOURS = hours(datetime(2013, 1, 1, tzinfo=UTC), 3)


@pytest.fixture
def notes(tmp_path):
    write_plan(tmp_path, [])
    return tmp_path


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("hours")


def publish(repo, hour, *, change=lambda run: None):
    with repo.run(f"hours {hour}", metadata={"hour": f"{hour:%Y-%m-%dT%H:%MZ}"}) as run:
        for name in STEPS:
            run_step(name, run, hour, lambda step: None)
        change(run)


def judged(repo, notes, succeeded=()):
    told = {hour: hour in succeeded for hour in HOURS}
    return Judge(repo, HOURS, notes / "said").judge(told)


def test_the_steps_of_an_hour_make_what_is_expected_of_it(repo):
    publish(repo, HOURS[0])
    view = repo.ref("main")
    there = {entry.path: view.get(entry.path) for entry in view.entries("")}
    assert there == expected(HOURS[0]) | shared(HOURS[0])
    assert state_of_main(repo, HOURS[0]) == "whole"
    assert state_of_main(repo, HOURS[1]) == "unchanged"


def test_whole_hours_are_as_they_must_be(repo, notes):
    publish(repo, HOURS[0])
    publish(repo, HOURS[2])
    verdict = judged(repo, notes, HOURS[::2])
    assert verdict.wrong == []
    assert verdict.figures["rows on main, each once"] == 40
    assert verdict.figures["moves of main"] == 2


def test_the_shared_file_stays_as_long_as_one_hour(repo, notes):
    for hour in HOURS:
        publish(repo, hour)
    repo.undo("main")
    for hour in HOURS[:2]:
        repo.runs.rollback(f"hours {hour}")
    assert judged(repo, notes).wrong == []
    assert [*repo.ref("main").entries("")] == []


@pytest.mark.parametrize("there", [True, False])
def test_a_shared_file_beside_no_hour_or_a_lack_of_it_is_seen(repo, notes, there):
    path, body = next(iter(shared(HOURS[0]).items()))
    if there:
        repo.branch("main").put(path, body)
        repo.branch("main").commit("no hour has it")
    else:
        publish(repo, HOURS[0], change=lambda run: run.delete(path))
    wrong = judged(repo, notes).wrong
    assert any(f"{path} is there: {there}" in line for line in wrong)
    assert any(f"main {'has' if there else 'lacks'} {path}" in line for line in wrong)


def test_an_hour_announced_that_main_lacks_is_seen(repo, notes):
    publish(repo, HOURS[0])
    assert any("the publisher succeeded" in line for line in judged(repo, notes, HOURS[:2]).wrong)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda run: run.delete(folder("left", HOURS[0]) + "part-0.csv"), "main lacks left/"),
        (lambda run: run.put(folder("left", HOURS[0]) + "part-0.csv", b"x,1\n"), "other bytes"),
        (lambda run: run.put(f"left/{GARBAGE}", b""), "which no published hour holds"),
        (lambda run: run.put(folder("input", HOURS[1]) + "part-0.csv", b""), "also changed"),
    ],
)
def test_an_hour_that_is_not_whole_is_seen(repo, notes, change, said):
    publish(repo, HOURS[0], change=change)
    assert any(said in line for line in judged(repo, notes).wrong)


def test_an_hour_that_was_not_whole_for_a_while_is_seen(repo, notes):
    path = folder("left", HOURS[0]) + "part-0.csv"
    publish(repo, HOURS[0], change=lambda run: run.delete(path))
    publish(repo, HOURS[0])
    wrong = judged(repo, notes).wrong
    assert len(wrong) == 1
    assert "left 2013-01-01 00:00:00+00:00 with" in wrong[0]


def test_rows_that_are_there_twice_are_seen(repo, notes):
    again = expected(HOURS[0])[folder("curated", HOURS[0]) + "part-0.csv"]
    path = folder("curated", HOURS[0]) + "part-1.csv"
    publish(repo, HOURS[0], change=lambda run: run.put(path, again))
    assert any("there twice" in line for line in judged(repo, notes).wrong)


def test_garbage_on_a_parked_branch_is_seen(repo, notes):
    run = repo.runs.open("hours x")
    run.put(f"zombies/{GARBAGE}", b"")
    run.commit("of a writer whose time is over")
    run.park()
    assert any("which no step has finished" in line for line in judged(repo, notes).wrong)


def test_a_write_that_succeeds_after_its_time_is_seen(repo, notes):
    say(notes, zombie="x", tried="run.put", dead=True, refused="fenced")
    say(notes, zombie="x", tried="step.put", dead=True, refused="")
    say(notes, zombie="x", tried="step.put", dead=False, refused="")
    verdict = judged(repo, notes)
    assert verdict.wrong == ["x: step.put after its time succeeded"]
    assert verdict.figures["their writes after their time"] == 2


def test_orphans_are_reaped_by_lease_and_time_to_live(repo, notes):
    repo.runs.open("hours a", lease=timedelta(minutes=1)).put("a", b"staged")
    repo.runs.open("hours b").park("failed")
    verdict = judged(repo, notes)
    assert verdict.wrong == []
    assert verdict.figures["states at rest"] == {"OPEN": 1, "PARKED": 1}
    assert verdict.figures["orphans set aside when their lease was over"] == 1
    assert verdict.figures["parked runs reaped when their time was over"] == 2
    assert verdict.figures["states after the reaper"] == {"REAPED": 2}


def test_a_branch_that_nobody_reaps_is_seen(repo, notes):
    repo.create_branch("forgotten")
    assert any("branches that are left" in line for line in judged(repo, notes).wrong)


def test_damage_is_seen(repo, notes):
    publish(repo, HOURS[0])
    entry = next(iter(repo.ref("main").entries("")))
    repo.stores.objects.delete(entry.address)
    with pytest.raises(graveler.errors.GravelerError):
        judged(repo, notes)
