"""Large commits by tasks of a real Spark."""

import pytest

import graveler
from graveler import spark as gs
from graveler.committed.splitting import Splitting
from graveler.errors import NoChangesError
from graveler.testing.world import link_unseen

SMALL = {
    "hash": Splitting("hash", max_bytes=3_000, raggedness=5, hard=4),
    "directory": Splitting("directory", max_bytes=4_000, raggedness=4, hard=4, number=7),
}


def stage(branch, numbers, size):
    entries = (
        graveler.Entry(f"d{number % 7}/{number:05}-é", f"data/{number}", size) for number in numbers
    )
    link_unseen(branch, entries)


@pytest.mark.parametrize("policy", sorted(SMALL))
def test_a_commit_by_tasks_is_that_of_one_process(spark, tmp_path, policy):
    with graveler.open(tmp_path / "lake", create=True) as lake:
        repo = lake.create_repository("sales", splitting=SMALL[policy])
        main = repo.branch("main")
        other = repo.create_branch("other")
        for step, numbers in enumerate((range(3_000), range(0, 4_000, 9), range(5_000, 5_001))):
            for branch in (main, other):
                stage(branch, numbers, step)
                branch.delete_many([f"d{n % 7}/{n:05}-é" for n in range(step, 3_000, 11)])
            done = gs.commit(main, f"{step}", method="spark", share_bytes=20_000, spark=spark)
            alone = other.commit(f"{step}")
            assert done.metarange == alone.metarange
            assert main.head == done
        with pytest.raises(NoChangesError):
            gs.commit(main, "nothing")
        assert gs.commit(main, "empty", allow_empty=True, committer="ann").committer == "ann"
        # small enough for one process
        stage(main, [1], 9)
        assert gs.commit(main, "small").message == "small"
