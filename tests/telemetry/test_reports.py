"""The reports of the engine: cache, retries, races, gates, turns, and spans of its operations."""

import pytest

import graveler
from graveler.base import telemetry
from graveler.base.clock import RandomIds, SystemClock
from graveler.base.retries import Retrier, retry
from graveler.committed import metarange
from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.ranges.range_store import RangeStore
from graveler.errors import (
    BackendUnavailableError,
    GateFailedError,
    MergeConflictError,
    NoChangesError,
)


@pytest.fixture
def lake(tmp_path, collected):
    with graveler.init(tmp_path / "lake") as lake:
        yield lake


@pytest.fixture
def main(lake):
    return lake.create_repository("flights").branch("main")


def change(branch, path, content=b"1"):
    branch.put(path, content)
    return branch.commit(f"writes {path}")


def test_a_commit_is_a_span_with_branch_and_ranges(main, collected):
    commit = change(main, "a")
    assert collected.spans() == [
        (
            "graveler.commit",
            {
                "vcs.repository.name": "flights",
                "vcs.ref.head.name": "main",
                "graveler.commit.id": commit.id,
                "graveler.result": "landed",
                "graveler.ranges.read": 0,
                "graveler.ranges.written": 1,
            },
        )
    ]


def test_a_merge_is_a_span_also_where_it_conflicts(lake, main, collected):
    repo = lake.repository("flights")
    dev = repo.create_branch("dev", source="main")
    change(dev, "a", b"dev")
    merged = repo.merge("dev", into="main")
    change(main, "b", b"main")
    change(dev, "b", b"dev")
    with pytest.raises(MergeConflictError):
        repo.merge("dev", into="main")
    landed, refused = [at for name, at in collected.spans() if name == "graveler.merge"]
    assert landed["vcs.ref.base.name"] == "main"
    assert landed["vcs.ref.head.revision"] == merged.commit.parents[1]
    assert landed["graveler.commit.id"] == merged.commit.id
    assert (landed["graveler.result"], refused["graveler.result"]) == ("landed", "conflict")
    assert collected.failed() == ["graveler.merge"]


def test_a_publish_is_a_span_and_its_gates_are_timed(lake, main, collected):
    repo = lake.repository("flights")

    @graveler.gate("hour is full")
    def full(candidate):
        return any(candidate.list("full/")) or "no file below full/"

    with repo.run("hour 05", into="main", gates=[full]) as run:
        run.put("full/a", b"1")
    with pytest.raises(GateFailedError), repo.run("hour 06", into="main", gates=[full]) as run:
        run.put("other", b"1")
        run.delete("full/a")
    landed, refused = [at for name, at in collected.spans() if name == "graveler.publish"]
    assert landed["graveler.run.key"] == "hour 05"
    assert landed["vcs.ref.base.name"] == "main"
    assert landed["vcs.ref.head.name"].startswith("run-hour-05-")
    assert landed["graveler.commit.id"] == main.head.id
    assert (landed["graveler.result"], refused["graveler.result"]) == ("landed", "refused")
    commits = [at for name, at in collected.spans() if name == "graveler.commit"]
    assert {at["graveler.run.key"] for at in commits} == {"hour 05", "hour 06"}
    gate = ("graveler.gate.name", "hour is full")
    assert collected.sums(telemetry.GATES) == {
        frozenset({gate, ("graveler.gate.result", "passed")}): 1,
        frozenset({gate, ("graveler.gate.result", "refused")}): 1,
    }


def test_the_wait_for_a_turn_is_reported(main, collected):
    with main.repository.refs.turn("main"):  # an operation takes its turn after a lost race
        pass
    turns = collected.sums(telemetry.TURNS)
    assert turns[frozenset({("graveler.turn.held", True)})] >= 1


def test_an_ingestion_is_published_in_a_span(lake, main, collected):
    repo = lake.repository("flights")
    events = repo.ingestion("events", into="main")
    events.branch.put("2026/01/01/05:00/a", b"1")
    assert events.tick("2026-01-01T05:00Z").published
    spans = [at for name, at in collected.spans() if name == "graveler.publish"]
    assert [at["vcs.ref.head.name"] for at in spans] == ["events"]
    assert spans[0]["graveler.result"] == "landed"


def test_lost_races_and_repeated_calls_are_counted(collected):
    clock = SystemClock()
    assert retry(clock, RandomIds(clock), "x", lambda number: number if number == 3 else None) == 3
    assert collected.sums(telemetry.RACES) == {frozenset(): 3}
    answers = iter([BackendUnavailableError("down"), BackendUnavailableError("down"), None])

    def call():
        if answer := next(answers):
            raise answer
        return "up"

    assert Retrier(clock, RandomIds(clock), first_wait_s=0.001).run("read", call) == "up"
    failed = frozenset({("error.type", "BackendUnavailableError")})
    assert collected.sums(telemetry.RETRIES) == {failed: 2}


def test_lookups_of_the_cache_are_counted_where_they_end(lake, main, collected):
    before = _lookups(collected)
    change(main, "a")
    main.stat("a")
    store = lake.repository("flights").stores.ranges
    fresh = RangeStore(store.objects, RangeCache(None, 1 << 20))
    [info] = metarange.read(store, main.head.metarange)
    assert fresh.open(info.id) is fresh.open(info.id)
    after = _lookups(collected)
    assert after["miss"] - before["miss"] == 1
    assert after["memory"] > before["memory"]
    assert after["disk"] > before["disk"]


def _lookups(collected):
    points = collected.metrics()[telemetry.CACHE_LOOKUPS].points
    return {point.attributes["graveler.cache.result"]: point.value for point in points}


def test_a_forked_child_counts_from_zero():
    counts = telemetry.CacheCounts(1, 2, 3, 4, 5)
    counts.reset()
    assert counts == telemetry.CacheCounts()


def test_every_point_has_only_attributes_that_are_listed(lake, main, collected):
    change(main, "a")
    with pytest.raises(NoChangesError):
        main.commit("nothing")
    assert collected.failed() == ["graveler.commit"]
    _, nothing = collected.spans()[-1]
    assert (nothing["graveler.result"], nothing["error.type"]) == ("unchanged", "NoChangesError")
    main.stat("a")
    found = collected.metrics()
    assert {telemetry.KV_CALLS, telemetry.OBJECT_CALLS, telemetry.CACHE_LOOKUPS} <= set(found)
    for name, metric in found.items():
        listed = telemetry.METRICS[name]
        assert metric.unit == listed.unit
        assert {key for point in metric.points for key in point.attributes} <= {*listed.attributes}
    for name, attributes in collected.spans():
        assert name in telemetry.SPANS
        assert set(attributes) <= set(telemetry.SPAN_ATTRIBUTES)
