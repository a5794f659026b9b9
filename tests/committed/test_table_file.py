import os
from pathlib import Path

import pytest

from graveler.committed.cache.range_cache import RangeCache
from graveler.committed.cache.table import Scratch
from graveler.errors import InvalidInputError, UnsortedKeysError
from graveler.sstable.writer import TableWriter

MIB = 1 << 20


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def cache(tmp_path):
    return RangeCache(tmp_path, MIB)


def written(file):
    with TableWriter(file.path) as table:
        for number in range(1_000):
            table.records[b"key-%06d" % number] = b"value"
        table.finish(b"x" * 32, {"type": "range"})
    return file.read()


def test_a_table_has_the_same_bytes_in_memory_and_on_disk(cache, tmp_path):
    memory, disk = Scratch(cache.scratch, largest=MIB), Scratch(cache.scratch, largest=1 << 40)
    in_memory, on_disk = memory.file(), disk.file()
    assert (in_memory.on_disk, on_disk.on_disk) == (False, True)
    body = written(in_memory)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    assert body == written(on_disk)
    memory.close()
    disk.close()


def test_few_files_are_in_memory_and_closing_gives_all_back(cache, tmp_path):
    before = open_descriptors()
    scratch = Scratch(cache.scratch, largest=MIB)
    files = [scratch.file() for _ in range(20)]
    for file in files:
        written(file)
    assert open_descriptors() == before + 18
    assert [file.on_disk for file in files] == [False] * 18 + [True] * 2
    files[3].close()
    assert not scratch.file().on_disk
    assert scratch.file().on_disk
    scratch.close()
    scratch.close()
    assert open_descriptors() == before
    assert list(tmp_path.rglob("*.sst")) == []


def test_a_table_given_up_in_memory_raises_what_ended_it(cache):
    before = open_descriptors()
    scratch = Scratch(cache.scratch, largest=MIB)
    with pytest.raises(UnsortedKeysError), TableWriter(scratch.file().path) as table:
        table.records[b"b"] = b""
        table.records[b"a"] = b""
    with TableWriter(scratch.file().path) as table, pytest.raises(InvalidInputError):
        table.finish(b"x" * 32, {})
    scratch.close()
    assert open_descriptors() == before


@pytest.mark.parametrize("reason", ["no such call", "refused", "no /proc"])
def test_a_system_without_files_in_memory_writes_to_the_folder(cache, monkeypatch, reason):
    def refuse(*_):
        raise OSError

    if reason == "no such call":
        monkeypatch.delattr(os, "memfd_create")
    elif reason == "refused":
        monkeypatch.setattr(os, "memfd_create", refuse)
    else:
        monkeypatch.setattr("graveler.committed.cache.table._DESCRIPTORS", Path("/nowhere"))
    before = open_descriptors()
    scratch = Scratch(cache.scratch, largest=MIB)
    file = scratch.file()
    assert file.on_disk
    assert written(file)
    scratch.close()
    assert not file.path.exists()
    assert open_descriptors() == before
