"""A range cache whose writers are killed: later reads return what was written."""

import os
from pathlib import Path
from random import Random

import pytest

from tests.real.torture.databases import rack
from tests.real.torture.fork_server import ForkServer
from tests.real.torture.lakes import CACHES, Options, open_lake, open_repository, prepare
from tests.real.torture.operations import pool_entry
from tests.real.torture.victim import Plan

KILLS = 50  # for each cache
READS = 25  # for each cache, by processes that are killed afterwards
CYCLES = 1000  # a slow machine reads less before a kill, and needs more kills
DAY = 86_400
COMMITS = 8


@pytest.fixture
def on(tmp_path):
    with rack("sqlite", tmp_path) as given:
        yield given


@pytest.fixture
def trees(on):
    """A history of many small ranges: the tree of each commit, as victims report it."""
    random = Random(1)
    options = Options(splitting="crumbs")
    written: dict[str, dict[str, str]] = {}
    with open_lake(on.place, options) as lake:
        _, pool = prepare(lake, "flights")
        repo = open_repository(lake, "flights", options)
        tree = {path: pool_entry(path, text).checksum[-8:] for path, text in pool.items()}
        for number in range(COMMITS):
            changed = {
                f"p{random.randrange(60):02}": random.choice(list(pool.values())) for _ in range(12)
            }
            entries = [pool_entry(path, text) for path, text in changed.items()]
            repo.branch("main").link_many(entries)
            tree = tree | {entry.path: entry.checksum[-8:] for entry in entries}
            written[repo.branch("main").commit(f"commit {number}").id] = tree
    return written


def read_all(on, cache, trees):
    """Read everything as a new process; return the number of damaged files."""
    with open_lake(on.place, Options(cache=cache)) as lake:
        repo = lake.repository("flights")
        for commit, tree in trees.items():
            entries = list(repo.ref(commit).entries())
            assert {entry.path: entry.checksum[-8:] for entry in entries} == tree
        damaged: int = repo.stores.ranges.cache.damaged
        return damaged


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("cache", ["large", "tiny"])
def test_processes_killed_filling_a_cache_mislead_nobody(cache, on, trees):
    random = Random(cache)
    folder = Path(on.place.folder) / f"cache-{cache}"
    read, killed = 0, 0
    with ForkServer() as fork_server:
        for cycle in range(CYCLES):
            if killed >= KILLS and read >= READS:
                break
            plan = Plan(
                on.place,
                "flights",
                f"{cache}/{cycle}",
                task="read",
                names=tuple(trees),
                options=Options(cache=cache),
                odds=random.choice((20, 100, 800)),
                system=random.random() < 0.8,
            )
            lines = list(fork_server.raise_victim(plan, kill_after=random.uniform(0.005, 0.12)))
            killed += lines.pop()["ended"] != 0
            for line in lines:
                assert line["tree"] == trees[line["read"]]
            read += len(lines)
            if cycle % 5 == 0:
                assert read_all(on, cache, trees) == 0  # a kill damages no file
            if cycle % 7 == 3 and kept(folder):
                damage(random, folder)
                read_all(on, cache, trees)
            if random.random() < 0.3:
                for path in folder.glob("*.*"):
                    path.unlink()  # always leaves something to fill
        else:
            pytest.fail(f"{killed} killed and {read} read in {CYCLES} cycles")
    assert kept(folder) <= CACHES[cache] * 17 // 16
    check_left_behind(on, cache, trees, folder, killed)


def damage(random, folder):
    """Flip a bit of a file, or truncate it."""
    path = random.choice(sorted(folder.glob("*.*")))
    body = bytearray(path.read_bytes())
    position = random.randrange(len(body))
    if random.random() < 0.5:
        body[position] ^= 1 << random.randrange(8)
        path.write_bytes(body)
    else:
        path.write_bytes(body[:position])


def kept(folder):
    return sum(path.stat().st_size for path in folder.glob("*.*"))


def check_left_behind(on, cache, trees, folder, killed):
    """Check that killed processes leave few files, which are removed when they are old."""
    left = list((folder / "tmp").iterdir())
    assert 0 < len(left) <= 2 * killed
    for path in left:
        old = path.stat().st_mtime - 2 * DAY
        os.utime(path, (old, old))
    for path in folder.glob("*.*"):
        path.unlink()
    read_all(on, cache, trees)
    assert list((folder / "tmp").iterdir()) == []
