"""A collection by Spark has the result of a collection by one process."""

from datetime import timedelta

import pytest

from graveler import spark as gspark
from graveler.committed.metarange import read
from graveler.committed.splitting import Splitting
from graveler.errors import CorruptionError, InvalidInputError
from tests.harness.gc_lakes import check_sound

NOW = timedelta(0)
SMALL = Splitting(raggedness=8)


@pytest.fixture
def history(lake):
    """Commits of many ranges, a lost branch, borrowed bytes, staged writes and a run."""
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
    # no clean-up between two marks, which would make them differ
    repo.stores.staging.background.close()
    return repo


def test_spark_marks_and_sweeps_what_one_process_does(spark, history):
    seen = check_sound(history)
    by_spark = gspark.collector(history, spark, method="spark")
    alone = history.gc.mark(grace=NOW, window=NOW, dry_run=True)
    assert alone.condemned["data"].count == 1
    for _ in range(2):  # first it reads ranges, then their lists
        mark = by_spark.mark(grace=NOW, window=NOW, dry_run=True)
        assert (mark.condemned, mark.kept) == (alone.condemned, alone.kept)
    swept = by_spark.run(grace=NOW, window=NOW)[0]
    assert swept.freed == alone.condemned
    assert check_sound(history) == seen
    few = gspark.collector(history, spark).mark(grace=NOW, window=NOW, dry_run=True)
    assert not any(tally.count for tally in few.condemned.values())
    with pytest.raises(InvalidInputError, match="method='cluster'"):
        gspark.collector(history, spark, method="cluster")
    told = []
    for lost in read(history.stores.ranges, history.branch("main").head.metarange):
        history.stores.objects.delete(history.stores.ranges.key(lost.id))
    for collector in (history.gc, by_spark):
        with pytest.raises(CorruptionError, match="is missing") as raised:
            collector.mark(grace=NOW)
        told.append(str(raised.value))
    assert told[0] == told[1]


def test_spark_checks_a_repository_as_one_process_does(spark, history):
    main = history.branch("main")
    assert gspark.fsck(history, spark) == history.fsck()
    objects = history.stores.objects
    objects.delete(main.stat("borrowed").address)
    objects.put(main.stat("day=2/part-1").address, b"2 !")
    lost = read(history.stores.ranges, main.head.metarange)[3].id
    objects.delete(history.stores.ranges.key(lost))
    alone = history.fsck(objects="checksum")
    assert {problem.kind for problem in alone.problems} == {"range", "object"}
    assert gspark.fsck(history, spark, objects="checksum") == alone
    assert gspark.fsck(history, spark, objects="none") == history.fsck(objects="none")
    with pytest.raises(InvalidInputError, match="objects='some'"):
        gspark.fsck(history, spark, objects="some")  # type: ignore[arg-type]
