"""What many runs, many branches, many earlier lives of a name and a long history cost."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Final

from graveler.committed import EMPTY_METARANGE, Splitting
from graveler.identity import commit_id
from graveler.lake import Repository
from graveler.model import BranchRecord, Commit
from graveler.names import run_branch
from graveler.records import encode_branch
from graveler.refs.branches import branch_key
from graveler.runs import RunState
from graveler.runs.index import _due_key, opened_key
from graveler.runs.records import _encode
from graveler.testing.process import Process
from tests.bench.lakes import new_repository, watched_lake
from tests.bench.measure import Result, best, progress

FEW: Final = 1_000
MANY: Final = 100_000
PAGE: Final = 50
LIVES: Final = 1_000
COMMITS: Final = 14_000
BRANCHES: Final = 40
_TURNS: Final = 5


def growing(folder: Path) -> list[Result]:
    """Measure first pages, reaping, a deletion, and a mark with a rule."""
    few, many = _filled(folder / "few", FEW), _filled(folder / "many", MANY)
    results = [
        _page("first page of 50 runs", few, many, lambda repo: repo.runs.list(limit=PAGE)),
        _page("first page of 50 branches", few, many, lambda repo: repo.branches(limit=PAGE)),
        _page("reaping, nothing due", few, many, lambda repo: repo.runs.reap(dry_run=False)),
        _command(folder, "run"),
        _command(folder, "branch"),
    ]
    for repo in (few, many):
        repo.lake.close()
    return [*results, _deletion(folder / "lives"), _retention(folder / "history")]


def _filled(place: Path, size: int) -> Repository:
    """Return a repository of so many branches, and of as many runs, all of them open."""
    progress(f"{size:,} branches and {size:,} runs")
    _, repo = new_repository(place, "bench", Splitting())
    run = repo.runs.open("first", lease=timedelta(days=1))
    record, fork = run.record, repo.stores.refs.branches.get(run.branch)
    refs, runs = f"refs:{repo.stores.uid}", f"runs:{repo.stores.uid}"
    keys = [f"flights 2013-01-01T05:00Z {number:06d}" for number in range(size)]
    made = [
        replace(
            record,
            key=key,
            branch=run_branch(key),
            opened=record.opened - timedelta(seconds=number),
        )
        for number, key in enumerate(keys)
    ]
    repo.stores.kv.set_many(refs, _branches(fork, [one.branch for one in made]))
    main = repo.stores.refs.branches.get("main")
    repo.stores.kv.set_many(refs, _branches(main, [f"dev-{number:06d}" for number in range(size)]))
    repo.stores.kv.set_many(runs, ((b"run/" + one.branch.encode(), _encode(one)) for one in made))
    repo.stores.kv.set_many(runs, ((opened_key(one), b"1") for one in made))
    due = ((_due_key(one.branch, one.lease_until), b"1") for one in made)
    repo.stores.kv.set_many(runs, due)
    assert next(iter(repo.runs.list())).state is RunState.OPEN
    return repo


def _branches(like: BranchRecord, names: Iterable[str]) -> Iterator[tuple[bytes, bytes]]:
    for name in names:
        yield branch_key(name), encode_branch(replace(like, name=name, staging_token=f"t-{name}"))


def _page(
    name: str, few: Repository, many: Repository, call: Callable[[Repository], Iterable[object]]
) -> Result:
    progress(name)
    seconds = [best(lambda: list(call(repo)), _TURNS) for repo in (few, many)]  # noqa: B023
    return Result(
        f"{name}, of {MANY:,} runs and {MANY:,} branches",
        f"{seconds[1] * 1e3:.1f} ms",
        "at most 100 ms",
        seconds[1] <= 0.1,
        f"{seconds[1] / seconds[0]:.1f} times one of {FEW:,}",
    )


def _command(folder: Path, group: str) -> Result:
    progress(f"graveler {group} list")

    def seconds(place: str) -> float:
        command = (sys.executable, "-m", "graveler.cli", "-C", str(folder / place), group, "list")
        return best(
            lambda: subprocess.run(
                [*command, "--limit", str(PAGE)], check=True, stdout=subprocess.DEVNULL
            ),
            _TURNS,
        )

    few, many = seconds("few"), seconds("many")
    return Result(
        f"graveler {group} list --limit 50, of {MANY:,}, beyond the same of {FEW:,}",
        f"{(many - few) * 1e3:.0f} ms",
        "at most 100 ms",
        many - few <= 0.1,
        f"{many * 1e3:.0f} ms in all, the start of the process included",
    )


def _deletion(place: Path) -> Result:
    progress(f"a name with {LIVES:,} earlier lives")
    lake, repo = new_repository(place, "bench", Splitting())
    with lake:
        for _ in range(LIVES + 1):
            repo.create_branch("feature")
            repo.delete_branch("feature")
        repo.create_branch("feature")
    process = Process()
    with watched_lake(place, process) as watched:
        counted = watched.repository("bench")
        counted.create_branch("other")
        counted.delete_branch("other")  # the first move of a process counts in the storage, too
        time.sleep(1)  # until its staged writes are dropped, in the background
        process.calls.clear()
        counted.delete_branch("feature")
    return Result(
        f"calls to the key-value store to delete a branch whose name had {LIVES:,} earlier lives",
        f"{len(process.calls)}",
        "at most 5",
        len(process.calls) <= 5,
        ", ".join(call.name for call in process.calls),
    )


def _retention(place: Path) -> Result:
    progress(f"a history of {COMMITS:,} commits, and {BRANCHES} branches on it")
    lake, repo = new_repository(place, "bench", Splitting())
    with lake:
        refs = repo.stores.refs
        history = list(_history(repo.commit("main"), COMMITS))
        refs.commits.add_all(history)
        main, predicate = refs.branches.get_for_update("main")
        refs.branches.replace(replace(main, commit_id=history[-1].id), predicate)
        repo.gc.keep(count=100)

        def mark() -> None:
            repo.gc.mark(dry_run=True)

        alone = best(mark, 3)
        for number in range(1, BRANCHES):
            source = history[-1 - number * (COMMITS // BRANCHES)].id
            repo.create_branch(f"dev-{number}", source)
        together = best(mark, 3)
    return Result(
        f"a mark with a rule over {BRANCHES} branches of {COMMITS:,} commits, against one branch",
        f"{together / alone:.2f} times as long",
        "at most 2",
        together <= 2 * alone,
        f"{together:.2f} s against {alone:.2f} s",
    )


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
        parent = replace(
            commit,
            id=commit_id(
                metarange=commit.metarange,
                parents=commit.parents,
                message=commit.message,
                committer=commit.committer,
                created=commit.created,
                metadata=commit.metadata,
            ),
        )
        yield parent
