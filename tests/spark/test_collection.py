"""Collections whose ranges are read by tasks, without Spark: their marks, and what tasks get."""

import pickle
import random
from datetime import timedelta

import pyarrow as pa
import pytest

import graveler
from graveler.committed.metarange import read
from graveler.committed.splitting import Splitting
from graveler.errors import CorruptionError
from graveler.repository.imports.tasks import decode_fault
from graveler.spark.tasks.collection import AddressReader, AddressTask
from tests.harness.gc_lakes import NOW, check_sound

WINDOW = timedelta(days=1)


@pytest.fixture
def repo(tmp_path):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        yield lake.create_repository("flights", splitting=Splitting(raggedness=3))


class Tasks:
    """Reads ranges in pickled tasks, as in another process, the last range first."""

    def __init__(self):
        self.read = []
        self.kept = []

    def __call__(self, lists, ranges):
        rows = list(ranges)
        self.read += [info.id for info, kept in rows if not kept]
        self.kept += [info.id for info, kept in rows if kept]
        sent = pickle.dumps(AddressTask(lists))
        for secret in (b"kv", b"sqlite", b"refs"):  # tasks get no key-value store
            assert secret not in sent.lower()
        task = pickle.loads(sent)
        columns = [pa.array(range(len(rows)), pa.int64())]
        columns += [pa.array([info.id for info, _ in rows], pa.binary())]
        columns += [pa.array([kept for _, kept in rows], pa.bool_())]
        table = pa.table(columns, ["number", "id", "kept"])
        batches = table.take(list(range(len(rows)))[::-1]).to_batches()
        found = [row for batch in task(iter(batches)) for row in batch.to_pylist()]
        for row in sorted(found, key=lambda row: row["address"]):
            if row["fault"] is not None:
                raise decode_fault(row["fault"])
            yield row["address"]


def grow(repo, seed):
    """Make a history of commits, links to existing bytes, lost branches, staged writes and runs."""
    random_ = random.Random(seed)
    main = repo.branch("main")
    for step in range(12):
        for _ in range(random_.randrange(1, 6)):
            main.put(f"{random_.randrange(40):02}", f"{step} {random_.random()}".encode())
        main.commit(f"step {step}")
        if random_.random() < 0.4:
            side = repo.create_branch(f"side-{step}", source="main")
            side.put("side", f"{step}".encode())
            borrowed = next(iter(main.entries()))
            side.link("borrowed", address=borrowed.address)
            side.commit("side")
            if random_.random() < 0.7:
                repo.delete_branch(side.name)
    if random_.random() < 0.7:
        old = next(iter(repo.ref("main~8").entries()))
        main.link("staged", address=old.address)
        main.put("staged too", b"1")
    run = repo.runs.open("hour")
    with run.step("first") as work:
        work.put("run", b"run")
    repo.gc.keep("main", count=random_.randrange(1, 6))
    repo.stores.objects.put("data/lost", b"lost")
    # no clean-up between two marks, which would make them differ
    repo.stores.staging.background.close()


def marked(repo, mark):
    """Return the content of a mark and its stored pages; undo the mark."""
    pages = {
        info.key.rpartition("/")[2]: repo.stores.objects.get(info.key)
        for info in repo.stores.objects.list(f"_graveler/gc/{repo.stores.uid}/{mark.id}/")
    }
    repo.gc.undelete(mark.id)
    return mark.condemned, mark.kept, mark.tokens, mark.unknown_keys, mark.pages, pages


@pytest.mark.parametrize("seed", range(2))
def test_tasks_mark_what_one_process_marks(repo, seed):
    grow(repo, seed)
    seen = check_sound(repo)
    alone = marked(repo, repo.gc.mark(grace=NOW, window=WINDOW))
    assert alone[0]["data"].count
    tasks = Tasks()
    collector = repo.gc.reading(tasks)
    assert marked(repo, collector.mark(grace=NOW, window=WINDOW)) == alone
    assert tasks.read
    assert len(set(tasks.read)) == len(tasks.read)
    assert not tasks.kept
    first, tasks.read = tasks.read, []
    assert marked(repo, collector.mark(grace=NOW, window=WINDOW)) == alone
    assert (tasks.kept, tasks.read) == (first, [])
    dry = repo.gc.mark(grace=NOW, window=NOW, dry_run=True)
    (done,) = collector.run(grace=NOW, window=NOW)
    assert done.freed == dry.condemned
    assert check_sound(repo) == seen
    assert not any(counted.count for counted in repo.gc.mark(grace=NOW).condemned.values())
    for method in ("auto", "process"):  # few entries need no Spark
        assert repo.gc.reading(AddressReader(None, method)).mark(grace=NOW, dry_run=True)


def listed(repo):
    """Return the ranges whose lists are stored."""
    lists = f"_graveler/gc/{repo.stores.uid}/addresses/"
    return {info.key.rpartition("/")[2] for info in repo.stores.objects.list(lists)}


def test_only_new_ranges_are_read_and_old_lists_go(repo):
    grow(repo, 0)
    tasks = Tasks()
    collector = repo.gc.reading(tasks)
    collector.run(grace=NOW, window=NOW)
    before = listed(repo)
    dev = repo.create_branch("dev", source="main")
    dev.put("05", b"new")
    dev.commit("new")
    tasks.read, tasks.kept = [], []
    collector.run(grace=NOW, window=NOW)
    assert {identifier.hex() for identifier in tasks.read} == listed(repo) - before
    assert 0 < len(set(tasks.read)) < len(set(tasks.kept))
    repo.delete_branch("dev")
    for _ in range(2):  # the first mark without a range removes the range's list
        collector.run(grace=NOW, window=NOW)
    assert listed(repo) == before


@pytest.mark.parametrize("body", [b"", b'{"format":1}', b"other"])
def test_a_damaged_list_is_written_again(repo, body):
    grow(repo, 1)
    tasks = Tasks()
    collector = repo.gc.reading(tasks)
    alone = marked(repo, repo.gc.mark(grace=NOW, window=WINDOW))
    assert marked(repo, collector.mark(grace=NOW, window=WINDOW)) == alone
    objects = repo.stores.objects
    lists = list(objects.list(f"_graveler/gc/{repo.stores.uid}/addresses/"))
    whole = {info.key: objects.get(info.key) for info in lists}
    for (key, mine), other in zip(whole.items(), [*list(whole.values())[1:], b""], strict=True):
        objects.put(key, other if body == b"other" else body or mine[:-9])
    assert marked(repo, collector.mark(grace=NOW, window=WINDOW)) == alone
    assert {key: objects.get(key) for key in whole} == whole


@pytest.mark.parametrize("listed", [False, True])
def test_a_range_that_is_gone_stops_the_mark(repo, listed):
    grow(repo, 2)
    collector = repo.gc.reading(Tasks())
    if listed:
        collector.mark(grace=NOW, window=WINDOW)
    infos = read(repo.stores.ranges, repo.branch("main").head.metarange)
    told = []
    for lost in (infos[-1], *infos[:3]):
        repo.stores.objects.delete(repo.stores.ranges.key(lost.id))
        for each in (repo.gc, collector):
            with pytest.raises(CorruptionError, match="is missing") as raised:
                each.mark(grace=NOW, window=WINDOW)
            told.append(str(raised.value))
    assert told[::2] == told[1::2]
    assert len(set(told)) > 1
