"""Runs triggers on a real lake, and prints their events. It runs in a separate Airflow."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, cast

from airflow.sdk.execution_time.context import AssetStateStoreAccessors
from airflow.serialization.decoders import smart_decode_trigger_kwargs
from airflow.serialization.encoders import encode_trigger

import graveler
from graveler.base.clock import SystemClock
from graveler.errors import InvalidInputError
from graveler.lake import Lake, Repository
from graveler_airflow import arrivals, triggers
from graveler_airflow.triggers import GravelerCommitTrigger, GravelerTrigger

FAST = 0.02
QUIET = 0.2  # seconds without a further event
LONG = 500  # the most polls for an event


class Store:
    """Airflow's store of an asset, in this process."""

    def __init__(self, cursor: str = "", *, broken: Exception | None = None) -> None:
        self.values = {"graveler flights main": cursor} if cursor else {}
        self.broken = broken

    async def aget(self, key: str) -> str | None:
        if self.broken:
            raise self.broken
        return self.values.get(key)

    async def aset(self, key: str, value: str) -> None:
        if self.broken:
            raise self.broken
        self.values[key] = value


def watcher(store: Store | None = None, repo: str = "flights", ref: str = "main", **kwargs: Any):
    trigger = GravelerCommitTrigger(
        repo, ref, poll_interval=FAST, graveler_conn_id="watched", **kwargs
    )
    trigger.asset_state_store = cast("AssetStateStoreAccessors | None", store)
    return trigger


def commits(*, since: str = "", begun: str = ""):
    begun = begun or SystemClock().now().isoformat()
    waiting: dict[str, Any] = {"poll_interval": FAST, "graveler_conn_id": "watched"}
    return GravelerTrigger("commits", "flights", ref="main", since=since, begun=begun, **waiting)


def files(prefix: str, **kwargs: Any):
    return GravelerTrigger("files", "flights", ref="main", prefix=prefix, **kwargs)


async def watch(trigger, count: int, meanwhile: Callable[[], object] | None = None):
    """Return the first `count` events of a trigger, and whether no more came."""
    reported: list[dict[str, Any]] = []

    async def read() -> None:
        async with aclosing(trigger.run()) as events:
            async for event in events:
                reported.append(event.payload)  # noqa: PERF401 - to be visible at once

    task = asyncio.create_task(read())
    if meanwhile:
        await asyncio.sleep(QUIET)
        await asyncio.to_thread(meanwhile)
    for _ in range(LONG):
        if len(reported) >= count or task.done():
            break
        await asyncio.sleep(FAST)
    await asyncio.sleep(QUIET)
    ended = task.done()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return reported, ended


async def messages(*args, **kwargs):
    reported, _ = await watch(*args, **kwargs)
    return [news["message"] for news in reported]


async def ids(*args, **kwargs):
    reported, _ = await watch(*args, **kwargs)
    return [news["commit"] for news in reported]


def commit(repository: Repository, path: str, ref: str = "main", **metadata: str) -> str:
    branch = repository.branch(ref)
    branch.put(path, path.encode())
    return branch.commit(f"adds {path}", metadata=metadata).id


async def cursors(flights: Repository):
    """Commits are made while the triggerer runs, and while it does not."""
    store = Store()
    made: list[str] = []

    def five() -> None:
        made.extend(commit(flights, f"input/{n}", hour="2013-01-01T05:00Z") for n in range(5))

    reported, _ = await watch(watcher(store), 5, five)
    yield "five", [made, reported]
    yield "cursor", [dict(store.values), flights.commit("main").id]
    missed = [commit(flights, f"away/{n}") for n in range(2)]
    yield "restart", [missed, await ids(watcher(store), 2)]

    def publish() -> None:
        with flights.run("hour 5") as run:
            for name in ("a", "b"):
                with run.step(name) as step:
                    step.put(f"steps/{name}", b"x")

    yield "run", await messages(watcher(store), 1, publish)

    def both() -> None:
        commit(flights, "input/x")
        commit(flights, "output/x")

    yield "prefix", await messages(watcher(prefix="output/", since=missed[-1]), 1, both)


async def rewinds(flights: Repository):
    """The branch is reset while the triggerer does not run."""

    def back() -> None:
        flights.branch("main").reset("main~2")

    def aside() -> None:
        back()
        commit(flights, "new/1")
        commit(flights, "new/2")

    for name, act, count in (("reset", back, 1), ("replaced", aside, 2)):
        before = flights.commit("main").id
        act()
        reported, _ = await watch(watcher(Store(before)), count)
        yield (
            name,
            {
                "told": [news["message"] for news in reported],
                "from": [news.get("rewound_from") == before for news in reported],
                "head": reported[-1]["commit"] == flights.commit("main").id,
            },
        )
    yield "lost", [await ids(watcher(Store("0" * 64)), 1), flights.commit("main").id]


async def absences(lake: Lake):
    """The watched branch or lake does not exist yet, or no longer."""

    def appears() -> None:
        trains = lake.create_repository("trains")
        commit(trains, "before")
        trains.create_branch("dev")
        commit(trains, "first", "dev")

    yield "early", await messages(watcher(repo="trains", ref="dev"), 1, appears)
    dev = watcher(Store(), "trains", "dev")
    await watch(dev, 0)
    trains = lake.repository("trains")
    trains.delete_branch("dev")
    nothing = await messages(dev, 0)
    trains.create_branch("dev")
    commit(trains, "second", "dev")
    reported, _ = await watch(dev, 1)
    yield "again", [nothing, [[news["message"], "rewound_from" in news] for news in reported]]


async def outages(flights: Repository, folder: Path):
    """The lake, or Airflow's own store, is unavailable for some time."""
    real = folder.resolve()
    folder.unlink()
    folder.write_text("no lake")

    def back_again() -> None:
        mounted = folder.with_name("mounted")
        mounted.symlink_to(real)
        mounted.replace(folder)  # atomic: the lake is absent or present
        commit(flights, "after the outage")

    kwargs: dict[str, Any] = {"poll_interval": FAST, "graveler_conn_id": "watched"}
    waiting = watch(files("after the outage", **kwargs), 1)
    reported, (seen, _) = await asyncio.gather(messages(watcher(), 1, back_again), waiting)
    yield "outage", reported
    yield "outage of a task", [event["paths"] for event in seen]
    patient = watcher()
    patient._failures = 100_000
    try:
        await asyncio.wait_for(patient.pause(), QUIET)
    except TimeoutError:
        yield "long outage", "waits"
    store = Store()

    def breaks() -> None:
        store.broken = RuntimeError("api server away")
        commit(flights, "uncertain")

    yield "unkept", await messages(watcher(store), 1, breaks)
    store = Store(broken=ValueError("serves 2 assets"))
    yield "shared", await messages(watcher(store), 1, lambda: commit(flights, "for two"))


async def backlogs(flights: Repository):
    """There are more commits than one event reports."""
    start, most = flights.commit("main").id, arrivals.MOST
    made = [commit(flights, f"many/{n}") for n in range(8)]
    defaults = cast("dict[str, Any]", arrivals.commits_since.__kwdefaults__)
    vars(triggers)["MOST"] = defaults["limit"] = 3
    yield "many", [made, await ids(watcher(since=start), 8)]
    vars(triggers)["MOST"] = defaults["limit"] = most


async def waits(flights: Repository):
    """In place of a sensor, a trigger fires one event and ends."""
    yield "once", await watch(commits(since="main~2"), 1)
    begun = SystemClock().now().isoformat()
    late = [commit(flights, f"late/{n}") for n in range(2)]
    (range_,), _ = await watch(commits(begun=begun), 1)
    yield "begun", [late, [news["commit"] for news in range_["commits"]]]
    try:
        await watch(commits(since="unknown"), 1)
    except InvalidInputError as error:
        yield "wrong", str(error)

    def land() -> None:
        commit(flights, "landed/1")
        commit(flights, "landed/2")

    two = files("landed/", at_least=2, poll_interval=FAST, graveler_conn_id="watched")
    yield "files", [*await watch(two, 1, land), flights.commit("main").id]


async def faults():
    """A permanent error ends the wait of a task, but does not end a watcher."""
    os.environ["AIRFLOW_CONN_WRONG"] = json.dumps({"conn_type": "graveler", "host": "lake"})
    for name, connection in (
        ("deleted connection", "deleted"),
        ("wrong connection", "wrong"),
    ):
        kwargs: dict[str, Any] = {"poll_interval": FAST, "graveler_conn_id": connection}
        try:
            await watch(files("a/", **kwargs), 1)
        except Exception as error:
            yield name, [type(error).__name__, str(error)]
        _, ended = await watch(GravelerCommitTrigger("flights", **kwargs), 0)
        yield f"watcher of {name}", ended


async def journeys():
    """A trigger is stored in Airflow's database and loaded again."""
    for name, made in (
        ("commit", watcher(repo="r", ref="dev", prefix="a/", since="x", asset="a b")),
        ("object", files("a/", since="x", at_least=3)),
    ):
        path, kwargs = made.serialize()
        encoded = encode_trigger({"classpath": path, "kwargs": json.loads(json.dumps(kwargs))})
        plain = {key: smart_decode_trigger_kwargs(v) for key, v in encoded["kwargs"].items()}
        module, _, kind = path.rpartition(".")
        copy = getattr(triggers, kind)(**plain)
        yield f"round trip {name}", [module, copy.serialize() == made.serialize()]


async def main(folder: Path) -> dict[str, Any]:
    results: dict[str, Any] = {}
    real = folder.with_name(f"{folder.name}-real")
    real.mkdir()
    folder.symlink_to(real)
    with graveler.open(real, create=True) as lake:
        flights = lake.create_repository("flights")
        for part in (
            cursors(flights),
            rewinds(flights),
            absences(lake),
            outages(flights, folder),
            backlogs(flights),
            waits(flights),
            faults(),
            journeys(),
        ):
            results |= {name: value async for name, value in part}
    return results


sys.stdout.write("\n" + json.dumps(asyncio.run(main(Path(sys.argv[1])))) + "\n")
