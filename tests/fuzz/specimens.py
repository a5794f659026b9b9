"""A lake that has a record of every kind, and the reads of it that a user can make."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

from graveler import checks
from graveler.errors import GateFailedError
from graveler.fsck.check import fsck
from graveler.lake import Lake, Repository
from graveler.testing import World

REPOSITORY = "flights"
HOUR = "2013-01-01T05:00Z"
NEXT_HOUR = "2013-01-01T06:00Z"
NOW = timedelta(0)


def build() -> World:
    """Return a lake in memory with a record of every kind."""
    world = World()
    with world.open() as lake:
        repository = lake.create_repository(REPOSITORY)
        _history(repository)
        _runs(repository)
        _ingestion(repository)
        _settings(repository)
        _collection(repository)
        repository.branch("main").put("staged.csv", b"staged", metadata={"k": "v"})
        repository.branch("main").delete("a/1.csv")
        entry = repository.ref("main").stat("a/2.csv")
        repository.branch("main").link_many([replace(entry, path="borrowed.csv")])
    return world


def _history(repository: Repository) -> None:
    main = repository.branch("main")
    for number in range(12):  # more than the branch's record holds, so that the log has a page
        main.put(f"a/{number}.csv", b"%d" % number, content_type="text/csv", metadata={"n": "1"})
        main.commit(f"commit {number}", metadata={"source": "bts"})
    dev = repository.create_branch("dev", "main~2")
    dev.put("b.csv", b"b")
    dev.commit("dev")
    repository.merge("dev", into="main")
    repository.tags.create("v1", "main~1")
    repository.tags.create("v0", "main~3")
    repository.tags.delete("v0")
    repository.delete_branch("dev")


def _runs(repository: Repository) -> None:
    rows = checks.row_count("out/", at_least=1)
    with repository.run("hour 5", into="main", gates=[rows], metadata={"k": "v"}) as run:
        repository.runs.attach(run.handle.to_json())
        with run.step("clean") as step:
            step.get("a/3.csv")
            step.put("out/part.csv", b"x\n1\n2\n")
    with suppress(GateFailedError), repository.run("hour 6", gates=[lambda _: "refused"]) as run:
        run.put("out/other.csv", b"x\n1\n")
    repository.runs.open("hour 7").put("c", b"c")


def _ingestion(repository: Repository) -> None:
    held = repository.ingestion("held", gates=[lambda _: "refused"])
    held.branch.put("h.csv", b"h")
    held.tick(HOUR)
    aside = repository.ingestion("ingest", gates=[lambda _: "refused"], on_refusal="quarantine")
    aside.branch.put("q.csv", b"q")
    aside.tick(HOUR)
    good = repository.ingestion("ingest")
    good.branch.put("g.csv", b"g")
    good.tick(NEXT_HOUR)


def _settings(repository: Repository) -> None:
    repository.protection.add("release-*", ["delete", "reset"])
    repository.protection.add("kept")
    repository.links.allow("mem://landing")
    repository.gates.require("kept", checks.row_count("out/", at_least=1))


def _collection(repository: Repository) -> None:
    lost = repository.create_branch("lost")
    lost.put("lost.csv", b"lost")
    lost.commit("lost")
    repository.delete_branch("lost")
    repository.gc.keep("run-*", days=1, count=2)
    repository.gc.keep("main", count=8)
    repository.packing.set(after=50, branches=["main"])
    repository.gc.mark(grace=NOW, window=timedelta(days=7))
    repository.stores.refs.epochs.end(
        repository.stores.refs.epochs.begin("20130101-050000-000000", names="_graveler/x/", pages=0)
    )


def _views(repository: Repository) -> Iterator[object]:
    for name in ("main", "v1", "main~1"):
        view = repository.ref(name)
        yield list(view.list())
        yield view.exists("a/1.csv")
    yield list(repository.branch("main").entries())
    yield list(repository.branch("main").uncommitted())
    yield repository.branch("main").get("a/2.csv")


def _history_read(repository: Repository) -> Iterator[object]:
    yield list(repository.log("main"))
    yield list(repository.log("main", path="b.csv"))
    yield list(repository.diff("main~3", "main"))
    yield list(repository.branches(hidden=True))
    yield repository.tags.list()
    yield list(repository.moves(hidden=True))
    yield list(repository.moves("dev"))
    yield list(repository.tags.moves("v0"))
    yield repository.ref("main@{9}")


def _runs_read(repository: Repository) -> Iterator[object]:
    yield [(run.expires, run.resumed) for run in repository.runs.list()]
    yield repository.runs.get("hour 5")
    yield repository.runs.readers("hour 5")
    yield repository.runs.reap()
    yield repository.why("out/part.csv")


def _others_read(repository: Repository) -> Iterator[object]:
    yield list(repository.gates.judgements())
    yield repository.gates.required()
    yield repository.protection.list()
    yield repository.links.list()
    yield repository.stores.refs.epochs.read()
    for branch in ("held", "ingest"):
        ingestion = repository.ingestion(branch)
        yield ingestion.status()
        yield ingestion.hour(HOUR)
        yield ingestion.hour(NEXT_HOUR)
    yield repository.gc.rules
    yield [(mark.ripe, mark.made, mark.bytes_condemned) for mark in repository.gc.marks()]
    yield fsck(repository.stores)


def _dry_runs(repository: Repository) -> Iterator[object]:
    yield repository.gc.mark(grace=NOW, dry_run=True)
    yield [repository.gc.sweep(mark.id, dry_run=True) for mark in repository.gc.marks()]


Read = Callable[[Repository], Iterator[object]]
READS: tuple[Read, ...] = (_views, _history_read, _runs_read, _others_read, _dry_runs)


def opened(lake: Lake) -> Repository:
    """Return the repository, opened as by a new process."""
    lake.repositories()
    return lake.repository(REPOSITORY)
