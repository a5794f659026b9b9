"""A lake like that of the demo: a collection keeps every published hour readable."""

import pytest

import graveler
from graveler.errors import ExpiredError, GateFailedError
from graveler.fsck.check import fsck
from graveler.gc.marks import Kind
from tests.harness.gc_lakes import NOW, check_sound, collect, keys, made_key
from tests.harness.worlds import ScriptedWorld

HOURS = 6
ROWS = "flight,delay\n"


@graveler.gate("no_empty_hours")
def no_empty_hours(candidate):
    return all(candidate.get(entry.path) != ROWS.encode() for entry in candidate.list("output/"))


def ingest(repo, hour, rows, *, drafts=1):
    with repo.run(f"hour {hour:02}", gates=[no_empty_hours]) as run:
        for draft in range(drafts):
            with run.step("ingest", try_number=draft + 1) as step:
                step.put(f"input/{hour:02}:00/part-0", f"raw {hour}".encode())
            with run.step("report", try_number=draft + 1) as step:
                step.put(f"output/{hour:02}:00/part-0", (ROWS + rows).encode())
    return run.result.commit


@pytest.fixture
def repo():
    repo = ScriptedWorld().repo(scripted=False)
    repo.protection.add("main")
    for hour in range(HOURS):
        ingest(repo, hour, f"A{hour},7\n", drafts=1 + hour % 2)
    with pytest.raises(GateFailedError):
        ingest(repo, HOURS, "")  # damaged, so refused and parked
    run = repo.runs.open("hour 99")  # opened and abandoned
    run.put("output/99:00/part-0", b"half a file")
    run.commit("half")
    run.put("output/99:00/part-1", b"never committed")
    run.abandon("another run does it")
    repo.stores.objects.put(f"{made_key(repo)}/part-00000.parquet", b"a task that failed")
    return repo


def hours(repo):
    return {entry.path for entry in repo.ref("main").list("output/")}


def published(repo):
    return [made for made in repo.log(first_parent=True) if made.metadata.get("graveler.run")]


def test_unpublished_data_goes_and_every_published_hour_stays(repo):
    seen = check_sound(repo)
    parked = repo.runs.get(f"hour {HOURS:02}").head
    mark = collect(repo)
    # two files of the abandoned run, one of the failed task, and six of second tries that uploaded
    # three hours again, byte for byte; all other files are in main's history or parked
    assert mark.freed[Kind.DATA].count == 2 + 1 + 3 * 2
    assert check_sound(repo) == seen
    for made in published(repo):
        assert hours(repo) >= {entry.path for entry in repo.ref(made.id).list("output/")}
        for entry in repo.ref(made.id).entries():
            assert repo.ref(made.id).get(entry.path)
    assert repo.ref(parked).exists(f"input/{HOURS:02}:00/part-0")
    with repo.run(f"hour {HOURS:02}", gates=[no_empty_hours]) as run:  # repaired and published
        run.put(f"output/{HOURS:02}:00/part-0", (ROWS + "A6,1\n").encode())
    assert len(hours(repo)) == HOURS + 1
    check_sound(repo)


def test_with_a_rule_old_versions_go_and_published_hours_stay(repo):
    seen = check_sound(repo)
    before = keys(repo)
    repo.gc.keep(count=1)
    mark = collect(repo)
    assert check_sound(repo) == seen
    assert len(hours(repo)) == HOURS
    assert mark.bytes_freed > 0
    assert keys(repo) < before
    report = fsck(repo.stores, objects="checksum")
    assert report.sound
    assert report.expired
    old = published(repo)[-1]
    with pytest.raises(ExpiredError):
        repo.ref(old.id)
    assert [made.id for made in repo.log()]
    ingest(repo, 2, "A2,again\n")  # the hour is run again
    assert repo.ref("main").get("output/02:00/part-0").endswith(b"A2,again\n")
    repo.gc.run(grace=NOW, window=NOW)
    check_sound(repo)
