"""Staged writes: how fast they come in, and what sealed tokens cost who reads past them."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from graveler.committed import Splitting
from graveler.config import load_config, write_default_config
from graveler.lake import Branch, Lake, Repository
from graveler.lake.factory import connect
from graveler.model import Entry
from graveler.testing.world import link_unseen
from tests.bench.lakes import entries, new_repository
from tests.bench.measure import Result, clocked, percentile, progress, timed

COUNT = 200_000
TOKENS = 5
PATHS = 1_000


def staging(folder: Path) -> list[Result]:
    """Measure the staging of many entries, and listings over sealed tokens."""
    prepared = list(entries("input", COUNT))
    rates = {
        scheme: _rate(folder / scheme, f"{scheme}://kv", prepared)
        for scheme in ("sqlite", "rocksdb")
    }
    bounds = {"sqlite": ("SQLite", 20_000), "rocksdb": ("RocksDB", 60_000)}
    return [
        *(
            Result(
                f"staged writes in batches, {name}",
                f"{rates[scheme]:,.0f} entries/s",
                f"at least {least:,}/s",
                rates[scheme] >= least,
                f"link_many of {COUNT:,}, one process",
            )
            for scheme, (name, least) in bounds.items()
        ),
        *_sealed(folder / "sealed"),
    ]


def _rate(folder: Path, kv_uri: str, prepared: list[Entry]) -> float:
    progress(f"staging {COUNT:,} entries three times: {kv_uri}")
    write_default_config(folder, kv_uri=kv_uri)
    with connect(load_config(folder)) as lake:
        repo = lake.create_repository("bench")
        seconds = []
        for number in range(3):
            branch = repo.create_branch(f"turn-{number}")
            seconds.append(timed(lambda: link_unseen(branch, prepared)))  # noqa: B023 - called now
        return COUNT / sorted(seconds)[1]


def _sealed(folder: Path) -> list[Result]:
    """List the same thousand paths over five sealed tokens and over none.

    Each token was sealed by a committer that died before its first range was put.
    """
    progress(f"listings over {TOKENS} sealed tokens and over none")
    lake, repo = new_repository(folder, "bench", Splitting())
    with lake:
        there = list(entries("input", PATHS))
        fresh = [replace(one, size=one.size + 1) for one in there]
        main = repo.branch("main")
        link_unseen(main, there)
        main.commit("a thousand paths")
        views = {name: repo.create_branch(name) for name in ("none", "sealed", "live", "spread")}
        link_unseen(views["live"], fresh)
        for token in range(TOKENS):
            link_unseen(views["sealed"], [fresh[token * 7]])
            _die_committing(folder, "sealed")
            link_unseen(views["spread"], fresh[token::TOKENS])
            _die_committing(folder, "spread")
        tokens = {
            name: len(repo.stores.refs.branches.get(name).sealed_tokens)
            for name in ("sealed", "spread")
        }
        seconds: dict[str, list[float]] = {name: [] for name in views}
        for _ in range(60):
            for name, view in views.items():
                seconds[name].append(clocked(lambda: _listed(view)))  # noqa: B023 - called now
    medians = {name: percentile(times, 0.5) for name, times in seconds.items()}
    return [
        _listing_result("each with one of them", "sealed", medians, tokens),
        _listing_result("each with a fifth of them", "spread", medians, tokens),
    ]


def _listing_result(
    what: str, over: str, medians: dict[str, float], tokens: dict[str, int]
) -> Result:
    ratio = medians[over] / medians["none"]
    return Result(
        f"listing of 1,000 committed paths over {tokens[over]} sealed tokens, {what}",
        f"{ratio:.2f} times one over none",
        "at most 1.5",
        ratio <= 1.5 and tokens[over] == TOKENS,
        f"{medians[over] * 1000:.2f} ms against {medians['none'] * 1000:.2f} ms with nothing "
        f"staged; {medians['live'] * 1000:.2f} ms with all of them in the live token",
    )


def _listed(view: Branch) -> None:
    if sum(1 for _ in view.list()) != PATHS:
        raise AssertionError(f"a listing of {view.name} is not whole")


def _die_committing(folder: Path, branch: str) -> None:
    """Let a process die in its commit of `branch`, after the seal."""
    done = subprocess.run([sys.executable, "-m", "tests.bench.staging", str(folder), branch])
    if done.returncode != _DIED:
        raise AssertionError(f"the committer did not die in its commit: {done.returncode}")


_DIED = 97


def _dying_committer(lake: Lake, repo: Repository, branch: str) -> None:
    def die(*_: object) -> bool:
        os._exit(_DIED)

    repo.stores.objects.put_if_absent = die  # type: ignore[method-assign, assignment]
    repo.branch(branch).commit("never")


if __name__ == "__main__":
    with connect(load_config(sys.argv[1])) as opened:
        _dying_committer(opened, opened.repository("bench"), sys.argv[2])
