"""A collection of ten times as many files takes little more memory."""

import signal
import subprocess
import sys
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path

import pytest

from graveler.base.background import Inline
from graveler.config import LakeConfig, program_environment
from graveler.kv.drivers.sqlite import SQLiteKVStore
from graveler.lake.lake import Lake
from graveler.model import Entry
from graveler.objects.local import LocalStore
from graveler.objects.store import ObjectInfo
from graveler.testing.clock import FakeClock, SequenceIds
from graveler.testing.world import link_unseen
from tests.harness.gc_lakes import NOW

MIB = 1 << 20
LONG_AGO = datetime(2012, 12, 1, tzinfo=UTC)


def address(number):
    """The address of one of them."""
    return f"data/s{1:016x}/{number:032x}"


class ManyFiles(LocalStore):
    """A folder that lists many data files, of which every second one is linked."""

    many = 0

    def list(self, prefix="", *, after=""):
        yield from super().list(prefix, after=after)
        for number in range(self.many if prefix == "data/" else 0):
            yield ObjectInfo(address(number), 10, "", LONG_AGO)

    def delete(self, key):
        return not key.startswith("data/") and super().delete(key)


class LakeOfMany(Lake):
    """A lake with such a folder as its storage."""

    folder = Path()

    def _open_store(self, uri):
        return self._stores.setdefault(
            uri, ManyFiles(self.folder, clock=self._clock, ids=self._ids)
        )


def peak(folder, entries):
    """Return the peak memory of a mark and a sweep, in bytes above the repository's own memory."""
    clock, ids = FakeClock(), SequenceIds()
    LakeOfMany.folder = folder / "objects"
    kv = SQLiteKVStore(folder / "kv.sqlite3")
    config = LakeConfig(str(folder), "mem://", f"file://{folder}/objects", cache_folder=None)
    with LakeOfMany(config, kv, clock=clock, ids=ids, background=Inline()) as lake:
        repo = lake.create_repository("flights")
        main = repo.branch("main")
        link_unseen(main, (Entry(f"{n:08}", address(n), 10) for n in range(0, entries, 2)))
        main.commit("all")
        objects = repo.stores.objects
        assert isinstance(objects, ManyFiles)
        objects.many = entries
        clock.sleep(86_400)
        collector = repo.gc
        tracemalloc.start()
        try:
            (mark,) = collector.run(grace=NOW, window=NOW)
            return tracemalloc.get_traced_memory()[1], mark
        finally:
            tracemalloc.stop()


@pytest.mark.slow
def test_memory_does_not_grow_with_what_is_reached(tmp_path):
    (tmp_path / "few").mkdir()
    (tmp_path / "many").mkdir()
    few, _ = peak(tmp_path / "few", 4_000)
    many, mark = peak(tmp_path / "many", 40_000)
    assert (mark.condemned["data"].count, mark.freed["data"].count) == (20_000, 20_000)
    assert mark.kept["data"].count == 20_000
    # the blocks of one range are decoded together, up to 4 MiB
    assert many < few + 5 * MIB, (few, many)


FILLED = """
import os, signal, sys
sys.path.insert(0, os.getcwd())
from graveler.gc.reachability.scratch import Scratch
with Scratch() as scratch:
    scratch.add_addresses(number.to_bytes(100) for number in range(400_000))
    print(scratch.counts(), flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_collection_leaves_no_temporary_files(tmp_path):
    places = dict.fromkeys(("TMPDIR", "SQLITE_TMPDIR"), str(tmp_path))
    done = subprocess.run(
        [sys.executable, "-c", FILLED],
        env=program_environment(places),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "(0, 400000)\n"), done.stderr
    assert list(tmp_path.iterdir()) == []
