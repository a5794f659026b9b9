"""The cost of many runs, many branches, many earlier branches of a name, and a long history."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from graveler.base.names import run_branch
from graveler.committed.metarange import EMPTY_METARANGE
from graveler.lake import Repository
from graveler.model import BranchRecord, Commit
from graveler.refs.branches import branch_key, encode_branch
from graveler.refs.commits import id_of
from graveler.runs.record import encode_run
from graveler.runs.records import _due_key, opened_key
from graveler.runs.state import RunState
from graveler.testing.process import Process
from tests.bench.lakes import new_repository, watched_lake
from tests.bench.measure import Result, alternate, at_most, ms, progress

FEW = 1_000
MANY = 100_000
PAGE = 50
LIVES = 1_000
COMMITS = 14_000
BRANCHES = 40
_TURNS = 15
# A hundred times as many take the same time; a page that reads all of them takes a hundred times.
PAGE_LIMIT = 2.0
COMMAND_LIMIT = 1.25  # most of it is the start of the process
MARK_LIMIT = 2.0  # 1.03 on an idle machine; a walk for each branch takes 40 times


def growth(folder: Path) -> list[Result]:
    """Measure first pages, reaping, a deletion, and a mark with a retention rule."""
    with _filled(folder / "few", FEW) as few, _filled(folder / "many", MANY) as many:
        results = [
            _page("first page of 50 runs", few, many, lambda repo: repo.runs.list(limit=PAGE)),
            _page("first page of 50 branches", few, many, lambda repo: repo.branches(limit=PAGE)),
            _page("reaping, nothing due", few, many, lambda repo: repo.runs.reap(dry_run=False)),
            _command(folder, "run"),
            _command(folder, "branch"),
        ]
    return [*results, _deletion(folder / "lives"), _retention(folder / "history")]


@contextmanager
def _filled(place: Path, size: int) -> Iterator[Repository]:
    """Yield a repository with `size` branches and as many open runs."""
    progress(f"{size:,} branches and {size:,} runs")
    lake, repo = new_repository(place, "bench")
    run = repo.runs.open("first", lease=timedelta(days=1))
    record, fork = run.record, repo.stores.refs.branches.get(run.branch)
    refs, runs = f"refs:{repo.stores.uid}", f"runs:{repo.stores.uid}"
    keys = [f"flights 2013-01-01T05:00Z {number:06d}" for number in range(size)]
    records = [
        replace(
            record,
            key=key,
            branch=run_branch(key),
            opened=record.opened - timedelta(seconds=number),
        )
        for number, key in enumerate(keys)
    ]
    repo.stores.kv.set_many(refs, _branches(fork, [r.branch for r in records]))
    main = repo.stores.refs.branches.get("main")
    repo.stores.kv.set_many(refs, _branches(main, [f"dev-{number:06d}" for number in range(size)]))
    repo.stores.kv.set_many(runs, ((b"run/" + r.branch.encode(), encode_run(r)) for r in records))
    repo.stores.kv.set_many(runs, ((opened_key(r), b"1") for r in records))
    due = ((_due_key(r.branch, r.lease_until), b"1") for r in records)
    repo.stores.kv.set_many(runs, due)
    assert next(iter(repo.runs.list())).state is RunState.OPEN
    with lake:
        yield repo


def _branches(like: BranchRecord, names: Iterable[str]) -> Iterator[tuple[bytes, bytes]]:
    for name in names:
        yield branch_key(name), encode_branch(replace(like, name=name, staging_token=f"t-{name}"))


def _page(
    name: str, few: Repository, many: Repository, call: Callable[[Repository], Iterable[object]]
) -> Result:
    progress(name)
    small, large = alternate(lambda: list(call(few)), lambda: list(call(many)), _TURNS)
    return at_most(
        f"{name}, of {MANY:,} runs and {MANY:,} branches",
        large / small,
        PAGE_LIMIT,
        f"the same of {FEW:,}",
        f"{ms(large)} and {ms(small)}, medians of {_TURNS}",
    )


def _command(folder: Path, group: str) -> Result:
    progress(f"graveler {group} list")

    def run(place: str) -> None:
        command = (sys.executable, "-m", "graveler", "-C", str(folder / place), group, "list")
        subprocess.run([*command, "--limit", str(PAGE)], check=True, stdout=subprocess.DEVNULL)

    small, large = alternate(lambda: run("few"), lambda: run("many"), _TURNS)
    return at_most(
        f"`graveler {group} list --limit 50`, of {MANY:,}",
        large / small,
        COMMAND_LIMIT,
        f"the same of {FEW:,}",
        f"{ms(large)} and {ms(small)}, the start of the process included",
    )


def _deletion(place: Path) -> Result:
    progress(f"a name with {LIVES:,} earlier lives")
    lake, repo = new_repository(place, "bench")
    with lake:
        for _ in range(LIVES + 1):
            repo.create_branch("feature")
            repo.delete_branch("feature")
        repo.create_branch("feature")
    process = Process()
    with watched_lake(place, process) as watched:
        counted = watched.repository("bench")
        counted.create_branch("other")
        counted.delete_branch("other")  # the first move of a process has calls of its own
        time.sleep(1)  # its staged writes are dropped in the background
        process.calls.clear()
        counted.delete_branch("feature")
    return Result(
        f"calls to the key-value store to delete a branch whose name had {LIVES:,} earlier lives",
        f"{len(process.calls)}",
        "at most 5",
        len(process.calls) <= 5,
        ", ".join(call.name for call in process.calls),
    )


def _retention(folder: Path) -> Result:
    progress(f"a history of {COMMITS:,} commits, and {BRANCHES} branches on it")
    with (
        _with_history(folder / "single", 1) as single,
        _with_history(folder / "many", BRANCHES) as many,
    ):
        alone, together = alternate(
            lambda: single.gc.mark(dry_run=True), lambda: many.gc.mark(dry_run=True), 5
        )
    return at_most(
        f"a mark with a rule over {BRANCHES} branches of {COMMITS:,} commits",
        together / alone,
        MARK_LIMIT,
        "the same over one branch",
        f"{together:.2f} s and {alone:.2f} s",
    )


@contextmanager
def _with_history(place: Path, branches: int) -> Iterator[Repository]:
    """Yield a repository with a long history, `branches` on it, and a retention rule."""
    lake, repo = new_repository(place, "bench")
    refs = repo.stores.refs
    history = list(_history(repo.commit("main"), COMMITS))
    refs.commits.add_all(history)
    main, predicate = refs.branches.get_for_update("main")
    refs.branches.replace(replace(main, commit_id=history[-1].id), predicate)
    repo.gc.keep(count=100)
    for number in range(1, branches):
        repo.create_branch(f"dev-{number}", history[-1 - number * (COMMITS // branches)].id)
    with lake:
        yield repo


def _history(root: Commit, size: int) -> Iterator[Commit]:
    parent = root
    for number in range(size):
        commit = replace(
            parent,
            parents=(parent.id,),
            generation=parent.generation + 1,
            message=f"hour {number}",
            metarange=EMPTY_METARANGE,
            created=parent.created + timedelta(seconds=1),
        )
        parent = replace(commit, id=id_of(commit))
        yield parent
