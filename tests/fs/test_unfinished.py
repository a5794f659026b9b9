"""A file that is dropped open, or closed during an error, is neither committed nor forgotten."""

import contextlib
import gc
import gzip
import io
import pickle
from typing import Any

import duckdb
import fsspec
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from graveler.errors import UnfinishedFileError
from graveler.fs import GravelerFileSystem, close_lakes, storage_options, url

PATH = "flights/dev/a"


@pytest.fixture
def dev(repo):
    branch = repo.branch("dev")
    branch.put("a", b"good")
    branch.commit("good")
    branch.put("b", b"staged")
    return branch


def forget():
    """Collect what was just dropped. The old objects of the process are many, and take long."""
    gc.collect(1)


def drop(grav, path=PATH):
    grav.open(path, "wb").write(b"half")
    forget()


def close_in_an_error(grav, path=PATH):
    with contextlib.suppress(RuntimeError):
        file = grav.open(path, "wb")
        try:
            file.write(b"half")
            raise RuntimeError("broken")
        finally:
            file.close()


def raise_from_a_wrapper(grav, path=PATH, **how):
    with contextlib.suppress(RuntimeError), grav.open(path, **how) as file:
        file.write("half" if how["mode"] == "w" else b"half")
        raise RuntimeError("broken")


def drop_text(grav, path=PATH):
    grav.open(path, "w").write("half")
    forget()


def drop_wrapper(grav, path=PATH):
    io.TextIOWrapper(grav.open(path, "wb")).write("half")
    forget()


def drop_two_wrappers(grav, path=PATH):
    io.TextIOWrapper(io.BufferedWriter(grav.open(path, "wb"))).write("half")
    forget()


def drop_fsspec(grav, path=PATH):
    fsspec.open(f"grav://{path}", "w", lake=grav.location).open().write("half")
    forget()


def keep_open(grav, path=PATH):
    kept.append(grav.open(path, "wb"))
    kept[-1].write(b"half")


def flush_hard(grav, path=PATH):
    keep_open(grav, path)
    kept[-1].flush(True)


kept: list[Any] = []
WAYS = [drop, drop_text, drop_wrapper, drop_two_wrappers, drop_fsspec, close_in_an_error]
OPEN = [keep_open, flush_hard]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("leave", WAYS + OPEN)
def test_the_next_commit_names_an_unfinished_file(grav, dev, leave):
    leave(grav)
    assert dev.get("a") == b"good"
    before = dev.head
    for commit in (
        lambda: dev.commit("c"),
        lambda: grav.commit("flights/dev", "c"),
        lambda: dev.commit("c", paths=["a"]),
        lambda: dev.commit_changes([dev.stat("b")], message="c"),
    ):
        with pytest.raises(UnfinishedFileError, match="'dev': 'a': not closed") as refused:
            commit()
        again = pickle.loads(pickle.dumps(refused.value))
        assert (type(again), str(again)) == (UnfinishedFileError, str(refused.value))
    assert dev.head == before
    assert dev.commit("other paths", paths=["b"]).message == "other paths"


SETTLED = [
    (lambda grav, dev: grav.unfinished(PATH).accept(), b"half"),
    (lambda grav, dev: grav.pipe(PATH, b"new"), b"new"),
    (lambda grav, dev: dev.put("a", b"new"), b"new"),
    (lambda grav, dev: dev.copy(dev, "b", "a"), b"staged"),
    (lambda grav, dev: dev.move("b", "a"), b"staged"),
    (lambda grav, dev: dev.delete("a"), None),
    (lambda grav, dev: grav.unfinished(PATH).discard(), b"good"),
]


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(
    ("leave", "settle", "content"),
    [(leave, *SETTLED[0]) for leave in WAYS]
    + [(leave, *settled) for leave in (drop, close_in_an_error) for settled in SETTLED[1:]],
)
def test_a_file_written_again_discarded_or_accepted_is_settled(grav, dev, leave, settle, content):
    leave(grav)
    settle(grav, dev)
    dev.commit("done")
    assert (dev.get("a") if dev.exists("a") else None) == content
    with pytest.raises(FileNotFoundError, match="no unfinished file"):
        grav.unfinished(PATH).accept()


def test_a_reset_discards_unfinished_files(grav, repo, dev):
    close_in_an_error(grav)
    dev.reset()
    dev.put("c", b"")
    dev.commit("c")
    close_in_an_error(grav)
    repo.delete_branch("dev")
    made = repo.create_branch("dev")
    made.put("c", b"")
    made.commit("c")


def test_changes_of_the_path_itself_settle_it(grav, dev):
    close_in_an_error(grav)
    dev.commit_changes([dev.store("a", b"new")], message="new")
    dev.commit("the staged file")
    assert dev.get("a") == b"new"


@pytest.mark.parametrize(
    "how", [{"mode": "wb"}, {"mode": "w"}, {"mode": "wb", "compression": "gzip"}]
)
def test_a_block_that_an_exception_leaves_discards_the_file(grav, dev, how):
    raise_from_a_wrapper(grav, **how)
    forget()
    dev.commit("the staged file")
    assert dev.get("a") == b"good"


def test_a_compressed_file_is_kept(grav, dev):
    with grav.open("flights/dev/a.gz", "wb", compression="infer") as file:
        file.write(b"whole")
    with grav.open("flights/dev/a.gz", "rt", compression="infer") as file:
        assert file.read() == "whole"
    with grav.open("flights/dev/b.gz", "wt", compression="infer") as file:
        file.write("text")
    with grav.open("flights/dev/b.gz", "rb", compression="infer") as file:
        assert file.read() == b"text"
    with grav.open("flights/dev/b.gz", "ab", compression="infer") as file:
        file.write(b", more")
    assert gzip.decompress(grav.cat("flights/dev/b.gz")) == b"text, more"


def test_a_file_that_cannot_be_opened_is_not_unfinished(grav, dev):
    with pytest.raises(LookupError, match="nonsense"):
        grav.open(PATH, "w", encoding="nonsense")
    with pytest.raises(ValueError, match="nonsense"):
        grav.open(PATH, "wb", compression="nonsense")
    forget()
    dev.commit("the staged file")


def test_an_older_exception_does_not_matter(grav, dev):
    with contextlib.suppress(KeyError):
        raise_and_write(grav)
    dev.commit("all")
    assert dev.get("a") == b"new"


def raise_and_write(grav):
    try:
        raise KeyError("no such file yet")
    finally:
        with grav.open(PATH, "wb") as file:
            file.write(b"new")
        file = grav.open("flights/dev/c", "wb")
        with contextlib.suppress(ValueError):
            raise ValueError
        file.close()
        with contextlib.suppress(LookupError):
            try:
                raise LookupError
            finally:
                outlives = grav.open("flights/dev/d", "wb")
        outlives.close()  # while the KeyError is handled, which is older


def test_a_transaction_with_an_unfinished_file_commits_nothing(grav, dev):
    before = dev.head
    with pytest.raises(UnfinishedFileError, match="'a'"), grav.transaction:
        grav.pipe("flights/dev/c", b"c")
        close_in_an_error(grav)
    assert dev.head == before
    grav.unfinished(PATH).discard()
    with grav.transaction:
        close_in_an_error(grav)
        grav.unfinished(PATH).accept()
    assert dev.head.id != before.id
    assert dev.get("a") == b"half"


def test_a_step_with_an_unfinished_file_does_not_join(lake, repo):
    run = repo.runs.open("hour 05")
    with pytest.raises(UnfinishedFileError), run.step("load") as step:
        close_in_an_error(GravelerFileSystem(**storage_options(step)), url(step, "a"))
    with run.step("load") as step:
        step.put("b", b"")
    close_in_an_error(GravelerFileSystem(**storage_options(run)), url(run, "c"))
    with pytest.raises(UnfinishedFileError):
        run.publish()
    GravelerFileSystem(**storage_options(run)).unfinished(url(run, "c")).discard()
    run.publish()
    assert [entry.path for entry in repo.ref("main").entries()] == ["b"]


@pytest.mark.parametrize("leave", OPEN)
def test_an_open_file_is_closed_accepted_or_discarded(grav, dev, leave):
    leave(grav)
    dev.put("a", b"meanwhile")
    with pytest.raises(UnfinishedFileError):
        dev.commit("c")
    kept[-1].close()
    dev.commit("closed")
    assert dev.get("a") == b"half"
    leave(grav, "flights/dev/c")
    grav.unfinished("flights/dev/c").discard()
    assert kept[-1].closed
    dev.put("b", b"other")
    dev.commit("without it")
    leave(grav, "flights/dev/c")
    grav.unfinished("flights/dev/c").accept()
    dev.commit("with it")
    assert dev.get("c") == b"half"


def test_open_files_of_other_branches_do_not_matter(grav, repo, dev):
    repo.create_branch("other", "dev")
    keep_open(grav, "flights/other/a")
    dev.commit("the staged file")


FRAME = pd.DataFrame({"hour": ["05:00", "05:00", "06:00"], "flight": [1, 2, 3]})


def dropped_parquet_writer(fs, path):
    table = pa.table({"a": [1, 2, 3]})
    pq.ParquetWriter(path, table.schema, filesystem=fs).write_table(table)
    raise RuntimeError("broken")


class Keeper:
    """Closes its file when it is dropped, as writers of libraries do."""

    def __init__(self, fs, path):
        self.file = fs.open(path, "w")
        self.file.write("half")

    def __del__(self):
        self.file.close()


def dropped_keeper(fs, path):
    Keeper(fs, path)
    raise RuntimeError("broken")


def batches():
    yield pa.record_batch({"a": list(range(100_000))})
    raise RuntimeError("broken")


def arrow_dataset(fs, path):
    schema = pa.schema({"a": pa.int64()})
    ds.write_dataset(
        batches(),
        path.rpartition("/")[0],
        schema=schema,
        format="parquet",
        filesystem=fs,
        basename_template="a{i}",
        existing_data_behavior="overwrite_or_ignore",
    )


def duckdb_copy(fs, path):
    with duckdb.connect() as db:
        db.register_filesystem(fs)
        db.execute(
            "CREATE VIEW halves AS SELECT CASE WHEN i < 150000 THEN i ELSE error('broken') END "
            "FROM range(200000) r(i)"
        )
        db.execute(f"COPY halves TO 'grav://{path}' (FORMAT csv)")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "write",
    [
        dropped_parquet_writer, dropped_keeper, arrow_dataset, duckdb_copy,
    ],
)  # fmt: skip
def test_a_library_that_fails_halfway_does_not_replace_the_file(folder_lake, write):
    dev = folder_lake.repository("flights").branch("dev")
    dev.put_many({"a": b"good", "a0": b"good"})
    dev.commit("good")
    fs = GravelerFileSystem(folder_lake.location)
    with pytest.raises((RuntimeError, duckdb.Error), match="broken"):
        write(fs, PATH)
    forget()
    assert [dev.get("a"), dev.get("a0")] == [b"good", b"good"]
    assert list(dev.uncommitted()) == []


def test_a_file_that_is_opened_as_its_writer_goes_is_staged(grav, dev):
    class Last:
        def __del__(self):
            grav.pipe(PATH, b"new")
            with grav.open("flights/dev/c", "wb") as file:
                file.write(b"c")

    Last()
    forget()
    dev.commit("all")
    assert [dev.get("a"), dev.get("c")] == [b"new", b"c"]


def test_duckdb_exports_and_imports_a_database(folder_lake):
    fs = GravelerFileSystem(folder_lake.location)
    dev = folder_lake.repository("flights").branch("dev")
    with duckdb.connect() as db:
        db.register_filesystem(fs)
        db.execute("CREATE TABLE flown AS SELECT * FROM FRAME")
        with fs.finishing():
            db.execute("EXPORT DATABASE 'grav://flights/dev/dump' (FORMAT parquet)")
        dev.commit("dump")
    with duckdb.connect() as db:
        db.register_filesystem(fs)
        db.execute("IMPORT DATABASE 'grav://flights/dev/dump'")
        assert db.execute("SELECT sum(flight) FROM flown").fetchone() == (6,)


def test_files_of_a_statement_that_fails_are_discarded(grav, dev):
    kept = []
    with pytest.raises(RuntimeError), grav.finishing():
        kept.append(grav.open(PATH, "wb"))
        kept[0].write(b"half")
        raise RuntimeError
    assert kept[0].closed
    dev.commit("the staged file")
    with grav.transaction, grav.finishing():
        kept.append(grav.open(PATH, "wb"))
        kept[1].write(b"whole")
    assert dev.get("a") == b"whole"


@pytest.fixture(autouse=True)
def _closed():
    yield
    while kept:
        kept.pop().discard()
    close_lakes()
