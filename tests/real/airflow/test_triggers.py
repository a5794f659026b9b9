# mypy: ignore-errors
"""Triggers on a real lake report every commit once, despite restarts, resets and outages."""

import asyncio
import json
from contextlib import aclosing, suppress
from itertools import count

import pytest
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.serialization.decoders import smart_decode_trigger_kwargs
from airflow.serialization.encoders import encode_trigger

import graveler
from graveler.base.clock import SystemClock
from graveler.errors import InvalidInputError
from graveler_airflow import arrivals, triggers
from graveler_airflow.triggers import GravelerCommitTrigger, GravelerTrigger

FAST = 0.01
LONG = 3000
"""The most looks for an event."""

NAMES = (f"watched-{number}" for number in count())


class Store:
    """Airflow's store of an asset, in this process."""

    def __init__(self, values=(), *, broken=None):
        self.values, self.broken = dict(values), broken

    async def aget(self, key):
        if self.broken:
            raise self.broken
        return self.values.get(key)

    async def aset(self, key, value):
        if self.broken:
            raise self.broken
        self.values[key] = value


@pytest.fixture
def flights(own):
    """A new repository with a commit."""
    repo = own.create_repository(next(NAMES))
    commit(repo, "first")
    return repo


def watcher(repo, store=None, ref="main", **given):
    trigger = GravelerCommitTrigger(repo.name, ref, poll_interval=FAST, **given)
    trigger.asset_state_store = store
    return trigger


def waiting(kind, repo, **given):
    return GravelerTrigger(kind, repo.name, ref="main", poll_interval=FAST, **given)


async def watched(trigger, number, meanwhile):
    reported, polls, pause = [], [], trigger.pause

    async def counted():
        polls.append(None)
        await pause()

    async def read():
        async with aclosing(trigger.run()) as events:
            async for event in events:
                reported.append(event.payload)  # noqa: PERF401 - to be visible at once

    async def until(done):
        for _ in range(LONG):
            if task.done() or done():
                break
            await asyncio.sleep(FAST)

    trigger.pause = counted
    task = asyncio.create_task(read())
    if meanwhile:
        await until(lambda: polls)
        await asyncio.to_thread(meanwhile)
    await until(lambda: len(reported) >= number)
    later = len(polls) + 2
    await until(lambda: len(polls) >= later)
    ended = task.done()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return reported, ended


def watch(trigger, number, meanwhile=None):
    """Return the events of a trigger when `number` of them and two more polls are over.

    `meanwhile` happens after the first poll. The second value is whether the trigger has ended.
    """
    return asyncio.run(watched(trigger, number, meanwhile))


def messages(*given):
    return [news["message"].removeprefix("adds ") for news in watch(*given)[0]]


def ids(events):
    return [news["commit"] for news in events]


def commit(repo, path, ref="main", **metadata):
    branch = repo.branch(ref)
    branch.put(path, path.encode())
    return branch.commit(f"adds {path}", metadata=metadata).id


def test_each_commit_is_an_event_with_what_a_reader_needs(flights):
    store, made = Store(), []

    def five():
        made.extend(commit(flights, f"input/{n}", hour="2013-01-01T05:00Z") for n in range(5))

    events, _ = watch(watcher(flights, store), 5, five)
    assert ids(events) == made
    assert [news["previous"] for news in events][1:] == made[:-1]
    first = events[0]
    assert (first["repository"], first["ref"]) == (flights.name, "main")
    assert first["message"] == "adds input/0"
    assert first["metadata"] == {"hour": "2013-01-01T05:00Z"}
    assert first["partitions"] == ["2013-01-01T05:00"]
    assert store.values == {f"graveler {flights.name} main": made[-1]}


def test_a_triggerer_that_returns_reports_what_it_missed_once(flights):
    store = Store()
    watch(watcher(flights, store), 1, lambda: commit(flights, "seen"))
    missed = [commit(flights, f"away/{n}") for n in range(2)]
    assert ids(watch(watcher(flights, store), 2)[0]) == missed


def test_a_published_run_is_one_event(flights):
    def publish():
        with flights.run("hour 5") as run:
            for name in ("a", "b"):
                with run.step(name) as step:
                    step.put(f"steps/{name}", b"x")

    assert messages(watcher(flights), 1, publish) == ["run hour 5"]


def test_commits_outside_the_prefix_are_not_reported(flights):
    since = flights.commit("main").id
    for path in ("input/x", "output/x"):
        commit(flights, path)
    assert messages(watcher(flights, prefix="output/", since=since), 1) == ["output/x"]


@pytest.mark.parametrize("new", [[], ["new/1", "new/2"]], ids=["reset", "replaced"])
def test_a_branch_that_was_reset_reports_its_new_commits(flights, new):
    for path in ("old/1", "old/2"):
        before = commit(flights, path)
    flights.branch("main").reset("main~2")
    for path in new:
        commit(flights, path)
    store = Store({f"graveler {flights.name} main": before})
    events, _ = watch(watcher(flights, store), len(new) or 1)
    assert [news["message"] for news in events] == [f"adds {path}" for path in new or ["first"]]
    assert [news.get("rewound_from") for news in events] == [before, None][: len(events)]
    assert events[-1]["commit"] == flights.commit("main").id


def test_an_unknown_cursor_yields_the_head_alone(flights):
    store = Store({f"graveler {flights.name} main": "0" * 64})
    assert ids(watch(watcher(flights, store), 1)[0]) == [flights.commit("main").id]


def test_a_repository_and_a_branch_may_come_later(own):
    name = next(NAMES)

    def appears():
        trains = own.create_repository(name)
        commit(trains, "before")
        trains.create_branch("dev")
        commit(trains, "first", "dev")

    trigger = GravelerCommitTrigger(name, "dev", poll_interval=FAST)
    assert messages(trigger, 1, appears) == ["first"]


def test_a_branch_may_be_deleted_and_recreated(flights):
    flights.create_branch("dev")
    commit(flights, "one", "dev")
    dev = watcher(flights, Store(), "dev")
    watch(dev, 0)
    flights.delete_branch("dev")
    assert messages(dev, 0) == []
    flights.create_branch("dev")
    commit(flights, "second", "dev")
    ((news,), _) = watch(dev, 1)
    assert news["message"] == "adds second"
    assert "rewound_from" in news


def test_no_commit_is_lost_while_the_lake_is_away(connect, tmp_path):
    real, folder = tmp_path / "real", tmp_path / "lake"
    connect("mounted", host=str(folder))
    with graveler.open(real, create=True) as lake:
        flights = lake.create_repository("flights")
        commit(flights, "first")
        given = {"graveler_conn_id": "mounted"}
        folder.symlink_to(real)
        trigger = watcher(flights, Store(), **given)
        watch(trigger, 0)
        folder.unlink()
        folder.write_text("no lake")

        def back_again():
            mounted = tmp_path / "mounted"
            mounted.symlink_to(real)
            mounted.replace(folder)  # atomic: the lake is absent or present
            commit(flights, "after the outage")

        async def both():
            task = watched(waiting("files", flights, prefix="after", **given), 1, None)
            return await asyncio.gather(watched(trigger, 1, back_again), task)

        (news, _), (seen, _) = asyncio.run(both())
    assert [event["message"] for event in news] == ["adds after the outage"]
    assert [event["paths"] for event in seen] == [["after the outage"]]


def test_an_outage_of_weeks_is_waited_through(flights):
    patient = watcher(flights)
    patient._failures = 100_000
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(patient.pause(), 0.1))


def test_a_cursor_that_cannot_be_kept_does_not_repeat_events(flights):
    store = Store()

    def breaks():
        store.broken = RuntimeError("api server away")
        commit(flights, "uncertain")

    assert messages(watcher(flights, store), 1, breaks) == ["uncertain"]
    two = Store(broken=ValueError("serves 2 assets"))
    assert messages(watcher(flights, two), 1, lambda: commit(flights, "for 2")) == ["for 2"]


def test_more_commits_than_one_batch_come_in_order_and_once(flights, monkeypatch):
    start = flights.commit("main").id
    made = [commit(flights, f"many/{n}") for n in range(8)]
    monkeypatch.setattr(triggers, "MOST", 3)
    monkeypatch.setitem(arrivals.commits_since.__kwdefaults__, "limit", 3)
    assert ids(watch(watcher(flights, since=start), 8)[0]) == made


def test_a_waiting_task_misses_nothing_from_before_its_trigger(flights):
    begun = SystemClock().now().isoformat()
    late = [commit(flights, f"late/{n}") for n in range(2)]
    (range_,), ended = watch(waiting("commits", flights, since="", begun=begun), 1)
    assert ended
    assert ids(range_["commits"]) == late
    assert (range_["to"], range_["rewound"]) == (late[-1], False)
    wrong = waiting("commits", flights, since="unknown", begun=begun)
    with pytest.raises(InvalidInputError, match=r"^since 'unknown': no branch, tag or commit"):
        watch(wrong, 1)


@pytest.mark.parametrize(
    ("connection", "kind", "message"),
    [
        ("deleted", AirflowNotFoundException, "The conn_id `deleted` isn't defined"),
        ("wrong", InvalidInputError, "connection 'wrong': the host 'lake' is a rela"),
    ],
)
def test_a_final_error_ends_the_wait_of_a_task(home, flights, connect, connection, kind, message):
    connect("wrong", host="lake")
    given = {"graveler_conn_id": connection}
    with pytest.raises(kind, match=message):
        watch(waiting("files", flights, prefix="a/", **given), 1)
    _, ended = watch(watcher(flights, **given), 0)
    assert not ended


@pytest.mark.parametrize("kind", ["commit", "object"])
def test_a_trigger_travels_through_airflows_database(flights, kind):
    made = {
        "commit": watcher(flights, ref="dev", prefix="a/", since="x", asset="a b"),
        "object": waiting("files", flights, prefix="a/", since="x", at_least=3),
    }[kind]
    path, given = made.serialize()
    encoded = encode_trigger({"classpath": path, "kwargs": json.loads(json.dumps(given))})
    plain = {key: smart_decode_trigger_kwargs(v) for key, v in encoded["kwargs"].items()}
    module, _, name = path.rpartition(".")
    assert module == "graveler_airflow.triggers"
    assert getattr(triggers, name)(**plain).serialize() == made.serialize()
