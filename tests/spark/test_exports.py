"""Exports without Spark: what a task copies, and the record in the target."""

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import graveler
from graveler.errors import CorruptionError, InvalidInputError, ObjectNotFoundError, StateError
from graveler.objects.store import PIECE_BYTES
from graveler.reads.local.downloads import MOST_FAULTS
from graveler.reads.local.export import Copier, Export, begin, destination, end
from graveler.reads.stores import FileStores
from graveler.repository.imports.tasks import decode_fault
from graveler.spark.tasks.checks import ObjectTask, RangeTask
from graveler.spark.tasks.exports import CopyTask, export

FIELDS = ("path", "address", "size", "checksum", "version")


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("flights")


@pytest.fixture
def place(tmp_path):
    return tmp_path / "out"


def task(repo, place, prefix=""):
    """Return a pickled and unpickled task, as in another process."""
    target = destination(repo.stores, place)
    return pickle.loads(pickle.dumps(CopyTask(Copier(FileStores.of(repo.stores), target, prefix))))


def run(made, rows):
    """Run a task on rows; return its results and the errors by path."""
    schema = pa.schema([(name, pa.int64() if name == "size" else pa.string()) for name in FIELDS])
    batches = pa.Table.from_pylist(rows, schema).to_batches(max_chunksize=7)
    results = [row for batch in made(iter(batches)) for row in batch.to_pylist()]
    faults = {
        row["path"]: decode_fault(row["fault"]) for row in results if row["fault"] is not None
    }
    return sum(row["files"] for row in results), sum(row["bytes"] for row in results), faults


def rows(view, prefix=""):
    return [{name: getattr(entry, name) for name in FIELDS} for entry in view.entries(prefix)]


def gone(*paths):
    return [dict.fromkeys(FIELDS) | {"path": path} for path in paths]


def there(place):
    files = (file for file in Path(place).rglob("*") if file.is_file())
    names = {file.relative_to(place).as_posix(): file.read_bytes() for file in files}
    return {name: body for name, body in names.items() if not name.startswith(".graveler-")}


def test_a_task_may_copy_and_delete_twice(repo, place, tmp_path):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/raw.csv").write_bytes(b"raw")
    repo.links.allow(str(tmp_path / "outside"))
    main = repo.branch("main")
    bodies = {f"t/{number:02}.csv": b"%d" % number for number in range(20)}
    bodies |= {"t/large": b"x" * (PIECE_BYTES + 1), "t/empty": b""}
    for path, body in bodies.items():
        main.put(path, body)
    main.link("t/linked.csv", address=f"file://{tmp_path}/outside/raw.csv")
    main.put("other", b"other")
    wanted = {path[2:]: body for path, body in bodies.items()} | {"linked.csv": b"raw"}
    made = task(repo, place, "t/")
    for _ in range(2):
        size = sum(map(len, wanted.values()))
        assert run(made, rows(main, "t/")) == (len(wanted), size, {})
        assert there(place) == wanted
    del wanted["03.csv"], wanted["large"]
    for _ in range(2):
        assert run(made, gone("t/03.csv", "t/large")) == (2, 0, {})
        assert there(place) == wanted


def test_files_that_cannot_be_copied_are_named(repo, place):
    main = repo.branch("main")
    for path in ("a/b", "c", "lost", "_SUCCESS", ".graveler-export", "spoilt"):
        main.put(path, path.encode())
    (place / "c").mkdir(parents=True)
    (place / "c" / "d").write_bytes(b"in the way")
    objects = repo.stores.objects
    objects.delete(main.stat("lost").address)
    objects.put(main.stat("spoilt").address, b"SPOILT")
    files, size, faults = run(task(repo, place), rows(main))
    assert (files, size) == (1, 3)
    kinds = {path: type(error) for path, error in faults.items()}
    assert kinds == {
        "_SUCCESS": InvalidInputError,
        ".graveler-export": InvalidInputError,
        "c": InvalidInputError,
        "lost": ObjectNotFoundError,
        "spoilt": CorruptionError,
    }
    assert "writes a file of that name" in str(faults["_SUCCESS"])
    assert there(place) == {"a/b": b"a/b", "c/d": b"in the way"}


def test_a_task_ends_after_many_faults(repo, place):
    main = repo.branch("main")
    entry = main.put("lost", b"lost")
    repo.stores.objects.delete(entry.address)
    many = rows(main) * (3 * MOST_FAULTS)
    results = [batch.to_pylist() for batch in task(repo, place)(iter([_batch(many)]))]
    assert sum(map(len, results)) == MOST_FAULTS


def _batch(values):
    return pa.RecordBatch.from_pylist(values)


def test_tasks_of_files_get_no_key_value_store(repo, place):
    stores = repo.stores
    looking = ObjectTask(FileStores.of(stores), "exist"), RangeTask(stores.ranges, entries=True)
    for each in (task(repo, place), *looking):
        sent = pickle.dumps(each)
        assert str(Path(repo.storage).name).encode() in sent
        for secret in (b"kv", b"sqlite", b"refs"):
            assert secret not in sent.lower()


def test_the_record_says_which_version_is_there(repo, place):
    target = destination(repo.stores, place)
    first, second = Export("flights", "a1", "t/"), Export("flights", "b2", "t/", since="a1")
    begin(target, first)
    end(target, first)
    assert b'"commit":"a1"' in target.get("_SUCCESS")
    for other in (
        Export("flights", "c3", "t/", since="b2"),
        Export("flights", "b2", "", since="a1"),
        Export("weather", "b2", "t/", since="a1"),
    ):
        with pytest.raises(StateError, match="has commit a1 of 'flights', folder 't/'; it is not"):
            begin(target, other)
    assert there(place)
    for now in (second, second, Export("flights", "d4")):
        begin(target, now)
        assert there(place) == {}
        end(target, now)
    target.put("_SUCCESS", b"")
    with pytest.raises(
        CorruptionError, match="out/_SUCCESS, where the record of an export should be"
    ):
        begin(target, second)
    begin(target, first)  # a full export ignores what is there
    assert there(place) == {}


def test_changes_are_not_exported_to_what_was_never_there(repo, place):
    target = destination(repo.stores, place)
    changes = Export("flights", "b2", since="a1")
    with pytest.raises(
        StateError, match=r"has no _SUCCESS.*export without since, which copies all"
    ):
        begin(target, changes)
    assert not place.exists()
    begin(target, Export("flights", "a1"))  # it does not end
    for other in (changes, Export("flights", "a1", since="a1")):
        with pytest.raises(
            StateError, match=r"has some of the files of commit a1.*has begun there"
        ):
            begin(target, other)
    begin(target, Export("flights", "a1"))
    end(target, Export("flights", "a1", files=7))
    for _ in range(2):
        begin(target, changes)  # it does not end
    for other in (Export("flights", "c3", since="a1"), Export("flights", "c3", since="b2")):
        with pytest.raises(StateError, match="an export since a1 has begun there and not ended"):
            begin(target, other)
    begin(target, Export("flights", "c3"))
    end(target, Export("flights", "c3"))
    assert [info.key for info in target.list()] == ["_SUCCESS"]


def test_no_export_goes_where_the_lake_is_or_has_no_files(repo, place, tmp_path):
    with pytest.raises(ObjectNotFoundError, match="nothing below 'nope/'"):
        export(repo, "main", place, prefix="nope")
    assert not place.exists()
    storage = Path(repo.storage.removeprefix("file://"))
    for wrong in (storage, storage / "data/x", tmp_path / "lake"):
        with pytest.raises(InvalidInputError, match=r"export to another place|lake's"):
            destination(repo.stores, wrong)
