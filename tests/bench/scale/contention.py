"""Rows of many processes that merge into one branch, compared with a bare loop of the same calls."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import graveler
from graveler.config import load_config
from graveler.errors import PreconditionFailedError
from graveler.kv.registry import open_kv
from graveler.kv.store import ABSENT, KVStore
from graveler.lake.factory import write_default_config
from graveler.testing.process import Process
from graveler.testing.world import link_unseen
from tests.bench.lakes import entry, watched_lake
from tests.bench.measure import Result, progress
from tests.bench.scale.children import Ready, rate
from tests.bench.scale.place import Place
from tests.bench.scale.table import at_least
from tests.harness.servers.postgres import postgres_server, schema, socket_of

_PARTITION = "bare"
_MAIN = b"main"
_VALUE = b"x" * 400


@dataclass(frozen=True, slots=True)
class Step:
    """A call of one loop.

    Attributes:
        name: The method.
        main: Whether it concerns the record of the target branch.
    """

    name: str
    main: bool


def contention(place: Place) -> list[Result]:
    """Let processes branch, link, commit and merge, and make the same bare calls, in turns."""
    results = []
    for store, lake in _stores(place):
        calls = _calls(lake)
        ours, bare = [], []
        for turn in range(place.repeats):
            progress(f"{store}: {place.processes} processes, turn {turn + 1} of {place.repeats}")
            ours.append(rate(_loops, lake, turn, place.commits, count=place.processes))
            bare.append(rate(_bare, lake, calls, place.commits, count=place.processes))
        results.append(
            at_least(
                f"{place.processes} processes branch, link, commit, merge into one branch, {store}",
                median(ours) / median(bare),
                0.5,
                " of a bare loop of the same key-value calls",
                f"{median(ours):,.0f} and {median(bare):,.0f} loops a second; {len(calls)} calls "
                "a loop",
            )
        )
    return results


def _stores(place: Place) -> Iterator[tuple[str, Path]]:
    with _lake(place.scratch / "sqlite") as lake:
        yield "SQLite", lake
    with postgres_server(durable=True) as server, schema(socket_of(server)) as url:
        with _lake(place.scratch / "postgres", kv_uri=url) as lake:
            yield "PostgreSQL", lake


@contextmanager
def _lake(folder: Path, **uris: Any) -> Iterator[Path]:
    write_default_config(folder, **uris)
    with graveler.open(folder) as lake:
        main = lake.create_repository("bench").branch("main")
        link_unseen(main, [entry("README")])
        main.commit("begin")
    yield folder


def _loop(repo: graveler.Repository, name: str) -> None:
    branch = repo.create_branch(name, source="main")
    link_unseen(branch, [entry(f"input/{name}.parquet")])
    branch.commit(name)
    repo.merge(name, into="main")


def _calls(folder: Path) -> list[Step]:
    """Return the key-value calls of one loop, after a first loop."""
    process = Process()
    with watched_lake(folder, process) as lake:
        repo = lake.repository("bench")
        _loop(repo, "first")
        process.calls.clear()
        _loop(repo, "second")
    return [
        Step(call.name, call.key.endswith("branch/main"))
        for call in process.calls
        if call.store == "kv"
    ]


def _loops(ready: Ready, number: int, folder: Path, turn: int, loops: int) -> int:
    with graveler.open(folder) as lake:
        repo = lake.repository("bench")
        repo.log("main", limit=1)
        ready()
        for loop in range(loops):
            _loop(repo, f"w{turn}-{number}-{loop}")
    return loops


def _bare(ready: Ready, _number: int, folder: Path, calls: list[Step], loops: int) -> int:
    with open_kv(load_config(folder).kv_uri) as kv:
        kv.set(_PARTITION, _MAIN, _VALUE)
        key = uuid4().hex.encode()
        ready()
        for loop in range(loops):
            for place, step in enumerate(calls):
                _make(kv, step, _MAIN if step.main else b"%b-%d-%d" % (key, loop, place))
    return loops


def _make(kv: KVStore, step: Step, key: bytes) -> None:
    """Make one call; a lost compare-and-set is repeated."""
    match step.name:
        case "set_if" if step.main:
            _replace(kv, key)
        case "set_if":
            kv.set_if(_PARTITION, key, _VALUE, ABSENT)
        case "set":
            kv.set(_PARTITION, key, _VALUE)
        case "set_many":
            kv.set_many(_PARTITION, [(key, _VALUE)])
        case "delete" | "delete_if":
            kv.delete(_PARTITION, key)
        case "drop":
            kv.drop(f"{_PARTITION}:{key.decode()}")
        case "scan":
            next(kv.scan(_PARTITION, key), None)
        case _:
            kv.get(_PARTITION, key)


def _replace(kv: KVStore, key: bytes) -> None:
    while True:
        stored = kv.get(_PARTITION, key)
        assert stored is not None
        value = b"%d%b" % (time.monotonic_ns(), _VALUE)
        try:
            kv.set_if(_PARTITION, key, value, stored.predicate)
        except PreconditionFailedError:
            continue
        return
