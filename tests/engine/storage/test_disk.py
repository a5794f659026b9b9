"""A full or failing disk, below objects or below the key-value store, at every point.

In every case the caller gets one of our errors, which says what to do, the branch is old or
new, and the repository is sound. When space is free again, a repetition completes the operation.
"""

import errno
import os
import shutil
import sqlite3
import stat
from contextlib import closing, contextmanager
from itertools import count

import pytest

import graveler
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    OutcomeUnknownError,
    StorageFullError,
)
from tests.harness.disk import OPERATIONS, looks, prepared, repeated
from tests.harness.programs import output_of


def attempted(folder, operate):
    """Run the operation in a newly opened lake; return its error or None."""
    try:
        with graveler.open(folder) as lake:
            operate(lake.repository("flights"))
    except GravelerError as error:
        return error
    return None


@pytest.fixture
def lakes(tmp_path):
    """Makes copies of a prepared lake, always in one folder, because its storage has full paths."""
    folder, kept = tmp_path / "lake", tmp_path / "kept"
    shutil.copytree(prepared(folder), kept)
    with closing(sqlite3.connect(kept / "kv.sqlite3")) as connection:
        connection.execute("VACUUM")  # free pages in the file would be used first

    def fresh():
        shutil.rmtree(folder)
        return shutil.copytree(kept, folder)

    return fresh


def strike_each(lakes, operate, limited, kinds, *, whole=True):
    """Relax the limit until the operation succeeds; return the errors.

    Args:
        lakes: Makes copies of a lake.
        operate: The operation.
        limited: A context in which the disk fails, for the lake's folder and a number from 1. It
            gives a list, which is not empty if the disk failed and a higher number is due.
        kinds: The allowed errors.
        whole: The operation is atomic.
    """
    folder = lakes()
    old = looks(folder)
    new = repeated(folder, operate)
    errors: list[GravelerError] = []
    for number in count(1):
        folder = lakes()
        with limited(folder, number) as hits:
            error = attempted(folder, operate)
        seen = looks(folder)
        if error is None:
            assert seen == new
            if not hits:
                return errors
            continue  # the failure was in work that can wait
        assert type(error) in kinds, repr(error)
        assert not whole or seen in (old, new)
        assert repeated(folder, operate) == new
        errors.append(error)
    raise AssertionError("it never got through")


def failing(name, code):
    """Return a context in which call `number` of a function of `os` fails."""

    @contextmanager
    def limited(folder, number):
        del folder
        call, numbers = getattr(os, name), count(1)
        hits = []

        def struck(descriptor, *given):
            if next(numbers) != number:
                return call(descriptor, *given)
            hits.append(number)
            if name == "fsync" and stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.ftruncate(descriptor, 0)  # a disk may lose data that it cannot flush
            raise OSError(code, os.strerror(code))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, name, struck)
            yield hits

    return limited


@contextmanager
def full_database(folder, number):
    """A context in which the database has room for twice `number` - 1 more pages."""
    with closing(sqlite3.connect(folder / "kv.sqlite3")) as connection:
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connect = sqlite3.connect

    def bounded(*given, **named):
        connection = connect(*given, **named)
        connection.execute(f"PRAGMA max_page_count = {pages + 2 * (number - 1)}").close()
        return connection

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite3, "connect", bounded)
        yield []


BROKEN = {BackendUnavailableError, OutcomeUnknownError}


@pytest.mark.parametrize("operation", ["put", "commit", "merge"])
@pytest.mark.parametrize(
    ("call", "code", "kinds", "said"),
    [
        ("write", errno.ENOSPC, {StorageFullError}, "free some space"),
        ("fsync", errno.EIO, BROKEN, "the disk"),
    ],
    ids=["full", "failing"],
)
def test_a_disk_that_takes_no_objects(lakes, operation, call, code, kinds, said):
    errors = strike_each(lakes, OPERATIONS[operation], failing(call, code), kinds)
    assert {type(error) for error in errors} == kinds
    assert all(said in str(error) for error in errors)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_database_without_room(operation, lakes):
    whole = operation not in {"link-many", "create-branches"}
    errors = strike_each(
        lakes, OPERATIONS[operation], full_database, {StorageFullError}, whole=whole
    )
    assert errors
    assert all("free space on its disk and repeat" in str(error) for error in errors)


@pytest.mark.parametrize("kv_uri", ["sqlite://kv.sqlite3", "rocksdb://kv"])
def test_a_call_without_free_descriptors_names_the_reason(tmp_path, kv_uri):
    assert output_of("engine.storage.programs.without_descriptors", tmp_path, kv_uri) == ""
