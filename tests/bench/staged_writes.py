"""Staged writes: their rate, and the cost of sealed tokens for a listing."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from graveler.config import load_config
from graveler.lake import Branch, Lake, Repository
from graveler.lake.factory import connect, write_default_config
from graveler.model import Entry
from graveler.testing.world import link_unseen
from tests.bench.lakes import entries, new_repository
from tests.bench.measure import (
    Result,
    at_most,
    clocked,
    ms,
    percentile,
    progress,
    reported,
    timed,
)

COUNT = 200_000
TOKENS = 5
PATHS = 1_000
TURNS = 60
_DIED = 97


def staged_writes(folder: Path) -> list[Result]:
    """Measure the staging of many entries, and listings over sealed tokens."""
    prepared = list(entries("input", COUNT))
    names = {"sqlite": "SQLite", "rocksdb": "RocksDB"}
    return [
        *(_rate(folder / scheme, scheme, name, prepared) for scheme, name in names.items()),
        *_sealed(folder / "sealed"),
    ]


def _rate(folder: Path, scheme: str, name: str, prepared: list[Entry]) -> Result:
    progress(f"staging {COUNT:,} entries three times: {name}")
    write_default_config(folder, kv_uri=f"{scheme}://kv")
    with connect(load_config(folder)) as lake:
        repo = lake.create_repository("bench")
        seconds = []
        for number in range(3):
            branch = repo.create_branch(f"turn-{number}")
            seconds.append(timed(lambda: link_unseen(branch, prepared)))  # noqa: B023 - called now
    return reported(
        f"staged writes in batches, {name}",
        f"{COUNT / percentile(seconds, 0.5):,.0f} entries/s",
        f"link_many of {COUNT:,}, one process",
    )


def _sealed(folder: Path) -> list[Result]:
    """List the same thousand paths over five sealed tokens and over none.

    Each token was sealed by a committer that died before its first range was put.
    """
    progress(f"listings over {TOKENS} sealed tokens and over none")
    lake, repo = new_repository(folder, "bench")
    with lake:
        committed = list(entries("input", PATHS))
        changed = [replace(entry, size=entry.size + 1) for entry in committed]
        main = repo.branch("main")
        link_unseen(main, committed)
        main.commit("a thousand paths")
        views = {name: repo.create_branch(name) for name in ("none", "sealed", "live", "spread")}
        link_unseen(views["live"], changed)
        for token in range(TOKENS):
            link_unseen(views["sealed"], [changed[token * 7]])
            _die_committing(folder, "sealed")
            link_unseen(views["spread"], changed[token::TOKENS])
            _die_committing(folder, "spread")
        for name in ("sealed", "spread"):
            tokens = len(repo.stores.refs.branches.get(name).sealed_tokens)
            assert tokens == TOKENS, f"{name} has {tokens} sealed tokens"
        seconds: dict[str, list[float]] = {name: [] for name in views}
        for _ in range(TURNS):
            for name, view in views.items():
                seconds[name].append(clocked(lambda: _list(view)))  # noqa: B023 - called now
    medians = {name: percentile(times, 0.5) for name, times in seconds.items()}
    over = f"listing of {PATHS:,} committed paths over {TOKENS} sealed tokens, each with"
    none, one, live, spread = (medians[name] for name in ("none", "sealed", "live", "spread"))
    return [
        at_most(
            f"{over} one of them",
            one / none,
            2,
            "a listing with nothing staged",
            f"{ms(one)} and {ms(none)}, medians of {TURNS}",
        ),
        at_most(
            f"{over} a fifth of them",
            spread / live,
            1.5,
            "a listing with all of them in one token",
            f"{ms(spread)} and {ms(live)}, medians of {TURNS}",
        ),
    ]


def _list(view: Branch) -> None:
    if sum(1 for _ in view.list()) != PATHS:
        raise AssertionError(f"a listing of {view.name} is not whole")


def _die_committing(folder: Path, branch: str) -> None:
    """Run a process that dies in its commit of `branch`, after the seal."""
    done = subprocess.run([sys.executable, "-m", "tests.bench.staged_writes", str(folder), branch])
    if done.returncode != _DIED:
        raise AssertionError(f"the committer did not die in its commit: {done.returncode}")


def _dying_committer(lake: Lake, repo: Repository, branch: str) -> None:
    def die(*_: object) -> NoReturn:
        os._exit(_DIED)

    objects = repo.stores.objects
    objects.put_if_absent = objects.put_all_if_absent = die  # type: ignore[method-assign, assignment]
    repo.branch(branch).commit("never")


if __name__ == "__main__":
    with connect(load_config(sys.argv[1])) as opened:
        _dying_committer(opened, opened.repository("bench"), sys.argv[2])
