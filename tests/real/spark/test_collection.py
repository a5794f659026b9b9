"""Spark collects garbage as one process does."""

from datetime import timedelta

import pytest

from graveler import spark as gspark
from graveler.committed import Splitting
from graveler.committed.metarange import read
from graveler.errors import CorruptionError, InvalidInputError
from tests.harness.gc_lakes import check_sound

NOW = timedelta(0)
SMALL = Splitting(raggedness=8)


@pytest.fixture
def history(lake):
    """Commits of many ranges, a lost branch, borrowed bytes, writes that are staged and a run."""
    repo = lake.create_repository("flights", splitting=SMALL)
    main = repo.branch("main")
    for day in range(3):
        for part in range(30):
            main.put(f"day={day}/part-{part}", f"{day} {part}".encode())
        main.commit(f"day {day}")
    main.link("borrowed", address=next(iter(main.entries())).address)
    main.delete("day=0/part-0")
    main.commit("borrow")
    side = repo.create_branch("side", source="main")
    side.put("day=1/part-3", b"side")
    side.commit("side")
    repo.delete_branch("side")
    main.put("staged", b"staged")
    with repo.runs.open("hour").step("first") as work:
        work.put("run", b"run")
    repo.gc.keep("main", count=1)
    return repo


def test_spark_marks_and_sweeps_what_one_process_does(spark, history):
    seen = check_sound(history)
    by_spark = gspark.collector(history, spark, method="spark")
    alone = history.gc.mark(grace=NOW, window=NOW, dry_run=True)
    assert alone.condemned["data"].count == 1
    for _ in range(2):  # reads ranges, then their lists
        mark = by_spark.mark(grace=NOW, window=NOW, dry_run=True)
        assert (mark.condemned, mark.kept) == (alone.condemned, alone.kept)
    swept = by_spark.run(grace=NOW, window=NOW)[0]
    assert swept.freed == alone.condemned
    assert check_sound(history) == seen
    few = gspark.attach(history, spark).gc.mark(grace=NOW, window=NOW, dry_run=True)
    assert not any(tally.count for tally in few.condemned.values())
    with pytest.raises(InvalidInputError, match="method='cluster'"):
        gspark.collector(history, spark, method="cluster")
    lost = read(history.stores.ranges, history.branch("main").head.metarange)[0].id
    history.stores.objects.delete(history.stores.ranges.key(lost))
    with pytest.raises(CorruptionError, match=f"{lost.hex()} of a kept commit is missing"):
        by_spark.mark(grace=NOW)
