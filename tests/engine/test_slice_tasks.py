"""Tasks that build slices, called as executors call them, without Spark."""

import pickle
from bisect import bisect_left
from pathlib import Path

import pyarrow as pa
import pytest

import graveler
from graveler.committed.slices import Cut, stitch
from graveler.committed.splitting import Cutter, Splitting
from graveler.errors import (
    BackendUnavailableError,
    GravelerError,
    NoChangesError,
    StateError,
)
from graveler.objects.local import LocalStore
from graveler.publishing.landing import CommitSpec
from graveler.repository.imports.tasks import KEY, SLICE, SliceTask, decoded, land_tree
from graveler.repository.writes.links import LinkRules

SPLITTING = Splitting("directory", max_bytes=3_000, raggedness=4, hard=4, number=3)


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("bulk", splitting=SPLITTING)
        repo.links.allow("s3://bucket/data")
        yield repo


def row(path, **others):
    return {
        "path": path,
        "address": f"s3://bucket/data/{path}",
        "size": len(path or ""),
        "etag": "1",
        "mtime": None,
        "metadata": None,
        **others,
    }


def many(count):
    return [row(f"t{n % 3}/d{n % 7}/{n * 7919 % 10007}", etag=str(n)) for n in range(count)]


def batches(rows, number, size=100):
    kinds = {KEY: pa.binary(), SLICE: pa.int32(), "metadata": pa.map_(pa.string(), pa.string())}
    for start in range(0, len(rows), size):
        columns: dict[str, list[object]] = {KEY: [], SLICE: []}
        for each in rows[start : start + size]:
            path = each["path"]
            columns[KEY].append(None if path is None else path.encode())
            columns[SLICE].append(number)
            for name in each.keys() - {"path"}:
                columns.setdefault(name, []).append(each[name])
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, kinds.get(name)) for name, column in columns.items()], list(columns)
        )


def task_of(repo, rows, base, *, replaces=None, every=5):
    stores = repo.stores
    keys = sorted(each["path"].encode() for each in rows)
    cutter = Cutter(SPLITTING)
    first, last = keys[0], keys[-1]
    if replaces is not None:
        first, last = min(first, replaces), max(last, replaces + b"\xff")
    candidates = [key for key in keys if cutter.hard(key, None)]
    cut = Cut.of(stores.ranges, base, SPLITTING, (first, last), candidates, every)
    return SliceTask(stores.objects, cut, LinkRules.of(stores), replaces)


def run(task, number, rows):
    """Run the task of one slice from its pickle, as another process does; return its result."""
    (batch,) = pickle.loads(pickle.dumps(task))(batches(rows, number))
    return decoded([tuple(each.values()) for each in batch.to_pylist()])


def by_slice(task, rows):
    parts: list[list[dict[str, object]]] = [[] for _ in range(task.cut.slices)]
    for each in rows:
        parts[bisect_left(task.cut.breaks, each["path"].encode())].append(each)
    return parts


def tree_of(repo, task, rows):
    slices = [run(task, number, part) for number, part in enumerate(by_slice(task, rows))]
    return stitch(repo.stores.ranges, task.cut, [each.part for each in slices])


def imported(branch, rows, folder, prefix="", **options):
    """Import rows in one process, and commit them."""
    file = folder / "rows.csv"
    lines = [f"{each['path']},{each['address']},{each['size']},{each['etag']}" for each in rows]
    file.write_text("\n".join(["path,address,size,etag", *lines]))
    branch.import_(str(file), prefix, **options)
    return branch.commit("alone").metarange


def by_one_process(repo, rows, folder, **options):
    return imported(repo.create_branch("alone", source="main"), rows, folder, **options)


def test_tasks_give_the_tree_of_one_process(repo, tmp_path):
    rows = many(900)
    task = task_of(repo, rows, repo.branch("main").head.metarange)
    assert task.cut.slices > 5
    assert tree_of(repo, task, rows).metarange == by_one_process(repo, rows, tmp_path)


def test_what_is_replaced_is_what_one_process_replaces(repo, tmp_path):
    main = repo.branch("main")
    base = imported(main, [*many(900), row("t1/zzz"), row("a"), row("u")], tmp_path)
    rows = [each for each in many(1_200)[150:] if each["path"].startswith("t1/")]
    task = task_of(repo, rows, base, replaces=b"t1/", every=2)
    assert task.cut.slices > 3
    inside = [{**each, "path": each["path"].removeprefix("t1/")} for each in rows]
    alone = by_one_process(repo, inside, tmp_path, prefix="t1/", replace=True)
    applied = tree_of(repo, task, rows)
    assert applied.metarange == alone
    assert applied.tally.removed == 51


class FailingStore(LocalStore):
    """A store that puts three objects and fails, also after it is unpickled."""

    def __reduce__(self):
        return FailingStore, (self._folder,)

    def put_all_if_absent(self, items):
        super().put_all_if_absent(items[:3])
        raise BackendUnavailableError("killed")


def test_a_task_that_was_killed_half_way_is_repeated(repo, tmp_path):
    rows = many(800)
    base = repo.branch("main").head.metarange
    task = task_of(repo, rows, base, every=10**6)
    root = Path(repo.stores.objects.root.removeprefix("file://"))
    failing = SliceTask(FailingStore(root), task.cut, task.rules, None)
    with pytest.raises(BackendUnavailableError, match="killed"):
        run(failing, 0, rows)
    done = run(task, 0, rows)
    assert len(done.found) == 3
    assert stitch(repo.stores.ranges, task.cut, [done.part]).metarange == by_one_process(
        repo, rows, tmp_path
    )


def test_a_task_knows_nothing_of_the_key_value_store(repo):
    sent = pickle.dumps(task_of(repo, many(50), repo.branch("main").head.metarange))
    assert b"sqlite" not in sent
    assert b"graveler.kv" not in sent


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ([row("a"), row("b"), row("a", address="s3://bucket/data/x")], "path 'a' is in two rows"),
        ([row(None)], "row of address 's3://bucket/data/None' has no path"),
        ([row("a", size=None)], "row of path 'a': size None"),
        ([row("a", etag=None)], "row of path 'a': .* has no etag"),
        ([row("a", address="s3://other/a")], "row of path 'a': .* lies in no place"),
        ([row("a/../b")], "row of path 'a/../b'"),
        ([row("a", address="s3://bucket/data/")], "names a folder"),
    ],
)
def test_a_row_that_makes_no_sense_is_named(repo, wrong, told):
    task = task_of(repo, many(50), repo.branch("main").head.metarange)
    with pytest.raises(GravelerError, match=told):
        run(task, 0, wrong)


def no_build(base):
    raise AssertionError(f"the tree {base} is built")


def test_an_import_lands_on_the_head_that_moved_meanwhile(repo, tmp_path):
    rows, main = many(400), repo.branch("main")
    bases: list[str] = []

    def build(base):
        if not bases:
            other = main.put("other", b"1")
            main.commit("other")
            assert other.path == "other"
        bases.append(base)
        return tree_of(repo, task_of(repo, rows, base), rows)

    made = land_tree(repo.stores, "main", CommitSpec("bulk"), build, prefix=b"t")
    assert len(bases) == 2
    assert main.head == made
    assert len(list(main.entries())) == 401
    assert [commit.message for commit in repo.log("main", limit=2)] == ["bulk", "other"]


def test_staged_writes_below_the_folder_are_refused(repo):
    main = repo.branch("main")
    main.put("u/elsewhere", b"1")
    main.put("t0/here", b"1")
    before = main.head
    with pytest.raises(StateError, match="staged write of 't0/here'"):
        land_tree(repo.stores, "main", CommitSpec("bulk"), no_build, prefix=b"t0/")
    assert main.head == before


def test_an_import_without_changes_makes_no_commit(repo):
    rows, main = many(200), repo.branch("main")

    def build(base):
        return tree_of(repo, task_of(repo, rows, base), rows)

    made = land_tree(repo.stores, "main", CommitSpec("bulk"), build, prefix=b"")
    with pytest.raises(NoChangesError, match="has all of the import"):
        land_tree(repo.stores, "main", CommitSpec("again"), build, prefix=b"")
    assert main.head == made
