"""Collection beside bulk imports, whose tables come from processes without a key-value store."""

import pyarrow as pa
import pytest

from graveler.committed.slices import Cut, stitch
from graveler.gc.marks import Kind
from graveler.publishing.landing import CommitSpec
from graveler.repository.imports.tasks import KEY, SliceTask, land_tree
from graveler.repository.writes.links import LinkRules
from tests.harness.gc_lakes import NOW, check_sound, collect, counts, keys

PATHS = [f"bulk/{number:03}" for number in range(60)]


@pytest.fixture
def linked(repo):
    repo.links.allow("s3://bucket/data")
    return repo


def sliced(repo, base):
    """Return the cut and the result of a task on it."""
    first, last = PATHS[0].encode(), PATHS[-1].encode()
    cut = Cut.of(repo.stores.ranges, base, repo.stores.splitting, (first, last), [])
    rows = {
        KEY: pa.array([path.encode() for path in PATHS], pa.binary()),
        "address": [f"s3://bucket/data/{path}" for path in PATHS],
        "size": [1] * len(PATHS),
        "etag": ["1"] * len(PATHS),
    }
    task = SliceTask(repo.stores.objects, cut, LinkRules.of(repo.stores), None)
    return cut, task.run(0, pa.table(rows))


def test_what_a_dead_import_leaves_is_collected(linked):
    before, seen = keys(linked), check_sound(linked)
    cut, done = sliced(linked, linked.branch("main").head.metarange)
    stitch(linked.stores.ranges, cut, [done.part])  # the driver dies before it commits
    left = keys(linked) - before
    assert len(left) == len(done.part.infos) + 1  # the tree is one more table
    assert counts(collect(linked).freed) == {"ranges": len(left)}
    assert (keys(linked), check_sound(linked)) == (before, seen)


def test_a_table_that_an_import_takes_over_is_not_collected(linked):
    sliced(linked, linked.branch("main").head.metarange)  # left by a dead import
    mark = linked.gc.mark(grace=NOW, window=NOW)
    assert mark.condemned[Kind.RANGES].count

    def build(base):
        cut, done = sliced(linked, base)
        assert done.found == {info.id for info in done.part.infos}
        assert all(map(linked.stores.ranges.keep_found, done.found))
        return stitch(linked.stores.ranges, cut, [done.part])

    land_tree(linked.stores, "main", CommitSpec("bulk"), build, prefix=b"bulk/")
    assert counts(linked.gc.sweep(mark.id).freed) == {}
    assert len(list(linked.branch("main").entries("bulk/"))) == len(PATHS)


def test_a_table_that_was_deleted_meanwhile_is_told(linked):
    base = linked.branch("main").head.metarange
    sliced(linked, base)
    _, again = sliced(linked, base)
    collect(linked)
    assert not any(map(linked.stores.ranges.keep_found, again.found))
    _, third = sliced(linked, base)
    assert third.found == set()
