"""A Delta table is in quarantine, released or set aside as a whole."""

import pytest

from graveler.errors import MergeConflictError
from graveler.ingest import HourState
from tests.harness.judges import no_bad_file
from tests.harness.worlds import tree

FIVE = "2013-01-01T05:00Z"
SIX = "2013-01-01T06:00Z"
SEVEN = "2013-01-01T07:00Z"


def version(number, text="v"):
    return {
        f"t/_delta_log/{number:020}.json": f"{text}{number}",
        f"t/part-{number}": f"{text}{number}",
    }


def stage(ingestion, files):
    for path, body in files.items():
        ingestion.branch.put(path, body.encode())


def table(view):
    return {path: body for path, body in tree(view).items() if path.startswith("t/")}


def whole(files):
    """Return whether a table has a log without a gap, and the data of each version."""
    logs = sorted(int(path[-25:-5]) for path in files if "_delta_log" in path)
    return logs == list(range(len(logs))) and all(f"t/part-{number}" in files for number in logs)


def first(repo, **options):
    ingestion = repo.ingestion(gates=[no_bad_file], **options)
    stage(ingestion, version(0))
    assert ingestion.tick("2013-01-01T04:00Z").state is HourState.PUBLISHED
    return ingestion


def test_later_hours_of_a_refused_table_follow_it(repo):
    """Two hours wait, the first of them is refused, and the second one needs its version."""
    holding = first(repo)
    stage(holding, {**version(1), "input/x.bad": "x"})
    assert holding.tick(FIVE).state is HourState.HELD
    stage(holding, {**version(2), "other": "6"})
    assert holding.tick(SIX).state is HourState.HELD
    ingestion = repo.ingestion(gates=[no_bad_file], on_refusal="quarantine")
    stage(ingestion, {"more": "7"})
    assert ingestion.tick(SEVEN).state is HourState.PUBLISHED
    assert table(repo.ref("main")) == version(0)
    assert table(repo.branch("ingest")) == version(0)
    assert tree(repo.ref("main"))["more"] == "7"
    (kept,) = ingestion.quarantined()
    assert kept.hours == (FIVE, SIX)
    repo.branch(kept.name).delete("input/x.bad")
    ingestion.release(kept.name)
    assert table(repo.ref("main")) == {**version(0), **version(1), **version(2)}
    assert whole(table(repo.ref("main")))


def test_a_version_staged_meanwhile_joins_its_quarantine(repo):
    ingestion = first(repo, on_refusal="quarantine")
    stage(ingestion, {**version(1), "input/x.bad": "x"})
    assert ingestion.tick(FIVE).state is HourState.QUARANTINED
    stage(ingestion, {**version(2), "good": "6"})
    tick = ingestion.tick(SIX)
    assert tick.state is HourState.QUARANTINED
    assert tick.set_aside == tuple(sorted(version(2)))
    assert tree(repo.ref("main"))["good"] == "6"
    assert table(repo.ref("main")) == version(0)
    (kept,) = ingestion.quarantined()
    assert whole(table(repo.branch(kept.name)))
    repo.branch(kept.name).delete("input/x.bad")
    ingestion.release(kept.name)
    assert table(repo.ref("main")) == {**version(0), **version(1), **version(2)}
    assert ingestion.hour(SIX).state is HourState.PUBLISHED
    stage(ingestion, version(3))
    assert ingestion.tick(SEVEN).state is HourState.PUBLISHED
    assert whole(table(repo.ref("main")))


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize(("strategy", "text"), [("source-wins", "v"), ("dest-wins", "o")])
def test_a_table_that_others_changed_is_set_aside_whole(repo, committed, strategy, text):
    ingestion = first(repo)
    stage(ingestion, {**version(1), "good": "5"})
    if committed:
        held = repo.ingestion(gates=[lambda _: "no"])
        assert held.tick(FIVE).state is HourState.HELD
    with repo.run("others") as run:
        for path, body in version(1, "o").items():
            run.put(path, body.encode())
        for path, body in version(2, "o").items():
            run.put(path, body.encode())
    ingestion.tick(SIX)
    theirs = {**version(0), **version(1, "o"), **version(2, "o")}
    assert table(repo.ref("main")) == theirs
    assert tree(repo.ref("main"))["good"] == "5"
    (kept,) = ingestion.quarantined()
    with pytest.raises(MergeConflictError, match="_delta_log"):
        ingestion.release(kept.name)
    ingestion.release(kept.name, strategy=strategy)
    result = table(repo.ref("main"))
    assert result == (theirs if text == "o" else {**version(0), **version(1)})
    assert whole(result)


def test_a_later_version_of_a_table_that_is_set_aside_joins_it(repo):
    ingestion = first(repo)
    stage(ingestion, version(1))
    with repo.run("others") as run:
        for path, body in version(1, "o").items():
            run.put(path, body.encode())
    assert ingestion.tick(FIVE).state is HourState.HELD
    stage(ingestion, version(2))
    assert ingestion.tick(SIX).state is HourState.HELD
    (kept,) = ingestion.quarantined()
    assert table(repo.branch(kept.name)) == {**version(0), **version(1), **version(2)}
    ingestion.release(kept.name, strategy="source-wins")
    assert table(repo.ref("main")) == {**version(0), **version(1), **version(2)}
